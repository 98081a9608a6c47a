//! `--thinking`, for each family of models: what stands in the request, or why nothing was sent.

mod support;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use playhouse_protocol::{
    AgentMessage, Content, History, Message, ModelConfig, ReasoningSummary, Secret, StreamConfig, ThinkingLevel,
    ToolDefinition,
};
use playhouse_provider::{
    HttpRequest, HttpResponse, StreamSink, Transport, TransportError, Wiring, model_named, provider_for, still_reasons,
};
use serde_json::{Value, json};
use support::soon;

/// Keeps what it is sent.
#[derive(Default)]
struct Kept(Mutex<Option<Value>>);

#[async_trait]
impl Transport for Kept {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        *self.0.lock().unwrap() = serde_json::from_slice(&request.body).ok();
        Err(TransportError::broken("nobody is there"))
    }
}

/// The model of this name, with all that its service needs.
fn named(name: &str) -> ModelConfig {
    let (provider, id) = name.split_once('/').unwrap();
    let set = |variable: &str| (variable == "AZURE_OPENAI_BASE_URL").then(|| "https://n.openai.azure.com".to_owned());
    ModelConfig {
        api_key: Some(Secret::new("k-0123456789")),
        project: Some("p".to_owned()),
        region: Some("us-east-1".to_owned()),
        ..model_named(provider, id, set).unwrap()
    }
}

/// The body of a request, or the words of its refusal.
async fn sent(config: StreamConfig) -> Result<Value, String> {
    let kept = Arc::new(Kept::default());
    let transport = kept.clone();
    let wiring = Wiring { wrap: Some(Arc::new(move |_| transport.clone())), ..Wiring::default() };
    let service = provider_for(&config.model_config, &wiring).unwrap();
    let error = soon(service.stream(&config, &StreamSink::discard())).await.unwrap_err();
    kept.0.lock().unwrap().take().ok_or_else(|| error.to_string())
}

/// Everything that a request says of reasoning, or the words of its refusal.
async fn said(name: &str, level: ThinkingLevel) -> Result<Value, String> {
    said_by(named(name), level).await
}

async fn said_by(model: ModelConfig, level: ThinkingLevel) -> Result<Value, String> {
    let body = sent(StreamConfig { thinking_level: level, ..support::config(model) }).await?;
    let fields = [
        "reasoning_effort",
        "reasoning",
        "thinking",
        "enable_thinking",
        "thinking_budget",
        "prompt_mode",
        "output_config",
        "additionalModelRequestFields",
    ];
    let mut found: serde_json::Map<String, Value> =
        fields.into_iter().filter_map(|name| Some((name.to_owned(), body.get(name)?.clone()))).collect();
    if let Some(thinking) = body.pointer("/generationConfig/thinkingConfig") {
        found.insert("thinkingConfig".to_owned(), thinking.clone());
    }
    Ok(Value::Object(found))
}

/// What is said for off, minimal, low, medium and high; a text is a part of a refusal.
async fn holds(name: &str, expected: [Value; 5]) {
    let levels =
        [ThinkingLevel::Off, ThinkingLevel::Minimal, ThinkingLevel::Low, ThinkingLevel::Medium, ThinkingLevel::High];
    for (level, expected) in levels.into_iter().zip(expected) {
        match (said(name, level).await, expected) {
            (Err(refusal), Value::String(words)) => {
                let start = format!("does not take --thinking {}: ", level.as_str());
                assert!(refusal.contains(&start) && refusal.contains(&words), "{name} {level:?}: {refusal}");
            }
            (said, expected) => assert_eq!(said, Ok(expected), "{name} {level:?}"),
        }
    }
}

fn effort(word: &str) -> Value {
    json!({"reasoning_effort": word})
}

