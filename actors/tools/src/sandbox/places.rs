//! Places that a sandbox knows by name: what may be read on every machine, and where keys are kept.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The system: read and executed.
const SYSTEM: [&str; 22] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/current-system",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/alternatives",
    "/var/cache/fontconfig",
    "/var/lib/snapd",
    "/var/lib/flatpak/runtime",
];

/// Toolchains and their settings beneath the home directory. Of `.cargo` not all: it keeps a token too.
const TOOLCHAINS: [&str; 27] = [
    ".rustup",
    ".nvm",
    ".volta",
    ".bun",
    ".deno",
    ".npm",
    ".node-gyp",
    ".pyenv",
    ".rbenv",
    ".gem/ruby",
    ".asdf",
    ".sdkman",
    ".m2/repository",
    ".gradle/caches",
    ".gradle/wrapper",
    ".ghcup",
    ".local/bin",
    ".local/lib",
    ".local/share/uv",
    ".local/share/mise",
    ".local/share/pnpm",
    ".cache/pip",
    "go",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
];

/// What may be read of a folder of cargo's.
const CARGO: [&str; 6] = ["bin", "registry", "git", "config", "config.toml", "env"];

/// Variables that name a toolchain's folder.
const TOOLCHAIN_VARIABLES: [&str; 13] = [
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "NVM_DIR",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "RBENV_ROOT",
];

/// Where keys are kept, beneath the home directory.
const SECRETS: [&str; 27] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/gcloud",
    ".config/hub",
    ".config/playhouse",
    ".local/share/playhouse",
    ".local/share/keyrings",
    ".password-store",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".mozilla",
    ".config/google-chrome",
];

/// What only root can read, kept from tools that run as root.
const ROOTS: [&str; 12] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/security/opasswd",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/root/.bash_history",
];

/// What every sandbox may read here, without links and as of when it was first asked.
pub(super) fn readable() -> &'static [PathBuf] {
    static READABLE: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let home = home();
        let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        if let Some(home) = &home {
            all.extend(TOOLCHAINS.iter().map(|name| home.join(name)));
        }
        for folder in cargo.into_iter().chain(home.as_ref().map(|home| home.join(".cargo"))) {
            all.extend(CARGO.iter().map(|name| folder.join(name)));
        }
        let holds_home = |path: &Path| home.as_ref().is_some_and(|home| home.starts_with(path));
        let variables = TOOLCHAIN_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from);
        let path: Vec<PathBuf> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        all.extend(variables.chain(path).filter(|path| path.is_absolute() && !holds_home(path)));
        let mut real: Vec<PathBuf> = all.iter().filter_map(|path| path.canonicalize().ok()).collect();
        real.sort();
        // What lies beneath another is granted with it.
        real.dedup_by(|later, earlier| later.starts_with(earlier));
        real
    });
    &READABLE
}

/// What is kept from tools: what the rules name, and the well-known places of keys.
pub(super) fn hidden(named: &[PathBuf]) -> Vec<PathBuf> {
    static KNOWN: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let home = home();
        let secrets = home.iter().flat_map(|home| SECRETS.iter().map(|name| home.join(name)));
        let roots = rustix::process::geteuid().is_root().then_some(ROOTS);
        let moved = [("XDG_CONFIG_HOME", "playhouse"), ("XDG_DATA_HOME", "playhouse")];
        let moved =
            moved.iter().filter_map(|(variable, name)| Some(PathBuf::from(std::env::var_os(variable)?).join(name)));
        secrets.chain(moved).chain(roots.into_iter().flatten().map(PathBuf::from)).map(|path| real(&path)).collect()
    });
    KNOWN.iter().cloned().chain(named.iter().map(|path| real(path))).collect()
}

/// The path without links, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_yet_is_real_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("a")).unwrap();
        std::os::unix::fs::symlink("a", base.join("link")).unwrap();
        assert_eq!(real(&base.join("link/b/c")), base.join("a/b/c"));
        assert_eq!(real(&base.join("link")), base.join("a"));
    }

    #[test]
    fn nothing_readable_is_a_place_of_keys() {
        let readable = readable();
        assert!(readable.iter().any(|path| path.starts_with("/usr")), "{readable:?}");
        let within = |path: &Path| readable.iter().find(|root| path.starts_with(root)).cloned();
        let home = home().unwrap();
        for secret in SECRETS {
            assert_eq!(within(&real(&home.join(secret))), None, "{secret}");
        }
    }
}
