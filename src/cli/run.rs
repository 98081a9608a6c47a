//! `playhouse run`: a prompt, its answer, an exit code.

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::House;
use playhouse::agent::{Agent, AgentHandle, new_input};
use playhouse::from_config::{FromConfig, KIND};
use playhouse::protocol::entry::{Settings, Wake};
use playhouse::protocol::{AgentId, AgentMessage, Command, Durability, Mode, Op, SessionId};
use playhouse::session::SessionSummary;

use super::args::{RunArgs, SharedArgs};
use super::ask::Asking;
use super::config;
use super::damaged::{self, Accept};
use super::follow::{EVENTS, Kept, Watch, parked_reason, unwritten};
use super::house::{from_config, open_house};
use super::place::{self, here, real_folder};
use super::resume::{self, refuse_if_not_ours};
use super::signals::Interrupt;
use super::stop::Stop;
use super::text::{Tint, error_line};
use super::view::{Form, View};

/// Which session to run in.
#[derive(Clone, Debug)]
enum Where {
    New,
    In(SessionId),
    Newest,
}

/// What the flags and the configuration ask for, checked as far as that goes without a house.
#[derive(Debug)]
pub struct Plan {
    prompt: String,
    place: Where,
    /// `None` is in memory.
    folder: Option<PathBuf>,
    kept: Kept,
    asking: Asking,
    from: FromConfig,
    /// `--accept-broken-chain`.
    accept: Accept,
    /// `--cwd`.
    cwd: Option<PathBuf>,
    /// `--plan` or `--no-plan`.
    mode: Option<Mode>,
    form: Form,
}

impl Plan {
    /// Reads the prompt and looks the settings over.
    pub fn new(args: RunArgs, shared: &SharedArgs) -> Result<Self, Stop> {
        let place = match (args.session, args.r#continue) {
            (Some(session), _) => Where::In(session),
            (None, true) => Where::Newest,
            (None, false) => Where::New,
        };
        let cwd = args.settings.cwd.as_deref().map(real_folder).transpose()?;
        let accept = Accept::of(args.accept_broken_chain);
        if let (Where::New, Accept::Damage) = (&place, accept) {
            let text = "--accept-broken-chain is about a stored session: name it with --session, or use --continue";
            return Err(Stop::Refused(text.to_owned()));
        }
        let project = match (&place, accept, &cwd) {
            (Where::New, _, Some(cwd)) | (_, Accept::Damage, Some(cwd)) => Some(cwd.clone()),
            (Where::New, _, None) | (_, Accept::Damage, None) => Some(here()?),
            // A stored session keeps its settings, and only flags change them.
            (Where::In(_) | Where::Newest, Accept::Nothing, _) => None,
        };
        let config = config::load(shared, Some(&args.settings), project)?;
        let durability = match &place {
            Where::New => Some(config.durability.value),
            Where::In(_) | Where::Newest => config.durability.by_flag().copied(),
        };
        let (folder, kept) = match (&place, durability) {
            (Where::New, Some(Durability::None)) => (None, Kept::InMemory),
            (_, Some(Durability::None)) => {
                let text = "a session that is kept cannot be turned to --durability none: use flush or os";
                return Err(Stop::Refused(text.to_owned()));
            }
            (_, Some(Durability::Flush | Durability::Os) | None) => {
                let (folder, kept) = place::data_dir(&config, shared)?;
                (Some(folder), kept)
            }
        };
        let mode = match (args.plan, args.no_plan) {
            (true, _) => Some(Mode::Plan),
            (false, true) => Some(Mode::Act),
            (false, false) => None,
        };
        let (asking, form) = (Asking::default(), Form::of(args.json));
        let from = from_config(config, &asking, &args.recordings);
        let mut plan = Self { prompt: String::new(), place, folder, kept, asking, from, accept, cwd, mode, form };
        if matches!(plan.place, Where::New) {
            // Before stdin is read: nobody should type a prompt for nothing.
            plan.settings()?;
        }
        plan.prompt = read_prompt(args.prompt)?;
        Ok(plan)
    }

