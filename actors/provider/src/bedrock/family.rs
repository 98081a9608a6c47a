//! What kinds of models take; pure. A model that is not known here is asked for nothing special.

/// A kind of model, as its id tells it. An inference profile's id holds the model's; an application's own profile
/// (`…:application-inference-profile/abc`) tells nothing and is [`Family::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Claude from 4.7 on: thinks as much as it sees fit, takes an effort and no budget, and no temperature; caches.
    AdaptiveClaude,
    /// Claude from 3.7 to 4.6: thinks within a budget; caches.
    Claude,
    /// Claude 3.5 Haiku and the second 3.5 Sonnet: cache, and do not think.
    CachingClaude,
    /// Claude before those: neither caches nor thinks.
    OldClaude,
    /// Amazon's Nova: caches all but tools.
    Nova,
    /// Mistral's large models, which take a choice of tool.
    MistralLarge,
    Other,
}

/// Where cache points may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Points {
    /// After the system prompt.
    pub(super) system: bool,
    /// After the tools.
    pub(super) tools: bool,
    /// At the end of the second-to-last message.
    pub(super) messages: bool,
}

impl Family {
    pub(super) fn of(id: &str) -> Self {
        let id = id.to_ascii_lowercase();
        let is = |part: &str| id.contains(part);
        if is("anthropic.claude") {
            let first = ["claude-instant", "claude-v2", "claude-3-haiku", "claude-3-sonnet", "claude-3-opus"];
            return match () {
                () if first.iter().any(|old| is(old)) || is("claude-3-5-sonnet-20240620") => Self::OldClaude,
                () if is("claude-3-5-") => Self::CachingClaude,
                () if version(&id) >= Some((4, 7)) => Self::AdaptiveClaude,
                () => Self::Claude,
            };
        }
        if is("amazon.nova") {
            return Self::Nova;
        }
        if is("mistral.mistral-large") { Self::MistralLarge } else { Self::Other }
    }

    /// Where it takes cache points, by the table of models in "Prompt caching for faster model inference".
    pub(super) fn points(self) -> Points {
        match self {
            Self::AdaptiveClaude | Self::Claude | Self::CachingClaude => {
                Points { system: true, tools: true, messages: true }
            }
            Self::Nova => Points { system: true, tools: false, messages: true },
            Self::OldClaude | Self::MistralLarge | Self::Other => Points::default(),
        }
    }

    /// How it is told to think.
    pub(super) fn thinking(self) -> Thinking {
        match self {
            Self::AdaptiveClaude => Thinking::Effort,
            Self::Claude => Thinking::Budget,
            Self::CachingClaude | Self::OldClaude | Self::Nova | Self::MistralLarge | Self::Other => Thinking::None,
        }
    }

    /// Whether it can be made to call a tool.
    pub(super) fn takes_tool_choice(self) -> bool {
        match self {
            Self::AdaptiveClaude
            | Self::Claude
            | Self::CachingClaude
            | Self::OldClaude
            | Self::Nova
            | Self::MistralLarge => true,
            Self::Other => false,
        }
    }
}

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// By a budget of tokens.
    Budget,
    /// By an effort, in a word.
    Effort,
    /// It does not think.
    None,
}

/// The version in `claude-<name>-<major>[-<minor>]`, the form of ids since 4. A date is no minor.
fn version(id: &str) -> Option<(u32, u32)> {
    let (_, rest) = id.split_once("anthropic.claude-")?;
    let mut parts = rest.split(['-', ':', '@']);
    // Before 4 the version came first.
    parts.next().filter(|name| name.chars().all(|c| c.is_ascii_alphabetic()))?;
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().filter(|minor| minor.len() <= 2).and_then(|minor| minor.parse().ok());
    Some((major, minor.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_told_by_the_id_in_whatever_it_is_wrapped() {
        let sonnet = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
        for id in [sonnet, &format!("arn:aws:bedrock:us-east-1:123456789012:inference-profile/{sonnet}")] {
            assert_eq!(Family::of(id), Family::Claude);
        }
        for id in [
            "anthropic.claude-opus-4-7",
            "global.anthropic.claude-opus-5",
            "us.anthropic.claude-opus-4-8-v1:0",
            "anthropic.claude-sonnet-5-20260701-v1:0",
        ] {
            assert_eq!(Family::of(id), Family::AdaptiveClaude, "{id}");
        }
        for id in ["anthropic.claude-opus-4-6-v1", "anthropic.claude-opus-4-20250514-v1:0"] {
            assert_eq!(Family::of(id), Family::Claude, "{id}");
        }
        assert_eq!(Family::of("anthropic.claude-3-7-sonnet-20250219-v1:0"), Family::Claude);
        assert_eq!(Family::of("anthropic.claude-3-5-sonnet-20241022-v2:0"), Family::CachingClaude);
        assert_eq!(Family::of("anthropic.claude-3-5-sonnet-20240620-v1:0"), Family::OldClaude);
        assert_eq!(Family::of("anthropic.claude-3-haiku-20240307-v1:0"), Family::OldClaude);
        assert_eq!(Family::of("eu.amazon.nova-pro-v1:0"), Family::Nova);
        assert_eq!(Family::of("mistral.mistral-large-2407-v1:0"), Family::MistralLarge);
        let opaque = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123";
        assert_eq!(Family::of(opaque), Family::Other);
        assert_eq!(Family::of("meta.llama3-1-70b-instruct-v1:0"), Family::Other);
    }
}
