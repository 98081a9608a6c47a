//! The `Connection` actor: one provider with one key, and the one retry layer.
//!
//! - Supervised by: the house's `providers` supervisor.
//! - Owns: the provider (its client and pool), the calls in flight and those that wait for their next attempt, their
//!   timers. It holds one `Call` per attempt and keeps nothing of a call that is over.
//! - Takes: [`ConnectionMsg`]. Reports go to the agent as [`CallReport`]s; the deltas of an attempt always come before
//!   its end.
//! - When it dies: its calls end with it. Agents monitor it and ask again; nothing is reported.
//!
//! | how an attempt ends | what happens |
//! |---|---|
//! | with a response | `Responded` |
//! | with an error that may pass, retries left | `Retrying`, a pause, the next attempt |
//! | with another error, or no retries left | `Failed` |
//! | it panics | [`ProviderError::Lost`], as an error that may pass |
//! | `Cancel`, a new `Start` of the same call, the agent's death | dropped; nothing is reported any more |

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use playhouse_protocol::{CallId, CallReport, Message, ProviderError, RetryConfig, StreamConfig};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorStatus, DerivedActorRef, SupervisionEvent};
use tokio::task::JoinHandle;

use crate::call::{Call, Job, Outcome};
use crate::provider::StreamProvider;
use crate::sink::StreamSink;

/// A provider connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection;

/// What a connection is started with.
#[derive(Clone)]
pub struct ConnectionArgs {
    /// Who answers.
    pub provider: Arc<dyn StreamProvider>,
    /// Counts the calls in flight and the calls that wait for their next attempt, for the live tree.
    pub load: Arc<AtomicUsize>,
}

impl fmt::Debug for ConnectionArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionArgs").field("provider", &self.provider.provider_id()).finish_non_exhaustive()
    }
}

/// What a connection is asked.
#[derive(Debug)]
pub enum ConnectionMsg {
    /// Make a call. One that runs under the same id is replaced without a word.
    Start {
        /// Its id.
        call: CallId,
        /// The request; attempts count on from its `attempt`.
        config: StreamConfig,
        /// How to retry.
        retry: RetryConfig,
        /// The agent it is for: when that dies, the call is cancelled.
        agent: ActorCell,
        /// Where the reports go.
        reply: DerivedActorRef<CallReport>,
    },
    /// End a call and say nothing more about it.
    Cancel {
        /// Its id.
        call: CallId,
    },
    /// A pause is over; the connection's own timer.
    RetryDue {
        /// The call.
        call: CallId,
        /// The pause it belongs to: a timer of an earlier one is stale.
        generation: u64,
    },
    /// An attempt is over; from the connection's own call.
    CallEnded {
        /// The call.
        call: CallId,
        /// The attempt: the end of one that was replaced is stale.
        generation: u64,
        /// How it ended.
        outcome: Box<Result<Message, ProviderError>>,
    },
}

impl ConnectionMsg {
    /// Every name that [`ConnectionMsg::name`] gives.
    pub const NAMES: [&'static str; 4] = ["Start", "Cancel", "RetryDue", "CallEnded"];

    /// The message's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "Start",
            Self::Cancel { .. } => "Cancel",
            Self::RetryDue { .. } => "RetryDue",
            Self::CallEnded { .. } => "CallEnded",
        }
    }
}

/// What a connection keeps.
pub struct ConnectionState {
    provider: Arc<dyn StreamProvider>,
    load: Arc<AtomicUsize>,
    calls: HashMap<CallId, Running>,
    /// How many calls each monitored agent has.
    agents: HashMap<ActorId, usize>,
    /// Counts attempts and pauses.
    generation: u64,
}

struct Running {
    order: Order,
    phase: Phase,
}

/// What was asked, and how often it was retried.
struct Order {
    config: StreamConfig,
    retry: RetryConfig,
    agent: ActorCell,
    reply: DerivedActorRef<CallReport>,
    retries: u32,
}

