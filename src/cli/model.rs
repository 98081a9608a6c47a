//! Which model answers: what the configuration says, what a session has, and the key for it.

use playhouse::config::{Config, ModelName};
use playhouse::protocol::{ApiProtocol, ModelConfig, Secret};
use playhouse::provider::{Wiring, provider_for};

use super::stop::Stop;

/// The model of a new session.
pub fn chosen(config: &Config) -> Result<ModelConfig, Stop> {
    let Some(name) = &config.model.value else {
        let text =
            "which model? choose one with --model openai/ID or --script FILE, or set `model` in your config.toml";
        return Err(Stop::Refused(text.to_owned()));
    };
    moved(named(name, config), config)
}

/// The model that a session has, with what flags change.
pub fn changed(config: &Config, stored: &ModelConfig) -> Result<ModelConfig, Stop> {
    let model = match config.model.by_flag() {
        Some(Some(name)) => {
            let mut model = named(name, config);
            if model.provider == stored.provider {
                model.base_url = stored.base_url.clone();
            }
            model
        }
        Some(None) | None => stored.clone(),
    };
    moved(model, config)
}

/// The model, at the place that a flag names.
fn moved(mut model: ModelConfig, config: &Config) -> Result<ModelConfig, Stop> {
    let Some(url) = config.openai.base_url.by_flag() else { return Ok(model) };
    match model.api {
        ApiProtocol::OpenaiCompletions
        | ApiProtocol::AnthropicMessages
        | ApiProtocol::OpenaiResponses
        | ApiProtocol::AzureOpenai
        | ApiProtocol::GoogleGenerativeAi
        | ApiProtocol::GoogleVertex
        | ApiProtocol::BedrockConverse
        | ApiProtocol::Custom => model.base_url = url.clone(),
        ApiProtocol::Scripted => {
            return Err(Stop::Refused("a scripted model has no service: leave --base-url out".to_owned()));
        }
    }
    Ok(model)
}

fn named(name: &ModelName, config: &Config) -> ModelConfig {
    match name {
        ModelName::OpenAi(id) => {
            let base_url = config.openai.base_url.value.clone();
            ModelConfig { base_url, api_key: None, ..ModelConfig::openai(id.as_str(), Secret::new("")) }
        }
        ModelName::Scripted(file) => ModelConfig::scripted(file),
    }
}

/// The model with the key that its environment variable holds.
pub fn with_key(mut model: ModelConfig) -> Result<ModelConfig, String> {
    let Some(variable) = &model.key_variable else { return Ok(model) };
    match std::env::var(variable) {
        Ok(key) if key.trim().is_empty() => Err(format!("{variable} is set but empty: give it the key, or unset it")),
        Ok(key) => {
            model.api_key = Some(Secret::new(key));
            Ok(model)
        }
        Err(std::env::VarError::NotPresent) => Ok(model),
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{variable} is no text: copy the key again")),
    }
}

/// Why the model cannot be asked, if it cannot. Reads files.
pub fn check(model: &ModelConfig) -> Result<(), String> {
    let model = with_key(model.clone())?;
    provider_for(&model, &Wiring::default()).map(|_| ()).map_err(|error| error.to_string())
}

/// The same, where waiting is forbidden.
pub async fn checked(model: &ModelConfig) -> Result<(), Stop> {
    let model = model.clone();
    match tokio::task::spawn_blocking(move || check(&model)).await {
        Ok(done) => done.map_err(Stop::Refused),
        Err(error) => Err(Stop::Refused(format!("the model could not be checked: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::config::{Origin, Setting};

    fn by_flag<T>(value: T) -> Setting<T> {
        Setting { origin: Origin::Flag("--x"), ..Setting::default_of(value) }
    }

    fn openai(id: &str) -> Option<ModelName> {
        Some(ModelName::OpenAi(id.to_owned()))
    }

    #[test]
    fn a_new_session_has_the_model_and_the_place_that_are_configured() {
        let mut config = Config::default();
        let Err(Stop::Refused(text)) = chosen(&config) else { panic!() };
        assert!(text.contains("--model") && text.contains("--script"), "{text}");
        config.openai.base_url = Setting::default_of(Some("http://a/v1".to_owned()));
        config.model = Setting::default_of(openai("one"));
        let model = chosen(&config).unwrap();
        assert_eq!((&*model.id, model.base_url.as_deref(), model.api_key), ("one", Some("http://a/v1"), None));
        config.model = Setting::default_of(Some(ModelName::Scripted("/s.json".into())));
        assert_eq!(chosen(&config).unwrap(), ModelConfig::scripted("/s.json"));
        config.openai.base_url = by_flag(Some("http://a/v1".to_owned()));
        let Err(Stop::Refused(text)) = chosen(&config) else { panic!() };
        assert!(text.contains("--base-url"), "{text}");
    }

    #[test]
    fn flags_change_what_a_session_has_and_nothing_else() {
        let mut config = Config::default();
        config.openai.base_url = Setting::default_of(Some("http://configured/v1".to_owned()));
        config.model = Setting::default_of(openai("configured"));
        let stored = named(&ModelName::OpenAi("one".into()), &Config::default());
        let stored = ModelConfig { base_url: Some("http://a/v1".into()), ..stored };
        assert_eq!(changed(&config, &stored).unwrap(), stored);
        config.model = by_flag(openai("two"));
        assert_eq!(changed(&config, &stored).unwrap(), ModelConfig { id: "two".into(), ..stored.clone() });
        let other = changed(&config, &ModelConfig::scripted("/s.json")).unwrap();
        assert_eq!(other.base_url.as_deref(), Some("http://configured/v1"), "a session has no place for it");
        config.openai.base_url = by_flag(Some("http://b/v1".to_owned()));
        let moved = ModelConfig { id: "two".into(), base_url: Some("http://b/v1".into()), ..stored.clone() };
        assert_eq!(changed(&config, &stored).unwrap(), moved);
        config.model = Setting::default_of(None);
        let Err(Stop::Refused(text)) = changed(&config, &ModelConfig::scripted("/s.json")) else { panic!() };
        assert!(text.contains("--base-url"), "{text}");
    }
}
