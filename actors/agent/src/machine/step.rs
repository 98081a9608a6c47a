//! What comes of looking at something that may go on: a run, a queue, a call.

/// Whether something goes on.
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
    pub fn of_any(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Waiting }
    }
}
