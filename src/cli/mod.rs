//! The command line: `demo`, `run`, `resume`, `plan`, `sessions`, `audit`, `models`, `config`, `doctor`.
//!
//! It owns nothing of its own: a house does the work, and this prints what happens and turns the end into an exit code.

mod args;
mod ask;
mod audit;
mod config;
mod damaged;
mod demo;
mod doctor;
mod follow;
mod house;
mod lanes;
mod log;
mod models;
mod place;
mod plan;
mod recordings;
mod resume;
mod run;
mod sessions;
mod signals;
mod stop;
mod tally;
mod text;
mod view;

use std::process::ExitCode;

use args::{Cli, Command, ConfigCommand, SharedArgs};
use clap::Parser;
use playhouse::config::Config;
use stop::Stop;

/// Does what the command line says; the answer is the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::explain(&error),
    };
    let done = perform(cli);
    signals::let_end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            stop.tell();
            ExitCode::from(stop.code())
        }
    }
}

fn perform(cli: Cli) -> Result<(), Stop> {
    let _log = log::start(cli.shared.log.as_deref())?;
    match cli.command {
        Command::Demo => on_runtime(demo::demo()),
        Command::Run(args) => {
            let plan = run::Plan::new(*args, &cli.shared)?;
            on_runtime(run::run(plan))
        }
        Command::Resume(args) => {
            let config = without_project(&cli.shared)?;
            let kept = place::data_dir(&config, &cli.shared)?;
            on_runtime(resume::resume(args, config, kept))
        }
        Command::Plan(args) => {
            let config = without_project(&cli.shared)?;
            let kept = place::data_dir(&config, &cli.shared)?;
            on_runtime(plan::plan(args, config, kept))
        }
        Command::Sessions(args) => {
            let (folder, _) = place::data_dir(&without_project(&cli.shared)?, &cli.shared)?;
            sessions::sessions(args, &folder)
        }
        Command::Audit(args) => {
            let (folder, _) = place::data_dir(&without_project(&cli.shared)?, &cli.shared)?;
            audit::audit(args, &folder)
        }
        Command::Models(args) => models::models(&args),
        Command::Config(args) => match args.command {
            ConfigCommand::Show(args) => config::show(&args, &cli.shared),
        },
        Command::Doctor(args) => doctor::doctor(&args, &cli.shared),
    }
}

/// The configuration where no project has a say, so that none is looked for.
fn without_project(shared: &SharedArgs) -> Result<Config, Stop> {
    config::load(shared, None, None)
}

fn on_runtime(work: impl Future<Output = Result<(), Stop>>) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Refused(format!("the runtime could not be started: {error}")))?;
    let done = runtime.block_on(work);
    // A thread that still reads the terminal must not hold up the end.
    runtime.shutdown_background();
    done
}
