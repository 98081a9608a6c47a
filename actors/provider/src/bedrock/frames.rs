//! Amazon's event-stream frames; pure: bytes in, frames out.
//!
//! A frame is `total length, headers length, CRC of both | headers | payload | CRC of all before`, big-endian, each CRC
//! the common CRC-32. The lengths are believed only once their own CRC agrees, and before anything is kept for them.

use bytes::{Bytes, BytesMut};

/// The two lengths and their CRC.
const PRELUDE: usize = 12;
/// The prelude, and the CRC at the end.
const OVERHEAD: usize = PRELUDE + 4;

/// Bytes that may not hold a whole frame yet.
#[derive(Debug)]
pub(super) struct Frames {
    cap: usize,
    held: BytesMut,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// It says it is longer than may be.
    #[error("an event is longer than {cap} bytes")]
    TooLong { cap: usize },
    /// A checksum or a length is wrong; the text says which.
    #[error("an event is damaged: {0}")]
    Damaged(&'static str),
}

impl Frames {
    /// Frames of at most `cap` bytes.
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, held: BytesMut::new() }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next frame, if all of it has come. After an error there is nothing more to read.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut rest: &[u8] = &self.held;
        let (Some(lengths), Some(sum)) = (take::<8>(&mut rest), take::<4>(&mut rest)) else { return Ok(None) };
        if crc32fast::hash(&lengths) != u32::from_be_bytes(sum) {
            return Err(FrameError::Damaged("its lengths do not match their checksum"));
        }
        let mut lengths: &[u8] = &lengths;
        let (total, headers) = (length(&mut lengths), length(&mut lengths));
        if total > self.cap {
            return Err(FrameError::TooLong { cap: self.cap });
        }
        if total < OVERHEAD || headers > total - OVERHEAD {
            return Err(FrameError::Damaged("its lengths do not fit"));
        }
        if self.held.len() < total {
            return Ok(None);
        }
        let mut frame = self.held.split_to(total).freeze();
        let sum = frame.split_off(total - 4);
        if crc32fast::hash(&frame).to_be_bytes() != *sum {
            return Err(FrameError::Damaged("it does not match its checksum"));
        }
        let mut head = frame.split_off(PRELUDE);
        let payload = head.split_off(headers);
        let frame = Frame { head, payload };
        let mut headers: &[u8] = &frame.head;
        while !headers.is_empty() {
            header(&mut headers).ok_or(FrameError::Damaged("its headers cannot be read"))?;
        }
        Ok(Some(frame))
    }
}

/// A frame whose checksums are right: its headers, still encoded, and what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    head: Bytes,
    pub(super) payload: Bytes,
}

impl Frame {
    /// A header that is text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut rest: &[u8] = &self.head;
        while let Some((found, value)) = header(&mut rest) {
            if found == name.as_bytes() {
                return std::str::from_utf8(value?).ok();
            }
        }
        None
    }
}

/// The next header: its name, and its value if that is text.
fn header<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let [name] = take::<1>(rest)?;
    let name = take_slice(rest, usize::from(name))?;
    let [kind] = take::<1>(rest)?;
    let fixed = match kind {
        // Booleans: the kind is the value.
        0 | 1 => 0,
        // Whole numbers of 8, 16, 32 and 64 bits.
        2 => 1,
        3 => 2,
        4 => 4,
        // A 64-bit number, and a time.
        5 | 8 => 8,
        // Bytes and text, after their length.
        6 | 7 => {
            let size = usize::from(u16::from_be_bytes(take::<2>(rest)?));
            let value = take_slice(rest, size)?;
            return Some((name, (kind == 7).then_some(value)));
        }
        // A UUID.
        9 => 16,
        _ => return None,
    };
    take_slice(rest, fixed)?;
    Some((name, None))
}

fn length(rest: &mut &[u8]) -> usize {
    let length = take::<4>(rest).map(u32::from_be_bytes).unwrap_or_default();
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

fn take_slice<'a>(rest: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let (first, after) = rest.split_at_checked(size)?;
    *rest = after;
    Some(first)
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
