//! From a model's configuration to the provider that serves it.

use std::sync::Arc;

use playhouse_protocol::{ApiProtocol, ModelConfig};
use sha2::{Digest, Sha256};

use crate::openai::{OpenAi, OpenAiOptions};
use crate::provider::StreamProvider;
use crate::script::ScriptError;
use crate::scripted::Scripted;

/// Why a model cannot be asked at all. Its text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no key.
    #[error("no key for `{provider}`: set the environment variable {variable}")]
    MissingKey {
        /// The service.
        provider: String,
        /// The variable.
        variable: String,
    },
    /// The key cannot be sent.
    #[error("the key for `{provider}` holds characters that cannot be sent: copy it again")]
    BadKey {
        /// The service.
        provider: String,
    },
    /// The base URL cannot be used.
    #[error("the base URL cannot be used: {reason}")]
    BadBaseUrl {
        /// Why.
        reason: String,
    },
    /// A scripted model without a script.
    #[error("the scripted model has no script: give one with --script FILE")]
    MissingScript,
    /// The script cannot be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The HTTP client could not be made.
    #[error("the HTTP client could not be made (are the system's certificates installed?): {message}")]
    Client {
        /// Why.
        message: String,
    },
}

/// The provider for a model. Reads files (a script, certificates): not for a handler.
pub fn provider_for(model: &ModelConfig) -> Result<Arc<dyn StreamProvider>, SetupError> {
    match model.api {
        ApiProtocol::OpenaiCompletions => Ok(Arc::new(OpenAi::new(model, OpenAiOptions::default())?)),
        ApiProtocol::Scripted => {
            let path = model.script.as_ref().ok_or(SetupError::MissingScript)?;
            Ok(Arc::new(Scripted::from_file(path)?))
        }
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
    format!("{}|{place}|{key}", model.provider)
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
    use super::*;
    use playhouse_protocol::Secret;

    #[test]
    fn models_share_a_connection_when_service_address_and_key_are_the_same() {
        let model = |id: &str, key: &str| ModelConfig::openai(id, Secret::new(key));
        assert_eq!(connection_key(&model("a", "k1")), connection_key(&model("b", "k1")));
        assert_ne!(connection_key(&model("a", "k1")), connection_key(&model("a", "k2")));
        let elsewhere = ModelConfig { base_url: Some("http://127.0.0.1:1/v1".into()), ..model("a", "k1") };
        let slash = ModelConfig { base_url: Some("http://127.0.0.1:1/v1/".into()), ..model("a", "k1") };
        assert_ne!(connection_key(&elsewhere), connection_key(&model("a", "k1")));
        assert_eq!(connection_key(&elsewhere), connection_key(&slash));
        assert_ne!(connection_key(&ModelConfig::scripted("a.json")), connection_key(&ModelConfig::scripted("b.json")));
    }

    #[test]
    fn f52_a_key_is_in_no_name_error_or_debug_output() {
        let canary = "sk-canary-0123456789";
        let mut model = ModelConfig::openai("m", Secret::new(canary));
        model.base_url = Some("http://127.0.0.1:9/v1".into());
        let openai = OpenAi::new(&model, OpenAiOptions::default()).unwrap();
        assert!(!format!("{openai:?} {openai:#?} {}", connection_key(&model)).contains(canary));

        let broken = ModelConfig { api_key: Some(Secret::new("sk-canary\n0123456789")), ..model.clone() };
        let refused = OpenAi::new(&broken, OpenAiOptions::default()).unwrap_err();
        assert!(matches!(refused, SetupError::BadKey { .. }));
        assert!(!format!("{refused} {refused:?}").contains("canary"));

        let in_url = ModelConfig { base_url: Some("http://u:sk-canary@127.0.0.1/v1".into()), ..model };
        let refused = OpenAi::new(&in_url, OpenAiOptions::default()).unwrap_err();
        assert!(!format!("{refused} {refused:?} {}", connection_key(&in_url)).contains("canary"));
    }

    #[test]
    fn a_missing_key_names_its_variable() {
        let mut model = ModelConfig::openai("m", Secret::new(""));
        let refused = provider_for(&model).err().unwrap();
        assert_eq!(refused.to_string(), "no key for `openai`: set the environment variable OPENAI_API_KEY");
        model.api_key = None;
        model.base_url = Some("https://models.example/v1".into());
        model.key_variable = Some("EXAMPLE_KEY".into());
        assert!(provider_for(&model).err().unwrap().to_string().contains("EXAMPLE_KEY"));
        model.base_url = Some("http://127.0.0.1:9/v1".into());
        assert!(provider_for(&model).is_ok(), "a service on this machine can do without a key");
    }

    #[test]
    fn what_cannot_be_used_says_so() {
        for bad in ["", "localhost:80", "ftp://a/v1", "http://", "http://h/v1?x=1", "http://h/v1#x"] {
            let model = ModelConfig { base_url: Some(bad.into()), ..ModelConfig::openai("m", Secret::new("k")) };
            assert!(matches!(provider_for(&model), Err(SetupError::BadBaseUrl { .. })), "{bad}");
        }
        let model = ModelConfig { script: None, ..ModelConfig::scripted("x") };
        assert!(matches!(provider_for(&model), Err(SetupError::MissingScript)));
        let refused = provider_for(&ModelConfig::scripted("/no/such/file.json")).err().unwrap();
        assert!(refused.to_string().contains("/no/such/file.json"));
    }
}
