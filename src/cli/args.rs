//! The flags.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use playhouse::protocol::{Durability, PermissionMode, SessionId};

use super::text::{Tint, error_line};

/// Runs language-model agents that survive crashes.
///
/// Every run is journaled as it happens: what a crash, a kill or a power cut leaves unfinished, `playhouse resume`
/// finishes.
#[derive(Debug, Parser)]
#[command(name = "playhouse", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Where sessions are kept [default: $PLAYHOUSE_HOME, or the platform's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the run failed, 2 refused before a run started, 3 a limit stopped it, 130 interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prompts an agent and prints its answer as it comes
    #[command(after_help = EXIT_CODES)]
    Run(Box<RunArgs>),
    /// Finishes what a dead process left
    ///
    /// Without SESSION: every unfinished session that no live process holds. Nothing to do is no error.
    #[command(after_help = EXIT_CODES)]
    Resume(ResumeArgs),
    /// Lists, shows and removes sessions
    Sessions(SessionsArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to say; `-`, or nothing with input piped in, reads it from stdin
    pub prompt: Option<String>,
    /// The model: openai/ID (key from OPENAI_API_KEY) or scripted/FILE
    #[arg(long, value_name = "PROVIDER/ID")]
    pub model: Option<String>,
    /// Play a script file instead of asking a model; the same as --model scripted/FILE
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub script: Option<PathBuf>,
    /// Where the model's service is, with its /v1 [default: $OPENAI_BASE_URL, or the provider's own]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Tools by name, separated by commas, or `none` [default: read_file,list_files,bash; also: sub_agent]
    #[arg(long, value_name = "NAMES")]
    pub tools: Option<String>,
    /// Where tools work [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Stop after this many model calls [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// Go on in this session; flags that are given change its settings
    #[arg(long, value_name = "ID", value_parser = session_id, conflicts_with = "continue")]
    pub session: Option<SessionId>,
    /// Go on in the newest session of this directory
    #[arg(long = "continue")]
    pub r#continue: bool,
    /// How safe the session is: `flush` survives a power cut, `os` a crash, `none` nothing [default: flush]
    #[arg(long, value_name = "LEVEL")]
    pub durability: Option<DurabilityFlag>,
    /// Whether tools like bash ask first (without a terminal: are denied) or just run [default: ask]
    #[arg(long, value_name = "MODE")]
    pub permission: Option<PermissionFlag>,
    /// Print one event per line as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session to finish
    #[arg(value_parser = session_id)]
    pub session: Option<SessionId>,
    /// Print one event per line as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// One line per session, the newest first
    List {
        /// Print one session per line as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the conversation of a session
    Show {
        /// Which
        #[arg(value_parser = session_id)]
        session: SessionId,
        /// Print the journal's entries, one per line, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes a session and those of its sub-agents for good
    Rm {
        /// Which
        #[arg(value_parser = session_id)]
        session: SessionId,
        /// Print what was removed, one per line, as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurabilityFlag {
    Flush,
    Os,
    None,
}

impl From<DurabilityFlag> for Durability {
    fn from(flag: DurabilityFlag) -> Self {
        match flag {
            DurabilityFlag::Flush => Self::Flush,
            DurabilityFlag::Os => Self::Os,
            DurabilityFlag::None => Self::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PermissionFlag {
    Ask,
    Yolo,
}

impl From<PermissionFlag> for PermissionMode {
    fn from(flag: PermissionFlag) -> Self {
        match flag {
            PermissionFlag::Ask => Self::Ask,
            PermissionFlag::Yolo => Self::Yolo,
        }
    }
}

fn session_id(text: &str) -> Result<SessionId, String> {
    SessionId::new(text).map_err(|error| error.to_string())
}

/// Prints help and version as they are, and what is wrong with the flags on one line.
pub fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // With nobody to read it there is nothing to do about it.
            let _ = error.print();
        }
        _ => {
            let text = error.render().to_string();
            let told: Vec<&str> = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
                .collect();
            let told = told.join("; ");
            let told = told.strip_prefix("error: ").unwrap_or(&told);
            error_line("error: ", &format!("{told}; try --help"), Tint::Red);
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
