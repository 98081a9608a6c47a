//! Which pictures a service takes: checked before a request is sent; pure.
//!
//! One table, of what vendors' pages said in autumn 2026; docs/providers.md says which, and what is only remembered.
//! Services may have outgrown it: a limit that is too low here keeps pictures from a service that would take them, and
//! `images` in `[models."PROVIDER/ID"]` overrules it. What is not known of a service is not checked: it says itself what
//! it refuses.

mod pixels;
mod whole;

use playhouse_protocol::{ApiProtocol, Content, Message, ModelConfig, ProviderError, StreamConfig, TakenImages};

pub use whole::is_whole_picture;

const MB: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Formats that most services take.
const COMMON: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Formats that Google's services take.
const GOOGLE: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// What a service takes. `None` is not known, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureLimits {
    /// The formats, by MIME type.
    pub(crate) formats: &'static [&'static str],
    /// The most bytes of one picture.
    pub(crate) bytes: Option<Size>,
    /// The most pixels of one side.
    pub(crate) side: Option<u32>,
    /// The most pixels of one side in a request with more than so many pictures: `(pictures, pixels)`.
    pub(crate) side_of_many: Option<(usize, u32)>,
    /// The most pictures in a request.
    pub(crate) count: Option<usize>,
    /// The most pictures in a request to a model with a window of at most so many tokens: `(tokens, pictures)`.
    pub(crate) count_of_small: Option<(u64, usize)>,
    /// The most bytes of all pictures of a request, in base64: the rest of a request needs room too.
    pub(crate) total: Option<u64>,
}

/// A number of bytes, and how the service counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Those of the file.
    File(u64),
    /// Those of its base64 text.
    Base64(u64),
}

const OPEN: PictureLimits = PictureLimits {
    formats: COMMON,
    bytes: None,
    side: None,
    side_of_many: None,
    count: None,
    count_of_small: None,
    total: None,
};

const CLAUDE: PictureLimits = PictureLimits {
    bytes: Some(Size::Base64(10 * MIB)),
    side: Some(8_000),
    side_of_many: Some((20, 2_000)),
    count: Some(600),
    count_of_small: Some((200_000, 100)),
    total: Some(32 * MIB),
    ..OPEN
};

/// It measures copies of its own making, so that no size can be checked here.
const OPENAI: PictureLimits = PictureLimits { count: Some(1_500), ..OPEN };
const OLDER_AZURE: PictureLimits = PictureLimits { bytes: Some(Size::File(20 * MB)), count: Some(50), ..OPEN };

/// Services, a part of the ids of their models (all of them for `""`), and what these take. The first row that fits counts.
const LIMITS: &[(&str, &str, PictureLimits)] = &[
    ("anthropic", "", CLAUDE),
    ("bedrock", "claude", PictureLimits { bytes: Some(Size::Base64(5 * MIB)), total: Some(20 * MB), ..CLAUDE }),
    ("bedrock", "", OPEN),
    ("openai", "", OPENAI),
    ("openai-responses", "", OPENAI),
    ("azure", "gpt-4o", OLDER_AZURE),
    ("azure", "gpt-4.1", OLDER_AZURE),
    ("azure", "", OPEN),
    ("google", "", PictureLimits { formats: GOOGLE, count: Some(3_600), total: Some(100 * MB), ..OPEN }),
    ("vertex", "", PictureLimits { formats: GOOGLE, bytes: Some(Size::File(7 * MB)), count: Some(3_000), ..OPEN }),
    ("groq", "llama-4", PictureLimits { count: Some(5), total: Some(4 * MB), ..OPEN }),
    ("groq", "", PictureLimits { count: Some(3), total: Some(20 * MB), ..OPEN }),
    ("mistral", "", PictureLimits { bytes: Some(Size::File(10 * MB)), side: Some(10_000), count: Some(8), ..OPEN }),
    ("xai", "", PictureLimits { formats: &["image/png", "image/jpeg"], bytes: Some(Size::File(20 * MIB)), ..OPEN }),
];

