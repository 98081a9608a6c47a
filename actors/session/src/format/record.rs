//! One journal line: `{"seq":1,"epoch":1,"sum":"8 hex digits","chain":"64 hex digits","entry":{…}}` and a newline.
//!
//! Pure. The checksum is a CRC-32 over the sequence, the epoch, the chain's digits and the entry's bytes exactly as they
//! are stored, so a line proves itself without being written again. `chain` proves its place among the others
//! ([`ChainHash`]); lines of older builds have none. Any bytes can be decoded; what is no record says why. An entry whose
//! long strings are kept outside ([`blob`]) has `"blobs":true` before it, which the checksum covers.

use std::borrow::Cow;
use std::io::Write;

use playhouse_protocol::entry::FORMAT_VERSION;
use playhouse_protocol::{Entry, EntryBody, Seq};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blob::{self, BlobSource, LostBlob, NoBlobs};
use super::hash_chain::ChainHash;

/// How deep the JSON of an entry may nest. A parser of model output stops at 128; an entry wraps that in a few more.
pub const MAX_DEPTH: usize = 192;

/// A line that checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The entry's number.
    pub seq: Seq,
    /// The epoch of the owner that wrote it.
    pub epoch: u64,
    /// What it says, with its blobs in their places.
    pub entry: Entry,
    /// What of it is lost; notes stand in the places.
    pub lost: Vec<LostBlob>,
    /// What its content is known by; `None` if something of it is lost.
    pub(crate) print: Option<Print>,
}

/// Tells an entry's content from another's: the CRC-32 and the length of its body's JSON, blobs in their places. When it
/// was made does not count: a crash may have it made again. Two writers that use one journal are noticed by it; who
/// wants to deceive is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    sum: u32,
    bytes: u32,
}

impl Print {
    /// Of an entry's JSON.
    pub fn of(json: &[u8]) -> Self {
        // The body comes last, and within a string the quotes would be escaped.
        let body = memchr::memmem::find(json, b"\"body\":").and_then(|at| json.get(at..)).unwrap_or(json);
        // Lengths that differ by 4 GiB have different sums.
        Self { sum: crc32fast::hash(body), bytes: body.len() as u32 }
    }
}

/// Why a line is no record that this build can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum BadLine {
    /// Not the JSON of a record.
    #[error("it is no record: {reason}")]
    NotARecord {
        /// What the JSON parser says of it.
        reason: String,
    },
    /// Its bytes changed after they were written.
    #[error("its checksum is {said}, but its bytes give {found}")]
    Checksum {
        /// The checksum that the line has.
        said: String,
        /// The checksum of what stands in it.
        found: String,
    },
    /// Whole, but of a kind that this build does not know.
    #[error("entry {seq} is whole but not of a kind this version knows ({reason}); use a newer version to read it", seq = seq.0)]
    UnknownEntry {
        /// The number that the line has.
        seq: Seq,
        /// The epoch of the owner that wrote it.
        epoch: u64,
        /// What the JSON parser says of it.
        reason: String,
    },
    /// The journal's first entry is of a newer format.
    #[error("its format is version {version}, this build reads up to {FORMAT_VERSION}; use a newer version")]
    Newer {
        /// The version that its first entry names.
        version: u32,
    },
}

/// An entry that cannot become a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// It has no JSON.
    #[error("the entry has no JSON form: {0}")]
    NoJson(String),
    /// It nests deeper than [`MAX_DEPTH`].
    #[error("the entry's JSON nests deeper than {MAX_DEPTH} levels; flatten the data it carries")]
    TooDeep,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    seq: u64,
    epoch: u64,
    sum: &'a str,
    #[serde(default)]
    chain: Option<&'a str>,
    #[serde(default)]
    blobs: bool,
    #[serde(borrow)]
    entry: &'a RawValue,
}

/// How an entry's JSON is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every string stands in it.
    Plain,
    /// References stand in it for long strings.
    WithBlobs,
}

/// Appends the line for `entry`, with its newline and without blobs, to `out`; it follows the record whose hash is
/// `after`. Answers its own. On an error `out` is as it was.
pub fn encode(
    after: &ChainHash,
    seq: Seq,
    epoch: u64,
    entry: &Entry,
    out: &mut Vec<u8>,
) -> Result<ChainHash, Unencodable> {
    let mut json = Vec::new();
    to_json(entry, &mut json)?;
    Ok(seal(after, (seq, epoch), Form::Plain, &json, out))
}

