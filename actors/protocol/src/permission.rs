//! What a tool call may do, what is asked before it does, and what an answer is worth.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::PermissionMode;
use crate::ids::InputId;
use crate::sandbox::SandboxBounds;

/// How much harm a call can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// None that anyone need be asked about.
    #[default]
    None,
    /// It looks at things and changes nothing.
    ReadOnly,
    /// It changes files beneath the working directory.
    Write,
    /// It runs programs, which can do what the sandbox lets them.
    Execute,
    /// It can destroy or give away what cannot be brought back.
    Dangerous,
    /// It is never run, in whatever mode.
    Forbidden,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::ReadOnly => "read-only",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Dangerous => "dangerous",
            Self::Forbidden => "forbidden",
        })
    }
}

/// How long a yes holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// For this call and no other.
    #[default]
    Once,
    /// For calls like it, in this session.
    Session,
    /// For calls like it, from now on: kept in the user's configuration.
    Always,
}

impl GrantScope {
    /// Whether this is the default.
    fn is_once(&self) -> bool {
        *self == Self::Once
    }
}

/// What a mode does with a call that no rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// It runs without a question.
    Run,
    /// It runs after a yes.
    Ask,
    /// It does not run, and nobody is asked.
    Refuse,
}

impl PermissionMode {
    /// What this mode does with a call of this level that no rule speaks of.
    ///
    /// | level | strict | ask | auto-safe | yolo |
    /// |---|---|---|---|---|
    /// | none | run | run | run | run |
    /// | read-only | ask | run | run | run |
    /// | write | ask | ask | run | run |
    /// | execute | ask | ask | ask | run |
    /// | dangerous | refuse | ask | ask | run |
    /// | forbidden | refuse | refuse | refuse | refuse |
    pub fn stance(self, level: Level) -> Stance {
        match (self, level) {
            (_, Level::None) => Stance::Run,
            (_, Level::Forbidden) | (Self::Strict, Level::Dangerous) => Stance::Refuse,
            (Self::Yolo, _) => Stance::Run,
            (Self::Ask | Self::AutoSafe, Level::ReadOnly) | (Self::AutoSafe, Level::Write) => Stance::Run,
            (Self::Strict | Self::Ask | Self::AutoSafe, _) => Stance::Ask,
        }
    }
}

/// What a call is about, for rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that a rule could name.
    #[default]
    Nothing,
    /// A file or folder, relative to the working directory.
    Path(String),
    /// A command line, as a shell would read it.
    Command(String),
}

/// Rules that a session brings with it, whatever holds elsewhere: it can only be stricter for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restrictions {
    /// What is asked about in any mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// What never runs, in any mode and after any yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<String>,
    /// The most that the sandbox of its tools grants.
    #[serde(default, skip_serializing_if = "SandboxBounds::is_empty")]
    pub sandbox: SandboxBounds,
}

impl Restrictions {
    /// Whether nothing is restricted.
    pub fn is_empty(&self) -> bool {
        let Self { ask, forbid, sandbox } = self;
        ask.is_empty() && forbid.is_empty() && sandbox.is_empty()
    }
}

/// What a policy says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may run without a question.
    Allow {
        /// Who says so, for the record.
        by: Cow<'static, str>,
    },
    /// Someone is to be asked.
    Ask(Question),
    /// It may not run, whoever says yes.
    Forbid {
        /// Why; the model gets this.
        reason: String,
    },
}

/// What is asked before a call runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What the call wants to do.
    pub reason: String,
    /// How much harm it can do.
    #[serde(default)]
    pub level: Level,
    /// The longest that a yes can hold.
    #[serde(default, skip_serializing_if = "GrantScope::is_once")]
    pub offer: GrantScope,
    /// The rules that a yes for longer adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// An answer to a question for permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PermissionDecision {
    /// Do it, this once; the next call like it is asked about again.
    Allow,
    /// Do it, and what is like it in this session.
    AllowSession,
    /// Do it, and what is like it from now on.
    AllowAlways,
    /// Don't; the model is told why.
    Deny {
        /// What the model is told.
        reason: String,
    },
}

impl PermissionDecision {
    /// How long a yes holds; `None` for a no.
    pub fn scope(&self) -> Option<GrantScope> {
        match self {
            Self::Allow => Some(GrantScope::Once),
            Self::AllowSession => Some(GrantScope::Session),
            Self::AllowAlways => Some(GrantScope::Always),
            Self::Deny { .. } => None,
        }
    }
}

