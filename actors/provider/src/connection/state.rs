//! The calls of a connection: those that wait for their turn, those in flight, those that pause.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use playhouse_protocol::{CallId, ProviderError};
use playhouse_supervision::Task;
use ractor::{ActorCell, ActorId, ActorRef, ActorStatus};
use tokio::time::Instant;

use super::admission::{Admission, RequestEnd, Ticket, Verdict, WaitedFor};
use super::order::{Order, Patience, millis};
use super::status::ConnectionStatus;
use super::{ConnectionArgs, ConnectionMsg};
use crate::call::{self, CallNews, Job};
use crate::provider::StreamProvider;
use crate::sink::StreamSink;

/// What a connection keeps.
pub struct ConnectionState {
    pub(super) provider: Arc<dyn StreamProvider>,
    pub(super) load: Arc<AtomicUsize>,
    pub(super) status: Arc<ConnectionStatus>,
    pub(super) admission: Admission,
    pub(super) calls: HashMap<CallId, Running>,
    /// The calls that wait for their turn or are in flight, by their ticket.
    pub(super) tickets: HashMap<Ticket, CallId>,
    /// How many calls each monitored agent has.
    pub(super) agents: HashMap<ActorId, usize>,
    /// Calls that have ended and still have something to do.
    lingering: HashMap<Ticket, Task>,
    /// How many of the calls can fall back on another model.
    fallible: usize,
    /// Counts tickets and pauses.
    pub(super) generation: u64,
    /// When to look again who may go.
    pub(super) look: Option<(Instant, Task)>,
    /// The search for other credentials that is under way.
    pub(super) refresh: Option<Task>,
    /// How often there were others.
    pub(super) refreshed: u64,
}

pub(super) struct Running {
    pub(super) order: Order,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    /// It waits for its turn.
    Queued {
        ticket: Ticket,
    },
    InFlight {
        ticket: Ticket,
        sink: StreamSink,
        call: Task,
    },
    /// It waits for its next attempt.
    Pausing {
        generation: u64,
        until: Until,
    },
    /// It waits for other credentials, having been refused.
    Refused {
        error: ProviderError,
    },
}

/// What the next attempt waits for. The pause counts from the failure, whenever the agent's word comes.
pub(super) enum Until {
    /// The end of the pause, and the agent's word that the failure is in its journal.
    Both { _timer: Task },
    /// The end of the pause.
    Pause { _timer: Task },
    /// The agent's word; the pause is over.
    Word,
}