/// Appends an entry's JSON to `out`. On an error, what stands there is of no use.
pub(crate) fn to_json(entry: &Entry, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    let start = out.len();
    serde_json::to_writer(&mut *out, entry).map_err(|e| Unencodable::NoJson(e.to_string()))?;
    let json = out.get(start..).unwrap_or_default();
    // Nothing nests deeper than it has brackets, and those are found many bytes at a time.
    let has_many = memchr::memchr2_iter(b'{', b'[', json).nth(MAX_DEPTH).is_some();
    match has_many && depth(json) > MAX_DEPTH {
        true => Err(Unencodable::TooDeep),
        false => Ok(()),
    }
}

/// Appends the line for an entry's JSON, with its newline, to `out`; it follows the record whose hash is `after`.
/// Answers the hash of this one.
pub(crate) fn seal(
    after: &ChainHash,
    (seq, epoch): (Seq, u64),
    form: Form,
    json: &[u8],
    out: &mut Vec<u8>,
) -> ChainHash {
    let hash = after.next(seq.0, epoch, form, json);
    let digits = hash.digits();
    let sum = checksum(seq.0, epoch, form, Some(&digits), json);
    let mark = match form {
        Form::Plain => "",
        Form::WithBlobs => "\"blobs\":true,",
    };
    out.reserve(json.len() + 192);
    // Writing to memory cannot fail.
    let _ = write!(out, "{{\"seq\":{},\"epoch\":{epoch},\"sum\":\"{sum:08x}\",\"chain\":\"", seq.0);
    out.extend_from_slice(&digits);
    let _ = write!(out, "\",{mark}\"entry\":");
    out.extend_from_slice(json);
    out.extend_from_slice(b"}\n");
    hash
}

/// A line whose checksum holds. What its entry says is not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed<'a> {
    pub seq: Seq,
    pub epoch: u64,
    /// Its hash as stored; `None` in a line of an older build.
    pub chain: Option<ChainHash>,
    form: Form,
    entry: &'a RawValue,
}

/// Checks one line, with or without its newline.
pub(crate) fn unseal(line: &[u8]) -> Result<Sealed<'_>, BadLine> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let parsed: Line<'_> = serde_json::from_slice(line).map_err(not_a_record)?;
    let form = match parsed.blobs {
        true => Form::WithBlobs,
        false => Form::Plain,
    };
    let digits = parsed.chain.map(str::as_bytes);
    let sum = checksum(parsed.seq, parsed.epoch, form, digits, parsed.entry.get().as_bytes());
    let found = format!("{sum:08x}");
    if parsed.sum != found {
        return Err(BadLine::Checksum { said: parsed.sum.to_owned(), found });
    }
    let chain = parsed.chain.map(str::parse).transpose().map_err(not_a_record)?;
    Ok(Sealed { seq: Seq(parsed.seq), epoch: parsed.epoch, chain, form, entry: parsed.entry })
}

impl Sealed<'_> {
    /// The hash that it has if it follows the record whose hash is `after`.
    pub fn follows(&self, after: &ChainHash) -> ChainHash {
        after.next(self.seq.0, self.epoch, self.form, self.entry.get().as_bytes())
    }

    /// Reads its entry and the blobs that it names.
    pub fn decode(&self, blobs: &dyn BlobSource) -> Result<Record, BadLine> {
        let Self { seq, epoch, chain: _, form, entry } = *self;
        let stored = entry.get();
        let unknown = |reason: String| BadLine::UnknownEntry { seq, epoch, reason };
        let (json, lost) = match form {
            Form::Plain => (Cow::Borrowed(stored.as_bytes()), Vec::new()),
            Form::WithBlobs => {
                let (json, lost) = blob::resolve(stored, blobs).map_err(unknown)?;
                (Cow::Owned(json), lost)
            }
        };
        if depth(&json) > MAX_DEPTH {
            return Err(unknown(format!("it nests deeper than {MAX_DEPTH} levels")));
        }
        let print = lost.is_empty().then(|| Print::of(&json));
        match parse(&json, &lost) {
            Ok(entry) => match &entry.body {
                EntryBody::Opened(opened) if opened.version > FORMAT_VERSION => {
                    Err(BadLine::Newer { version: opened.version })
                }
                _ => Ok(Record { seq, epoch, entry, lost, print }),
            },
            Err(error) => Err(match opened_version(entry) {
                Some(version) if version > FORMAT_VERSION => BadLine::Newer { version },
                _ => unknown(error.to_string()),
            }),
        }
    }
}

/// Reads one line, with or without its newline. Blobs that it names are lost.
pub fn decode(line: &[u8]) -> Result<Record, BadLine> {
    decode_with(line, &NoBlobs)
}

