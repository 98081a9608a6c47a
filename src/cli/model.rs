//! Which models answer: what the configuration says, what a session has, and the keys for them.

use std::sync::Arc;

use playhouse::config::{Config, ModelName, Shown, known_provider};
use playhouse::protocol::entry::Settings;
use playhouse::protocol::{ApiProtocol, ModelConfig, Secret};
use playhouse::provider::{Answers, Wiring, provider_for};

use super::stop::Stop;

/// The model that is asked, and those that are fallen back on, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Who is asked.
    pub model: ModelConfig,
    /// Who is asked when that fails.
    pub fallbacks: Vec<ModelConfig>,
}

impl Chain {
    /// That of a session.
    pub fn of(settings: &Settings) -> Self {
        let fallbacks = settings.fallbacks.iter().map(|model| ModelConfig::clone(model)).collect();
        Self { model: ModelConfig::clone(&settings.model), fallbacks }
    }

    /// Gives it to a session.
    pub fn put(self, settings: &mut Settings) {
        settings.model = Arc::new(self.model);
        settings.fallbacks = self.fallbacks.into_iter().map(Arc::new).collect();
    }
}

/// The models of a new session.
pub fn chosen(config: &Config) -> Result<Chain, Stop> {
    match config.model.value.split_first() {
        Some((first, others)) => moved(chain(first, others, config)?, config),
        None => Err(Stop::Refused(match &config.model.held_back {
            None => "which model? choose one with --model PROVIDER/ID or --script FILE, or set `model` in your \
                     config.toml; `playhouse models` lists the providers"
                .to_owned(),
            Some(held) => {
                let at = &held.at;
                let wanted = match &held.wanted {
                    Shown::Text(name) => name.clone(),
                    Shown::List(names) => names.join(","),
                    Shown::Unset | Shown::Whole(_) | Shown::Number(_) => String::new(),
                };
                format!("which model? {at} asks for {wanted}, a service that is yours to choose: give --model {wanted}")
            }
        })),
    }
}

/// The models that a session has, with what flags change.
pub fn changed(config: &Config, stored: Chain) -> Result<Chain, Stop> {
    let chain = match config.model.by_flag().and_then(|names| names.split_first()) {
        Some((first, others)) => {
            let mut chain = chain(first, others, config)?;
            if chain.model.provider == stored.model.provider {
                let ModelConfig { base_url, region, project, api_version, .. } = stored.model;
                chain.model = ModelConfig { base_url, region, project, api_version, ..chain.model };
            }
            chain
        }
        None => stored,
    };
    moved(chain, config)
}

/// The chain, its first model at the place that a flag names.
fn moved(mut chain: Chain, config: &Config) -> Result<Chain, Stop> {
    let Some(url) = config.base_url.by_flag() else { return Ok(chain) };
    match chain.model.api {
        ApiProtocol::Scripted => {
            return Err(Stop::Refused("a scripted model has no service: leave --base-url out".to_owned()));
        }
        ApiProtocol::AnthropicMessages
        | ApiProtocol::OpenaiCompletions
        | ApiProtocol::OpenaiResponses
        | ApiProtocol::AzureOpenai
        | ApiProtocol::GoogleGenerativeAi
        | ApiProtocol::GoogleVertex
        | ApiProtocol::BedrockConverse
        | ApiProtocol::Custom => chain.model.base_url = url.clone(),
    }
    Ok(chain)
}

fn chain(first: &ModelName, others: &[ModelName], config: &Config) -> Result<Chain, Stop> {
    let mut model = named(first, config)?;
    if let (ModelName::Served { .. }, Some(url)) = (first, &config.base_url.value) {
        model.base_url = Some(url.clone());
    }
    let fallbacks = others.iter().map(|name| named(name, config)).collect::<Result<_, _>>()?;
    Ok(Chain { model, fallbacks })
}

