//! Values that must not be seen, and how those that are known are taken out of a text.
//!
//! A secret becomes a placeholder that has its name, `[secret:OPENAI_API_KEY]`: the same in every process that knows
//! the value by that name, and no hint at the value. It is found as it is and in the spellings it is likely to come
//! back in: escaped for JSON, a URL, a form or HTML, in base64 (also in the middle of a longer text, as in a header with a
//! user's name before it, and over several lines); of a value that has several lines, each longer line by itself.

mod spelled;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use aho_corasick::packed::{Config, MatchKind as PackedKind, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::lock::lock;
use spelled::{Breaks, Spelled, Wanted, odd_end};

/// A value of fewer characters is part of too many words.
const SHORTEST: usize = 8;
/// A value of more bytes is no secret that anything prints whole.
const LONGEST: usize = 64 * 1024;
/// A line of a secret that is a secret by itself has at least this many bytes.
const LINE: usize = 16;
/// Values that are in use as stand-ins and guard nothing.
const COMMON: [&str; 8] =
    ["password", "changeme", "undefined", "disabled", "required", "optional", "localhost", "12345678"];
/// How many secrets that come and go, such as tokens, are remembered.
const REMEMBERED: usize = 64;
/// How a placeholder begins.
const OPEN: &str = "[secret:";
/// The most characters of a name in a placeholder.
const NAME: usize = 64;
/// What is left as it is in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// How many spellings one vector search looks for.
const AT_ONCE: usize = 64;

/// A key or token. It has no `Serialize`, and its `Debug` and `Display` never show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// From here on the value is only seen by whoever calls [`Secret::expose`].
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the one place that puts it on the wire.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(****)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

/// What stands for the secret of this name.
fn placeholder(name: &str) -> String {
    let name: String = name.chars().take(NAME).map(|c| if is_of_name(c) { c } else { '_' }).collect();
    format!("{OPEN}{name}]")
}

/// The placeholders in a text, known or not.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(OPEN).filter_map(|(at, open)| {
        let rest = text.get(at + open.len()..)?;
        let name = rest.find(|c| !is_of_name(c)).filter(|end| (1..=NAME).contains(end))?;
        rest.get(name..)?.starts_with(']').then(|| text.get(at..at + open.len() + name + 1))?
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A set of known secrets. Immutable; a clone is the same set.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Set>>);

struct Set {
    finder: AhoCorasick,
    /// Fast searches that together find every spelling; empty where there is none.
    filters: Vec<Searcher>,
    /// What stands for each of the finder's patterns.
    stand_ins: Vec<Arc<str>>,
    /// The patterns in order, for texts that come in pieces.
    patterns: Vec<Box<[u8]>>,
    longest: usize,
    /// The same, in the spellings that cannot be listed.
    spelled: Spelled,
}

/// Where a secret is, and what stands for it.
struct Found<'s> {
    start: usize,
    end: usize,
    stand_in: &'s [u8],
}

impl Secrets {
    /// A set of secrets by name. The first name of a value counts; values that would be found everywhere are left out.
    pub fn new<N: AsRef<str>>(named: impl IntoIterator<Item = (N, Secret)>) -> Self {
        let named: Vec<(Arc<str>, Secret)> =
            named.into_iter().map(|(name, secret)| (placeholder(name.as_ref()).into(), secret)).collect();
        // What is in a placeholder is a name.
        let counts = |value: &str| is_telling(value) && !named.iter().any(|(other, _)| other.contains(value));
        Self::standing(&named, counts)
    }

    /// A set of values for which the same text stands, whatever they are.
    pub fn all_as(stand_in: &str, values: impl IntoIterator<Item = Secret>) -> Self {
        let stand_in: Arc<str> = stand_in.into();
        let named: Vec<(Arc<str>, Secret)> = values.into_iter().map(|value| (stand_in.clone(), value)).collect();
        Self::standing(&named, |value| !value.is_empty())
    }

