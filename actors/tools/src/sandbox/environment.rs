//! Which variables a tool's process gets: a list of what may pass, since what may not has no end.

use std::ffi::{OsStr, OsString};

/// Variables that every process of a tool gets, if the house has them.
const PASSED: [&str; 44] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "PWD",
    "HOSTNAME",
    "CI",
    "DEBIAN_FRONTEND",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // Where toolchains are.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "CC",
    "CXX",
    "PKG_CONFIG_PATH",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "NVM_DIR",
    "NODE_ENV",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "RBENV_ROOT",
    "GEM_HOME",
];

/// Beginnings of variables that pass.
const PASSED_BEGINNINGS: [&str; 1] = ["LC_"];

/// What never passes, whoever names it: names, and beginnings that end in `*`. It would run before the command.
pub const NEVER_PASSED: [&str; 8] =
    ["BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "BASH_FUNC_*", "LD_*"];

/// Whether a variable may be passed on to tools at all.
pub fn passes(name: &str) -> bool {
    let is = |never: &&str| match never.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *never,
    };
    !name.is_empty() && !name.contains(['=', '\0']) && !NEVER_PASSED.iter().any(is)
}

/// Those of this process that a tool's process gets, with what the user named besides.
pub(crate) fn passed(named: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(move |(name, _)| is_passed(name, named))
}

fn is_passed(name: &OsStr, named: &[String]) -> bool {
    let Some(name) = name.to_str() else { return false };
    let usual = || PASSED.contains(&name) || PASSED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    passes(name) && (usual() || named.iter().any(|other| other == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_secret;

    #[test]
    fn f48_only_what_is_on_the_list_passes() {
        let named = ["MY_TOKEN".to_owned(), "LD_PRELOAD".to_owned()];
        for name in ["PATH", "LC_ALL", "CARGO_HOME", "MY_TOKEN"] {
            assert!(is_passed(OsStr::new(name), &named), "{name}");
        }
        for name in ["OPENAI_API_KEY", "ANYTHING", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "BASH_FUNC_ls%%", "IFS"]
        {
            assert!(!is_passed(OsStr::new(name), &named), "{name}");
        }
        assert!(PASSED.iter().all(|name| passes(name) && !is_secret(name)));
    }
}
