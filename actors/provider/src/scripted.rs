//! A model that plays a script: deterministic, offline.

mod play;
mod script;

pub use play::Scripted;
pub use script::{Failure, Reply, ScriptError, Step, ToolStep, When};
