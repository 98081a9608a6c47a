//! Secrets in spellings that are too many to list: any of their characters may be escaped, as JSON, a URL, a form or HTML
//! do it, in either case and however often a JSON string is within another; and base64 may go over several lines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest entity of HTML that is looked for, with its `&` and `;`: `&#x1f980;`.
const ENTITY: usize = 10;
/// The most backslashes before a character: a string of JSON that is within seven others. Were there no bound, a text of
/// nothing else would be counted from each of its places to its end.
const SLASHES: usize = 128;
/// Entities with a name that stand for what keys are made of.
const NAMED: [(&str, char); 10] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("sol", '/'),
    ("plus", '+'),
    ("equals", '='),
    ("nbsp", ' '),
    ("num", '#'),
];

/// A text that is looked for, and what stands for it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    text: Box<[char]>,
    breaks: Breaks,
    pub(super) stand_in: Arc<str>,
}

/// Whether line breaks may stand within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Breaks {
    Never,
    Anywhere,
}

impl Wanted {
    pub(super) fn new(text: &str, breaks: Breaks, stand_in: &Arc<str>) -> Self {
        Self { text: text.chars().collect(), breaks, stand_in: stand_in.clone() }
    }

    /// Whether it is at the beginning of these bytes.
    fn fits(&self, bytes: &[u8]) -> Fit {
        let mut at = 0;
        for (number, wanted) in self.text.iter().enumerate() {
            let rest = bytes.get(at..).unwrap_or_default();
            match (char_at(rest, *wanted), self.breaks) {
                (Fit::Whole(length), _) => at += length,
                (Fit::Open, _) => return Fit::Open,
                (Fit::No, Breaks::Anywhere) if number > 0 => match after_break(rest) {
                    Fit::Whole(length) => match char_at(rest.get(length..).unwrap_or_default(), *wanted) {
                        Fit::Whole(more) => at += length + more,
                        other => return other,
                    },
                    other => return other,
                },
                (Fit::No, _) => return Fit::No,
            }
        }
        Fit::Whole(at)
    }
}

/// Whether something is at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// It is, in so many bytes.
    Whole(usize),
    /// The text ends before that can be told.
    Open,
    No,
}

/// All that is looked for.
#[derive(Debug)]
pub(super) struct Spelled {
    wanted: Vec<Wanted>,
    /// The numbers of all that is wanted.
    all: Vec<usize>,
    /// The numbers of what is wanted, by the first byte of its text: 256 lists.
    by_first: Vec<Vec<usize>>,
    /// Which two bytes something can begin with: a bit for each of the 65,536 pairs.
    pairs: Box<[u64; 1_024]>,
    /// The numbers of what begins with two bytes of which the first is plain, in the order of the pairs.
    by_pair: Vec<(u16, Vec<usize>)>,
}

impl Spelled {
    pub(super) fn new(mut wanted: Vec<Wanted>) -> Self {
        let mut taken = BTreeSet::new();
        wanted.retain(|one| taken.insert((one.text.clone(), one.breaks)));
        let mut by_first = vec![Vec::new(); 256];
        let mut pairs = Box::new([0; 1_024]);
        let mut by_pair: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (number, one) in wanted.iter().enumerate() {
            let (Some(first), Some(second)) = (one.text.first(), one.text.get(1)) else { continue };
            if let Some(list) = by_first.get_mut(usize::from(first_byte(*first))) {
                list.push(number);
            }
            for first in begins(*first) {
                // What comes after an escape, or between the bytes of a character, may be anything.
                if is_plain(first) {
                    let line_end: &[u8] = if one.breaks == Breaks::Anywhere { b"\r\n" } else { b"" };
                    for second in begins(*second).chain(line_end.iter().copied()) {
                        mark(&mut pairs, first, second);
                        by_pair.entry(u16::from_be_bytes([first, second])).or_default().push(number);
                    }
                } else {
                    (0..=u8::MAX).for_each(|second| mark(&mut pairs, first, second));
                }
            }
        }
        Self { all: (0..wanted.len()).collect(), wanted, by_first, pairs, by_pair: by_pair.into_iter().collect() }
    }

