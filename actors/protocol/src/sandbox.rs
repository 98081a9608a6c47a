//! How the processes of tools are kept in.

use serde::{Deserialize, Serialize};

/// Which sandbox the processes of tools run in, from the loosest to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// None.
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
