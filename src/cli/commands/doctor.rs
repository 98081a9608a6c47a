//! `playhouse doctor`: what this machine can do, and what to do about what it can't. Needs no house.

use std::path::{Path, PathBuf};
use std::process::Command;

use playhouse::config::{Config, Sources};
use playhouse::from_config::{FromConfig, FromConfigError};
use playhouse::protocol::SandboxMode;
use playhouse::tools::sandbox::{Abilities, Ability, abilities};
use serde_json::{Value, json};

use crate::cli::args::{DoctorArgs, SharedArgs};
use crate::cli::commands::config;
use crate::cli::exit::Exit;
use crate::cli::folders::here;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::text::{HANG, spelled_out, width};
use crate::cli::terminal::view::write_out;
use crate::cli::terminal::wrap::wrapped;

/// A terminal with fewer columns has no room for three of them side by side.
const NARROW: usize = 72;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    /// What was found, or what is wrong and what to do.
    found: Ability,
    need: Need,
}

/// What it means when something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Without it there are no runs: the exit code says so.
    Required,
    /// It is better to have it.
    Useful,
}

impl Check {
    fn word(&self) -> &'static str {
        match (&self.found, self.need) {
            (Ok(_), _) => "ok",
            (Err(_), Need::Required) => "broken",
            (Err(_), Need::Useful) => "missing",
        }
    }

    fn is_broken(&self) -> bool {
        self.found.is_err() && self.need == Need::Required
    }

    fn text(&self) -> &str {
        match &self.found {
            Ok(text) | Err(text) => text,
        }
    }

    /// In columns, or on a narrow terminal with what was found below its name.
    fn lines(&self, width: Option<usize>) -> String {
        let (word, name, text) = (self.word(), self.name, spelled_out(self.text()));
        if width.is_some_and(|width| width < NARROW) {
            return wrapped(&format!("{word:<8} {name}\n  {text}\n"), HANG, width);
        }
        wrapped(&format!("{word:<8} {name:<16} {text}\n"), 26, width)
    }

    fn to_json(&self) -> Value {
        json!({"check": self.name, "state": self.word(), "text": self.text()})
    }
}

/// Looks at everything and says what it found.
pub fn doctor(args: &DoctorArgs, shared: &SharedArgs) -> Result<(), Exit> {
    let checks = checks(shared)?;
    let text: String = match args.json {
        true => checks.iter().map(|check| format!("{}\n", check.to_json())).collect(),
        false => checks.iter().map(|check| check.lines(width())).collect(),
    };
    write_out(&text).map_err(|error| unwritten(&error))?;
    if let (false, Some(next)) = (args.json, next_step(&checks)) {
        write_out(&wrapped(&format!("\n{next}"), HANG, width())).map_err(|error| unwritten(&error))?;
    }
    let broken: Vec<&str> = checks.iter().filter(|check| check.is_broken()).map(|check| check.name).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Exit::Failed(format!("runs will not work here: see {} above", broken.join(", "))))
}

fn checks(shared: &SharedArgs) -> Result<Vec<Check>, Exit> {
    let (abilities, here) = (abilities(), here()?);
    let config = config::load(shared, Vec::new(), Some(here.clone()));
    let required = |name, found| Check { name, found, need: Need::Required };
    let useful = |name, found| Check { name, found, need: Need::Useful };
    let mut all = vec![
        required("system", system()),
        required("bash", version("bash", "install bash, which runs the commands of agents")),
        useful("git", version("git", "install git, if agents are to use it")),
        useful("landlock", abilities.landlock.clone()),
        useful("namespaces", namespaces()),
        useful("bwrap", abilities.bwrap.clone()),
        useful("cgroups", abilities.cage.clone()),
        useful("user's file", files(shared)),
    ];
    match &config {
        Ok(config) => {
            all.push(required("settings", Ok("all of them can be used".to_owned())));
            all.push(sandbox(config, &abilities));
            all.push(required("data directory", data_dir(config)));
            all.push(useful("keys", keys(config)));
            all.push(useful("model", model(config, &here)));
        }
        // What is wrong was said above, but for the last of it.
        Err(Exit::Refused(reason)) => all.push(required("settings", Err(reason.clone()))),
        Err(_) => all.push(required("settings", Err("they cannot be read".to_owned()))),
    }
    Ok(all)
}

/// Which keys of services are set; never their values.
fn keys(config: &Config) -> Ability {
    let told: Vec<String> = config.keys_set.iter().map(|key| format!("{} ({})", key.variable, key.provider)).collect();
    if told.is_empty() {
        return Err("none is set: `playhouse models` says which service takes which; local models need none".to_owned());
    }
    Ok(told.join(", "))
}