/// Reads one line, with or without its newline, and the blobs that it names.
pub(crate) fn decode_with(line: &[u8], blobs: &dyn BlobSource) -> Result<Record, BadLine> {
    unseal(line)?.decode(blobs)
}

/// Reads an entry whose depth was checked.
fn parse(json: &[u8], lost: &[LostBlob]) -> serde_json::Result<Entry> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    parser.disable_recursion_limit();
    if lost.is_empty() {
        return Entry::deserialize(&mut parser);
    }
    let mut value = serde_json::Value::deserialize(&mut parser)?;
    blob::soften(&mut value, lost);
    Entry::deserialize(value)
}

/// The version in an `opened` entry, read without caring for the rest of it.
fn opened_version(entry: &RawValue) -> Option<u32> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        body: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Body {
        r#type: String,
        version: u32,
    }
    let outer: Outer<'_> = serde_json::from_str(entry.get()).ok()?;
    let body: Body = serde_json::from_str(outer.body.get()).ok()?;
    (body.r#type == "opened").then_some(body.version)
}

fn not_a_record(error: impl std::fmt::Display) -> BadLine {
    BadLine::NotARecord { reason: error.to_string() }
}

fn checksum(seq: u64, epoch: u64, form: Form, chain: Option<&[u8]>, entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(&epoch.to_le_bytes());
    match form {
        Form::Plain => {}
        Form::WithBlobs => hasher.update(b"blobs"),
    }
    if let Some(chain) = chain {
        hasher.update(chain);
    }
    hasher.update(entry);
    hasher.finalize()
}

