//! A handle to an agent: an id that is looked up at each send. Dropping a handle, or a future of one, never hurts the
//! agent; an input that a crash left unacknowledged is sent again under the same id.

mod approvals;
mod follow;
mod run_stream;
mod structured;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{
    AgentId, AgentMessage, Command, ContinuationKind, Event, EventId, InputId, Op, PermissionDecision, PermissionId,
    PlanDecision, ResponseFormat, SessionId,
};
use playhouse_supervision::{Absent, Busy};
use ractor::{ActorId, RpcReplyPort};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::hub::{RING, Scope, Subscription};
use crate::identity::{Identity, Loss};
use crate::machine::{InputError, RunReport};
use crate::mailbox::{AgentMsg, AgentState};

pub use approvals::ApprovalsHandle;
pub use follow::{EventsError, Follow, StoredEvents, events_after};
pub use run_stream::{AgentOutput, RunStream};
pub use structured::StructuredError;

/// Why an agent did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HandleError {
    /// It did not take the input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Too much waits for it.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// It is not there.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// Its house is about to end.
    #[error("the house is closing and begins nothing new: open it again, then repeat this")]
    Closing,
    /// What was to be restored is no conversation.
    #[error("this is no saved conversation: {0}")]
    NotMessages(String),
    /// The run ended without an answer: it failed, was aborted, was stopped by a limit, rejected or halted.
    #[error("{}", .0.outcome)]
    Failed(Arc<RunReport>),
}

impl HandleError {
    /// The report of the run that failed, if one was started and came to its end.
    pub fn report(&self) -> Option<&Arc<RunReport>> {
        match self {
            Self::Failed(report) => Some(report),
            Self::Input(_) | Self::Busy(_) | Self::Absent(_) | Self::Closing | Self::NotMessages(_) => None,
        }
    }
}

/// An agent by its id. Clones are the same agent.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    identity: Arc<Identity>,
}

/// What can be asked of an agent, here or elsewhere.
///
/// What waits for a run gives its report if the model answered: it was done ([`Outcome::Stop`]), or ran into its output
/// limit ([`Outcome::Length`]). Every other end is [`HandleError::Failed`], with the report inside.
///
/// [`Outcome::Stop`]: playhouse_protocol::Outcome::Stop
/// [`Outcome::Length`]: playhouse_protocol::Outcome::Length
#[async_trait::async_trait]
pub trait Agent: Send + Sync {
    /// Says something and waits for the answer.
    async fn prompt(&self, text: &str) -> Result<Arc<RunReport>, HandleError>;
    /// Says several things at once and waits for the answer.
    async fn prompt_messages(&self, messages: Vec<AgentMessage>) -> Result<Arc<RunReport>, HandleError>;
    /// As `prompt`, with the run's events sent to `events` as they happen.
    async fn prompt_with_sender(
        &self,
        text: &str,
        events: mpsc::Sender<Arc<Event>>,
    ) -> Result<Arc<RunReport>, HandleError>;
    /// Runs on the conversation as it stands.
    async fn continue_loop(&self, kind: ContinuationKind) -> Result<Arc<RunReport>, HandleError>;
    /// As `continue_loop`, with the run's events sent to `events` as they happen.
    async fn continue_loop_with_sender(
        &self,
        events: mpsc::Sender<Arc<Event>>,
        kind: ContinuationKind,
    ) -> Result<Arc<RunReport>, HandleError>;
    /// Says something into the run; returns when it is in the journal.
    async fn steer(&self, text: &str) -> Result<(), HandleError>;
    /// Says something for when the run would stop; returns when it is in the journal.
    async fn follow_up(&self, text: &str) -> Result<(), HandleError>;
    /// Ends the run; returns when that is in the journal. Without a run it does nothing.
    async fn abort(&self) -> Result<(), HandleError>;
    /// Clears the conversation and its queues.
    async fn reset(&self) -> Result<(), HandleError>;
    /// The conversation as JSON.
    async fn save_messages(&self) -> Result<String, HandleError>;
    /// Replaces the conversation by what `save_messages` gave.
    async fn restore_messages(&self, json: &str) -> Result<(), HandleError>;
    /// Goes on in a new session, with the conversation.
    async fn new_session(&self) -> Result<SessionId, HandleError>;
    /// Goes on in a new session if the last prompt is longer ago than `threshold` and no run is under way.
    async fn check_and_rotate(&self, threshold: Duration) -> Result<Option<SessionId>, HandleError>;
    /// Answers a question for permission.
    async fn respond_permission(
        &self,
        permission_id: PermissionId,
        decision: PermissionDecision,
    ) -> Result<(), HandleError>;
    /// What the agent says of itself.
    async fn state(&self) -> Result<AgentState, HandleError>;
    /// Listens to its events from here on.
    fn subscribe(&self) -> Subscription;
}

