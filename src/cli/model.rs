//! Which model answers: from the flags, the environment, and what a session has.

use std::path::{Path, PathBuf};

use playhouse::protocol::{ApiProtocol, ModelConfig, Secret};
use playhouse::provider::provider_for;

use super::stop::Stop;

const PROVIDERS: &str = "the providers are openai (openai/ID) and scripted (scripted/FILE)";

/// What the flags say about the model.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// `--model`.
    pub model: Option<String>,
    /// `--script`.
    pub script: Option<PathBuf>,
    /// `--base-url`.
    pub base_url: Option<String>,
}

impl Choice {
    /// The model to use, the one that a session has being `stored`.
    pub fn of(&self, stored: Option<&ModelConfig>) -> Result<ModelConfig, Stop> {
        let named = match (&self.model, &self.script) {
            (_, Some(file)) => Some(scripted(file)?),
            (Some(name), None) => Some(named(name)?),
            (None, None) => None,
        };
        let mut model = named.or_else(|| stored.cloned()).ok_or_else(|| {
            Stop::Refused("which model? choose one with --model openai/ID or --script FILE".to_owned())
        })?;
        if let Some(stored) = stored.filter(|stored| stored.provider == model.provider) {
            model.base_url = stored.base_url.clone();
        }
        if let Some(url) = &self.base_url {
            match model.api {
                ApiProtocol::OpenaiCompletions => model.base_url = Some(url.clone()),
                ApiProtocol::Scripted => {
                    return Err(Stop::Refused("a scripted model has no service: leave --base-url out".to_owned()));
                }
            }
        }
        Ok(model)
    }
}

fn named(name: &str) -> Result<ModelConfig, Stop> {
    match name.split_once('/') {
        Some(("openai", "")) => {
            Err(Stop::Refused("--model openai/ needs the model's id, as in openai/gpt-5".to_owned()))
        }
        Some(("openai", id)) => {
            let mut model = ModelConfig::openai(id, Secret::new(""));
            model.api_key = None;
            model.base_url = std::env::var("OPENAI_BASE_URL").ok().filter(|url| !url.trim().is_empty());
            Ok(model)
        }
        Some(("scripted", "")) => {
            Err(Stop::Refused("--model scripted/ needs a file, as in scripted/play.json".to_owned()))
        }
        Some(("scripted", file)) => scripted(Path::new(file)),
        Some((provider, _)) => Err(Stop::Refused(format!("there is no provider `{provider}`: {PROVIDERS}"))),
        None => Err(Stop::Refused(format!("`{name}` names no model: write PROVIDER/ID; {PROVIDERS}"))),
    }
}

/// The path is made absolute, since a session is resumed from anywhere.
fn scripted(file: &Path) -> Result<ModelConfig, Stop> {
    let path = std::path::absolute(file)
        .map_err(|error| Stop::Refused(format!("the script `{}` cannot be found: {error}", file.display())))?;
    Ok(ModelConfig::scripted(path))
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
    provider_for(&model).map(|_| ()).map_err(|error| error.to_string())
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

    fn refusal(choice: Choice, stored: Option<&ModelConfig>) -> String {
        match choice.of(stored) {
            Err(Stop::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_a_model_says_what_can() {
        for name in ["gpt", "", "mistral/x", "openai/", "scripted/"] {
            let choice = Choice { model: Some(name.to_owned()), ..Choice::default() };
            let text = refusal(choice, None);
            assert!(text.contains("openai") || text.contains("scripted"), "{text}");
        }
        let text = refusal(Choice::default(), None);
        assert!(text.contains("--model") && text.contains("--script"), "{text}");
    }

    #[test]
    fn flags_change_what_a_session_has_and_nothing_else() {
        let stored = ModelConfig { base_url: Some("http://a/v1".into()), ..named("openai/one").unwrap() };
        assert_eq!(Choice::default().of(Some(&stored)).unwrap(), stored);
        let moved = Choice { base_url: Some("http://b/v1".into()), ..Choice::default() };
        let expected = ModelConfig { base_url: Some("http://b/v1".into()), ..stored.clone() };
        assert_eq!(moved.of(Some(&stored)).unwrap(), expected);
        let other = Choice { model: Some("openai/two".into()), ..Choice::default() };
        assert_eq!(other.of(Some(&stored)).unwrap(), ModelConfig { id: "two".into(), ..stored.clone() });
        let scripted = Choice { model: Some("scripted/x.json".into()), ..Choice::default() }.of(Some(&stored)).unwrap();
        assert!(scripted.script.as_ref().unwrap().is_absolute());
        assert!(refusal(moved, Some(&scripted)).contains("--base-url"));
    }
}
