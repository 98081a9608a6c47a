//! A run as a stream of its events, with a hand on it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use playhouse_protocol::{AgentEvent, Event, PermissionDecision, PermissionId};

use super::{Agent, AgentHandle, HandleError, answered};
use crate::hub::Subscription;
use crate::machine::RunReport;

/// How a run ended and what it added to the conversation.
pub type AgentOutput = RunReport;

type Ended = Result<Arc<AgentOutput>, HandleError>;

/// A run as it happens, and the means to answer it, to speak into it and to end it. Made by
/// [`AgentHandle::run_stream`].
///
/// It outlives crashes of the agent, which goes on from its journal. Dropping it does not end the run. To be asked for
/// permission the agent needs [`Approvals::Watcher`](crate::Approvals::Watcher).
pub struct RunStream {
    agent: AgentHandle,
    events: Subscription,
    report: BoxFuture<'static, Ended>,
    ended: Option<Ended>,
    /// The run's last event was given.
    done: bool,
}

impl RunStream {
    pub(crate) fn new(agent: AgentHandle, events: Subscription, report: BoxFuture<'static, Ended>) -> Self {
        Self { agent, events, report, ended: None, done: false }
    }

    /// The next event; `None` after the run's last, or when the agent cannot go on: [`RunStream::output`] says which.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Answers a question; returns when the answer is in the journal.
    pub async fn respond_permission(
        &self,
        permission_id: PermissionId,
        decision: PermissionDecision,
    ) -> Result<(), HandleError> {
        self.agent.respond_permission(permission_id, decision).await
    }

    /// Says something into the run; returns when it is in the journal.
    pub async fn inject_message(&self, text: &str) -> Result<(), HandleError> {
        self.agent.steer(text).await
    }

    /// Ends the run; returns when that is in the journal. Its last events still come.
    pub async fn cancel(&self) -> Result<(), HandleError> {
        self.agent.abort().await
    }

    /// Waits for the answer, passing over events that were not read. A run that ended without one is
    /// [`HandleError::Failed`], as with [`Agent::prompt`].
    pub async fn output(self) -> Result<Arc<AgentOutput>, HandleError> {
        self.report().await.and_then(answered)
    }

    /// As [`RunStream::output`], for those who want the report however the run ended.
    pub async fn report(mut self) -> Result<Arc<AgentOutput>, HandleError> {
        match self.ended.take() {
            Some(ended) => ended,
            None => self.report.await,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        if self.done {
            return Poll::Ready(None);
        }
        if self.ended.is_none() {
            if let Poll::Ready(Some(event)) = Pin::new(&mut self.events).poll_next(context) {
                return Poll::Ready(Some(event));
            }
            match self.report.as_mut().poll(context) {
                Poll::Ready(ended) => self.ended = Some(ended),
                Poll::Pending => return Poll::Pending,
            }
        }
        // Everything the run told is there before its report is. What comes after its end belongs to another run.
        let Some(event) = self.events.try_next() else {
            self.done = true;
            return Poll::Ready(None);
        };
        self.done = match (&event.event, &self.ended) {
            (AgentEvent::AgentEnd { .. }, Some(Ok(report))) => event.loop_id.as_ref() == Some(&report.loop_id),
            _ => false,
        };
        Poll::Ready(Some(event))
    }
}

impl Stream for RunStream {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        self.poll(context)
    }
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("agent", self.agent.id()).finish_non_exhaustive()
    }
}