    /// The settings of a new session.
    fn settings(&self) -> Result<Settings, Stop> {
        let cwd = self.cwd.clone().map_or_else(here, Ok)?;
        let settings = self.from.settings(cwd).map_err(Stop::refused)?;
        Ok(Settings { mode: self.mode.unwrap_or_default(), ..settings })
    }

    /// The settings of a stored session, with what flags change.
    fn changed(&self, stored: &Settings) -> Result<Settings, Stop> {
        let mut settings = self.from.changed(stored).map_err(Stop::refused)?;
        settings.mode = self.mode.unwrap_or(settings.mode);
        settings.cwd = self.cwd.clone().unwrap_or(settings.cwd);
        Ok(settings)
    }

    async fn check(&self, settings: &Settings) -> Result<(), Stop> {
        self.from.check(settings).await.map_err(Stop::refused)
    }
}

fn read_prompt(given: Option<String>) -> Result<String, Stop> {
    let prompt = match given {
        Some(text) if text != "-" => text,
        None if io::stdin().is_terminal() => {
            return Err(Stop::Refused("there is no prompt: give one, or pipe it in".to_owned()));
        }
        Some(_) | None => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map_err(|error| {
                Stop::Refused(format!("the prompt cannot be read from stdin ({error}): it must be UTF-8 text"))
            })?;
            text.truncate(text.trim_end().len());
            text
        }
    };
    if prompt.trim().is_empty() {
        return Err(Stop::Refused("the prompt is empty: say something".to_owned()));
    }
    Ok(prompt)
}

/// Runs the plan.
pub async fn run(plan: Plan) -> Result<(), Stop> {
    let interrupt = Interrupt::listen()?;
    if let Where::New = plan.place {
        plan.check(&plan.settings()?).await?;
    }
    if plan.folder.is_none() {
        error_line("note: ", "durability none: this session is only in memory and cannot be resumed", Tint::Dim);
    }
    let house = open_house(&plan.from, plan.folder.clone()).await?;
    let view = View::new(plan.form, &plan.asking);
    let mut watch = Watch { view, interrupt, kept: plan.kept.clone(), place: None };
    let done = on_stage(&house, &plan, &mut watch).await;
    let finished = watch.view.finish();
    house.shutdown(Duration::ZERO).await;
    done?;
    finished.map_err(|error| unwritten(&error))
}

async fn on_stage(house: &House, plan: &Plan, watch: &mut Watch) -> Result<(), Stop> {
    let stored = match &plan.place {
        Where::New => None,
        Where::In(session) => Some(session.clone()),
        Where::Newest => Some(newest(house, plan).await?),
    };
    let (agent, mut messages) = match &stored {
        None => {
            let agent = plan.from.agent(house, plan.settings()?).map_err(Stop::refused)?;
            (agent.spawn().await.map_err(Stop::refused)?, Vec::new())
        }
        Some(session) => reopen(house, session, plan, watch).await?,
    };
    let session = agent.session_id();
    if watch.interrupt.is_asked() {
        return Err(Stop::Interrupted("interrupted before the prompt was sent".to_owned()));
    }
    let mut events = agent.subscribe_tree_with(EVENTS);
    let input_id = new_input();
    messages.push(Arc::new(AgentMessage::user(plan.prompt.as_str(), house.backstage().now().wall)));
    let prompt = Command::new(input_id.clone(), Op::prompt(messages));
    agent.submit(prompt).await.map_err(|error| watch.not_taken(house, &agent, &error))?;
    if let (Accept::Damage, Some(stored)) = (plan.accept, &stored)
        && *stored != session
    {
        house.name_successor(stored, session.clone()).await.map_err(Stop::refused)?;
    }
    let followed = watch.follow(&agent, &input_id, &mut events).await;
    let done = watch.verdict(followed, &session);
    if let Ok(state) = agent.state().await
        && !state.plan.is_empty()
    {
        watch.view.plan(&session, &state.plan);
    }
    done
}

