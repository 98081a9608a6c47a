//! The configuration, by running the real program: where settings come from, who wins, what is refused, what acts.

mod acting;
mod allowing;
mod confining;
mod docs;
mod environment;
mod expansion;
mod files;
mod hooks;
mod mistakes;
mod precedence;
mod project;
mod showing;
mod stored;
mod support;
