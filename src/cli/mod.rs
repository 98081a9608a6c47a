//! The command line: `demo`, `run`, `resume`, `plan`, `sessions`, `audit`, `models`, `config`, `doctor`,
//! `completions`.
//!
//! It owns nothing of its own: a house does the work, and this prints what happens and turns the end into an exit code.
//!
//! - [`args`]: commands and flags; those of settings come from the configuration's table of keys.
//! - [`commands`]: one file for each command.
//! - [`terminal`]: what a person sees and answers: a run as it happens, questions, signals.
//! - [`house`]: the house that commands work with, and [`folders`]: where they work.
//! - [`session_name`]: sessions by the beginning of their id, or as the last one.
//! - [`prompt`]: what a run is told.
//! - [`log`]: `--log FILE`.
//! - [`exit`]: why the program ends, and with which code.

mod args;
mod commands;
mod exit;
mod folders;
mod house;
mod log;
mod prompt;
mod session_name;
mod terminal;

use std::process::ExitCode;

use args::{Cli, Command, ConfigCommand, Flags, SharedArgs};
use clap::Parser;
use commands::{audit, completions, config, demo, doctor, models, plan, resume, run, sessions};
use exit::Exit;
use playhouse::config::Config;

/// Does what the command line says; the answer is the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::explain(&error),
    };
    let done = perform(cli);
    terminal::signals::let_end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            exit.tell();
            ExitCode::from(exit.code())
        }
    }
}

fn perform(cli: Cli) -> Result<(), Exit> {
    let _log = log::start(cli.shared.log.as_deref())?;
    match cli.command {
        Command::Demo => on_runtime(demo::demo()),
        Command::Run(args) => {
            let request = run::RunRequest::new(*args, &cli.shared)?;
            on_runtime(run::run(request))
        }
        Command::Resume(args) => {
            let config = without_project(&cli.shared, args.allow.flags())?;
            let kept = folders::data_dir(&config, &cli.shared)?;
            on_runtime(resume::resume(args, config, kept))
        }
        Command::Plan(args) => {
            let config = without_project(&cli.shared, args.flags())?;
            let kept = folders::data_dir(&config, &cli.shared)?;
            on_runtime(plan::plan(args, config, kept))
        }
        Command::Sessions(args) => {
            let (folder, kept) = folders::data_dir(&without_project(&cli.shared, Flags::new())?, &cli.shared)?;
            sessions::sessions(args, &folder, &kept)
        }
        Command::Audit(args) => {
            let (folder, kept) = folders::data_dir(&without_project(&cli.shared, Flags::new())?, &cli.shared)?;
            audit::audit(args, &folder, &kept)
        }
        Command::Models(args) => models::models(&args),
        Command::Config(args) => match args.command {
            ConfigCommand::Show(args) => config::show(&args, &cli.shared),
        },
        Command::Doctor(args) => doctor::doctor(&args, &cli.shared),
        Command::Completions { shell } => completions::completions(shell),
    }
}

/// The configuration where no project has a say, so that none is looked for.
fn without_project(shared: &SharedArgs, flags: Flags) -> Result<Config, Exit> {
    config::load(shared, flags, None)
}

fn on_runtime(work: impl Future<Output = Result<(), Exit>>) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Exit::Refused(format!("the runtime could not be started: {error}")))?;
    let done = runtime.block_on(work);
    // A thread that still reads the terminal must not hold up the end.
    runtime.shutdown_background();
    done
}
