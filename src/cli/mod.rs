//! The command line: `demo`, `run`, `resume`, `sessions`, `config`.
//!
//! It owns nothing of its own: a house does the work, and this prints what happens and turns the end into an exit code.

mod args;
mod ask;
mod config;
mod demo;
mod follow;
mod kind;
mod lanes;
mod model;
mod place;
mod resume;
mod run;
mod sessions;
mod settings;
mod show;
mod signals;
mod stop;
mod tally;
mod text;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use args::{Cli, Command, ConfigCommand, SharedArgs};
use clap::Parser;
use follow::Kept;
use stop::Stop;

/// Does what the command line says; the answer is the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::explain(&error),
    };
    match perform(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            stop.tell();
            ExitCode::from(stop.code())
        }
    }
}

fn perform(cli: Cli) -> Result<(), Stop> {
    match cli.command {
        Command::Demo => on_runtime(demo::demo()),
        Command::Run(args) => {
            let plan = run::Plan::new(*args, &cli.shared)?;
            on_runtime(run::run(plan))
        }
        Command::Resume(args) => on_runtime(resume::resume(args, kept_in(&cli.shared)?)),
        Command::Sessions(args) => sessions::sessions(args, &kept_in(&cli.shared)?.0),
        Command::Config(args) => match args.command {
            ConfigCommand::Show(args) => config::show(&args, &cli.shared),
        },
    }
}

/// Where sessions are kept. No project has a say in it, so that none is looked for.
fn kept_in(shared: &SharedArgs) -> Result<(PathBuf, Kept), Stop> {
    place::data_dir(&config::load(shared, None, None)?, shared)
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
