//! The command line, by running the real program: what it prints, what it refuses, how it ends.

#[path = "cli/support.rs"]
mod support;

#[path = "cli/answer.rs"]
mod answer;
#[path = "cli/asking.rs"]
mod asking;
#[path = "cli/audit.rs"]
mod audit;
#[path = "cli/completing.rs"]
mod completing;
#[path = "cli/damage.rs"]
mod damage;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/full_disk.rs"]
mod full_disk;
#[path = "cli/judging.rs"]
mod judging;
#[path = "cli/keeping.rs"]
mod keeping;
#[path = "cli/looking.rs"]
mod looking;
#[path = "cli/models.rs"]
mod models;
#[path = "cli/naming.rs"]
mod naming;
#[path = "cli/permitting.rs"]
mod permitting;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/requests.rs"]
mod requests;
#[path = "cli/resuming.rs"]
mod resuming;
#[path = "cli/running.rs"]
mod running;
#[path = "cli/showing.rs"]
mod showing;
#[path = "cli/states.rs"]
mod states;
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/telling.rs"]
mod telling;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/typing.rs"]
mod typing;
#[path = "cli/wires.rs"]
mod wires;
