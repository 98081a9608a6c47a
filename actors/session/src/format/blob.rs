//! Long strings of an entry, kept outside of its line: how they are taken out and put back.
//!
//! Pure, and done on the entry's JSON as text, so that everything else of it stays as it is, byte for byte. In a record
//! marked `"blobs":true` the object `{"$blob":"<BLAKE3 in hex>","bytes":n}` stands for a string. A key of the entry's
//! own data that could be mistaken for it (`$blob`, `$$blob`, …) has one `$` more in such a record, and loses it when
//! it is read. Records without the mark are never looked at: nothing in them means anything but itself.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How many bytes a string of an entry may have before it becomes a blob.
pub const INLINE_LIMIT: usize = 64 * 1024;

const KEY: &str = "$blob";

/// A blob's name: the BLAKE3 hash of its bytes in 64 hex digits, and so a safe name for a file. Older builds took their
/// SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BlobName(String);

impl BlobName {
    /// The name of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).to_hex().to_string())
    }

    /// Whether it is the name of this content.
    pub fn is_of(&self, content: &[u8]) -> bool {
        let older = || Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        *self == Self::of(content) || self.0 == older()
    }

    /// The name as 64 hex digits, as its file is called.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enough of it for a person.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or_default()
    }
}

impl TryFrom<String> for BlobName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match name.len() == 64 && name.as_bytes().iter().all(is_digit) {
            true => Ok(Self(name)),
            false => Err("a blob's name is 64 lower-case hex digits"),
        }
    }
}

/// What stands in a record in place of a long string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// The name of the blob that has it, which is its hash.
    #[serde(rename = "$blob")]
    pub name: BlobName,
    /// Its length in bytes.
    pub bytes: u64,
}

impl BlobRef {
    /// The reference to this content.
    pub fn to(content: &str) -> Self {
        Self { name: BlobName::of(content.as_bytes()), bytes: content.len() as u64 }
    }
}

/// A blob that could not be put back; a note stands in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBlob {
    /// The name that the record has for it.
    pub blob: BlobName,
    /// What is wrong with its file.
    #[serde(flatten)]
    pub problem: BlobProblem,
}

impl LostBlob {
    /// What stands in its place.
    pub fn note(&self) -> String {
        format!("[content lost: {self}]")
    }
}

impl fmt::Display for LostBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blob {} {}", self.blob.short(), self.problem)
    }
}

/// Why a blob cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum BlobProblem {
    /// There is none of that name.
    #[error("is missing")]
    Missing,
    /// It is shorter or longer than when it was written.
    #[error("has {found} bytes instead of {expected}")]
    Length {
        /// How many bytes were written.
        expected: u64,
        /// How many bytes the file has.
        found: u64,
    },
    /// Its bytes are not those that were written.
    #[error("was altered")]
    Altered,
    /// The disk does not give it.
    #[error("cannot be read: {reason}")]
    Unreadable {
        /// What the system says about it.
        reason: String,
    },
}

/// Where blobs are found.
pub trait BlobSource {
    /// The content, or why it is lost.
    fn fetch(&self, blob: &BlobRef) -> Result<String, BlobProblem>;
}

/// No blobs: each one is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBlobs;

impl BlobSource for NoBlobs {
    fn fetch(&self, _: &BlobRef) -> Result<String, BlobProblem> {
        Err(BlobProblem::Missing)
    }
}

/// Gives every string of an entry's JSON that is longer than [`INLINE_LIMIT`] to `put` and answers the JSON with
/// references in their places; `None` if there is no such string.
pub(crate) fn extract<E>(json: &[u8], put: impl FnMut(&str) -> Result<BlobRef, E>) -> Result<Option<String>, E> {
    if json.len() <= INLINE_LIMIT {
        return Ok(None);
    }
    match std::str::from_utf8(json) {
        Ok(json) => extract_over(INLINE_LIMIT, json, put),
        // What was written as JSON is text.
        Err(_) => Ok(None),
    }
}