    /// The first place in these bytes where something is: its start, its end and what stands for it. It begins before
    /// `until`.
    pub(super) fn find(&self, bytes: &[u8], from: usize, until: usize) -> Option<(usize, usize, &Arc<str>)> {
        let mut at = from;
        loop {
            at = self.next_start(bytes, at, until)?;
            let rest = bytes.get(at..).unwrap_or_default();
            let whole = self.candidates(rest).filter_map(|number| {
                let one = self.wanted.get(number)?;
                match one.fits(rest) {
                    Fit::Whole(length) => Some((length, number, &one.stand_in)),
                    Fit::Open | Fit::No => None,
                }
            });
            if let Some((length, _, stand_in)) = whole.max_by_key(|(length, number, _)| (*length, *number)) {
                return Some((at, at + length, stand_in));
            }
            at += 1;
        }
    }

    /// The first place from `from` on whence the bytes could be the beginning of something; their end if there is none.
    pub(super) fn open_end(&self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(start) = self.next_start(bytes, at, bytes.len()) {
            let rest = bytes.get(start..).unwrap_or_default();
            let is_open = |number: usize| self.wanted.get(number).is_some_and(|one| one.fits(rest) == Fit::Open);
            if self.candidates(rest).any(is_open) {
                return start;
            }
            at = start + 1;
        }
        bytes.len()
    }

    /// The first place from `from` on, and before `until`, that has two bytes with which something can begin.
    fn next_start(&self, bytes: &[u8], from: usize, until: usize) -> Option<usize> {
        let until = until.min(bytes.len());
        let mut seconds = bytes.get(from..bytes.len().min(until + 1)).unwrap_or_default().iter();
        let mut first = *seconds.next()?;
        let skipped = seconds.position(|second| {
            let is_marked = self.is_marked(first, *second);
            first = *second;
            is_marked
        });
        match skipped {
            Some(skipped) => Some(from + skipped),
            // After the last byte anything may come.
            None => (from < until && until == bytes.len()).then(|| bytes.len() - 1),
        }
    }

    fn is_marked(&self, first: u8, second: u8) -> bool {
        let pair = usize::from(first) << 8 | usize::from(second);
        self.pairs.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1)
    }

    fn beginning_with(&self, first: u8, second: u8) -> &[usize] {
        let pair = u16::from_be_bytes([first, second]);
        let found = self.by_pair.binary_search_by_key(&pair, |(pair, _)| *pair).ok();
        found.and_then(|at| self.by_pair.get(at)).map(|(_, numbers)| numbers.as_slice()).unwrap_or_default()
    }

    /// The numbers of what can be at the beginning of these bytes.
    fn candidates(&self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let by_first = |first: u8| self.by_first.get(usize::from(first)).map(Vec::as_slice).unwrap_or_default();
        let (plain, escaped): (&[usize], &[usize]) = match bytes {
            [first, second, ..] if is_plain(*first) => (self.beginning_with(*first, *second), &[]),
            [first, ..] => match meant(bytes) {
                Meant::Itself => (by_first(*first), &[]),
                Meant::First(other) => (by_first(*first), by_first(other)),
                Meant::Open => (&self.all, &[]),
            },
            [] => (&[], &[]),
        };
        plain.iter().chain(escaped).copied()
    }
}

/// Whether a byte is a character that stands for itself.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii() && !is_escape(byte) && byte != b'+'
}

fn mark(pairs: &mut [u64; 1_024], first: u8, second: u8) {
    let pair = usize::from(first) << 8 | usize::from(second);
    if let Some(word) = pairs.get_mut(pair / 64) {
        *word |= 1 << (pair % 64);
    }
}

/// Where the last byte ends that is not plain: a text that begins after it has no spelling but those that are listed.
pub(super) fn odd_end(bytes: &[u8]) -> usize {
    let is_odd = |byte: &u8| is_escape(*byte) || matches!(byte, b'+' | b'\n' | b'\r');
    bytes.iter().rposition(is_odd).map_or(0, |last| last + 1)
}

/// The character that some bytes begin with.
enum Meant {
    /// The one that is there.
    Itself,
    /// That one, or one whose first byte is this.
    First(u8),
    /// The text ends before that can be told.
    Open,
}

