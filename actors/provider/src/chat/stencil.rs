//! A shortcut through a response: most of its events differ from the one before in a single string. Pure.
//!
//! An event that was read in full leaves a [`Stencil`]: the text before that string and the text after it. An event
//! that begins and ends the same, with the inside of a JSON string in between, has the same structure, so only the
//! string is looked at. Whatever does not fit is read in full.

use std::borrow::Cow;

use memchr::memchr2;

use super::chunk::{Chunk, Text};

/// Which string it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringField {
    Text,
    Thinking,
    /// The arguments of the call with this index.
    Arguments {
        index: u64,
    },
}

/// What surrounds the one string in which events differ.
#[derive(Debug)]
pub(crate) struct Stencil {
    before: String,
    after: String,
    slot: StringField,
}

impl Stencil {
    /// What `data`, which was read as `chunk` and is no failure, leaves for the events after it; `None` if it says more than one string,
    /// or one with escapes, whose place cannot be told.
    pub(crate) fn of(data: &str, chunk: &Chunk<'_>) -> Option<Self> {
        let (slot, piece) = only_string(chunk)?;
        // The piece is a part of `data`.
        let start = piece.as_ptr().addr().checked_sub(data.as_ptr().addr())?;
        let before = data.get(..start).filter(|before| before.ends_with('"'))?;
        let after = data.get(start.checked_add(piece.len())?..).filter(|after| after.starts_with('"'))?;
        Some(Self { before: before.to_owned(), after: after.to_owned(), slot })
    }

    /// The one string that `data` says, if it fits.
    pub(crate) fn read<'a>(&self, data: &'a str) -> Option<(StringField, Cow<'a, str>)> {
        let raw = data.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        if raw.is_empty() {
            return None;
        }
        if memchr2(b'"', b'\\', raw.as_bytes()).is_none() && raw.bytes().all(|byte| byte >= b' ') {
            return Some((self.slot, Cow::Borrowed(raw)));
        }
        // With the quotes around it, it must be one JSON string.
        let quoted = data.get(self.before.len().checked_sub(1)?..data.len().checked_sub(self.after.len())? + 1)?;
        let Text(piece) = serde_json::from_str(quoted).ok()?;
        Some((self.slot, piece))
    }
}

/// The string that a chunk adds to the response, if that is all it does.
fn only_string<'a>(chunk: &Chunk<'a>) -> Option<(StringField, &'a str)> {
    let choice = chunk.choices.as_ref()?.only()?;
    if chunk.usage().is_some() || choice.finish_reason.is_some() || choice.index.unwrap_or(0) != 0 {
        return None;
    }
    let delta = choice.delta.as_ref()?;
    let said = |text: &Option<Text<'a>>| text.as_ref().is_some_and(|text| !text.0.is_empty());
    let plain = |text: &Cow<'a, str>| match text {
        Cow::Borrowed(piece) if !piece.is_empty() => Some(*piece),
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    };
    let calls = delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let (thinking, also) = (&delta.reasoning_content, &delta.reasoning);
    let details = delta.reasoning_details.is_some_and(|details| details.get() != "[]");
    let spoken = delta.content.as_ref().filter(|spoken| !spoken.text.is_empty() || !spoken.thinking.is_empty());
    match (spoken.is_some(), said(thinking), calls) {
        _ if said(&delta.refusal) || also.is_some() || details => None,
        (true, false, false) => Some((StringField::Text, plain(&spoken?.text)?)),
        (false, true, false) => Some((StringField::Thinking, plain(&thinking.as_ref()?.0)?)),
        (false, false, true) => {
            let call = delta.tool_calls.as_ref()?.only()?;
            let function = call.function.as_ref()?;
            if said(&call.id) || said(&function.name) {
                return None;
            }
            Some((StringField::Arguments { index: call.index? }, plain(&function.arguments.as_ref()?.0)?))
        }
        (false, false, false) | (true, true, _) | (true, _, true) | (_, true, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stencil(data: &str) -> Option<Stencil> {
        Stencil::of(data, &serde_json::from_str(data).unwrap())
    }

    fn text(content: &str) -> String {
        format!(r#"{{"id":"x","choices":[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":null}}]}}"#)
    }

    #[test]
    fn what_differs_in_one_string_is_read_by_that_string() {
        let stencil = stencil(&text("Hello")).unwrap();
        let read = |data: &str| stencil.read(data).map(|(slot, piece)| (slot, piece.into_owned()));
        assert_eq!(read(&text(" world")), Some((StringField::Text, " world".to_owned())));
        assert_eq!(read(&text(r#"say \"hi\"\n\u00e9"#)), Some((StringField::Text, "say \"hi\"\né".to_owned())));
        assert_eq!(read(&text("ä 😀")), Some((StringField::Text, "ä 😀".to_owned())));
        // No JSON strings, another structure, nothing said: for the full reader.
        assert_eq!(read(&text(r#"a","b":"c"#)), None);
        assert_eq!(read(&text("a\\")), None);
        assert_eq!(read(&text("a\tb")), None);
        assert_eq!(read(&text("")), None);
        assert_eq!(read(&text("x").replace("null", "\"stop\"")), None);
        assert_eq!(read(&text("x").replace("\"x\",\"choices\"", "\"y\",\"choices\"")), None);
        assert_eq!(read("{}"), None);
    }

    #[test]
    fn an_event_that_says_more_than_one_string_leaves_no_stencil() {
        let with = |delta: &str, rest: &str| format!(r#"{{"choices":[{{"delta":{delta}{rest}}}]}}"#);
        let call = |inner: &str| with(&format!(r#"{{"tool_calls":[{inner}]}}"#), "");
        assert!(stencil(&with(r#"{"content":"a"}"#, "")).is_some());
        assert!(stencil(&with(r#"{"content":"a","reasoning":null,"reasoning_details":[]}"#, "")).is_some());
        assert!(stencil(&with(r#"{"reasoning_content":"a"}"#, "")).is_some());
        assert!(stencil(&call(r#"{"index":0,"function":{"arguments":"a"}}"#)).is_some());
        for data in [
            with(r#"{"content":"a"}"#, r#","finish_reason":"stop""#),
            with(r#"{"content":"a"}"#, r#","index":1"#),
            with(r#"{"content":"a","reasoning_content":"b"}"#, ""),
            with(r#"{"content":"a","refusal":"b"}"#, ""),
            with(r#"{"reasoning":"a"}"#, ""),
            with(r#"{"content":"a","reasoning_details":[{"text":"b"}]}"#, ""),
            with(r#"{"content":[{"type":"text","text":"a"}]}"#, ""),
            with(r#"{"content":"a"}"#, r#","usage":{"prompt_tokens":1}"#),
            with(r#"{"content":"\n"}"#, ""),
            with(r#"{"content":""}"#, ""),
            call(r#"{"function":{"arguments":"a"}}"#),
            call(r#"{"index":0,"id":"c","function":{"arguments":"a"}}"#),
            call(r#"{"index":0,"function":{"name":"t","arguments":"a"}}"#),
            call(r#"{"index":0,"function":{"arguments":"a"}},{"index":1,"function":{"arguments":"b"}}"#),
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}"#.to_owned(),
            r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#.to_owned(),
            r#"{"choices":[]}"#.to_owned(),
        ] {
            assert!(stencil(&data).is_none(), "{data}");
        }
    }
}
