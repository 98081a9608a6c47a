//! Which models answer: what the configuration says, what a session has, and the keys for them.

use std::sync::Arc;

use playhouse_protocol::entry::Settings;
use playhouse_protocol::{
    ApiProtocol, CacheConfig, History, Message, ModelConfig, Purpose, Secret, StreamConfig, ThinkingLevel,
};
use playhouse_provider::{Answers, Wiring, provider_for};

use super::FromConfigError;
use crate::config::{Config, ModelName, Shown, known_provider};

/// The model that is asked, and those that are fallen back on, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Models {
    /// The model that is asked first.
    pub(super) first: ModelConfig,
    /// Who is asked when that fails.
    pub(super) fallbacks: Vec<ModelConfig>,
}

impl Models {
    /// Those of a session.
    pub(super) fn of_settings(settings: &Settings) -> Self {
        let fallbacks = settings.fallbacks.iter().map(|model| ModelConfig::clone(model)).collect();
        Self { first: ModelConfig::clone(&settings.model), fallbacks }
    }

    /// Those of a new session.
    pub(super) fn of_config(config: &Config) -> Result<Self, FromConfigError> {
        match (config.model.value.split_first(), &config.model.held_back) {
            (Some((first, others)), _) => Self::named(first, others, config)?.moved(config),
            (None, None) if config.keys_set.is_empty() => Err(FromConfigError::NoModel),
            (None, None) => Err(FromConfigError::SeveralKeys(config.keys_set.clone())),
            (None, Some(held)) => {
                let wanted = match &held.wanted {
                    Shown::Text(name) => name.clone(),
                    Shown::List(names) => names.join(","),
                    Shown::Unset | Shown::Whole(_) | Shown::Number(_) => String::new(),
                };
                Err(FromConfigError::ModelHeldBack { at: held.at.clone(), wanted })
            }
        }
    }

    /// Gives them to a session.
    pub(super) fn put(self, settings: &mut Settings) {
        settings.model = Arc::new(self.first);
        settings.fallbacks = self.fallbacks.into_iter().map(Arc::new).collect();
    }

    /// With what flags change.
    pub(super) fn changed(self, config: &Config) -> Result<Self, FromConfigError> {
        let models = match config.model.by_flag().and_then(|names| names.split_first()) {
            Some((first, others)) => {
                let mut models = Self::named(first, others, config)?;
                if models.first.provider == self.first.provider {
                    let ModelConfig { base_url, region, project, api_version, .. } = self.first;
                    models.first = ModelConfig { base_url, region, project, api_version, ..models.first };
                }
                models
            }
            None => self,
        };
        models.moved(config)
    }

    /// With the first model at the place that a flag names.
    fn moved(mut self, config: &Config) -> Result<Self, FromConfigError> {
        let Some(url) = config.base_url.by_flag() else { return Ok(self) };
        match self.first.api {
            ApiProtocol::Scripted => return Err(FromConfigError::ScriptHasNoService),
            ApiProtocol::AnthropicMessages
            | ApiProtocol::OpenaiCompletions
            | ApiProtocol::OpenaiResponses
            | ApiProtocol::AzureOpenai
            | ApiProtocol::GoogleGenerativeAi
            | ApiProtocol::GoogleVertex
            | ApiProtocol::BedrockConverse
            | ApiProtocol::Custom => self.first.base_url = url.clone(),
        }
        Ok(self)
    }

    fn named(first: &ModelName, others: &[ModelName], config: &Config) -> Result<Self, FromConfigError> {
        let mut model = named(first, config)?;
        if let (ModelName::Served { .. }, Some(url)) = (first, &config.base_url.value) {
            model.base_url = Some(url.clone());
        }
        let fallbacks = others.iter().map(|name| named(name, config)).collect::<Result<_, _>>()?;
        Ok(Self { first: model, fallbacks })
    }

    /// With the keys that their environment variables hold.
    pub(super) fn with_keys(self) -> Result<Self, FromConfigError> {
        let fallbacks = self.fallbacks.into_iter().map(with_key).collect::<Result<_, _>>()?;
        Ok(Self { first: with_key(self.first)?, fallbacks })
    }

