//! The command line's own kind of agent: its tools by name, who answers its questions, and the user's hooks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::agent::{Definition, Hooks, SubAgentTool};
use playhouse::config::{Config, RuleFile};
use playhouse::protocol::ExecutionLimits;
use playhouse::protocol::entry::Settings;
use playhouse::session::StoreError;
use playhouse::tools::{Tool, ToolSet, default_tools};
use playhouse::{House, OpenError};

use super::ask::Answers;
use super::model::{self, Chain};
use super::recordings::RecordingArgs;
use super::signals;
use super::stop::Stop;

/// The name that journals have for it.
pub const KIND: &str = "cli";

/// The tool that hands a task to a helper; there only when it is asked for.
const SUB_AGENT: &str = "sub_agent";

/// A helper's caps, below those of the agent it works for.
const CHILD_TOKENS: u64 = 100_000;
const CHILD_TIME: Duration = Duration::from_secs(300);

/// What a house of the command line is made of.
pub struct Setup<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Where a yes for good is kept; nowhere without a home.
    pub user_file: Option<PathBuf>,
    /// What is done with the exchanges with services.
    pub recordings: &'a RecordingArgs,
}

/// Opens a house that knows the command line's kind; in memory without a folder.
pub async fn open_house(folder: Option<PathBuf>, setup: Setup<'_>, answers: Answers) -> Result<House, Stop> {
    let Setup { config, user_file, recordings } = setup;
    let hooks = config.hooks();
    let (connection, rules) = (&config.connection, config.permissions.rules().map_err(Stop::refused)?);
    let builder = House::builder()
        .connection_rules(connection.rules())
        .service_options(connection.options())
        .sandbox(config.confinement.rules());
    let builder = match user_file {
        Some(file) => builder.rules(rules).rule_book(RuleFile::new(file)),
        None => builder.rules(rules),
    };
    let (builder, from) = (recordings.wire(builder), recordings.answers());
    let builder = builder.kind(KIND, move |settings: Arc<Settings>| {
        let (answers, hooks) = (answers.clone(), hooks.clone());
        async move {
            model::askable_chain(Chain::of(&settings), from).await?;
            Ok(definition(&settings, &answers, &hooks))
        }
    });
    let opened = match folder {
        Some(folder) => builder.data_dir(folder).open().await,
        None => builder.open().await,
    };
    opened.inspect(signals::watch_over).map_err(|error| match error {
        OpenError::Store(error) => unusable(&error),
        OpenError::PanicAborts(_) | OpenError::Recordings(_) | OpenError::Root(_) => Stop::refused(error),
    })
}

/// Why the data directory cannot be used, and what to do.
pub fn unusable(error: &StoreError) -> Stop {
    match error {
        StoreError::Io { .. } => Stop::Refused(format!("{error}; choose another data directory with --data-dir")),
        _ => Stop::refused(error),
    }
}

/// The code for these settings. A tool that is gone is left out: calls to it get an error result.
pub fn definition(settings: &Settings, answers: &Answers, hooks: &Hooks) -> Definition {
    let named = |tool: &Arc<dyn Tool>| settings.tools.iter().any(|name| name == tool.name());
    let tools = ToolSet::new(default_tools().into_iter().filter(named).collect()).ok();
    let plain = Definition { tools, approvals: answers.shown.clone(), hooks: hooks.clone(), ..Definition::default() };
    if !settings.tools.iter().any(|name| name == SUB_AGENT) {
        return plain;
    }
    let limits = ExecutionLimits {
        max_turns: settings.limits.max_turns,
        max_total_tokens: Some(settings.limits.max_total_tokens.unwrap_or(CHILD_TOKENS).min(CHILD_TOKENS)),
        max_duration: Some(settings.limits.max_duration.unwrap_or(CHILD_TIME).min(CHILD_TIME)),
    };
    let hidden = Definition { approvals: answers.hidden.clone(), ..plain.clone() };
    let helper = SubAgentTool::new(SUB_AGENT).with_definition(hidden).with_limits(limits);
    Definition { sub_agents: vec![Arc::new(helper)], ..plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_that_can_be_named_is_there() {
        let mut every: Vec<String> = default_tools().iter().map(|tool| tool.name().to_owned()).collect();
        every.push(SUB_AGENT.to_owned());
        assert_eq!(every, playhouse::config::TOOLS);
    }
}