#[tokio::test]
async fn every_family_is_asked_in_its_own_words_or_refused_with_what_it_knows() {
    let nothing = || json!({});
    let no = |words: &str| json!(words);
    let levels = |words: [&str; 3]| words.map(effort);
    let [low, medium, high] = levels(["low", "medium", "high"]);
    let low_to_high = |refusal: &str| [nothing(), no(refusal), low.clone(), medium.clone(), high.clone()];
    let none_to_high =
        || [effort("none"), no("it knows off, low, medium, high"), low.clone(), medium.clone(), high.clone()];
    let minimal_to_high = || [nothing(), effort("minimal"), low.clone(), medium.clone(), high.clone()];
    let never =
        || [nothing(), no("does not reason"), no("does not reason"), no("does not reason"), no("does not reason")];
    let always = || [nothing(), no("always reasons"), no("always reasons"), no("always reasons"), no("always reasons")];
    let known = "it knows low, medium, high";

    for name in ["openai/gpt-5", "openai/gpt-5-mini", "perplexity/sonar-deep-research"] {
        holds(name, minimal_to_high()).await;
    }
    for name in ["openai/gpt-5.1", "openai/gpt-5.2", "ollama/qwen3", "ollama/gpt-oss:20b"] {
        holds(name, none_to_high()).await;
    }
    for name in [
        "openai/o3",
        "openai/o4-mini",
        "openai/gpt-5-codex",
        "groq/openai/gpt-oss-120b",
        "cerebras/gpt-oss-120b",
        "together/openai/gpt-oss-120b",
        "fireworks/accounts/fireworks/models/gpt-oss-120b",
        "huggingface/openai/gpt-oss-120b",
    ] {
        holds(name, low_to_high(known)).await;
    }
    for name in [
        "openai/gpt-4o",
        "openai/gpt-4.1-mini",
        "openai/gpt-5-chat-latest",
        "groq/llama-3.3-70b-versatile",
        "cerebras/llama3.1-8b",
        "xai/grok-3",
        "xai/grok-4-fast-non-reasoning",
        "mistral/mistral-large-latest",
        "zai/glm-4-32b-0414-128k",
        "qwen/qwen3-coder-plus",
        "qwen/qwen-max",
        "moonshot/kimi-k2-0905-preview",
        "perplexity/sonar-pro",
    ] {
        holds(name, never()).await;
    }
    for name in [
        "openai/o1-mini",
        "xai/grok-4",
        "xai/grok-code-fast-1",
        "deepseek/deepseek-reasoner",
        "minimax/MiniMax-M2",
        "moonshot/kimi-k2-thinking",
        "qwen/qwq-plus",
        "perplexity/sonar-reasoning-pro",
    ] {
        holds(name, always()).await;
    }
    holds("openai/gpt-5-pro", [nothing(), no("it knows high"), no("it knows high"), no("it knows high"), high.clone()])
        .await;
    holds(
        "xai/grok-3-mini",
        [nothing(), no("it knows low, high"), low.clone(), no("it knows low, high"), high.clone()],
    )
    .await;
    let default = || effort("default");
    holds(
        "groq/qwen/qwen3-32b",
        [effort("none"), no("it knows off, low, medium, high"), default(), default(), default()],
    )
    .await;
    let switch = |state: &str| json!({"thinking": {"type": state}});
    for name in ["deepseek/deepseek-chat", "zai/glm-4.6", "zai/glm-4.5-air", "moonshot/kimi-k2.5"] {
        let on = || switch("enabled");
        holds(name, [switch("disabled"), on(), on(), on(), on()]).await;
    }
    let mode = || json!({"prompt_mode": "reasoning"});
    holds("mistral/magistral-medium-latest", [nothing(), mode(), mode(), mode(), mode()]).await;
    let budget = |tokens: u32| json!({"enable_thinking": true, "thinking_budget": tokens});
    for name in ["qwen/qwen-plus", "qwen/qwen3-32b"] {
        let off = json!({"enable_thinking": false});
        holds(name, [off, budget(1_024), budget(2_048), budget(8_192), budget(16_384)]).await;
    }
    let router = |word: &str| json!({"reasoning": {"effort": word}});
    let words = ["minimal", "low", "medium", "high"].map(router);
    let [a, b, c, d] = words;
    holds("openrouter/anthropic/claude-sonnet-4.5", [nothing(), a, b, c, d]).await;
    for name in ["lmstudio/m", "llamacpp/m", "vllm/m", "nvidia/m", "meta/m", "together/meta-llama/Llama-3.3-70B"] {
        let unknown = || no("no setting for it is known");
        holds(name, [nothing(), unknown(), unknown(), unknown(), unknown()]).await;
    }
}

#[tokio::test]
async fn later_models_of_a_family_are_not_taken_for_the_first() {
    let (nothing, no) = (|| json!({}), |words: &str| json!(words));
    let [low, medium, high] = ["low", "medium", "high"].map(effort);
    let from_low = |off: Value, known: &str| [off, no(known), low.clone(), medium.clone(), high.clone()];
    for name in [
        "openai/gpt-5.2-codex",
        "openai/gpt-5.3-codex",
        "openai/gpt-5.2-pro",
        "openai/gpt-6-luna",
        "xai/grok-4.5",
        "mistral/mistral-large-4-0",
    ] {
        holds(name, from_low(nothing(), "it knows low, medium, high")).await;
    }
    for name in ["openai/gpt-6-sol", "groq/qwen/qwen3.8-27b", "xai/grok-4.3", "cerebras/zai-glm-4.7"] {
        holds(name, from_low(effort("none"), "it knows off, low, medium, high")).await;
    }
    for name in ["mistral/mistral-small-latest", "mistral/mistral-small-2603", "mistral/mistral-medium-3-5"] {
        let known = || no("it knows off, high");
        holds(name, [effort("none"), known(), known(), known(), high.clone()]).await;
    }
    for name in ["openai/gpt-5.3-chat-latest", "xai/grok-4.20-non-reasoning", "xai/grok-4.20-0309-non-reasoning"] {
        let never = || no("does not reason");
        holds(name, [nothing(), never(), never(), never(), never()]).await;
    }
    let switch = |state: &str| json!({"thinking": {"type": state}});
    let on = || switch("enabled");
    holds("moonshot/kimi-k2.6", [switch("disabled"), on(), on(), on(), on()]).await;
}

