//! The `Connection` actor: one provider with one key, and the one retry layer.
//!
//! - Supervised by: the house's `providers` supervisor.
//! - Owns: the provider (its client and pool), the calls in flight, those that wait for their turn or for their next
//!   attempt, their timers. It holds one task per attempt and keeps nothing of a call that is over.
//! - Takes: [`ConnectionMsg`]. Reports go to the agent as [`CallReport`]s; the deltas of an attempt always come before
//!   its end.
//! - When it dies: its calls end with it. Agents monitor it and ask again; nothing is reported.
//!
//! | how an attempt ends | what happens |
//! |---|---|
//! | with a response | `Responded` |
//! | with an error that may pass, retries left | `Retrying`, a pause and the agent's `GoOn`, the next attempt |
//! | the key was refused | other credentials are looked for, once; if there are some, `Retrying`, `GoOn` and the next attempt |
//! | with another error, or no retries left | `Failed` |
//! | it panics | [`ProviderError::Lost`], as an error that may pass |
//! | `Cancel`, a new `Start` of the same call, the agent's death | dropped; nothing is reported any more |
//!
//! When an attempt may begin is for `admission` to say.

mod admission;
mod bucket;
mod order;
mod rules;
mod settle;
mod state;
mod status;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use playhouse_protocol::{CallId, CallReport, Message, ProviderError, RetryConfig, StreamConfig};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SupervisionEvent};

use self::order::Order;
pub use self::order::Patience;
pub use self::rules::{BreakerRules, ConnectionRules};
use self::state::ConnectionState;
pub use self::status::ConnectionStatus;
pub use crate::call::Lingering;
use crate::provider::StreamProvider;

/// The actor of a provider connection: one for each service and key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection;

/// What a connection is started with.
#[derive(Clone)]
pub struct ConnectionArgs {
    /// Carries out the attempts.
    pub provider: Arc<dyn StreamProvider>,
    /// Counts the calls in flight and the calls that wait for their next attempt, for the live tree.
    pub load: Arc<AtomicUsize>,
    /// The rules towards the service.
    pub rules: ConnectionRules,
    /// Where it says how it stands, for the live tree.
    pub status: Arc<ConnectionStatus>,
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
        /// The agent's id for the call, by which its reports are told apart.
        call: CallId,
        /// The request; attempts count on from its `attempt`.
        config: StreamConfig,
        /// How often and after which pauses a failed attempt is repeated.
        retry: RetryConfig,
        /// What to do when the service has to be waited for.
        patience: Patience,
        /// The agent it is for: when that dies, the call is cancelled.
        agent: ActorCell,
        /// Where the reports go.
        reply: DerivedActorRef<CallReport>,
    },
    /// End a call and say nothing more about it.
    Cancel {
        /// The id that the call was begun with.
        call: CallId,
    },
    /// The attempt that failed is in the agent's journal: the next one may be made when its pause is over. Without this
    /// word it is not.
    GoOn {
        /// The id that the call was begun with.
        call: CallId,
        /// The number of the attempt that may be made; another is ignored.
        attempt: u32,
    },
    /// A pause is over; the connection's own timer.
    RetryDue {
        /// The id that the call was begun with.
        call: CallId,
        /// The pause it belongs to: a timer of an earlier one is stale.
        generation: u64,
    },
    /// The service has begun to answer an attempt; from the connection's own call.
    Answering {
        /// Which attempt it is: each has a number of its own.
        generation: u64,
    },
    /// It is time to look who may go; the connection's own timer.
    Look,
    /// Other credentials were looked for; from the connection's own task.
    Refreshed {
        /// Whether there are some.
        outcome: Result<bool, ProviderError>,
    },
    /// An attempt is over; from the connection's own call.
    CallEnded {
        /// The id that the call was begun with.
        call: CallId,
        /// The attempt: the end of one that was replaced is stale.
        generation: u64,
        /// The whole response, or why there is none.
        outcome: Box<Result<Message, ProviderError>>,
        /// Whether it still has something to do.
        rest: Lingering,
    },
    /// A call that had ended has done the rest; from the connection's own call.
    Done {
        /// Which attempt it is: each has a number of its own.
        generation: u64,
    },
}

impl ConnectionMsg {
    /// The names of its messages, for fail points.
    pub const NAMES: [&'static str; 9] =
        ["Start", "Cancel", "GoOn", "RetryDue", "Answering", "Look", "Refreshed", "CallEnded", "Done"];

    /// One of [`ConnectionMsg::NAMES`], for fail points.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "Start",
            Self::Cancel { .. } => "Cancel",
            Self::GoOn { .. } => "GoOn",
            Self::RetryDue { .. } => "RetryDue",
            Self::Answering { .. } => "Answering",
            Self::Look => "Look",
            Self::Refreshed { .. } => "Refreshed",
            Self::CallEnded { .. } => "CallEnded",
            Self::Done { .. } => "Done",
        }
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
        Ok(ConnectionState::new(args))
    }

    async fn handle(
        &self,
        myself: ActorRef<ConnectionMsg>,
        message: ConnectionMsg,
        state: &mut ConnectionState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("connection", message.name());
        match message {
            ConnectionMsg::Start { call, config, retry, patience, agent, reply } => {
                state.cancel(&myself, &call);
                if state.admit(&myself, &agent) {
                    let order = Order::new(config, retry, patience, agent, reply);
                    state.enqueue(call, order);
                }
            }
            ConnectionMsg::Cancel { call } => state.cancel(&myself, &call),
            ConnectionMsg::GoOn { call, attempt } => state.go_on(call, attempt),
            ConnectionMsg::RetryDue { call, generation } => state.pause_over(call, generation),
            ConnectionMsg::Answering { generation } => state.admission.answering(generation),
            ConnectionMsg::Look => state.look = None,
            ConnectionMsg::Refreshed { outcome } => state.refreshed(&myself, outcome),
            ConnectionMsg::CallEnded { call, generation, outcome, rest } => {
                if state.is_in_flight(&call, generation) {
                    state.ended(&myself, call, generation, *outcome, rest);
                }
            }
            ConnectionMsg::Done { generation } => state.done(generation),
        }
        state.pump(&myself);
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
                state.pump(&myself);
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}