impl Order {
    /// The number of the attempt that is due or in flight.
    fn attempt(&self) -> u32 {
        self.config.attempt.saturating_add(self.retries)
    }

    /// Tells the agent. One that is dead is no error: its calls are cancelled when its end is seen.
    fn report(&self, report: CallReport) {
        let _ = self.reply.send_message(report);
    }
}

enum Phase {
    InFlight { generation: u64, sink: StreamSink, _call: Call },
    Waiting { generation: u64, _timer: Timer },
}

/// A pause that ends with its call.
struct Timer(JoinHandle<()>);

impl Timer {
    fn new(delay: Duration, to: ActorRef<ConnectionMsg>, message: ConnectionMsg) -> Self {
        Self(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // A connection that is dead has no call that waits.
            let _ = to.send_message(message);
        }))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        // Subtracted, not set to 0: the counter may already count for a successor.
        self.load.fetch_sub(self.calls.len(), Ordering::Relaxed);
    }
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionState").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

impl Actor for Connection {
    type Msg = ConnectionMsg;
    type State = ConnectionState;
    type Arguments = ConnectionArgs;

    async fn pre_start(
        &self,
        _: ActorRef<ConnectionMsg>,
        args: ConnectionArgs,
    ) -> Result<ConnectionState, ActorProcessingErr> {
        Ok(ConnectionState {
            provider: args.provider,
            load: args.load,
            calls: HashMap::new(),
            agents: HashMap::new(),
            generation: 0,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ConnectionMsg>,
        message: ConnectionMsg,
        state: &mut ConnectionState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("connection", message.name());
        match message {
            ConnectionMsg::Start { call, config, retry, agent, reply } => {
                state.cancel(&myself, &call);
                if state.admit(&myself, &agent) {
                    state.attempt(&myself, call, Order { config, retry, agent, reply, retries: 0 });
                }
            }
            ConnectionMsg::Cancel { call } => state.cancel(&myself, &call),
            ConnectionMsg::RetryDue { call, generation } => {
                if let Some(order) = state.take_due(&call, generation) {
                    state.attempt(&myself, call, order);
                }
            }
            ConnectionMsg::CallEnded { call, generation, outcome } => {
                if state.is_in_flight(&call, generation) {
                    state.settle(&myself, call, *outcome);
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ConnectionMsg>,
        event: SupervisionEvent,
        state: &mut ConnectionState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(who, _, _) | SupervisionEvent::ActorFailed(who, _) => {
                state.agent_ended(&myself, who.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl ConnectionState {
    /// Watches the agent for one more call; false when it is dead already, which no event would tell.
    fn admit(&mut self, myself: &ActorRef<ConnectionMsg>, agent: &ActorCell) -> bool {
        myself.monitor(agent.clone());
        *self.agents.entry(agent.get_id()).or_default() += 1;
        let alive = agent.get_status() < ActorStatus::Stopping;
        if !alive {
            self.release(myself, agent);
        }
        alive
    }

    /// One call of the agent is over.
    fn release(&mut self, myself: &ActorRef<ConnectionMsg>, agent: &ActorCell) {
        let Some(calls) = self.agents.get_mut(&agent.get_id()) else { return };
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            self.agents.remove(&agent.get_id());
            myself.unmonitor(agent.clone());
        }
    }

    fn insert(&mut self, call: CallId, running: Running) {
        if self.calls.insert(call, running).is_none() {
            self.load.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&mut self, call: &CallId) -> Option<Running> {
        let running = self.calls.remove(call)?;
        self.load.fetch_sub(1, Ordering::Relaxed);
        Some(running)
    }

    /// Starts the next attempt.
    fn attempt(&mut self, myself: &ActorRef<ConnectionMsg>, call: CallId, order: Order) {
        let attempt = order.attempt();
        self.generation += 1;
        let generation = self.generation;
        let sink = StreamSink::new(call.clone(), attempt, order.reply.clone());
        let mut config = order.config.clone();
        config.attempt = attempt;
        let job = Job { provider: self.provider.clone(), config, sink: sink.clone() };
        let (connection, id) = (myself.clone(), call.clone());
        let started = Call::start(job, move |outcome| {
            // A connection that is dead has no calls.
            let outcome = Box::new(outcome);
            let _ = connection.send_message(ConnectionMsg::CallEnded { call: id, generation, outcome });
        });
        self.insert(call, Running { order, phase: Phase::InFlight { generation, sink, _call: started } });
    }

    fn is_in_flight(&self, call: &CallId, attempt: u64) -> bool {
        match self.calls.get(call).map(|running| &running.phase) {
            Some(Phase::InFlight { generation, .. }) => *generation == attempt,
            Some(Phase::Waiting { .. }) | None => false,
        }
    }

    /// The call whose pause this timer ends, if it still waits in it.
    fn take_due(&mut self, call: &CallId, generation: u64) -> Option<Order> {
        match &self.calls.get(call)?.phase {
            Phase::Waiting { generation: current, .. } if *current == generation => {}
            Phase::Waiting { .. } | Phase::InFlight { .. } => return None,
        }
        self.remove(call).map(|running| running.order)
    }

    /// Ends a call without a word.
    fn cancel(&mut self, myself: &ActorRef<ConnectionMsg>, call: &CallId) {
        let Some(running) = self.remove(call) else { return };
        match &running.phase {
            // Its end is intended, and the message of it will find nothing.
            Phase::InFlight { sink, .. } => sink.abandon(),
            Phase::Waiting { .. } => {}
        }
        self.release(myself, &running.order.agent);
    }

    /// An agent has ended: nobody waits for its calls.
    fn agent_ended(&mut self, myself: &ActorRef<ConnectionMsg>, who: ActorId) {
        if !self.agents.contains_key(&who) {
            return;
        }
        let theirs: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, running)| running.order.agent.get_id() == who)
            .map(|(call, _)| call.clone())
            .collect();
        for call in theirs {
            self.cancel(myself, &call);
        }
    }

    /// An attempt is over: reports it, and arranges the next if there is to be one.
    fn settle(&mut self, myself: &ActorRef<ConnectionMsg>, call: CallId, result: Outcome) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        if let Phase::InFlight { sink, .. } = &running.phase {
            sink.finish();
        }
        let attempt = running.order.attempt();
        let result = match result {
            Ok(message @ Message::Assistant { .. }) => Ok(message),
            Ok(Message::User { .. } | Message::ToolResult { .. }) => {
                Err(ProviderError::Other { message: "the provider gave a message that is not the model's".to_owned() })
            }
            Err(error) => Err(error),
        };
        let report = match result {
            Err(error) if error.is_retryable() && running.order.retries < running.order.retry.max_retries => {
                let delay = pause(&running.order, &error);
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                tracing::debug!(%call, attempt, %error, delay_ms, "retrying");
                running.order.report(CallReport::Retrying { call: call.clone(), attempt, error, delay_ms });
                running.order.retries += 1;
                self.generation += 1;
                let generation = self.generation;
                let timer = Timer::new(delay, myself.clone(), ConnectionMsg::RetryDue { call, generation });
                running.phase = Phase::Waiting { generation, _timer: timer };
                return;
            }
            Err(error) => CallReport::Failed { call: call.clone(), attempt, error },
            Ok(message) => CallReport::Responded { call: call.clone(), attempt, message },
        };
        if let Some(running) = self.remove(&call) {
            running.order.report(report);
            self.release(myself, &running.order.agent);
        }
    }
}

/// How long to wait before the next attempt: the backoff, and at least what the service asked for.
fn pause(order: &Order, error: &ProviderError) -> Duration {
    let backoff = order.retry.delay_for_attempt(order.retries, fastrand::f64());
    error.retry_after().map_or(backoff, |asked| asked.max(backoff))
}
