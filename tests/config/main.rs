//! The configuration, by running the real program: where settings come from, who wins, what is refused, what acts.

mod acting;
mod docs;
mod environment;
mod expansion;
mod files;
mod mistakes;
mod precedence;
mod project;
mod showing;
mod stored;
mod support;
