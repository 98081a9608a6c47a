//! The start-up check that supervision can work at all. This file uses only the standard library.

use std::error::Error;
use std::fmt;

/// The program was built so that a panic ends the process instead of one actor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PanicAborts;

impl fmt::Display for PanicAborts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "built with panic = \"abort\": the first panic would end every agent, and nothing could be restarted; \
             remove that line from [profile.*] in Cargo.toml (or set panic = \"unwind\", or drop -C panic=abort \
             from RUSTFLAGS) and build again",
        )
    }
}

/// As people are told it: a program whose `main` gives errors back shows them in this form.
impl fmt::Debug for PanicAborts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for PanicAborts {}

/// Refuses a build in which a panic cannot be survived. Call it first, at start-up.
pub fn unwinding() -> Result<(), PanicAborts> {
    if cfg!(panic = "unwind") { Ok(()) } else { Err(PanicAborts) }
}
