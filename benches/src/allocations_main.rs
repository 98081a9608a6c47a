//! `playhouse-allocations [--short]`: counts what a turn allocates early and late in one conversation, prints it as the
//! other rows of the table, and fails when it grows.

use std::alloc::System;
use std::process::ExitCode;

use playhouse_bench::allocations::{count, rows};
use playhouse_bench::hand::Error;
use playhouse_bench::table::render;
use playhouse_bench::task::perform;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["task", task] => serde_json::from_str(task).map_err(Error::from).and_then(|task| perform(task).map(|_| true)),
        [] => show(&[20, 200, 990]),
        ["--short"] => show(&[20, 200]),
        _ => Err("usage: playhouse-allocations [--short]".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: a turn allocates more, the longer the conversation is");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True when nothing grows.
fn show(turns: &[u64]) -> Result<bool, Error> {
    let rows = rows(&count(turns)?);
    println!("{}", render(&rows));
    Ok(rows.iter().all(|row| row.is_met()))
}
