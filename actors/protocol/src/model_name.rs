//! Models by name: `"ollama/qwen3".parse::<ModelConfig>()`.

use std::str::FromStr;

use thiserror::Error;

use crate::ModelConfig;
use crate::near::nearest_name;
use crate::presets::{PRESETS, model_named, preset};

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelNameError {
    /// It is not a provider and an id.
    #[error("`{0}` names no model: write PROVIDER/ID, as in `anthropic/claude-sonnet-4-5` or `ollama/qwen3`")]
    NoName(String),
    /// The provider is not one of [`PRESETS`].
    #[error(
        "there is no provider `{0}`: write one of {names}, or make a model with `ModelConfig::new`{near}",
        names = names().collect::<Vec<_>>().join(", "),
        near = nearest_name(.0, names()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    )]
    NoProvider(String),
}

fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name).chain(["scripted"])
}

impl ModelConfig {
    /// The model that `PROVIDER/ID` names, with what is known about it; `scripted/FILE` plays a script. Variables such as
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
        let (provider, id) = match name.split_once('/') {
            Some((provider, id)) if !id.is_empty() => (provider, id),
            Some((provider, _)) if provider != "scripted" && preset(provider).is_none() => {
                return Err(ModelNameError::NoProvider(shown(provider)));
            }
            Some(_) | None => return Err(ModelNameError::NoName(shown(name))),
        };
        model_named(provider, id, variable).ok_or_else(|| ModelNameError::NoProvider(shown(provider)))
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
