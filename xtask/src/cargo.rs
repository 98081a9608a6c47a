//! Starting cargo from a program that cargo has started.

use std::env;
use std::ffi::OsString;
use std::process::Command;

/// The cargo that runs this program.
pub fn name() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A command of it, without what it tells this program about its package: build scripts of dependencies look at the same
/// variables, and would run again after every change from here to a shell and back.
pub fn command() -> Command {
    let mut command = Command::new(name());
    for (variable, _) in env::vars_os() {
        if variable.to_str().is_some_and(is_of_a_package) {
            command.env_remove(variable);
        }
    }
    command
}

fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_") || variable == "CARGO_PRIMARY_PACKAGE"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_of_this_package_is_not_handed_on() {
        // These tests are run by cargo, which says it.
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = command();
        let removed: Vec<_> = command.get_envs().filter_map(|(name, value)| value.is_none().then_some(name)).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(removed.contains(&name.as_ref()), "{name}: {removed:?}");
        }
        assert!(!is_of_a_package("CARGO_TARGET_DIR") && !is_of_a_package("CARGO_HOME"));
    }
}