    /// Why one of them cannot be asked this, if one cannot. Reads files.
    pub(super) fn check(
        &self,
        answers: Answers,
        thinking: ThinkingLevel,
        prompt: &Message,
    ) -> Result<(), FromConfigError> {
        askable(&self.first, answers, thinking, prompt)?;
        for model in &self.fallbacks {
            let id = model.script.as_ref().map_or_else(|| model.id.to_string(), |script| script.display().to_string());
            let name = format!("{}/{id}", model.provider);
            let told = |error: FromConfigError| FromConfigError::FallbackNotAskable { name, reason: error.to_string() };
            askable(model, answers, thinking, prompt).map_err(told)?;
        }
        Ok(())
    }
}

/// A model with everything that is configured about it and its service.
fn named(name: &ModelName, config: &Config) -> Result<ModelConfig, FromConfigError> {
    let (provider, id) = match name {
        ModelName::Served { provider, id } => (*provider, id.as_str()),
        ModelName::Scripted(file) => return Ok(ModelConfig::scripted(file)),
    };
    let preset = known_provider(provider).map_err(FromConfigError::UnknownProvider)?;
    let mut model = preset.model(id, |variable| std::env::var(variable).ok().filter(|value| !value.is_empty()));
    // The configuration has read the vendor's variables too.
    let place = config.base_url_of(provider).and_then(|place| place.value.clone());
    model.base_url = place.or(preset.base_url.map(str::to_owned));
    match preset.api {
        ApiProtocol::AzureOpenai => model.api_version = config.azure.api_version.value.clone(),
        ApiProtocol::GoogleVertex => {
            model.project = config.vertex.project.value.clone();
            model.region = config.vertex.region.value.clone();
        }
        ApiProtocol::BedrockConverse => model.region = config.bedrock.region.value.clone(),
        ApiProtocol::AnthropicMessages
        | ApiProtocol::OpenaiCompletions
        | ApiProtocol::OpenaiResponses
        | ApiProtocol::GoogleGenerativeAi
        | ApiProtocol::Scripted
        | ApiProtocol::Custom => {}
    }
    if let Some(facts) = config.named.providers.get(provider) {
        model.headers = facts.headers.iter().map(|(name, header)| (name.clone(), header.value.clone())).collect();
    }
    if let Some(facts) = config.named.models.get(&name.to_string()) {
        model.context_window = facts.context_window.as_ref().map(|window| window.value).or(model.context_window);
        model.max_tokens = facts.max_tokens.as_ref().map(|tokens| tokens.value).or(model.max_tokens);
        model.reasoning_summary = facts.reasoning_summary.as_ref().map(|summary| summary.value);
        model.images = facts.images.as_ref().map(|images| images.value.clone());
        model.prices = facts.prices().or(model.prices);
    }
    Ok(model)
}

/// The model with the key that its environment variable holds.
fn with_key(mut model: ModelConfig) -> Result<ModelConfig, FromConfigError> {
    let Some(variable) = &model.key_variable else { return Ok(model) };
    match std::env::var(variable) {
        Ok(key) if key.trim().is_empty() => Err(FromConfigError::EmptyKey(variable.clone())),
        Ok(key) => {
            model.api_key = Some(Secret::new(key));
            Ok(model)
        }
        Err(std::env::VarError::NotPresent) => Ok(model),
        Err(std::env::VarError::NotUnicode(_)) => Err(FromConfigError::KeyIsNoText(variable.clone())),
    }
}