fn extract_over<E>(
    limit: usize,
    json: &str,
    mut put: impl FnMut(&str) -> Result<BlobRef, E>,
) -> Result<Option<String>, E> {
    if json.len() <= limit {
        return Ok(None);
    }
    let (mut out, mut copied, mut taken) = (String::new(), 0, 0);
    for string in (Strings { json, at: 0 }) {
        if string.is_key {
            if is_reserved(string.inner) {
                out.push_str(between(json, copied, string.start + 1));
                out.push('$');
                copied = string.start + 1;
            }
            continue;
        }
        // Escapes only make it longer, so what is short as stored is short.
        if string.inner.len() <= limit {
            continue;
        }
        let Some(content) = unescaped(between(json, string.start, string.end)) else { continue };
        if content.len() <= limit {
            continue;
        }
        let BlobRef { name, bytes } = put(&content)?;
        out.push_str(between(json, copied, string.start));
        out.push_str(&format!("{{\"{KEY}\":\"{}\",\"bytes\":{bytes}}}", name.as_str()));
        copied = string.end;
        taken += 1;
    }
    if taken == 0 {
        return Ok(None);
    }
    out.push_str(between(json, copied, json.len()));
    Ok(Some(out))
}

/// Undoes [`extract`]. What is lost becomes a note. Answers a reason if `json` is nothing that [`extract`] makes.
pub(crate) fn resolve(json: &str, source: &dyn BlobSource) -> Result<(Vec<u8>, Vec<LostBlob>), String> {
    let (mut out, mut copied, mut lost) = (Vec::new(), 0, Vec::new());
    let mut strings = Strings { json, at: 0 };
    while let Some(string) = strings.next() {
        if !string.is_key || !is_reserved(string.inner) {
            continue;
        }
        if string.inner != KEY {
            out.extend_from_slice(between(json, copied, string.start + 1).as_bytes());
            copied = string.start + 2;
            continue;
        }
        let before = between(json, copied, string.start).trim_end();
        let before = before.strip_suffix('{').ok_or("a blob's reference does not begin with its name")?;
        let start = copied + before.len();
        let mut parser = serde_json::Deserializer::from_str(between(json, start, json.len())).into_iter::<BlobRef>();
        let blob = match parser.next() {
            Some(Ok(blob)) => blob,
            Some(Err(error)) => return Err(format!("a blob's reference is none: {error}")),
            None => return Err("a blob's reference is cut off".to_owned()),
        };
        out.extend_from_slice(before.as_bytes());
        let content = source.fetch(&blob).unwrap_or_else(|problem| {
            let blob = LostBlob { blob: blob.name, problem };
            let note = blob.note();
            lost.push(blob);
            note
        });
        serde_json::to_writer(&mut out, &content).map_err(|error| error.to_string())?;
        copied = start + parser.byte_offset();
        strings.at = copied;
    }
    out.extend_from_slice(between(json, copied, json.len()).as_bytes());
    Ok((out, lost))
}

/// Makes blocks of a conversation whose content is lost into text: an image or signed reasoning that is a note inside
/// would have every later request refused.
pub(crate) fn soften(value: &mut Value, lost: &[LostBlob]) {
    let notes: Vec<String> = lost.iter().map(LostBlob::note).collect();
    soften_notes(value, &notes);
}

fn soften_notes(value: &mut Value, notes: &[String]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| soften_notes(item, notes)),
        Value::Object(fields) => {
            let note = match fields.get("type").and_then(Value::as_str) {
                Some("image" | "thinking") => fields.values().find(|v| v.as_str().is_some_and(|v| is_one_of(v, notes))),
                Some(_) | None => None,
            };
            match note.cloned() {
                Some(note) => *value = serde_json::json!({ "type": "text", "text": note }),
                None => fields.values_mut().for_each(|field| soften_notes(field, notes)),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_one_of(text: &str, notes: &[String]) -> bool {
    notes.iter().any(|note| note == text)
}

/// Whether a key is `$blob` with any number of `$`, at least one.
fn is_reserved(key: &str) -> bool {
    key.strip_suffix(KEY).is_some_and(|dollars| dollars.bytes().all(|byte| byte == b'$'))
}

/// What a string literal means; borrowed if it has no escapes.
fn unescaped(literal: &str) -> Option<Cow<'_, str>> {
    match memchr::memchr(b'\\', literal.as_bytes()) {
        None => literal.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed),
        Some(_) => serde_json::from_str::<String>(literal).ok().map(Cow::Owned),
    }
}