impl AgentHandle {
    /// A handle to the agent with this identity.
    pub fn new(identity: Arc<Identity>) -> Self {
        Self { identity }
    }

    /// The agent's id.
    pub fn id(&self) -> &AgentId {
        &self.identity.agent_id
    }

    /// The session it is in.
    pub fn session_id(&self) -> SessionId {
        self.identity.session()
    }

    /// Changes how the agent runs, from its next run on. The model's key is kept out of the journal.
    pub async fn configure(&self, settings: Settings) -> Result<(), HandleError> {
        self.tell(Op::Configure { settings: Box::new(settings) }).await.map(drop)
    }

    /// Listens with room for `capacity` events.
    pub fn subscribe_with(&self, capacity: usize) -> Subscription {
        self.identity.topic.subscribe(capacity, Scope::Own)
    }

    /// Listens to its events and those of its sub-agents, at any depth, from here on.
    pub fn subscribe_tree(&self) -> Subscription {
        self.subscribe_tree_with(self.room())
    }

    /// As [`AgentHandle::subscribe_tree`], with room for `capacity` events.
    pub fn subscribe_tree_with(&self, capacity: usize) -> Subscription {
        self.identity.topic.subscribe(capacity, Scope::Tree)
    }

    /// Follows its events without a gap, from the one after `after`, or from the beginning of its session.
    pub fn follow(&self, after: Option<EventId>) -> Follow {
        let live = self.subscribe();
        Follow::new(self.identity.services.journals.reader.clone(), live, self.session_id(), after)
    }

    /// Says something; the run's events come as a stream, which can also answer, steer and end the run. Returns when
    /// the prompt is in the journal.
    pub async fn run_stream(&self, text: &str) -> Result<RunStream, HandleError> {
        let events = self.subscribe();
        let input_id = self.tell(Op::prompt(vec![self.user(text)])).await?;
        let agent = self.clone();
        let report = async move { agent.report(&input_id).await };
        Ok(RunStream::new(self.clone(), events, Box::pin(report)))
    }

    /// Says something whose answer must have a form, and waits for it. The answer is JSON in the model's
    /// last message; it has not been checked. [`AgentHandle::prompt_as`] checks it.
    pub async fn prompt_for(&self, text: &str, format: Arc<ResponseFormat>) -> Result<Arc<RunReport>, HandleError> {
        self.run(Op::Prompt { messages: vec![self.user(text)], format: Some(format) }).await
    }

    /// As [`Agent::prompt`], for those who want the report however the run ended: one that failed is no error here.
    pub async fn prompt_report(&self, text: &str) -> Result<Arc<RunReport>, HandleError> {
        let input_id = self.tell(Op::prompt(vec![self.user(text)])).await?;
        self.report(&input_id).await
    }

    /// How many events a subscriber may be behind.
    fn room(&self) -> usize {
        self.identity.definition.broadcast.unwrap_or(RING)
    }

    /// Makes the agent's actor fail as a bug would. Its supervisor brings it back. For tests and demonstrations.
    pub async fn crash(&self) -> Result<(), HandleError> {
        Ok(self.identity.services.agents.crash(self.id()).await?)
    }

