//! The session writer, the journal and the stores that keep it.
//!
//! A session's journal is one append-only file of checked lines ([`record`]); what a reader makes of it, damage
//! included, is [`scan`]. Each line's hash covers all before it ([`ChainHash`]), and [`Store::verify`] checks them. A [`Store`]
//! keeps journals: [`FileStore`] in a data directory that several processes share, [`MemoryStore`] for durability `none`,
//! or one that a program brings; [`Store::promises`] says how safe they are there. The [`Writer`] actor appends for many
//! agents and flushes in groups; `Committed` means that the entry is as safe as its class asks.
//!
//! A string of more than 64 KiB (an image, a long output) is not in its entry's line but a file of its own, named by
//! its hash ([`blob`]) and flushed before the line that names it. A crash in between leaves a file that nothing names:
//! harmless, and gone when the session is removed.
//!
//! Purity: `format` and `views` are pure, but for what reads a store. Everything else is blocking file I/O, done by the
//! Writer on threads of its own. This crate never interprets a conversation, never calls a model or a tool, never
//! deletes a byte of a journal without keeping it aside, and never acknowledges what it has not written.

mod format;
mod store;
mod views;
mod writer;

pub use format::hash_chain::{ChainHash, NoChainHash};
pub use format::scan::{Damage, DamageKind};
pub use format::{blob, record, scan};
pub use store::error::{Failure, Location, StoreError};
pub use store::files::disk;
pub use store::files::folder::DataDir;
pub use store::files::{FileOptions, FileStore, look, open};
pub use store::memory::MemoryStore;
pub use store::{Appended, Group, Holder, Loaded, Promises, Records, SessionHead, Store, Sync, Take, Whereabouts};
pub use views::along::{Along, Branch, fold_chain};
pub use views::reader::Reader;
pub use views::summary::{LastRun, SessionStatus, SessionSummary};
pub use views::verify::Verification;
pub use writer::{
    Committed, JobNews, Note, Observer, Observers, REST, Writer, WriterArgs, WriterMsg, WriterState, shard,
};

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 1] = [("writer", &WriterMsg::NAMES)];