/// Claude from 5 on reasons by itself: what turns it off differs, and some cannot be turned off.
#[tokio::test]
async fn claude_is_turned_off_where_it_can_be() {
    let adaptive = |effort: &str| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    let levels = |off: Value| [off, adaptive("low"), adaptive("low"), adaptive("medium"), adaptive("high")];
    let off = |kind: &str| json!({"thinking": {"type": kind}});
    for id in ["claude-opus-5", "claude-sonnet-5", "claude-sonnet-5-20260701", "claude-haiku-5-5"] {
        holds(&format!("anthropic/{id}"), levels(off("disabled"))).await;
    }
    holds("anthropic/claude-sonnet-5-5", levels(off("between_tools"))).await;
    for id in ["claude-opus-5-5", "claude-fable-5", "claude-mythos-5-1", "claude-mythos-preview"] {
        holds(&format!("anthropic/{id}"), levels(json!({}))).await;
    }
}

#[test]
fn what_still_reasons_when_it_is_turned_off_is_said() {
    for name in [
        "openai/gpt-5",
        "openai-responses/o3",
        "groq/openai/gpt-oss-120b",
        "xai/grok-4",
        "deepseek/deepseek-reasoner",
        "mistral/magistral-medium-latest",
        "anthropic/claude-opus-5-5",
        "bedrock/global.anthropic.claude-opus-5",
        "google/gemini-2.5-pro",
        "vertex/gemini-3-pro-preview",
    ] {
        assert_eq!(still_reasons(&named(name)), Some(format!("{name} still reasons: it cannot be turned off")));
    }
    for name in ["vllm/m", "openrouter/openai/gpt-5", "azure/my-deployment"] {
        let told = still_reasons(&named(name)).unwrap();
        assert!(
            told.starts_with(&format!("{name} may still reason: nothing is known that turns it off at ")),
            "{told}"
        );
    }
    for name in [
        "openai/gpt-5.1",
        "openai/gpt-4o",
        "ollama/qwen3",
        "qwen/qwen-plus",
        "zai/glm-4.6",
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-opus-4-8",
        "anthropic/claude-opus-5",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/amazon.nova-pro-v1:0",
        "google/gemini-2.5-flash",
        "google/gemini-2.0-flash",
    ] {
        assert_eq!(still_reasons(&named(name)), None, "{name}");
    }
}

#[tokio::test]
async fn responses_and_azure_say_it_in_an_object() {
    let no = |words: &str| json!(words);
    let say = |word: &str| json!({"reasoning": {"effort": word, "summary": "auto"}});
    for name in ["openai-responses/gpt-5", "azure/gpt-5"] {
        holds(name, [json!({}), say("minimal"), say("low"), say("medium"), say("high")]).await;
    }
    let none = json!({"reasoning": {"effort": "none"}});
    let known = no("it knows off, low, medium, high");
    holds("openai-responses/gpt-5.1", [none, known, say("low"), say("medium"), say("high")]).await;
    let never = || no("does not reason");
    holds("openai-responses/gpt-4o", [json!({}), never(), never(), never(), never()]).await;
    // What a deployment's name does not tell is taken at its word.
    holds("azure/my-deployment", [json!({}), say("minimal"), say("low"), say("medium"), say("high")]).await;
}

#[tokio::test]
async fn the_summary_of_responses_can_be_chosen() {
    let asked = |summary| async move {
        let model = ModelConfig { reasoning_summary: summary, ..named("openai-responses/gpt-5") };
        said_by(model, ThinkingLevel::Low).await.unwrap()["reasoning"].clone()
    };
    assert_eq!(asked(None).await, json!({"effort": "low", "summary": "auto"}));
    assert_eq!(asked(Some(ReasoningSummary::Concise)).await, json!({"effort": "low", "summary": "concise"}));
    assert_eq!(asked(Some(ReasoningSummary::Detailed)).await, json!({"effort": "low", "summary": "detailed"}));
    assert_eq!(asked(Some(ReasoningSummary::Unasked)).await, json!({"effort": "low"}));
}

