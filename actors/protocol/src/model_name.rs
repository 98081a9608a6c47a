//! Models by name: `"ollama/qwen3".parse::<ModelConfig>()`.

use std::str::FromStr;

use thiserror::Error;

use crate::ModelConfig;
use crate::catalogue::{SHORT_NAMES, by_short_name};
use crate::near::nearest_name;
use crate::presets::{PRESETS, model_named, preset};

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelNameError {
    /// It is not a provider and an id.
    #[error(
        "`{0}` names no model: write PROVIDER/ID, as in `anthropic/claude-sonnet-4-5` or `ollama/qwen3`{near}",
        near = near(.0, short_names())
    )]
    NoName(String),
    /// The provider is not one of [`PRESETS`].
    #[error(
        "there is no provider `{0}`: write one of {names}, or make a model with `ModelConfig::new`{near}",
        names = names().collect::<Vec<_>>().join(", "),
        near = near(.0, names())
    )]
    NoProvider(String),
    /// It is a list, as the command line takes one.
    #[error("`{0}` names several models: parse each by itself, and give all but the first to `AgentBuilder::fallback`")]
    Several(String),
}

/// Which of these names was probably meant.
fn near(given: &str, names: impl Iterator<Item = &'static str>) -> String {
    nearest_name(given, names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

fn short_names() -> impl Iterator<Item = &'static str> {
    SHORT_NAMES.iter().map(|(name, ..)| *name)
}

fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name).chain(["scripted"])
}

impl ModelConfig {
    /// The model that `PROVIDER/ID` names, or a short name such as `sonnet` or `gpt-5`, with what is known about it;
    /// `scripted/FILE` plays a script. It is one model: a list with commas is an error. Variables such as
    /// `OLLAMA_HOST`, or a second name for a key, count as far as `variable` gives them; without any, use
    /// [`parse`](str::parse). Its key is not read: that is done when it is asked.
    ///
    /// ```
    /// use playhouse_protocol::ModelConfig;
    ///
    /// let model = ModelConfig::named("google/gemini-2.5-flash", |name| std::env::var(name).ok())?;
    /// assert_eq!(&*model.id, "gemini-2.5-flash");
    /// # Ok::<(), playhouse_protocol::ModelNameError>(())
    /// ```
    pub fn named(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ModelNameError> {
        let shown = |text: &str| text.chars().take(60).collect();
        if name.split(',').skip(1).any(begins_a_name) {
            return Err(ModelNameError::Several(shown(name)));
        }
        let (provider, id) = match name.split_once('/') {
            Some((provider, id)) if !id.is_empty() => (provider, id),
            Some((provider, _)) if provider != "scripted" && preset(provider).is_none() => {
                return Err(ModelNameError::NoProvider(shown(provider)));
            }
            Some(_) => return Err(ModelNameError::NoName(shown(name))),
            None => {
                let (provider, id) = by_short_name(name).ok_or_else(|| ModelNameError::NoName(shown(name)))?;
                return Self::named(&format!("{provider}/{id}"), variable);
            }
        };
        model_named(provider, id, variable).ok_or_else(|| ModelNameError::NoProvider(shown(provider)))
    }
}

/// Whether another model is named by what follows a comma; an id may have one too.
fn begins_a_name(text: &str) -> bool {
    match text.trim().split_once('/') {
        Some((provider, _)) => provider == "scripted" || preset(provider).is_some(),
        None => by_short_name(text.trim()).is_some(),
    }
}

/// A model by name, wherever its vendor has it; the environment is not looked at.
impl FromStr for ModelConfig {
    type Err = ModelNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::named(name, |_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_model_with_what_is_known_about_it() {
        let qwen: ModelConfig = "ollama/qwen3".parse().unwrap();
        assert_eq!(qwen, preset("ollama").unwrap().model("qwen3", |_| None));
        let elsewhere = |name: &str| (name == "OLLAMA_HOST").then(|| "box".to_owned());
        let there = ModelConfig::named("ollama/qwen3", elsewhere).unwrap();
        assert_eq!(there.base_url.as_deref(), Some("http://box:11434/v1"));
        let claude: ModelConfig = "openrouter/anthropic/claude-sonnet-4.5".parse().unwrap();
        assert_eq!((&*claude.provider, &*claude.id), ("openrouter", "anthropic/claude-sonnet-4.5"));
        assert_eq!("scripted/a/b.json".parse(), Ok(ModelConfig::scripted("a/b.json")));
        for (short, name) in [("sonnet", "anthropic/claude-sonnet-4-5"), ("gpt-5", "openai/gpt-5")] {
            assert_eq!(short.parse::<ModelConfig>(), name.parse::<ModelConfig>(), "{short}");
        }
    }

    #[test]
    fn a_list_is_told_to_be_one_and_a_slip_what_was_meant() {
        let told = |name: &str| name.parse::<ModelConfig>().unwrap_err().to_string();
        for list in ["openai/gpt-5,sonnet", "sonnet, openai/gpt-5", "ollama/a,scripted/b.json"] {
            let told = told(list);
            assert!(told.starts_with(&format!("`{list}` names several models: ")), "{told}");
            assert!(told.contains("AgentBuilder::fallback"), "{told}");
        }
        assert!("openrouter/some/model,with,commas".parse::<ModelConfig>().is_ok());
        assert!(told("opnai/gpt-5").ends_with("; did you mean `openai`?"));
        assert!(told("sonet").ends_with("; did you mean `sonnet`?"));
        assert!(!told("something-else").contains("did you mean"));
    }

    #[test]
    fn what_names_no_model_is_told_what_does() {
        let told = |name: &str| name.parse::<ModelConfig>().unwrap_err().to_string();
        let no_name = "names no model: write PROVIDER/ID, as in `anthropic/claude-sonnet-4-5` or `ollama/qwen3`";
        for name in ["qwen3", "", "ollama/", "scripted/"] {
            assert_eq!(told(name), format!("`{name}` {no_name}"));
        }
        for name in ["olama/qwen3", "olama/", "/x"] {
            let provider = name.split('/').next().unwrap();
            let told = told(name);
            assert!(told.starts_with(&format!("there is no provider `{provider}`: write one of ")), "{told}");
            assert!(told.contains("ollama, ") && told.contains("`ModelConfig::new`"), "{told}");
        }
        assert!(told("opnai/gpt-5").ends_with("; did you mean `openai`?"), "{}", told("opnai/gpt-5"));
        assert!(!told("cohere.example/x").contains("did you mean"), "nothing is near");
    }
}
