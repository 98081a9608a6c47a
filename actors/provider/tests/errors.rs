//! What a person is told when a service says no, against a real server on loopback.

mod support;

use std::sync::Arc;

use playhouse_protocol::{ApiProtocol, CallReport, Message, ModelConfig, ProviderError, Secret};
use playhouse_provider::{StreamProvider, StreamSink, Wiring, preset, provider_for};
use support::{Bench, Server, quick, soon};

const KEY: &str = "sk-canary-0123456789";

/// A model of this preset at the server, with its key from the preset's variable.
fn model(provider: &str, id: &str, base_url: &str) -> ModelConfig {
    ModelConfig {
        base_url: Some(base_url.to_owned()),
        api_key: Some(Secret::new(KEY)),
        ..preset(provider).unwrap().model(id, |_| None)
    }
}

fn service(model: &ModelConfig) -> Arc<dyn StreamProvider> {
    provider_for(model, &Wiring::default()).unwrap()
}

async fn ask(model: &ModelConfig) -> Result<Message, ProviderError> {
    soon(service(model).stream(&support::config(model.clone()), &StreamSink::discard())).await
}

/// What is said of an answer with this status and body.
async fn told(provider: &str, id: &str, status: &'static str, header: &'static str, body: &'static str) -> String {
    let server = Server::start(move |post| async move { post.plain(status, header, body).await }).await;
    let error = ask(&model(provider, id, server.base_url.trim_end_matches("/v1"))).await.unwrap_err();
    let text = error.to_string();
    assert!(!format!("{error:?} {text}").contains("canary"), "{text}");
    text
}

#[tokio::test]
async fn f05_the_words_of_a_rate_limit_are_kept_and_hold_no_key() {
    let body = r#"{"error":{"message":"Rate limit reached for gpt-5 on requests per min (RPM): Limit 3. Key sk-canary-0123456789.",
        "type":"requests","code":"rate_limit_exceeded"}}"#;
    assert_eq!(
        told("openai", "gpt-5", "429 Too Many Requests", "retry-after: 7\r\n", body).await,
        "rate limited by the provider: HTTP 429: Rate limit reached for gpt-5 on requests per min (RPM): Limit 3. \
         Key ****. (rate_limit_exceeded); it asks to wait 7000 ms"
    );
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(
        told("anthropic", "claude-sonnet-4-5", "529 Overloaded", "", overloaded).await,
        "rate limited by the provider: HTTP 529: Overloaded (overloaded_error)"
    );
    let busy = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert_eq!(
        told("google", "gemini-2.5-flash", "503 Service Unavailable", "", busy).await,
        "rate limited by the provider: HTTP 503: The model is overloaded. (UNAVAILABLE)"
    );
    let plain = told("groq", "m", "503 Service Unavailable", "", "").await;
    assert_eq!(plain, "rate limited by the provider: HTTP 503");
}

#[tokio::test]
async fn an_account_without_credit_is_not_asked_again() {
    let daily = r#"{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED",
        "details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":
        [{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}"#;
    let cases = [
        (
            "openai",
            "429 Too Many Requests",
            r#"{"error":{"message":"You exceeded your current quota.","type":
            "insufficient_quota","code":"insufficient_quota"}}"#,
        ),
        (
            "openai-responses",
            "429 Too Many Requests",
            r#"{"error":{"message":"You exceeded your current quota.","type":
            "insufficient_quota","code":"insufficient_quota"}}"#,
        ),
        ("google", "429 Too Many Requests", daily),
        (
            "anthropic",
            "400 Bad Request",
            r#"{"type":"error","error":{"type":"invalid_request_error","message":
            "Your credit balance is too low to access the Anthropic API. You exceeded your current quota."}}"#,
        ),
        (
            "anthropic",
            "429 Too Many Requests",
            r#"{"type":"error","error":{"type":"billing_error","message":
            "You exceeded your current quota."}}"#,
        ),
    ];
    for (provider, status, body) in cases {
        let server = Server::start(move |post| async move { post.plain(status, "", body).await }).await;
        let model = model(provider, "m", server.base_url.trim_end_matches("/v1"));
        let mut bench = Bench::of(service(&model)).await;
        bench.start("c", support::config(model), quick());
        let CallReport::Failed { attempt: 0, error, .. } = bench.outcome().await else { panic!("{provider}") };
        let text = error.to_string();
        assert!(text.contains("no credit or quota left") && text.contains("exceeded your current quota"), "{text}");
        assert_eq!(server.posts(), 1, "{provider}");
    }
}