fn between(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}

/// The string literals of valid JSON, in order.
struct Strings<'a> {
    json: &'a str,
    at: usize,
}

/// A string literal and where it stands.
struct Literal<'a> {
    /// Of its first quote.
    start: usize,
    /// After its last quote.
    end: usize,
    /// Between the quotes, as stored.
    inner: &'a str,
    is_key: bool,
}

impl<'a> Iterator for Strings<'a> {
    type Item = Literal<'a>;

    fn next(&mut self) -> Option<Literal<'a>> {
        let start = self.at + self.json.get(self.at..)?.find('"')?;
        let mut from = start + 1;
        let close = loop {
            let quote = from + self.json.get(from..)?.find('"')?;
            let escapes = self.json.get(from..quote)?.bytes().rev().take_while(|byte| *byte == b'\\').count();
            match escapes % 2 {
                0 => break quote,
                _ => from = quote + 1,
            }
        };
        self.at = close + 1;
        let after = self.json.get(self.at..)?.bytes().find(|byte| !byte.is_ascii_whitespace());
        let inner = between(self.json, start + 1, close);
        Some(Literal { start, end: self.at, inner, is_key: after == Some(b':') })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// Blobs in memory.
    #[derive(Default)]
    struct Shelf(RefCell<HashMap<BlobName, String>>);

    impl Shelf {
        fn extract(&self, limit: usize, json: &str) -> Option<String> {
            let put = |content: &str| {
                let blob = BlobRef::to(content);
                self.0.borrow_mut().insert(blob.name.clone(), content.to_owned());
                Ok::<_, ()>(blob)
            };
            extract_over(limit, json, put).unwrap()
        }
    }

    impl BlobSource for Shelf {
        fn fetch(&self, blob: &BlobRef) -> Result<String, BlobProblem> {
            self.0.borrow().get(&blob.name).cloned().ok_or(BlobProblem::Missing)
        }
    }

    fn back(json: &str, source: &dyn BlobSource) -> (String, Vec<LostBlob>) {
        let (bytes, lost) = resolve(json, source).unwrap();
        (String::from_utf8(bytes).unwrap(), lost)
    }

    #[test]
    fn names_that_older_builds_gave_still_hold() {
        let older = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        let older = BlobName::try_from(older).unwrap();
        assert!(older.is_of(b"abc") && !older.is_of(b"abd"));
        assert!(BlobName::of(b"abc").is_of(b"abc") && !BlobName::of(b"abc").is_of(b"abd"));
    }