fn meant(bytes: &[u8]) -> Meant {
    let code = match bytes.first() {
        Some(b'+') => return Meant::First(b' '),
        Some(b'%') => match number(bytes.get(1..).unwrap_or_default(), 2) {
            // The first byte of a character, not its code.
            Digits::Are(byte) => return u8::try_from(byte).map_or(Meant::Itself, Meant::First),
            other => other,
        },
        Some(b'\\') => {
            let slashes = count_slashes(bytes);
            let rest = bytes.get(slashes + 1..).unwrap_or_default();
            match bytes.get(slashes) {
                None => Digits::Open,
                Some(b'u') => number(rest, 4),
                Some(b'x') => number(rest, 2),
                Some(letter) => named(*letter).map_or(Digits::None, |named| Digits::Are(u32::from(named))),
            }
        }
        Some(b'&') => entity_at(bytes).1,
        Some(_) | None => Digits::None,
    };
    match code {
        // The first half of a pair of UTF-16. The other half does not change the first byte of UTF-8.
        Digits::Are(high @ 0xd800..0xdc00) => first_of_code(0x1_0000 + ((high - 0xd800) << 10)),
        Digits::Are(code) => first_of_code(code),
        Digits::Open => Meant::Open,
        Digits::None => Meant::Itself,
    }
}

fn first_of_code(code: u32) -> Meant {
    char::from_u32(code).map_or(Meant::Itself, |c| Meant::First(first_byte(c)))
}

fn first_byte(c: char) -> u8 {
    c.encode_utf8(&mut [0; 4]).bytes().next().unwrap_or_default()
}

/// The bytes that a character can begin with, in any spelling.
fn begins(c: char) -> impl Iterator<Item = u8> {
    std::iter::once(first_byte(c)).chain(*b"%\\&").chain((c == ' ').then_some(b'+'))
}

