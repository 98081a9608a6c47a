//! Following a run to its end: its events to the view, an interrupt to the agent.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::House;
use playhouse::agent::{Agent, AgentHandle, HandleError, InputError, RunReport, Subscription};
use playhouse::protocol::{AgentEvent, InputId, Outcome, SessionId};
use playhouse::supervision::NodeState;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use crate::cli::exit::Exit;
use crate::cli::session_name;
use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::view::View;

/// Room for events that stdout is too slow for.
pub const EVENTS: usize = 65_536;
/// How long an aborted run may take to settle.
const SETTLE: Duration = Duration::from_secs(10);
/// How often the progress line changes.
const TICK: Duration = Duration::from_millis(200);

/// Whether a session outlives the process, and how the command line finds it again.
#[derive(Clone, Debug)]
pub enum SessionHome {
    /// It ends with the process.
    InMemory,
    /// It outlives it, in this folder, where the command line looks by itself.
    ByDefault(PathBuf),
    /// It outlives it, under `--data-dir`.
    Under(PathBuf),
}

impl SessionHome {
    /// What a hint's command needs beside the id, with a space before it.
    pub fn flag(&self) -> String {
        match self {
            Self::InMemory | Self::ByDefault(_) => String::new(),
            Self::Under(folder) => format!(" --data-dir {}", folder.display()),
        }
    }

    /// As much of a session's id as names it.
    pub fn short(&self, session: &SessionId) -> String {
        match self {
            Self::InMemory => session.to_string(),
            Self::ByDefault(folder) | Self::Under(folder) => session_name::short(folder, session),
        }
    }

    /// How a run that ended without an answer is gone on with.
    fn again(&self, session: &SessionId) -> String {
        let session = self.short(session);
        match self {
            Self::InMemory => "its session was only in memory".to_owned(),
            Self::ByDefault(_) | Self::Under(_) => {
                format!("session {session} is saved, go on with: playhouse resume {session}{}", self.flag())
            }
        }
    }

    /// How a run that is not over is finished.
    fn resume(&self, session: &SessionId) -> String {
        let session = self.short(session);
        match self {
            Self::InMemory => "its session was only in memory".to_owned(),
            Self::ByDefault(_) | Self::Under(_) => {
                format!("session {session} is saved, finish it with: playhouse resume {session}{}", self.flag())
            }
        }
    }

    /// How to find out whether a session has what it was told.
    fn look(&self, session: &SessionId) -> String {
        let (session, flag) = (self.short(session), self.flag());
        format!(
            "if `playhouse sessions show {session}{flag}` has it, finish it with `playhouse resume {session}{flag}`, else say it again"
        )
    }
}

/// What watches over a run from outside.
#[derive(Debug)]
pub struct Watch {
    /// Where its events go.
    pub view: View,
    /// Who may call it off.
    pub interrupt: Interrupt,
    /// What can be said about it afterwards.
    pub kept: SessionHome,
    /// A slot among those that are started at once, until it waits for a model or for a person.
    pub slot: Option<OwnedSemaphorePermit>,
}

/// What became of a run that was followed.
#[derive(Debug)]
pub enum Followed {
    /// The run ended, well or not, as the report says.
    Ended(Arc<RunReport>),
    /// The run did not end here: the agent is parked, or gone.
    Lost(HandleError),
    /// The run was aborted from here, and did not settle in time.
    Unsettled,
}

impl From<Result<Arc<RunReport>, HandleError>> for Followed {
    fn from(report: Result<Arc<RunReport>, HandleError>) -> Self {
        match report {
            Ok(report) => Self::Ended(report),
            Err(error) => Self::Lost(error),
        }
    }
}

