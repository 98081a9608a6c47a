use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use playhouse_protocol::{ApiProtocol, Secret, StreamConfig};
use serde_json::json;

use super::super::adc::tests::{ReceivedRequest, Server, service_account};
use super::*;
use crate::provider::StreamProvider;
use crate::sink::StreamSink;

const TEXT: &str = include_str!("../../tests/fixtures/gemini/text.sse");

fn model() -> ModelConfig {
    ModelConfig::new("google-vertex", ApiProtocol::GoogleVertex, "gemini-2.5-flash")
}

fn connected(model: &ModelConfig, environment: &Environment) -> Result<Service, SetupError> {
    connect_in(model, &Wiring::default(), environment, Arc::new(|| 0))
}

fn with_token() -> Environment {
    Environment { token: Some(Secret::new("t0ken")), ..Environment::default() }
}

#[test]
fn a_region_has_its_host() {
    assert_eq!(host("global").unwrap(), "https://aiplatform.googleapis.com");
    assert_eq!(host("europe-west4").unwrap(), "https://europe-west4-aiplatform.googleapis.com");
    assert_eq!(host("eu").unwrap(), "https://aiplatform.eu.rep.googleapis.com");
    for bad in ["", "evil.example/", "US", "a b", "é"] {
        assert!(matches!(host(bad), Err(SetupError::BadBaseUrl { .. })), "{bad}");
    }
}

#[test]
fn a_model_is_asked_for_in_its_project_and_region() {
    let place = CloudLocation::new("acme", "global");
    let url = |id: &str| {
        place.url(&ModelConfig { id: id.into(), ..model() }, "countTokens").map(|url| url.to_string()).unwrap()
    };
    let at = "https://aiplatform.googleapis.com/v1/projects/acme/locations/global";
    assert_eq!(url("gemini-2.5-pro"), format!("{at}/publishers/google/models/gemini-2.5-pro:countTokens"));
    assert_eq!(url("models/g?x"), format!("{at}/publishers/google/models/g%3Fx:countTokens"));
    assert_eq!(url("publishers/other/models/m"), format!("{at}/publishers/other/models/m:countTokens"));
    assert_eq!(url("other/m"), format!("{at}/publishers/other/models/m:countTokens"));
    assert_eq!(url("endpoints/7"), format!("{at}/endpoints/7:countTokens"));
    let whole = "projects/p/locations/l/endpoints/7";
    assert_eq!(url(whole), format!("https://aiplatform.googleapis.com/v1/{whole}:countTokens"));
    for id in ["", "a/b/c", "projects/../x", "publishers//models/x"] {
        assert!(place.url(&ModelConfig { id: id.into(), ..model() }, "countTokens").is_err(), "{id}");
    }
    let elsewhere = ModelConfig { region: Some("us-east5".into()), project: Some("other:p".into()), ..model() };
    assert_eq!(
        place.url(&elsewhere, "streamGenerateContent?alt=sse").unwrap().as_str(),
        "https://us-east5-aiplatform.googleapis.com/v1/projects/other%3Ap/locations/us-east5/publishers/google/models/\
         gemini-2.5-flash:streamGenerateContent?alt=sse"
    );
}

#[test]
fn a_project_is_needed_and_found() {
    let refused = connected(&model(), &with_token()).unwrap_err();
    assert!(refused.to_string().contains("GOOGLE_CLOUD_PROJECT"), "{refused}");
    let blank = ModelConfig { project: Some(" ".into()), ..model() };
    assert!(matches!(connected(&blank, &with_token()), Err(SetupError::Missing { .. })));
    assert!(connected(&model(), &Environment { project: Some("acme".into()), ..with_token() }).is_ok());
    assert!(connected(&ModelConfig { project: Some("acme".into()), ..model() }, &with_token()).is_ok());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, service_account("http://127.0.0.1:1").to_string()).unwrap();
    let from_file = Environment { credentials_file: Some(path), ..Environment::default() };
    assert!(connected(&model(), &from_file).is_ok(), "the key says whose it is");
}

