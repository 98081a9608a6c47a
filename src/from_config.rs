//! Houses and agents as a configuration describes them: what the command line runs, for every program.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use playhouse::config::{Config, Sources};
//! use playhouse::from_config::FromConfig;
//! use playhouse::{journal, prelude::*};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! std::fs::write(folder.join("config.toml"), "model = \"scripted/play.json\"\ntools = [\"read_file\"]\n")?;
//! std::fs::write(folder.join("play.json"), r#"{"turns": [{"text": "Hello from the file."}]}"#)?;
//!
//! let file = Some(folder.join("config.toml"));
//! let from = FromConfig::new(Config::load(&Sources { file, ..Sources::of_this_process() })?);
//! let house = from.house()?.data_dir(folder.join("data")).open().await?;
//! let agent = from.agent(&house, from.settings(folder)?)?.spawn().await?;
//! agent.prompt("Say hello.").await?;
//!
//! let entries = house.entries(&agent.session_id()).await?;
//! assert!(journal::conversation(&entries).ends_with("assistant:\nHello from the file.\n"));
//! # house.shutdown(std::time::Duration::ZERO).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod models;
mod system_prompt;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use playhouse_agent::{Approvals, Definition, SubAgentTool};
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{Durability, ExecutionLimits, Message, SandboxMode};
use playhouse_provider::Answers;
use playhouse_tools::policy::RuleError;
use playhouse_tools::sandbox::is_confining;
use playhouse_tools::{Tool, ToolSet, default_tools};

use crate::builder::{AgentBuilder, plain};
use crate::config::{Config, KeySet, Origin, Position, RuleFile, keys};
use crate::house::{House, HouseBuilder};
use models::Models;
use system_prompt::{Attended, Machine, Surroundings};

/// The kind that journals have for agents made from a configuration: any program that is given a
/// [`FromConfig::house`] can resume them, the command line too.
pub const KIND: &str = "cli";

/// The tool that hands a task to a sub-agent; there only when it is named.
const SUB_AGENT: &str = "sub_agent";

/// The longest system prompt that is read from a file, in bytes.
const MOST_PROMPT: u64 = 256 << 10;

/// The most that a sub-agent may take, however much the agent has that it works for.
const CHILD_TOKENS: u64 = 100_000;
/// What a model is checked with where there is no prompt yet; it is not sent.
const PROBE: &str = "-";
const CHILD_TIME: Duration = Duration::from_secs(300);

/// What is configured cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FromConfigError {
    /// Nobody said which model, and no key is set.
    #[error(
        "which model? no key is set: set that of a service, such as ANTHROPIC_API_KEY (`playhouse models` lists them), or run a model here (`ollama pull qwen3`, then --model ollama/qwen3), or play one with --script FILE"
    )]
    NoModel,
    /// Nobody said which model, and the keys that are set leave that open.
    #[error("which model? {}, or set `model` in your config.toml", choices(.0))]
    SeveralKeys(Vec<KeySet>),
    /// A project's file asks for a service that is the user's to choose.
    #[error("which model? {at} asks for {wanted}, a service that is yours to choose: give --model {wanted}")]
    ModelHeldBack {
        /// Where in the project's file it asks.
        at: Position,
        /// The models, separated by commas.
        wanted: String,
    },
    /// A model's name has no provider that is known; the text says which there are.
    #[error("{0}")]
    UnknownProvider(String),
    /// A script was given the place of a service.
    #[error("a scripted model has no service: leave --base-url out")]
    ScriptHasNoService,
    /// The variable of a key is set to nothing.
    #[error("{0} is set but empty: give it the key, or unset it")]
    EmptyKey(String),
    /// The variable of a key holds something else.
    #[error("{0} is no text: copy the key again")]
    KeyIsNoText(String),
    /// A model cannot be asked; the text says why.
    #[error("{0}")]
    NotAskable(String),
    /// A model to fall back on cannot be asked.
    #[error("the fallback {name} cannot be asked: {reason}")]
    FallbackNotAskable {
        /// The model, with its provider.
        name: String,
        /// What to do about it.
        reason: String,
    },
    /// A rule on what tools may do is none.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The file with the system prompt cannot be used.
    #[error("the system prompt cannot be read from {path}: {reason}; give a UTF-8 text of up to 256 KiB", path = path.display())]
    SystemFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no place for sessions.
    #[error("there is no HOME to keep sessions under: give --data-dir or set PLAYHOUSE_HOME")]
    NoDataDir,
}

/// The text of a file that holds a system prompt.
fn prompt_of(path: &Path) -> Result<String, FromConfigError> {
    let failed = |reason: String| FromConfigError::SystemFile { path: path.to_owned(), reason };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MOST_PROMPT + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    match u64::try_from(text.len()) {
        Ok(0..=MOST_PROMPT) => Ok(text.trim_end().to_owned()),
        Ok(_) | Err(_) => Err(failed("it is too long".to_owned())),
    }
}

