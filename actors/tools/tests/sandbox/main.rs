//! A stranger at the keyboard: attacks through the real `bash`, in each sandbox that this machine must have.
//!
//! Nothing here is skipped: where the kernel can't keep processes in, these tests fail.

mod attacks;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod limits;
mod reach;
mod users;
mod work;

use std::sync::Arc;

use common::{Bench, text};
use playhouse_protocol::SandboxMode;
use playhouse_tools::{Sandbox, SandboxRules};
use serde_json::json;

const TIERS: [SandboxMode; 2] = [SandboxMode::Landlock, SandboxMode::Bwrap];

fn sandbox(mode: SandboxMode, rules: SandboxRules) -> Sandbox {
    Sandbox { mode, rules: Arc::new(rules) }
}

fn plain(mode: SandboxMode) -> Sandbox {
    sandbox(mode, SandboxRules::default())
}

/// A folder to work in, not beneath the shared temporary one, which the strict tier replaces with its own.
fn workdir() -> tempfile::TempDir {
    tempfile::tempdir_in(users::folder()).unwrap()
}

/// What a command says, and its exit code.
async fn bash(bench: &mut Bench, command: &str) -> (String, Option<i64>) {
    let answer = bench.run("bash", json!({"command": command, "timeout_ms": 60_000})).await;
    let code = answer.as_ref().expect("a result").details["exit_code"].as_i64();
    (text(&answer), code)
}

/// A system call by its number, from a program that has no other way.
fn call(number: i64, arguments: &str) -> String {
    format!(
        "python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.syscall({number}, {arguments}); \
         print(r, os.strerror(ctypes.get_errno()) if r < 0 else \"done\")'"
    )
}

fn tier_of_this_test() -> SandboxMode {
    let named = std::env::var("TEST_TIER").unwrap();
    SandboxMode::ALL.into_iter().find(|mode| mode.as_str() == named).unwrap()
}