fn askable(
    model: &ModelConfig,
    answers: Answers,
    thinking_level: ThinkingLevel,
    prompt: &Message,
) -> Result<(), FromConfigError> {
    let model = match answers {
        Answers::Services => with_key(model.clone())?,
        Answers::Recording => model.clone(),
    };
    let made = provider_for(&model, &Wiring { answers, ..Wiring::default() });
    let provider = made.map_err(|error| FromConfigError::NotAskable(error.to_string()))?;
    let first_request = StreamConfig {
        model_config: Arc::new(model),
        system_prompt: "".into(),
        conversation: "".into(),
        messages: History::default(),
        tail: vec![Arc::new(prompt.clone().into())],
        tools: Arc::from([]),
        thinking_level,
        max_tokens: None,
        temperature: None,
        cache_config: CacheConfig::default(),
        purpose: Purpose::default(),
        response: 0,
        attempt: 0,
        first_prompt: "".into(),
        response_format: None,
    };
    provider.check(&first_request).map_err(|error| FromConfigError::NotAskable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ModelFacts, ProviderFacts};
    use crate::config::{Origin, Setting};
    use playhouse_protocol::Prices;

    fn by_flag<T>(value: T) -> Setting<T> {
        Setting { origin: Origin::Flag("--x"), ..Setting::default_of(value) }
    }

    fn names(names: &str) -> Vec<ModelName> {
        ModelName::parse_chain(names).unwrap()
    }

    fn url(url: &str) -> Setting<Option<String>> {
        Setting::default_of(Some(url.to_owned()))
    }

    /// Each with its place.
    fn places(models: &Models) -> Vec<(String, Option<&str>)> {
        let all = std::iter::once(&models.first).chain(&models.fallbacks);
        all.map(|model| (format!("{}/{}", model.provider, model.id), model.base_url.as_deref())).collect()
    }

    #[test]
    fn a_new_session_has_the_models_and_the_places_that_are_configured() {
        let mut config = Config::default();
        let text = Models::of_config(&config).unwrap_err().to_string();
        assert!(text.contains("--model") && text.contains("--script"), "{text}");
        config.openai.base_url = url("http://a/v1");
        config.ollama.base_url = url("http://o/v1");
        config.model = Setting::default_of(names("openai/one,groq/two,openai-responses/three,ollama/four"));
        let expected = |first| {
            [
                ("openai/one".to_owned(), Some(first)),
                ("groq/two".to_owned(), Some("https://api.groq.com/openai/v1")),
                ("openai-responses/three".to_owned(), Some("http://a/v1")),
                ("ollama/four".to_owned(), Some("http://o/v1")),
            ]
        };
        let chain = Models::of_config(&config).unwrap();
        assert_eq!(places(&chain), expected("http://a/v1"));
        assert_eq!(chain.first.api_key, None);
        config.base_url = url("http://first/v1");
        assert_eq!(places(&Models::of_config(&config).unwrap()), expected("http://first/v1"));
        config.base_url = by_flag(Some("http://flag/v1".to_owned()));
        assert_eq!(places(&Models::of_config(&config).unwrap()), expected("http://flag/v1"));
    }

    #[test]
    fn a_script_has_no_place_and_a_flag_for_one_is_a_mistake() {
        let mut config = Config { base_url: url("http://a/v1"), ..Config::default() };
        config.model = Setting::default_of(vec![ModelName::Scripted("/s.json".into())]);
        let script = Models { first: ModelConfig::scripted("/s.json"), fallbacks: Vec::new() };
        assert_eq!(Models::of_config(&config).unwrap(), script);
        config.base_url = by_flag(Some("http://a/v1".to_owned()));
        let text = Models::of_config(&config).unwrap_err().to_string();
        assert!(text.contains("--base-url"), "{text}");
    }

    #[test]
    fn what_the_user_knows_of_a_model_wins_over_the_catalogue() {
        let mut config = Config { model: Setting::default_of(names("openai/gpt-5,openai/mine")), ..Config::default() };
        let known = Models::of_config(&config).unwrap();
        assert!(known.first.prices.is_some() && known.first.context_window.is_some());
        assert_eq!((known.fallbacks[0].prices, known.fallbacks[0].context_window), (None, None));
        let facts = ModelFacts {
            context_window: Some(Setting::default_of(5)),
            max_tokens: Some(Setting::default_of(6)),
            input: Some(Setting::default_of(1.0)),
            output: Some(Setting::default_of(2.0)),
            ..ModelFacts::default()
        };
        config.named.models.insert("openai/mine".to_owned(), facts.clone());
        let other = ModelFacts { context_window: Some(Setting::default_of(7)), max_tokens: None, ..facts.clone() };
        config.named.models.insert("openai/gpt-5".to_owned(), other);
        let headers = [("x-a".to_owned(), Setting::default_of("b".to_owned()))].into();
        config.named.providers.insert("openai".to_owned(), ProviderFacts { headers });
        let chain = Models::of_config(&config).unwrap();
        let headers = [("x-a".to_owned(), "b".to_owned())].into();
        let mine = &chain.fallbacks[0];
        let prices =
            Prices { input: 1_000_000, output: 2_000_000, cache_read: 1_000_000, cache_write: 1_000_000, up_to: None };
        assert_eq!((mine.context_window, mine.max_tokens, mine.prices), (Some(5), Some(6), Some(prices)));
        let known = ModelConfig { context_window: Some(7), prices: Some(prices), headers, ..known.first };
        assert_eq!(chain.first, known);
    }

    #[test]
    fn regions_projects_and_versions_go_to_those_who_need_them() {
        let mut config = Config::default();
        let text = |text: &str| Setting::default_of(Some(text.to_owned()));
        config.azure.api_version = text("v");
        (config.vertex.project, config.vertex.region) = (text("p"), text("vr"));
        config.bedrock.region = text("br");
        let told = |names_: &str| {
            let config = Config { model: Setting::default_of(names(names_)), ..config.clone() };
            let ModelConfig { api_version, project, region, .. } = Models::of_config(&config).unwrap().first;
            [api_version, project, region].map(Option::unwrap_or_default)
        };
        assert_eq!(told("azure/x"), ["v", "", ""]);
        assert_eq!(told("vertex/x"), ["", "p", "vr"]);
        assert_eq!(told("bedrock/x"), ["", "", "br"]);
        assert_eq!(told("openai/x"), ["", "", ""]);
    }

    #[test]
    fn flags_change_what_a_session_has_and_nothing_else() {
        let mut config = Config { model: Setting::default_of(names("openai/configured")), ..Config::default() };
        config.openai.base_url = url("http://configured/v1");
        config.base_url = url("http://first/v1");
        let at = |id: &str, place: &str| {
            let model = named(&names(&format!("openai/{id}"))[0], &Config::default()).unwrap();
            ModelConfig { base_url: Some(place.to_owned()), ..model }
        };
        let stored = Models { first: at("one", "http://a/v1"), fallbacks: vec![at("other", "http://c/v1")] };
        let script = Models { first: ModelConfig::scripted("/s.json"), fallbacks: Vec::new() };
        assert_eq!(stored.clone().changed(&config).unwrap(), stored);
        config.model = by_flag(names("openai/two"));
        let two = Models { first: at("two", "http://a/v1"), fallbacks: Vec::new() };
        assert_eq!(stored.clone().changed(&config).unwrap(), two, "the whole chain is another");
        let other = script.clone().changed(&config).unwrap();
        assert_eq!(other.first.base_url.as_deref(), Some("http://first/v1"), "a session has no place for it");
        config.base_url = by_flag(Some("http://b/v1".to_owned()));
        let moved = Models { first: at("two", "http://b/v1"), fallbacks: Vec::new() };
        assert_eq!(stored.clone().changed(&config).unwrap(), moved);
        config.model = Setting::default_of(Vec::new());
        let moved = Models { first: at("one", "http://b/v1"), ..stored.clone() };
        assert_eq!(stored.changed(&config).unwrap(), moved, "only the first is moved");
        let text = script.changed(&config).unwrap_err().to_string();
        assert!(text.contains("--base-url"), "{text}");
    }

    #[test]
    fn a_fallback_that_cannot_be_asked_is_named() {
        let script = |name: &str| ModelConfig::scripted(format!("/no/{name}.json"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        std::fs::write(&file, r#"{"turns": []}"#).unwrap();
        let chain = Models { first: ModelConfig::scripted(file), fallbacks: vec![script("b")] };
        let check =
            |models: &Models| models.check(Answers::Services, ThinkingLevel::default(), &Message::user("go", 0));
        let told = check(&chain).unwrap_err().to_string();
        assert!(told.starts_with("the fallback scripted//no/b.json cannot be asked: "), "{told}");
        let told = check(&Models { first: script("a"), ..chain }).unwrap_err().to_string();
        assert!(told.contains("/no/a.json") && !told.contains("fallback"), "{told}");
    }
}
