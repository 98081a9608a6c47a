//! `playhouse run`: a prompt, its answer, an exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use playhouse::House;
use playhouse::agent::{Agent, AgentHandle, new_input};
use playhouse::config::Origin;
use playhouse::from_config::{FromConfig, KIND};
use playhouse::protocol::entry::{Settings, Wake};
use playhouse::protocol::{
    AgentId, AgentMessage, Command, Durability, Mode, Op, SessionId, TakenImages, ThinkingLevel,
};
use playhouse::provider::catalogue::find;
use playhouse::provider::still_reasons;
use playhouse::session::SessionSummary;

use crate::cli::args::{RunArgs, SharedArgs};
use crate::cli::commands::config;
use crate::cli::commands::damaged::{self, Accept};
use crate::cli::commands::resume::{self, refuse_if_not_ours};
use crate::cli::exit::Exit;
use crate::cli::folders::{self, here, real_folder};
use crate::cli::house::{close_house, from_config, open_house};
use crate::cli::prompt::{self, Said};
use crate::cli::session_name::{self, SessionName};
use crate::cli::terminal::ask::Asking;
use crate::cli::terminal::follow::{EVENTS, SessionHome, Watch, parked_reason};
use crate::cli::terminal::output::{Detail, OutputArgs};
use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::text::{Tint, error_line};
use crate::cli::terminal::view::{Runs, View};

/// Which session to run in.
#[derive(Clone, Debug)]
enum Target {
    New,
    Named(SessionName),
    Newest,
}

/// What the flags and the configuration ask for, checked as far as that goes without a house.
#[derive(Debug)]
pub struct RunRequest {
    said: Said,
    /// What has listened to signals since a person was asked for the prompt.
    interrupt: Option<Interrupt>,
    /// The stored session to go on in; `None` is a new one.
    session: Option<SessionId>,
    /// `None` is in memory.
    folder: Option<PathBuf>,
    kept: SessionHome,
    asking: Asking,
    from: FromConfig,
    /// Whether `--accept-broken-chain` was given.
    accept: Accept,
    /// What `--cwd` names; `None` is the current directory, or the session's.
    cwd: Option<PathBuf>,
    /// What `--plan` or `--no-plan` says; `None` is what the session says.
    mode: Option<Mode>,
    output: OutputArgs,
}

impl RunRequest {
    /// Reads the prompt and looks the settings over.
    pub fn new(args: RunArgs, shared: &SharedArgs) -> Result<Self, Exit> {
        let target = match (args.session, args.r#continue) {
            (Some(session), _) => Target::Named(session),
            (None, true) => Target::Newest,
            (None, false) => Target::New,
        };
        args.output.check()?;
        let cwd = args.settings.cwd.as_deref().map(real_folder).transpose()?;
        let accept = Accept::of(args.accept_broken_chain);
        if let (Target::New, Accept::Damage) = (&target, accept) {
            let text = "--accept-broken-chain is about a stored session: name it with --session, or use --continue";
            return Err(Exit::Refused(text.to_owned()));
        }
        let project = match (&target, accept, &cwd) {
            (Target::New, _, Some(cwd)) | (_, Accept::Damage, Some(cwd)) => Some(cwd.clone()),
            (Target::New, _, None) | (_, Accept::Damage, None) => Some(here()?),
            // A stored session keeps its settings, and only flags change them.
            (Target::Named(_) | Target::Newest, Accept::Nothing, _) => None,
        };
        let config = config::load(shared, args.settings.flags(), project)?;
        let durability = match &target {
            Target::New => Some(config.durability.value),
            Target::Named(_) | Target::Newest => config.durability.by_flag().copied(),
        };
        let (folder, kept) = match (&target, durability) {
            (Target::New, Some(Durability::None)) => (None, SessionHome::InMemory),
            (_, Some(Durability::None)) => {
                let text = "a session that is kept cannot be turned to --durability none: use flush or os";
                return Err(Exit::Refused(text.to_owned()));
            }
            (_, Some(Durability::Flush | Durability::Os) | None) => {
                let (folder, kept) = folders::data_dir(&config, shared)?;
                (Some(folder), kept)
            }
        };
        let session = match (&target, &folder) {
            (Target::New, _) | (_, None) => None,
            (Target::Named(name), Some(folder)) => Some(name.find(folder, || cwd.clone().map_or_else(here, Ok))?),
            (Target::Newest, Some(folder)) => Some(newest(folder, &cwd.clone().map_or_else(here, Ok)?)?),
        };
        let mode = match (args.plan, args.no_plan) {
            (true, _) => Some(Mode::Plan),
            (false, true) => Some(Mode::Act),
            (false, false) => None,
        };
        let (asking, output) = (Asking::default(), args.output);
        let from = from_config(config, &asking, &args.recordings);
        let (said, interrupt) = (Said::default(), None);
        let mut request = Self { said, interrupt, session, folder, kept, asking, from, accept, cwd, mode, output };
        let is_asked = prompt::is_asked_for(args.prompt.as_deref());
        if request.session.is_none() {
            // Before stdin is read: nobody should type a prompt for nothing.
            let settings = request.settings(Timestamp::now())?;
            if let Some(key) = request.from.config.model_by_key() {
                let (model, variable) = (key.choice(), key.variable);
                let text =
                    format!("asking {model}, since {variable} is the one key that is set; --model names another");
                error_line("note: ", &text, Tint::Dim);
            }
            if is_asked {
                request.from.check_now(&settings).map_err(Exit::refused)?;
            }
        }
        request.interrupt = if is_asked { Some(Interrupt::listen()?) } else { None };
        request.said = prompt::read(args.prompt, &args.images, request.interrupt.as_ref())?;
        Ok(request)
    }

