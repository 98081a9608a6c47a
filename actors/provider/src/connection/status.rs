//! How a connection stands, for the live tree.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use playhouse_protocol::{ProviderError, lock};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::admission::{Admission, BreakerState};
use super::order::millis;

/// How a connection stands; written by the connection, read by whoever looks at the tree.
#[derive(Debug, Default)]
pub struct ConnectionStatus {
    in_flight: AtomicUsize,
    queued: AtomicUsize,
    rest: Mutex<StatusDetails>,
}

#[derive(Debug, Default)]
struct StatusDetails {
    closed: Vec<ClosedGate>,
    breaker: BreakerStatus,
    last_error: Option<String>,
    /// The service's words at its last rate limit.
    last_limit: Option<String>,
}

/// A model that has to be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ClosedGate {
    /// The model's id at the service.
    model: String,
    /// Until when, in unix milliseconds.
    until: u64,
}

/// What the breaker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum BreakerStatus {
    #[default]
    Closed,
    /// The service is left alone.
    Open {
        /// Until when, in unix milliseconds.
        until: u64,
    },
    /// One request has gone ahead.
    HalfOpen,
}

impl ConnectionStatus {
    /// Requests on their way, and requests that wait for their turn.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.in_flight.load(Ordering::Relaxed), self.queued.load(Ordering::Relaxed))
    }

    /// The last error of the service.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.rest().last_error.clone()
    }

    /// What the service said when it last limited requests.
    pub(super) fn last_limit(&self) -> Option<String> {
        self.rest().last_limit.clone()
    }

    /// All of it, as the live tree shows it.
    pub fn to_json(&self) -> Value {
        let (in_flight, queued) = self.load();
        let rest = self.rest();
        json!({
            "in_flight": in_flight,
            "queued": queued,
            "gate_closed": rest.closed,
            "breaker": rest.breaker,
            "last_error": rest.last_error,
        })
    }

    pub(super) fn failed(&self, error: &ProviderError) {
        let mut rest = self.rest();
        rest.last_error = Some(error.to_string());
        if let ProviderError::RateLimited { message, .. } = error {
            rest.last_limit = Some(message.clone());
        }
    }

    pub(super) fn set(&self, admission: &Admission, now: Instant) {
        let (in_flight, queued) = admission.load();
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.queued.store(queued, Ordering::Relaxed);
        let breaker = admission.breaker();
        let mut rest = self.rest();
        if rest.closed.is_empty()
            && rest.breaker == BreakerStatus::Closed
            && breaker == BreakerState::Closed
            && admission.closed().next().is_none()
        {
            return;
        }
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = |until: Instant| millis(wall + until.saturating_duration_since(now));
        let closed = admission.closed().map(|(model, until)| ClosedGate { model: model.to_string(), until: at(until) });
        rest.closed = closed.collect();
        rest.breaker = match breaker {
            BreakerState::Closed => BreakerStatus::Closed,
            BreakerState::Open { until } => BreakerStatus::Open { until: at(until) },
            BreakerState::HalfOpen => BreakerStatus::HalfOpen,
        };
    }

    fn rest(&self) -> MutexGuard<'_, StatusDetails> {
        lock(&self.rest)
    }
}
