//! The name of a model: who answers, and by which id or file.

use std::fmt;
use std::path::PathBuf;

/// What the providers are, for error texts.
const PROVIDERS: &str = "the providers are openai (openai/ID) and scripted (scripted/FILE)";

/// A model by name: `PROVIDER/ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelName {
    /// `openai/ID`: a model of OpenAI, or of a service that speaks its protocol.
    OpenAi(String),
    /// `scripted/FILE`: a script file that plays the model.
    Scripted(PathBuf),
}

impl ModelName {
    /// Reads a name; the error says what names look like.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name.split_once('/') {
            Some(("openai", "")) => Err("`openai/` needs the model's id, as in openai/gpt-5".to_owned()),
            Some(("openai", id)) => Ok(Self::OpenAi(id.to_owned())),
            Some(("scripted", "")) => Err("`scripted/` needs a file, as in scripted/play.json".to_owned()),
            Some(("scripted", file)) => Ok(Self::Scripted(PathBuf::from(file))),
            Some((provider, _)) => Err(format!("there is no provider `{provider}`: {PROVIDERS}")),
            None => Err(format!("`{name}` names no model: write PROVIDER/ID; {PROVIDERS}")),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenAi(id) => write!(f, "openai/{id}"),
            Self::Scripted(file) => write!(f, "scripted/{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_provider_and_an_id() {
        assert_eq!(ModelName::parse("openai/a/b"), Ok(ModelName::OpenAi("a/b".into())));
        assert_eq!(ModelName::parse("scripted//x/y.json"), Ok(ModelName::Scripted("/x/y.json".into())));
        for name in ["openai/a/b", "scripted//x/y.json"] {
            assert_eq!(ModelName::parse(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_cannot_be_a_model_says_what_can() {
        for name in ["gpt", "", "mistral/x", "openai/", "scripted/", "/x", "OpenAI/x"] {
            let text = ModelName::parse(name).unwrap_err();
            assert!(text.contains("openai") || text.contains("scripted"), "{text}");
        }
    }
}