/// The agent of a stored session, its unfinished run finished and its settings changed as asked; for a damaged one, with
/// what was still to be said in it.
async fn reopen(
    house: &House,
    session: &SessionId,
    plan: &Plan,
    watch: &mut Watch,
) -> Result<(AgentHandle, Vec<Arc<AgentMessage>>), Stop> {
    let summary = house.session(session).await.map_err(Stop::refused)?;
    refuse_if_not_ours(&summary)?;
    if let Some(kind) = summary.kind.as_ref().filter(|kind| *kind != KIND) {
        let text = format!("session `{session}` is of the kind `{kind}`: go on with it in the program that made it");
        return Err(Stop::Refused(text));
    }
    match (damaged::advice(&summary), plan.accept) {
        (None, _) => resume::tell_damage(&summary, &mut watch.view),
        (Some(_), Accept::Damage) => {
            resume::tell_damage(&summary, &mut watch.view);
            let settings = plan.settings()?;
            plan.check(&settings).await?;
            return damaged::go_on(house, session, settings, &plan.from, &mut watch.view).await;
        }
        (Some(advice), Accept::Nothing) => return Err(Stop::Refused(advice)),
    }
    let stored = house.opened(session).await.map_err(Stop::refused)?.settings;
    let wanted = plan.changed(&stored)?;
    plan.check(&wanted).await?;
    if summary.status.is_unfinished() && !summary.status.has_ended() {
        match resume::finish(house, &summary, watch, Wake::Asked).await {
            // However that run ended, it is over now.
            Ok(()) => {}
            Err(Stop::Failed(text) | Stop::Limit(text)) => watch.view.note(Tint::Red, &format!("! {text}")),
            Err(stop @ (Stop::Refused(_) | Stop::Interrupted(_) | Stop::HungUp | Stop::Told(_))) => return Err(stop),
        }
    }
    if wanted != *stored {
        let agent = match house.get(&agent_of(&summary)?) {
            Some(agent) => agent,
            None => {
                let agent = plan.from.agent(house, wanted.clone()).map_err(Stop::refused)?;
                let agent = agent.id(agent_of(&summary)?).session(session.clone());
                agent.open().await.map_err(Stop::refused)?
            }
        };
        if let Err(error) = agent.configure(wanted).await {
            return Err(Stop::Refused(parked_reason(house, &agent, &error)));
        }
        // Tools and model are an agent's from its start: it starts again with the new ones.
        house.dismiss(agent.id()).await;
    }
    let agent = house.resume(session).await.map_err(Stop::refused)?;
    match agent.state().await {
        Ok(_) => Ok((agent, Vec::new())),
        Err(error) => Err(Stop::Refused(parked_reason(house, &agent, &error))),
    }
}

fn agent_of(summary: &SessionSummary) -> Result<AgentId, Stop> {
    summary.agent_id.clone().ok_or_else(|| {
        let session = &summary.session_id;
        Stop::Refused(format!("the journal of session `{session}` has lost its first entry; start a new session"))
    })
}

/// The newest session of the directory.
async fn newest(house: &House, plan: &Plan) -> Result<SessionId, Stop> {
    let cwd = match &plan.cwd {
        Some(cwd) => cwd.clone(),
        None => here()?,
    };
    let sessions = house.sessions().await.map_err(Stop::refused)?;
    let is_one = |session: &&SessionSummary| {
        session.parent.is_none() && session.kind.as_deref() == Some(KIND) && session.cwd.as_deref() == Some(&*cwd)
    };
    let found = sessions.iter().find(is_one).map(|session| session.session_id.clone());
    found.ok_or_else(|| {
        let cwd = cwd.display();
        Stop::Refused(format!("there is no session of {cwd} to continue: start one without --continue"))
    })
}