    /// Tells the agent something under an id of the caller's, or finds that it was told; returns when it is journaled.
    /// This is the one door to an agent: everything else here goes through it.
    ///
    /// An error says what became of it: with [`InputError::OutcomeUnknown`] it may have been taken, and is to be told
    /// again under the same id; with any other it was not.
    ///
    /// ```
    /// # use playhouse_agent::{AgentHandle, HandleError};
    /// use playhouse_protocol::{Command, Op};
    ///
    /// async fn end_run(agent: &AgentHandle) -> Result<(), HandleError> {
    ///     agent.submit(Command::new("stop-1", Op::Abort)).await
    /// }
    /// ```
    ///
    /// What actors report to an agent is no command, and has no name outside of the crate: that a batch is durable can
    /// only be said by the writer that made it so.
    ///
    /// ```compile_fail
    /// # use playhouse_agent::{AgentHandle, HandleError};
    /// use playhouse_agent::machine::Report;
    ///
    /// async fn forge(agent: &AgentHandle) -> Result<(), HandleError> {
    ///     agent.submit(Report::Committed { batch: 0, seqs: Vec::new() }).await
    /// }
    /// ```
    pub async fn submit(&self, command: Command) -> Result<(), HandleError> {
        if self.identity.services.agents.is_closing() && self.identity.is_root() && begins_something(&command.op) {
            return Err(HandleError::Closing);
        }
        // One place for as long as it takes: whoever repeats what a dead incarnation may have journaled is not `Busy`.
        let place = self.identity.admit(&command.op)?;
        let mut sent_to = None;
        loop {
            let found = self.identity.services.agents.mailboxes.live(self.id().as_str(), sent_to).await;
            let actor = found.map_err(|absent| told_before(sent_to, &command.id, self.gone(absent)))?;
            let (again, permit) = (command.clone(), place.clone());
            match ractor::call!(actor, |reply| AgentMsg::Submit { command: again, permit, reply }) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error @ InputError::Parked(_))) => return Err(told_before(sent_to, &command.id, error.into())),
                // The journal was read first: what it refuses, it does not have.
                Ok(Err(error)) => return Err(error.into()),
                // It died before it answered: the next incarnation is asked.
                Err(_) => sent_to = Some(actor.get_id()),
            }
        }
    }

    /// Tells the agent something under an id of its own; gives the id.
    async fn tell(&self, op: Op) -> Result<InputId, HandleError> {
        let id = new_input();
        self.submit(Command { id: id.clone(), op }).await?;
        Ok(id)
    }

    /// Waits until nothing is under way and everything is in the journal.
    pub async fn at_rest(&self) -> Result<(), HandleError> {
        self.ask(|reply| AgentMsg::AwaitRest { reply }).await
    }

    /// Lets an agent go on that is parked because its journal or its model could not be reached; whether it was parked.
    pub async fn go_on(&self) -> Result<bool, HandleError> {
        self.ask(|reply| AgentMsg::Unpark { reply }).await
    }

    /// Asks the agent, and whoever comes after it if it dies before it answers.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(RpcReplyPort<Result<T, InputError>>) -> AgentMsg,
    ) -> Result<T, HandleError> {
        let answer = self.identity.services.agents.mailboxes.ask(self.id().as_str(), question).await;
        Ok(answer.map_err(|absent| self.gone(absent))??)
    }

    /// Why nobody answers: one that left its session to someone else says to whom.
    fn gone(&self, absent: Absent) -> HandleError {
        match self.identity.loss() {
            Some(Loss::TakenOver(reason)) => InputError::TakenOver(reason.to_string()).into(),
            Some(Loss::Damaged) | None => absent.into(),
        }
    }

    /// How the run of an input ended, now or later. That it failed is no error here.
    pub async fn report(&self, input_id: &InputId) -> Result<Arc<RunReport>, HandleError> {
        self.ask(|reply| AgentMsg::Await { input_id: input_id.clone(), reply }).await
    }

    async fn run(&self, op: Op) -> Result<Arc<RunReport>, HandleError> {
        let input_id = self.tell(op).await?;
        self.report(&input_id).await.and_then(answered)
    }

    async fn run_with_sender(&self, op: Op, events: mpsc::Sender<Arc<Event>>) -> Result<Arc<RunReport>, HandleError> {
        let mut subscription = self.subscribe();
        let input_id = self.tell(op).await?;
        let report = self.report(&input_id);
        tokio::pin!(report);
        // A receiver that is gone does not end the run.
        loop {
            tokio::select! {
                biased;
                Some(event) = subscription.next() => drop(events.send(event).await),
                report = &mut report => {
                    // Everything the run told is there before its report is.
                    while let Some(event) = subscription.try_next() {
                        drop(events.send(event).await);
                    }
                    return report.and_then(answered);
                }
            }
        }
    }

    /// Carries out planned changes, in the plan's order, and waits for the run that does; all of them for `None`.
    pub async fn approve_plan(&self, changes: Option<Vec<u32>>) -> Result<Arc<RunReport>, HandleError> {
        self.run(Op::Plan { decision: PlanDecision::Approve { changes } }).await
    }

    /// Drops planned changes and tells the model why; all of them for `None`.
    pub async fn reject_plan(&self, changes: Option<Vec<u32>>, reason: impl Into<String>) -> Result<(), HandleError> {
        let decision = PlanDecision::Reject { changes, reason: reason.into() };
        self.tell(Op::Plan { decision }).await.map(drop)
    }

    fn user(&self, text: &str) -> Arc<AgentMessage> {
        Arc::new(AgentMessage::user(text, self.identity.services.clock.now().wall))
    }
}

#[async_trait::async_trait]
impl Agent for AgentHandle {
    async fn prompt(&self, text: &str) -> Result<Arc<RunReport>, HandleError> {
        self.run(Op::prompt(vec![self.user(text)])).await
    }

