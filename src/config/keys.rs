//! What a key is, from which everything else follows.

pub(crate) mod narrow;
pub(crate) mod shown;
mod table;
pub(crate) mod types;
pub(crate) mod value;

use std::fmt;
use std::path::Path;

use playhouse_protocol::entry::Settings;

use crate::config::keys::narrow::Narrowed;
use crate::config::keys::shown::Row;
use crate::config::keys::value::{Bad, Codec, Given};
use crate::config::{Config, HeldBack, Origin, Position, Setting};

/// Every key, in the order in which they are shown.
pub fn keys() -> &'static [Key] {
    table::KEYS
}

/// One key of the configuration.
#[derive(Clone, Copy)]
pub struct Key {
    pub(crate) name: &'static str,
    pub(crate) variable: Option<&'static str>,
    pub(crate) unset: &'static str,
    pub(crate) flags: &'static [Flag],
    pub(crate) bound: &'static dyn Binding,
}

/// A flag of the command line that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// With its dashes, as in `--max-turns`.
    pub name: &'static str,
    /// What the help calls its value.
    pub value: &'static str,
    /// What it sets, for the help, which adds what holds without it.
    pub help: &'static str,
    /// The only values that it takes; empty if there are too many to list.
    pub words: &'static [&'static str],
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Whether a project's file may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByProject {
    /// It may, to any value.
    Yes,
    /// It may, within this.
    Only(&'static str),
    /// Only the user's file, the environment and flags may.
    No,
}

impl Key {
    /// Its name with its section: `limits.max_turns`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its section, if it is in one.
    pub fn section(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(section, _)| section)
    }

    /// The variable that sets it.
    pub fn variable(&self) -> String {
        match self.variable {
            Some(name) => name.to_owned(),
            None => format!("PLAYHOUSE_{}", self.name.to_uppercase().replace('.', "_")),
        }
    }

    /// The flags that set it.
    pub fn flags(&self) -> &'static [Flag] {
        self.flags
    }

    /// What it takes, for people.
    pub fn takes(&self) -> &'static str {
        self.bound.takes()
    }

    /// What holds when it has no value.
    pub fn unset(&self) -> &'static str {
        self.unset
    }

    /// Whether a project's file may set it.
    pub fn by_project(&self) -> ByProject {
        self.bound.by_project()
    }

    /// Its value and origin.
    pub fn row<'a>(&'static self, config: &'a Config) -> Row<'a> {
        self.bound.row(self, config)
    }

    /// Gives its value to the settings of an agent, if they have a place for it.
    pub(crate) fn apply(&self, config: &Config, settings: &mut Settings) {
        self.bound.apply(config, settings);
    }

    /// Sets it. A project's file gets no more than it may have.
    pub(crate) fn put(
        &self,
        config: &mut Config,
        given: Given,
        folder: Option<&Path>,
        origin: Origin,
    ) -> Result<(), NotPut> {
        self.bound.put(config, given, folder, origin)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.name).finish()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Why a value was not put in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotPut {
    /// The value is bad.
    Bad(Bad),
    /// A project's file may not.
    ByProject(Option<&'static str>),
}

/// A key's place in [`Config`], whatever its type.
pub(crate) trait Binding: Sync {
    fn takes(&self) -> &'static str;
    fn by_project(&self) -> ByProject;
    fn row<'a>(&self, key: &'static Key, config: &'a Config) -> Row<'a>;
    fn apply(&self, config: &Config, settings: &mut Settings);
    fn put(&self, config: &mut Config, given: Given, folder: Option<&Path>, origin: Origin) -> Result<(), NotPut>;
}

/// A key's place in [`Config`], how its values are read, and what a project may do with it.
pub(crate) struct Bound<T: 'static> {
    pub(crate) of: fn(&Config) -> &Setting<T>,
    pub(crate) of_mut: fn(&mut Config) -> &mut Setting<T>,
    pub(crate) codec: Codec<T>,
    pub(crate) project: Rule<T>,
    /// Gives the value to the settings of an agent; `None` is what no agent has of its own.
    pub(crate) sets: Option<fn(&Setting<T>, &mut Settings)>,
}

