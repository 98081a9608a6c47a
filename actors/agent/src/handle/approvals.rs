//! The way to a house's inbox of questions.

use std::sync::Arc;

use playhouse_protocol::{AgentId, PermissionDecision, PermissionId};
use tokio::sync::watch;

use super::{Agent, AgentHandle, HandleError};
use crate::approvals::{APPROVALS, ApprovalsMsg, OpenQuestion};
use crate::machine::InputError;
use crate::services::Services;

/// The way to a house's inbox. Clones are the same inbox.
#[derive(Clone, Debug)]
pub struct ApprovalsHandle {
    services: Arc<Services>,
    changes: watch::Receiver<u64>,
}

impl ApprovalsHandle {
    /// The way to the inbox of a house.
    pub fn new(services: Arc<Services>, changes: watch::Receiver<u64>) -> Self {
        Self { services, changes }
    }

    /// The questions that wait, by agent.
    pub async fn waiting(&self) -> Result<Vec<OpenQuestion>, HandleError> {
        Ok(self.services.approvals.ask(APPROVALS, ApprovalsMsg::List).await?)
    }

    /// Resolves when the list of questions has changed since the last look.
    ///
    /// Never resolves once the house is gone.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Answers a question. Only the first answer counts: a later one is an error, whoever gave the first and however.
    pub async fn answer(
        &self,
        agent_id: &AgentId,
        permission_id: &PermissionId,
        decision: PermissionDecision,
    ) -> Result<(), HandleError> {
        let find =
            |reply| ApprovalsMsg::Find { agent_id: agent_id.clone(), permission_id: permission_id.clone(), reply };
        let waits = self.services.approvals.ask(APPROVALS, find).await?;
        match self.services.agents.get(agent_id).filter(|_| waits) {
            Some(agent) => AgentHandle::new(agent).respond_permission(permission_id.clone(), decision).await,
            None => Err(InputError::UnknownPermission(permission_id.clone()).into()),
        }
    }
}
