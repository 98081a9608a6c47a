//! The rules that a connection keeps towards its service.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

/// What a connection allows itself; the default is no limit but the breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionRules {
    /// The most requests that are under way at once; `None` is no limit.
    pub concurrency: Option<NonZeroUsize>,
    /// The most requests that begin within a minute; `None` is no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens per minute, counted when the service reports them.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// When a service that fails is left alone.
    pub breaker: BreakerRules,
}

/// When a service that fails is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRules {
    /// Failures in a row.
    pub failures: u32,
    /// The first pause; it doubles with each probe that fails.
    pub pause: Duration,
    /// The longest pause, however many probes fail.
    pub max_pause: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(10), max_pause: Duration::from_secs(120) }
    }
}

impl BreakerRules {
    /// The pause after so many before it.
    pub(crate) fn pause_for(&self, times: u32) -> Duration {
        let factor = 2_u32.checked_pow(times).unwrap_or(u32::MAX);
        self.pause.saturating_mul(factor).min(self.max_pause)
    }
}
