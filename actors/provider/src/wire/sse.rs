//! Server-sent events, as the HTML standard specifies them; pure.
//!
//! Lines end in LF, CRLF or CR; a leading byte-order mark is dropped; `data` lines of one event are joined by LF;
//! comments and unknown fields are skipped; an event without `data` is none; an event that the stream ends in the
//! middle of is dropped. Bytes become text only when their event is complete, so a character split over two reads is
//! never damaged. There is no reconnecting: it could buy a response twice.

use std::borrow::Cow;
use std::ops::ControlFlow;

use memchr::memchr2;

/// One event, borrowed from the bytes it came in where it stands there in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The `event` field; empty is the standard's `message`.
    pub event: Cow<'a, str>,
    /// The `data` lines, joined by LF.
    pub data: Cow<'a, str>,
}

/// An event that is longer than the decoder's cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event of the stream is longer than {cap} bytes")]
pub(crate) struct FrameTooLong {
    /// The cap in bytes.
    pub cap: usize,
}

/// Turns bytes, split anywhere, into events.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    cap: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    event: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    /// The first line has not been looked at for a byte-order mark.
    at_start: bool,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl SseDecoder {
    /// A decoder that refuses events of more than `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, line: Vec::new(), event: Vec::new(), data: None, after_cr: false, at_start: true }
    }

    /// Takes the next bytes and hands the events that they complete to `on`, until it breaks off.
    pub(crate) fn feed<B>(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(Frame<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, FrameTooLong> {
        let mut rest = bytes;
        // The first `data` line of the event, while it is the only one and stands in `bytes`.
        let mut lent: Option<&[u8]> = None;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = rest.split_first().map_or(&[], |(_, tail)| tail);
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.admit(rest, lent)?;
                self.line.extend_from_slice(rest);
                break;
            };
            let (line, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.admit(line, lent)?;
            let (stop, tail) = tail.split_first().unwrap_or((&b'\n', &[]));
            self.after_cr = *stop == b'\r';
            rest = tail;
            if !self.line.is_empty() {
                self.end_held_line(line, lent.take());
            } else if !line.is_empty() {
                match (self.field(line), &self.data, lent) {
                    (Some(value), None, None) => lent = Some(value),
                    (Some(value), _, _) => {
                        self.add_data(lent.take());
                        self.add_data(Some(value));
                    }
                    (None, _, _) => {}
                }
            } else if let ControlFlow::Break(end) = self.end_event(lent.take(), &mut on) {
                return Ok(ControlFlow::Break(end));
            }
        }
        self.add_data(lent);
        Ok(ControlFlow::Continue(()))
    }

    /// Checks that the event has room for more bytes.
    fn admit(&self, bytes: &[u8], lent: Option<&[u8]>) -> Result<(), FrameTooLong> {
        let data = self.data.as_ref().map_or(0, Vec::len) + lent.map_or(0, <[u8]>::len);
        match self.line.len() + self.event.len() + data + bytes.len() > self.cap {
            true => Err(FrameTooLong { cap: self.cap }),
            false => Ok(()),
        }
    }

    /// The rest of a line that began in earlier bytes.
    fn end_held_line(&mut self, rest: &[u8], lent: Option<&[u8]>) {
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(rest);
        self.add_data(lent);
        let value = self.field(&line);
        self.add_data(value);
        // The buffer goes back, so that a long stream does not allocate for each line.
        line.clear();
        self.line = line;
    }

    fn end_event<B>(
        &mut self,
        lent: Option<&[u8]>,
        on: &mut impl FnMut(Frame<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.at_start = false;
        let event = std::mem::take(&mut self.event);
        match (self.data.take(), lent) {
            (Some(data), _) => on(Frame { event: owned(event), data: owned(data) }),
            (None, Some(data)) => on(Frame { event: owned(event), data: borrowed(data) }),
            (None, None) => ControlFlow::Continue(()),
        }
    }

    /// Takes in one line that is not empty; gives its value if it is a `data` line.
    fn field<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(BOM).unwrap_or(line),
            false => line,
        };
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => Some(value),
            b"event" => {
                self.event = value.to_vec();
                None
            }
            // A comment (an empty name), `id`, `retry`, and fields the standard does not know.
            _ => None,
        }
    }

    /// Keeps a `data` line until its event is complete.
    fn add_data(&mut self, value: Option<&[u8]>) {
        match (&mut self.data, value) {
            (Some(data), Some(value)) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            (data @ None, Some(value)) => *data = Some(value.to_vec()),
            (_, None) => {}
        }
    }
}

