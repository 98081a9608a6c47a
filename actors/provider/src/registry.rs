//! From a model's configuration to the provider that serves it.

use std::sync::Arc;

use playhouse_protocol::{ApiProtocol, ModelConfig, Secret};
use sha2::{Digest, Sha256};

use crate::provider::StreamProvider;
use crate::scripted::Scripted;
use crate::wire::decoder::{Decoder, Limits};
use crate::wire::setup::{Answers, SetupError, Wiring};

/// The provider for a model. Reads files (a script, certificates, credentials): not for a handler.
pub fn provider_for(model: &ModelConfig, wiring: &Wiring) -> Result<Arc<dyn StreamProvider>, SetupError> {
    let stand_in = match wiring.answers {
        Answers::Services => None,
        // Shorter than what is taken out of texts as a secret: it may stand in the conversation too.
        Answers::Recording => Some(ModelConfig { api_key: Some(Secret::new("-")), ..model.clone() }),
    };
    let model = stand_in.as_ref().unwrap_or(model);
    match model.api {
        ApiProtocol::OpenaiCompletions => Ok(Arc::new(crate::chat::connect(model, wiring)?)),
        ApiProtocol::AnthropicMessages => Ok(Arc::new(crate::anthropic::connect(model, wiring)?)),
        ApiProtocol::OpenaiResponses => Ok(Arc::new(crate::responses::connect(model, wiring)?)),
        ApiProtocol::AzureOpenai => Ok(Arc::new(crate::responses::azure::connect(model, wiring)?)),
        ApiProtocol::GoogleGenerativeAi => Ok(Arc::new(crate::gemini::connect(model, wiring)?)),
        ApiProtocol::GoogleVertex => Ok(Arc::new(crate::gemini::vertex::connect(model, wiring)?)),
        ApiProtocol::BedrockConverse => Ok(Arc::new(crate::bedrock::connect(model, wiring)?)),
        ApiProtocol::Scripted => {
            let path = model.script.as_ref().ok_or(SetupError::MissingScript)?;
            Ok(Arc::new(Scripted::from_file(path)?))
        }
        ApiProtocol::Custom => Err(SetupError::UnknownProvider { provider: model.provider.to_string() }),
    }
}

/// What reads the responses of a protocol, where it reads bytes.
pub fn decoder_for(api: ApiProtocol, limits: Limits) -> Option<Box<dyn Decoder>> {
    match api {
        ApiProtocol::OpenaiCompletions => Some(crate::chat::decoder(limits)),
        ApiProtocol::AnthropicMessages => Some(crate::anthropic::decoder(limits)),
        ApiProtocol::OpenaiResponses | ApiProtocol::AzureOpenai => Some(crate::responses::decoder(limits)),
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => Some(crate::gemini::decoder(limits)),
        ApiProtocol::BedrockConverse => Some(crate::bedrock::decoder(limits)),
        ApiProtocol::Scripted | ApiProtocol::Custom => None,
    }
}

/// What one connection serves: models with the same key share it. It names the service, its address or script, and a
/// hash of the key, never the key.
pub fn connection_key(model: &ModelConfig) -> String {
    let place = match (&model.script, &model.base_url) {
        (Some(script), _) => script.display().to_string(),
        (None, Some(url)) => shown_url(url),
        (None, None) => "default".to_owned(),
    };
    let key = model.api_key.as_ref().map_or_else(|| "no-key".to_owned(), |key| key_hash(key.expose()));
    let mut shared = format!("{}|{place}|{key}", model.provider);
    // What else a service is made with. Whoever names its services as they are named here has one protocol for each.
    if crate::preset(&model.provider).is_none_or(|preset| preset.api != model.api) && model.script.is_none() {
        shared.push_str(&format!("|{:?}", model.api));
    }
    let parts = [("region", &model.region), ("project", &model.project), ("version", &model.api_version)];
    for (name, part) in parts {
        if let Some(part) = part {
            shared.push_str(&format!("|{name}={part}"));
        }
    }
    if model.compat.is_some() || !model.headers.is_empty() {
        shared.push('|');
        shared.push_str(&key_hash(&format!("{:?}{:?}", model.compat, model.headers)));
    }
    shared
}

/// A base URL without what could be a secret in it. Two that differ only there differ in the hash.
fn shown_url(url: &str) -> String {
    match reqwest::Url::parse(url.trim()) {
        Ok(parsed) if parsed.username().is_empty() && parsed.password().is_none() && parsed.query().is_none() => {
            parsed.as_str().trim_end_matches('/').to_owned()
        }
        Ok(_) | Err(_) => format!("url-{}", key_hash(url)),
    }
}

