use std::sync::atomic::AtomicI64;

use jiff::Timestamp;
use playhouse_protocol::{ApiProtocol, Message};

use super::frame_writer::frames;
use super::*;
use crate::aws::test_server::{ReceivedRequest, Server, is_signed, reply};
use crate::provider::StreamProvider;
use crate::sink::StreamSink;
use crate::testing::config;

const PROFILE: &str =
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "IQoJb3JpZ2luX2VjEXAMPLETOKEN//////////==";
const NOW: i64 = 1_790_000_000;
const STREAM: &str = "content-type: application/vnd.amazon.eventstream\r\n";

fn model(base_url: Option<&str>) -> ModelConfig {
    ModelConfig {
        base_url: base_url.map(str::to_owned),
        region: Some("us-east-1".to_owned()),
        ..ModelConfig::new("bedrock", ApiProtocol::BedrockConverse, PROFILE)
    }
}

fn variables() -> Vec<(&'static str, &'static str)> {
    vec![("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", TOKEN)]
}

fn connected(model: &ModelConfig, variables: &[(&str, &str)]) -> Result<Service, SetupError> {
    let clock = Clock::at(Arc::new(AtomicI64::new(NOW)));
    connect_in(model, &Wiring::default(), Environment::of(variables), clock)
}

fn turn(model: ModelConfig) -> StreamConfig {
    StreamConfig { model_config: Arc::new(model), ..config("hi") }
}

async fn ask(server: &Server) -> Result<Message, ProviderError> {
    let model = model(Some(&server.url));
    let service = connected(&model, &variables()).unwrap();
    service.stream(&turn(model), &StreamSink::discard()).await
}

fn text() -> Vec<u8> {
    frames(include_str!("../../tests/fixtures/bedrock/text.jsonl")).concat()
}

#[tokio::test]
async fn a_request_is_signed_as_the_specification_says() {
    let server = Server::start(|_| reply("200 OK", STREAM, text())).await;
    let message = ask(&server).await.unwrap();
    assert_eq!(message.text(), "Hello, world!");
    let seen: &ReceivedRequest = &server.seen()[0];
    assert_eq!(
        seen.target,
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2F\
         us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    );
    is_signed(seen, "AKIAIOSFODNN7EXAMPLE", SECRET, "us-east-1/bedrock").unwrap();
    assert_eq!(seen.header("x-amz-date"), Some("20260921T141320Z"));
    assert_eq!(seen.header("x-amz-security-token"), Some(TOKEN));
    assert_eq!(seen.header("accept"), Some("application/vnd.amazon.eventstream"));
    let signed = seen.header("authorization").unwrap();
    assert!(signed.contains("SignedHeaders=accept;content-type;host;x-amz-date;x-amz-security-token"), "{signed}");
    // The secret itself is nowhere, and the check is one: another secret does not pass it.
    assert!(!format!("{seen:?}").contains(SECRET));
    assert!(is_signed(seen, "AKIAIOSFODNN7EXAMPLE", "another", "us-east-1/bedrock").is_err());
}

#[tokio::test]
async fn f52_the_vault_learns_what_the_chain_finds() {
    let server = Server::start(|_| reply("200 OK", STREAM, text())).await;
    let model = model(Some(&server.url));
    let (wiring, clock) = (Wiring::default(), Clock::at(Arc::new(AtomicI64::new(NOW))));
    let service = connect_in(&model, &wiring, Environment::of(&variables()), clock).unwrap();
    service.stream(&turn(model), &StreamSink::discard()).await.unwrap();
    let clean = wiring.vault.secrets().redact(&format!("{SECRET} {TOKEN}")).into_owned();
    assert_eq!(clean, "[secret:AWS_SECRET_ACCESS_KEY] [secret:AWS_SESSION_TOKEN]");
}

