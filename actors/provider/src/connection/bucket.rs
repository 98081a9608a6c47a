//! A bucket that fills by the minute; pure.

use std::time::Duration;

use tokio::time::Instant;

/// What may be taken in a minute, at an even pace and with what was saved up: at most a minute's worth. What is taken
/// is taken, known or not beforehand: a bucket can be overdrawn, and nobody goes before it holds something again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_minute: f64,
    level: f64,
    /// When the level was so.
    at: Instant,
}

impl Bucket {
    /// A bucket that holds a minute's worth.
    pub(crate) fn new(per_minute: u64, now: Instant) -> Self {
        let per_minute = per_minute as f64;
        Self { per_minute, level: per_minute, at: now }
    }

    /// Takes so much, there or not.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) {
        self.level = self.level_at(now) - amount as f64;
        self.at = now;
    }

    /// Whether there is something in it.
    pub(crate) fn is_filled(&self, now: Instant) -> bool {
        self.filled_at(now) <= now
    }

    /// When there will be.
    pub(crate) fn filled_at(&self, now: Instant) -> Instant {
        // One unit: nobody can go on less.
        let missing = 1.0 - self.level_at(now);
        // Half a nanosecond short is not short.
        if missing <= 1e-9 {
            return now;
        }
        now + Duration::try_from_secs_f64(missing * 60.0 / self.per_minute).unwrap_or(Duration::from_secs(60))
    }

    fn level_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level + passed * self.per_minute / 60.0).min(self.per_minute)
    }
}
