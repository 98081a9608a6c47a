//! Rules that answers have made to last: they hold for every agent of the house at once, and are written down.
//!
//! No actor: an agent hands its rules over in a call, not in a message that could be lost with whoever was to read it.
//! What writes runs on a thread of its own, one at a time, and a house that ends waits for it
//! ([`LastingRules::settled`]).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use playhouse_protocol::lock;
use playhouse_supervision::Threads;
use playhouse_tools::policy::{LiveRules, Rule, Rules};
use tokio::sync::watch;

/// Where lasting rules are kept: a user's configuration.
pub trait RuleBook: Send + Sync {
    /// Adds rules to those that allow. Runs on a blocking thread; what it says is for the log.
    fn remember(&self, rules: &[String]) -> Result<(), String>;
}

/// The rules that last. Clones are the same.
#[derive(Clone)]
pub struct LastingRules(Arc<Shared>);

struct Shared {
    /// The rules, as everyone sees them.
    rules: LiveRules,
    /// Where they are kept, if anywhere.
    book: Option<Arc<dyn RuleBook>>,
    /// What is not yet being written. It grows by what people say yes to, each rule once.
    unwritten: Mutex<Vec<String>>,
    /// Whether someone writes; changed only by who holds `unwritten`.
    is_writing: watch::Sender<bool>,
    threads: Threads,
}

impl LastingRules {
    /// Rules that are published here and kept in the book, if there is one.
    pub fn new(rules: LiveRules, book: Option<Arc<dyn RuleBook>>) -> Self {
        let (is_writing, _) = watch::channel(false);
        let threads = Threads::new("rules", 1);
        Self(Arc::new(Shared { rules, book, unwritten: Mutex::default(), is_writing, threads }))
    }

    /// The rules as they are now, and as they change.
    pub fn live(&self) -> &LiveRules {
        &self.0.rules
    }

    /// Lets rules hold for everyone from now on, and has them written down. Needs a runtime; does not wait.
    pub fn remember(&self, rules: &[String]) {
        let mut unwritten = lock(&self.0.unwritten);
        let mut all = Rules::clone(&self.0.rules.get());
        for text in rules {
            // A rule was made by a question of ours, so it can be read; one that cannot would allow nothing anyway.
            let Ok(rule) = Rule::parse(text) else { continue };
            if !all.allow.contains(&rule) {
                all.allow.push(rule);
            }
            if self.0.book.is_some() && !unwritten.contains(text) {
                unwritten.push(text.clone());
            }
        }
        self.0.rules.publish(all);
        let Some(book) = self.0.book.clone().filter(|_| !unwritten.is_empty()) else { return };
        if !self.0.is_writing.send_replace(true) {
            let shared = self.0.clone();
            if let Err(error) = self.0.threads.start(move || shared.write_down(book.as_ref())) {
                tracing::error!("rules that were to last are not written down yet: {error}");
                self.0.is_writing.send_replace(false);
            }
        }
    }

    /// Resolves when everything so far is written down, or could not be.
    pub async fn settled(&self) {
        // The sender is in `self`, so it is there for as long as this waits.
        let _ = self.0.is_writing.subscribe().wait_for(|is_writing| !is_writing).await;
    }
}

impl Shared {
    /// Writes until nothing is left.
    fn write_down(&self, book: &dyn RuleBook) {
        while let Some(rules) = self.next() {
            let written = catch_unwind(AssertUnwindSafe(|| book.remember(&rules)));
            // What could not be written is not tried again: it would fail the same way. It holds in this house.
            if let Err(error) = written.unwrap_or_else(|_| Err("the code that keeps them crashed".to_owned())) {
                tracing::error!("rules that were to last could not be written down: {error}");
            }
        }
    }

    /// What is to be written next; without any, nobody writes any more.
    fn next(&self) -> Option<Vec<String>> {
        let mut unwritten = lock(&self.unwritten);
        let rules = std::mem::take(&mut *unwritten);
        if rules.is_empty() {
            self.is_writing.send_replace(false);
            return None;
        }
        Some(rules)
    }
}

impl fmt::Debug for LastingRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastingRules").field("rules", &self.0.rules).finish_non_exhaustive()
    }
}
