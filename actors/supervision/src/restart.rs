//! When a dead child comes back: policy, budget and backoff as values. Pure: time and chance are passed in.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Which exits a child comes back from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// From every exit that was not asked for.
    Permanent,
    /// From crashes, kills and unexplained stops; not when it has finished.
    Transient,
    /// From no exit: whoever started it sees to it.
    Temporary,
}

/// How an actor ended, as its supervisor understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It had nothing left to do and said so: see [`finish`](crate::finish).
    Normal,
    /// Its supervisor ended it on request.
    Intended,
    /// It panicked, returned an error, did not start, or was stopped by someone who did not tell its supervisor.
    Failed(String),
    /// It was killed by someone who did not tell its supervisor.
    Killed,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("it finished"),
            Self::Intended => f.write_str("it was asked to end"),
            Self::Failed(reason) => f.write_str(reason),
            Self::Killed => f.write_str("it was killed"),
        }
    }
}

/// The pause before a restart: doubles from `initial` to `max`, each time with a jitter of ±20 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause before the first restart of a row.
    pub initial: Duration,
    /// The longest pause, before jitter.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(10), max: Duration::from_secs(1) }
    }
}

impl Backoff {
    /// The pause before the `nth` restart of a row (the first is 1), with a `roll` between 0 and 1 for the jitter.
    pub(crate) fn pause(&self, nth: u32, roll: f64) -> Duration {
        let doubled = 2u32.checked_pow(nth.saturating_sub(1)).map_or(self.max, |by| self.initial.saturating_mul(by));
        let roll = if roll.is_nan() { 0.5 } else { roll.clamp(0.0, 1.0) };
        let jittered = doubled.min(self.max).as_secs_f64() * (0.8 + 0.4 * roll);
        Duration::try_from_secs_f64(jittered).unwrap_or(self.max)
    }
}

/// How many restarts a child may use within a sliding window, and how they are spaced.
///
/// A budget whose pauses add up to more than its window can never be spent: keep `backoff.max * max` well below
/// `within`, or a crash loop goes on for ever. The default (40 in 60 s, pauses up to 1 s) parks a child that
/// crashes at once after about 34 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartBudget {
    /// Restarts allowed within the window; the exit after that parks the child.
    pub max: u32,
    /// How far back restarts count.
    pub within: Duration,
    /// How long the pauses before restarts are.
    pub backoff: Backoff,
}

impl Default for RestartBudget {
    fn default() -> Self {
        Self { max: 40, within: Duration::from_secs(60), backoff: Backoff::default() }
    }
}

/// What to do about an exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start it again after a pause.
    Restart {
        /// How long to wait before it is started.
        after: Duration,
    },
    /// Its budget is spent: keep it listed, start it again when resumed.
    Park {
        /// Why, and what to do.
        reason: String,
    },
    /// It is gone for good: forget it.
    Leave,
}

/// The restarts of one child that still count: when each was granted, the oldest first. A child that is resumed gets a
/// new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartHistory {
    used: VecDeque<Duration>,
}

impl RestartHistory {
    /// Judges an exit at `now` (time since any fixed moment) and books the restart it grants.
    pub fn on_exit(
        &mut self,
        now: Duration,
        exit: &Exit,
        policy: RestartPolicy,
        budget: &RestartBudget,
        roll: f64,
    ) -> Decision {
        match (policy, exit) {
            (RestartPolicy::Permanent, Exit::Normal | Exit::Failed(_) | Exit::Killed)
            | (RestartPolicy::Transient, Exit::Failed(_) | Exit::Killed) => self.spend(now, exit, budget, roll),
            (RestartPolicy::Permanent, Exit::Intended)
            | (RestartPolicy::Transient, Exit::Normal | Exit::Intended)
            | (RestartPolicy::Temporary, Exit::Normal | Exit::Intended | Exit::Failed(_) | Exit::Killed) => {
                Decision::Leave
            }
        }
    }

