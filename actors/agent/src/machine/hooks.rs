//! Where the machine asks the user's hooks, and what follows from what they say.
//!
//! `points` has the points at which a hook can be asked and what each is given, `verdict` what a hook can answer at each.
//! `waiting` sends a hook off and takes its answer in; `run_hooks` acts on what is said of a run, `tool_hooks` on what is
//! said of a tool call.

pub(super) mod points;
mod run_hooks;
pub(super) mod tool_hooks;
pub(super) mod verdict;
mod waiting;
