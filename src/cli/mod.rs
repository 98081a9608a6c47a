//! The command line: `run`, `resume`, `sessions`.
//!
//! It owns nothing of its own: a house does the work, and this prints what happens and turns the end into an exit code.

mod args;
mod ask;
mod follow;
mod kind;
mod model;
mod place;
mod resume;
mod run;
mod sessions;
mod show;
mod signals;
mod stop;
mod text;
mod view;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;
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
        Command::Run(args) => {
            let plan = run::Plan::new(*args, cli.data_dir)?;
            on_runtime(run::run(plan))
        }
        Command::Resume(args) => on_runtime(resume::resume(args, cli.data_dir)),
        Command::Sessions(args) => sessions::sessions(args, &place::data_dir(cli.data_dir)?),
    }
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
