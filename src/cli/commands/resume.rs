//! `playhouse resume`: going on with what a dead process left, and with what did not end well.

use std::path::PathBuf;
use std::sync::Arc;

use playhouse::agent::{Agent, AgentHandle, HandleError, InputError, Scope, new_input};
use playhouse::config::Config;
use playhouse::from_config::FromConfig;
use playhouse::journal::short_id;
use playhouse::protocol::entry::Wake;
use playhouse::protocol::{AgentMessage, Command, ContinuationKind, EntryBody, EntryId, InputId, Op, SessionId};
use playhouse::session::{Branch, LastRun, SessionStatus, SessionSummary, StoreError};
use playhouse::{House, ResumeError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli::args::ResumeArgs;
use crate::cli::commands::damaged::{self, Accept};
use crate::cli::exit::Exit;
use crate::cli::folders::here;
use crate::cli::house::{close_house, from_config, open_house};
use crate::cli::terminal::ask::Asking;
use crate::cli::terminal::follow::{EVENTS, Followed, SessionHome, Watch, parked_reason};
use crate::cli::terminal::output::{Detail, OutputArgs};
use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::text::{Tint, cut, error_line, one_line};
use crate::cli::terminal::view::{Runs, View};

/// How many sessions are brought on stage at once. A session gives its place up as soon as it waits for a model or for a
/// person, so that those whose model is silent keep nobody out.
const AT_ONCE: usize = 8;

/// Finishes one session, or all that nobody holds.
pub async fn resume(args: ResumeArgs, config: Config, (folder, kept): (PathBuf, SessionHome)) -> Result<(), Exit> {
    args.output.check()?;
    if args.session.is_none() {
        args.output.check_several()?;
    }
    let session = args.session.as_ref().map(|name| name.find(&folder, here)).transpose()?;
    if !folder.exists() {
        return nothing_to_do();
    }
    let asking = Asking::default();
    let (interrupt, from) = (Interrupt::listen()?, from_config(config, &asking, &args.recordings));
    let accept = Accept::of(args.accept_broken_chain);
    let work = ResumeWork { interrupt, asking, from, output: args.output, kept, folder, accept };
    let house = open_house(&work.from, &work.asking, Some(work.folder.clone())).await?;
    let done = match &session {
        Some(session) => one(&house, session, &work).await,
        None => several(&house, &work, if args.all { Reach::AllDirectories } else { Reach::Here(here()?) }).await,
    };
    close_house(&house, &work.asking).await;
    done
}

/// Whose sessions are gone on with.
enum Reach {
    AllDirectories,
    Here(PathBuf),
}

impl Reach {
    /// One that has lost its directory with its first line may be of this one.
    fn has(&self, session: &SessionSummary) -> bool {
        match self {
            Self::AllDirectories => true,
            Self::Here(here) => session.cwd.as_ref().is_none_or(|cwd| cwd == here),
        }
    }
}

struct ResumeWork {
    interrupt: Interrupt,
    asking: Asking,
    from: FromConfig,
    output: OutputArgs,
    kept: SessionHome,
    folder: PathBuf,
    accept: Accept,
}

impl ResumeWork {
    fn watch(&self, runs: Runs) -> Watch {
        let view = View::new(&self.output, runs, &self.asking);
        Watch { view, interrupt: self.interrupt.clone(), kept: self.kept.clone(), slot: None }
    }
}

fn nothing_to_do() -> Result<(), Exit> {
    error_line("", "nothing to resume", Tint::None);
    Ok(())
}

async fn one(house: &House, session: &SessionId, work: &ResumeWork) -> Result<(), Exit> {
    let summary = house.session(session).await.map_err(Exit::refused)?;
    refuse_if_not_ours(&summary)?;
    let mut watch = work.watch(Runs::One);
    match (&summary.status, work.accept) {
        (SessionStatus::Done, _) => {
            is_finished(session.as_str());
            Ok(())
        }
        (SessionStatus::Damaged { .. }, Accept::Nothing) => {
            Err(Exit::Refused(damaged::advice(&summary, &work.kept).unwrap_or_default()))
        }
        (SessionStatus::Damaged { .. }, Accept::Damage) => {
            tell_damage(&summary, &mut watch);
            let settings = work.from.settings(here()?).map_err(Exit::refused)?;
            work.from.check(&settings).await.map_err(Exit::refused)?;
            let (agent, unsaid) = damaged::go_on(house, session, settings, &work.from, &mut watch).await?;
            let mut events = agent.subscribe_tree_with(EVENTS);
            let asked = match unsaid.is_empty() {
                true => asked_to_go_on(&agent, None).await,
                false => said(&agent, unsaid).await.map(Some),
            };
            let Some(input_id) = asked.map_err(as_failure)? else {
                let (short, flag) = (work.kept.short(session), work.kept.flag());
                let text = "its conversation ends with the model's words: go on with `playhouse run --session";
                return Err(Exit::Failed(format!("{text} {short}{flag} --accept-broken-chain PROMPT`")));
            };
            house.name_successor(session, agent.session_id()).await.map_err(Exit::refused)?;
            let followed = watch.follow(&agent, &input_id, &mut events).await;
            let done = watch.verdict(followed, &agent.session_id());
            watch.view.finish(done).map_err(as_failure)
        }
        (
            SessionStatus::Unfinished { .. }
            | SessionStatus::Waiting { .. }
            | SessionStatus::Failed { .. }
            | SessionStatus::Aborted
            | SessionStatus::Limited { .. }
            | SessionStatus::Parked { .. },
            _,
        ) => match shown(house, &summary, watch, Wake::Asked).await {
            // Another process was quicker: that is told as it is to one who comes later.
            Err(Exit::Refused(_)) if is_anothers(house, session).await => {
                refuse_if_not_ours(&house.session(session).await.map_err(Exit::refused)?)?;
                is_finished(session.as_str());
                Ok(())
            }
            done => done.map_err(as_failure),
        },
    }
}

fn is_finished(session: &str) {
    error_line("", &format!("session {session} is finished: nothing to resume"), Tint::None);
}

async fn several(house: &House, work: &ResumeWork, reach: Reach) -> Result<(), Exit> {
    let known = house.sessions().await.map_err(Exit::refused)?;
    let is_lost = |one: &&SessionSummary| {
        let unknown = SessionStatus::Damaged { last_run: LastRun::Unknown };
        one.status == unknown && one.parent.is_none() && one.held_by.is_none()
    };
    let lost: Vec<&SessionSummary> = known.iter().filter(is_lost).filter(|one| reach.has(one)).collect();
    let unfinished = house.unfinished().await.map_err(Exit::refused)?;
    let (sessions, elsewhere): (Vec<_>, Vec<_>) = unfinished.into_iter().partition(|one| reach.has(one));
    let others = match elsewhere.len() {
        0 => None,
        1 => Some("1 unfinished session of another directory waits: playhouse resume --all".to_owned()),
        count => Some(format!("{count} unfinished sessions of other directories wait: playhouse resume --all")),
    };
    match others {
        Some(others) if sessions.is_empty() && lost.is_empty() => {
            error_line("", &format!("nothing to resume here; {others}"), Tint::None);
            return Ok(());
        }
        Some(others) if work.output.detail() != Detail::Quiet => error_line("", &others, Tint::Dim),
        None if sessions.is_empty() && lost.is_empty() => return nothing_to_do(),
        Some(_) | None => {}
    }
    let runs = if sessions.len() == 1 { Runs::One } else { Runs::Several };
    let ids: Vec<SessionId> = known.iter().map(|session| session.session_id.clone()).collect();
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for summary in sessions {
        let (house, mut watch, slots) = (house.clone(), work.watch(runs), slots.clone());
        let short = short_id(&summary.session_id, &ids).to_owned();
        let label = match runs {
            Runs::Several => format!("[{short}] "),
            Runs::One => String::new(),
        };
        watch.view.label(label.clone());
        tasks.spawn(async move {
            // The semaphore is never closed, so there always is one.
            watch.slot = slots.acquire_owned().await.ok();
            if watch.interrupt.is_asked() {
                return (label, Ok(()));
            }
            let (session, prompt) = (&summary.session_id, summary.first_prompt.as_deref().unwrap_or_default());
            let prompt = cut(&one_line(prompt), 60);
            watch
                .view
                .note(Tint::Dim, &if runs == Runs::Several { prompt } else { format!("session {short}: {prompt}") });
            let done = shown(&house, &summary, watch, Wake::Restarted).await;
            if let Some(agent) = &summary.agent_id {
                house.dismiss(agent).await;
            }
            let done = match done {
                Err(Exit::Refused(_)) if is_anothers(&house, session).await => {
                    error_line(&label, &format!("session {short} is another process's now"), Tint::Dim);
                    Ok(())
                }
                done => done.map_err(as_failure),
            };
            (label, done)
        });
    }
    let mut worst = Ok(());
    for summary in lost {
        let label = match runs {
            Runs::Several => format!("[{}] ", short_id(&summary.session_id, &ids)),
            Runs::One => String::new(),
        };
        worst = worse(worst, &label, Err(Exit::Failed(damaged::advice(summary, &work.kept).unwrap_or_default())));
    }
    while let Some(done) = tasks.join_next().await {
        let lost = |error| (String::new(), Err(Exit::Failed(format!("a session was lost: {error}"))));
        let (label, done) = done.unwrap_or_else(lost);
        worst = worse(worst, &label, done);
    }
    if work.interrupt.is_asked() {
        let left = "interrupted; go on with what was begun by naming it (playhouse resume SESSION), with the rest by: playhouse resume";
        worst = worse(worst, "", Err(Exit::Interrupted(left.to_owned())));
    }
    worst
}

/// Whether another process holds the session now, or has brought it to an end.
async fn is_anothers(house: &House, session: &SessionId) -> bool {
    let Ok(summary) = house.session(session).await else { return false };
    let is_held = summary.held_by.is_some_and(|holder| holder.pid != std::process::id());
    is_held || !summary.status.is_unfinished()
}

async fn shown(house: &House, summary: &SessionSummary, mut watch: Watch, wake: Wake) -> Result<(), Exit> {
    tell_damage(summary, &mut watch);
    let done = finish(house, summary, &mut watch, wake).await;
    watch.view.finish(done)
}

/// Says what went wrong with a session, and keeps the worst of all: no reader, then failures, then limits.
fn worse(so_far: Result<(), Exit>, label: &str, next: Result<(), Exit>) -> Result<(), Exit> {
    let Err(exit) = next else { return so_far };
    exit.tell_of(label);
    let rank = |code: u8| match code {
        128.. => 3,
        1 | 2 => 2,
        _ => 1,
    };
    match so_far {
        Err(worst) if rank(worst.code()) >= rank(exit.code()) => Err(worst),
        Ok(()) | Err(_) => Err(Exit::Told(exit.code())),
    }
}

/// Brings a session on stage and shows what it does until its run is over, or another one if that had ended. `Refused`
/// is a session that cannot go on.
pub async fn finish(house: &House, summary: &SessionSummary, watch: &mut Watch, wake: Wake) -> Result<(), Exit> {
    let session = &summary.session_id;
    let opened = house.opened(session).await.map_err(Exit::refused)?;
    // Before the agent is on stage, so that nothing it tells is missed.
    let mut events = house.services().hub.topic(&opened.agent_id).subscribe(EVENTS, Scope::Tree);
    let agent = match wake {
        Wake::Restarted => house.resume(session).await,
        // Whoever names a parked session wants it to go on.
        Wake::Asked => house.resume_parked(session).await,
    };
    let agent = agent.map_err(Exit::refused)?;
    let state = match agent.state().await {
        Ok(state) => state,
        Err(error) => {
            let reason = parked_reason(house, &agent, &error);
            return Err(Exit::Refused(format!("session `{}` cannot go on: {reason}", watch.kept.short(session))));
        }
    };
    if summary.status.has_ended() {
        let Some(input_id) = asked_to_go_on(&agent, last_turn(house, summary).await?).await? else {
            let short = watch.kept.short(session);
            let flag = watch.kept.flag();
            let hint =
                format!("session {short} has nothing to go on with: playhouse run --session {short}{flag} PROMPT");
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
async fn last_turn(house: &House, summary: &SessionSummary) -> Result<Option<EntryId>, Exit> {
    if summary.status != SessionStatus::Aborted {
        return Ok(None);
    }
    let last = house.fold(&summary.session_id, |last, entry, branch| {
        if let (EntryBody::TurnStarted { .. }, Branch::Main) = (&entry.body, branch) {
            *last = Some(entry.id.clone());
        }
    });
    last.await.map(|(last, _)| last).map_err(Exit::refused)
}

/// Asks for a run on the conversation as it stands, or as it was after `turn` if it ends with the model's words. `None` is
/// a conversation that there is nothing to say to.
async fn asked_to_go_on(agent: &AgentHandle, turn: Option<EntryId>) -> Result<Option<InputId>, Exit> {
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
        Err(error) => Err(Exit::Refused(format!("session `{}` cannot go on: {error}", agent.session_id()))),
    }
}

/// Says what was still to be said.
async fn said(agent: &AgentHandle, messages: Vec<Arc<AgentMessage>>) -> Result<InputId, Exit> {
    let input_id = new_input();
    let told = agent.submit(Command::new(input_id.clone(), Op::prompt(messages))).await;
    told.map(|()| input_id)
        .map_err(|error| Exit::Refused(format!("session `{}` cannot go on: {error}", agent.session_id())))
}

/// A session that cannot go on is a failure of `resume`, not a mistake in how it was called.
fn as_failure(exit: Exit) -> Exit {
    match exit {
        Exit::Refused(text) => Exit::Failed(text),
        Exit::Failed(_)
        | Exit::Limit(_)
        | Exit::Incomplete(_)
        | Exit::Interrupted(_)
        | Exit::HungUp
        | Exit::Told(_) => exit,
    }
}

/// Refuses a session that belongs to another process or to another session.
pub fn refuse_if_not_ours(summary: &SessionSummary) -> Result<(), Exit> {
    let session = summary.session_id.clone();
    if let Some(parent) = summary.parent.clone() {
        return Err(Exit::refused(ResumeError::Child { session, parent }));
    }
    match &summary.held_by {
        Some(holder) => {
            let (node, pid) = (holder.node.clone(), holder.pid);
            Err(Exit::refused(StoreError::Held { session, node, pid }))
        }
        None => Ok(()),
    }
}

/// Says what is wrong with a journal.
pub fn tell_damage(summary: &SessionSummary, watch: &mut Watch) {
    let session = watch.kept.short(&summary.session_id);
    for damage in &summary.damage {
        watch.view.warn(&format!("warning: the journal of session {session}: {damage}"));
    }
}