/// Sends the connection a message after a pause, unless it is dropped.
pub(super) fn later(delay: Duration, to: ActorRef<ConnectionMsg>, message: ConnectionMsg) -> Task {
    Task::after(delay, move || {
        // A connection that is dead has no call that waits.
        let _ = to.send_message(message);
    })
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

impl ConnectionState {
    pub(super) fn new(args: ConnectionArgs) -> Self {
        Self {
            provider: args.provider,
            load: args.load,
            status: args.status,
            admission: Admission::new(args.rules, Instant::now()),
            calls: HashMap::new(),
            tickets: HashMap::new(),
            agents: HashMap::new(),
            lingering: HashMap::new(),
            fallible: 0,
            generation: 0,
            look: None,
            refresh: None,
            refreshed: 0,
        }
    }

    /// Watches the agent for one more call; false when it is dead already, which no event would tell.
    pub(super) fn admit(&mut self, myself: &ActorRef<ConnectionMsg>, agent: &ActorCell) -> bool {
        myself.monitor(agent.clone());
        *self.agents.entry(agent.get_id()).or_default() += 1;
        let alive = agent.get_status() < ActorStatus::Stopping;
        if !alive {
            self.release(myself, agent);
        }
        alive
    }

    /// One call of the agent is over.
    pub(super) fn release(&mut self, myself: &ActorRef<ConnectionMsg>, agent: &ActorCell) {
        let Some(calls) = self.agents.get_mut(&agent.get_id()) else { return };
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            self.agents.remove(&agent.get_id());
            myself.unmonitor(agent.clone());
        }
    }

    pub(super) fn insert(&mut self, call: CallId, running: Running) {
        let falls_back = usize::from(running.order.patience == Patience::FallsBack);
        if self.calls.insert(call, running).is_none() {
            self.load.fetch_add(1, Ordering::Relaxed);
            self.fallible += falls_back;
        }
    }

    pub(super) fn remove(&mut self, call: &CallId) -> Option<Running> {
        let running = self.calls.remove(call)?;
        self.load.fetch_sub(1, Ordering::Relaxed);
        self.fallible -= usize::from(running.order.patience == Patience::FallsBack);
        Some(running)
    }

    /// Puts a call in line for its next attempt.
    pub(super) fn enqueue(&mut self, call: CallId, order: Order) {
        self.generation += 1;
        let ticket = self.generation;
        self.admission.arrive(ticket, order.model(), order.retries_left());
        self.tickets.insert(ticket, call.clone());
        self.insert(call, Running { order, phase: Phase::Queued { ticket } });
    }

    /// Lets everyone go who may, and arranges to look again.
    pub(super) fn pump(&mut self, myself: &ActorRef<ConnectionMsg>) {
        let now = Instant::now();
        self.hurry(myself, now);
        while let Some(verdict) = self.admission.next(now) {
            self.judge(myself, verdict);
        }
        let wake = self.admission.wake_at(now);
        if self.look.as_ref().map(|(at, _)| *at) != wake {
            self.look = wake.map(|at| (at, later(at - now, myself.clone(), ConnectionMsg::Look)));
        }
        self.status.set(&self.admission, now);
    }

    /// Calls that can fall back on another model do so when this one has to be waited for.
    pub(super) fn hurry(&mut self, myself: &ActorRef<ConnectionMsg>, now: Instant) {
        let alone = self.admission.left_alone(now);
        // Looking through all calls is for when there is something to find.
        if self.fallible == 0 || (alone.is_none() && self.admission.closed().next().is_none()) {
            return;
        }
        let hasty: Vec<(CallId, ProviderError)> = self
            .calls
            .iter()
            .filter(|(_, running)| running.order.patience == Patience::FallsBack)
            .filter(|(_, running)| matches!(running.phase, Phase::Queued { .. }))
            .filter_map(|(call, running)| {
                let closed = self.admission.closed_for(running.order.model(), now);
                let error = if let Some(wait) = alone {
                    self.unavailable(wait)
                } else if closed > Duration::from_millis(running.order.retry.max_delay_ms) {
                    self.limited(Some(millis(closed)))
                } else {
                    return None;
                };
                Some((call.clone(), error))
            })
            .collect();
        for (call, error) in hasty {
            self.unqueue(&call);
            self.settle(myself, call, Err(error));
        }
    }

    /// The error of a call whose service is left alone.
    pub(super) fn unavailable(&self, wait: Option<Duration>) -> ProviderError {
        let message = self.status.last_error().unwrap_or_else(|| "it does not answer".to_owned());
        ProviderError::Unavailable { message, retry_after_ms: wait.map(millis) }
    }

    /// The error of a call that was turned away while the gate of its model is closed, in the words that closed it.
    fn limited(&self, retry_after_ms: Option<u64>) -> ProviderError {
        ProviderError::RateLimited { message: self.status.last_limit().unwrap_or_default(), retry_after_ms }
    }

    pub(super) fn judge(&mut self, myself: &ActorRef<ConnectionMsg>, verdict: Verdict) {
        let (ticket, why) = match verdict {
            Verdict::Go { ticket, watched } => return self.attempt(myself, ticket, watched),
            Verdict::GaveUp { ticket, why } => (ticket, why),
        };
        let Some(call) = self.tickets.remove(&ticket) else { return };
        // It has waited as often as it would have retried.
        if let Some(running) = self.calls.get_mut(&call) {
            running.order.retries = running.order.retry.max_retries;
        }
        let error = match why {
            WaitedFor::Limited => self.limited(None),
            WaitedFor::Failing => self.unavailable(None),
        };
        self.settle(myself, call, Err(error));
    }

    /// Starts an attempt; `watched` to be told when the service begins to answer it.
    pub(super) fn attempt(&mut self, myself: &ActorRef<ConnectionMsg>, ticket: Ticket, watched: bool) {
        let Some(call) = self.tickets.get(&ticket).cloned() else { return };
        let (provider, refreshed) = (self.provider.clone(), self.refreshed);
        let Some(running) = self.calls.get_mut(&call) else { return };
        let order = &mut running.order;
        order.refreshed = refreshed;
        let attempt = order.attempt();
        let mut sink = StreamSink::new(call.clone(), attempt, order.reply.clone());
        if watched {
            let connection = myself.clone();
            sink = sink.on_start(move || {
                let _ = connection.send_message(ConnectionMsg::Answering { generation: ticket });
            });
        }
        let mut config = order.config.clone();
        config.attempt = attempt;
        let job = Job { provider, config, sink: sink.clone() };
        let connection = myself.clone();
        let started = call::start(job, move |said| {
            let message = match said {
                CallNews::Ended(outcome, rest) => {
                    let (call, outcome) = (call.clone(), Box::new(outcome));
                    ConnectionMsg::CallEnded { call, generation: ticket, outcome, rest }
                }
                CallNews::Done => ConnectionMsg::Done { generation: ticket },
            };
            // A connection that is dead has no calls.
            let _ = connection.send_message(message);
        });
        running.phase = Phase::InFlight { ticket, sink, call: started };
    }

    pub(super) fn is_in_flight(&self, call: &CallId, generation: u64) -> bool {
        match self.calls.get(call).map(|running| &running.phase) {
            Some(Phase::InFlight { ticket, .. }) => *ticket == generation,
            Some(Phase::Queued { .. } | Phase::Pausing { .. } | Phase::Refused { .. }) | None => false,
        }
    }

    /// A pause is over, if the call still waits in it.
    pub(super) fn pause_over(&mut self, call: CallId, generation: u64) {
        let Some(Running { phase: Phase::Pausing { generation: current, until }, .. }) = self.calls.get_mut(&call)
        else {
            return;
        };
        if *current != generation {
            return;
        }
        match until {
            Until::Both { .. } | Until::Word => *until = Until::Word,
            Until::Pause { .. } => self.next_attempt(call),
        }
    }

    /// The agent has journaled the failure of the attempt before this one.
    pub(super) fn go_on(&mut self, call: CallId, attempt: u32) {
        let Some(running) = self.calls.get_mut(&call).filter(|running| running.order.attempt() == attempt) else {
            return;
        };
        let Phase::Pausing { until, .. } = &mut running.phase else { return };
        match std::mem::replace(until, Until::Word) {
            Until::Both { _timer } | Until::Pause { _timer } => *until = Until::Pause { _timer },
            Until::Word => self.next_attempt(call),
        }
    }

    fn next_attempt(&mut self, call: CallId) {
        if let Some(running) = self.remove(&call) {
            self.enqueue(call, running.order);
        }
    }

    /// Keeps a call that has ended until it has done the rest.
    pub(super) fn linger(&mut self, ticket: Ticket, call: Task) {
        self.lingering.insert(ticket, call);
        self.admission.linger(self.lingering.len());
    }

    /// A call that had ended has done the rest.
    pub(super) fn done(&mut self, ticket: Ticket) {
        self.lingering.remove(&ticket);
        self.admission.linger(self.lingering.len());
    }

    /// Takes a call out of the line it stands in.
    pub(super) fn unqueue(&mut self, call: &CallId) {
        let Some(running) = self.calls.get(call) else { return };
        if let Phase::Queued { ticket } = running.phase {
            self.admission.leave(ticket, running.order.model());
            self.tickets.remove(&ticket);
        }
    }

    /// Ends a call without a word.
    pub(super) fn cancel(&mut self, myself: &ActorRef<ConnectionMsg>, call: &CallId) {
        self.unqueue(call);
        let Some(running) = self.remove(call) else { return };
        match &running.phase {
            // Its end is intended, and the message of it will find nothing.
            Phase::InFlight { ticket, sink, .. } => {
                sink.abandon();
                self.tickets.remove(ticket);
                self.admission.ended(*ticket, RequestEnd::Dropped, Instant::now());
            }
            Phase::Queued { .. } | Phase::Pausing { .. } | Phase::Refused { .. } => {}
        }
        self.release(myself, &running.order.agent);
    }

    /// An agent has ended: nobody waits for its calls.
    pub(super) fn agent_ended(&mut self, myself: &ActorRef<ConnectionMsg>, who: ActorId) {
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
}
