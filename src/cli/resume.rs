//! `playhouse resume`: finishing what a dead process left.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::agent::{Agent, Scope};
use playhouse::config::Config;
use playhouse::protocol::SessionId;
use playhouse::protocol::entry::Wake;
use playhouse::session::{SessionStatus, SessionSummary, StoreError};
use playhouse::{House, ResumeError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::args::ResumeArgs;
use super::ask::{Asking, answers};
use super::follow::{EVENTS, Followed, Kept, Watch, parked_reason, unwritten};
use super::kind;
use super::signals::Interrupt;
use super::stop::{INTERRUPTED, Stop};
use super::text::{Tint, cut, error_line, one_line};
use super::view::{Form, View};

/// How many sessions are finished at once.
const AT_ONCE: usize = 8;

/// Finishes one session, or all that nobody holds.
pub async fn resume(
    args: ResumeArgs,
    config: &Config,
    user_file: Option<PathBuf>,
    (folder, kept): (PathBuf, Kept),
) -> Result<(), Stop> {
    if !folder.exists() {
        return match args.session {
            Some(session) => Err(Stop::refused(StoreError::Unknown { session })),
            None => nothing_to_do(),
        };
    }
    let work = Work { interrupt: Interrupt::listen()?, asking: Asking::default(), json: args.json, kept };
    let setup = kind::Setup { config, user_file, recordings: &args.recordings };
    let house = kind::open_house(Some(folder), setup, answers(&work.asking)).await?;
    let done = match &args.session {
        Some(session) => one(&house, session, &work).await,
        None => all(&house, &work).await,
    };
    house.shutdown(Duration::ZERO).await;
    done
}

struct Work {
    interrupt: Interrupt,
    asking: Asking,
    json: bool,
    kept: Kept,
}

impl Work {
    fn watch(&self, form: Form) -> Watch {
        let view = View::new(form, &self.asking);
        Watch { view, interrupt: self.interrupt.clone(), kept: self.kept.clone() }
    }
}

fn nothing_to_do() -> Result<(), Stop> {
    error_line("", "nothing to resume", Tint::None);
    Ok(())
}

async fn one(house: &House, session: &SessionId, work: &Work) -> Result<(), Stop> {
    let summary = house.session(session).await.map_err(Stop::refused)?;
    refuse_if_not_ours(&summary)?;
    if summary.status == SessionStatus::Idle {
        error_line("", &format!("session {session} is finished: nothing to resume"), Tint::None);
        return Ok(());
    }
    // Whoever names a parked session wants it to go on.
    shown(house, &summary, work.watch(Form::of(work.json)), Wake::Asked).await
}

async fn all(house: &House, work: &Work) -> Result<(), Stop> {
    let sessions = house.unfinished().await.map_err(Stop::refused)?;
    if sessions.is_empty() {
        return nothing_to_do();
    }
    let form = match (work.json, sessions.len()) {
        (true, _) => Form::Json,
        (false, 1) => Form::Text,
        (false, _) => Form::Gathered,
    };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for summary in sessions {
        let (house, mut watch, places) = (house.clone(), work.watch(form), places.clone());
        tasks.spawn(async move {
            // Never closed.
            let _place = places.acquire_owned().await;
            if watch.interrupt.is_asked() {
                return Ok(());
            }
            let (session, prompt) = (&summary.session_id, summary.first_prompt.as_deref().unwrap_or_default());
            watch.view.note(Tint::Dim, &format!("session {session}: {}", cut(&one_line(prompt), 60)));
            let done = shown(&house, &summary, watch, Wake::Restarted).await;
            if let Some(agent) = &summary.agent_id {
                house.dismiss(agent).await;
            }
            done
        });
    }
    let mut worst = Ok(());
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|error| Err(Stop::Failed(format!("a session was lost: {error}"))));
        worst = worse(worst, done);
    }
    if work.interrupt.is_asked() {
        let left = "interrupted; what is left can be finished with: playhouse resume";
        worst = worse(worst, Err(Stop::Interrupted(left.to_owned())));
    }
    worst
}

async fn shown(house: &House, summary: &SessionSummary, mut watch: Watch, wake: Wake) -> Result<(), Stop> {
    tell_damage(summary, &mut watch.view);
    let done = finish(house, &summary.session_id, &mut watch, wake).await;
    let written = watch.view.finish();
    done.map_err(as_failure)?;
    written.map_err(|error| unwritten(&error))
}

/// Says what went wrong with a session, and keeps the worst of all: no reader, then failures, then limits.
fn worse(so_far: Result<(), Stop>, next: Result<(), Stop>) -> Result<(), Stop> {
    let Err(stop) = next else { return so_far };
    stop.tell();
    let rank = |code: u8| match code {
        INTERRUPTED => 3,
        1 | 2 => 2,
        _ => 1,
    };
    match so_far {
        Err(worst) if rank(worst.code()) >= rank(stop.code()) => Err(worst),
        Ok(()) | Err(_) => Err(Stop::Told(stop.code())),
    }
}

/// Brings a session on stage and shows what it does until its run is over. `Refused` is a session that cannot go on.
pub async fn finish(house: &House, session: &SessionId, watch: &mut Watch, wake: Wake) -> Result<(), Stop> {
    let opened = house.opened(session).await.map_err(Stop::refused)?;
    // Before the agent is on stage, so that nothing it tells is missed.
    let mut events = house.backstage().hub.topic(&opened.agent_id).subscribe(EVENTS, Scope::Tree);
    let agent = house.resume(session).await.map_err(Stop::refused)?;
    if wake == Wake::Asked {
        // One that is not parked needs nothing.
        let _ = house.unpark(agent.id()).await;
    }
    let state = match agent.state().await {
        Ok(state) => state,
        Err(error) => {
            let reason = parked_reason(house, &agent, &error);
            return Err(Stop::Refused(format!("session `{session}` cannot go on: {reason}")));
        }
    };
    let Some(input_id) = state.last_input else { return Ok(()) };
    let followed = watch.follow(&agent, &input_id, &mut events).await;
    match &followed {
        // That run was over before.
        Followed::Ended(report) if !watch.view.saw_end(&report.loop_id) => Ok(()),
        Followed::Ended(_) | Followed::Lost(_) | Followed::Unsettled => watch.verdict(followed, session),
    }
}

/// A session that cannot go on is a failure of `resume`, not a mistake in how it was called.
fn as_failure(stop: Stop) -> Stop {
    match stop {
        Stop::Refused(text) => Stop::Failed(text),
        Stop::Failed(_) | Stop::Limit(_) | Stop::Interrupted(_) | Stop::HungUp | Stop::Told(_) => stop,
    }
}

/// Refuses a session that belongs to another process or to another session.
pub fn refuse_if_not_ours(summary: &SessionSummary) -> Result<(), Stop> {
    let session = summary.session_id.clone();
    if let Some(parent) = summary.parent.clone() {
        return Err(Stop::refused(ResumeError::Child { session, parent }));
    }
    match &summary.held_by {
        Some(holder) => {
            let (node, pid) = (holder.node.clone(), holder.pid);
            Err(Stop::refused(StoreError::Held { session, node, pid }))
        }
        None => Ok(()),
    }
}

/// Says what is wrong with a journal.
pub fn tell_damage(summary: &SessionSummary, view: &mut View) {
    for damage in &summary.damage {
        view.note(Tint::Red, &format!("warning: the journal of session {}: {damage}", summary.session_id));
    }
}