#[tokio::test]
async fn claude_on_vertex_is_refused_in_words() {
    for id in ["claude-sonnet-4-5@20250929", "publishers/anthropic/models/claude-sonnet-4-5"] {
        let refused = said(&format!("vertex/{id}"), ThinkingLevel::Off).await.unwrap_err();
        assert!(refused.contains("Claude on Vertex is not supported") && refused.contains("bedrock/ID"), "{refused}");
    }
}

#[tokio::test]
async fn perplexity_gets_no_tools() {
    let tool = ToolDefinition { name: "t".into(), description: "d".into(), parameters: json!({"type": "object"}) };
    for (name, expected) in [("perplexity/sonar-pro", false), ("openai/gpt-5", true)] {
        let model = named(name);
        let config = StreamConfig { tools: Arc::new([tool.clone()]), ..support::config(model) };
        assert_eq!(sent(config).await.unwrap().get("tools").is_some(), expected, "{name}");
    }
}

/// A conversation in which another model has used tools goes on there: in words, each side in its turn.
#[tokio::test]
async fn perplexity_is_told_of_tools_in_words() {
    let call = |id: &str, name: &str| Content::tool_call(id, name, json!({"path": "a"}));
    let result = |id: &str, name: &str, text: &str| Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: name.to_owned(),
        content: vec![Content::text(text)],
        is_error: false,
        timestamp: 3,
    };
    let said = |content: Vec<Content>| Message::assistant(content, 2);
    let talk = [
        Message::user("read both", 1),
        said(vec![Content::text("Reading."), call("c1", "read_file"), call("c2", "list_files")]),
        result("c1", "read_file", "one"),
        result("c2", "list_files", "two"),
        Message::user("and?", 4),
        said(vec![call("c3", "bash")]),
        result("c3", "bash", "three"),
    ];
    let messages: Vec<Arc<AgentMessage>> = talk.into_iter().map(|message| Arc::new(message.into())).collect();
    let config = StreamConfig { messages: History::from(messages), ..support::config(named("perplexity/sonar-pro")) };
    let body = sent(config).await.unwrap();
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!([
        {"role": "user", "content": [text("read both")]},
        {"role": "assistant", "content": [text("Reading."), text("[called read_file with {\"path\":\"a\"}]"),
            text("[called list_files with {\"path\":\"a\"}]")]},
        {"role": "user", "content": [text("[read_file gave]\none"), text("[list_files gave]\ntwo"), text("and?")]},
        {"role": "assistant", "content": [text("[called bash with {\"path\":\"a\"}]")]},
        {"role": "user", "content": [text("[bash gave]\nthree")]},
    ]);
    let messages: Vec<&Value> =
        body["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system").collect();
    assert_eq!(json!(messages), expected);
}

#[tokio::test]
async fn the_other_protocols_refuse_what_does_not_reason() {
    let never = || json!("does not reason");
    let budget = |tokens: u32| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
    let budgets = || [json!({}), budget(1_024), budget(2_048), budget(8_192), budget(16_384)];
    holds("anthropic/claude-sonnet-4-5", budgets()).await;
    let adaptive = |effort: &str| json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}});
    holds(
        "anthropic/claude-opus-4-6",
        [json!({}), adaptive("low"), adaptive("low"), adaptive("medium"), adaptive("high")],
    )
    .await;
    for name in [
        "anthropic/claude-3-5-haiku-latest",
        "anthropic/claude-3-haiku-20240307",
        "google/gemini-2.0-flash",
        "vertex/gemini-1.5-pro",
        "bedrock/meta.llama3-1-70b-instruct-v1:0",
        "bedrock/anthropic.claude-3-5-haiku-20241022-v1:0",
    ] {
        holds(name, [json!({}), never(), never(), never(), never()]).await;
    }
    let google = |tokens: u32| json!({"thinkingConfig": {"includeThoughts": true, "thinkingBudget": tokens}});
    let off = json!({"thinkingConfig": {"thinkingBudget": 0}});
    holds("google/gemini-2.5-flash", [off, google(1_024), google(2_048), google(8_192), google(16_384)]).await;
    let level = |level: &str| json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": level}});
    for name in ["google/gemini-3-pro-preview", "vertex/gemini-3-pro-preview"] {
        holds(name, [json!({}), level("LOW"), level("LOW"), level("HIGH"), level("HIGH")]).await;
    }
    let claude = |tokens: u32| json!({"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": tokens}}});
    let name = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0";
    holds(name, [json!({}), claude(1_024), claude(2_048), claude(8_192), claude(16_384)]).await;
}
