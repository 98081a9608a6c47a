//! The end of a house: who asks for it, how long they give what is under way, and that it has come.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// In place of a time that no clock has.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

/// The end, which comes once however often it is asked for.
#[derive(Debug)]
pub(super) struct Ending {
    /// When what is under way is ended; `None` before anybody asked.
    by: watch::Sender<Option<Instant>>,
    is_over: watch::Sender<bool>,
}

/// The end has come when this is dropped, however that happens.
#[derive(Debug)]
pub(super) struct Over(watch::Sender<bool>);

impl Default for Ending {
    fn default() -> Self {
        Self { by: watch::Sender::new(None), is_over: watch::Sender::new(false) }
    }
}

impl Ending {
    /// Asks for the end after `drain`, or sooner if somebody asked for that; whether nobody had asked before.
    pub fn ask(&self, drain: Duration) -> bool {
        let now = Instant::now();
        let by = now.checked_add(drain).unwrap_or(now + FAR);
        let mut is_first = false;
        self.by.send_if_modified(|so_far| {
            is_first = so_far.is_none();
            let is_sooner = so_far.is_none_or(|so_far| by < so_far);
            if is_sooner {
                *so_far = Some(by);
            }
            is_sooner
        });
        is_first
    }

    /// What brings the end about holds this.
    pub fn over(&self) -> Over {
        Over(self.is_over.clone())
    }

    /// Resolves when nobody gives what is under way any more time.
    pub async fn time_is_up(&self) {
        let mut by = self.by.subscribe();
        loop {
            let until = *by.borrow_and_update();
            tokio::select! {
                () = sleep_until(until.unwrap_or_else(|| Instant::now() + FAR)) => return,
                // Its sender is held here.
                _ = by.changed() => {}
            }
        }
    }

    /// Resolves when the end has come.
    pub async fn come(&self) {
        // Its sender is held here.
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
