use playhouse_protocol::{AgentMessage, ApiProtocol, Message, Secret, StopReason, ThinkingLevel};
use serde_json::{Value, json};

use super::validator::check;
use super::*;
use crate::testing::{call, result, said};

const SEAL: &str = "EsgBCsUBAdHtim9xq+Zk3/eX0lQ2c2lnbmF0dXJl";

fn public(id: &str) -> (Gemini, ModelConfig) {
    let model = ModelConfig {
        api_key: Some(Secret::new("k")),
        ..ModelConfig::new("google", ApiProtocol::GoogleGenerativeAi, id)
    };
    (Gemini::new(Host::Public(Url::parse(BASE_URL).unwrap()), &model), model)
}

fn cloud(id: &str) -> (Gemini, ModelConfig) {
    let model = ModelConfig::new("vertex", ApiProtocol::GoogleVertex, id);
    (Gemini::new(Host::Vertex(vertex::CloudLocation::new("acme", "global")), &model), model)
}

/// The kit's conversations, with every result under the name of its call: here a result is known by its tool.
fn conversations(model: &ModelConfig, seal: &str) -> Vec<(&'static str, StreamConfig)> {
    let mut all = crate::testing::conversations(model, seal);
    for (_, config) in &mut all {
        let mut names = std::collections::HashMap::new();
        let mut messages: Vec<AgentMessage> = Vec::new();
        for message in config.messages.as_slice() {
            let mut message = message.llm().unwrap().clone();
            names.extend(message.tool_calls().map(|(id, name, _)| (id.clone(), name.to_owned())));
            if let Message::ToolResult { tool_call_id, tool_name, .. } = &mut message {
                tool_name.clone_from(&names[tool_call_id]);
            }
            messages.push(message.into());
        }
        config.messages = messages.into_iter().collect();
    }
    all
}

fn everyone() -> Vec<(Gemini, ModelConfig)> {
    let ids = ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro-preview", "gemini-3.5-flash", "gemini-2.0-flash"];
    ids.into_iter().flat_map(|id| [public(id), cloud(id)]).collect()
}

#[test]
fn conformance_every_conversation_makes_a_valid_request() {
    for (gemini, model) in everyone() {
        // One service for all of them: they share its transcripts, as agents do.
        let transcripts = Transcripts::new(1 << 20);
        for (what, config) in conversations(&model, SEAL) {
            let request = gemini.request(&config, &transcripts).unwrap();
            if let Err(wrong) = check(&request) {
                panic!("{what} ({}): {wrong}\n{}", model.id, String::from_utf8_lossy(&request.body));
            }
        }
    }
}

#[test]
fn models_of_two_generations_share_a_connection_and_no_messages() {
    let (gemini, old) = public("gemini-2.5-flash");
    let new = ModelConfig { id: "gemini-3-pro-preview".into(), ..old.clone() };
    let transcripts = Transcripts::new(1 << 20);
    for (what, config) in conversations(&old, SEAL) {
        for model in [&old, &new, &old, &new] {
            let config = StreamConfig { model_config: Arc::new(model.clone()), ..config.clone() };
            let request = gemini.request(&config, &transcripts).unwrap();
            assert_eq!(check(&request), Ok(()), "{what} {}", model.id);
        }
    }
}

#[test]
fn the_messages_of_a_turn_begin_the_messages_of_the_next() {
    let contents = |request: &HttpRequest| {
        let body = std::str::from_utf8(&request.body).unwrap();
        let end = body.find("],\"systemInstruction\"").or(body.find("],\"tools\"")).unwrap();
        body[..end].to_owned()
    };
    for (gemini, model) in everyone() {
        for (what, config) in conversations(&model, SEAL) {
            let transcripts = Transcripts::new(1 << 20);
            let mut before: Option<String> = None;
            for len in 1..=config.messages.len() {
                let mut part = config.clone();
                part.messages.truncate(len);
                let now = contents(&gemini.request(&part, &transcripts).unwrap());
                let fresh = contents(&gemini.request(&part, &Transcripts::new(0)).unwrap());
                assert_eq!(now, fresh, "{what}: kept or written anew, it is the same");
                if let Some(before) = &before {
                    // What ends a content is not yet there while it can grow.
                    assert!(now.starts_with(before.trim_end_matches("]}")), "{what}: {before} {now}");
                }
                before = Some(now);
            }
        }
    }
}

