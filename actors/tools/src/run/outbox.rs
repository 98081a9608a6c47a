//! What a running tool shows meanwhile: at most one partial result and one piece of progress on their way, and the
//! newest of what waits behind them.

use std::sync::{Arc, Mutex, MutexGuard};

use playhouse_protocol::{ToolResult, lock};

/// Progress that waits is cut to its last part.
const MAX_PROGRESS: usize = 4 * 1024;

/// The two streams of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Update,
    Progress,
}

/// Between the tool, which puts in, and its executor, which takes out. The lock is held for a move of a few words.
pub(crate) struct Outbox {
    slots: Mutex<Slots>,
    /// Tells the executor that a lane has something; called at most once until the lane is rested.
    wake: Box<dyn Fn(Lane) + Send + Sync>,
}

#[derive(Default)]
struct Slots {
    update: Slot<ToolResult>,
    progress: Slot<String>,
    /// After the end nothing is taken any more.
    closed: bool,
}

#[derive(Default)]
struct Slot<T> {
    waiting: Option<T>,
    /// The executor knows, or a report is on its way.
    busy: bool,
}

impl<T> Slot<T> {
    /// What is next; without it the lane is at rest.
    fn next(&mut self) -> Option<T> {
        self.busy = self.waiting.is_some();
        self.waiting.take()
    }
}

impl Outbox {
    pub(crate) fn new(wake: impl Fn(Lane) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { slots: Mutex::default(), wake: Box::new(wake) })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        lock(&self.slots)
    }

    /// Shows a partial result; one that still waits is forgotten.
    pub(crate) fn update(&self, partial: ToolResult) {
        let mut slots = self.slots();
        if slots.closed {
            return;
        }
        let before = slots.update.waiting.replace(partial);
        let was_busy = std::mem::replace(&mut slots.update.busy, true);
        drop(slots);
        drop(before);
        if !was_busy {
            (self.wake)(Lane::Update);
        }
    }

    /// Shows progress; what still waits goes before it.
    pub(crate) fn progress(&self, text: String) {
        let mut slots = self.slots();
        if slots.closed {
            return;
        }
        let mut all = match slots.progress.waiting.take() {
            Some(mut before) => {
                before.push('\n');
                before.push_str(&text);
                before
            }
            None => text,
        };
        // Cut rarely, so that a line costs no more than its own length.
        if all.len() > 2 * MAX_PROGRESS {
            all = last(all, MAX_PROGRESS);
        }
        slots.progress.waiting = Some(all);
        let was_busy = std::mem::replace(&mut slots.progress.busy, true);
        drop(slots);
        if !was_busy {
            (self.wake)(Lane::Progress);
        }
    }

    pub(crate) fn next_update(&self) -> Option<ToolResult> {
        self.slots().update.next()
    }

    pub(crate) fn next_progress(&self) -> Option<String> {
        self.slots().progress.next().map(|text| last(text, MAX_PROGRESS))
    }

    /// Takes what waits and nothing after it.
    pub(crate) fn close(&self) -> (Option<ToolResult>, Option<String>) {
        let mut slots = self.slots();
        slots.closed = true;
        (slots.update.next(), slots.progress.next().map(|text| last(text, MAX_PROGRESS)))
    }
}

/// The last `max` bytes of `text`, cut between characters.
fn last(text: String, max: usize) -> String {
    let from = (text.len().saturating_sub(max)..=text.len()).find(|at| text.is_char_boundary(*at));
    match from {
        Some(from) if from > 0 => text.get(from..).unwrap_or_default().to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_wake_until_the_lane_is_at_rest_and_the_newest_wins() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = wakes.clone();
        let outbox = Outbox::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        (0..1_000).for_each(|i| outbox.update(ToolResult::text(i.to_string())));
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert_eq!(outbox.next_update(), Some(ToolResult::text("999")));
        outbox.update(ToolResult::text("more"));
        assert_eq!(wakes.load(Ordering::SeqCst), 1, "a report is still on its way");
        assert_eq!(outbox.next_update(), Some(ToolResult::text("more")));
        assert_eq!(outbox.next_update(), None);
        outbox.update(ToolResult::text("again"));
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn progress_is_joined_and_capped_between_characters() {
        let outbox = Outbox::new(|_| {});
        outbox.progress("a".into());
        outbox.progress("b".into());
        assert_eq!(outbox.next_progress().as_deref(), Some("a\nb"));
        (0..10_000).for_each(|_| outbox.progress("ä€".into()));
        let text = outbox.next_progress().unwrap();
        assert!(text.len() <= MAX_PROGRESS && text.len() > MAX_PROGRESS - 8 && text.ends_with("ä€"));
    }

    #[test]
    fn after_the_end_nothing_is_taken() {
        let outbox = Outbox::new(|_| {});
        outbox.update(ToolResult::text("u"));
        outbox.progress("p".into());
        assert_eq!(outbox.close(), (Some(ToolResult::text("u")), Some("p".into())));
        outbox.update(ToolResult::text("late"));
        outbox.progress("late".into());
        assert_eq!((outbox.next_update(), outbox.next_progress()), (None, None));
    }
}