/// The model that a run here would ask, if it can be asked.
fn model(config: &Config, here: &Path) -> Ability {
    let from = FromConfig::new(config.clone());
    let asked = from.settings(here).and_then(|settings| from.check_now(&settings).map(|()| settings));
    let model = asked.map_err(|error| error.to_string())?.model.clone();
    Ok(format!("{}/{} ({})", model.provider, model.id, config.model.origin))
}

/// What to do now.
fn next_step(checks: &[Check]) -> Option<&'static str> {
    let is_ok = |name: &str| checks.iter().any(|check| check.name == name && check.found.is_ok());
    match (checks.iter().any(Check::is_broken), is_ok("model")) {
        (true, _) => None,
        (false, true) => Some("next: playhouse run \"What is in this directory?\"\n"),
        (false, false) => Some("next: choose a model, as said above; `playhouse demo` shows it all without one\n"),
    }
}

fn system() -> Ability {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let told = format!("{} {} on {}", text(name.sysname()), text(name.release()), text(name.machine()));
    if cfg!(target_os = "linux") {
        Ok(told)
    } else {
        Err(format!("{told}: processes of tools are only found again on Linux; run it there"))
    }
}

/// The first line that a program says about itself.
fn version(program: &str, advice: &str) -> Ability {
    match Command::new(program).arg("--version").output() {
        Ok(told) if told.status.success() => {
            Ok(String::from_utf8_lossy(&told.stdout).lines().next().unwrap_or_default().to_owned())
        }
        Ok(_) | Err(_) => Err(format!("`{program}` does not run: {advice}")),
    }
}

/// Whether a user may make namespaces, which bubblewrap needs.
fn namespaces() -> Ability {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    match (number("/proc/sys/user/max_user_namespaces"), number("/proc/sys/kernel/unprivileged_userns_clone")) {
        (Some(0), _) => Err("user namespaces are off: set user.max_user_namespaces with sysctl".to_owned()),
        (_, Some(0)) => Err("they are root's: set kernel.unprivileged_userns_clone=1 with sysctl".to_owned()),
        (Some(most), _) => Ok(format!("up to {most} of a user's")),
        (None, _) => Err("the kernel has no user namespaces; bwrap will not work".to_owned()),
    }
}

fn files(shared: &SharedArgs) -> Ability {
    let sources = Sources { file: shared.config.clone(), ..Sources::of_this_process() };
    let named = |path: PathBuf| if path.is_dir() { path.join("config.toml") } else { path };
    match sources.rules_of_tools().into_iter().map(named).rfind(|path| path.is_file()) {
        Some(path) => Ok(path.display().to_string()),
        None => Ok("none; the defaults hold".to_owned()),
    }
}

fn sandbox(config: &Config, abilities: &Abilities) -> Check {
    let mode = config.sandbox.value;
    let works = |ability: &Ability, tier: &str| match ability {
        Ok(_) => Ok(format!("`{}` means {tier} here", mode.as_str())),
        Err(reason) => {
            Err(format!("`{}` was asked for and does not work, so commands will not run: {reason}", mode.as_str()))
        }
    };
    let (found, need) = match mode {
        SandboxMode::Landlock => (works(&abilities.landlock, "landlock"), Need::Required),
        SandboxMode::Bwrap => (works(&abilities.bwrap, "bwrap"), Need::Required),
        SandboxMode::Off => (Err("`off`: commands of agents may do what you may".to_owned()), Need::Useful),
        SandboxMode::Auto => match (&abilities.landlock, &abilities.bwrap) {
            (Ok(_), _) => (works(&abilities.landlock, "landlock"), Need::Useful),
            (Err(_), Ok(_)) => (works(&abilities.bwrap, "bwrap"), Need::Useful),
            (Err(reason), Err(_)) => (
                Err(format!("`auto` means none here: commands of agents may do what you may ({reason})")),
                Need::Useful,
            ),
        },
    };
    Check { name: "sandbox", found, need }
}

/// Whether sessions can be kept: a file is made where they are, or where their folder would be made.
fn data_dir(config: &Config) -> Ability {
    let Some(folder) = &config.data_dir.value else {
        return Err(FromConfigError::NoDataDir.to_string());
    };
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    match tempfile::tempfile_in(there) {
        Ok(_) => Ok(folder.display().to_string()),
        Err(error) => {
            let (folder, there) = (folder.display(), there.display());
            Err(format!("{folder}: {there} cannot be written ({error}); choose another with --data-dir"))
        }
    }
}
