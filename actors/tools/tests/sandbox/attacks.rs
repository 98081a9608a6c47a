//! A table of attacks, and what each must give: by tier, and by the user who runs the house.
//!
//! Every attack is a call of `bash`. After each the world around the sandbox is looked at, whatever the attack was and
//! whatever it said: files outside to the last change of their inodes, the user's processes, their terminal, their
//! sockets, and what is still running.

mod after;
mod calls;
mod files;
mod metadata;
mod network;
mod numbers;
mod privileges;
mod processes;
mod reads;
mod world;

use std::process::Command;

use playhouse_protocol::SandboxMode;
use serde_json::json;

use crate::common::{Bench, alive, text, unique_sleep};
use crate::users::User;
use crate::{sandbox, tier_of_this_test, workdir};
use world::World;

/// One attack.
pub struct Attack {
    pub name: &'static str,
    pub script: Script,
    /// What it must give to a house of root's, and to one of an ordinary user's.
    pub landlock: [Must; 2],
    pub bwrap: [Must; 2],
}

/// What an attack runs. Both languages have what [`World::variables`] tells.
pub enum Script {
    Bash(&'static str),
    /// An error that is not caught ends it with a failure, and its words are in the output.
    Python(&'static str),
}

/// What an attack must give. That the world is as it was goes for all of them.
#[derive(Clone, Copy)]
pub enum Must {
    /// It fails, with one of these errors.
    Refused(&'static [&'static str]),
    /// It may fail or not: what it does stays in the sandbox.
    Harmless,
    /// The call is ended, because it takes too much of this.
    Ended(&'static str),
    /// It works, since this tier does not stop it. The documentation of the sandbox says so, in these words.
    Through(&'static str),
}

pub const PERM: &str = "Operation not permitted";
pub const ACCESS: &str = "Permission denied";
pub const NO_FILE: &str = "No such file or directory";
pub const NO_PROCESS: &str = "No such process";
pub const NO_DEVICE: &str = "No such device or address";
pub const READ_ONLY: &str = "Read-only file system";
pub const OTHER_DEVICE: &str = "Invalid cross-device link";
pub const BAD_DESCRIPTOR: &str = "Bad file descriptor";
pub const INVALID: &str = "Invalid argument";
pub const NO_CALL: &str = "Function not implemented";
pub const UNREACHABLE: &str = "Network is unreachable";
pub const NOBODY_LISTENS: &str = "Connection refused";

const DOCUMENTATION: &str = include_str!("../../../../docs/sandbox.md");

/// An attack that must give the same to every user.
pub const fn attack(name: &'static str, script: Script, landlock: Must, bwrap: Must) -> Attack {
    Attack { name, script, landlock: [landlock, landlock], bwrap: [bwrap, bwrap] }
}

impl Attack {
    /// For an ordinary user it must give something else.
    pub const fn for_a_user(mut self, landlock: Must, bwrap: Must) -> Self {
        self.landlock[1] = landlock;
        self.bwrap[1] = bwrap;
        self
    }

    fn must(&self, tier: SandboxMode, user: User) -> Must {
        let by_user = match tier {
            SandboxMode::Bwrap => self.bwrap,
            SandboxMode::Landlock | SandboxMode::Auto | SandboxMode::Off => self.landlock,
        };
        match user {
            User::Root => by_user[0],
            User::Ordinary => by_user[1],
        }
    }
}

fn table() -> impl Iterator<Item = &'static Attack> {
    [
        files::ATTACKS,
        metadata::ATTACKS,
        reads::ATTACKS,
        processes::ATTACKS,
        network::ATTACKS,
        numbers::ATTACKS,
        after::ATTACKS,
        privileges::ATTACKS,
    ]
    .into_iter()
    .flatten()
}

/// What came of an attack.
struct Seen {
    name: String,
    must: String,
    /// The last line of what was said, and how the command ended.
    got: String,
    faults: Vec<String>,
}

impl Seen {
    fn new(name: &str, must: Must, got: &str) -> Self {
        let must = match must {
            Must::Refused(errors) => format!("refused: {}", errors.join(" or ")),
            Must::Harmless => "harmless".to_owned(),
            Must::Ended(limit) => format!("ended: {limit}"),
            Must::Through(_) => "goes through".to_owned(),
        };
        Self { name: name.to_owned(), must, got: got.to_owned(), faults: Vec::new() }
    }
}

#[test]
fn f47_every_attack_of_the_table_gives_what_it_must_in_the_tier_landlock() {
    attacked(SandboxMode::Landlock);
}

#[test]
fn f47_every_attack_of_the_table_gives_what_it_must_in_the_tier_bwrap() {
    attacked(SandboxMode::Bwrap);
}

/// Runs the table in a process that has a home of its own: where keys are is known by it.
fn attacked(tier: SandboxMode) {
    let place = workdir();
    let home = world::home(place.path());
    // It inherits a descriptor, as programs do from careless ones, that commands are not to have from it.
    let mut command = Command::new("bash");
    command.args(["-c", "exec 9>>\"$1\"; shift; exec \"$@\"", "bash"]).arg(place.path().join("outside/kept"));
    command.arg(std::env::current_exe().unwrap());
    command.args(["attacks::runs_the_table", "--exact", "--ignored", "--nocapture"]);
    command.env("HOME", home).env("CANARY", world::CANARY).env("TEST_TIER", tier.as_str());
    let out = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    println!("{said}");
    assert!(out.status.success(), "{tier:?}, {:?}: see above", User::current());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the tests above, with a home of its own"]
async fn runs_the_table() {
    let (tier, user) = (tier_of_this_test(), User::current());
    let mut world = World::new();
    let mut bench = Bench::confined(&world.cwd(), sandbox(tier, world.rules())).await;
    let mut all = Vec::new();
    for attack in table() {
        all.push(one(&mut bench, &mut world, attack, attack.must(tier, user)).await);
    }
    all.append(&mut calls::refused(&mut bench, &mut world).await);
    println!("{:<60} {:<50} seen in {}, {user:?}", "attack", "must be", tier.as_str());
    let mut wrong = 0;
    for Seen { name, must, got, faults } in &all {
        println!("{name:<60} {must:<50} {got}");
        for fault in faults {
            println!("    WRONG: {name}, in {tier:?} for {user:?}: {fault}");
        }
        wrong += usize::from(!faults.is_empty());
    }
    println!("{} attacks in {}, {user:?}; {wrong} of them wrong", all.len(), tier.as_str());
    assert!(all.len() >= 60 && wrong == 0);
}

async fn one(bench: &mut Bench, world: &mut World, attack: &Attack, must: Must) -> Seen {
    let mark = unique_sleep();
    let command = match attack.script {
        Script::Bash(script) => format!("{}\n{script}", world.variables(&mark)),
        Script::Python(script) => format!("{}\n{}", world.variables(&mark), world::python(script)),
    };
    let begun = std::time::Instant::now();
    let answer = bench.run("bash", json!({"command": command, "timeout_ms": 30_000})).await;
    let (said, details) = match &answer {
        Ok(result) => (text(&answer), result.details.clone()),
        Err(error) => (error.to_string(), json!({})),
    };
    let code = details["exit_code"].as_i64();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut seen = Seen::new(attack.name, must, &format!("{last} ({code:?}) {:?}", begun.elapsed()));
    let mut wrong = |is_wrong: bool, what: String| {
        if is_wrong {
            seen.faults.push(what);
        }
    };
    match must {
        Must::Refused(errors) => {
            let is_refused = code != Some(0) && errors.iter().any(|error| said.contains(error));
            wrong(!is_refused, format!("is not refused as it must be, but says {said:?} ({code:?})"));
        }
        Must::Harmless => {}
        Must::Ended(limit) => {
            wrong(details["limit"] != limit, format!("is not ended for {limit}, but says {said:?} ({details})"));
        }
        Must::Through(words) => {
            wrong(code != Some(0), format!("is refused, though the documentation says it is not: {said:?}"));
            let is_told = words_of(DOCUMENTATION).contains(&words_of(words));
            wrong(!is_told, format!("goes through, and docs/sandbox.md does not say {words:?}"));
        }
    }
    wrong(said.contains(world::CANARY), format!("has read a secret: {said:?}"));
    let left = alive(&mark);
    wrong(!left.is_empty(), format!("has left processes running: {left:?}"));
    for pid in left {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
    for change in world.changes() {
        wrong(true, change);
    }
    world.clear();
    seen
}

/// A text without its line breaks.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