    #[test]
    fn a_name_is_the_content_s_hash() {
        let name = BlobName::of(b"abc");
        assert_eq!(name.as_str(), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
        assert_eq!(name.short(), "6437b3ac");
        for bad in ["", "../../etc/passwd", &"A".repeat(64), &"a".repeat(63), &"a".repeat(65), &"ä".repeat(32)] {
            assert!(BlobName::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_strings_are_taken_out_and_everything_else_stays_as_it_is() {
        let shelf = Shelf::default();
        let json = r#"{"b":"0123456789","a":[1.50,"01234567","a \"long\" one\n"],"$blob":{"$$blob":"x"},"bytes":3}"#;
        let first = BlobRef::to("0123456789");
        let second = BlobRef::to("a \"long\" one\n");
        let stored = shelf.extract(8, json).unwrap();
        let expected = format!(
            r#"{{"b":{{"$blob":"{}","bytes":10}},"a":[1.50,"01234567",{{"$blob":"{}","bytes":13}}],"$$blob":{{"$$$blob":"x"}},"bytes":3}}"#,
            first.name.as_str(),
            second.name.as_str(),
        );
        assert_eq!(stored, expected);
        assert_eq!(back(&stored, &shelf), (json.to_owned(), vec![]));
        assert_eq!(shelf.extract(13, json), None, "keys are not content, and without a blob nothing is escaped");
    }

    #[test]
    fn what_is_long_only_as_stored_stays() {
        let shelf = Shelf::default();
        assert_eq!(shelf.extract(8, r#"["\n\n\n\n\n\n\n\n"]"#), None);
        assert!(shelf.extract(8, r#"["\n\n\n\n\n\n\n\n\n"]"#).is_some());
        assert_eq!(shelf.extract(8, r#"["ää ä "]"#), None);
        assert!(shelf.extract(8, r#"["ää ää"]"#).is_some());
    }

    #[test]
    fn a_lost_blob_is_a_note() {
        let content = "0123456789";
        let stored = Shelf::default().extract(8, &format!(r#"{{"x":"{content}","y":1}}"#)).unwrap();
        let lost = LostBlob { blob: BlobName::of(content.as_bytes()), problem: BlobProblem::Missing };
        let note = r#"{"x":"[content lost: blob 53b63a6f is missing]","y":1}"#;
        assert_eq!(back(&stored, &NoBlobs), (note.to_owned(), vec![lost]));
    }

    #[test]
    fn a_lost_image_or_thought_becomes_text_so_that_a_provider_takes_it() {
        let lost = LostBlob { blob: BlobName::of(b"x"), problem: BlobProblem::Altered };
        let note = lost.note();
        let mut value = serde_json::json!([
            {"type": "image", "data": note, "mimeType": "image/png"},
            {"type": "image", "data": "whole", "mimeType": "image/png"},
            {"type": "thinking", "thinking": "short", "signature": note},
            {"type": "text", "text": note},
            {"content": [{"type": "toolCall", "arguments": {"file": note}}]},
        ]);
        soften(&mut value, &[lost]);
        let text = serde_json::json!({"type": "text", "text": note});
        let expected = serde_json::json!([
            text,
            {"type": "image", "data": "whole", "mimeType": "image/png"},
            text,
            text,
            {"content": [{"type": "toolCall", "arguments": {"file": note}}]},
        ]);
        assert_eq!(value, expected);
    }

    #[test]
    fn what_extract_never_makes_is_refused_with_a_reason() {
        let name = "a".repeat(64);
        for bad in [
            r#"{"$blob":"short","bytes":1}"#.to_owned(),
            r#"{"$blob":1}"#.to_owned(),
            format!(r#"{{"$blob":"{name}"}}"#),
            format!(r#"{{"$blob":"{name}","bytes":-1}}"#),
            format!(r#"{{"$blob":"{name}","bytes":1,"more":1}}"#),
            format!(r#"{{"bytes":1,"$blob":"{name}"}}"#),
            format!(r#"{{"$blob":"{name}","bytes":1"#),
            r#"{"$blob":"#.to_owned(),
        ] {
            assert!(resolve(&bad, &NoBlobs).is_err(), "{bad}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            4 => "[a-z\\\\\"\n\u{0}ü$]{0,24}",
            1 => "\\PC{0,40}",
            1 => r#"[{}\[\]":,$blob\\]{0,40}"#,
            1 => "\\$blob|\\{\"\\$blob\":\"[0-9a-f]{64}\",\"bytes\":1\\}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        let key = prop_oneof!["[a-z]{0,3}", "\\${0,3}blob", "bytes", "\\PC{0,6}", "\\$blob\\PC?", "[$\"\\\\b]{0,12}"];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_comes_back_byte_for_byte(value in any_json(), limit in 0_usize..20) {
            let json = serde_json::to_string(&value).unwrap();
            let shelf = Shelf::default();
            if let Some(stored) = shelf.extract(limit, &json) {
                prop_assert!(serde_json::from_str::<Value>(&stored).is_ok(), "{}", stored);
                prop_assert_eq!(back(&stored, &shelf), (json, vec![]));
            }
        }

        #[test]
        fn any_text_is_tolerated(text in r#"[{}\[\]":,$blob\\ 0-9a-f]{0,60}"#) {
            let _ = resolve(&text, &NoBlobs);
        }
    }
}
