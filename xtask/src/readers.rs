//! `cargo xtask fuzz readers`: runs programs that are judged to only read, with generated options, in a sandbox and while
//! their calls are watched, for as long as one likes. It is a test of `playhouse-tools`, which needs `bwrap` and `strace`.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::fuzz::{Refusal, broken};

const TEST: &str = "f62_programs_that_are_judged_to_only_read_do_so_with_any_options";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The variable that bounds the test, and its value.
    bound: (&'static str, u64),
    /// Where the generator begins; somewhere else each time if nobody says.
    seed: Option<u64>,
}

impl Asked {
    /// Reads the arguments after `fuzz readers`.
    pub fn read(args: &[&str]) -> Result<Self, Refusal> {
        let usage = |why: String| Err(Refusal::Usage(why));
        let (mut bound, mut seed) = (None, None);
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let Some(value) = args.next() else { return usage(format!("`{flag}` needs a value")) };
            let Ok(value) = value.parse::<u64>() else { return usage(format!("`{flag}` is a whole number")) };
            match (*flag, bound) {
                ("--seed", _) => seed = Some(value),
                ("--seconds" | "--lines", Some(_)) => return usage("`--seconds` or `--lines`: choose".to_owned()),
                ("--seconds", None) => bound = Some(("PLAYHOUSE_SECONDS", value)),
                ("--lines", None) => bound = Some(("PLAYHOUSE_LINES", value)),
                (unknown, _) => return usage(format!("`fuzz readers` knows no `{unknown}`")),
            }
        }
        match bound {
            Some(bound) if bound.1 > 0 => Ok(Self { bound, seed }),
            Some(_) => usage("`--seconds` and `--lines` are at least 1".to_owned()),
            None => usage("`fuzz readers` needs `--seconds N` or `--lines N`".to_owned()),
        }
    }
}

/// Runs the test; fails if a line did more than read.
pub fn run(root: &Path, asked: &Asked) -> Result<ExitCode, Refusal> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = asked.seed.unwrap_or_else(now);
    let (variable, value) = asked.bound;
    let mut command = crate::cargo::command();
    command.args(["test", "--locked", "--quiet", "--package", "playhouse-tools", "--test", "shell", TEST]);
    command.args(["--", "--nocapture"]).current_dir(root);
    command.env(variable, value.to_string()).env("PLAYHOUSE_SEED", seed.to_string());
    let status = command.status().map_err(broken("cargo did not start"))?;
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: the seed was {seed}; `--seed {seed}` makes the same lines again");
    Ok(ExitCode::FAILURE)
}