impl Watch {
    /// Shows a run until it ends. The first interrupt aborts it, and so does the loss of whoever reads the output.
    pub async fn follow(&mut self, agent: &AgentHandle, input_id: &InputId, events: &mut Subscription) -> Followed {
        self.view.is_of(agent.id());
        let report = agent.report(input_id);
        tokio::pin!(report);
        let mut settle_by: Option<Instant> = None;
        let mut next_tick = Instant::now() + TICK;
        let followed = loop {
            let aborting = settle_by.is_some();
            tokio::select! {
                biased;
                () = self.interrupt.asked(), if !aborting => settle_by = Some(abort(agent)),
                report = &mut report => break report.into(),
                event = events.next() => match event {
                    Some(event) => {
                        if waits(&event.event) {
                            self.slot = None;
                        }
                        if self.view.show(&event).is_err() && !aborting {
                            settle_by = Some(abort(agent));
                        }
                    }
                    // The agent is off the stage, and its report says so.
                    None => break report.await.into(),
                },
                () = sleep_until(next_tick), if self.view.has_progress() || self.view.waits_with_answer() => {
                    self.view.tick();
                    if !aborting && self.view.has_lost_reader() {
                        settle_by = Some(abort(agent));
                    }
                    next_tick = Instant::now() + TICK;
                }
                () = settled(settle_by), if aborting => break Followed::Unsettled,
            }
        };
        // What a run tells comes before its report.
        while let Some(event) = events.try_next() {
            if self.view.show(&event).is_err() {
                break;
            }
        }
        followed
    }

    /// What it means that an agent did not say yes to what it was told.
    pub fn not_taken(&self, house: &House, agent: &AgentHandle, error: &HandleError) -> Exit {
        let reason = parked_reason(house, agent, error);
        if let HandleError::Input(InputError::OutcomeUnknown { .. }) = error {
            let look = self.kept.look(&agent.session_id());
            return Exit::Failed(format!("it is not known whether this was taken ({reason}): {look}"));
        }
        Exit::Refused(reason)
    }

    /// What the end of a run means for the program.
    pub fn verdict(&mut self, followed: Followed, session: &SessionId) -> Result<(), Exit> {
        let interrupted = self.interrupt.is_asked();
        let report = if let Followed::Ended(report) = &followed { Some(report.clone()) } else { None };
        self.view.has_ended(session, report);
        let outcome = match followed {
            Followed::Ended(report) => report.outcome.clone(),
            Followed::Lost(error) if interrupted => {
                return Err(Exit::Interrupted(format!("interrupted ({error}); {}", self.kept.resume(session))));
            }
            Followed::Lost(error) => return Err(Exit::Failed(format!("{error}; {}", self.kept.resume(session)))),
            Followed::Unsettled if interrupted => {
                return Err(Exit::Interrupted(format!("interrupted; {}", self.kept.resume(session))));
            }
            Followed::Unsettled => return Err(Exit::HungUp),
        };
        let again = self.kept.again(session);
        match outcome {
            Outcome::Stop | Outcome::Length => self.view.written().map_err(unwritten),
            Outcome::Aborted if interrupted => Err(Exit::Interrupted(format!("interrupted; {again}"))),
            Outcome::Aborted => {
                self.view.written().map_err(unwritten)?;
                Err(Exit::Failed(format!("{outcome}; {again}")))
            }
            Outcome::Error { .. } | Outcome::Halted { .. } => Err(Exit::Failed(format!("{outcome}; {again}"))),
            Outcome::Limit { .. } => Err(Exit::Limit(format!("{outcome}; {again}"))),
            Outcome::Rejected { .. } => Err(Exit::Failed(outcome.to_string())),
        }
    }
}

/// Whether whoever tells this now waits for a model or for a person.
fn waits(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ModelRequestStart { .. } | AgentEvent::PermissionRequired { .. })
}

/// Aborts the run; gives the time by which it should have settled.
fn abort(agent: &AgentHandle) -> Instant {
    let agent = agent.clone();
    tokio::spawn(async move {
        // A run that is over needs no abort; one that is parked cannot be aborted.
        let _ = agent.abort().await;
    });
    Instant::now() + SETTLE
}

async fn settled(by: Option<Instant>) {
    match by {
        Some(by) => sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// What it means that the output could not be written.
pub fn unwritten(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Exit::HungUp,
        _ => Exit::Failed(format!("the output could not be written: {error}")),
    }
}

/// Why an agent that cannot be looked at is parked.
pub fn parked_reason(house: &House, agent: &AgentHandle, error: &HandleError) -> String {
    let address = playhouse::agent::identity::address(agent.id());
    match house.services().tree.get(&address).map(|node| node.state) {
        Some(NodeState::Parked { reason }) => reason,
        _ => error.to_string(),
    }
}
