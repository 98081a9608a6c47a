//! A run's running time, and the deadline that it sets. Time in which nothing goes on until a person answers, the
//! agent or a sub-agent of its, does not count, nor does time between a crash and the next incarnation.

use std::time::Duration;

use playhouse_protocol::{EntryBody, LimitHit};

use crate::machine::state::flight::{Clock, ToolFlight, ToolPhase};
use crate::machine::{Doing, Effect, Machine, Timer};

impl Machine {
    /// The run's running time as of now.
    pub(super) fn elapsed(&self) -> Duration {
        let journaled = self.durable.run.as_ref().map(|run| run.tracker.elapsed).unwrap_or_default();
        journaled.saturating_add(self.flight.run.clock.read(self.now.mono))
    }

    /// The running time so far is journaled: what comes now counts from zero.
    pub(super) fn time_journaled(&mut self) {
        let since = self.flight.run.clock.since.map(|_| self.now.mono);
        self.flight.run.clock = Clock { spent: Duration::ZERO, since };
    }

    /// Lets the clock go or stand still, and the deadline with it.
    pub(in crate::machine) fn keep_time(&mut self) {
        let goes = self.durable.run.is_some() && self.flight.parked.is_none() && self.doing() == Doing::AtWork;
        let (now, clock) = (self.now.mono, self.flight.run.clock);
        match (clock.since, goes) {
            (None, true) => {
                self.flight.run.clock.since = Some(now);
                self.arm_deadline();
            }
            (Some(_), false) => {
                self.flight.run.clock = Clock { spent: clock.read(now), since: None };
                self.out.push(Effect::Disarm(Timer::Deadline));
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// The run is over, and so is its deadline.
    pub(super) fn stop_clock(&mut self) {
        if self.flight.run.clock.since.is_some() {
            self.out.push(Effect::Disarm(Timer::Deadline));
        }
    }

    fn arm_deadline(&mut self) {
        if let Some(max) = self.durable.settings.limits.max_duration {
            let after = max.saturating_sub(self.elapsed());
            self.out.push(Effect::Arm { timer: Timer::Deadline, after });
        }
    }

    /// Whether something goes on or is about to.
    pub fn doing(&self) -> Doing {
        let tools = &self.flight.run.tools;
        let child_waits = |tool: &ToolFlight| tool.child == Doing::WaitingForAPerson;
        let waits = |tool: &ToolFlight| match &tool.phase {
            ToolPhase::Asking | ToolPhase::Queued { .. } | ToolPhase::Waiting { .. } => true,
            ToolPhase::Running => child_waits(tool),
            ToolPhase::Judging { .. }
            | ToolPhase::Checking { .. }
            | ToolPhase::Hooking { .. }
            | ToolPhase::Starting
            | ToolPhase::Stopping
            | ToolPhase::Closing => false,
        };
        let others = self.durable.waits_for_others(|call| tools.get(call).is_some_and(|tool| child_waits(tool)));
        match others && tools.values().all(|tool| waits(tool)) {
            true => Doing::WaitingForAPerson,
            false => Doing::AtWork,
        }
    }

    /// The deadline's timer has run out. It ends what is under way as an abort does.
    pub(in crate::machine) fn deadline(&mut self) {
        let Some(run) = &self.durable.run else { return };
        if run.is_stopping() || self.flight.run.clock.since.is_none() {
            return;
        }
        let Some(max) = self.durable.settings.limits.max_duration else { return };
        if self.elapsed() < max {
            return self.arm_deadline();
        }
        self.push(EntryBody::LimitReached { limit: LimitHit::Duration(max) });
        self.cancel_hooks();
    }
}