/// How deep valid JSON nests; for anything else, some number.
fn depth(json: &[u8]) -> usize {
    let (mut now, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                now += 1;
                deepest = deepest.max(now);
            }
            (false, b'}' | b']') => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::{AgentMessage, entry::InputKind, entry::QueuedInput};
    use std::sync::Arc;

    fn entry(text: &str) -> Entry {
        Entry {
            id: "s/1".into(),
            loop_id: None,
            parent: None,
            at: 7,
            body: EntryBody::Input(QueuedInput {
                input_id: "i".into(),
                kind: InputKind::Prompt,
                messages: vec![Arc::new(AgentMessage::user(text, 7))],
                format: None,
            }),
        }
    }

    fn json(entry: &Entry) -> Result<Vec<u8>, Unencodable> {
        let mut out = Vec::new();
        to_json(entry, &mut out).map(|()| out)
    }

    fn line(entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&ChainHash::START, Seq(3), 2, entry, &mut out).unwrap();
        out
    }

    #[test]
    fn a_record_comes_back_as_it_went_in_and_is_one_line() {
        let entry = entry("zwei\nZeilen \u{2028} \"quoted\" \0");
        let line = line(&entry);
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        let print = Some(Print::of(&json(&entry).unwrap()));
        assert_eq!(decode(&line).unwrap(), Record { seq: Seq(3), epoch: 2, entry, lost: vec![], print });
    }

    #[test]
    fn f29_no_changed_byte_goes_unnoticed() {
        let mut with_blobs = Vec::new();
        let json = json(&entry("hello")).unwrap();
        seal(&ChainHash::START, (Seq(3), 2), Form::WithBlobs, &json, &mut with_blobs);
        for line in [line(&entry("hello")), with_blobs] {
            let good = decode(&line).unwrap();
            for at in 0..line.len() - 1 {
                for bit in 0..8 {
                    let mut changed = line.clone();
                    changed[at] ^= 1 << bit;
                    // Hex digits of the sum are compared as text, so a change of case is noticed as well.
                    assert_ne!(decode(&changed).ok().as_ref(), Some(&good), "byte {at} bit {bit}");
                    assert!(decode(&changed).is_err(), "byte {at} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn the_mark_of_blobs_is_covered_by_the_checksum() {
        let line = String::from_utf8(line(&entry("hello"))).unwrap();
        let marked = line.replace("\"entry\":", "\"blobs\":true,\"entry\":");
        assert!(matches!(decode(marked.as_bytes()), Err(BadLine::Checksum { .. })));
        let mut with_blobs = Vec::new();
        seal(&ChainHash::START, (Seq(3), 2), Form::WithBlobs, &json(&entry("hello")).unwrap(), &mut with_blobs);
        let unmarked = String::from_utf8(with_blobs).unwrap().replace("\"blobs\":true,", "");
        assert!(matches!(decode(unmarked.as_bytes()), Err(BadLine::Checksum { .. })));
    }

    #[test]
    fn a_line_of_an_older_build_has_no_chain_and_none_can_be_given_to_it() {
        let json = String::from_utf8(json(&entry("hello")).unwrap()).unwrap();
        let old = sealed(3, 2, &json);
        assert_eq!(unseal(old.as_bytes()).unwrap().chain, None);
        assert_eq!(decode(old.as_bytes()).unwrap().entry, entry("hello"));
        let given = old.replace("\"entry\":", &format!("\"chain\":\"{}\",\"entry\":", ChainHash::START));
        assert!(matches!(decode(given.as_bytes()), Err(BadLine::Checksum { .. })));
        let line = String::from_utf8(line(&entry("hello"))).unwrap();
        let chain = unseal(line.as_bytes()).unwrap().chain.unwrap();
        assert_eq!(chain, unseal(line.as_bytes()).unwrap().follows(&ChainHash::START));
        let taken = line.replace(&format!("\"chain\":\"{chain}\","), "");
        assert!(matches!(decode(taken.as_bytes()), Err(BadLine::Checksum { .. })));
    }

    #[test]
    fn f29_any_bytes_are_tolerated() {
        let corpus: &[&[u8]] = &[
            b"",
            b"\n",
            b"\0\0\0\0",
            b"{",
            b"null",
            b"[]",
            b"\xff\xfe\xfd",
            b"{\"seq\":1}",
            b"\xef\xbb\xbf{}",
            b"{\"seq\":-1,\"epoch\":1,\"sum\":\"00000000\",\"entry\":{}}",
            b"{\"seq\":1,\"seq\":1,\"epoch\":1,\"sum\":\"00000000\",\"entry\":{}}",
            b"{\"seq\":99999999999999999999999,\"epoch\":1,\"sum\":\"\",\"entry\":{}}",
        ];
        for bytes in corpus {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..64)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) as u8
                })
                .collect();
            assert!(decode(&bytes).is_err());
        }
        assert!(decode("[".repeat(100_000).as_bytes()).is_err());
    }

    fn sealed(seq: u64, epoch: u64, json: &str) -> String {
        format!(
            "{{\"seq\":{seq},\"epoch\":{epoch},\"sum\":\"{:08x}\",\"entry\":{json}}}",
            checksum(seq, epoch, Form::Plain, None, json.as_bytes())
        )
    }

    #[test]
    fn an_unknown_kind_of_entry_says_so_and_keeps_its_number() {
        let line = sealed(9, 4, r#"{"id":"x","at":1,"body":{"type":"from_the_future"}}"#);
        let Err(BadLine::UnknownEntry { seq: Seq(9), epoch: 4, reason }) = decode(line.as_bytes()) else { panic!() };
        assert!(reason.contains("from_the_future"), "{reason}");
    }

    #[test]
    fn a_newer_format_is_named_even_when_nothing_else_of_it_is_understood() {
        let line = sealed(1, 1, r#"{"id":"x","body":{"type":"opened","version":99,"shape":"unknown"}}"#);
        assert_eq!(decode(line.as_bytes()), Err(BadLine::Newer { version: 99 }));
    }

    #[test]
    fn deep_arguments_that_a_model_parser_let_through_are_readable_again() {
        let mut value = serde_json::json!(1);
        for _ in 0..127 {
            value = serde_json::json!([value]);
        }
        let mut deep = entry("x");
        deep.body = EntryBody::Restored {
            input_id: None,
            messages: vec![Arc::new(AgentMessage::extension("note", value.clone()))],
        };
        let line = line(&deep);
        assert_eq!(decode(&line).unwrap().entry, deep);
        for _ in 0..100 {
            value = serde_json::json!([value]);
        }
        deep.body =
            EntryBody::Restored { input_id: None, messages: vec![Arc::new(AgentMessage::extension("note", value))] };
        let mut out = b"kept".to_vec();
        assert_eq!(encode(&ChainHash::START, Seq(1), 1, &deep, &mut out), Err(Unencodable::TooDeep));
        assert_eq!(out, b"kept");
    }

    #[test]
    fn numbers_come_back_exactly() {
        let mut exact = entry("x");
        let value = serde_json::json!([0.1 + 0.2, 1.0e-310, 123_456_789.123_456_79, u64::MAX, i64::MIN]);
        exact.body =
            EntryBody::Restored { input_id: None, messages: vec![Arc::new(AgentMessage::extension("n", value))] };
        assert_eq!(decode(&line(&exact)).unwrap().entry, exact);
    }
}
