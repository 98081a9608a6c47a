//! Reading a journal that somebody else may be writing.

use std::path::PathBuf;
use std::sync::Arc;

use playhouse_protocol::{Seq, SessionId};
use playhouse_supervision::{NoResult, Threads};

use crate::store::error::StoreError;
use crate::store::memory::MemoryStore;
use crate::store::{Promises, Records, Store};

/// Reads journals, wherever they are kept, and changes nothing. What was committed before is there. Clones read the
/// same stores.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Arc<dyn Store>,
    memory: Arc<MemoryStore>,
    threads: Threads,
}

/// How many journals are read at once; more wait for a thread.
const READS_AT_ONCE: usize = 4;

impl Reader {
    /// Reads from these stores: journals that last, and journals of durability `none`.
    pub fn new(store: Arc<dyn Store>, memory: Arc<MemoryStore>) -> Self {
        Self { store, memory, threads: Threads::new("reader", READS_AT_ONCE) }
    }

    /// How safe a session's journal can be: what is in memory stays there.
    pub fn promises(&self, session: &SessionId) -> Promises {
        match self.memory.has(session) {
            true => self.memory.promises(),
            false => self.store.promises(),
        }
    }

    /// The file that a lasting journal is in, if it is in one.
    pub fn path(&self, session: &SessionId) -> Option<PathBuf> {
        self.store.data_dir().map(|folder| folder.journal(session))
    }

    /// Has something done with journals on a thread of the reader's own.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T, NoResult> {
        let reader = self.clone();
        self.threads.run(move || work(&reader)).await
    }

    /// The journal as it is now, one record at a time. Blocks: see [`Reader::run`].
    pub fn read(&self, session: &SessionId) -> Result<Box<dyn Records>, StoreError> {
        match self.memory.has(session) {
            true => self.memory.read(session, Seq::default()),
            false => self.store.read(session, Seq::default()),
        }
    }
}