    fn spend(&mut self, now: Duration, exit: &Exit, budget: &RestartBudget, roll: f64) -> Decision {
        while self.used.front().is_some_and(|at| now.saturating_sub(*at) >= budget.within) {
            self.used.pop_front();
        }
        let used = u32::try_from(self.used.len()).unwrap_or(u32::MAX);
        if used >= budget.max {
            let (max, within) = (budget.max, budget.within);
            return Decision::Park {
                reason: format!(
                    "{max} restarts within {within:?} are spent; last exit: {exit}; resume it to try again"
                ),
            };
        }
        self.used.push_back(now);
        Decision::Restart { after: budget.backoff.pause(used.saturating_add(1), roll) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: [RestartPolicy; 3] = [RestartPolicy::Permanent, RestartPolicy::Transient, RestartPolicy::Temporary];

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn every_cell_of_the_table() {
        let restart = Decision::Restart { after: ms(10) };
        let failed = Exit::Failed("boom".into());
        let table = [
            (RestartPolicy::Permanent, Exit::Normal, restart.clone()),
            (RestartPolicy::Permanent, Exit::Intended, Decision::Leave),
            (RestartPolicy::Permanent, failed.clone(), restart.clone()),
            (RestartPolicy::Permanent, Exit::Killed, restart.clone()),
            (RestartPolicy::Transient, Exit::Normal, Decision::Leave),
            (RestartPolicy::Transient, Exit::Intended, Decision::Leave),
            (RestartPolicy::Transient, failed.clone(), restart.clone()),
            (RestartPolicy::Transient, Exit::Killed, restart.clone()),
            (RestartPolicy::Temporary, Exit::Normal, Decision::Leave),
            (RestartPolicy::Temporary, Exit::Intended, Decision::Leave),
            (RestartPolicy::Temporary, failed, Decision::Leave),
            (RestartPolicy::Temporary, Exit::Killed, Decision::Leave),
        ];
        for (policy, exit, expected) in table {
            let mut history = RestartHistory::default();
            let seen = history.on_exit(ms(0), &exit, policy, &RestartBudget::default(), 0.5);
            assert_eq!(seen, expected, "{policy:?} × {exit:?}");
            assert_eq!(history.used.len() == 1, seen != Decision::Leave, "only a granted restart is booked");
        }
    }

    #[test]
    fn a_spent_budget_parks_and_says_why_and_what_to_do() {
        let budget = RestartBudget { max: 2, within: ms(1_000), backoff: Backoff::default() };
        for policy in POLICIES {
            let mut history = RestartHistory::default();
            let exit = Exit::Failed("boom".into());
            let seen: Vec<_> = (0..3).map(|i| history.on_exit(ms(i), &exit, policy, &budget, 0.5)).collect();
            let parked = Decision::Park {
                reason: "2 restarts within 1s are spent; last exit: boom; resume it to try again".into(),
            };
            match policy {
                RestartPolicy::Permanent | RestartPolicy::Transient => {
                    assert_eq!(seen, [Decision::Restart { after: ms(10) }, Decision::Restart { after: ms(20) }, parked])
                }
                RestartPolicy::Temporary => assert_eq!(seen, [Decision::Leave, Decision::Leave, Decision::Leave]),
            }
        }
    }

    #[test]
    fn the_window_slides_and_calm_resets_the_backoff() {
        let budget = RestartBudget { max: 2, within: ms(1_000), backoff: Backoff::default() };
        let mut history = RestartHistory::default();
        let mut exit_at = |at| history.on_exit(ms(at), &Exit::Killed, RestartPolicy::Permanent, &budget, 0.5);
        assert_eq!(exit_at(0), Decision::Restart { after: ms(10) });
        assert_eq!(exit_at(999), Decision::Restart { after: ms(20) });
        assert_eq!(exit_at(1_000), Decision::Restart { after: ms(20) }, "the first has left the window");
        assert!(matches!(exit_at(1_998), Decision::Park { .. }));
        assert_eq!(exit_at(5_000), Decision::Restart { after: ms(10) });
    }

    #[test]
    fn no_budget_parks_at_once_and_a_new_history_has_a_fresh_one() {
        let none = RestartBudget { max: 0, ..RestartBudget::default() };
        let one = RestartBudget { max: 1, ..RestartBudget::default() };
        let mut history = RestartHistory::default();
        let mut judge = |budget, renewed: Option<()>| {
            if renewed.is_some() {
                history = RestartHistory::default();
            }
            matches!(
                history.on_exit(ms(0), &Exit::Killed, RestartPolicy::Transient, budget, 0.0),
                Decision::Park { .. }
            )
        };
        assert_eq!([judge(&none, None), judge(&one, None), judge(&one, None)], [true, false, true]);
        assert!(!judge(&one, Some(())));
    }

    #[test]
    fn pauses_double_to_the_maximum_with_a_fifth_of_jitter() {
        let backoff = Backoff { initial: ms(10), max: ms(2_000) };
        let pauses: Vec<_> = (1..=10).map(|nth| backoff.pause(nth, 0.5).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_000, 2_000]);
        assert_eq!((backoff.pause(1, 0.0), backoff.pause(1, 1.0)), (ms(8), ms(12)));
        assert_eq!((backoff.pause(u32::MAX, 0.0), backoff.pause(u32::MAX, 9.0)), (ms(1_600), ms(2_400)));
        assert_eq!(backoff.pause(1, f64::NAN), ms(10));
        let endless = Backoff { initial: Duration::MAX, max: Duration::MAX };
        assert_eq!(endless.pause(1, 1.0), Duration::MAX);
    }

    /// A longer backoff would spread a crash loop so thin that the budget is never spent.
    #[test]
    fn the_default_budget_parks_a_crash_loop_whatever_the_jitter() {
        for roll in [0.0, 0.5, 1.0] {
            let (mut history, mut now) = (RestartHistory::default(), Duration::ZERO);
            let crash = Exit::Failed("boom".into());
            let mut restarts = 0;
            while let Decision::Restart { after } =
                history.on_exit(now, &crash, RestartPolicy::Permanent, &RestartBudget::default(), roll)
            {
                now += after;
                restarts += 1;
                assert!(restarts <= 40, "still not parked after {now:?}");
            }
            assert_eq!(restarts, 40);
            assert!(now < Duration::from_secs(45), "{now:?}");
        }
    }
}
