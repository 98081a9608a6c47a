//! `playhouse resume`: going on with what a dead process left, and with what did not end well.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::agent::{Agent, AgentHandle, HandleError, InputError, Scope, new_input};
use playhouse::config::Config;
use playhouse::protocol::chain::chain;
use playhouse::protocol::entry::Wake;
use playhouse::protocol::{AgentMessage, Command, ContinuationKind, EntryBody, EntryId, InputId, Op, SessionId};
use playhouse::session::{LastRun, SessionStatus, SessionSummary, StoreError};
use playhouse::{House, ResumeError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::args::ResumeArgs;
use super::ask::{Answers, Asking, answers};
use super::damaged::{self, Accept};
use super::follow::{EVENTS, Followed, Kept, Watch, parked_reason, unwritten};
use super::kind;
use super::model;
use super::settings;
use super::signals::Interrupt;
use super::stop::Stop;
use super::text::{Tint, cut, error_line, one_line};
use super::view::{Form, View};

/// How many sessions are brought on stage at once. A session gives its place up as soon as it waits for a model or for a
/// person, so that those whose model is silent keep nobody out.
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
    let asking = Asking::default();
    let answers = answers(&asking);
    let (accept, from) = (Accept::of(args.accept_broken_chain), args.recordings.answers());
    let work =
        Work { interrupt: Interrupt::listen()?, asking, answers, json: args.json, kept, folder, config, accept, from };
    let setup = kind::Setup { config, user_file, recordings: &args.recordings };
    let house = kind::open_house(Some(work.folder.clone()), setup, work.answers.clone()).await?;
    let done = match &args.session {
        Some(session) => one(&house, session, &work).await,
        None => all(&house, &work).await,
    };
    house.shutdown(Duration::ZERO).await;
    done
}

struct Work<'a> {
    interrupt: Interrupt,
    asking: Asking,
    answers: Answers,
    json: bool,
    kept: Kept,
    folder: PathBuf,
    config: &'a Config,
    accept: Accept,
    /// Who answers in place of a model.
    from: playhouse::provider::Answers,
}

impl Work<'_> {
    fn watch(&self, form: Form) -> Watch {
        let view = View::new(form, &self.asking);
        Watch { view, interrupt: self.interrupt.clone(), kept: self.kept.clone(), place: None }
    }
}

fn nothing_to_do() -> Result<(), Stop> {
    error_line("", "nothing to resume", Tint::None);
    Ok(())
}

async fn one(house: &House, session: &SessionId, work: &Work<'_>) -> Result<(), Stop> {
    let summary = house.session(session).await.map_err(Stop::refused)?;
    refuse_if_not_ours(&summary)?;
    let mut watch = work.watch(Form::of(work.json));
    match (&summary.status, work.accept) {
        (SessionStatus::Done, _) => {
            error_line("", &format!("session {session} is finished: nothing to resume"), Tint::None);
            Ok(())
        }
        (SessionStatus::Damaged { .. }, Accept::Nothing) => {
            Err(Stop::Refused(damaged::advice(&summary).unwrap_or_default()))
        }
        (SessionStatus::Damaged { .. }, Accept::Damage) => {
            tell_damage(&summary, &mut watch.view);
            let settings = settings::fresh(work.config, None, None)?;
            model::checked(model::Chain::of(&settings), work.from).await?;
            let code = (&work.answers, &work.config.hooks());
            let (agent, unsaid) = damaged::go_on(house, session, settings, code, &mut watch.view).await?;
            let mut events = agent.subscribe_tree_with(EVENTS);
            let asked = match unsaid.is_empty() {
                true => asked_to_go_on(&agent, None).await,
                false => said(&agent, unsaid).await.map(Some),
            };
            let Some(input_id) = asked.map_err(as_failure)? else {
                let text = "its conversation ends with the model's words: go on with `playhouse run --session";
                return Err(Stop::Failed(format!("{text} {session} --accept-broken-chain PROMPT`")));
            };
            damaged::name_successor(&work.folder, session, agent.session_id())?;
            let followed = watch.follow(&agent, &input_id, &mut events).await;
            written(watch.verdict(followed, &agent.session_id()), watch.view).map_err(as_failure)
        }
        (
            SessionStatus::Unfinished { .. }
            | SessionStatus::Waiting { .. }
            | SessionStatus::Failed { .. }
            | SessionStatus::Aborted
            | SessionStatus::Limited { .. }
            | SessionStatus::Parked { .. },
            _,
        ) => shown(house, &summary, watch, Wake::Asked).await.map_err(as_failure),
    }
}

