//! Who may ask a service now; pure: the time is passed in.
//!
//! Everyone who wants to ask arrives, waits in the order of arrival per model, and goes when nothing forbids it:
//!
//! | what | forbids |
//! |---|---|
//! | the limit on requests at once | more than that many |
//! | the buckets of requests and tokens per minute | going while one is empty |
//! | a model's gate | going until the time that a rate limit named has passed; then one probe goes first, and when the service has begun to answer it, the others follow, a few more with each answer |
//! | the breaker | going at all for a while after repeated failures of the service; then one probe goes first |
//!
//! Who waits behind a probe that fails loses patience, and gives up when it has none left.
//!
//! Its queues are bounded by who fills them: an agent has one call at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::bucket::Bucket;
use super::rules::ConnectionRules;

/// A service that says no to so few does not do so because they are many.
const FEW: usize = 8;

/// The number of one who asks; a smaller one came earlier.
pub(crate) type Ticket = u64;

/// Someone may go, or never will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may ask. `watched`: tell when the service begins to answer.
    Go { ticket: Ticket, watched: bool },
    /// It has waited through as many failed probes as it would.
    GaveUp { ticket: Ticket, why: WaitedFor },
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitedFor {
    /// The end of a rate limit.
    Limited,
    /// A service that answers.
    Failing,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// The service answered, if only with a refusal; this many tokens were used.
    Answered { tokens: u64 },
    /// The service asks to be left alone for so long.
    Limited { wait: Duration },
    /// The service failed, or could not be reached: this counts against the breaker.
    Failed,
    /// It was cancelled, or failed on this side.
    Dropped,
}

/// Who may ask one service now.
#[derive(Debug)]
pub(crate) struct Admission {
    rules: ConnectionRules,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    breaker: Breaker,
    models: HashMap<Arc<str>, Queue>,
    flying: HashMap<Ticket, Arc<str>>,
    /// Requests that have been answered and are not over.
    lingering: usize,
    waiting: usize,
}

/// Who waits for one model.
#[derive(Debug, Default)]
struct Queue {
    gate: Gate,
    /// In the order of arrival, with how many more failed probes each will sit through.
    waiting: BTreeMap<Ticket, u32>,
    flying: usize,
    /// How often a request was answered to its end since the service first said no.
    answers: u64,
    /// Where the service said no the last time, halved: up to there the window grows with every answer, from there on
    /// with every round of them.
    threshold: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    /// Nobody goes before this.
    Closed { until: Instant },
    /// One request is under way, to see whether the service takes it; the others wait.
    Probing { probe: Ticket },
    /// The probe was answered: this many may be on their way at once, and so many were answered since it grew.
    Opening { window: usize, answers: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaker {
    /// So many failures in a row, and so many times open before that without an answer since.
    Closed { failures: u32, times: u32 },
    /// The service is left alone; for the how-manieth time in a row.
    Open { until: Instant, times: u32 },
    /// One request is under way, to see whether the service answers again; the others wait.
    HalfOpen { probe: Ticket, times: u32 },
}

const NO_FAILURES: Breaker = Breaker::Closed { failures: 0, times: 0 };

/// Whether the breaker's probe has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Failed,
    None,
}

/// What the breaker does, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    Open { until: Instant },
    HalfOpen,
}

impl Admission {
    pub(crate) fn new(rules: ConnectionRules, now: Instant) -> Self {
        Self {
            requests: rules.requests_per_minute.map(|per_minute| Bucket::new(u64::from(per_minute.get()), now)),
            tokens: rules.tokens_per_minute.map(|per_minute| Bucket::new(per_minute.get(), now)),
            rules,
            breaker: Breaker::Closed { failures: 0, times: 0 },
            models: HashMap::new(),
            flying: HashMap::new(),
            lingering: 0,
            waiting: 0,
        }
    }

    /// Someone wants to ask `model`, and will sit through so many failed probes of others. Tickets grow.
    pub(crate) fn arrive(&mut self, ticket: Ticket, model: &Arc<str>, patience: u32) {
        let queue = self.models.entry(model.clone()).or_default();
        if queue.waiting.insert(ticket, patience).is_none() {
            self.waiting += 1;
        }
    }

    /// Someone who waits does so no more.
    pub(crate) fn leave(&mut self, ticket: Ticket, model: &Arc<str>) {
        if let Some(queue) = self.models.get_mut(model)
            && queue.waiting.remove(&ticket).is_some()
        {
            self.waiting -= 1;
            self.tidy(model);
        }
    }

    /// So many requests have been answered and are not over.
    pub(crate) fn linger(&mut self, many: usize) {
        self.lingering = many;
    }

