//! Reading a journal that somebody else may be writing.

use std::path::PathBuf;
use std::sync::Arc;

use playhouse_protocol::SessionId;

use crate::memory::MemoryStore;
use crate::store::{Loaded, Store, StoreError, Take};

/// Reads journals, wherever they are kept, and changes nothing. What was committed before is there. Clones read the
/// same stores.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Arc<dyn Store>,
    memory: Arc<MemoryStore>,
}

impl Reader {
    /// Reads from these stores: journals that last, and journals of durability `none`.
    pub fn new(store: Arc<dyn Store>, memory: Arc<MemoryStore>) -> Self {
        Self { store, memory }
    }

    /// The file that a lasting journal is in, if it is in one.
    pub fn path(&self, session: &SessionId) -> Option<PathBuf> {
        self.store.path(session)
    }

    /// The journal as it is now. Blocks: call it where that is allowed.
    pub fn read(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        match self.memory.has(session) {
            true => self.memory.load(session, Take::Peek),
            false => self.store.load(session, Take::Peek),
        }
    }
}
