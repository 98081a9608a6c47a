//! What rules forbid of files, looked at when a tool opens one: a link gives a file a second name, and a search of a folder
//! goes on to all that is in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use playhouse_protocol::Restrictions;

use super::{Rule, Rules};

impl Rules {
    /// What is forbidden here and in a session, for the executor that runs its tools. A session's rule that cannot be read
    /// forbids every call before it comes to this.
    pub fn forbidden(&self, restrictions: &Restrictions) -> Arc<[Rule]> {
        let own = restrictions.forbid.iter().filter_map(|text| Rule::parse(text).ok());
        self.forbid.iter().cloned().chain(own).collect()
    }
}

/// What one tool may not open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffLimits {
    rules: Vec<Rule>,
    /// The working directory, links resolved.
    cwd: PathBuf,
}

impl OffLimits {
    pub(crate) fn of(tool: &str, rules: &[Rule], cwd: &Path) -> Self {
        let rules: Vec<Rule> = rules.iter().filter(|rule| rule.is_about(tool)).cloned().collect();
        if rules.is_empty() {
            return Self::default();
        }
        Self { rules, cwd: cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that forbids what lies at this place, a path without links.
    pub(crate) fn forbids(&self, real: &Path) -> Option<&Rule> {
        let beneath = real.strip_prefix(&self.cwd).ok()?.to_string_lossy().into_owned();
        self.rules.iter().find(|rule| rule.speaks_of_path(&beneath))
    }

    /// The rule that forbids what is called so from the working directory.
    pub(crate) fn forbids_beneath(&self, path: &Path) -> Option<&Rule> {
        let path = path.to_string_lossy();
        self.rules.iter().find(|rule| rule.speaks_of_path(&path))
    }
}
