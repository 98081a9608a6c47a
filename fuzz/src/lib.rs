//! What must hold for any input. A target is a function of bytes that panics when it does not hold; `engine.rs` lets
//! libFuzzer look for such bytes, `tests/short.rs` tries some in CI.
//!
//! It writes in a temporary folder and nowhere else, and starts no process.

mod bytes;
mod targets {
    pub(crate) mod arguments;
    pub(crate) mod commands;
    pub(crate) mod output;
    pub(crate) mod paths;
}

/// Something that must hold for any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called; its file has the same name.
    pub name: &'static str,
    /// Panics if it does not hold for these bytes.
    pub run: fn(&[u8]),
    /// Inputs to begin with, which reach what chance would not.
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: [Target; 4] = [
    Target { name: "arguments", run: targets::arguments::run, seeds: targets::arguments::SEEDS },
    Target { name: "commands", run: targets::commands::run, seeds: targets::commands::SEEDS },
    Target { name: "output", run: targets::output::run, seeds: targets::output::SEEDS },
    Target { name: "paths", run: targets::paths::run, seeds: targets::paths::SEEDS },
];
