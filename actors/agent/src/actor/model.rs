//! The way to the model: calls go to its connection, which is looked up, monitored and found again.

use std::sync::Arc;

use playhouse_protocol::{CallId, CallReport, ModelConfig, ProviderError, StreamConfig};
use playhouse_provider::{ConnectionMsg, Patience};
use playhouse_supervision::{NodeState, Task};
use ractor::ActorRef;

use super::state::{Lifecycle, State};
use crate::machine::Report;
use crate::mailbox::{AgentMsg, NoConnection};
use crate::redaction::clean_failure;
use crate::services::connection_id;

impl State {
    pub(super) fn call(&mut self, call: CallId, config: Box<StreamConfig>) {
        let Some(connection) = self.connection_to(&config.model_config) else {
            let model = config.model_config.clone();
            self.work().unsent = Some((call, config));
            self.find_connection(model);
            return;
        };
        let Lifecycle::Live(machine) = &self.lifecycle else { return };
        let retry = machine.durable().settings.retry;
        let patience = if machine.can_fall_back() { Patience::FallsBack } else { Patience::Waits };
        let node = self.identity.services.tree.enter(format!("call/{call}"), "call", Some(&self.identity.address));
        node.set_state(NodeState::Running);
        self.work().call_node = Some((call.clone(), node));
        let (agent, reply) = (self.myself.get_cell(), self.myself.get_derived::<CallReport>());
        // A connection that died meanwhile is noticed by its monitor.
        let _ = connection.cast(ConnectionMsg::Start { call, config: *config, retry, patience, agent, reply });
    }

    /// The connection to a model, if it is at hand.
    pub(super) fn connection_to(&mut self, model: &Arc<ModelConfig>) -> Option<ActorRef<ConnectionMsg>> {
        let fits = |(asked, _): &(Arc<ModelConfig>, _)| Arc::ptr_eq(asked, model) || asked == model;
        if !self.work().connection.as_ref().is_some_and(fits) {
            let own = self.identity.definition.provider_override.is_some();
            let leased = self.identity.leased().filter(|id| own || **id == *connection_id(model));
            let leased = leased.and_then(|id| self.identity.services.connections.directory.get(&id));
            let watched = leased.and_then(|connection| self.watch(connection));
            self.work().connection = watched.map(|watched| (model.clone(), watched));
        }
        self.work().connection.as_ref().map(|(_, connection)| connection.actor().clone())
    }

    pub(super) fn find_connection(&mut self, model: Arc<ModelConfig>) {
        let (identity, myself) = (self.identity.clone(), self.myself.clone());
        let own = self.identity.definition.provider_override.clone();
        self.work().connection_search = Some(Task::spawn(async move {
            let found = async {
                let connections = &identity.services.connections;
                let lease = connections.connect(&model, own).await.map_err(NoConnection::Setup)?;
                let address = lease.id().clone();
                identity.lease(lease);
                Ok(connections.directory.live(&address, None).await?)
            };
            let _ = myself.cast(AgentMsg::ConnectionIs(found.await));
        }));
    }

    pub(super) fn connection_is(&mut self, found: Result<ActorRef<ConnectionMsg>, NoConnection>) {
        self.work().connection_search = None;
        match found {
            Ok(connection) => {
                let Some((call, config)) = self.work().unsent.take() else { return };
                let model = config.model_config.clone();
                match self.watch(connection) {
                    Some(watched) => {
                        self.work().connection = Some((model, watched));
                        self.call(call, config);
                    }
                    None => {
                        self.work().unsent = Some((call, config));
                        self.find_connection(model);
                    }
                }
            }
            Err(missing) => {
                let Some((call, config)) = self.work().unsent.take() else { return };
                match (missing, &self.lifecycle) {
                    // Nothing is wrong with the run: it goes on when the connection does.
                    (NoConnection::Absent(absent), Lifecycle::Live(machine)) if !machine.can_fall_back() => {
                        self.park(format!("the model cannot be asked: its connection: {absent}"));
                    }
                    (missing, _) => {
                        let error = ProviderError::Other { message: missing.to_string() };
                        self.feed(Report::CallFailed { call, attempt: config.attempt, error });
                    }
                }
            }
        }
    }

    pub(super) fn call_report(&mut self, report: CallReport) {
        match report {
            // The credit goes back when the pieces have been taken.
            CallReport::Delta { call, attempt, deltas, credit } => {
                self.feed(Report::Delta { call, attempt, deltas });
                drop(credit);
            }
            CallReport::Retrying { call, attempt, error, delay_ms } => {
                let error = clean_failure(&self.identity.services.connections.secrets(), error);
                self.feed(Report::Retrying { call, attempt, error, delay_ms });
            }
            CallReport::Responded { call, attempt, message } => {
                self.work().call_node = None;
                self.feed(Report::Responded { call, attempt, message });
            }
            CallReport::Failed { call, attempt, error } => {
                self.work().call_node = None;
                let error = clean_failure(&self.identity.services.connections.secrets(), error);
                self.feed(Report::CallFailed { call, attempt, error });
            }
        }
    }
}