    /// The settings of a new session that begins now.
    fn settings(&self, now: Timestamp) -> Result<Settings, Exit> {
        let cwd = self.cwd.clone().map_or_else(here, Ok)?;
        let settings = self.from.settings_at(cwd, now).map_err(Exit::refused)?;
        Ok(Settings { mode: self.mode.unwrap_or_default(), ..settings })
    }

    /// The settings of a stored session, with what flags change.
    fn changed(&self, stored: &Settings) -> Result<Settings, Exit> {
        let mut settings = self.from.changed(stored).map_err(Exit::refused)?;
        settings.mode = self.mode.unwrap_or(settings.mode);
        settings.cwd = self.cwd.clone().unwrap_or(settings.cwd);
        Ok(self.from.retold(stored, settings))
    }

    async fn check(&self, settings: &Settings) -> Result<(), Exit> {
        for model in [&settings.model].into_iter().chain(&settings.fallbacks) {
            let takes_none = match &model.images {
                Some(TakenImages::None) => true,
                Some(TakenImages::Any | TakenImages::Of(_)) => false,
                None => find(&model.provider, &model.id).is_some_and(|known| !known.images),
            };
            if takes_none && self.said.has_pictures() {
                let name = format!("{}/{}", model.provider, model.id);
                return Err(Exit::Refused(format!(
                    "{name} takes no images: choose another model, or leave --image out"
                )));
            }
        }
        self.from.check_prompt(settings, self.said.message(0)).await.map_err(Exit::refused)?;
        self.tell_what_still_reasons(settings);
        Ok(())
    }

    /// Says which of the models reason although somebody asked for none; nobody asked where it is only the default.
    fn tell_what_still_reasons(&self, settings: &Settings) {
        let thinking = &self.from.config.thinking;
        let asked = match &self.session {
            None => thinking.origin != Origin::Default,
            Some(_) => thinking.by_flag().is_some(),
        };
        if !asked || settings.thinking_level != ThinkingLevel::Off || self.output.detail() == Detail::Quiet {
            return;
        }
        for told in [&settings.model].into_iter().chain(&settings.fallbacks).filter_map(|model| still_reasons(model)) {
            error_line("note: ", &format!("thinking off: {told}"), Tint::Dim);
        }
    }
}

/// Runs the prompt, and shows what happens until it is over.
pub async fn run(request: RunRequest) -> Result<(), Exit> {
    let interrupt = request.interrupt.clone().map_or_else(Interrupt::listen, Ok)?;
    if request.session.is_none() {
        request.check(&request.settings(Timestamp::now())?).await?;
    }
    if request.folder.is_none() && request.output.detail() != Detail::Quiet {
        error_line("note: ", "durability none: this session is only in memory and cannot be resumed", Tint::Dim);
    }
    let house = open_house(&request.from, &request.asking, request.folder.clone()).await?;
    let view = View::new(&request.output, Runs::One, &request.asking);
    let mut watch = Watch { view, interrupt, kept: request.kept.clone(), slot: None };
    let done = on_stage(&house, &request, &mut watch).await;
    let done = watch.view.finish(done);
    close_house(&house, &request.asking).await;
    done
}

