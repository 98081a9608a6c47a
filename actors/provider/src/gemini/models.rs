//! What is known of a model by its id; pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use playhouse_protocol::{ProviderError, ThinkingLevel};
use serde::Serialize;

/// Everything but the unreserved characters, which need no encoding in an address or a form.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a model takes its messages. The two take the same message differently, so each has transcripts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Up to Gemini 2.5, and whatever is no Gemini: a seal is optional, a tool's result is text.
    Older,
    /// From Gemini 3 on: the first call of a message must have a seal, and a tool's result may hold pictures.
    Three,
}

impl Generation {
    /// By the model's id. A name without a version (`gemini-flash-latest`) means the newest.
    pub(crate) fn of(id: &str) -> Self {
        let Some(rest) = name_of(id).strip_prefix("gemini-") else { return Self::Older };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        match digits.parse::<u32>() {
            Ok(version) if version >= 3 => Self::Three,
            Err(_) if rest.ends_with("-latest") => Self::Three,
            Ok(_) | Err(_) => Self::Older,
        }
    }
}

/// The last part of an id that is a path.
fn name_of(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// The request's field `generationConfig.thinkingConfig`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

/// How a model is told to reason; `None` leaves it to the model. A model that is not known to take a setting is told
/// nothing: it would refuse the request.
pub(crate) fn thinking(id: &str, level: ThinkingLevel, max_tokens: Option<u32>) -> Option<ThinkingConfig> {
    let name = name_of(id);
    match Generation::of(id) {
        Generation::Three => {
            let level = match level {
                // It cannot be switched off.
                ThinkingLevel::Off => return None,
                // `MINIMAL` is known to some of the models only.
                ThinkingLevel::Minimal | ThinkingLevel::Low => "LOW",
                // Gemini 3 Pro knows no `MEDIUM`; those after it do.
                ThinkingLevel::Medium if name.starts_with("gemini-3-pro") => "HIGH",
                ThinkingLevel::Medium => "MEDIUM",
                ThinkingLevel::High => "HIGH",
            };
            Some(ThinkingConfig { include_thoughts: Some(true), thinking_level: Some(level), thinking_budget: None })
        }
        Generation::Older if name.starts_with("gemini-2.5-") && !name.contains("-image") && !name.contains("-tts") => {
            let budget = match level {
                ThinkingLevel::Off if name.contains("flash") => {
                    let off = ThinkingConfig { include_thoughts: None, thinking_level: None, thinking_budget: Some(0) };
                    return Some(off);
                }
                // Gemini 2.5 Pro always reasons.
                ThinkingLevel::Off => return None,
                ThinkingLevel::Minimal => 1_024,
                ThinkingLevel::Low => 2_048,
                ThinkingLevel::Medium => 8_192,
                ThinkingLevel::High => 16_384,
            };
            // Thoughts count against the output limit: half of it is left for the answer. 512 is the least that every
            // model takes.
            let cap = max_tokens.map_or(u32::MAX, |limit| (limit / 2).max(512));
            let thinking_budget = Some(budget.min(cap));
            Some(ThinkingConfig { include_thoughts: Some(true), thinking_level: None, thinking_budget })
        }
        Generation::Older => None,
    }
}

/// A model's full name at the public service: `models/…`, or `tunedModels/…`.
pub(crate) fn full_name(id: &str) -> String {
    let (kind, name) = split(id);
    format!("{kind}/{name}")
}

/// The same as a path.
pub(crate) fn resource(id: &str) -> Result<String, ProviderError> {
    let (kind, name) = split(id);
    Ok(format!("{kind}/{}", segment(id, name)?))
}

fn split(id: &str) -> (&str, &str) {
    match id.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), name)) => (kind, name),
        Some(_) | None => ("models", id),
    }
}

/// One segment of a path.
pub(crate) fn segment(id: &str, name: &str) -> Result<String, ProviderError> {
    if name.is_empty() || name == "." || name == ".." {
        let message = format!("the model `{id}` cannot be asked for: `{name}` is no name");
        return Err(ProviderError::Other { message });
    }
    Ok(utf8_percent_encode(name, RESERVED).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_generation_is_read_from_the_id() {
        for id in [
            "gemini-3-pro-preview",
            "gemini-3.1-flash-lite",
            "models/gemini-3-flash-preview",
            "gemini-4-argon",
            "gemini-10-x",
            "gemini-flash-latest",
            "publishers/google/models/gemini-3.5-flash",
        ] {
            assert_eq!(Generation::of(id), Generation::Three, "{id}");
        }
        for id in ["gemini-2.5-pro", "gemini-2.0-flash", "gemma-3-27b-it", "tunedModels/gemini-like", "gemini", "x", ""]
        {
            assert_eq!(Generation::of(id), Generation::Older, "{id}");
        }
    }

    #[test]
    fn each_model_is_told_to_think_in_its_own_way() {
        let told = |id: &str, level| serde_json::to_value(thinking(id, level, None)).unwrap();
        let at = |level: &str| json!({"includeThoughts": true, "thinkingLevel": level});
        let of = |budget: u32| json!({"includeThoughts": true, "thinkingBudget": budget});
        let levels = [
            ThinkingLevel::Off,
            ThinkingLevel::Minimal,
            ThinkingLevel::Low,
            ThinkingLevel::Medium,
            ThinkingLevel::High,
        ];
        let all = |id: &str| levels.map(|level| told(id, level));
        assert_eq!(all("gemini-3-pro-preview"), [Value::Null, at("LOW"), at("LOW"), at("HIGH"), at("HIGH")]);
        assert_eq!(all("gemini-3.5-flash"), [Value::Null, at("LOW"), at("LOW"), at("MEDIUM"), at("HIGH")]);
        assert_eq!(all("gemini-2.5-pro"), [Value::Null, of(1_024), of(2_048), of(8_192), of(16_384)]);
        let off = json!({"thinkingBudget": 0});
        assert_eq!(all("models/gemini-2.5-flash-lite"), [off, of(1_024), of(2_048), of(8_192), of(16_384)]);
        for id in ["gemini-2.0-flash", "gemini-2.5-flash-image", "gemma-3-27b-it", "tunedModels/mine"] {
            assert_eq!(all(id), [const { Value::Null }; 5], "{id}");
        }
        let capped = |max| serde_json::to_value(thinking("gemini-2.5-pro", ThinkingLevel::High, Some(max))).unwrap();
        assert_eq!([capped(10_000), capped(100), capped(65_536)], [of(5_000), of(512), of(16_384)]);
    }

    #[test]
    fn a_model_id_is_one_segment_of_the_path() {
        let place = |id: &str| resource(id).unwrap();
        assert_eq!(place("gemini-2.5-pro"), "models/gemini-2.5-pro");
        assert_eq!(place("models/gemini-2.5-pro"), "models/gemini-2.5-pro");
        assert_eq!(place("tunedModels/my-model"), "tunedModels/my-model");
        assert_eq!(place("a/b?c#d:é@1"), "models/a%2Fb%3Fc%23d%3A%C3%A9%401");
        assert_eq!(full_name("a b"), "models/a b");
        assert_eq!(full_name("tunedModels/x"), "tunedModels/x");
        for id in ["", "models/", "tunedModels/..", "."] {
            assert!(matches!(resource(id), Err(ProviderError::Other { .. })), "{id}");
        }
    }
}
