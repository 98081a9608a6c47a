//! Names of models: who answers, and by which id or file; alone or in a chain.

use std::fmt;
use std::path::PathBuf;

use playhouse_provider::catalogue::{by_short_name, short_names};
use playhouse_provider::{PRESETS, Preset, preset};

use crate::nearest::nearest;

/// What plays a script file.
const SCRIPTED: &str = "scripted";
/// The last words of errors about names.
const LISTED: &str = "`playhouse models` lists the providers";

/// A model by name: `PROVIDER/ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelName {
    /// `PROVIDER/ID`: a model of a service that is known by name.
    Served {
        /// The service: the name of a preset.
        provider: &'static str,
        /// The model's id, as the service knows it.
        id: String,
    },
    /// `scripted/FILE`: a script file that plays the model.
    Scripted(PathBuf),
}

/// The provider of this name; the error says which was probably meant.
pub fn known_provider(name: &str) -> Result<&'static Preset, String> {
    preset(name).ok_or_else(|| {
        let names = PRESETS.iter().map(|preset| preset.name).chain([SCRIPTED]);
        let near = nearest(name, names.map(|name| (name, name)));
        let hint = near.map(|near| format!("did you mean `{}`? ", near.candidate)).unwrap_or_default();
        let name: String = name.chars().take(60).collect();
        format!("there is no provider `{name}`: {hint}{LISTED}")
    })
}

impl ModelName {
    /// Reads one name: `PROVIDER/ID`, or a short one such as `sonnet`. The error says what names look like.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name.split_once('/') {
            Some((SCRIPTED, "")) => Err("`scripted/` needs a file, as in scripted/play.json".to_owned()),
            Some((SCRIPTED, file)) => Ok(Self::Scripted(PathBuf::from(file))),
            Some((provider, id)) => {
                let preset = known_provider(provider)?;
                let provider = preset.name;
                if id.is_empty() {
                    let example = preset.example;
                    return Err(format!("`{provider}/` needs the model's id, as in {provider}/{example}"));
                }
                slip_in(id)?;
                Ok(Self::Served { provider, id: id.to_owned() })
            }
            None => match by_short_name(name) {
                Some((provider, id)) => Ok(Self::Served { provider, id }),
                None => Err(no_model(name)),
            },
        }
    }

    /// Reads names separated by commas. Ids and files may have commas too: one separates only where a provider and a
    /// slash follow it, or a short name.
    pub(crate) fn parse_chain(names: &str) -> Result<Vec<Self>, String> {
        let mut chain = Vec::new();
        let mut open = String::new();
        for (n, piece) in names.split(',').enumerate() {
            match (n, begins_a_name(piece.trim_start())) {
                (0, _) => {}
                (_, true) => chain.push(Self::parse(std::mem::take(&mut open).trim())?),
                (_, false) => open.push(','),
            }
            open.push_str(piece);
        }
        chain.push(Self::parse(open.trim())?);
        Ok(chain)
    }
}

fn begins_a_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((provider, _)) => provider == SCRIPTED || preset(provider).is_some(),
        None => by_short_name(text.trim_end()).is_some(),
    }
}

fn no_model(name: &str) -> String {
    let near = nearest(name, short_names().map(|name| (name, name)));
    let hint = near.map(|near| format!("did you mean `{}`? else ", near.candidate)).unwrap_or_default();
    let name: String = name.chars().take(60).collect();
    format!("`{name}` names no model: {hint}write PROVIDER/ID, as in openai/gpt-5; {LISTED}")
}

