//! What services would refuse. For tests: a conversation from anywhere becomes the request that each service is sent, and
//! is held against that service's rules.

use std::sync::Arc;

use bytes::Bytes;
use playhouse_protocol::{ApiProtocol, ModelConfig, ProviderError, Secret, StreamConfig};

use crate::PRESETS;
use crate::chat::validator::Vendor;
use crate::wire::service::Service;
use crate::wire::setup::{SetupError, Wiring};
use crate::wire::transport::HttpRequest;
use crate::{anthropic, bedrock, chat, gemini, responses};

/// Models whose requests differ from those of the presets' examples.
const MORE: [(&str, &str); 19] = [
    ("anthropic", "claude-3-7-sonnet-latest"),
    ("anthropic", "claude-opus-4-8"),
    ("anthropic", "claude-opus-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("google", "gemini-3-pro-preview"),
    ("vertex", "gemini-2.0-flash"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("bedrock", "mistral.mistral-large-2407-v1:0"),
    ("openai", "gpt-5.1"),
    ("openai-responses", "gpt-5.1"),
    ("groq", "openai/gpt-oss-120b"),
    ("groq", "qwen/qwen3-32b"),
    ("groq", "qwen/qwen3.8-27b"),
    ("together", "openai/gpt-oss-120b"),
    ("mistral", "magistral-medium-latest"),
    ("mistral", "mistral-small-latest"),
    ("qwen", "qwen-plus"),
    ("xai", "grok-3-mini"),
    ("xai", "grok-4.3"),
];

/// Every service that has a name here.
#[derive(Debug)]
pub struct Services(Vec<(Arc<ModelConfig>, Service)>);

impl Services {
    /// All of them. Nothing is sent to any.
    pub fn all() -> Result<Self, SetupError> {
        let examples = PRESETS.iter().map(|preset| (preset.name, preset.example));
        let mut services = Vec::new();
        for (name, id) in examples.chain(MORE) {
            let Some(mut model) = crate::model_named(name, id, |_| None) else { continue };
            model.api_key = Some(Secret::new("key-0123456789"));
            if model.api == ApiProtocol::AzureOpenai {
                model.base_url = Some("https://account.example/openai/v1".to_owned());
            }
            model.region = Some("us-east-1".to_owned());
            model.project = Some("p".to_owned());
            if let Some(service) = connect(&model)? {
                services.push((Arc::new(model), service));
            }
        }
        Ok(Self(services))
    }

    /// The models, one of each kind of request.
    pub fn models(&self) -> impl Iterator<Item = &Arc<ModelConfig>> {
        self.0.iter().map(|(model, _)| model)
    }

    /// The body of the request for a turn, if its model is one of [`Services::models`].
    pub fn body(&self, turn: &StreamConfig) -> Option<Result<Bytes, ProviderError>> {
        let (_, service) = self.0.iter().find(|(model, _)| Arc::ptr_eq(model, &turn.model_config))?;
        Some(service.request_of(turn).map(|request| request.body))
    }

    /// Which of them would refuse a turn, and why.
    pub fn refusals(&self, turn: &StreamConfig) -> Vec<String> {
        let refusal = |(model, service): &(Arc<ModelConfig>, Service)| {
            let turn = StreamConfig { model_config: model.clone(), ..turn.clone() };
            let request = service.request_of(&turn).map_err(|error| error.to_string());
            let why = request.and_then(|request| check(model, &request)).err()?;
            Some(format!("{}/{}: {why}", model.provider, model.id))
        };
        self.0.iter().filter_map(refusal).collect()
    }
}

/// The service of a model, for a protocol whose rules are known.
fn connect(model: &ModelConfig) -> Result<Option<Service>, SetupError> {
    let wiring = Wiring::default();
    let service = match model.api {
        ApiProtocol::AnthropicMessages => anthropic::connect(model, &wiring),
        ApiProtocol::OpenaiCompletions => chat::connect(model, &wiring),
        ApiProtocol::OpenaiResponses => responses::connect(model, &wiring),
        ApiProtocol::AzureOpenai => responses::azure::connect(model, &wiring),
        ApiProtocol::GoogleGenerativeAi => gemini::connect(model, &wiring),
        ApiProtocol::GoogleVertex => gemini::vertex::connect(model, &wiring),
        ApiProtocol::BedrockConverse => bedrock::connect(model, &wiring),
        ApiProtocol::Scripted | ApiProtocol::Custom => return Ok(None),
    };
    service.map(Some)
}

fn check(model: &ModelConfig, request: &HttpRequest) -> Result<(), String> {
    match model.api {
        ApiProtocol::AnthropicMessages => anthropic::validator::check(request),
        ApiProtocol::OpenaiCompletions => {
            let vendor = match &*model.provider {
                "ollama" => Vendor::Ollama,
                // Both want their reasoning back beside calls.
                "deepseek" | "moonshot" => Vendor::DeepSeek,
                "mistral" => Vendor::Mistral,
                "qwen" | "zai" => Vendor::Switched,
                "openrouter" => Vendor::OpenRouter,
                // The others promise to take what OpenAI takes.
                _ => Vendor::OpenAi,
            };
            chat::validator::check_as(vendor, request)
        }
        ApiProtocol::OpenaiResponses | ApiProtocol::AzureOpenai => responses::validator::check(request),
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => gemini::validator::check(request),
        ApiProtocol::BedrockConverse => bedrock::validator::check(request),
        ApiProtocol::Scripted | ApiProtocol::Custom => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use playhouse_protocol::{AgentMessage, History};

    use super::*;
    use crate::testing::config;

    #[test]
    fn every_service_is_sent_what_follows_the_conversation_at_its_end_and_once() {
        let said = |text: &str| Arc::new(AgentMessage::user(text, 1));
        let talk = |texts: &[&str]| History::from(texts.iter().map(|text| said(text)).collect::<Vec<_>>());
        for (model, service) in &Services::all().unwrap().0 {
            let body = |messages: &History, tail: &[&str]| {
                let tail = tail.iter().map(|text| said(text)).collect();
                let (model_config, messages) = (model.clone(), messages.clone());
                let turn = StreamConfig { model_config, messages, tail, ..config("") };
                let request = service.request_of(&turn).unwrap();
                check(model, &request).unwrap();
                request.body
            };
            let one = talk(&["one"]);
            assert_eq!(body(&one, &["now"]), body(&talk(&["one", "now"]), &[]), "{}/{}", model.provider, model.id);
            assert_eq!(body(&one, &["later"]), body(&talk(&["one", "later"]), &[]));
            assert_eq!(body(&one, &[]), body(&talk(&["one"]), &[]));
        }
    }
}