/// Decodes as the standard says: what is no UTF-8 becomes U+FFFD.
fn borrowed(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// The same for bytes that are owned.
fn owned(bytes: Vec<u8>) -> Cow<'static, str> {
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(decoder: &mut SseDecoder, bytes: &[u8], frames: &mut Vec<(String, String)>) -> Result<(), FrameTooLong> {
        let fed = decoder.feed(bytes, |frame| {
            frames.push((frame.event.into_owned(), frame.data.into_owned()));
            ControlFlow::<()>::Continue(())
        });
        fed.map(|_| ())
    }

    fn decode(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new(1 << 16);
        let mut frames = Vec::new();
        for piece in pieces {
            feed(&mut decoder, piece, &mut frames).unwrap();
        }
        frames
    }

    fn data(text: &[u8]) -> Vec<String> {
        decode(&[text]).into_iter().map(|(_, data)| data).collect()
    }

    /// What the standard says about corners, each with the data of the events it gives.
    const CORPUS: [(&[u8], &[&str]); 21] = [
        (b"data: a\n\n", &["a"]),
        (b"data: a\r\n\r\n", &["a"]),
        (b"data: a\r\r", &["a"]),
        (b"data: a\r\n\n", &["a"]),
        (b"data: a\n\r\n", &["a"]),
        (b"data:a\n\n", &["a"]),
        (b"data:  a\n\n", &[" a"]),
        (b"data: a\ndata: b\n\n", &["a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\n", &["a\nb"]),
        (b"data: a\ndata\ndata:\n\n", &["a\n\n"]),
        (b"data\n\n", &[""]),
        (b": keep-alive\n\ndata: a\n\n", &["a"]),
        (b":\n\n:\n\n", &[]),
        (b"event: ping\n\n", &[]),
        (b"id: 1\nretry: 5\nnonsense\ndata: a\n\n", &["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", &["a"]),
        (b"data: \xef\xbb\xbfa\n\n", &["\u{feff}a"]),
        (b"data: a\n", &[]),
        (b"data: a\n\ndata: b", &["a"]),
        (b"data: a: b\n\n\n\ndata: c\n\n", &["a: b", "c"]),
        (b"data: \xff\n\n", &["\u{fffd}"]),
    ];

    #[test]
    fn f04_the_corners_of_the_standard() {
        for (bytes, expected) in CORPUS {
            assert_eq!(data(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn f04_every_corner_split_at_every_byte_gives_the_same_events() {
        for (bytes, _) in CORPUS {
            let whole = decode(&[bytes]);
            for at in 0..=bytes.len() {
                let (left, right) = bytes.split_at(at);
                assert_eq!(decode(&[left, right]), whole, "{:?} at {at}", String::from_utf8_lossy(bytes));
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), whole);
        }
    }

    #[test]
    fn events_have_names() {
        let seen = decode(&[b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n"]);
        assert_eq!(seen, [("b".into(), "1".into()), (String::new(), "2".into())]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = SseDecoder::new(100);
        let mut frames = Vec::new();
        let refused = (0..100).find_map(|_| feed(&mut decoder, b"data: 0123456789\n", &mut frames).err());
        assert_eq!(refused, Some(FrameTooLong { cap: 100 }));
        let mut decoder = SseDecoder::new(100);
        assert!(feed(&mut decoder, &[b'x'; 101], &mut frames).is_err());
        assert!(frames.is_empty());
    }

    #[test]
    fn whoever_breaks_off_gets_no_more_events() {
        let mut decoder = SseDecoder::new(100);
        let mut seen = Vec::new();
        let fed = decoder.feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n", |frame| {
            seen.push(frame.data.into_owned());
            if seen.len() == 2 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
        });
        assert_eq!((fed, seen), (Ok(ControlFlow::Break("enough")), vec!["1".to_owned(), "2".to_owned()]));
    }

    #[test]
    fn an_event_in_one_piece_is_not_copied() {
        let bytes = b"data: first\n\ndata: second\n\n";
        let mut decoder = SseDecoder::new(100);
        let fed = decoder.feed(bytes, |frame| match frame.data {
            Cow::Borrowed(_) => ControlFlow::Continue(()),
            Cow::Owned(data) => ControlFlow::Break(data),
        });
        assert_eq!(fed, Ok(ControlFlow::Continue(())));
    }

    #[test]
    fn many_events_may_be_longer_than_the_cap_together() {
        let mut decoder = SseDecoder::new(20);
        let mut frames = Vec::new();
        feed(&mut decoder, &b"data: 0123456789\n\n".repeat(50), &mut frames).unwrap();
        assert_eq!(frames.len(), 50);
    }

    proptest! {
        #[test]
        fn f04_random_bytes_split_anywhere_give_the_same_events(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("data: ".to_owned()), Just("data:".to_owned()), Just("\n".to_owned()), Just("\r\n".to_owned()),
                    Just("\r".to_owned()), Just(": hi".to_owned()), Just("event: e".to_owned()), "[a-zé€😀 :]{0,6}",
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            prop_assert_eq!(decode(&pieces), decode(&[&bytes]));
        }
    }
}