#[test]
fn f52_a_token_or_key_file_is_in_no_debug_output_and_no_error() {
    let model = ModelConfig { project: Some("acme".into()), ..model() };
    let token = |text: &str| Environment { token: Some(Secret::new(text)), ..Environment::default() };
    let service = connected(&model, &token("ya29.canary")).unwrap();
    assert!(!format!("{service:?} {:?}", token("ya29.canary")).contains("canary"));
    let refused = connected(&model, &token("canary\n1")).unwrap_err();
    assert!(matches!(refused, SetupError::BadKey { .. }) && !format!("{refused} {refused:?}").contains("canary"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, r#"{"type": {"canary": 1}}"#).unwrap();
    let refused =
        connected(&model, &Environment { credentials_file: Some(path), ..Environment::default() }).unwrap_err();
    assert!(refused.to_string().contains("key.json"), "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("canary"));
}

#[tokio::test]
async fn a_turn_with_application_default_credentials_from_file_to_answer() {
    let server = Server::start(|asked: &ReceivedRequest| {
        if asked.head.starts_with("POST /token ") {
            let body = json!({"access_token": format!("ya29.canary-{}", asked.number), "expires_in": 3600});
            return (200, "content-type: application/json\r\n".into(), body.to_string());
        }
        match asked.number {
            // The first token is refused, and sent back by a service that should not.
            1 => (
                401,
                String::new(),
                json!({"error": {"code": 401, "message": "ya29.canary-0", "status": "UNAUTHENTICATED"}}).to_string(),
            ),
            _ => (200, "content-type: text/event-stream\r\n".into(), TEXT.to_owned()),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, service_account(&server.base).to_string()).unwrap();
    let environment = Environment {
        credentials_file: Some(path),
        quota_project: Some("payer".into()),
        region: Some("europe-west4".into()),
        ..Environment::default()
    };
    let model = ModelConfig { base_url: Some(server.base.clone()), ..model() };
    let time = Arc::new(AtomicU64::new(5));
    let clock = time.clone();
    let wiring = Wiring::default();
    let service = connect_in(&model, &wiring, &environment, Arc::new(move || clock.load(Ordering::SeqCst))).unwrap();
    let config = StreamConfig { model_config: Arc::new(model), ..crate::testing::config("hi") };
    let ask = || async {
        let sink = StreamSink::discard();
        tokio::time::timeout(Duration::from_secs(60), service.stream(&config, &sink)).await.unwrap()
    };
    let error = ask().await.unwrap_err();
    assert!(matches!(error, ProviderError::Auth { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    assert_eq!(service.refresh().await, Ok(true));
    assert_eq!(ask().await.unwrap().text(), "Grüße، مرحبا! 😀\n\"quoted\" <b> \\ café 🚀");
    let head = server.last().head;
    let path =
        "/v1/projects/acme/locations/europe-west4/publishers/google/models/gemini-2.5-flash:streamGenerateContent";
    assert!(head.starts_with(&format!("POST {path}?alt=sse HTTP/1.1\r\n")), "{head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("authorization: bearer ya29.canary-2\r\n"), "{head}");
    assert!(head.contains("x-goog-user-project: payer"), "{head}");
    assert!(!head.contains("x-goog-api-key"), "{head}");
    ask().await.unwrap();
    assert_eq!(server.count(), 5, "the token is kept");
    // The key file and the tokens are known from here on.
    let key = service_account("x")["private_key"].as_str().unwrap().to_owned();
    let line = key.lines().nth(1).unwrap();
    let clean = wiring.vault.secrets().redact(&format!("{line} ya29.canary-2")).into_owned();
    assert_eq!(clean, "[secret:google] [secret:google]");
}

#[tokio::test]
async fn a_service_on_this_machine_needs_nobody_to_vouch_for_it() {
    let server =
        Server::start(|_: &ReceivedRequest| (200, "content-type: text/event-stream\r\n".into(), TEXT.to_owned())).await;
    let model = ModelConfig { base_url: Some(server.base.clone()), project: Some("p".into()), ..model() };
    let service = connected(&model, &Environment::default()).unwrap();
    let config = StreamConfig { model_config: Arc::new(model), ..crate::testing::config("hi") };
    service.stream(&config, &StreamSink::discard()).await.unwrap();
    assert!(!server.last().head.to_ascii_lowercase().contains("authorization"));
}
