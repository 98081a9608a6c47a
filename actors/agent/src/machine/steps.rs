//! What the machine does with what it is told. Each file adds to [`Machine`](super::Machine) the part that its name says.
//!
//! `accept` takes commands in. `turn` drives a run from turn to turn, `model_call` follows a model call from its request
//! to its response, `pipeline` takes a tool call from stage to stage until it may start, `plan` queues what a planning
//! agent would change, `tool_calls` runs calls and answers them, `tool_updates` shows what they give before they are
//! done, `clock` keeps a run's deadline, `rotate` changes the session. `commit` holds back what must wait until entries
//! are durable.

pub(super) mod accept;
mod clock;
mod commit;
mod model_call;
pub(super) mod pipeline;
pub(super) mod plan;
mod rotate;
mod tool_calls;
mod tool_updates;
pub(super) mod turn;

/// What comes of looking at something that may go on: a run, a queue, a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something was journaled or started: look again.
    Moved,
    /// It waits for an answer.
    Waiting,
    /// It is through: what comes after it may go on.
    Through,
}

impl Step {
    /// Of several that go on side by side, none of which is through.
    fn of_any(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Waiting }
    }
}
