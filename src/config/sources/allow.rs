//! `--allow`: what the sandbox grants for one command, beside what the configuration grants.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use playhouse_tools::Network;

use crate::config::keys::types::rooted;
use crate::config::problem::Problem;
use crate::config::sources::environment::Variables;
use crate::config::sources::paths::home;
use crate::config::{Config, Origin, Setting};
use crate::nearest::nearest;

/// The flag. Unlike the others it sets several keys, may be given several times, and adds to what is there.
pub(crate) const ALLOW: &str = "--allow";

const WORDS: [(&str, Word); 3] = [("network", Word::Network), ("write", Word::Write), ("read", Word::Read)];

#[derive(Clone, Copy)]
enum Word {
    Network,
    Write,
    Read,
}

/// Adds one grant to a configuration.
pub(crate) fn lay_over(
    config: &mut Config,
    given: &OsStr,
    folder: Option<&Path>,
    variables: &Variables,
    problems: &mut Vec<Problem>,
) {
    if let Err(problem) = grant(config, given, folder, variables) {
        problems.push(problem);
    }
}

fn grant(config: &mut Config, given: &OsStr, folder: Option<&Path>, variables: &Variables) -> Result<(), Problem> {
    let bad = |reason: String| Problem::Unusable { at: Origin::Flag(ALLOW), key: ALLOW.to_owned(), reason };
    let text = given.to_str().ok_or(Problem::NotText { name: ALLOW.to_owned() })?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let Some((_, word)) = WORDS.iter().find(|(word, _)| *word == name) else {
        let told: String = name.chars().take(80).collect();
        return Err(bad(match nearest(name, WORDS.map(|(word, _)| (word, word))) {
            Some(near) => format!("`{told}` is no grant: did you mean `{}`?", near.candidate),
            None => format!("`{told}` is no grant: there are `network`, `write=DIR` and `read=DIR`"),
        }));
    };
    let confinement = &mut config.confinement;
    let (place, what) = match word {
        Word::Network if value.is_some() => return Err(bad("`network` takes nothing: --allow network".to_owned())),
        Word::Network => {
            // What a project does without it does without.
            if confinement.network.by_project().is_none() {
                let origin = Origin::Flag(ALLOW);
                confinement.network = Setting { value: Network::Granted, origin, held_back: None };
            }
            return Ok(());
        }
        Word::Write => (&mut confinement.write, "a folder"),
        Word::Read => (&mut confinement.read, "a file or folder"),
    };
    let Some(named) = value.filter(|value| !value.is_empty()) else {
        return Err(bad(format!("`{name}` needs {what}: --allow {name}=DIR")));
    };
    let path = rooted(below_home(named, variables), folder);
    if !path.exists() {
        return Err(bad(format!("`{named}` is not there: make the folder first, or name another")));
    }
    place.value.push(path);
    place.origin = Origin::Flag(ALLOW);
    Ok(())
}

/// Not every shell replaces a `~` that stands behind `=`.
fn below_home(named: &str, variables: &Variables) -> PathBuf {
    let rest = match named {
        "~" => Some(""),
        _ => named.strip_prefix("~/"),
    };
    match rest.zip(home(variables)) {
        Some((rest, home)) => home.join(rest),
        None => named.into(),
    }
}