/// What to choose from, by the keys that are set.
fn choices(keys: &[KeySet]) -> String {
    let variables: Vec<&str> = keys.iter().map(|key| key.variable).collect();
    let flags: Vec<String> = keys.iter().map(|key| format!("--model {}", key.choice())).collect();
    let is_are = if keys.len() == 1 { "is" } else { "are" };
    format!("{} {is_are} set: choose with {}", variables.join(" and "), flags.join(" or "))
}

/// What is done with the exchanges with services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Exchanges {
    /// Services are asked, and nothing is kept.
    #[default]
    Live,
    /// Services are asked, and every exchange is kept in this folder, without keys.
    Recorded(PathBuf),
    /// The exchanges in this folder answer: no network, no keys.
    Replayed(PathBuf),
}

/// Makes houses and agents as a configuration says.
#[derive(Clone, Debug)]
pub struct FromConfig {
    /// The settings, each with its origin.
    pub config: Config,
    /// Who answers the questions of agents.
    pub approvals: Approvals,
    /// Who answers the questions of their sub-agents.
    pub sub_agent_approvals: Approvals,
    /// Who answers in the place of services.
    pub exchanges: Exchanges,
}

impl FromConfig {
    /// With nobody to answer questions, so that what needs a yes does not run.
    pub fn new(config: Config) -> Self {
        let (approvals, sub_agent_approvals) = (Approvals::Nobody, Approvals::Nobody);
        Self { config, approvals, sub_agent_approvals, exchanges: Exchanges::Live }
    }

    /// A house that keeps to the configuration and can resume the sessions of [`KIND`]. Durability `none` keeps
    /// nothing; else sessions are in the configured data directory, unless the builder is given another.
    pub fn house(&self) -> Result<HouseBuilder, FromConfigError> {
        let config = &self.config;
        let (kind, rules) = (self.clone(), config.permissions.rules()?);
        let house = House::builder()
            .connection_rules(config.connection.rules())
            .service_options(config.connection.options())
            .sandbox(config.confinement.rules())
            .rules(rules)
            .tool_names(config.tool_names.clone())
            .kind(KIND, move |settings| {
                let kind = kind.clone();
                async move {
                    kind.check(&settings).await.map_err(|error| error.to_string())?;
                    Ok(kind.definition(&settings))
                }
            });
        let house = match &config.user_file {
            Some(file) => house.rule_book(RuleFile::new(file)),
            None => house,
        };
        let house = match &self.exchanges {
            Exchanges::Live => house,
            Exchanges::Recorded(folder) => house.record(folder),
            Exchanges::Replayed(folder) => house.replay(folder),
        };
        Ok(match (config.durability.value, &config.data_dir.value) {
            (Durability::None, _) => house,
            (Durability::Flush | Durability::Os, Some(folder)) => house.data_dir(folder),
            (Durability::Flush | Durability::Os, None) => return Err(FromConfigError::NoDataDir),
        })
    }

    /// The settings of a new session whose tools work in `cwd`.
    pub fn settings(&self, cwd: impl AsRef<Path>) -> Result<Settings, FromConfigError> {
        self.settings_at(cwd, Timestamp::now())
    }

    /// As [`FromConfig::settings`], with the date that the system prompt says: that of the house's clock.
    pub fn settings_at(&self, cwd: impl AsRef<Path>, now: Timestamp) -> Result<Settings, FromConfigError> {
        let mut settings = Settings { kind: KIND.to_owned(), cwd: cwd.as_ref().to_owned(), ..plain(Durability::Flush) };
        Models::of_config(&self.config)?.put(&mut settings);
        keys().iter().for_each(|key| key.apply(&self.config, &mut settings));
        settings.system_prompt = match self.given_prompt()? {
            Some(text) => text,
            None => system_prompt::of_agent(&settings, self.surroundings(now)),
        }
        .into();
        Ok(settings)
    }

    /// What the configuration says the system prompt is, if it does.
    fn given_prompt(&self) -> Result<Option<String>, FromConfigError> {
        let Config { system, system_file, .. } = &self.config;
        match &system_file.value {
            Some(path) if system_file.origin.rank() >= system.origin.rank() => prompt_of(path).map(Some),
            Some(_) | None => Ok(system.value.clone()),
        }
    }