/// What is almost certainly a slip: an id that ends with a comma, or goes on with a provider that is nearly one.
fn slip_in(id: &str) -> Result<(), String> {
    if id.ends_with(',') {
        return Err("nothing follows the last comma: name another model, or leave it out".to_owned());
    }
    for piece in id.split(',').skip(1) {
        let Some((provider, _)) = piece.trim_start().split_once('/') else { continue };
        let names = PRESETS.iter().map(|preset| preset.name).chain([SCRIPTED]);
        if nearest(provider, names.map(|name| (name, name))).is_some() {
            known_provider(provider)?;
        }
    }
    Ok(())
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { provider, id } => write!(f, "{provider}/{id}"),
            Self::Scripted(file) => write!(f, "scripted/{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(provider: &'static str, id: &str) -> ModelName {
        ModelName::Served { provider, id: id.to_owned() }
    }

    #[test]
    fn a_name_is_a_provider_and_an_id() {
        assert_eq!(ModelName::parse("openai/a/b"), Ok(served("openai", "a/b")));
        assert_eq!(ModelName::parse("scripted//x/y.json"), Ok(ModelName::Scripted("/x/y.json".into())));
        for preset in PRESETS {
            let name = format!("{}/{}", preset.name, preset.example);
            assert_eq!(ModelName::parse(&name), Ok(served(preset.name, preset.example)));
            assert_eq!(ModelName::parse_chain(&name).map(|chain| chain.len()), Ok(1));
            assert_eq!(ModelName::parse(&name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_cannot_be_a_model_says_what_can() {
        let listed = "`playhouse models` lists the providers";
        let no_name = |name: &str| format!("`{name}` names no model: write PROVIDER/ID, as in openai/gpt-5; {listed}");
        for (name, told) in [
            ("gpt", no_name("gpt").replace("write", "did you mean `gpt-5`? else write")),
            ("sonet", no_name("sonet").replace("write", "did you mean `sonnet`? else write")),
            ("something-else", no_name("something-else")),
            ("", no_name("")),
            ("mistrall/x", format!("there is no provider `mistrall`: did you mean `mistral`? {listed}")),
            ("OpenAI/x", format!("there is no provider `OpenAI`: did you mean `openai`? {listed}")),
            ("cohere.example/x", format!("there is no provider `cohere.example`: {listed}")),
            ("/x", format!("there is no provider ``: {listed}")),
            ("groq/", "`groq/` needs the model's id, as in groq/llama-3.3-70b-versatile".to_owned()),
            ("scripted/", "`scripted/` needs a file, as in scripted/play.json".to_owned()),
        ] {
            assert_eq!(ModelName::parse(name), Err(told.clone()), "{name}");
            assert_eq!(ModelName::parse_chain(name), Err(told), "{name}");
        }
    }

    #[test]
    fn a_short_name_needs_no_provider() {
        assert_eq!(ModelName::parse("sonnet"), Ok(served("anthropic", "claude-sonnet-4-5")));
        let chain = [served("anthropic", "claude-opus-4-5"), served("openai", "gpt-5"), served("ollama", "a")];
        assert_eq!(ModelName::parse_chain("opus, gpt-5 ,ollama/a"), Ok(chain.into()));
        assert_eq!(ModelName::parse_chain("ollama/a,sonnet").map(|chain| chain.len()), Ok(2));
    }

    #[test]
    fn a_comma_separates_only_where_another_model_begins() {
        let chain = |names: &str| ModelName::parse_chain(names).unwrap();
        let expected =
            [served("openai", "a"), served("openrouter", "anthropic/b"), ModelName::Scripted("c,d.json".into())];
        assert_eq!(chain("openai/a,openrouter/anthropic/b,scripted/c,d.json"), expected);
        assert_eq!(chain(" openai/a , openrouter/anthropic/b ,scripted/c,d.json "), expected);
        assert_eq!(chain("openai/a,b,c/d"), [served("openai", "a,b,c/d")]);
        assert_eq!(chain("ollama/a,ollama/a"), [served("ollama", "a"), served("ollama", "a")]);
        let told = |names: &str| ModelName::parse_chain(names).unwrap_err();
        assert!(told("openai/a,antropic/b").starts_with("there is no provider `antropic`: did you mean `anthropic`?"));
        assert!(told("openai/a,").starts_with("nothing follows the last comma"));
        assert!(told(",openai/a").starts_with("`` names no model"));
        assert!(told("openai/a,groq/").starts_with("`groq/` needs the model's id"));
    }
}
