//! Where settings come from: files, the environment, flags; each lies over the one before.

mod allow;
pub(crate) mod environment;
pub(crate) mod expand;
pub(crate) mod file;
mod named_sections;
pub(crate) mod paths;
mod rule_names;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use playhouse_provider::preset;

use crate::config::keys::value::{Bad, Given};
use crate::config::keys::{Key, NotPut, keys};
use crate::config::problem::{Problem, Problems};
use crate::config::{Config, KeySet, Origin, Setting};
use environment::Variables;
use expand::Reading;
use file::{Source, Whose};
use paths::{Candidate, Platform};
use rule_names::RuleNames;

/// The flag that names one script.
const SCRIPT: &str = "--script";

/// Where settings come from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The environment, vendors' variables included.
    pub variables: Variables,
    /// What decides where the user's file and the data directory are.
    pub platform: Platform,
    /// What the paths in variables and flags are relative to.
    pub folder: Option<PathBuf>,
    /// A file to read in place of the user's own.
    pub file: Option<PathBuf>,
    /// Where the search for a project's file begins; `None` looks for none.
    pub project: Option<PathBuf>,
    /// Flags, with what they were given. All but `--allow`, which adds to what is there, may be given once.
    pub flags: Vec<(&'static str, OsString)>,
    /// Tools of the program's own that rules may name, beside those that are built in.
    pub tools: Vec<String>,
}

impl Sources {
    /// The environment of this process; no project and no flags.
    pub fn of_this_process() -> Self {
        Self {
            variables: Variables::of_this_process(),
            platform: Platform::here(),
            folder: std::env::current_dir().ok(),
            file: None,
            project: None,
            flags: Vec::new(),
            tools: Vec::new(),
        }
    }

    fn user_file(&self) -> Result<Option<Source>, Problem> {
        let candidate = paths::user_file(self.file.as_deref(), &self.variables, self.platform, self.folder.as_deref());
        candidate.map_or(Ok(None), |candidate| file::read(&candidate))
    }

    /// Where the user's file is, or would be; `None` without a home.
    fn user_path(&self) -> Option<PathBuf> {
        let candidate = paths::user_file(self.file.as_deref(), &self.variables, self.platform, self.folder.as_deref());
        candidate.map(|candidate| match candidate {
            Candidate::Named(path) | Candidate::Usual(path) => path,
        })
    }

    /// Where the user says what tools may do: the folder of the usual file, and the file that is read in its place.
    pub fn rules_of_tools(&self) -> Vec<PathBuf> {
        let own = self.platform.config_file(&self.variables).map(Candidate::Usual);
        let used = paths::user_file(self.file.as_deref(), &self.variables, self.platform, self.folder.as_deref());
        let place = |candidate: Candidate| match candidate {
            Candidate::Named(path) if path.is_file() => Some(path),
            // A pipe or `/dev/null` says nothing that could be changed.
            Candidate::Named(_) => None,
            Candidate::Usual(path) => path.parent().map(Path::to_owned),
        };
        [own, used].into_iter().flatten().filter_map(place).collect()
    }