/// A model with everything that is configured about it and its service.
fn named(name: &ModelName, config: &Config) -> Result<ModelConfig, Stop> {
    let (provider, id) = match name {
        ModelName::Served { provider, id } => (*provider, id.as_str()),
        ModelName::Scripted(file) => return Ok(ModelConfig::scripted(file)),
    };
    let preset = known_provider(provider).map_err(Stop::Refused)?;
    let mut model = preset.model(id, |variable| std::env::var(variable).ok().filter(|value| !value.is_empty()));
    // The configuration has read the vendor's variables too.
    let place = config.place_of(provider).and_then(|place| place.value.clone());
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
    if let Some(facts) = config.open.providers.get(provider) {
        model.headers = facts.headers.iter().map(|(name, header)| (name.clone(), header.value.clone())).collect();
    }
    if let Some(facts) = config.open.models.get(&name.to_string()) {
        model.context_window = facts.context_window.as_ref().map(|window| window.value).or(model.context_window);
        model.max_tokens = facts.max_tokens.as_ref().map(|tokens| tokens.value).or(model.max_tokens);
        model.prices = facts.prices().or(model.prices);
    }
    Ok(model)
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

/// Why a model of the chain cannot be asked, if one cannot. Reads files.
pub fn check(chain: &Chain, from: Answers) -> Result<(), String> {
    askable(&chain.model, from)?;
    for model in &chain.fallbacks {
        let id = model.script.as_ref().map_or_else(|| model.id.to_string(), |script| script.display().to_string());
        let name = format!("{}/{id}", model.provider);
        askable(model, from).map_err(|why| format!("the fallback {name} cannot be asked: {why}"))?;
    }
    Ok(())
}

fn askable(model: &ModelConfig, from: Answers) -> Result<(), String> {
    let model = match from {
        Answers::Services => with_key(model.clone())?,
        Answers::Recording => model.clone(),
    };
    provider_for(&model, &Wiring { answers: from, ..Wiring::default() }).map(|_| ()).map_err(|error| error.to_string())
}

/// The same, where waiting is forbidden.
pub async fn askable_chain(chain: Chain, from: Answers) -> Result<(), String> {
    match tokio::task::spawn_blocking(move || check(&chain, from)).await {
        Ok(done) => done,
        Err(error) => Err(format!("the model could not be checked: {error}")),
    }
}

/// The same, as a reason to refuse a command.
pub async fn checked(chain: Chain, from: Answers) -> Result<(), Stop> {
    askable_chain(chain, from).await.map_err(Stop::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::config::open::{ModelFacts, ProviderFacts};
    use playhouse::config::{Origin, Setting};
    use playhouse::protocol::Prices;

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
    fn places(chain: &Chain) -> Vec<(String, Option<&str>)> {
        let models = std::iter::once(&chain.model).chain(&chain.fallbacks);
        models.map(|model| (format!("{}/{}", model.provider, model.id), model.base_url.as_deref())).collect()
    }

    #[test]
    fn a_new_session_has_the_models_and_the_places_that_are_configured() {
        let mut config = Config::default();
        let Err(Stop::Refused(text)) = chosen(&config) else { panic!() };
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
        let chain = chosen(&config).unwrap();
        assert_eq!(places(&chain), expected("http://a/v1"));
        assert_eq!(chain.model.api_key, None);
        config.base_url = url("http://first/v1");
        assert_eq!(places(&chosen(&config).unwrap()), expected("http://first/v1"));
        config.base_url = by_flag(Some("http://flag/v1".to_owned()));
        assert_eq!(places(&chosen(&config).unwrap()), expected("http://flag/v1"));
    }

    #[test]
    fn a_script_has_no_place_and_a_flag_for_one_is_a_mistake() {
        let mut config = Config { base_url: url("http://a/v1"), ..Config::default() };
        config.model = Setting::default_of(vec![ModelName::Scripted("/s.json".into())]);
        let script = Chain { model: ModelConfig::scripted("/s.json"), fallbacks: Vec::new() };
        assert_eq!(chosen(&config).unwrap(), script);
        config.base_url = by_flag(Some("http://a/v1".to_owned()));
        let Err(Stop::Refused(text)) = chosen(&config) else { panic!() };
        assert!(text.contains("--base-url"), "{text}");
    }

    #[test]
    fn what_the_user_knows_of_a_model_wins_over_the_catalogue() {
        let mut config = Config { model: Setting::default_of(names("openai/gpt-5,openai/mine")), ..Config::default() };
        let known = chosen(&config).unwrap();
        assert!(known.model.prices.is_some() && known.model.context_window.is_some());
        assert_eq!((known.fallbacks[0].prices, known.fallbacks[0].context_window), (None, None));
        let facts = ModelFacts {
            context_window: Some(Setting::default_of(5)),
            max_tokens: Some(Setting::default_of(6)),
            input: Some(Setting::default_of(1.0)),
            output: Some(Setting::default_of(2.0)),
            ..ModelFacts::default()
        };
        config.open.models.insert("openai/mine".to_owned(), facts.clone());
        let other = ModelFacts { context_window: Some(Setting::default_of(7)), max_tokens: None, ..facts.clone() };
        config.open.models.insert("openai/gpt-5".to_owned(), other);
        let headers = [("x-a".to_owned(), Setting::default_of("b".to_owned()))].into();
        config.open.providers.insert("openai".to_owned(), ProviderFacts { headers });
        let chain = chosen(&config).unwrap();
        let headers = [("x-a".to_owned(), "b".to_owned())].into();
        let mine = &chain.fallbacks[0];
        let prices =
            Prices { input: 1_000_000, output: 2_000_000, cache_read: 1_000_000, cache_write: 1_000_000, up_to: None };
        assert_eq!((mine.context_window, mine.max_tokens, mine.prices), (Some(5), Some(6), Some(prices)));
        let known = ModelConfig { context_window: Some(7), prices: Some(prices), headers, ..known.model };
        assert_eq!(chain.model, known);
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
            let ModelConfig { api_version, project, region, .. } = chosen(&config).unwrap().model;
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
        let stored = Chain { model: at("one", "http://a/v1"), fallbacks: vec![at("other", "http://c/v1")] };
        let script = Chain { model: ModelConfig::scripted("/s.json"), fallbacks: Vec::new() };
        assert_eq!(changed(&config, stored.clone()).unwrap(), stored);
        config.model = by_flag(names("openai/two"));
        let two = Chain { model: at("two", "http://a/v1"), fallbacks: Vec::new() };
        assert_eq!(changed(&config, stored.clone()).unwrap(), two, "the whole chain is another");
        let other = changed(&config, script.clone()).unwrap();
        assert_eq!(other.model.base_url.as_deref(), Some("http://first/v1"), "a session has no place for it");
        config.base_url = by_flag(Some("http://b/v1".to_owned()));
        let moved = Chain { model: at("two", "http://b/v1"), fallbacks: Vec::new() };
        assert_eq!(changed(&config, stored.clone()).unwrap(), moved);
        config.model = Setting::default_of(Vec::new());
        let moved = Chain { model: at("one", "http://b/v1"), ..stored.clone() };
        assert_eq!(changed(&config, stored).unwrap(), moved, "only the first is moved");
        let Err(Stop::Refused(text)) = changed(&config, script) else { panic!() };
        assert!(text.contains("--base-url"), "{text}");
    }

    #[test]
    fn a_fallback_that_cannot_be_asked_is_named() {
        let script = |name: &str| ModelConfig::scripted(format!("/no/{name}.json"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        std::fs::write(&file, r#"{"turns": []}"#).unwrap();
        let chain = Chain { model: ModelConfig::scripted(file), fallbacks: vec![script("b")] };
        let told = check(&chain, Answers::Services).unwrap_err();
        assert!(told.starts_with("the fallback scripted//no/b.json cannot be asked: "), "{told}");
        let told = check(&Chain { model: script("a"), ..chain }, Answers::Services).unwrap_err();
        assert!(told.contains("/no/a.json") && !told.contains("fallback"), "{told}");
    }
}
