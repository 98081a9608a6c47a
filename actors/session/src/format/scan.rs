//! What a reader makes of a journal's bytes: the records that count, and what is wrong with the rest.
//!
//! Pure but for the reader it is given. The rules:
//! - Everything after the last line that checks is the tail. Torn by a crash, it is cut and kept aside; one with lines
//!   that have an end is a loss, and stays where it is until someone who accepts that writes after it.
//! - A bad line before that is skipped and reported.
//! - A whole entry of an unknown kind is skipped and reported, wherever it stands; it is never cut.
//! - Epochs only rise. A line of an older epoch was written by an owner that had lost the journal and is skipped;
//!   when a new epoch begins at a number that is already there, the older epoch's lines from that number on are.
//! - A blob that is missing, cut or altered does not lose its entry: a note stands in its place, and it is reported.
//! - The chain goes on from the last record that counts. A record that does not follow from those before it is reported,
//!   and read all the same; so is a journal without hashes.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::Arc;

use playhouse_protocol::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};

use super::blob::{BlobSource, LostBlob, NoBlobs};
use super::hash_chain::{ChainHash, Links};
use super::record::{BadLine, Print, Record, Sealed, unseal};
use crate::store::REMEMBERED;

/// One thing wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The line, from 1.
    pub line: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// What is wrong there.
    #[serde(flatten)]
    pub kind: DamageKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "damage", rename_all = "snake_case")]
pub enum DamageKind {
    /// The end of the file holds no whole record.
    Torn {
        /// How many bytes there are after the last whole record.
        bytes: u64,
        /// Where it was put, if it was cut.
        kept_aside: Option<PathBuf>,
        /// How many lines of it are no beginning of a record, so that it is more than one write that broke off.
        #[serde(default)]
        lost: u64,
    },
    /// A line was skipped.
    BadLine(BadLine),
    /// A line that an owner wrote after it had lost the journal was skipped.
    Stale {
        /// The number that the line has.
        seq: Seq,
        /// The epoch that was over when it was written.
        epoch: u64,
    },
    /// A line whose number does not follow was skipped.
    OutOfOrder {
        /// The number that the line has.
        seq: Seq,
        /// The number before it.
        after: Seq,
    },
    /// Entries are gone without a trace.
    Missing {
        /// The first number that is not there.
        from: Seq,
        /// The last number that is not there.
        to: Seq,
    },
    /// A part of an entry is lost; a note stands in its place.
    LostBlob {
        /// The entry's number.
        seq: Seq,
        /// What is lost, and why.
        #[serde(flatten)]
        lost: LostBlob,
    },
    /// A record's hash does not follow from the record before it.
    Unlinked {
        /// The number of the record.
        seq: Seq,
    },
    /// A record has no hash, though one before it has; or it is the first of a journal in which none has.
    NoHash {
        /// The number of the record.
        seq: Seq,
    },
    /// The journal is another session's.
    OtherSession {
        /// Whose it says it is.
        says: SessionId,
    },
    /// The file could not be read any further.
    Unreadable {
        /// What the system says about it.
        reason: String,
    },
}

impl DamageKind {
    /// Whether something that was acknowledged may be gone. A torn tail never was, nor the line of an owner that had
    /// lost the journal.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Torn { lost, .. } => *lost > 0,
            Self::Stale { .. } => false,
            Self::BadLine(_)
            | Self::OutOfOrder { .. }
            | Self::Missing { .. }
            | Self::LostBlob { .. }
            | Self::Unlinked { .. }
            | Self::NoHash { .. }
            | Self::OtherSession { .. }
            | Self::Unreadable { .. } => true,
        }
    }

    /// Whether it is a line that was skipped.
    pub(crate) fn is_a_line(&self) -> bool {
        match self {
            Self::BadLine(_) | Self::Stale { .. } | Self::OutOfOrder { .. } => true,
            Self::Torn { .. }
            | Self::Missing { .. }
            | Self::LostBlob { .. }
            | Self::Unlinked { .. }
            | Self::NoHash { .. }
            | Self::OtherSession { .. }
            | Self::Unreadable { .. } => false,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match &self.kind {
            DamageKind::Torn { bytes, kept_aside: Some(path), .. } => {
                write!(f, "line {line}: the last {bytes} bytes are no whole record; cut and kept in {}", path.display())
            }
            DamageKind::Torn { bytes, kept_aside: None, .. } => {
                write!(f, "line {line}: the last {bytes} bytes are no whole record; ignored")
            }
            DamageKind::BadLine(bad) => write!(f, "line {line} was skipped: {bad}"),
            DamageKind::Stale { seq, epoch } => {
                write!(
                    f,
                    "line {line} was skipped: entry {} of epoch {epoch} came from an owner that had lost it",
                    seq.0
                )
            }
            DamageKind::OutOfOrder { seq, after } => {
                write!(f, "line {line} was skipped: entry {} stands after entry {}", seq.0, after.0)
            }
            DamageKind::Missing { from, to } => {
                write!(f, "before line {line} the entries {} to {} are missing", from.0, to.0)
            }
            DamageKind::LostBlob { seq, lost } => {
                write!(f, "line {line}: a part of entry {} is lost, a note stands in its place: {lost}", seq.0)
            }
            DamageKind::Unlinked { seq } => write!(
                f,
                "line {line}: entry {} does not follow from those before it: it or one of them was changed, removed, \
                 added or moved",
                seq.0
            ),
            DamageKind::NoHash { seq } => {
                write!(f, "line {line}: entry {} is not part of the chain, though one before it is", seq.0)
            }
            DamageKind::OtherSession { says } => write!(f, "line {line}: this is the journal of session {says}"),
            DamageKind::Unreadable { reason } => write!(f, "from line {line} on the file cannot be read: {reason}"),
        }
    }
}

