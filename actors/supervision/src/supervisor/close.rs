//! The last act: ending the children when the mailbox is shut, and telling who listens.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::join_all;

use super::state::{Child, Phase, State};
use super::{Notice, NoticeFn, ShutdownOrder, SupervisorError, answer};
use crate::child::{EndResult, end};

impl State {
    /// Ends the children, the last first, and answers who asked for it.
    pub(super) async fn close(&mut self) {
        let mut ends = Vec::new();
        for (_, id) in self.in_order().into_iter().rev() {
            let Some(child) = self.children.remove(&id) else { continue };
            let Child { spec, phase, node, .. } = *child;
            let notice = self.notice.clone();
            ends.push(async move {
                let how = match &phase {
                    Phase::Alive { cell } | Phase::Ending { cell, .. } => end(cell.clone(), spec.shutdown).await,
                    Phase::Starting { .. } | Phase::Waiting { .. } | Phase::Down | Phase::Parked => EndResult::Gone,
                };
                drop(node);
                tell(notice.as_ref(), Notice::Ended { id: id.clone() });
                let outcome = outcome(&id, how);
                if let Phase::Ending { replies, .. } = phase {
                    for reply in replies {
                        answer(reply, outcome.clone());
                    }
                }
            });
        }
        match self.shutdown_order {
            ShutdownOrder::OneByOne => {
                for end in ends {
                    end.await;
                }
            }
            ShutdownOrder::Together => drop(join_all(ends).await),
        }
        self.alive = HashMap::new();
        for reply in self.closing.drain(..) {
            answer(reply, ());
        }
    }
}

/// A listener that panics must not take the children with it.
pub(super) fn tell(listener: Option<&NoticeFn>, notice: Notice) {
    if let Some(listener) = listener
        && catch_unwind(AssertUnwindSafe(|| listener(notice))).is_err()
    {
        tracing::error!("a listener for notices panicked");
    }
}

pub(super) fn outcome(id: &str, how: EndResult) -> Result<(), SupervisorError> {
    match how {
        EndResult::Gone => Ok(()),
        EndResult::Stuck => {
            let stuck = SupervisorError::Stuck { id: id.to_owned() };
            tracing::warn!("{stuck}");
            Err(stuck)
        }
    }
}
