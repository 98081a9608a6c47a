//! The session writer, the journal and the stores that keep it.
//!
//! A session's journal is one append-only file of checked lines ([`record`]); what a reader makes of it, damage
//! included, is [`scan`]. Each line's hash covers all before it ([`chain`]), and [`verify`] checks them. A [`Store`] keeps journals: [`FileStore`] in a data directory that several processes share,
//! [`MemoryStore`] for tests and for durability `none`. The [`Writer`] actor appends for many agents and flushes in
//! groups; `Committed` means that the entry is as safe as its class asks.
//!
//! A string of more than 64 KiB (an image, a long output) is not in its entry's line but a file of its own, named by
//! its hash ([`blob`]) and flushed before the line that names it. A crash in between leaves a file that nothing names:
//! harmless, and gone when the session is removed.
//!
//! Purity: [`blob`], [`chain`], [`record`], [`scan`] and [`summary`] are pure. Everything else is blocking file I/O, done by
//! the Writer on threads of its own. This crate never interprets a conversation, never calls a model or a tool, never
//! deletes a byte of a journal without keeping it aside, and never acknowledges what it has not written.

mod append;
pub mod blob;
mod blob_files;
pub mod chain;
pub mod disk;
mod fail;
mod files;
mod folder;
mod job;
mod journal;
mod listing;
mod load;
mod memory;
mod ownership;
mod reader;
pub mod record;
mod recovery;
mod resting;
pub mod scan;
mod store;
pub mod summary;
pub mod verify;
mod writer;

pub use chain::ChainHash;
pub use files::{FileOptions, FileStore};
pub use memory::MemoryStore;
pub use ownership::Holder;
pub use reader::Reader;
pub use scan::{Damage, DamageKind};
pub use store::{Loaded, Store, StoreError, Sync, Take};
pub use summary::{LastRun, SessionStatus, SessionSummary};
pub use verify::Verification;
pub use writer::{JobNews, LOADS_AT_ONCE, REST, Writer, WriterArgs, WriterMsg, WriterState, shard};

/// The kinds of actors in this crate, each with the names of its messages: what a test can strike.
pub const ACTORS: [(&str, &[&str]); 1] = [("writer", &WriterMsg::NAMES)];
