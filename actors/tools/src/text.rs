//! Text for models and people, cut between characters.

use std::collections::VecDeque;

/// The first `max` characters of `text`, with a mark if there were more.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The head and the tail of a stream of bytes, in bounded memory.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `cap` bytes: the first half and the last half of them.
    pub fn new(cap: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: cap / 2, total: 0 }
    }

    /// Takes more of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        let skip = rest.len().saturating_sub(self.half);
        let rest = rest.get(skip..).unwrap_or_default();
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..overflow.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether some were dropped.
    pub fn is_truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// The stream as text. What is no UTF-8 becomes `U+FFFD`; where bytes were dropped, a line says how many, and the
    /// cut itself splits no character.
    pub fn text(&self) -> String {
        self.text_with("")
    }

    /// As [`Capture::text`]; the line that says how many were dropped goes on with `note`.
    pub(crate) fn text_with(&self, note: &str) -> String {
        let mut kept = self.head.clone();
        if !self.is_truncated() {
            kept.extend(&self.tail);
            return String::from_utf8_lossy(&kept).into_owned();
        }
        kept.truncate(kept.len() - unfinished(&kept));
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let tail = tail.get(continued(&tail)..).unwrap_or_default();
        let omitted = self.total - (kept.len() + tail.len()) as u64;
        let (head, tail) = (String::from_utf8_lossy(&kept), String::from_utf8_lossy(tail));
        format!("{head}\n… {omitted} bytes omitted{note} …\n{tail}")
    }

    /// The last `max` bytes as text, cut between characters.
    pub fn last(&self, max: usize) -> String {
        // The head is no part of the end once something between them was dropped.
        let head: &[u8] = if self.is_truncated() { &[] } else { &self.head };
        let len = head.len() + self.tail.len();
        let mut end: Vec<u8> = head.iter().chain(&self.tail).skip(len.saturating_sub(max)).copied().collect();
        end.truncate(end.len() - unfinished(&end));
        let from = if self.total > end.len() as u64 { continued(&end) } else { 0 };
        String::from_utf8_lossy(end.get(from..).unwrap_or_default()).into_owned()
    }
}

/// How many bytes at the end begin a character without finishing it.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let Some(byte) = bytes.get(bytes.len() - back) else { break };
        match byte {
            0x80..=0xBF => {}
            0xC0..=0xDF if back < 2 => return back,
            0xE0..=0xEF if back < 3 => return back,
            0xF0..=0xF7 if back < 4 => return back,
            _ => break,
        }
    }
    0
}

/// How many bytes at the start continue a character that began before.
pub(crate) fn continued(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..=0xBF).contains(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse_protocol::edit_distance;
    use proptest::prelude::*;

    fn captured(cap: usize, chunks: &[Vec<u8>]) -> Capture {
        let mut capture = Capture::new(cap);
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture
    }

    #[test]
    fn short_streams_are_kept_whole_and_long_ones_say_what_is_missing() {
        assert_eq!(captured(8, &[b"abc".to_vec(), b"defgh".to_vec()]).text(), "abcdefgh");
        let long = captured(8, &[b"abcdefghij".to_vec()]);
        assert!(long.is_truncated());
        assert_eq!(long.text(), "abcd\n… 2 bytes omitted …\nghij");
        assert_eq!(captured(8, &[]).text(), "");
        assert_eq!(long.last(2), "ij");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("äö", 2), "äö");
    }

    proptest! {
        #[test]
        fn f17_any_bytes_in_any_pieces_give_the_same_bounded_text(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12), cap in 0_usize..64,
        ) {
            let whole = chunks.concat();
            let capture = captured(cap, &chunks);
            prop_assert_eq!(capture.text(), captured(cap, std::slice::from_ref(&whole)).text());
            prop_assert!(capture.head.len() + capture.tail.len() <= cap);
            prop_assert_eq!(capture.total(), whole.len() as u64);
            if !capture.is_truncated() {
                prop_assert_eq!(capture.text(), String::from_utf8_lossy(&whole).into_owned());
            }
        }

        #[test]
        fn f17_a_cut_never_splits_a_character(text in "\\PC{0,80}", cap in 0_usize..64, size in 1_usize..9) {
            let chunks: Vec<Vec<u8>> = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let capture = captured(cap, &chunks);
            let shown = capture.text();
            prop_assert!(text.contains('\u{FFFD}') || !shown.contains('\u{FFFD}'), "{shown:?}");
            if let Some((head, rest)) = shown.split_once("\n… ").filter(|_| capture.is_truncated()) {
                let (count, tail) = rest.split_once(" bytes omitted …\n").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(count.parse::<usize>().unwrap(), text.len() - head.len() - tail.len());
            } else {
                prop_assert_eq!(&shown, &text);
            }
            for max in [cap / 2, cap] {
                let last = capture.last(max);
                prop_assert!(last.len() <= max && text.ends_with(&last));
            }
        }
    }

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "ab"), 2);
        assert_eq!(edit_distance("ab", ""), 2);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
