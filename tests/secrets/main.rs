//! Secrets that the house knows are in nothing it keeps, shows or sends.

mod program;
mod sinks;

#[path = "../support/kit.rs"]
mod kit;
#[allow(dead_code, reason = "the tests of providers use all of it")]
#[path = "../providers/service.rs"]
mod service;
#[allow(dead_code, reason = "the tests of the command line use all of it")]
#[path = "../cli/support.rs"]
mod support;

use std::path::Path;

/// Has a character that JSON and URLs write differently.
pub const SECRET: &str = "canary-9f8e7d6c5b4a/+x\"y";
/// What shows that some of it, in whichever spelling, is there.
pub const TRACE: &str = "canary-9f8e";
/// What begins its base64.
pub const ENCODED_TRACE: &str = "Y2FuYXJ5LTlmO";

/// Everything in a folder, as one text.
pub fn everything(folder: &Path) -> String {
    let mut all = String::new();
    for path in support::files(folder) {
        all.push_str(&path.display().to_string());
        all.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()));
    }
    all
}

/// Fails if there is a trace of the secret.
#[track_caller]
pub fn is_clean(what: &str, text: &str) {
    for trace in [TRACE, ENCODED_TRACE] {
        if let Some(at) = text.find(trace) {
            let around: String = text.chars().skip(at.saturating_sub(200)).take(400).collect();
            panic!("{what}: {around}");
        }
    }
}
