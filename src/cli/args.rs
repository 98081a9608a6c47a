//! Commands and flags.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum, value_parser};
use playhouse::config::{Config, Flag, Key, Shown, keys};
use playhouse::from_config::Exchanges;
use playhouse::protocol::{EventId, mask_patterns};
use playhouse::session::ChainHash;

use crate::cli::exit::codes_help;
use crate::cli::session_name::SessionName;
use crate::cli::terminal::output::OutputArgs;
use crate::cli::terminal::text::{harmless, stderr_colours};

/// Runs language-model agents that survive crashes.
///
/// Every run is journaled as it happens: what a crash, a kill or a power cut leaves unfinished, `playhouse resume`
/// finishes.
#[derive(Debug, Parser)]
#[command(name = "playhouse", version, arg_required_else_help = true, max_term_width = 120, after_help = codes_help())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of every command.
#[derive(Debug, Args)]
pub struct SharedArgs {
    /// Where sessions are kept [default: $PLAYHOUSE_HOME, or the platform's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Read this file in place of your config.toml [default: $PLAYHOUSE_CONFIG, or the platform's config directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Append what may help to find a fault to this file, without secrets [default: $PLAYHOUSE_LOG, or nowhere]
    #[arg(long, global = true, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// The flag whose value is the name of a file, not a model's.
const SCRIPT: &str = "--script";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows the product at work: twelve sub-agents, real tools, a crash; no key, no network
    Demo,
    /// Prompts an agent and prints its answer as it comes
    #[command(after_help = codes_help())]
    Run(Box<RunArgs>),
    /// Finishes what a dead process left
    ///
    /// Without SESSION: every unfinished session that no live process holds. Nothing to do is no error.
    #[command(after_help = codes_help())]
    Resume(ResumeArgs),
    /// Shows, approves and rejects the changes that `run --plan` has queued
    #[command(after_help = codes_help())]
    Plan(PlanArgs),
    /// Lists, shows and removes sessions
    Sessions(SessionsArgs),
    /// Checks that journals are as they were written, and shows what was decided and done
    Audit(AuditArgs),
    /// Lists the providers, the keys they need, and what is known of their models
    Models(ModelsArgs),
    /// Shows the settings and where they come from
    Config(ConfigArgs),
    /// Says what this machine can do, and what to do about what it can't
    ///
    /// Exit code 1 if something is broken, so that no run works here. What is missing is better to have, or can be named for
    /// a run, as a model can with --model or --script: that is exit code 0.
    Doctor(DoctorArgs),
    /// Prints what a shell needs to complete commands and flags
    ///
    /// bash: `source <(playhouse completions bash)` in ~/.bashrc. zsh: save it as `_playhouse` in a folder of $fpath.
    /// fish: save it as ~/.config/fish/completions/playhouse.fish.
    Completions {
        /// For which shell
        shell: CompletionShell,
    },
}

/// A shell that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to say; `-`, or nothing with input piped in, reads it from stdin, and without both you are asked. What is
    /// piped in beside a prompt is context for it
    pub prompt: Option<String>,
    /// A picture to go with the prompt, PNG, JPEG, GIF or WebP; may be given several times
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    #[command(flatten)]
    pub settings: SettingArgs,
    /// Go on in this session, by its id, the beginning of one, or `last`; flags that are given change its settings
    #[arg(long, value_name = "SESSION", value_parser = SessionName::parse, conflicts_with = "continue")]
    pub session: Option<SessionName>,
    /// Go on in the newest session of this directory
    #[arg(long = "continue")]
    pub r#continue: bool,
    /// Go on with a session whose journal is damaged, as far as it can be read, with today's configuration
    #[arg(long)]
    pub accept_broken_chain: bool,
    /// Plan only: what would change something is queued for `playhouse plan`
    #[arg(long, conflicts_with = "no_plan")]
    pub plan: bool,
    /// Act again in a session that was planning
    #[arg(long)]
    pub no_plan: bool,
    #[command(flatten)]
    pub recordings: RecordingArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags that are settings: they win over the environment and the files, which docs/configuration.md describes.
#[derive(Debug, Args)]
pub struct SettingArgs {
    #[command(flatten)]
    pub given: KeyFlags,
    #[command(flatten)]
    pub allow: AllowArgs,
    /// Where tools work [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
}