/// An answer as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionAnswer {
    /// A yes with its scope, or a no with its reason.
    pub decision: PermissionDecision,
    /// The rules that hold from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The answerer's id for it; `None` when nobody answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_id: Option<InputId>,
}

/// How a call came to be allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// How much harm it can do.
    pub level: Level,
    /// Who said so: the mode, a rule, an answer, a plan.
    pub allowed_by: Cow<'static, str>,
}

/// What a call touches, which says what may run beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may touch anything: nothing runs beside it.
    Alone,
    /// It minds only calls that run alone: a sub-agent.
    Free,
    /// It reads what lies here; `None` is anywhere.
    Reads(Option<String>),
    /// It writes what lies here.
    Writes(String),
}

impl Access {
    /// Whether two calls must not run at the same time.
    pub fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alone, _) | (_, Self::Alone) => true,
            (Self::Free, _) | (_, Self::Free) | (Self::Reads(_), Self::Reads(_)) => false,
            (Self::Reads(None), Self::Writes(_)) | (Self::Writes(_), Self::Reads(None)) => true,
            (Self::Reads(Some(a)) | Self::Writes(a), Self::Reads(Some(b)) | Self::Writes(b)) => overlap(a, b),
        }
    }
}

/// Whether one path is the other, or lies in it. Names are compared as written, `.` and `..` resolved.
fn overlap(a: &str, b: &str) -> bool {
    let (a, b) = (parts(a), parts(b));
    a.iter().zip(&b).all(|(a, b)| a == b)
}

fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Network;

    const LEVELS: [Level; 6] =
        [Level::None, Level::ReadOnly, Level::Write, Level::Execute, Level::Dangerous, Level::Forbidden];

    #[test]
    fn a_stricter_mode_never_lets_more_through() {
        let rank = |stance: Stance| match stance {
            Stance::Run => 0,
            Stance::Ask => 1,
            Stance::Refuse => 2,
        };
        let modes = [PermissionMode::Yolo, PermissionMode::AutoSafe, PermissionMode::Ask, PermissionMode::Strict];
        for level in LEVELS {
            let ranks = modes.map(|mode| rank(mode.stance(level)));
            assert!(ranks.is_sorted(), "{level}: {ranks:?}");
        }
        for mode in modes {
            let ranks = LEVELS.map(|level| rank(mode.stance(level)));
            assert!(ranks.is_sorted(), "{mode:?}: {ranks:?}");
            assert_eq!((ranks.first(), ranks.last()), (Some(&0), Some(&2)));
        }
    }

    #[test]
    fn restrictions_are_read_and_written_as_far_as_there_are_some() {
        let read = |text: &str| serde_json::from_str::<Restrictions>(text).unwrap();
        assert!(read("{}").is_empty());
        let old = read(r#"{"forbid":["bash(rm *)"]}"#);
        assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"forbid":["bash(rm *)"]}"#);
        let text = r#"{"sandbox":{"network":"denied","processes":7}}"#;
        let bounds = SandboxBounds { network: Some(Network::Denied), processes: Some(7), ..SandboxBounds::default() };
        assert_eq!(read(text), Restrictions { sandbox: bounds, ..Restrictions::default() });
        assert!(!read(text).is_empty());
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
    }

    #[test]
    fn calls_that_touch_the_same_place_wait_for_each_other() {
        let reads = |path: &str| Access::Reads(Some(path.to_owned()));
        let writes = |path: &str| Access::Writes(path.to_owned());
        for (a, b) in [
            (Access::Alone, Access::Free),
            (Access::Alone, reads("a")),
            (Access::Alone, Access::Alone),
            (writes("a"), writes("./a")),
            (writes("src/../a"), reads("a")),
            (writes("src/a"), reads("src")),
            (writes("src/a"), reads(".")),
            (writes("a"), Access::Reads(None)),
        ] {
            assert!(a.conflicts(&b) && b.conflicts(&a), "{a:?} {b:?}");
        }
        for (a, b) in [
            (Access::Free, Access::Free),
            (Access::Free, writes("a")),
            (reads("a"), reads("a")),
            (Access::Reads(None), reads("a")),
            (writes("a"), writes("b")),
            (writes("src/a"), writes("src/ab")),
            (writes("src/a"), reads("src/b")),
        ] {
            assert!(!a.conflicts(&b) && !b.conflicts(&a), "{a:?} {b:?}");
        }
    }
}