    fn standing(named: &[(Arc<str>, Secret)], counts: impl Fn(&str) -> bool) -> Self {
        let mut taken = BTreeSet::new();
        let (mut found, mut stand_ins, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for (stand_in, secret) in named {
            let value = secret.expose().trim();
            if !counts(value) {
                continue;
            }
            let lines = lines(value).chain([value]).map(|text| Wanted::new(text, Breaks::Never, stand_in));
            wanted.extend(lines);
            wanted.extend(in_base64(value).iter().map(|text| Wanted::new(text, Breaks::Anywhere, stand_in)));
            for spelling in spellings(value) {
                if taken.insert(spelling.clone()) {
                    found.push(spelling.into_bytes());
                    stand_ins.push(stand_in.clone());
                }
            }
        }
        if found.is_empty() {
            return Self(None);
        }
        let filters = filters(&taken);
        // A placeholder stands for itself, so that a text that is cleaned twice is the same.
        for (stand_in, _) in named {
            if taken.insert(stand_in.to_string()) {
                found.push(stand_in.as_bytes().to_vec());
                stand_ins.push(stand_in.clone());
            }
        }
        // The kind that stays small when there are long keys.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&found);
        // It fails for gigabytes of patterns; no environment holds them.
        let Ok(finder) = finder else { return Self(None) };
        let longest = found.iter().map(Vec::len).max().unwrap_or_default();
        let mut patterns: Vec<Box<[u8]>> = found.into_iter().map(Vec::into_boxed_slice).collect();
        patterns.sort_unstable();
        let spelled = Spelled::new(wanted);
        Self(Some(Arc::new(Set { finder, filters, stand_ins, patterns, longest, spelled })))
    }

    /// Whether no secret is known, so that every text is clean.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The text with a placeholder for each secret in it.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Patterns and placeholders are text, so what is left and put in is text as well.
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// As [`Secrets::redact`], for bytes.
    pub fn redact_bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let Some(set) = &self.0 else { return Cow::Borrowed(bytes) };
        if set.is_clean(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let (mut done, mut search) = (0, Search::of(set, bytes));
        while let Some(found) = search.next_from(done) {
            clean.extend_from_slice(bytes.get(done..found.start).unwrap_or_default());
            clean.extend_from_slice(found.stand_in);
            done = found.end;
        }
        if done == 0 {
            return Cow::Borrowed(bytes);
        }
        clean.extend_from_slice(bytes.get(done..).unwrap_or_default());
        Cow::Owned(clean)
    }

    /// Cleans a text in its place.
    pub fn redact_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// Cleans every string in a JSON value, names of fields included.
    pub fn redact_json(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.redact_json(field));
                if fields.keys().any(|name| matches!(self.redact(name), Cow::Owned(_))) {
                    let named = std::mem::take(fields);
                    fields.extend(named.into_iter().map(|(name, field)| (self.redact(&name).into_owned(), field)));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Cleans a text that comes in pieces.
    pub fn redactor(&self) -> Redactor {
        Redactor { secrets: self.clone(), kept: Vec::new() }
    }
}

/// Searches that find whatever is in one of these, or nothing where the machine has no vectors.
fn filters(spellings: &BTreeSet<String>) -> Vec<Searcher> {
    let mut needed: Vec<&str> = Vec::new();
    for spelling in spellings {
        // In order, what begins with another comes after it; and where it is, the other is.
        if !needed.last().is_some_and(|last| spelling.starts_with(last)) {
            needed.push(spelling);
        }
    }
    let searches = needed
        .chunks(AT_ONCE)
        .map(|some| Config::new().match_kind(PackedKind::LeftmostFirst).builder().extend(some).build());
    searches.collect::<Option<Vec<Searcher>>>().unwrap_or_default()
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secrets").field(&self.0.as_ref().map_or(0, |set| set.patterns.len())).finish()
    }
}

impl Set {
    /// Whether a fast look finds nothing.
    fn is_clean(&self, bytes: &[u8]) -> bool {
        !self.filters.is_empty()
            && self.filters.iter().all(|filter| filter.find(bytes).is_none())
            && self.spelled.find(bytes, 0, odd_end(bytes)).is_none()
    }

    fn stand_in(&self, pattern: usize) -> &[u8] {
        self.stand_ins.get(pattern).map(|stand_in| stand_in.as_bytes()).unwrap_or_default()
    }