async fn on_stage(house: &House, request: &RunRequest, watch: &mut Watch) -> Result<(), Exit> {
    let (agent, mut messages) = match &request.session {
        None => {
            let agent = request.from.agent(house, request.settings(begun(house))?).map_err(Exit::refused)?;
            (agent.spawn().await.map_err(Exit::refused)?, Vec::new())
        }
        Some(session) => reopen(house, session, request, watch).await?,
    };
    let session = agent.session_id();
    if watch.interrupt.is_asked() {
        return Err(Exit::Interrupted("interrupted before the prompt was sent".to_owned()));
    }
    let mut events = agent.subscribe_tree_with(EVENTS);
    let input_id = new_input();
    messages.push(Arc::new(request.said.message(house.services().clock.now().wall).into()));
    let prompt = Command::new(input_id.clone(), Op::prompt(messages));
    agent.submit(prompt).await.map_err(|error| watch.not_taken(house, &agent, &error))?;
    if let (Accept::Damage, Some(stored)) = (request.accept, &request.session)
        && *stored != session
    {
        house.name_successor(stored, session.clone()).await.map_err(Exit::refused)?;
    }
    let followed = watch.follow(&agent, &input_id, &mut events).await;
    let done = watch.verdict(followed, &session);
    if let Ok(state) = agent.state().await
        && !state.plan.is_empty()
    {
        watch.view.plan(&watch.kept.short(&session), &state.plan);
    }
    done
}

/// The time by the house's clock.
fn begun(house: &House) -> Timestamp {
    let millis = i64::try_from(house.services().clock.now().wall).unwrap_or_default();
    Timestamp::from_millisecond(millis).unwrap_or_default()
}

/// The agent of a stored session, its unfinished run finished and its settings changed as asked; for a damaged one, with
/// what was still to be said in it.
async fn reopen(
    house: &House,
    session: &SessionId,
    request: &RunRequest,
    watch: &mut Watch,
) -> Result<(AgentHandle, Vec<Arc<AgentMessage>>), Exit> {
    let summary = house.session(session).await.map_err(Exit::refused)?;
    refuse_if_not_ours(&summary)?;
    if let Some(kind) = summary.kind.as_ref().filter(|kind| *kind != KIND) {
        let short = watch.kept.short(session);
        let text = format!("session `{short}` is of the kind `{kind}`: go on with it in the program that made it");
        return Err(Exit::Refused(text));
    }
    match (damaged::advice(&summary, &watch.kept), request.accept) {
        (None, _) => resume::tell_damage(&summary, watch),
        (Some(_), Accept::Damage) => {
            resume::tell_damage(&summary, watch);
            let settings = request.settings(begun(house))?;
            request.check(&settings).await?;
            return damaged::go_on(house, session, settings, &request.from, watch).await;
        }
        (Some(advice), Accept::Nothing) => return Err(Exit::Refused(advice)),
    }
    let stored = house.opened(session).await.map_err(Exit::refused)?.settings;
    let wanted = request.changed(&stored)?;
    request.check(&wanted).await?;
    if summary.status.is_unfinished() && !summary.status.has_ended() {
        match resume::finish(house, &summary, watch, Wake::Asked).await {
            // However that run ended, it is over now.
            Ok(()) => {}
            Err(Exit::Failed(text) | Exit::Limit(text)) => watch.view.note(Tint::Red, &format!("! {text}")),
            Err(
                exit @ (Exit::Refused(_) | Exit::Incomplete(_) | Exit::Interrupted(_) | Exit::HungUp | Exit::Told(_)),
            ) => return Err(exit),
        }
    }
    if wanted != *stored {
        let agent = match house.get(&agent_of(&summary)?) {
            Some(agent) => agent,
            None => {
                let agent = request.from.agent(house, wanted.clone()).map_err(Exit::refused)?;
                let agent = agent.id(agent_of(&summary)?).session(session.clone());
                agent.open().await.map_err(Exit::refused)?
            }
        };
        if let Err(error) = agent.configure(wanted).await {
            return Err(Exit::Refused(parked_reason(house, &agent, &error)));
        }
        // Tools and model are an agent's from its start: it starts again with the new ones.
        house.dismiss(agent.id()).await;
    }
    let agent = house.resume(session).await.map_err(Exit::refused)?;
    match agent.state().await {
        Ok(_) => Ok((agent, Vec::new())),
        Err(error) => Err(Exit::Refused(parked_reason(house, &agent, &error))),
    }
}

fn agent_of(summary: &SessionSummary) -> Result<AgentId, Exit> {
    summary.agent_id.clone().ok_or_else(|| {
        let session = &summary.session_id;
        Exit::Refused(format!("the journal of session `{session}` has lost its first entry; start a new session"))
    })
}

/// The newest session of the directory that this program can go on with.
fn newest(folder: &Path, directory: &Path) -> Result<SessionId, Exit> {
    let is_ours = |session: &SessionSummary| session.kind.as_deref() == Some(KIND);
    session_name::newest(folder, directory, is_ours)?.ok_or_else(|| {
        let directory = directory.display();
        Exit::Refused(format!("there is no session of {directory} to continue: start one without --continue"))
    })
}