/// A conversation with a call that is answered, as a valid request.
fn valid(gemini: &Gemini, model: &ModelConfig) -> HttpRequest {
    let (_, config) = conversations(model, SEAL).into_iter().find(|(what, _)| what.starts_with("signed")).unwrap();
    let request = gemini.request(&config, &Transcripts::new(0)).unwrap();
    assert_eq!(check(&request), Ok(()));
    request
}

#[test]
fn the_validator_refuses_what_the_service_refuses() {
    type Break = (&'static str, fn(&mut Value));
    let breaks: [Break; 22] = [
        ("no contents", |body| body["contents"] = json!([])),
        ("an unknown field", |body| body["stream"] = json!(true)),
        ("the model speaks first", |body| body["contents"][0]["role"] = json!("model")),
        ("an unknown role", |body| body["contents"][0]["role"] = json!("system")),
        ("it ends with the model", |body| {
            body["contents"].as_array_mut().unwrap().pop();
        }),
        ("empty text", |body| body["contents"][0]["parts"][0]["text"] = json!("")),
        ("no parts", |body| body["contents"][0]["parts"] = json!([])),
        ("a thought sent back", |body| body["contents"][1]["parts"][0]["thought"] = json!(true)),
        ("a call without a seal", |body| {
            body["contents"][1]["parts"][0].as_object_mut().unwrap().remove("thoughtSignature");
        }),
        ("a seal that is no base64", |body| body["contents"][1]["parts"][0]["thoughtSignature"] = json!("é")),
        ("another name", |body| body["contents"][2]["parts"][0]["functionResponse"]["name"] = json!("other")),
        ("another id", |body| body["contents"][2]["parts"][0]["functionResponse"]["id"] = json!("other")),
        ("no answer", |body| {
            body["contents"].as_array_mut().unwrap().remove(2);
        }),
        ("an answer too many", |body| {
            let part = body["contents"][2]["parts"][0].clone();
            body["contents"][2]["parts"].as_array_mut().unwrap().push(part);
        }),
        ("text beside an answer", |body| {
            body["contents"][2]["parts"].as_array_mut().unwrap().push(json!({"text": "x"}));
        }),
        ("an answer that is no object", |body| {
            body["contents"][2]["parts"][0]["functionResponse"]["response"] = json!("x");
        }),
        ("arguments that are no object", |body| {
            body["contents"][1]["parts"][0]["functionCall"]["args"] = json!("{}");
        }),
        ("a name with a blank", |body| body["tools"][0]["functionDeclarations"][0]["name"] = json!("a b")),
        ("parameters of nothing", |body| {
            body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] = json!({"type": "object"});
        }),
        ("a level and a budget", |body| {
            body["generationConfig"] = json!({"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1024}});
        }),
        ("a level of nobody", |body| {
            body["generationConfig"] = json!({"thinkingConfig": {"thinkingLevel": "MEDIUM"}});
        }),
        ("JSON beside tools", |body| {
            let form = json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}});
            body["generationConfig"] = form;
        }),
    ];
    let (gemini, model) = public("gemini-3-pro-preview");
    let request = valid(&gemini, &model);
    for (what, spoil) in breaks {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        spoil(&mut body);
        let broken = HttpRequest { body: serde_json::to_vec(&body).unwrap().into(), ..request.clone() };
        assert!(check(&broken).is_err(), "{what} was taken");
    }
    let mut in_url = request.clone();
    in_url.url.set_query(Some("alt=sse&key=k"));
    assert!(check(&in_url).is_err(), "a key in the address was taken");
    // Ids where they are not known, and none where they are.
    let (gemini, model) = cloud("gemini-3-pro-preview");
    let on_cloud = valid(&gemini, &model);
    assert!(check(&HttpRequest { body: request.body.clone(), ..on_cloud.clone() }).is_err());
    assert!(check(&HttpRequest { body: on_cloud.body, ..request }).is_err());
}