    /// The first place from `from` on whence the bytes could be the beginning of a pattern.
    fn open_end(&self, bytes: &[u8], from: usize) -> usize {
        let first = from.max(bytes.len().saturating_sub(self.longest.saturating_sub(1)));
        let begins = |at: &usize| bytes.get(*at..).is_some_and(|end| self.begins_with(end));
        let listed = (first..bytes.len()).find(begins).unwrap_or(bytes.len());
        listed.min(self.spelled.open_end(bytes, from))
    }

    /// Whether a pattern begins with these bytes and goes on.
    fn begins_with(&self, start: &[u8]) -> bool {
        let at = self.patterns.partition_point(|pattern| &**pattern <= start);
        self.patterns.get(at).is_some_and(|pattern| pattern.starts_with(start))
    }
}

/// A search through one text, from its beginning to its end.
struct Search<'s, 't> {
    set: &'s Set,
    bytes: &'t [u8],
    listed: Listed,
    /// From here on only listed spellings are left.
    odd_end: usize,
}

/// The next of the listed spellings in a text, as far as it was looked for.
enum Listed {
    NotSought,
    At { start: usize, end: usize, pattern: usize },
    Nowhere,
}

impl<'s, 't> Search<'s, 't> {
    fn of(set: &'s Set, bytes: &'t [u8]) -> Self {
        Self { set, bytes, listed: Listed::NotSought, odd_end: odd_end(bytes) }
    }

    /// The first secret from `from` on, in whichever spelling; the longest, if there are several.
    fn next_from(&mut self, from: usize) -> Option<Found<'s>> {
        let (set, bytes) = (self.set, self.bytes);
        if !matches!(self.listed, Listed::At { start, .. } if start >= from) && !matches!(self.listed, Listed::Nowhere)
        {
            self.listed = match set.finder.find(Input::new(bytes).range(from..)) {
                Some(found) => {
                    Listed::At { start: found.start(), end: found.end(), pattern: found.pattern().as_usize() }
                }
                None => Listed::Nowhere,
            };
        }
        let (until, known) = match self.listed {
            Listed::At { start, end, pattern } => {
                (start + 1, Some(Found { start, end, stand_in: set.stand_in(pattern) }))
            }
            Listed::Nowhere | Listed::NotSought => (bytes.len(), None),
        };
        match set.spelled.find(bytes, from, until.min(self.odd_end)) {
            Some((start, end, stand_in))
                if known.as_ref().is_none_or(|known| (start, known.end) < (known.start, end)) =>
            {
                Some(Found { start, end, stand_in: stand_in.as_bytes() })
            }
            Some(_) | None => known,
        }
    }
}

/// Cleans a text that comes in pieces: what could be the beginning of a secret is kept back until more comes, and
/// nothing else.
#[derive(Debug)]
pub struct Redactor {
    secrets: Secrets,
    kept: Vec<u8>,
}

impl Redactor {
    /// Takes the next piece; gives what is clean by now.
    pub fn push<'t>(&mut self, piece: &'t [u8]) -> Cow<'t, [u8]> {
        let Some(set) = &self.secrets.0 else { return Cow::Borrowed(piece) };
        if self.kept.is_empty() && set.is_clean(piece) {
            let end = set.open_end(piece, 0);
            self.kept.extend_from_slice(piece.get(end..).unwrap_or_default());
            return Cow::Borrowed(piece.get(..end).unwrap_or_default());
        }
        let mut bytes = std::mem::take(&mut self.kept);
        bytes.extend_from_slice(piece);
        if set.is_clean(&bytes) {
            self.kept = bytes.split_off(set.open_end(&bytes, 0));
            return Cow::Owned(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let (mut done, mut open, mut search) = (0, set.open_end(&bytes, 0), Search::of(set, &bytes));
        loop {
            if open < done {
                open = set.open_end(&bytes, done);
            }
            let Some(found) = search.next_from(done).filter(|found| found.start < open) else {
                clean.extend_from_slice(bytes.get(done..open).unwrap_or_default());
                bytes.drain(..open);
                self.kept = bytes;
                return Cow::Owned(clean);
            };
            clean.extend_from_slice(bytes.get(done..found.start).unwrap_or_default());
            clean.extend_from_slice(found.stand_in);
            done = found.end;
        }
    }

    /// What is kept back: it could be the beginning of a secret.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Nothing more comes: gives the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let kept = std::mem::take(&mut self.kept);
        self.secrets.redact_bytes(&kept).into_owned()
    }
}

