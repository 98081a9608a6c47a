//! The time as machines are told it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::machine::Now;

/// A house's clock: wall time for people, monotonic time for deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose monotonic time begins here.
    pub(super) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// The time, by the wall and since the house was opened.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { wall: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX), mono: self.started.elapsed() }
    }
}
