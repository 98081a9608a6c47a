//! What the processes of tools are kept in: the keys `sandbox…` and `tool_env`.

use std::path::{Component, Path, PathBuf};

use playhouse_protocol::{SandboxBounds, SandboxMode};
use playhouse_tools::sandbox::{NEVER_PASSED, passes};
use playhouse_tools::{Network, ProcessLimits, SandboxRules};

use crate::config::keys::narrow::Narrowed;
use crate::config::keys::shown::Shown;
use crate::config::keys::types::rooted;
use crate::config::keys::value::{Bad, Codec, Given};
use crate::config::sections::settings;

settings! {
    /// What the sandbox grants, and which variables tools get.
    Confinement {
        /// Files and folders that may be read and executed beside the system's own.
        read: Vec<PathBuf> = Vec::new(),
        /// Folders that may be written beside the working directory.
        write: Vec<PathBuf> = Vec::new(),
        /// Whether there is a network.
        network: Network = Network::Denied,
        /// Processes of a call at once.
        processes: u32 = ProcessLimits::default().processes,
        /// Their memory together, in megabytes.
        memory_mb: u32 = megabytes(ProcessLimits::default().memory),
        /// The largest file that one of them may write.
        file_mb: u32 = megabytes(ProcessLimits::default().file),
        /// Variables that tools get beside the usual ones.
        environment: Vec<String> = Vec::new(),
        /// Files and folders of a project whose change is dangerous, beside the usual ones.
        guarded: Vec<String> = Vec::new(),
    }
    beside {
        /// The file that says all this, which no tool gets.
        hidden: Vec<PathBuf>,
    }
}

impl Confinement {
    /// As a house takes it.
    pub(crate) fn rules(&self) -> SandboxRules {
        SandboxRules {
            read: self.read.value.clone(),
            write: self.write.value.clone(),
            network: self.network.value,
            limits: ProcessLimits {
                processes: self.processes.value,
                memory: bytes(self.memory_mb.value),
                file: bytes(self.file_mb.value),
            },
            environment: self.environment.value.clone(),
            hidden: self.hidden.clone(),
            guarded: self.guarded.value.clone(),
            // Each session has its own.
            bounds: SandboxBounds::default(),
        }
    }
}

fn megabytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

pub(crate) fn bytes(mb: u32) -> u64 {
    u64::from(mb) << 20
}

pub(crate) const SANDBOX: Codec<SandboxMode> = Codec {
    takes: "`auto`, `landlock`, `bwrap` or `off`",
    read: |given, _| given.one_of(&SandboxMode::ALL.map(|mode| (mode.as_str(), mode))),
    show: |mode| Shown::Text(mode.as_str().to_owned()),
};

pub(crate) const NETWORK: Codec<Network> = Codec {
    takes: "`denied` or `granted`",
    read: |given, _| given.one_of(&[("denied", Network::Denied), ("granted", Network::Granted)]),
    show: |network| {
        let word = match network {
            Network::Denied => "denied",
            Network::Granted => "granted",
        };
        Shown::Text(word.to_owned())
    },
};

pub(crate) const FOLDERS: Codec<Vec<PathBuf>> = Codec {
    takes: "a list of folders",
    read: |given, folder| {
        let in_file = matches!(given, Given::List(_));
        let paths = given.list()?;
        if in_file && paths.iter().any(|path| path == "~" || path.starts_with("~/")) {
            return Err(Bad::Because("`~` is not replaced here: write ${HOME}".to_owned()));
        }
        if paths.iter().any(String::is_empty) {
            return Err(Bad::NotThis);
        }
        Ok(paths.into_iter().map(|path| rooted(path.into(), folder)).collect())
    },
    show: |paths| Shown::List(paths.iter().map(|path| path.display().to_string()).collect()),
};

