//! The command line's own kind of agent: its tools by name, and who answers its questions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use playhouse::agent::{Definition, SubAgentTool};
use playhouse::protocol::ExecutionLimits;
use playhouse::protocol::entry::Settings;
use playhouse::session::StoreError;
use playhouse::tools::{Tool, ToolSet, default_tools};
use playhouse::{House, OpenError};

use super::ask::Answers;
use super::model;
use super::stop::Stop;

/// The name that journals have for it.
pub const KIND: &str = "cli";

/// The tool that hands a task to a helper; there only when it is asked for.
const SUB_AGENT: &str = "sub_agent";

/// A helper's caps, below those of the agent it works for.
const CHILD_TOKENS: u64 = 100_000;
const CHILD_TIME: Duration = Duration::from_secs(300);

/// Opens a house that knows the command line's kind; in memory without a folder.
pub async fn open_house(folder: Option<PathBuf>, answers: Answers) -> Result<House, Stop> {
    let builder = House::builder().kind(KIND, move |settings| {
        model::check(&settings.model)?;
        Ok(definition(settings, &answers))
    });
    let opened = match folder {
        Some(folder) => builder.data_dir(folder).open().await,
        None => builder.open().await,
    };
    opened.map_err(|error| match error {
        OpenError::Store(error) => unusable(&error),
        OpenError::PanicAborts(_) | OpenError::Root(_) => Stop::refused(error),
    })
}

/// Why the data directory cannot be used, and what to do.
pub fn unusable(error: &StoreError) -> Stop {
    match error {
        StoreError::Io { .. } => Stop::Refused(format!("{error}; choose another data directory with --data-dir")),
        _ => Stop::refused(error),
    }
}

/// The tools that `--tools` names.
pub fn tool_names(flag: Option<&str>) -> Result<Vec<String>, Stop> {
    let Some(flag) = flag else { return Ok(default_tools().iter().map(|tool| tool.name().to_owned()).collect()) };
    if flag.trim() == "none" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = flag.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect();
    if names.is_empty() {
        return Err(Stop::Refused("--tools names no tool: give names separated by commas, or none".to_owned()));
    }
    let every = default_tools().into_iter().chain([SubAgentTool::new(SUB_AGENT).as_tool()]).collect();
    let every = ToolSet::new(every).map_err(Stop::refused)?;
    let chosen = every.select(&names).map_err(Stop::refused)?;
    Ok(chosen.names().map(str::to_owned).collect())
}

/// The code for these settings. A tool that is gone is left out: calls to it get an error result.
pub fn definition(settings: &Settings, answers: &Answers) -> Definition {
    let named = |tool: &Arc<dyn Tool>| settings.tools.iter().any(|name| name == tool.name());
    let tools = ToolSet::new(default_tools().into_iter().filter(named).collect()).ok();
    let plain = Definition { tools, approvals: answers.shown.clone(), ..Definition::default() };
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
    fn tools_are_named_in_the_order_asked_for_and_mistakes_are_corrected() {
        assert_eq!(tool_names(None).unwrap(), ["read_file", "list_files", "bash"]);
        assert_eq!(tool_names(Some("none")).unwrap(), Vec::<String>::new());
        assert_eq!(tool_names(Some(" sub_agent, bash,bash ")).unwrap(), ["sub_agent", "bash"]);
        let Err(Stop::Refused(text)) = tool_names(Some("bsh")) else { panic!() };
        assert!(text.contains("did you mean `bash`?"), "{text}");
        assert!(tool_names(Some(" , ")).is_err());
    }
}