/// How every record begins.
const RECORD: &[u8] = b"{\"seq\":";

/// Where a line is in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineAt {
    /// Which line it is, from 1.
    pub number: u64,
    /// Where its first byte is in the file.
    pub offset: u64,
}

/// What is kept of a record that counts.
pub(crate) struct Scanned<T> {
    pub value: T,
    pub lost: Vec<LostBlob>,
    pub print: Option<Print>,
}

/// A journal's bytes, understood: its entries, or where they are.
#[derive(Debug)]
pub struct Scan<T = Arc<Entry>> {
    /// The records that count, in order.
    pub entries: Vec<(Seq, T)>,
    /// What the content of the latest of them is known by, as many as a journal remembers.
    pub(crate) prints: VecDeque<(Seq, Print)>,
    /// The highest epoch of any whole line; 0 when there is none.
    pub epoch: u64,
    /// The highest number of any whole line; 0 when there is none.
    pub last_seq: u64,
    /// Where the tail begins: the end of the last line that checks.
    pub good_end: u64,
    /// Where the file ends.
    pub end: u64,
    /// What is wrong, the tail not included.
    pub damage: Vec<Damage>,
    /// The line that the tail begins with, from 1.
    pub tail_line: u64,
    /// What is wrong with the lines of the tail that have an end.
    pub(crate) tail_damage: Vec<Damage>,
    /// The tail is all there is, and no beginning of a record.
    foreign: bool,
    /// The chain through the records that count.
    pub(crate) links: Links,
    /// The first line of the chain, from 1.
    pub(crate) chained_from: Option<u64>,
    /// The format's version, when it is newer than this build.
    pub newer: Option<u32>,
}

impl<T> Default for Scan<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            prints: VecDeque::new(),
            epoch: 0,
            last_seq: 0,
            good_end: 0,
            end: 0,
            damage: Vec::new(),
            tail_line: 1,
            tail_damage: Vec::new(),
            foreign: false,
            links: Links::default(),
            chained_from: None,
            newer: None,
        }
    }
}

impl Scan {
    /// Reads to the end, or to where reading fails. Blobs are lost.
    pub fn read(reader: impl BufRead) -> io::Result<Self> {
        Self::read_with(reader, &NoBlobs)
    }

    /// As [`Scan::read`], with the entries' blobs.
    pub(crate) fn read_with(reader: impl BufRead, blobs: &dyn BlobSource) -> io::Result<Self> {
        Self::checked(reader, blobs, Arc::new)
    }
}

impl Scan<LineAt> {
    /// Finds the records that count, and reads none of them: what is wrong with what they say is not known yet.
    pub(crate) fn index(reader: impl BufRead) -> io::Result<Self> {
        Self::pass(reader, |sealed, at| {
            if at.number == 1
                && let Err(newer @ BadLine::Newer { .. }) = sealed.decode(&NoBlobs)
            {
                return Err(newer);
            }
            Ok(Scanned { value: at, lost: Vec::new(), print: None })
        })
    }
}

impl<T> Scan<T> {
    /// Reads every record, and keeps of each what `keep` makes of its entry.
    pub(crate) fn checked(reader: impl BufRead, blobs: &dyn BlobSource, keep: impl Fn(Entry) -> T) -> io::Result<Self> {
        Self::pass(reader, |sealed, _| {
            let Record { entry, lost, print, .. } = sealed.decode(blobs)?;
            Ok(Scanned { value: keep(entry), lost, print })
        })
    }