    /// The nearest project's file, unless it is the user's.
    fn project_file(&self, user: Option<&Source>) -> Result<Option<Source>, Problem> {
        let Some(start) = &self.project else { return Ok(None) };
        for path in paths::project_files(start, &self.variables) {
            if let Some(source) = file::read(&Candidate::Usual(path))? {
                let is_users = user.is_some_and(|user| is_same(&user.path, &source.path));
                return Ok((!is_users).then_some(source));
            }
        }
        Ok(None)
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

pub(crate) fn load(sources: &Sources) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let mut config = Config::default();
    let Sources { variables, folder, .. } = sources;
    let mut rule_names = RuleNames::new(&sources.tools);
    config.data_dir.value = sources.platform.data_dir(variables);
    borrow_base_urls(&mut config, variables, &mut problems);
    config.confinement.hidden = sources.rules_of_tools();
    config.user_file = sources.user_path();
    config.tool_names = sources.tools.clone();
    let user = noted(sources.user_file(), &mut problems);
    if let Some(source) = &user {
        file::lay_over(&mut config, source, Whose::User(Reading::Of(variables)), &mut problems);
        rule_names.check(&config, &mut problems);
    }
    if let Some(source) = noted(sources.project_file(user.as_ref()), &mut problems) {
        file::lay_over(&mut config, &source, Whose::Project, &mut problems);
        rule_names.check(&config, &mut problems);
    }
    environment::lay_over(&mut config, variables, folder.as_deref(), &mut problems);
    rule_names.check(&config, &mut problems);
    for (name, value) in &sources.flags {
        if *name == allow::ALLOW {
            allow::lay_over(&mut config, value, folder.as_deref(), variables, &mut problems);
            continue;
        }
        match keys().iter().find(|key| key.flags().iter().any(|flag| flag.name == *name)) {
            Some(key) => {
                let found = format!("{:?}", value.to_string_lossy());
                let given = match (*name, value.to_str()) {
                    // One file, whatever commas its name has.
                    (SCRIPT, Some(text)) => Given::List(vec![text.to_owned()]),
                    (_, _) => Given::Plain(value.clone()),
                };
                put(&mut config, key, (given, &found), folder.as_deref(), Origin::Flag(name), &mut problems);
            }
            None => problems.push(Problem::UnknownFlag { name }),
        }
    }
    config.keys_set = KeySet::all(|name| variables.get(name).is_some());
    config.choose_by_key();
    if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
}

fn noted<T>(found: Result<Option<T>, Problem>, problems: &mut Vec<Problem>) -> Option<T> {
    found.unwrap_or_else(|problem| {
        problems.push(problem);
        None
    })
}

/// Takes over what the vendors' own variables say about where services are: below the files, since they are not ours,
/// and judged by whoever uses it.
fn borrow_base_urls(config: &mut Config, variables: &Variables, problems: &mut Vec<Problem>) {
    let base_urls = [
        ("openai", &mut config.openai.base_url),
        ("anthropic", &mut config.anthropic.base_url),
        ("azure", &mut config.azure.base_url),
        ("google", &mut config.google.base_url),
        ("vertex", &mut config.vertex.base_url),
        ("bedrock", &mut config.bedrock.base_url),
        ("ollama", &mut config.ollama.base_url),
    ];
    for (provider, base_url) in base_urls {
        let Some(preset) = preset(provider) else { continue };
        let set = preset.base_url_variables.iter().find_map(|name| Some((*name, variables.get(name)?)));
        let Some((name, value)) = set else { continue };
        let Some(text) = value.to_str() else {
            problems.push(Problem::NotText { name: name.to_owned() });
            continue;
        };
        if let Some(url) = preset.place(|asked| (asked == name).then(|| text.to_owned())) {
            let origin = Origin::Environment(name.to_owned());
            *base_url = Setting { value: Some(url), origin, held_back: None };
        }
    }
}

/// Sets a key to a value, and notes why that cannot be. The value comes with how it is told to people.
pub(crate) fn put(
    config: &mut Config,
    key: &'static Key,
    (given, found): (Given, &str),
    folder: Option<&Path>,
    origin: Origin,
    problems: &mut Vec<Problem>,
) {
    let at = origin.clone();
    let Err(not_put) = key.put(config, given, folder, origin) else { return };
    problems.push(match (not_put, at) {
        (NotPut::ByProject(why), Origin::Project(at)) => Problem::NotByProject { at, key, why },
        (NotPut::Bad(Bad::Because(reason)), at) => Problem::Unusable { at, key: key.name().to_owned(), reason },
        (NotPut::Bad(Bad::NotText), Origin::Environment(name)) => Problem::NotText { name },
        (NotPut::Bad(Bad::NotText), Origin::Flag(name)) => Problem::NotText { name: name.to_owned() },
        (NotPut::Bad(Bad::NotThis | Bad::NotText) | NotPut::ByProject(_), at) => {
            let found = found.chars().take(80).collect();
            Problem::BadValue { at, key: key.name().to_owned(), found, takes: key.takes() }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_sets_nothing_is_a_mistake() {
        let variables = Variables::default();
        let flags = vec![("--colour", OsString::from("x"))];
        let sources = Sources {
            variables,
            platform: Platform::Xdg,
            folder: None,
            file: None,
            project: None,
            flags,
            tools: Vec::new(),
        };
        assert_eq!(load(&sources), Err(Problems(vec![Problem::UnknownFlag { name: "--colour" }])));
    }

    #[test]
    fn what_variables_hold_is_not_printed() {
        let variables = [("OPENAI_API_KEY".into(), "sk-canary".into())].into_iter().collect();
        let sources = Sources { variables, ..Sources::of_this_process() };
        assert!(!format!("{sources:?}").contains("canary"));
    }
}