async fn all(house: &House, work: &Work<'_>) -> Result<(), Stop> {
    let known = house.sessions().await.map_err(Stop::refused)?;
    let is_lost = |one: &&SessionSummary| {
        let unknown = SessionStatus::Damaged { last_run: LastRun::Unknown };
        one.status == unknown && one.parent.is_none() && one.held_by.is_none()
    };
    let lost: Vec<&SessionSummary> = known.iter().filter(is_lost).collect();
    let sessions = house.unfinished().await.map_err(Stop::refused)?;
    if sessions.is_empty() && lost.is_empty() {
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
            watch.place = places.acquire_owned().await.ok();
            if watch.interrupt.is_asked() {
                return Ok(());
            }
            let (session, prompt) = (&summary.session_id, summary.first_prompt.as_deref().unwrap_or_default());
            watch.view.note(Tint::Dim, &format!("session {session}: {}", cut(&one_line(prompt), 60)));
            let done = shown(&house, &summary, watch, Wake::Restarted).await;
            if let Some(agent) = &summary.agent_id {
                house.dismiss(agent).await;
            }
            match done {
                Err(Stop::Refused(_)) if is_anothers(&house, session).await => {
                    error_line("", &format!("session {session} is another process's now"), Tint::Dim);
                    Ok(())
                }
                done => done.map_err(as_failure),
            }
        });
    }
    let mut worst = Ok(());
    for summary in lost {
        worst = worse(worst, Err(Stop::Failed(damaged::advice(summary).unwrap_or_default())));
    }
    while let Some(done) = tasks.join_next().await {
        let done = done.unwrap_or_else(|error| Err(Stop::Failed(format!("a session was lost: {error}"))));
        worst = worse(worst, done);
    }
    if work.interrupt.is_asked() {
        let left = "interrupted; go on with what was begun by naming it (playhouse resume SESSION), with the rest by: playhouse resume";
        worst = worse(worst, Err(Stop::Interrupted(left.to_owned())));
    }
    worst
}

/// Whether another process holds the session now, or has brought it to an end.
async fn is_anothers(house: &House, session: &SessionId) -> bool {
    let Ok(summary) = house.session(session).await else { return false };
    let is_held = summary.held_by.is_some_and(|holder| holder.pid != std::process::id());
    is_held || !summary.status.is_unfinished()
}

async fn shown(house: &House, summary: &SessionSummary, mut watch: Watch, wake: Wake) -> Result<(), Stop> {
    tell_damage(summary, &mut watch.view);
    let done = finish(house, summary, &mut watch, wake).await;
    written(done, watch.view)
}

fn written(done: Result<(), Stop>, mut view: View) -> Result<(), Stop> {
    let written = view.finish();
    done?;
    written.map_err(|error| unwritten(&error))
}

/// Says what went wrong with a session, and keeps the worst of all: no reader, then failures, then limits.
fn worse(so_far: Result<(), Stop>, next: Result<(), Stop>) -> Result<(), Stop> {
    let Err(stop) = next else { return so_far };
    stop.tell();
    let rank = |code: u8| match code {
        128.. => 3,
        1 | 2 => 2,
        _ => 1,
    };
    match so_far {
        Err(worst) if rank(worst.code()) >= rank(stop.code()) => Err(worst),
        Ok(()) | Err(_) => Err(Stop::Told(stop.code())),
    }
}