/// What a house knows: the secrets so far, published as an immutable set. A clone is the same vault.
#[derive(Clone, Default)]
pub struct Vault(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Mutex<Known>,
    published: Mutex<Secrets>,
}

#[derive(Default)]
struct Known {
    /// Those of the environment and of configuration: they stay for as long as the house does.
    permanent: Vec<(Arc<str>, Secret)>,
    /// Keys and tokens that came into use later: at most [`REMEMBERED`], oldest first.
    temporary: Vec<(Arc<str>, Secret)>,
}

impl Vault {
    /// The secrets that are known now.
    pub fn secrets(&self) -> Secrets {
        lock(&self.0.published).clone()
    }

    /// Learns secrets that stay, such as those of the environment.
    pub fn learn_all<N: Into<Arc<str>>>(&self, named: impl IntoIterator<Item = (N, Secret)>) {
        let mut known = lock(&self.0.known);
        let before = known.permanent.len();
        for (name, secret) in named {
            if !known.has(&secret) {
                known.permanent.push((name.into(), secret));
            }
        }
        if known.permanent.len() > before {
            self.publish(&known);
        }
    }

    /// Learns a key or token that came into use. Those that are many replace each other, the oldest first.
    pub fn learn(&self, name: &str, secret: &Secret) {
        let mut known = lock(&self.0.known);
        if known.has(secret) {
            return;
        }
        let excess = (known.temporary.len() + 1).saturating_sub(REMEMBERED);
        known.temporary.drain(..excess);
        known.temporary.push((name.into(), secret.clone()));
        self.publish(&known);
    }

    fn publish(&self, known: &Known) {
        let all = known.permanent.iter().chain(&known.temporary);
        let secrets = Secrets::new(all.map(|(name, secret)| (name, secret.clone())));
        *lock(&self.0.published) = secrets;
    }
}

impl Known {
    fn has(&self, secret: &Secret) -> bool {
        self.permanent.iter().chain(&self.temporary).any(|(_, other)| other == secret)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vault").field(&self.secrets()).finish()
    }
}

/// Whether a value can be told from other text.
fn is_telling(value: &str) -> bool {
    let mut chars = value.chars();
    let first = chars.next();
    let varies = chars.any(|c| Some(c) != first);
    let common = COMMON.iter().any(|common| value.eq_ignore_ascii_case(common));
    value.chars().count() >= SHORTEST && value.len() <= LONGEST && varies && !common
}

/// How a value may be written.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    let quoted = Value::from(value).to_string();
    all.extend(quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::to_owned));
    all.push(utf8_percent_encode(value, ENCODED).to_string());
    all.extend(in_base64(value));
    all.extend(lines(value).map(str::to_owned));
    all
}

/// A value in base64, by itself and within something longer, in both alphabets.
fn in_base64(value: &str) -> Vec<String> {
    let mut all = vec![STANDARD.encode(value)];
    // Three bytes are four characters, so there are three ways to stand in a longer text. What mixes with a
    // neighbour is left out.
    for (before, mixed) in [(0, 0), (1, 2), (2, 3)] {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value.as_bytes());
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        let end = encoded.len() - usize::from(bytes.len() % 3 != 0);
        all.extend(encoded.get(mixed..end).map(str::to_owned));
    }
    let for_urls: Vec<String> = all.iter().map(|text| text.replace('+', "-").replace('/', "_")).collect();
    all.extend(for_urls);
    all
}

/// The lines of a value with several that are secrets by themselves.
fn lines(value: &str) -> impl Iterator<Item = &str> {
    let is_long = |line: &&str| line.len() >= LINE && !line.starts_with("-----");
    value.contains('\n').then(|| value.lines().map(str::trim).filter(is_long)).into_iter().flatten()
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
