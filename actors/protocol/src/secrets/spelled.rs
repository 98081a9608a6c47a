//! Secrets in spellings that are too many to list: any of their characters may be escaped, as JSON, a URL, a form or HTML
//! do it, in either case and however often a JSON string is within another; and base64 may go over several lines.

use std::sync::Arc;

/// The longest entity of HTML that is looked for, with its `&` and `;`: `&#x1f980;`.
const ENTITY: usize = 10;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Debug, Default)]
pub(super) struct Spelled {
    wanted: Vec<Wanted>,
    /// Which two bytes something can begin with: a bit for each of the 65,536 pairs.
    pairs: Vec<u64>,
}

impl Spelled {
    pub(super) fn new(wanted: Vec<Wanted>) -> Self {
        let mut spelled = Self { wanted: Vec::new(), pairs: vec![0; 1_024] };
        for one in &wanted {
            let (Some(first), Some(second)) = (one.text.first(), one.text.get(1)) else { continue };
            for first in begins(*first) {
                // What comes after an escape, or between the bytes of a character, may be anything.
                let is_plain = first.is_ascii() && !is_escape(first);
                let seconds = begins(*second)
                    .chain(one.breaks.eq(&Breaks::Anywhere).then_some(b"\r\n").into_iter().flatten().copied());
                if is_plain {
                    seconds.for_each(|second| spelled.mark(first, second));
                } else {
                    (0..=u8::MAX).for_each(|second| spelled.mark(first, second));
                }
            }
        }
        spelled.wanted = wanted;
        spelled
    }

    fn mark(&mut self, first: u8, second: u8) {
        let pair = usize::from(first) << 8 | usize::from(second);
        if let Some(word) = self.pairs.get_mut(pair / 64) {
            *word |= 1 << (pair % 64);
        }
    }

    fn may_begin(&self, first: u8, second: Option<u8>) -> bool {
        let Some(second) = second else { return true };
        let pair = usize::from(first) << 8 | usize::from(second);
        self.pairs.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1)
    }

    /// The first place in these bytes where something is: its start, its end and what stands for it.
    pub(super) fn find(&self, bytes: &[u8], from: usize, until: usize) -> Option<(usize, usize, &Arc<str>)> {
        // Where nothing is escaped and no line ends, the listed spellings are all there are.
        let is_odd = |byte: &u8| is_escape(*byte) || matches!(byte, b'+' | b'\n' | b'\r');
        if !bytes.get(from..).is_some_and(|rest| rest.iter().any(is_odd)) {
            return None;
        }
        (from..until).filter(|at| self.is_start(bytes, *at)).find_map(|at| {
            let rest = bytes.get(at..)?;
            let whole = self.wanted.iter().filter_map(|one| match one.fits(rest) {
                Fit::Whole(length) => Some((at, at + length, &one.stand_in)),
                Fit::Open | Fit::No => None,
            });
            whole.max_by_key(|(_, end, _)| *end)
        })
    }

    /// The first place from `from` on whence the bytes could be the beginning of something; their end if there is none.
    pub(super) fn open_end(&self, bytes: &[u8], from: usize) -> usize {
        let is_open = |at: &usize| {
            let rest = bytes.get(*at..).unwrap_or_default();
            self.is_start(bytes, *at) && self.wanted.iter().any(|one| one.fits(rest) == Fit::Open)
        };
        (from..bytes.len()).find(is_open).unwrap_or(bytes.len())
    }

    fn is_start(&self, bytes: &[u8], at: usize) -> bool {
        bytes.get(at).is_some_and(|first| self.may_begin(*first, bytes.get(at + 1).copied()))
    }
}

/// The bytes that a character can begin with, in any spelling.
fn begins(c: char) -> impl Iterator<Item = u8> {
    let first = c.encode_utf8(&mut [0; 4]).bytes().next();
    first.into_iter().chain(*b"%\\&").chain((c == ' ').then_some(b'+'))
}

fn is_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// Whether these bytes begin with the character, in any spelling.
fn char_at(bytes: &[u8], wanted: char) -> Fit {
    let escaped = match bytes.first() {
        None => return Fit::Open,
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
    let slashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    let Some(letter) = bytes.get(slashes) else { return Fit::Open };
    let rest = bytes.get(slashes + 1..).unwrap_or_default();
    let named = match letter {
        b'u' => return unicode(rest, slashes, wanted),
        b'x' => match number(rest, 2) {
            Digits::Are(found) if found == u32::from(wanted) => return Fit::Whole(slashes + 3),
            Digits::Open => return Fit::Open,
            Digits::Are(_) | Digits::None => None,
        },
        b'n' => Some('\n'),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        b'"' | b'\'' | b'/' | b'=' | b'&' | b'<' | b'>' => Some(char::from(*letter)),
        _ => None,
    };
    match named {
        Some(named) if named == wanted => Fit::Whole(slashes + 1),
        _ if wanted == '\\' => Fit::Whole(slashes),
        _ => Fit::No,
    }
}

/// What follows `\u`: four digits, or two times four.
fn unicode(bytes: &[u8], slashes: usize, wanted: char) -> Fit {
    let mut at = 0;
    for (number_of, unit) in wanted.encode_utf16(&mut [0; 2]).iter().enumerate() {
        if number_of > 0 {
            let next = bytes.get(at..).unwrap_or_default();
            let again = next.iter().take_while(|byte| **byte == b'\\').count();
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
    let inside = bytes.get(1..).unwrap_or_default();
    let length = inside.iter().take(ENTITY).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#').count();
    let name = inside.get(..length).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
    match inside.get(length) {
        None if length < ENTITY => return Fit::Open,
        Some(b';') => {}
        Some(_) | None => return Fit::No,
    }
    let code = match (name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")), name.strip_prefix('#')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(digits)) => digits.parse().ok(),
        (None, None) => NAMED.iter().find(|(known, _)| *known == name).map(|(_, c)| u32::from(*c)),
    };
    if code == Some(u32::from(wanted)) { Fit::Whole(length + 2) } else { Fit::No }
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

/// A number of so many hexadecimal digits.
enum Digits {
    Are(u32),
    /// The text ends before them.
    Open,
    None,
}

fn number(bytes: &[u8], length: usize) -> Digits {
    let digits = bytes.iter().take(length).take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits < length {
        return if digits == bytes.len() { Digits::Open } else { Digits::None };
    }
    let text = bytes.get(..length).and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| u32::from_str_radix(text, 16).ok()).map_or(Digits::None, Digits::Are)
}