    async fn prompt_messages(&self, messages: Vec<AgentMessage>) -> Result<Arc<RunReport>, HandleError> {
        self.run(Op::prompt(messages.into_iter().map(Arc::new).collect())).await
    }

    async fn prompt_with_sender(
        &self,
        text: &str,
        events: mpsc::Sender<Arc<Event>>,
    ) -> Result<Arc<RunReport>, HandleError> {
        self.run_with_sender(Op::prompt(vec![self.user(text)]), events).await
    }

    async fn continue_loop(&self, kind: ContinuationKind) -> Result<Arc<RunReport>, HandleError> {
        self.run(Op::Continue { kind }).await
    }

    async fn continue_loop_with_sender(
        &self,
        events: mpsc::Sender<Arc<Event>>,
        kind: ContinuationKind,
    ) -> Result<Arc<RunReport>, HandleError> {
        self.run_with_sender(Op::Continue { kind }, events).await
    }

    async fn steer(&self, text: &str) -> Result<(), HandleError> {
        self.tell(Op::Steer { message: self.user(text) }).await.map(drop)
    }

    async fn follow_up(&self, text: &str) -> Result<(), HandleError> {
        self.tell(Op::FollowUp { message: self.user(text) }).await.map(drop)
    }

    async fn abort(&self) -> Result<(), HandleError> {
        self.tell(Op::Abort).await.map(drop)
    }

    async fn reset(&self) -> Result<(), HandleError> {
        self.tell(Op::Reset).await.map(drop)
    }

    async fn save_messages(&self) -> Result<String, HandleError> {
        let state = self.state().await?;
        serde_json::to_string(&state.messages).map_err(|error| HandleError::NotMessages(error.to_string()))
    }

    async fn restore_messages(&self, json: &str) -> Result<(), HandleError> {
        let messages: Vec<Arc<AgentMessage>> =
            serde_json::from_str(json).map_err(|error| HandleError::NotMessages(error.to_string()))?;
        self.tell(Op::Restore { messages }).await.map(drop)
    }

    async fn new_session(&self) -> Result<SessionId, HandleError> {
        let to = new_session_id();
        self.tell(Op::Rotate { to: to.clone() }).await?;
        Ok(to)
    }

    async fn check_and_rotate(&self, threshold: Duration) -> Result<Option<SessionId>, HandleError> {
        let state = self.state().await?;
        let Some(last) = state.last_active_at else { return Ok(None) };
        let idle = Duration::from_millis(self.identity.services.clock.now().wall.saturating_sub(last));
        if state.is_streaming || idle <= threshold {
            return Ok(None);
        }
        match self.new_session().await {
            Ok(session) => Ok(Some(session)),
            Err(HandleError::Input(InputError::Running)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn respond_permission(
        &self,
        permission_id: PermissionId,
        decision: PermissionDecision,
    ) -> Result<(), HandleError> {
        self.tell(Op::Answer { permission_id, decision }).await.map(drop)
    }

    async fn state(&self) -> Result<AgentState, HandleError> {
        let place = self.identity.admission.try_admit()?;
        self.ask(|reply| AgentMsg::Look { permit: place.clone(), reply }).await
    }

    fn subscribe(&self) -> Subscription {
        self.subscribe_with(self.room())
    }
}

/// Whether it asks for more than what is under way.
fn begins_something(op: &Op) -> bool {
    !matches!(op, Op::Abort | Op::Answer { .. } | Op::Steer { .. })
}

/// What became of a command that was not answered with a yes. An incarnation that died before it answered may have
/// journaled it.
fn told_before(sent_to: Option<ActorId>, id: &InputId, error: HandleError) -> HandleError {
    match sent_to {
        Some(_) => HandleError::Input(InputError::OutcomeUnknown { input_id: id.clone(), reason: error.to_string() }),
        None => error,
    }
}

/// The report of a run that has an answer; any other is an error.
pub(crate) fn answered(report: Arc<RunReport>) -> Result<Arc<RunReport>, HandleError> {
    if report.outcome.is_success() { Ok(report) } else { Err(HandleError::Failed(report)) }
}

/// An id for an input that nobody else has.
pub fn new_input() -> InputId {
    Uuid::new_v4().simple().to_string().into()
}

/// An id for a session that nobody else has. It begins with the time, so that sessions sort by age.
pub fn new_session_id() -> SessionId {
    let time = Timestamp::now().as_millisecond();
    let random = Uuid::new_v4().simple().to_string();
    let text = format!("{time:012x}-{}", random.get(..20).unwrap_or(&random));
    SessionId::new(text.clone()).unwrap_or_else(|_| new_session_id())
}