#[tokio::test]
async fn tokens_are_counted_by_the_service() {
    let server =
        Server::start(|_| reply("200 OK", "content-type: application/json\r\n", r#"{"inputTokens":42}"#)).await;
    let model = model(Some(&server.url));
    let service = connected(&model, &variables()).unwrap();
    assert_eq!(service.count_tokens(&turn(model)).await, Ok(Some(42)));
    let seen = &server.seen()[0];
    assert!(seen.target.ends_with("/count-tokens"));
    is_signed(seen, "AKIAIOSFODNN7EXAMPLE", SECRET, "us-east-1/bedrock").unwrap();
}

#[tokio::test]
async fn f52_a_refusal_with_another_time_names_the_clock_and_shows_no_secret() {
    let server = Server::start(|_| {
        // 10 min 40 s ahead of the test's clock.
        let headers =
            "date: Mon, 21 Sep 2026 14:24:00 GMT\r\nx-amzn-errortype: InvalidSignatureException:http://x/\r\n";
        reply("403 Forbidden", headers, format!(r#"{{"message":"The signature with {SECRET} and {TOKEN} is bad"}}"#))
    })
    .await;
    let error = ask(&server).await.unwrap_err();
    let ProviderError::Auth { message } = &error else { panic!("{error:?}") };
    assert!(message.contains("clock is 10 min behind") && message.contains("set the clock"), "{message}");
    assert!(!message.contains(SECRET) && !message.contains(TOKEN), "{message}");
}

#[tokio::test]
async fn credentials_that_are_missing_are_no_request() {
    let server = Server::start(|_| reply("200 OK", STREAM, text())).await;
    let model = model(Some(&server.url));
    let service = connected(&model, &[("AWS_EC2_METADATA_DISABLED", "true")]).unwrap();
    let error = service.stream(&turn(model), &StreamSink::discard()).await.unwrap_err();
    assert!(error.to_string().starts_with("no AWS credentials were found"), "{error}");
    assert!(server.seen().is_empty());
}

#[test]
fn the_region_comes_from_the_model_the_environment_or_the_profile() {
    let none = ModelConfig { region: None, ..model(None) };
    let place = |model: &ModelConfig, variables: &[(&str, &str)]| format!("{:?}", connected(model, variables).unwrap());
    assert!(place(&model(None), &[("AWS_REGION", "x")]).contains("https://bedrock-runtime.us-east-1.amazonaws.com"));
    let both = [("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "eu-west-2")];
    assert!(place(&none, &both).contains("bedrock-runtime.eu-west-1."));
    assert!(place(&none, &both[1..]).contains("bedrock-runtime.eu-west-2."));
    assert!(place(&none, &[("AWS_REGION", "cn-north-1")]).contains("cn-north-1.amazonaws.com.cn"));
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/config"), "[profile p]\nregion = ap-south-1\n").unwrap();
    let home = home.path().display().to_string();
    assert!(place(&none, &[("HOME", &home), ("AWS_PROFILE", "p")]).contains("bedrock-runtime.ap-south-1."));

    let refused = connected(&none, &[]).unwrap_err().to_string();
    assert!(refused.contains("AWS_REGION"), "{refused}");
    let sly = ModelConfig { region: Some("evil.example/".to_owned()), ..model(None) };
    assert!(connected(&sly, &[]).is_err());
    // A key at an address of one's own needs none.
    let own =
        ModelConfig { api_key: Some(Secret::new("key")), base_url: Some("http://127.0.0.1:9".to_owned()), ..none };
    assert!(connected(&own, &[]).is_ok());
}

#[test]
fn an_aws_secret_is_never_a_bearer() {
    let with = |key: &str| ModelConfig { api_key: Some(Secret::new(key)), ..model(None) };
    for key in [SECRET, "AKIAIOSFODNN7EXAMPLE", TOKEN] {
        let refused = connected(&with(key), &variables()).unwrap_err();
        assert!(matches!(refused, SetupError::BadCredentials { .. }), "{refused:?}");
        assert!(!format!("{refused} {refused:?}").contains(key));
    }
    assert!(connected(&with(SECRET), &[]).is_err(), "by its looks alone");
    let named = ModelConfig { key_variable: Some("AWS_SECRET_ACCESS_KEY".to_owned()), ..with("x") };
    assert!(connected(&named, &[]).is_err());
    assert!(connected(&with("ABSKQmVkcm9ja0FQSUtleS0xMjM0NTY3ODkwYWJjZGVmZ2hpamts"), &variables()).is_ok());
}

#[tokio::test]
async fn a_bedrock_key_in_its_variable_comes_before_signing() {
    let server = Server::start(|_| reply("200 OK", STREAM, text())).await;
    let model = model(Some(&server.url));
    let mut variables = variables();
    variables.push(("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-abc"));
    let service = connected(&model, &variables).unwrap();
    service.stream(&turn(model), &StreamSink::discard()).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.header("authorization"), Some("Bearer bedrock-api-key-abc"));
    assert_eq!((seen.header("x-amz-date"), seen.header("x-amz-security-token")), (None, None));
}

#[test]
fn the_clock_of_these_tests_is_where_they_think() {
    assert_eq!(Timestamp::from_second(NOW).unwrap().to_string(), "2026-09-21T14:13:20Z");
}
