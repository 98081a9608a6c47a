//! What hooks say of a run as a whole: how its session starts, and whether it may stop.

use std::sync::Arc;

use playhouse_protocol::{AgentMessage, EntryBody, Outcome};

use super::Machine;
use super::flight::Session;
use super::input::{HookCall, HookPoint, SessionSource, Verdict};
use super::turn::with_warning;

/// How often in a row a hook may keep a run from stopping: one that never lets go would never end.
const MOST_REFUSALS: u32 = 8;
/// What the model is told when a hook gives no reason.
const NO_REASON: &str = "You are not done yet: a hook does not let you stop.";

impl Machine {
    /// Tells the hook that a session starts, before its first prompt in this incarnation; `None` lets the prompt go on.
    /// A sub-agent's session is no session of a user.
    pub(super) fn start_session(&mut self) -> Option<bool> {
        let source = match self.counters.session {
            Session::Startup => SessionSource::Startup,
            Session::Resume => SessionSource::Resume,
            Session::Begun => return None,
        };
        if self.durable.spawned_by.is_some() || self.flight.opening.is_some() {
            return None;
        }
        match self.consult(HookPoint::SessionStart, |_| HookCall::SessionStart { source }) {
            None => Some(false),
            Some(Verdict::Stop { reason } | Verdict::Halt { reason }) => {
                self.end_run(Outcome::Halted { reason: format!("session_start: {reason}") });
                Some(true)
            }
            Some(Verdict::Say { text }) => {
                self.flight.opening = Some(text);
                None
            }
            Some(
                Verdict::Go | Verdict::Filtered(_) | Verdict::Judged(_) | Verdict::Ask { .. } | Verdict::Amend { .. },
            ) => {
                self.flight.opening = Some(String::new());
                None
            }
        }
    }

    /// The prompt with what the session's start adds to it.
    pub(super) fn with_opening(&self, messages: Vec<Arc<AgentMessage>>) -> Vec<Arc<AgentMessage>> {
        match self.flight.opening.as_deref() {
            None | Some("") => messages,
            Some(text) => with_warning(&messages, text),
        }
    }

    /// A turn begins: what the session's start added is in the conversation.
    pub(super) fn session_begun(&mut self) {
        if self.flight.opening.take().is_some() {
            self.counters.session = Session::Begun;
        }
    }

    /// Asks the hook whether the run may stop; `None` when it may. Else as `step`: false while the hook is at work.
    pub(super) fn ask_to_stop(&mut self) -> Option<bool> {
        let refusals = self.durable.run.as_ref().map(|run| run.refusals).unwrap_or_default();
        if self.flight.may_stop || refusals >= MOST_REFUSALS {
            return None;
        }
        let verdict = self
            .consult(HookPoint::Stop, |machine| HookCall::Stop { history: machine.durable.history.clone(), refusals });
        match verdict {
            None => Some(false),
            Some(Verdict::Stop { reason }) => {
                // A service refuses a message without text.
                let reason = if reason.trim().is_empty() { NO_REASON.to_owned() } else { reason };
                self.push(EntryBody::StopRefused { reason });
                Some(true)
            }
            Some(Verdict::Halt { reason }) => {
                self.end_run(Outcome::Halted { reason });
                Some(true)
            }
            Some(
                Verdict::Go
                | Verdict::Filtered(_)
                | Verdict::Judged(_)
                | Verdict::Ask { .. }
                | Verdict::Amend { .. }
                | Verdict::Say { .. },
            ) => {
                self.flight.may_stop = true;
                None
            }
        }
    }
}
