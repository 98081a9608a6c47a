//! `playhouse-bench [--short | --smoke] [part]`: measures, and prints the table. `cargo xtask bench` starts it.

use std::process::ExitCode;

use playhouse_bench::hand::Error;
use playhouse_bench::suite::{Sizes, run};
use playhouse_bench::table::render;
use playhouse_bench::task::{Task, perform};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["task", task] => task_of(task),
        [] => measure(&Sizes::full(), ""),
        ["--short"] => measure(&Sizes::short(), ""),
        ["--smoke"] => measure(&Sizes::smoke(), ""),
        ["--short", part] => measure(&Sizes::short(), part),
        ["--smoke", part] => measure(&Sizes::smoke(), part),
        [part] if !part.starts_with('-') => measure(&Sizes::full(), part),
        _ => {
            Err("usage: playhouse-bench [--short | --smoke] [turns | long | pool | decode | streams | idle | fanout | journal | tools]".into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn task_of(task: &str) -> Result<(), Error> {
    let task: Task = serde_json::from_str(task)?;
    let used = perform(task)?;
    println!("{}", serde_json::to_string(&used)?);
    Ok(())
}

fn measure(sizes: &Sizes, part: &str) -> Result<(), Error> {
    let rows = run(sizes, part, &mut |row| eprintln!("… {row:?}"))?;
    println!("{}", render(&rows));
    Ok(())
}