    /// Who may go now. Ask until it says nobody.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Verdict> {
        let left_alone = matches!(self.breaker, Breaker::Open { until, .. } if now < until);
        let room = self.rules.concurrency.is_none_or(|most| self.flying.len() + self.lingering < most.get());
        let half_open = matches!(self.breaker, Breaker::HalfOpen { .. });
        if left_alone || half_open || !room || !self.is_filled(now) {
            return None;
        }
        let (ticket, model) = self.take_first(|queue| queue.lets_go(now))?;
        if let Some(bucket) = &mut self.requests {
            bucket.take(1, now);
        }
        let queue = self.models.entry(model.clone()).or_default();
        queue.flying += 1;
        let mut watched = queue.gate != Gate::Open;
        if matches!(queue.gate, Gate::Closed { .. }) {
            queue.gate = Gate::Probing { probe: ticket };
        }
        if let Breaker::Open { times, .. } = self.breaker {
            self.breaker = Breaker::HalfOpen { probe: ticket, times };
            watched = true;
        }
        self.flying.insert(ticket, model);
        Some(Verdict::Go { ticket, watched })
    }

    /// The service has begun to answer.
    pub(crate) fn answering(&mut self, ticket: Ticket) {
        if let Breaker::HalfOpen { probe, times } = self.breaker
            && probe == ticket
        {
            // It may still fail: then one failure is enough.
            self.breaker = Breaker::Closed { failures: self.rules.breaker.failures.saturating_sub(1), times };
        }
        let Some(queue) = self.flying.get(&ticket).and_then(|model| self.models.get_mut(model)) else { return };
        match queue.gate {
            Gate::Probing { probe } if probe == ticket => queue.open(),
            Gate::Opening { .. } => queue.widen(),
            Gate::Open | Gate::Closed { .. } | Gate::Probing { .. } => {}
        }
        queue.open_if_nobody_waits();
    }

    /// A request has ended; gives those who will wait no longer.
    pub(crate) fn ended(&mut self, ticket: Ticket, end: RequestEnd, now: Instant) -> Vec<Verdict> {
        let Some(model) = self.flying.remove(&ticket) else { return Vec::new() };
        if let (Some(bucket), RequestEnd::Answered { tokens }) = (&mut self.tokens, end) {
            bucket.take(tokens, now);
        }
        let mut gave_up = match self.count(ticket, end, now) {
            Probe::Failed => {
                self.models.values_mut().flat_map(|queue| queue.lose_patience(WaitedFor::Failing)).collect()
            }
            Probe::None => Vec::new(),
        };
        let Some(queue) = self.models.get_mut(&model) else { return Vec::new() };
        let probed = matches!(queue.gate, Gate::Probing { probe } if probe == ticket);
        if matches!(end, RequestEnd::Answered { .. }) && queue.threshold.is_some() {
            queue.answers += 1;
        }
        match end {
            RequestEnd::Limited { wait } => {
                queue.close(now + wait);
                if probed {
                    gave_up.extend(queue.lose_patience(WaitedFor::Limited));
                }
            }
            RequestEnd::Answered { .. } if probed => queue.open(),
            // Somebody else goes ahead.
            RequestEnd::Failed | RequestEnd::Dropped if probed => queue.gate = Gate::Closed { until: now },
            RequestEnd::Answered { .. } | RequestEnd::Failed | RequestEnd::Dropped => {}
        }
        queue.flying = queue.flying.saturating_sub(1);
        queue.open_if_nobody_waits();
        self.waiting -= gave_up.len();
        self.tidy(&model);
        gave_up
    }

    /// When to look again, if nothing else happens before.
    pub(crate) fn wake_at(&self, now: Instant) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        let gates =
            self.models.values().filter(|queue| !queue.waiting.is_empty()).filter_map(|queue| match queue.gate {
                Gate::Closed { until } => Some(until),
                Gate::Open | Gate::Probing { .. } | Gate::Opening { .. } => None,
            });
        let buckets = [&self.requests, &self.tokens].into_iter().flatten().map(|bucket| bucket.filled_at(now));
        let breaker = match self.breaker {
            Breaker::Open { until, .. } => Some(until),
            Breaker::Closed { .. } | Breaker::HalfOpen { .. } => None,
        };
        gates.chain(buckets).chain(breaker).filter(|at| *at > now).min()
    }

    /// How many ask, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.flying.len(), self.waiting)
    }

    /// The models whose gates are closed, and until when.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&Arc<str>, Instant)> {
        self.models.iter().filter_map(|(model, queue)| match queue.gate {
            Gate::Closed { until } => Some((model, until)),
            Gate::Open | Gate::Probing { .. } | Gate::Opening { .. } => None,
        })
    }

    /// How long the model's gate stays closed.
    pub(crate) fn closed_for(&self, model: &str, now: Instant) -> Duration {
        match self.models.get(model).map(|queue| queue.gate) {
            Some(Gate::Closed { until }) => until.saturating_duration_since(now),
            Some(Gate::Open | Gate::Probing { .. } | Gate::Opening { .. }) | None => Duration::ZERO,
        }
    }

    /// How long the service is left alone; while a probe is on its way that is not known, and no time is given.
    pub(crate) fn left_alone(&self, now: Instant) -> Option<Option<Duration>> {
        match self.breaker {
            Breaker::Open { until, .. } if until > now => Some(Some(until - now)),
            Breaker::HalfOpen { .. } => Some(None),
            Breaker::Open { .. } | Breaker::Closed { .. } => None,
        }
    }

    /// How many requests for the model were answered to their end since the service first said no: as long as that
    /// number grows, the service gets somewhere.
    pub(crate) fn answers(&self, model: &str) -> u64 {
        self.models.get(model).map_or(0, |queue| queue.answers)
    }

    pub(crate) fn breaker(&self) -> BreakerState {
        match self.breaker {
            Breaker::Closed { .. } => BreakerState::Closed,
            Breaker::Open { until, .. } => BreakerState::Open { until },
            Breaker::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn is_filled(&self, now: Instant) -> bool {
        [&self.requests, &self.tokens].into_iter().flatten().all(|bucket| bucket.is_filled(now))
    }

    /// The one who has waited longest among those whose queue `lets` them go.
    fn take_first(&mut self, lets: impl Fn(&Queue) -> bool) -> Option<(Ticket, Arc<str>)> {
        let first = self.models.iter().filter(|(_, queue)| lets(queue));
        let first = first.filter_map(|(model, queue)| Some((*queue.waiting.keys().next()?, model.clone()))).min()?;
        self.models.get_mut(&first.1)?.waiting.remove(&first.0);
        self.waiting -= 1;
        Some(first)
    }

    /// What an end means for the breaker.
    fn count(&mut self, ticket: Ticket, end: RequestEnd, now: Instant) -> Probe {
        let rules = self.rules.breaker;
        let probed = matches!(self.breaker, Breaker::HalfOpen { probe, .. } if probe == ticket);
        self.breaker = match (self.breaker, end) {
            (Breaker::HalfOpen { probe, times }, RequestEnd::Failed) if probe == ticket => {
                Breaker::Open { until: now + rules.pause_for(times), times: times.saturating_add(1) }
            }
            // Somebody else goes ahead.
            (Breaker::HalfOpen { probe, times }, RequestEnd::Dropped) if probe == ticket => {
                Breaker::Open { until: now, times }
            }
            (Breaker::HalfOpen { probe, .. }, RequestEnd::Limited { .. }) if probe == ticket => NO_FAILURES,
            (Breaker::Closed { failures, times }, RequestEnd::Failed) => match failures.saturating_add(1) {
                failures if failures >= rules.failures => {
                    Breaker::Open { until: now + rules.pause_for(times), times: times.saturating_add(1) }
                }
                failures => Breaker::Closed { failures, times },
            },
            (Breaker::Closed { .. }, RequestEnd::Limited { .. }) => NO_FAILURES,
            // Also those that were on their way when it opened: the service is well again.
            (Breaker::Closed { .. } | Breaker::Open { .. } | Breaker::HalfOpen { .. }, RequestEnd::Answered { .. }) => {
                NO_FAILURES
            }
            (state, RequestEnd::Limited { .. } | RequestEnd::Failed | RequestEnd::Dropped) => state,
        };
        if probed && end == RequestEnd::Failed { Probe::Failed } else { Probe::None }
    }

    /// Forgets a model that nobody asks.
    fn tidy(&mut self, model: &Arc<str>) {
        let idle = |queue: &Queue| {
            queue.waiting.is_empty() && queue.flying == 0 && queue.gate == Gate::Open && queue.threshold.is_none()
        };
        if self.models.get(model).is_some_and(idle) {
            self.models.remove(model);
        }
    }
}

impl Queue {
    fn lets_go(&self, now: Instant) -> bool {
        !self.waiting.is_empty()
            && match self.gate {
                Gate::Open => true,
                Gate::Closed { until } => now >= until,
                Gate::Probing { .. } => false,
                Gate::Opening { window, .. } => self.flying < window,
            }
    }

    fn open(&mut self) {
        self.gate = Gate::Opening { window: 2, answers: 0 };
    }

    fn close(&mut self, until: Instant) {
        let until = match self.gate {
            Gate::Closed { until: earlier } => until.max(earlier),
            Gate::Open | Gate::Opening { .. } => {
                self.threshold = Some((self.flying / 2).max(FEW));
                until
            }
            Gate::Probing { .. } => until,
        };
        self.gate = Gate::Closed { until };
    }

    /// One more was answered while the gate opens.
    fn widen(&mut self) {
        let Gate::Opening { window, answers } = self.gate else { return };
        let answers = answers + 1;
        let grows = self.threshold.is_none_or(|threshold| window < threshold) || answers >= window;
        self.gate = match grows {
            true => Gate::Opening { window: window.saturating_add(1), answers: 0 },
            false => Gate::Opening { window, answers },
        };
    }

    /// An opening gate is open when nobody stands before it.
    fn open_if_nobody_waits(&mut self) {
        if matches!(self.gate, Gate::Opening { .. }) && self.waiting.is_empty() {
            self.gate = Gate::Open;
        }
    }

    /// One more probe was turned away; gives those who have had enough.
    fn lose_patience(&mut self, why: WaitedFor) -> Vec<Verdict> {
        let mut gave_up = Vec::new();
        self.waiting.retain(|ticket, patience| {
            let stays = *patience > 0;
            *patience = patience.saturating_sub(1);
            if !stays {
                gave_up.push(Verdict::GaveUp { ticket: *ticket, why });
            }
            stays
        });
        gave_up
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
