//! What hooks say of a run as a whole: how its session starts, and whether it may stop.

use std::sync::Arc;

use playhouse_protocol::{AgentMessage, EntryBody, Outcome};

use crate::machine::steps::turn::with_warning;
use crate::machine::{HookCall, HookPoint, Machine, MayStop, SessionStart, Step};

/// How often in a row a hook may keep a run from stopping: one that never lets go would never end.
const MOST_REFUSALS: u32 = 8;
/// What the model is told when a hook gives no reason.
const NO_REASON: &str = "You are not done yet: a hook does not let you stop.";

impl Machine {
    /// Tells the hook that a session starts, before its first prompt in this incarnation.
    /// A sub-agent's session is no session of a user.
    pub(in crate::machine) fn start_session(&mut self) -> Step {
        let Some(source) = self.counters.session_start else { return Step::Through };
        if self.durable.spawned_by.is_some() || self.flight.run.opening.is_some() {
            return Step::Through;
        }
        match self.consult(HookPoint::SessionStart, |_| HookCall::SessionStart { source }) {
            None => Step::Waiting,
            Some(SessionStart::Halt { reason }) => {
                self.end_run(Outcome::Halted { reason: format!("session_start: {reason}") });
                Step::Moved
            }
            Some(SessionStart::Say { text }) => {
                self.flight.run.opening = Some(text);
                Step::Through
            }
            Some(SessionStart::Plain) => {
                self.flight.run.opening = Some(String::new());
                Step::Through
            }
        }
    }

    /// The prompt with what the session's start adds to it.
    pub(in crate::machine) fn with_opening(&self, messages: Vec<Arc<AgentMessage>>) -> Vec<Arc<AgentMessage>> {
        match self.flight.run.opening.as_deref() {
            None | Some("") => messages,
            Some(text) => with_warning(&messages, text),
        }
    }

    /// A turn begins: what the session's start added is in the conversation.
    pub(in crate::machine) fn session_begun(&mut self) {
        if self.flight.run.opening.take().is_some() {
            self.counters.session_start = None;
        }
    }

    /// Asks the hook whether the run may stop; through when it may.
    pub(in crate::machine) fn ask_to_stop(&mut self) -> Step {
        let refusals = self.durable.run.as_ref().map(|run| run.refusals).unwrap_or_default();
        if self.flight.run.may_stop || refusals >= MOST_REFUSALS {
            return Step::Through;
        }
        let verdict = self.consult(HookPoint::Stop, |machine| HookCall::Stop {
            history: machine.durable.record.messages().clone(),
            refusals,
        });
        match verdict {
            None => Step::Waiting,
            Some(MayStop::GoOn { reason }) => {
                // A service refuses a message without text.
                let reason = if reason.trim().is_empty() { NO_REASON.to_owned() } else { reason };
                self.push(EntryBody::StopRefused { reason });
                Step::Moved
            }
            Some(MayStop::Halt { reason }) => {
                self.end_run(Outcome::Halted { reason });
                Step::Moved
            }
            Some(MayStop::Yes) => {
                self.flight.run.may_stop = true;
                Step::Through
            }
        }
    }
}