#[test]
fn a_request_goes_to_the_address_of_its_model() {
    let url = |id: &str| {
        let (gemini, model) = public(id);
        let config = StreamConfig { model_config: Arc::new(model), ..crate::testing::config("hi") };
        gemini.request(&config, &Transcripts::new(0)).unwrap().url.to_string()
    };
    let base = "https://generativelanguage.googleapis.com/v1beta";
    assert_eq!(
        url("gemini-3-pro-preview"),
        format!("{base}/models/gemini-3-pro-preview:streamGenerateContent?alt=sse")
    );
    assert_eq!(url("tunedModels/a b"), format!("{base}/tunedModels/a%20b:streamGenerateContent?alt=sse"));
    assert_eq!(url("../x?y"), format!("{base}/models/..%2Fx%3Fy:streamGenerateContent?alt=sse"));
}

#[test]
fn tokens_are_counted_by_the_service() {
    let config = |model: &ModelConfig| StreamConfig {
        thinking_level: ThinkingLevel::High,
        max_tokens: Some(5),
        ..conversations(model, SEAL).remove(3).1
    };
    let counted = |gemini: &Gemini, model: &ModelConfig| {
        let transcripts = Transcripts::new(0);
        let request = gemini.count_request(&config(model), &transcripts).unwrap().unwrap();
        (request.url.path().to_owned(), serde_json::from_slice::<Value>(&request.body).unwrap())
    };
    let (gemini, model) = public("gemini-2.5-flash");
    let (path, body) = counted(&gemini, &model);
    assert_eq!(path, "/v1beta/models/gemini-2.5-flash:countTokens");
    let tools = json!([{"functionDeclarations": [{"name": "read_file", "description": "Reads a file.",
        "parametersJsonSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]}]);
    let inner = json!({
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": tools,
    });
    let mut wrapped = inner.clone();
    wrapped["model"] = json!("models/gemini-2.5-flash");
    assert_eq!(body, json!({ "generateContentRequest": wrapped }));
    let (on_cloud, model) = cloud("gemini-2.5-flash");
    let (path, body) = counted(&on_cloud, &model);
    assert_eq!(path, "/v1/projects/acme/locations/global/publishers/google/models/gemini-2.5-flash:countTokens");
    assert_eq!(body, inner);
    assert_eq!(gemini.counted(br#"{"totalTokens": 31, "promptTokensDetails": []}"#), Some(31));
    assert_eq!(gemini.counted(b"{}"), None);
}

#[test]
fn what_was_received_is_what_is_sent_back() {
    const CALL: &[u8] = include_bytes!("../../tests/fixtures/gemini/call.sse");
    const THINKING: &[u8] = include_bytes!("../../tests/fixtures/gemini/thinking.sse");
    let (gemini, model) = public("gemini-3-pro-preview");
    let read = |fixture: &[u8]| {
        let decoder = decode::decoder(Limits::default(), None);
        let response = crate::testing::decode(decoder, &[fixture]).1.unwrap();
        said("google", response.content, response.stop_reason)
    };
    let messages = [
        Message::user("go", 0),
        read(CALL),
        result("8f2b1a3c", "read_file"),
        read(THINKING),
        said("elsewhere", vec![call("x:1", "t", json!({})), call("y", "t", json!({}))], StopReason::ToolUse),
        result("x:1", "t"),
        result("y", "t"),
    ];
    let config = StreamConfig {
        model_config: Arc::new(model),
        messages: messages.into_iter().map(AgentMessage::from).collect(),
        ..crate::testing::config("")
    };
    let request = gemini.request(&config, &Transcripts::new(0)).unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let args = json!({"path": "café/ü.txt", "lines": [1, 2.5e3], "deep": {"quote": "\"}"}});
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{
                "functionCall": {"id": "8f2b1a3c", "name": "read_file", "args": args},
                "thoughtSignature": "EpIBCo8BAdHtim8Y2FsbCBzaWduYXR1cmU=",
            }]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "8f2b1a3c", "name": "read_file", "response": {"output": "ok"}}},
            ]},
            {"role": "model", "parts": [{
                "text": "There are three.",
                "thoughtSignature": "EsgBCsUBAdHtim9xq+Zk3/eX0lQ2c2lnbmF0dXJlIG9mIHRob3VnaHRz",
            },
                {"functionCall": {"id": "call_0b788078937c4c6ed6f98b64", "name": "t", "args": {}},
                 "thoughtSignature": "skip_thought_signature_validator"},
                {"functionCall": {"id": "y", "name": "t", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "call_0b788078937c4c6ed6f98b64", "name": "t", "response": {"output": "ok"}}},
                {"functionResponse": {"id": "y", "name": "t", "response": {"output": "ok"}}},
            ]},
        ])
    );
}