#[tokio::test]
async fn a_refused_key_is_named_by_its_variable() {
    for (provider, variable) in
        [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("groq", "GROQ_API_KEY")]
    {
        let text = told(provider, "m", "401 Unauthorized", "", r#"{"error":{"message":"Incorrect API key"}}"#).await;
        assert!(text.starts_with("the provider refused the key: HTTP 401: Incorrect API key"), "{text}");
        assert!(text.contains(&format!("it came from the environment variable {variable}")), "{text}");
    }
    let server = Server::start(|post| async move { post.plain("401 Unauthorized", "", "no").await }).await;
    let given = ModelConfig { key_variable: None, ..model("openai", "m", &server.base_url) };
    let text = ask(&given).await.unwrap_err().to_string();
    assert!(text.contains("it was given in code, not by an environment variable"), "{text}");
    let keyless = ModelConfig { api_key: None, ..given };
    let text = ask(&keyless).await.unwrap_err().to_string();
    assert!(text.contains("no key was sent"), "{text}");
}

#[tokio::test]
async fn a_403_says_whether_it_is_the_key_or_the_model() {
    let model =
        r#"{"error":{"message":"Project `proj_1` does not have access to model `gpt-5`","code":"model_not_found"}}"#;
    let text = told("openai", "gpt-5", "403 Forbidden", "", model).await;
    assert!(text.starts_with("the provider refused the request: HTTP 403: Project `proj_1`"), "{text}");
    assert!(text.contains("the key is known, but may not use this model"), "{text}");
    let key = r#"{"type":"error","error":{"type":"permission_error","message":"Your API key lacks this permission"}}"#;
    let text = told("anthropic", "claude-sonnet-4-5", "403 Forbidden", "", key).await;
    assert!(text.starts_with("the provider refused the key: HTTP 403: Your API key lacks"), "{text}");
    assert!(text.contains("the key in ANTHROPIC_API_KEY is not permitted to do this"), "{text}");
}

#[tokio::test]
async fn a_model_that_is_not_there_is_told_the_one_that_was_probably_meant() {
    let body = r#"{"error":{"message":"The model `gpt5` does not exist","code":"model_not_found"}}"#;
    for provider in ["openai", "openai-responses"] {
        let text = told(provider, "gpt5", "404 Not Found", "", body).await;
        assert!(text.contains("The model `gpt5` does not exist"), "{text}");
        assert!(text.ends_with(&format!(": did you mean `{provider}/gpt-5`?")), "{text}");
    }
    for id in ["gpt-5", "a-model-of-mine"] {
        let text = told("openai", id, "404 Not Found", "", body).await;
        assert!(text.contains("check the model's id and the base URL") && !text.contains("did you mean"), "{text}");
    }
}

#[tokio::test]
async fn a_service_that_fails_is_not_called_a_network() {
    let text = told("openai", "m", "500 Internal Server Error", "", r#"{"error":{"message":"We are sorry"}}"#).await;
    assert_eq!(text, "no answer from the provider: HTTP 500: We are sorry");
}

#[tokio::test]
async fn a_failed_connection_names_host_and_port() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = model("openai", "m", &format!("http://{address}/secret-path/v1"));
    let text = ask(&model).await.unwrap_err().to_string();
    assert!(text.starts_with(&format!("no answer from the provider: cannot connect to {address}: ")), "{text}");
    assert!(!text.contains("secret-path"), "{text}");
}

#[tokio::test]
async fn f52_a_redirect_names_its_target_without_its_query() {
    let header = "location: https://elsewhere.example/v1/chat?token=canary\r\n";
    let text = told("openai", "m", "308 Permanent Redirect", header, "").await;
    assert!(text.contains("HTTP 308") && text.contains("redirects to https://elsewhere.example/v1/chat"), "{text}");
    assert!(text.contains("set the base URL"), "{text}");
    let text = told("openai", "m", "307 Temporary Redirect", "location: /elsewhere\r\n", "").await;
    assert!(text.contains("redirects to http://127.0.0.1:") && text.contains("/elsewhere"), "{text}");
}

#[tokio::test]
async fn a_base_url_that_ends_in_the_version_or_the_whole_path_is_not_doubled() {
    let cases = [
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/v1/messages"),
        ("anthropic", "/v1/", "/v1/messages"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("anthropic", "/proxy/v1", "/proxy/v1/messages"),
        ("openai", "/v1", "/v1/chat/completions"),
        ("openai", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai-responses", "/v1/responses", "/v1/responses"),
        ("azure", "", "/openai/v1/responses"),
        ("azure", "/openai", "/openai/v1/responses"),
        ("azure", "/openai/v1", "/openai/v1/responses"),
        ("google", "", "/v1beta/models/m:streamGenerateContent"),
        ("google", "/v1beta", "/v1beta/models/m:streamGenerateContent"),
        ("google", "/v1beta/", "/v1beta/models/m:streamGenerateContent"),
        ("google", "/v1", "/v1/models/m:streamGenerateContent"),
    ];
    for (provider, end, expected) in cases {
        let server = Server::start(|post| async move {
            let path = post.head.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            post.plain("400 Bad Request", "", &format!("asked at {path}.")).await
        })
        .await;
        let root = server.base_url.trim_end_matches("/v1");
        let text = ask(&model(provider, "m", &format!("{root}{end}"))).await.unwrap_err().to_string();
        assert!(text.contains(&format!("asked at {expected}.")), "{provider} with `{end}`: {text}");
    }
}

#[tokio::test]
async fn the_token_of_vertex_is_named_too() {
    let server = Server::start(|post| async move { post.plain("401 Unauthorized", "", "no").await }).await;
    let root = server.base_url.trim_end_matches("/v1");
    let vertex = ModelConfig {
        project: Some("p".to_owned()),
        key_variable: Some("GOOGLE_OAUTH_ACCESS_TOKEN".to_owned()),
        ..model("vertex", "gemini-2.5-flash", root)
    };
    assert_eq!(vertex.api, ApiProtocol::GoogleVertex);
    let text = ask(&vertex).await.unwrap_err().to_string();
    assert!(text.contains("it came from the environment variable GOOGLE_OAUTH_ACCESS_TOKEN"), "{text}");
}