/// What is known of the service of a model.
pub(crate) fn limits_of(model: &ModelConfig) -> Option<PictureLimits> {
    let fits = |(service, part, _): &&(&str, &str, _)| **service == *model.provider && model.id.contains(part);
    let mut limits = LIMITS.iter().find(fits).map(|(_, _, limits)| *limits)?;
    if let (Some((window, most)), Some(known)) = (limits.count_of_small, model.context_window)
        && known <= window
    {
        limits.count = Some(most);
    }
    Some(limits)
}

/// Refuses a request with a picture that its service does not take.
pub(crate) fn check(config: &StreamConfig) -> Result<(), ProviderError> {
    let model = &config.model_config;
    let refused = |reason: String| {
        let message = format!("{reason} ({}); make it smaller or leave it out", model.provider);
        Err(ProviderError::Picture { message })
    };
    let (limits, formats) = match (&model.images, limits_of(model)) {
        (Some(TakenImages::Any), _) | (None, None) => return Ok(()),
        (Some(TakenImages::None), _) => {
            return match pictures(config).next() {
                Some(_) => refused("the model takes no pictures, as its `images` says".to_owned()),
                None => Ok(()),
            };
        }
        (Some(TakenImages::Of(formats)), limits) => {
            (limits.unwrap_or(OPEN), formats.iter().map(String::as_str).collect::<Vec<_>>())
        }
        (None, Some(limits)) => (limits, limits.formats.to_vec()),
    };
    let (mut count, mut total) = (0_usize, 0_u64);
    for (data, mime_type) in pictures(config) {
        count += 1;
        total = total.saturating_add(data.len() as u64);
        if !formats.contains(&mime_type) {
            return refused(format!("a picture is {mime_type}, and {} are taken", formats.join(", ")));
        }
        if let Err(reason) = limits.takes(data) {
            return refused(reason);
        }
    }
    if let Some(most) = limits.count.filter(|most| count > *most) {
        return refused(format!("the conversation has {count} pictures, and at most {most} are taken at once"));
    }
    if let Some(most) = limits.total.filter(|most| total > *most) {
        let (total, most) = (shown(total), shown(most));
        return refused(format!(
            "the pictures of the conversation are {total} in base64, and at most {most} are taken"
        ));
    }
    match limits.side_of_many {
        Some((many, most)) if count > many => {
            let Some(side) =
                pictures(config).filter_map(|(data, _)| pixels::longer_side(data)).find(|side| *side > most)
            else {
                return Ok(());
            };
            refused(format!(
                "a picture is {side} pixels long, and at most {most} are taken with more than {many} pictures"
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// The pictures that a request sends. Chat completions takes none in what tools give: there they are notes already.
fn pictures(config: &StreamConfig) -> impl Iterator<Item = (&str, &str)> {
    let results = config.model_config.api != ApiProtocol::OpenaiCompletions;
    let shown = move |message: &&Message| match message {
        Message::User { .. } => true,
        Message::ToolResult { .. } => results,
        Message::Assistant { .. } => false,
    };
    config.sendable().filter(shown).flat_map(Message::content).filter_map(|block| match block {
        Content::Image { data, mime_type } => Some((data.as_str(), mime_type.as_str())),
        Content::Text { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
    })
}

impl PictureLimits {
    /// Whether one picture is small enough, or why not.
    fn takes(&self, data: &str) -> Result<(), String> {
        let base64 = data.len() as u64;
        let (is, most, how) = match self.bytes {
            Some(Size::File(most)) => (base64 / 4 * 3, most, ""),
            Some(Size::Base64(most)) => (base64, most, " in base64"),
            None => (0, u64::MAX, ""),
        };
        if is > most {
            return Err(format!("a picture is {}{how}, and at most {} are taken", shown(is), shown(most)));
        }
        let Some(most) = self.side else { return Ok(()) };
        match pixels::longer_side(data).filter(|side| *side > most) {
            Some(side) => Err(format!("a picture is {side} pixels long, and at most {most} are taken")),
            None => Ok(()),
        }
    }
}

fn shown(bytes: u64) -> String {
    format!("{}.{} MB", bytes / MB, bytes % MB / 100_000)
}

#[cfg(test)]
#[path = "pictures/pictures_tests.rs"]
mod tests;