fn is_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// Whether these bytes begin with the character, in any spelling.
fn char_at(bytes: &[u8], wanted: char) -> Fit {
    let escaped = match bytes.first() {
        None => return Fit::Open,
        Some(first) if first.is_ascii_alphanumeric() && wanted.is_ascii() => {
            return if wanted == char::from(*first) { Fit::Whole(1) } else { Fit::No };
        }
        Some(b'%') => percent(bytes, wanted),
        Some(b'\\') => backslash(bytes, wanted),
        Some(b'&') => entity(bytes, wanted),
        Some(b'+') if wanted == ' ' => return Fit::Whole(1),
        Some(_) => Fit::No,
    };
    match escaped {
        Fit::Whole(_) | Fit::Open => escaped,
        Fit::No => is(bytes, wanted.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Whether these bytes begin with those.
fn is(bytes: &[u8], wanted: &[u8]) -> Fit {
    match bytes.get(..wanted.len()) {
        Some(start) if start == wanted => Fit::Whole(wanted.len()),
        Some(_) => Fit::No,
        None if wanted.starts_with(bytes) => Fit::Open,
        None => Fit::No,
    }
}

/// `%2F`, a triple for each byte.
fn percent(bytes: &[u8], wanted: char) -> Fit {
    let mut at = 0;
    for byte in wanted.encode_utf8(&mut [0; 4]).bytes() {
        match (bytes.get(at), number(bytes.get(at + 1..).unwrap_or_default(), 2)) {
            (None, _) => return Fit::Open,
            (Some(b'%'), Digits::Are(found)) if found == u32::from(byte) => at += 3,
            (Some(b'%'), Digits::Open) => return Fit::Open,
            (Some(_), _) => return Fit::No,
        }
    }
    Fit::Whole(at)
}

/// `\/`, `\n`, `\u002f`, with as many backslashes as there are strings within strings.
fn backslash(bytes: &[u8], wanted: char) -> Fit {
    let slashes = count_slashes(bytes);
    let Some(letter) = bytes.get(slashes) else { return Fit::Open };
    let rest = bytes.get(slashes + 1..).unwrap_or_default();
    match letter {
        b'u' => return unicode(rest, slashes, wanted),
        b'x' => match number(rest, 2) {
            Digits::Are(found) if found == u32::from(wanted) => return Fit::Whole(slashes + 3),
            Digits::Open => return Fit::Open,
            Digits::Are(_) | Digits::None => {}
        },
        _ => {}
    }
    match named(*letter) {
        Some(named) if named == wanted => Fit::Whole(slashes + 1),
        _ if wanted == '\\' => Fit::Whole(slashes),
        _ => Fit::No,
    }
}

/// How many backslashes these bytes begin with, as far as they count.
fn count_slashes(bytes: &[u8]) -> usize {
    bytes.iter().take(SLASHES).take_while(|byte| **byte == b'\\').count()
}

/// What a backslash and this letter stand for.
fn named(letter: u8) -> Option<char> {
    match letter {
        b'n' => Some('\n'),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        b'"' | b'\'' | b'/' | b'=' | b'&' | b'<' | b'>' => Some(char::from(letter)),
        _ => None,
    }
}

/// What follows `\u`: four digits, or two times four.
fn unicode(bytes: &[u8], slashes: usize, wanted: char) -> Fit {
    let mut at = 0;
    for (number_of, unit) in wanted.encode_utf16(&mut [0; 2]).iter().enumerate() {
        if number_of > 0 {
            let next = bytes.get(at..).unwrap_or_default();
            let again = count_slashes(next);
            match next.get(again) {
                None => return Fit::Open,
                Some(b'u') if again > 0 => at += again + 1,
                Some(_) => return Fit::No,
            }
        }
        match number(bytes.get(at..).unwrap_or_default(), 4) {
            Digits::Are(found) if found == u32::from(*unit) => at += 4,
            Digits::Open => return Fit::Open,
            Digits::Are(_) | Digits::None => return Fit::No,
        }
    }
    Fit::Whole(slashes + 1 + at)
}

/// `&amp;`, `&#38;`, `&#x26;`.
fn entity(bytes: &[u8], wanted: char) -> Fit {
    match entity_at(bytes) {
        (length, Digits::Are(code)) if code == u32::from(wanted) => Fit::Whole(length),
        (_, Digits::Open) => Fit::Open,
        (_, Digits::Are(_) | Digits::None) => Fit::No,
    }
}

/// The length of the entity that these bytes begin with, and the character that it stands for.
fn entity_at(bytes: &[u8]) -> (usize, Digits) {
    let inside = bytes.get(1..).unwrap_or_default();
    let length = inside.iter().take(ENTITY).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#').count();
    let name = inside.get(..length).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    match inside.get(length) {
        None if length < ENTITY => return (0, Digits::Open),
        Some(b';') => {}
        Some(_) | None => return (0, Digits::None),
    }
    let code = match (name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")), name.strip_prefix('#')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(digits)) => digits.parse().ok(),
        (None, None) => NAMED.iter().find(|(known, _)| *known == name).map(|(_, c)| u32::from(*c)),
    };
    (length + 2, code.map_or(Digits::None, Digits::Are))
}

/// A line break, as it is or escaped, with what indents the next line.
fn after_break(bytes: &[u8]) -> Fit {
    let mut at = 0;
    for part in ['\r', '\n'] {
        match char_at(bytes.get(at..).unwrap_or_default(), part) {
            Fit::Whole(length) => at += length,
            Fit::Open => return Fit::Open,
            Fit::No => {}
        }
    }
    if at == 0 {
        return Fit::No;
    }
    let indent = bytes.iter().skip(at).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Fit::Whole(at + indent)
}

/// A number that was to be read.
enum Digits {
    Are(u32),
    /// The text ends before them.
    Open,
    None,
}

/// A number of so many hexadecimal digits.
fn number(bytes: &[u8], length: usize) -> Digits {
    let digits = bytes.iter().take(length).take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits < length {
        return if digits == bytes.len() { Digits::Open } else { Digits::None };
    }
    let text = bytes.get(..length).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| u32::from_str_radix(text, 16).ok()).map_or(Digits::None, Digits::Are)
}

#[cfg(test)]
#[path = "spelled_tests.rs"]
mod tests;
