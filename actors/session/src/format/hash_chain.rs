//! The chain through a journal's records: each one's hash covers its bytes and the hash of the one before it.
//!
//! Pure. A record cannot be changed, removed, added or moved without every later hash being another one, so whoever
//! keeps the last hash, the head, can tell. Long strings are in the chain by the hash that is their name
//! ([`blob`](crate::format::blob)). A record of an older build has no hash stored; its place in the chain is computed, so the
//! first one that is stored speaks for all before it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::record::Form;

/// The hash of a record and of all before it: BLAKE3 over the hash before (32 zero bytes for the first record), the
/// record's number and epoch (8 bytes each, the lowest first), a byte that is 1 if it has blobs and else 0, and the
/// entry's bytes as they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ChainHash([u8; 32]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl ChainHash {
    /// Before the first record.
    pub const START: Self = Self([0; 32]);

    /// The hash of the record that follows.
    pub(crate) fn next(&self, seq: u64, epoch: u64, form: Form, entry: &[u8]) -> Self {
        let mark = match form {
            Form::Plain => [0],
            Form::WithBlobs => [1],
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(&seq.to_le_bytes()).update(&epoch.to_le_bytes()).update(&mark).update(entry);
        Self(*hasher.finalize().as_bytes())
    }

    /// As 64 hex digits.
    pub(crate) fn digits(&self) -> [u8; 64] {
        let mut digits = [b'0'; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            for (digit, half) in pair.iter_mut().zip([byte >> 4, byte & 0xf]) {
                *digit = DIGITS.get(usize::from(half)).copied().unwrap_or(b'0');
            }
        }
        digits
    }
}

/// What is no [`ChainHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chain's hash is 64 lower-case hex digits, as `playhouse audit verify` prints it")]
pub struct NoChainHash;

impl FromStr for ChainHash {
    type Err = NoChainHash;

    fn from_str(text: &str) -> Result<Self, NoChainHash> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NoChainHash),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(NoChainHash);
        }
        let mut hash = [0; 32];
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = (value(*high)? << 4) | value(*low)?;
        }
        Ok(Self(hash))
    }
}

impl TryFrom<String> for ChainHash {
    type Error = NoChainHash;

    fn try_from(text: String) -> Result<Self, NoChainHash> {
        text.parse()
    }
}

impl From<ChainHash> for String {
    fn from(hash: ChainHash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().iter().try_for_each(|digit| fmt::Write::write_char(f, char::from(*digit)))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The chain of a journal as far as it was read: the hash after each record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// Those of records that count, in order.
    counted: Vec<(u64, ChainHash)>,
    /// Those of records that owners wrote after they had lost the journal.
    aside: Vec<(u64, ChainHash)>,
}

impl Links {
    /// After the last record that counts.
    pub fn head(&self) -> ChainHash {
        self.counted.last().map_or(ChainHash::START, |(_, hash)| *hash)
    }

    /// How many records count.
    pub fn len(&self) -> usize {
        self.counted.len()
    }

    /// The number of the record after which the chain had this head.
    pub fn find(&self, head: &ChainHash) -> Option<u64> {
        self.counted.iter().find(|(_, hash)| hash == head).map(|(seq, _)| *seq)
    }

    /// Takes in the next record that counts; its number is higher than those before it.
    pub fn push(&mut self, seq: u64, hash: ChainHash) {
        self.counted.push((seq, hash));
    }

    /// Takes in a record that does not count, so that others like it can be checked against it.
    pub fn put_aside(&mut self, seq: u64, hash: ChainHash) {
        self.aside.push((seq, hash));
    }

    /// Records from this number on no longer count.
    pub fn rewind(&mut self, seq: u64) {
        while let Some(link) = self.counted.pop_if(|(held, _)| *held >= seq) {
            self.aside.push(link);
        }
    }

    /// The hashes that a record which does not count may follow.
    pub fn before(&self, seq: u64) -> impl Iterator<Item = ChainHash> {
        let first = (seq == 1).then_some(ChainHash::START);
        let at = self.counted.binary_search_by_key(&seq.saturating_sub(1), |(held, _)| *held).ok();
        let counted = at.and_then(|at| self.counted.get(at)).map(|(_, hash)| *hash);
        let aside = self.aside.iter().filter(move |(held, _)| *held + 1 == seq).map(|(_, hash)| *hash);
        first.into_iter().chain(counted).chain(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_comes_back_from_its_text_and_other_text_is_none() {
        let hash = ChainHash::START.next(1, 1, Form::Plain, b"{}");
        let text = hash.to_string();
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ChainHash>(&format!("\"{text}\"")).unwrap(), hash);
        for bad in ["", "0", &text.to_uppercase(), &text[1..], &format!("{text}0"), &"ä".repeat(32), &"g".repeat(64)] {
            assert_eq!(bad.parse::<ChainHash>(), Err(NoChainHash), "{bad}");
        }
    }

    #[test]
    fn the_hash_is_blake3_over_what_the_documentation_says() {
        let previous = ChainHash([7; 32]);
        let mut bytes = vec![7; 32];
        bytes.extend([3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend(b"{\"id\":\"x\"}");
        let expected = blake3::hash(&bytes).to_hex();
        assert_eq!(previous.next(3, 2, Form::WithBlobs, b"{\"id\":\"x\"}").to_string(), expected.as_str());
    }

    #[test]
    fn everything_that_a_record_says_is_in_its_hash() {
        let hash = ChainHash::START.next(1, 1, Form::Plain, b"{}");
        for other in [
            hash.next(1, 1, Form::Plain, b"{}"),
            ChainHash::START.next(2, 1, Form::Plain, b"{}"),
            ChainHash::START.next(1, 2, Form::Plain, b"{}"),
            ChainHash::START.next(1, 1, Form::WithBlobs, b"{}"),
            ChainHash::START.next(1, 1, Form::Plain, b"{ }"),
        ] {
            assert_ne!(other, hash);
        }
    }
}
