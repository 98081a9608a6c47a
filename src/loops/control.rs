//! A hand on a loop that runs as a function.

use std::sync::{Arc, Mutex};

use playhouse_agent::{Agent, AgentHandle};
use playhouse_protocol::lock;

use super::LoopError;

/// How much can be said before a loop begins.
const MOST_HELD: usize = 64;

/// Says something into a loop while it runs: put a clone of it into
/// [`AgentLoopConfig::control`](super::AgentLoopConfig::control).
///
/// What is said before the loop begins is held for it, up to 64 messages. Once it has ended nobody listens, which is an
/// error; the next loop with the same control can be spoken to again. A control is for one loop at a time.
#[derive(Clone, Debug, Default)]
pub struct LoopControl(Arc<Mutex<LoopPhase>>);

#[derive(Debug)]
enum LoopPhase {
    Before(Vec<HeldInput>),
    Running(AgentHandle),
    Ended,
}

impl Default for LoopPhase {
    fn default() -> Self {
        Self::Before(Vec::new())
    }
}

/// Something for a loop.
#[derive(Debug)]
enum HeldInput {
    Steering(String),
    FollowUp(String),
}

impl LoopControl {
    /// A control that no loop has yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says something into the run, between its tools; returns when it was taken.
    pub async fn steer(&self, text: impl Into<String>) -> Result<(), LoopError> {
        self.say(HeldInput::Steering(text.into())).await
    }

    /// Says something for when the run would stop; returns when it was taken.
    pub async fn follow_up(&self, text: impl Into<String>) -> Result<(), LoopError> {
        self.say(HeldInput::FollowUp(text.into())).await
    }

    async fn say(&self, said: HeldInput) -> Result<(), LoopError> {
        let agent = match &mut *lock(&self.0) {
            LoopPhase::Before(held) if held.len() >= MOST_HELD => return Err(LoopError::TooMuchHeld(MOST_HELD)),
            LoopPhase::Before(held) => {
                held.push(said);
                return Ok(());
            }
            LoopPhase::Running(agent) => agent.clone(),
            LoopPhase::Ended => return Err(LoopError::Ended),
        };
        said.to(&agent).await
    }

    /// Lets a loop be spoken to until the answer is dropped. What was said before it is said to it first.
    pub(super) async fn begin(&self, agent: &AgentHandle) -> Result<Begun, LoopError> {
        let before = {
            let mut phase = lock(&self.0);
            let before = match &mut *phase {
                LoopPhase::Before(held) => std::mem::take(held),
                LoopPhase::Ended => Vec::new(),
                LoopPhase::Running(_) => return Err(LoopError::ControlInUse),
            };
            *phase = LoopPhase::Running(agent.clone());
            before
        };
        let begun = Begun(self.clone());
        for said in before {
            said.to(agent).await?;
        }
        Ok(begun)
    }
}

impl HeldInput {
    async fn to(self, agent: &AgentHandle) -> Result<(), LoopError> {
        match self {
            Self::Steering(text) => agent.steer(&text).await?,
            Self::FollowUp(text) => agent.follow_up(&text).await?,
        }
        Ok(())
    }
}

/// A loop that can be spoken to. Also one that nobody waits for any more ends with this.
#[derive(Debug)]
pub(super) struct Begun(LoopControl);

impl Drop for Begun {
    fn drop(&mut self) {
        *lock(&self.0.0) = LoopPhase::Ended;
    }
}
