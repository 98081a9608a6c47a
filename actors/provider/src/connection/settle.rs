//! The end of an attempt, and what follows from it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use playhouse_protocol::{CallId, CallReport, ProviderError};
use playhouse_supervision::Task;
use ractor::ActorRef;
use tokio::time::{Instant, timeout};

use super::ConnectionMsg;
use super::admission::{RequestEnd, Ticket};
use super::order::{millis, pause, priced, tokens_of};
use super::state::{ConnectionState, Phase, Running, Until, later};
use crate::call::{CallOutcome, Lingering};

/// How long looking for other credentials may take.
const REFRESH: Duration = Duration::from_secs(60);

impl ConnectionState {
    /// An attempt is over.
    pub(super) fn ended(
        &mut self,
        myself: &ActorRef<ConnectionMsg>,
        call: CallId,
        ticket: Ticket,
        outcome: CallOutcome,
        rest: Lingering,
    ) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        // What comes next is settled below.
        let over = match std::mem::replace(&mut running.phase, Phase::Queued { ticket }) {
            Phase::InFlight { sink, call, .. } => {
                sink.finish();
                Some(call)
            }
            Phase::Queued { .. } | Phase::Pausing { .. } | Phase::Refused { .. } => None,
        };
        let order = &mut running.order;
        let outcome = outcome.and_then(|message| priced(message, order));
        let end = match &outcome {
            Ok(message) => RequestEnd::Answered { tokens: tokens_of(message) },
            Err(error) => order.end_of(error),
        };
        let tried_refresh = order.tried_refresh;
        if let Err(error) = &outcome {
            self.status.failed(error);
        }
        self.tickets.remove(&ticket);
        if let (Some(call), Lingering::Yes) = (over, rest) {
            self.linger(ticket, call);
        }
        let gave_up = self.admission.ended(ticket, end, Instant::now());
        match outcome {
            Err(error @ ProviderError::Auth { .. }) if !tried_refresh => self.look_for_credentials(myself, call, error),
            outcome => self.settle(myself, call, outcome),
        }
        for verdict in gave_up {
            self.judge(myself, verdict);
        }
    }

    /// The service refused the credentials: looks for others, once for everyone who used these.
    pub(super) fn look_for_credentials(
        &mut self,
        myself: &ActorRef<ConnectionMsg>,
        call: CallId,
        error: ProviderError,
    ) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        running.order.tried_refresh = true;
        let found_since = self.refreshed > running.order.refreshed;
        running.phase = Phase::Refused { error };
        if found_since {
            self.try_again(call);
        } else if self.refresh.is_none() {
            let (provider, connection) = (self.provider.clone(), myself.clone());
            self.refresh = Some(Task::spawn(async move {
                let search = AssertUnwindSafe(async { provider.refresh().await }).catch_unwind();
                let lost = |message: &str| Err(ProviderError::Auth { message: message.to_owned() });
                let outcome = match timeout(REFRESH, search).await {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(_)) => lost("looking for other credentials crashed"),
                    Err(_) => lost("looking for other credentials took too long"),
                };
                let _ = connection.send_message(ConnectionMsg::Refreshed { outcome });
            }));
        }
    }

    pub(super) fn refreshed(&mut self, myself: &ActorRef<ConnectionMsg>, outcome: Result<bool, ProviderError>) {
        self.refresh = None;
        if outcome == Ok(true) {
            self.refreshed += 1;
        }
        let refused = |running: &Running| matches!(running.phase, Phase::Refused { .. });
        let refused: Vec<CallId> =
            self.calls.iter().filter(|(_, running)| refused(running)).map(|(call, _)| call.clone()).collect();
        for call in refused {
            match &outcome {
                Ok(true) => self.try_again(call),
                Ok(false) => {
                    let Some(Running { phase: Phase::Refused { error }, .. }) = self.calls.get(&call) else { continue };
                    let error = error.clone();
                    self.settle(myself, call, Err(error));
                }
                Err(error) => self.settle(myself, call, Err(error.clone())),
            }
        }
    }

    /// The next attempt of a call that was refused, with other credentials.
    pub(super) fn try_again(&mut self, call: CallId) {
        self.generation += 1;
        let Some(running) = self.calls.get_mut(&call) else { return };
        let next = Phase::Pausing { generation: self.generation, until: Until::Word };
        if let Phase::Refused { error } = std::mem::replace(&mut running.phase, next) {
            let attempt = running.order.attempt();
            running.order.report(CallReport::Retrying { call, attempt, error, delay_ms: 0 });
            running.order.attempts += 1;
        }
    }

    /// Reports how an attempt ended, and arranges the next if there is to be one.
    pub(super) fn settle(&mut self, myself: &ActorRef<ConnectionMsg>, call: CallId, outcome: CallOutcome) {
        let Some(running) = self.calls.get_mut(&call) else { return };
        let order = &mut running.order;
        let attempt = order.attempt();
        let answers = self.admission.answers(order.model());
        let report = match outcome {
            Err(error) if order.may_retry(&error) => {
                let counted = order.counts(&error, answers);
                let delay = order.pause.take().unwrap_or_else(|| pause(order, &error));
                let delay_ms = millis(delay);
                tracing::debug!(%call, attempt, %error, delay_ms, "retrying");
                order.report(CallReport::Retrying { call: call.clone(), attempt, error, delay_ms });
                order.retries += counted;
                order.attempts += 1;
                self.generation += 1;
                let generation = self.generation;
                let timer = later(delay, myself.clone(), ConnectionMsg::RetryDue { call, generation });
                running.phase = Phase::Pausing { generation, until: Until::Both { _timer: timer } };
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