fn key_hash(secret: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"playhouse connection key\0");
    hash.update(secret.trim().as_bytes());
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::PRESETS;

    #[test]
    fn names_are_distinct_and_every_preset_makes_a_provider() {
        let names: BTreeSet<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        assert_eq!(names.len(), PRESETS.len());
        assert_eq!(PRESETS.len(), 27);
        for preset in PRESETS {
            let mut model = preset.model("m", |_| None);
            model.api_key = Some(Secret::new("key-0123456789"));
            model.base_url.get_or_insert_with(|| "https://service.example/openai/v1".to_owned());
            model.region = Some("us-east-1".to_owned());
            model.project = Some("p".to_owned());
            let made = provider_for(&model, &Wiring::default());
            assert_eq!(made.map(|provider| provider.provider_id().to_owned()).unwrap(), preset.name);
        }
    }

    #[test]
    fn models_share_a_connection_when_service_address_and_key_are_the_same() {
        let model = |id: &str, key: &str| ModelConfig::openai(id, Secret::new(key));
        assert_eq!(connection_key(&model("a", "k1")), connection_key(&model("b", "k1")));
        assert_ne!(connection_key(&model("a", "k1")), connection_key(&model("a", "k2")));
        let elsewhere = ModelConfig { base_url: Some("http://127.0.0.1:1/v1".into()), ..model("a", "k1") };
        let slash = ModelConfig { base_url: Some("http://127.0.0.1:1/v1/".into()), ..model("a", "k1") };
        assert_ne!(connection_key(&elsewhere), connection_key(&model("a", "k1")));
        assert_eq!(connection_key(&elsewhere), connection_key(&slash));
        let in_region = |region: &str| ModelConfig { region: Some(region.into()), ..model("a", "k1") };
        assert_ne!(connection_key(&in_region("one")), connection_key(&in_region("two")));
        let spoken = |api| ModelConfig { api, ..model("a", "k1") };
        assert_ne!(connection_key(&spoken(ApiProtocol::OpenaiResponses)), connection_key(&model("a", "k1")));
        let mut headed = model("a", "k1");
        headed.headers.insert("x-extra".into(), "1".into());
        assert_ne!(connection_key(&headed), connection_key(&model("a", "k1")));
        assert_ne!(connection_key(&ModelConfig::scripted("a.json")), connection_key(&ModelConfig::scripted("b.json")));
    }

    #[test]
    fn f52_a_key_is_in_no_name_error_or_debug_output() {
        let canary = "sk-canary-0123456789";
        let mut model = ModelConfig::openai("m", Secret::new(canary));
        model.base_url = Some("http://127.0.0.1:9/v1".into());
        let openai = crate::chat::connect(&model, &Wiring::default()).unwrap();
        assert!(!format!("{openai:?} {openai:#?} {}", connection_key(&model)).contains(canary));

        let broken = ModelConfig { api_key: Some(Secret::new("sk-canary\n0123456789")), ..model.clone() };
        let refused = crate::chat::connect(&broken, &Wiring::default()).unwrap_err();
        assert!(matches!(refused, SetupError::BadKey { .. }));
        assert!(!format!("{refused} {refused:?}").contains("canary"));

        let in_url = ModelConfig { base_url: Some("http://u:sk-canary@127.0.0.1/v1".into()), ..model };
        let refused = crate::chat::connect(&in_url, &Wiring::default()).unwrap_err();
        assert!(!format!("{refused} {refused:?} {}", connection_key(&in_url)).contains("canary"));
    }

    #[test]
    fn a_missing_key_names_its_variable() {
        let mut model = ModelConfig::openai("m", Secret::new(""));
        let refused = provider_for(&model, &Wiring::default()).err().unwrap();
        assert_eq!(refused.to_string(), "no key for `openai`: set the environment variable OPENAI_API_KEY");
        model.api_key = None;
        model.base_url = Some("https://models.example/v1".into());
        model.key_variable = Some("EXAMPLE_KEY".into());
        assert!(provider_for(&model, &Wiring::default()).err().unwrap().to_string().contains("EXAMPLE_KEY"));
        model.base_url = Some("http://127.0.0.1:9/v1".into());
        assert!(provider_for(&model, &Wiring::default()).is_ok(), "a service on this machine can do without a key");
    }

    #[test]
    fn a_header_that_would_hold_a_key_is_refused_and_another_is_taken() {
        let headed = |name: &str, value: &str| {
            let mut model = ModelConfig::openai("m", Secret::new("k"));
            model.headers.insert(name.to_owned(), value.to_owned());
            provider_for(&model, &Wiring::default()).map(drop)
        };
        for name in ["Authorization", "x-api-key", "api-key", "X-Goog-Api-Key", "cookie", "no name"] {
            let refused = headed(name, "v").unwrap_err();
            assert!(matches!(&refused, SetupError::BadHeader { name: named, .. } if named == name), "{refused}");
        }
        assert!(headed("x-extra", "a\nb").is_err());
        assert!(headed("anthropic-beta", "x").is_ok());
    }

    #[test]
    fn what_cannot_be_used_says_so() {
        for bad in ["", "localhost:80", "ftp://a/v1", "http://", "http://h/v1?x=1", "http://h/v1#x"] {
            let model = ModelConfig { base_url: Some(bad.into()), ..ModelConfig::openai("m", Secret::new("k")) };
            assert!(matches!(provider_for(&model, &Wiring::default()), Err(SetupError::BadBaseUrl { .. })), "{bad}");
        }
        let model = ModelConfig { script: None, ..ModelConfig::scripted("x") };
        assert!(matches!(provider_for(&model, &Wiring::default()), Err(SetupError::MissingScript)));
        let refused = provider_for(&ModelConfig::scripted("/no/such/file.json"), &Wiring::default()).err().unwrap();
        assert!(refused.to_string().contains("/no/such/file.json"));
    }
}