pub(crate) const NAMES: Codec<Vec<String>> = Codec {
    takes: "a list of names of variables",
    read: |given, _| {
        let names = given.list()?;
        match names.iter().find(|name| !passes(name)) {
            Some(name) => {
                let (name, never): (String, String) = (name.chars().take(80).collect(), NEVER_PASSED.join(", "));
                Err(Bad::Because(format!(
                    "`{name}` is never passed on to tools: leave it out (so are {never}, which run before the command)"
                )))
            }
            None => Ok(names),
        }
    },
    show: |names| Shown::List(names.clone()),
};

pub(crate) const GUARDED: Codec<Vec<String>> = Codec {
    takes: "a list of files and folders, as seen from a project",
    read: |given, _| {
        let places = given.list()?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let is_place = |place: &String| !place.is_empty() && Path::new(place).components().all(is_plain);
        if !places.iter().all(is_place) {
            let text = "each is named as in `deploy/prod.yaml`, without `/` before it and without `.` and `..`";
            return Err(Bad::Because(text.to_owned()));
        }
        Ok(places)
    },
    show: |places| Shown::List(places.clone()),
};

/// A project may have itself kept in more strictly.
pub(crate) fn stricter(now: &SandboxMode, wanted: SandboxMode) -> Narrowed<SandboxMode> {
    match wanted {
        SandboxMode::Off => Narrowed::Refused("whether tools run without a sandbox is the user's to say"),
        SandboxMode::Auto | SandboxMode::Landlock | SandboxMode::Bwrap if wanted >= *now => Narrowed::Granted(wanted),
        SandboxMode::Auto | SandboxMode::Landlock | SandboxMode::Bwrap => Narrowed::Less(None),
    }
}

/// A project may do without the network.
pub(crate) fn less_network(_: &Network, wanted: Network) -> Narrowed<Network> {
    match wanted {
        Network::Denied => Narrowed::Granted(Network::Denied),
        Network::Granted => Narrowed::Refused("whether tools get the network is the user's to say"),
    }
}

/// A project may do with less.
pub(crate) fn lower(now: &u32, wanted: u32) -> Narrowed<u32> {
    if wanted <= *now { Narrowed::Granted(wanted) } else { Narrowed::Less(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_a_house() {
        assert_eq!(Confinement::default().rules(), SandboxRules::default());
    }

    #[test]
    fn f49_a_sandbox_is_only_made_stricter_by_a_project() {
        use SandboxMode::{Auto, Bwrap, Landlock, Off};
        for now in SandboxMode::ALL {
            assert!(matches!(stricter(&now, Off), Narrowed::Refused(_)));
            assert_eq!(stricter(&now, Bwrap), Narrowed::Granted(Bwrap));
        }
        assert_eq!(stricter(&Off, Auto), Narrowed::Granted(Auto));
        assert_eq!(stricter(&Bwrap, Landlock), Narrowed::Less(None));
        assert_eq!(stricter(&Landlock, Auto), Narrowed::Less(None));
        assert!(matches!(less_network(&Network::Granted, Network::Granted), Narrowed::Refused(_)));
        assert_eq!((lower(&5, 4), lower(&5, 6)), (Narrowed::Granted(4), Narrowed::Less(None)));
    }

    #[test]
    fn a_guarded_place_is_named_as_seen_from_a_project() {
        let read = |name: &str| (GUARDED.read)(Given::List(vec![name.to_owned()]), None);
        assert_eq!(read("deploy/prod.yaml"), Ok(vec!["deploy/prod.yaml".to_owned()]));
        for bad in ["", "/etc", "../x", "./x", "a/../b"] {
            assert!(matches!(read(bad), Err(Bad::Because(_))), "{bad}");
        }
    }

    #[test]
    fn f48_what_would_run_before_the_command_cannot_be_named() {
        let read = |name: &str| (NAMES.read)(Given::List(vec![name.to_owned()]), None);
        for bad in ["LD_PRELOAD", "BASH_ENV", "BASH_FUNC_x", "IFS", "", "A=B"] {
            assert!(matches!(read(bad), Err(Bad::Because(_))), "{bad}");
        }
        // The user's own word counts, for a secret too.
        assert_eq!(read("MY_TOKEN"), Ok(vec!["MY_TOKEN".to_owned()]));
    }
}