/// Brings a session on stage and shows what it does until its run is over, or another one if that had ended. `Refused`
/// is a session that cannot go on.
pub async fn finish(house: &House, summary: &SessionSummary, watch: &mut Watch, wake: Wake) -> Result<(), Stop> {
    let session = &summary.session_id;
    let opened = house.opened(session).await.map_err(Stop::refused)?;
    // Before the agent is on stage, so that nothing it tells is missed.
    let mut events = house.backstage().hub.topic(&opened.agent_id).subscribe(EVENTS, Scope::Tree);
    let agent = match wake {
        Wake::Restarted => house.resume(session).await,
        // Whoever names a parked session wants it to go on.
        Wake::Asked => house.resume_parked(session).await,
    };
    let agent = agent.map_err(Stop::refused)?;
    let state = match agent.state().await {
        Ok(state) => state,
        Err(error) => {
            let reason = parked_reason(house, &agent, &error);
            return Err(Stop::Refused(format!("session `{session}` cannot go on: {reason}")));
        }
    };
    if summary.status.has_ended() {
        let Some(input_id) = asked_to_go_on(&agent, last_turn(house, summary).await?).await? else {
            let hint = format!("session {session} has nothing to go on with: playhouse run --session {session} PROMPT");
            watch.view.note(Tint::None, &hint);
            return Ok(());
        };
        let followed = watch.follow(&agent, &input_id, &mut events).await;
        return watch.verdict(followed, session);
    }
    let Some(input_id) = state.last_input else { return Ok(()) };
    let followed = watch.follow(&agent, &input_id, &mut events).await;
    match &followed {
        // That run was over before.
        Followed::Ended(report) if !watch.view.saw_end(&report.loop_id) => Ok(()),
        Followed::Ended(_) | Followed::Lost(_) | Followed::Unsettled => watch.verdict(followed, session),
    }
}

/// Where the last turn of an aborted run began: what it had said by then is not an answer to go on from.
async fn last_turn(house: &House, summary: &SessionSummary) -> Result<Option<EntryId>, Stop> {
    if summary.status != SessionStatus::Aborted {
        return Ok(None);
    }
    let entries = house.entries(&summary.session_id).await.map_err(Stop::refused)?;
    let is_start = |body: &EntryBody| matches!(body, EntryBody::TurnStarted { .. });
    let starts = chain(&entries, None).filter(|(_, entry)| is_start(&entry.body));
    Ok(starts.last().map(|(_, entry)| entry.id.clone()))
}

/// Asks for a run on the conversation as it stands, or as it was after `turn` if it ends with the model's words. `None` is
/// a conversation that there is nothing to say to.
async fn asked_to_go_on(agent: &AgentHandle, turn: Option<EntryId>) -> Result<Option<InputId>, Stop> {
    let input_id = new_input();
    let ask = |kind| agent.submit(Command::new(input_id.clone(), Op::Continue { kind }));
    let mut told = ask(ContinuationKind::Default).await;
    if let (Err(HandleError::Input(InputError::NothingToContinue)), Some(entry)) = (&told, turn) {
        let tag = jiff::Timestamp::now().to_string();
        told = ask(ContinuationKind::Branch { tag, entry: Some(entry) }).await;
    }
    match told {
        Ok(()) => Ok(Some(input_id)),
        Err(HandleError::Input(InputError::NothingToContinue)) => Ok(None),
        Err(error) => Err(Stop::Refused(format!("session `{}` cannot go on: {error}", agent.session_id()))),
    }
}

/// Says what was still to be said.
async fn said(agent: &AgentHandle, messages: Vec<Arc<AgentMessage>>) -> Result<InputId, Stop> {
    let input_id = new_input();
    let told = agent.submit(Command::new(input_id.clone(), Op::prompt(messages))).await;
    told.map(|()| input_id)
        .map_err(|error| Stop::Refused(format!("session `{}` cannot go on: {error}", agent.session_id())))
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
