//! How the processes of tools are kept in.

use serde::{Deserialize, Serialize};

/// Which sandbox the processes of tools run in, from the loosest to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// None: processes can do what the user can.
    Off,
    /// What works here: Landlock and seccomp, else bubblewrap, else none, which results say.
    #[default]
    Auto,
    /// Landlock and seccomp. Where they don't work, nothing runs.
    Landlock,
    /// Bubblewrap and seccomp. Where they don't work, nothing runs.
    Bwrap,
}

impl SandboxMode {
    /// All, from the loosest.
    pub const ALL: [Self; 4] = [Self::Off, Self::Auto, Self::Landlock, Self::Bwrap];

    /// Its name in files and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
        }
    }
}

/// Whether processes may use the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// They may not use the network.
    #[default]
    Denied,
    /// They may, and local sockets too: those of a container engine or a key agent, if files let them.
    Granted,
}

/// The most that a session's tools get of what a house grants; what is not said is as the house has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBounds {
    /// Whether there is a network at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Processes of a call at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Their memory together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The largest file that one of them may write, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
}

impl SandboxBounds {
    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_as_it_is_called() {
        for mode in SandboxMode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert!(SandboxMode::ALL.is_sorted());
    }
}
