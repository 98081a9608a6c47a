//! Whether a journal is what was written: every record whole, in its place in the chain, its blobs there.
//!
//! Found by this: a record that was changed, removed, added or moved, even with its checksum made to fit. Not found in
//! the file alone: records cut off its end, and a chain computed anew from some record on. Either gives another head, so
//! whoever noted one earlier asks for it ([`Verification::find`]).

use std::io::{self, BufRead};

use playhouse_protocol::{EntryBody, Seq, SessionId};

use crate::format::blob::BlobSource;
use crate::format::hash_chain::{ChainHash, Links};
use crate::format::record::BadLine;
use crate::format::scan::{Damage, DamageKind, Scan};
use crate::store::Records;
use crate::store::error::StoreError;

/// What came out of checking a journal.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The first line that is part of the chain, from 1; `None` in a journal of an older build. That line's hash also
    /// covers those before it.
    pub chained_from: Option<u64>,
    /// The first thing that is not as it was written.
    pub broken: Option<Damage>,
    /// What is unusual and no sign of a change: an end that was never acknowledged, lines of an owner that had lost the
    /// journal, entries of kinds that this build does not know.
    pub notes: Vec<Damage>,
    links: Links,
}

impl Verification {
    /// How many records count.
    pub fn records(&self) -> usize {
        self.links.len()
    }

    /// The hash of the last record, and so of all.
    pub fn head(&self) -> Option<ChainHash> {
        self.chained_from.map(|_| self.links.head())
    }

    /// The number of the record after which the chain had this head.
    pub fn find(&self, head: &ChainHash) -> Option<Seq> {
        self.links.find(head).map(Seq)
    }

    /// Checks a journal's bytes. Pure but for the reader it is given.
    pub fn read(session: &SessionId, reader: impl BufRead, blobs: &dyn BlobSource) -> io::Result<Self> {
        let scan = Self::scan(reader, blobs)?;
        let torn = scan.tail(None);
        Ok(Self::of(session, scan, torn))
    }

    /// What is known of a journal without hashes.
    pub(crate) fn unchained(mut records: Box<dyn Records>) -> Result<Self, StoreError> {
        let mut links = Links::default();
        for record in records.by_ref() {
            links.push(record?.0.0, ChainHash::START);
        }
        Ok(Self { chained_from: None, broken: None, notes: Vec::new(), links })
    }

    /// Reads a journal and keeps the hashes, and of entries no more than which session they begin.
    pub(crate) fn scan(reader: impl BufRead, blobs: &dyn BlobSource) -> io::Result<Scan<Option<SessionId>>> {
        Scan::checked(reader, blobs, |entry| match entry.body {
            EntryBody::Opened(opened) => Some(opened.session_id.clone()),
            _ => None,
        })
    }

    pub(crate) fn of(session: &SessionId, scan: Scan<Option<SessionId>>, torn: Option<Damage>) -> Self {
        let opened_as = scan.entries.into_iter().next().and_then(|(_, opened_as)| opened_as);
        let other = opened_as.filter(|says| says != session);
        let other = other.map(|says| Damage { line: 1, offset: 0, kind: DamageKind::OtherSession { says } });
        let newer = scan.newer.map(|version| Damage {
            line: 1,
            offset: 0,
            kind: DamageKind::BadLine(BadLine::Newer { version }),
        });
        // A tail whose lines have ends was not torn by a crash in the middle of a write.
        let torn = torn.filter(|_| scan.tail_damage.is_empty());
        let all = newer.into_iter().chain(other).chain(scan.damage).chain(scan.tail_damage).chain(torn);
        let (notes, broken): (Vec<_>, Vec<_>) = all.partition(|damage| is_harmless(&damage.kind));
        Self { chained_from: scan.chained_from, broken: broken.into_iter().next(), notes, links: scan.links }
    }
}

fn is_harmless(kind: &DamageKind) -> bool {
    match kind {
        DamageKind::Torn { .. } | DamageKind::Stale { .. } => true,
        DamageKind::BadLine(bad) => match bad {
            BadLine::UnknownEntry { .. } => true,
            BadLine::NotARecord { .. } | BadLine::Checksum { .. } | BadLine::Newer { .. } => false,
        },
        DamageKind::OutOfOrder { .. }
        | DamageKind::Missing { .. }
        | DamageKind::LostBlob { .. }
        | DamageKind::Unlinked { .. }
        | DamageKind::NoHash { .. }
        | DamageKind::OtherSession { .. }
        | DamageKind::Unreadable { .. } => false,
    }
}