    fn pass(
        mut reader: impl BufRead,
        keep: impl Fn(&Sealed<'_>, LineAt) -> Result<Scanned<T>, BadLine>,
    ) -> io::Result<Self> {
        let mut scan = Self::default();
        let mut line = Vec::new();
        let mut number = 0u64;
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                return Ok(scan);
            }
            number += 1;
            let offset = scan.end;
            scan.end += length;
            if line.last() != Some(&b'\n') {
                // Nothing of the file is a journal's.
                scan.foreign = scan.last_seq == 0 && !line.iter().zip(RECORD).all(|(is, should)| is == should);
                return Ok(scan);
            }
            let damage = |kind| Damage { line: number, offset, kind };
            let sealed = match unseal(&line) {
                Ok(sealed) => sealed,
                Err(bad) => {
                    // Skipped if one follows that checks, else the tail.
                    scan.tail_damage.push(damage(DamageKind::BadLine(bad)));
                    continue;
                }
            };
            let decoded = keep(&sealed, LineAt { number, offset });
            if let Err(BadLine::Newer { version }) = decoded {
                scan.newer = Some(version);
                return Ok(scan);
            }
            let (seq, epoch) = (sealed.seq, sealed.epoch);
            let skipped = scan.tail_damage.len() as u64;
            scan.damage.append(&mut scan.tail_damage);
            scan.good_end = scan.end;
            scan.tail_line = number + 1;
            if epoch < scan.epoch {
                scan.damage.push(damage(DamageKind::Stale { seq, epoch }));
                let wrong = scan.set_aside(&sealed);
                scan.damage.extend(wrong.map(damage));
                continue;
            }
            if epoch > scan.epoch {
                while let Some((lost, _)) = scan.entries.pop_if(|(held, _)| *held >= seq) {
                    scan.damage.push(damage(DamageKind::Stale { seq: lost, epoch: scan.epoch }));
                }
                while scan.prints.pop_back_if(|(held, _)| *held >= seq).is_some() {}
                scan.links.rewind(seq.0);
                scan.last_seq = scan.last_seq.min(seq.0.saturating_sub(1));
                scan.epoch = epoch;
            }
            let after = scan.last_seq;
            if seq.0 <= after {
                scan.damage.push(damage(DamageKind::OutOfOrder { seq, after: Seq(after) }));
                continue;
            }
            let expected = after.saturating_add(skipped).saturating_add(1);
            let is_after_a_gap = skipped > 0 || seq.0 > expected;
            if seq.0 > expected {
                let (from, to) = (Seq(after + 1), Seq(seq.0 - 1));
                scan.damage.push(damage(DamageKind::Missing { from, to }));
            }
            scan.last_seq = seq.0;
            // What follows a line that is gone cannot follow from it, which is reported already.
            let wrong = scan.link(&sealed, number).filter(|_| !is_after_a_gap);
            scan.damage.extend(wrong.map(damage));
            match decoded {
                Ok(Scanned { value, lost, print }) => {
                    scan.damage.extend(lost.into_iter().map(|lost| damage(DamageKind::LostBlob { seq, lost })));
                    scan.entries.push((seq, value));
                    scan.prints.extend(print.map(|print| (seq, print)));
                    if scan.prints.len() > REMEMBERED {
                        scan.prints.pop_front();
                    }
                }
                Err(bad) => scan.damage.push(damage(DamageKind::BadLine(bad))),
            }
        }
    }

    /// Takes a record that counts into the chain and says what is wrong with its place in it.
    fn link(&mut self, sealed: &Sealed<'_>, line: u64) -> Option<DamageKind> {
        let (seq, before) = (sealed.seq, self.links.head());
        let follows = sealed.follows(&before);
        let wrong = match sealed.chain {
            None => self.chained_from.map(|_| DamageKind::NoHash { seq }),
            Some(hash) => (hash != follows).then_some(DamageKind::Unlinked { seq }),
        };
        if sealed.chain.is_some() {
            self.chained_from.get_or_insert(line);
        }
        self.links.push(seq.0, sealed.chain.unwrap_or(follows));
        wrong
    }

    /// The same for one that does not count: it follows from some record with the number before its own.
    fn set_aside(&mut self, sealed: &Sealed<'_>) -> Option<DamageKind> {
        let seq = sealed.seq;
        match sealed.chain {
            None => self.chained_from.map(|_| DamageKind::NoHash { seq }),
            Some(hash) => {
                let fits = self.links.before(seq.0).any(|before| sealed.follows(&before) == hash);
                self.links.put_aside(seq.0, hash);
                (!fits).then_some(DamageKind::Unlinked { seq })
            }
        }
    }

    /// What is wrong with a journal in which no record has a hash: it may say anything.
    pub(crate) fn no_chain(&self) -> Option<Damage> {
        let (seq, _) = self.entries.first().filter(|_| self.chained_from.is_none())?;
        Some(Damage { line: 1, offset: 0, kind: DamageKind::NoHash { seq: *seq } })
    }

    /// The hash of the last record that counts, which the next one follows.
    pub fn head(&self) -> ChainHash {
        self.links.head()
    }

    /// Whether the tail is more than one write that broke off, so that something acknowledged may be in it.
    pub(crate) fn loses_its_tail(&self) -> bool {
        self.foreign || !self.tail_damage.is_empty()
    }

    /// The torn tail, if there is one.
    pub fn tail(&self, kept_aside: Option<PathBuf>) -> Option<Damage> {
        (self.end > self.good_end).then(|| Damage {
            line: self.tail_line,
            offset: self.good_end,
            kind: DamageKind::Torn {
                bytes: self.end - self.good_end,
                kept_aside,
                lost: self.tail_damage.len() as u64 + u64::from(self.foreign),
            },
        })
    }
}