    fn surroundings(&self, now: Timestamp) -> Surroundings<'_> {
        let attended = match self.approvals {
            Approvals::Nobody => Attended::ByNobody,
            Approvals::Watcher | Approvals::Inbox | Approvals::Code(_) | Approvals::InTurn(_) => Attended::ByAPerson,
        };
        let now = match self.exchanges {
            Exchanges::Live => Some(now),
            // A recording answers the request that it was made with, wherever and whenever it is played.
            Exchanges::Recorded(_) | Exchanges::Replayed(_) => None,
        };
        let machine = match now {
            Some(_) if !is_confining(SandboxMode::Auto) => Machine::HasNone,
            Some(_) | None => Machine::HasASandbox,
        };
        Surroundings { now, attended, confinement: &self.config.confinement, machine }
    }

    /// The settings of a stored session, with what flags change: files and the environment change nothing in it.
    pub fn changed(&self, stored: &Settings) -> Result<Settings, FromConfigError> {
        let mut settings = stored.clone();
        Models::of_settings(stored).changed(&self.config)?.put(&mut settings);
        let by_flag = keys().iter().filter(|key| matches!(key.row(&self.config).origin, Origin::Flag(_)));
        by_flag.for_each(|key| key.apply(&self.config, &mut settings));
        if self.config.system.by_flag().is_some() || self.config.system_file.by_flag().is_some() {
            settings.system_prompt = self.given_prompt()?.unwrap_or_default().into();
        }
        Ok(self.retold(stored, settings))
    }

    /// New settings of a stored session, with what they change in the system prompt, if that is Playhouse's own.
    pub fn retold(&self, stored: &Settings, mut settings: Settings) -> Settings {
        let text = system_prompt::renewed(stored, &settings, self.surroundings(Timestamp::now()));
        if text != *settings.system_prompt {
            settings.system_prompt = text.into();
        }
        settings
    }

    /// Says why one of the models cannot be asked, if one cannot: for its key, its name, or a setting that it does not
    /// know. Reads scripts and keys.
    pub async fn check(&self, settings: &Settings) -> Result<(), FromConfigError> {
        self.check_prompt(settings, Message::user(PROBE, 0)).await
    }

    /// As [`FromConfig::check`], and whether each model's service takes this prompt's pictures.
    pub async fn check_prompt(&self, settings: &Settings, prompt: Message) -> Result<(), FromConfigError> {
        let (answers, models) = (self.answers(), Models::of_settings(settings));
        let thinking = settings.thinking_level;
        let failed = |error: tokio::task::JoinError| {
            Err(FromConfigError::NotAskable(format!("the model could not be checked: {error}")))
        };
        tokio::task::spawn_blocking(move || models.check(answers, thinking, &prompt)).await.unwrap_or_else(failed)
    }

    /// As [`FromConfig::check`], in the time of whoever asks.
    pub fn check_now(&self, settings: &Settings) -> Result<(), FromConfigError> {
        Models::of_settings(settings).check(self.answers(), settings.thinking_level, &Message::user(PROBE, 0))
    }

    fn answers(&self) -> Answers {
        match self.exchanges {
            Exchanges::Live | Exchanges::Recorded(_) => Answers::Services,
            Exchanges::Replayed(_) => Answers::Recording,
        }
    }

    /// The code for these settings: their tools, the configured hooks, and whoever answers questions. A tool that is gone
    /// is left out: calls to it get an error result.
    pub fn definition(&self, settings: &Settings) -> Definition {
        let named = |tool: &Arc<dyn Tool>| settings.tools.iter().any(|name| name == tool.name());
        let tools = ToolSet::new(default_tools().into_iter().filter(named).collect()).ok();
        let (approvals, hooks) = (self.approvals.clone(), self.config.hooks());
        let agent = Definition { tools, approvals, hooks, ..Definition::default() };
        if !settings.tools.iter().any(|name| name == SUB_AGENT) {
            return agent;
        }
        let limits = ExecutionLimits {
            max_turns: settings.limits.max_turns,
            max_total_tokens: Some(settings.limits.max_total_tokens.unwrap_or(CHILD_TOKENS).min(CHILD_TOKENS)),
            max_duration: Some(settings.limits.max_duration.unwrap_or(CHILD_TIME).min(CHILD_TIME)),
        };
        let child = Definition { approvals: self.sub_agent_approvals.clone(), ..agent.clone() };
        let prompt = system_prompt::of_sub_agent(settings, SUB_AGENT);
        let child = SubAgentTool::new(SUB_AGENT).with_definition(child).with_limits(limits).with_system_prompt(prompt);
        Definition { sub_agents: vec![Arc::new(child)], ..agent }
    }

    /// An agent with these settings, its keys read from the environment: to be spawned, or opened with a session.
    pub fn agent(&self, house: &House, mut settings: Settings) -> Result<AgentBuilder, FromConfigError> {
        Models::of_settings(&settings).with_keys()?.put(&mut settings);
        Ok(house.agent().definition(self.definition(&settings)).settings(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_that_can_be_named_is_there() {
        let mut every: Vec<String> = default_tools().iter().map(|tool| tool.name().to_owned()).collect();
        every.push(SUB_AGENT.to_owned());
        assert_eq!(every, crate::config::TOOLS);
    }
}