impl SettingArgs {
    /// As the configuration takes them.
    pub fn flags(&self) -> Flags {
        self.given.0.iter().cloned().chain(self.allow.flags()).collect()
    }
}

/// Flags of settings, with what they were given.
pub type Flags = Vec<(&'static str, OsString)>;

/// What the sandbox grants for this command alone.
#[derive(Clone, Debug, Default, Args)]
pub struct AllowArgs {
    /// Let tools use the network, or files beside their working directory: `network`, `write=DIR` or `read=DIR`; may be
    /// given several times
    #[arg(long = "allow", value_name = "GRANT")]
    allow: Vec<OsString>,
}

impl AllowArgs {
    /// As the configuration takes them.
    pub fn flags(&self) -> Flags {
        self.allow.iter().map(|grant| ("--allow", grant.clone())).collect()
    }
}

/// The flags that the table of keys has, with what they were given.
#[derive(Debug, Default)]
pub struct KeyFlags(pub Flags);

/// Each with its key. Where sessions are kept is said to every command, in [`SharedArgs`].
fn key_flags() -> impl Iterator<Item = (&'static Key, &'static Flag)> {
    let all = keys().iter().flat_map(|key| key.flags().iter().map(move |flag| (key, flag)));
    all.filter(|(_, flag)| flag.name != "--data-dir")
}

impl Args for KeyFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = Config::default();
        key_flags().fold(command, |command, (key, flag)| {
            let default = match key.row(&defaults).value {
                Shown::Text(text) if !text.is_empty() => format!(" [default: {text}]"),
                Shown::Whole(number) => format!(" [default: {number}]"),
                Shown::List(texts) => format!(" [default: {}]", texts.join(", ")),
                Shown::Text(_) | Shown::Number(_) | Shown::Unset => String::new(),
            };
            let long = flag.name.trim_start_matches('-');
            let arg = Arg::new(flag.name).long(long).value_name(flag.value).help(format!("{}{default}", flag.help));
            command.arg(match (flag.name, flag.words) {
                (SCRIPT, _) => arg.value_parser(value_parser!(PathBuf)).conflicts_with("--model"),
                (_, []) => arg,
                (_, words) => arg.value_parser(PossibleValuesParser::new(words)),
            })
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (_, flag) in key_flags() {
            let Some(value) = matches.get_raw(flag.name).and_then(|mut values| values.next()) else { continue };
            let mut text = OsString::from(if flag.name == SCRIPT { "scripted/" } else { "" });
            text.push(value);
            self.0.push((flag.name, text));
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session to go on with, by its id, the beginning of one, or `last`: one that is not finished, failed, was
    /// aborted, or was stopped by a limit
    #[arg(value_parser = SessionName::parse)]
    pub session: Option<SessionName>,
    /// Without a session: go on with those of all directories, not only of this one
    #[arg(long, conflicts_with = "session")]
    pub all: bool,
    /// Go on with a session whose journal is damaged, as far as it can be read, with today's configuration
    #[arg(long, requires = "session")]
    pub accept_broken_chain: bool,
    #[command(flatten)]
    pub allow: AllowArgs,
    #[command(flatten)]
    pub recordings: RecordingArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(subcommand)]
    pub command: PlanCommand,
}

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Prints the changes that wait
    Show {
        /// Of which session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Print one change per line as JSON
        #[arg(long)]
        json: bool,
    },
    /// Carries the changes out, in order, and lets the agent go on
    #[command(after_help = codes_help())]
    Approve {
        /// Of which session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Only these, by number
        #[arg(value_name = "N")]
        changes: Vec<u32>,
        #[command(flatten)]
        allow: AllowArgs,
        #[command(flatten)]
        recordings: RecordingArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Drops the changes; the agent is told
    Reject {
        /// Of which session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Only these, by number
        #[arg(value_name = "N")]
        changes: Vec<u32>,
        /// Why, for the model
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        #[command(flatten)]
        recordings: RecordingArgs,
    },
}

impl PlanArgs {
    /// What the sandbox grants for this command alone.
    pub fn flags(&self) -> Flags {
        match &self.command {
            PlanCommand::Approve { allow, .. } => allow.flags(),
            PlanCommand::Show { .. } | PlanCommand::Reject { .. } => Flags::new(),
        }
    }
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// One line per session of this directory, the newest first, at most 50
    List {
        /// All of them, and those of other directories too
        #[arg(long)]
        all: bool,
        /// Print one session per line as JSON, those of every directory
        #[arg(long)]
        json: bool,
    },
    /// Prints the conversation of a session
    Show {
        /// The session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Print the journal's entries, one per line, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints what happened in a session, one event per line as JSON, as `run --json` does
    ///
    /// For a reader whose `run --json` was killed: with the id of the last event it got, what comes after. Pieces of
    /// messages and partial results are in no journal; the event that ends a message or a call has the whole.
    Events {
        /// The session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Only what comes after the event with this id
        #[arg(long, value_name = "SEQ.K", value_parser = event_id)]
        after: Option<EventId>,
    },
    /// Removes a session and those of its sub-agents for good
    Rm {
        /// The session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Print what was removed, one per line, as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Checks every record of the journals, its place in their chain, and what is kept beside them
    ///
    /// A record that was changed, removed, added or moved is found. Records cut off the end, and a chain computed anew,
    /// are found by a head that an earlier check printed: give it with --head. Exits with 1 if anything is wrong.
    Verify {
        /// Which, by their ids, the beginnings of those, or `last`; without any, all
        #[arg(value_name = "SESSION", value_parser = SessionName::parse)]
        sessions: Vec<SessionName>,
        /// A head noted earlier, which must be in the chain of one of the sessions; may be given several times
        #[arg(long = "head", value_name = "HASH")]
        heads: Vec<ChainHash>,
        /// Print one session per line as JSON, then the heads
        #[arg(long)]
        json: bool,
    },
    /// Prints what was decided and done in a session, in order
    Show {
        /// The session: its id, the beginning of one, or `last`
        #[arg(value_parser = SessionName::parse)]
        session: SessionName,
        /// Print one decision or effect per line as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Show what is known of this provider's models
    pub provider: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one check per line as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints every setting as `run` would use it here, as TOML
    Show(Box<ShowArgs>),
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Say behind each setting where it comes from
    #[arg(long)]
    pub origin: bool,
    /// Print one setting per line as JSON, with its origin
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// What is done with the exchanges with services.
#[derive(Clone, Debug, Default, Args)]
pub struct RecordingArgs {
    /// Keep every exchange with a service in this folder, without keys
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Let the exchanges in this folder answer: no network, no keys
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
}

impl RecordingArgs {
    /// As a house takes it.
    pub fn exchanges(&self) -> Exchanges {
        match (&self.record, &self.replay) {
            (Some(folder), _) => Exchanges::Recorded(folder.clone()),
            (None, Some(folder)) => Exchanges::Replayed(folder.clone()),
            (None, None) => Exchanges::Live,
        }
    }
}

fn event_id(text: &str) -> Result<EventId, String> {
    EventId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

/// Prints help and version, or what is wrong with the flags, in clap's own layout.
pub fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // With nobody to read it there is nothing to do about it.
            let _ = error.print();
        }
        _ => {
            let text = error.render();
            // It repeats what was given, which must not control a terminal: then it has no colours of its own either.
            let is_plain = |given: OsString| !given.to_string_lossy().chars().any(char::is_control);
            let text = match stderr_colours() && std::env::args_os().all(is_plain) {
                true => text.ansi().to_string(),
                false => harmless(&text.to_string()),
            };
            let _ = io::stderr().lock().write_all(mask_patterns(&text).as_bytes());
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_a_setting_is_passed_on() {
        let flags: BTreeSet<&str> = keys().iter().flat_map(|key| key.flags()).map(|flag| flag.name).collect();
        let given = |flag: &&str| {
            let value = match *flag {
                "--thinking" => "low",
                "--durability" => "os",
                "--permission" => "yolo",
                "--sandbox" => "off",
                _ => "x",
            };
            let cli = Cli::try_parse_from(["playhouse", "run", flag, value]).unwrap();
            let Command::Run(args) = cli.command else { panic!() };
            match (args.settings.given.0.as_slice(), cli.shared.data_dir) {
                ([(name, _)], None) => *name,
                ([], Some(_)) => "--data-dir",
                other => panic!("{flag}: {other:?}"),
            }
        };
        let passed: BTreeSet<&str> = flags.iter().map(given).collect();
        assert_eq!(passed, flags);
    }
}