/// What a project's file may do with a key.
pub(crate) enum Rule<T> {
    May,
    /// Within this, as far as the function grants it.
    Narrows(&'static str, fn(&T, T) -> Narrowed<T>),
    MayNot,
}

impl<T> Bound<T> {
    fn narrow(&self, setting: &mut Setting<T>, value: T, at: Position) -> Result<(), NotPut> {
        let wanted = (self.codec.show)(&value);
        let (granted, held_back) = match &self.project {
            Rule::May => (Some(value), None),
            Rule::MayNot => return Err(NotPut::ByProject(None)),
            Rule::Narrows(_, narrow) => match narrow(&setting.value, value) {
                Narrowed::Granted(value) => (Some(value), None),
                Narrowed::Less(value) => (value, Some(HeldBack { wanted, at: at.clone() })),
                Narrowed::Refused(why) => return Err(NotPut::ByProject(Some(why))),
            },
        };
        if let Some(value) = granted {
            setting.value = value;
            setting.origin = Origin::Project(at);
        }
        setting.held_back = held_back;
        Ok(())
    }
}

impl<T> Binding for Bound<T> {
    fn takes(&self) -> &'static str {
        self.codec.takes
    }

    fn by_project(&self) -> ByProject {
        match self.project {
            Rule::May => ByProject::Yes,
            Rule::Narrows(what, _) => ByProject::Only(what),
            Rule::MayNot => ByProject::No,
        }
    }

    fn row<'a>(&self, key: &'static Key, config: &'a Config) -> Row<'a> {
        let setting = (self.of)(config);
        let value = (self.codec.show)(&setting.value);
        Row { key, value, origin: &setting.origin, held_back: setting.held_back.as_ref() }
    }

    fn apply(&self, config: &Config, settings: &mut Settings) {
        if let Some(sets) = self.sets {
            sets((self.of)(config), settings);
        }
    }

    fn put(&self, config: &mut Config, given: Given, folder: Option<&Path>, origin: Origin) -> Result<(), NotPut> {
        let setting = (self.of_mut)(config);
        let value = (self.codec.read)(given, folder).map_err(NotPut::Bad)?;
        match origin {
            Origin::Project(at) => self.narrow(setting, value, at),
            Origin::Default | Origin::User(_) | Origin::Environment(_) | Origin::Flag(_) => {
                *setting = Setting { value, origin, held_back: None };
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_variables_and_flags_are_distinct_and_rows_are_where_they_say() {
        let names: BTreeSet<&str> = keys().iter().map(Key::name).collect();
        let variables: BTreeSet<String> = keys().iter().map(Key::variable).collect();
        assert_eq!((names.len(), variables.len()), (keys().len(), keys().len()));
        let flags: Vec<&str> = keys().iter().flat_map(|key| key.flags()).map(|flag| flag.name).collect();
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
        // Each row must be bound to a setting of its own: set one, and no other changes.
        for key in keys() {
            let mut config = Config::default();
            let row = config.rows().into_iter().find(|row| row.key == key).unwrap();
            let text = match (key.name(), row.value.to_json()) {
                ("model", _) => "openai/x".to_owned(),
                (name, _) if name.ends_with("base_url") => "http://x".to_owned(),
                ("tools", _) => "bash".to_owned(),
                (name, _) if name.starts_with("permissions.") => "bash(ls)".to_owned(),
                (_, serde_json::Value::Null) => "1".to_owned(),
                (_, serde_json::Value::String(text)) => text,
                (_, other) => other.to_string(),
            };
            key.put(&mut config, Given::Plain(text.into()), None, Origin::Flag("--x")).unwrap();
            let changed: Vec<&str> =
                config.rows().iter().filter(|row| *row.origin != Origin::Default).map(|row| row.key.name()).collect();
            assert_eq!(changed, [key.name()]);
        }
    }
}
