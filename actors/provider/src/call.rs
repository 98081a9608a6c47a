//! The `Call` actor: one attempt at one streaming request.
//!
//! - Supervised by: its [`Connection`](crate::Connection), which spawns it linked.
//! - Owns: the request's future, and with it the HTTP request; the result, once there is one.
//! - Takes: [`CallMsg::Run`], once. It awaits the request in its handler: it has nothing else to do, and a kill drops
//!   the future at its next await.
//! - When it ends: it stops itself and its last state, with the result, is in the event its supervisor gets. So the
//!   result and the death are one event; a message would be overtaken, since supervision events come first. A panic
//!   or a kill leaves no result, which the connection takes for [`ProviderError::Lost`].

use std::sync::Arc;

use playhouse_protocol::{Message, ProviderError, StreamConfig};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::provider::StreamProvider;
use crate::sink::StreamSink;

pub(crate) struct Call;

/// One attempt.
pub(crate) struct Job {
    pub(crate) provider: Arc<dyn StreamProvider>,
    pub(crate) config: StreamConfig,
    pub(crate) sink: StreamSink,
}

pub(crate) enum CallMsg {
    Run(Box<Job>),
}

impl CallMsg {
    pub(crate) const NAMES: [&'static str; 1] = ["Run"];

    fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "Run",
        }
    }
}

/// What the supervisor finds when the call has ended.
#[derive(Default)]
pub(crate) struct CallState {
    pub(crate) result: Option<Result<Message, ProviderError>>,
}

impl Actor for Call {
    type Msg = CallMsg;
    type State = CallState;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<CallMsg>, _: ()) -> Result<CallState, ActorProcessingErr> {
        Ok(CallState::default())
    }

    async fn handle(
        &self,
        myself: ActorRef<CallMsg>,
        message: CallMsg,
        state: &mut CallState,
    ) -> Result<(), ActorProcessingErr> {
        playhouse_supervision::chaos::strike("call", message.name());
        let CallMsg::Run(job) = message;
        state.result = Some(job.provider.stream(&job.config, &job.sink).await);
        myself.stop(None);
        Ok(())
    }
}
