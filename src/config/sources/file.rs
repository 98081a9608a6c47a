//! A file: its bytes, its text, its keys.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use playhouse_tools::is_secret;
use toml_edit::{Document, Item, TableLike, Value};

use crate::config::keys::value::Given;
use crate::config::keys::{ByProject, Key, keys};
use crate::config::problem::{ExpandError, Problem};
use crate::config::sections::hooks;
use crate::config::sources::expand::{Reading, expand};
use crate::config::sources::named_sections::NamedSection;
use crate::config::sources::paths::Candidate;
use crate::config::sources::put;
use crate::config::{Config, Origin, Position};
use crate::nearest::nearest;

/// No configuration is longer than this.
const MOST_BYTES: u64 = 256 * 1024;
/// What the parser says of a key that is there twice. Only then is it told what stands there: it is no value.
const DUPLICATE: &str = "duplicate key";
/// How much of a value an error repeats.
const MOST_TOLD: usize = 60;

/// Whose file it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<'a> {
    /// The user's: it may set everything, and read these variables.
    User(Reading<'a>),
    /// Whoever wrote the project.
    Project,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Where it is, for messages.
    pub(crate) path: PathBuf,
    text: String,
}

/// Reads a file; `None` when it is not there and nobody named it.
pub(crate) fn read(candidate: &Candidate) -> Result<Option<Source>, Problem> {
    let path = match candidate {
        Candidate::Named(path) => path,
        Candidate::Usual(path) => match path.symlink_metadata() {
            Ok(_) => path,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(unreadable(path, &error.to_string())),
        },
    };
    let found = path.metadata().map_err(|error| unreadable(path, &error.to_string()))?;
    if found.is_dir() {
        return Err(unreadable(path, "it is a directory; a file is expected"));
    }
    if matches!(candidate, Candidate::Usual(_)) && !found.is_file() {
        // A pipe would be waited for.
        return Err(unreadable(path, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    opened.map_err(|error| unreadable(path, &error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(unreadable(path, "it has more than 256 KiB; make it shorter"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Source { path: path.clone(), text })),
        Err(error) => {
            let start = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(error.as_bytes().get(..start).unwrap_or_default()).into_owned();
            Err(Problem::NotUtf8 { at: place(path, &before, start) })
        }
    }
}

fn unreadable(path: &Path, reason: &str) -> Problem {
    Problem::Unreadable { path: path.to_owned(), reason: reason.to_owned() }
}

/// Line and column of a byte.
fn place(path: &Path, text: &str, byte: usize) -> Position {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let column = line.chars().filter(|c| *c != '\u{feff}').count() + 1;
    Position { path: path.to_owned(), line: before.matches('\n').count() + 1, column }
}

/// Lays a file over a configuration.
pub(crate) fn lay_over(config: &mut Config, source: &Source, whose: Whose<'_>, problems: &mut Vec<Problem>) {
    let document = match Document::parse(source.text.as_str()) {
        Ok(document) => document,
        Err(error) => {
            let at = source.at(error.span());
            let mut reason = error.message().to_owned();
            if reason == DUPLICATE {
                reason = format!("{reason} `{}`", source.written(error.span()));
            }
            problems.push(Problem::NotToml { at, reason });
            return;
        }
    };
    let mut layer = FileLayer { config, source, whose, problems };
    layer.table(document.as_table(), None);
}

impl Source {
    pub(crate) fn at(&self, span: Option<Range<usize>>) -> Position {
        place(&self.path, &self.text, span.map_or(0, |span| span.start))
    }

    /// What a value is told as.
    pub(crate) fn found(&self, item: &Item) -> String {
        match item.as_value() {
            Some(_) => self.written(item.span()),
            None => "a table".to_owned(),
        }
    }

    /// What stands there, cut.
    fn written(&self, span: Option<Range<usize>>) -> String {
        let text = span.and_then(|span| self.text.get(span)).unwrap_or_default();
        let mut told: String = text.chars().take_while(|c| *c != '\n').take(MOST_TOLD).collect();
        if told.len() < text.len() {
            told.push('…');
        }
        told
    }
}

/// A file on its way over a configuration.
pub(crate) struct FileLayer<'a> {
    pub(crate) config: &'a mut Config,
    pub(crate) source: &'a Source,
    whose: Whose<'a>,
    pub(crate) problems: &'a mut Vec<Problem>,
}

impl FileLayer<'_> {
    fn table(&mut self, table: &dyn TableLike, section: Option<&str>) {
        for (name, _) in table.iter() {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            let at = self.source.at(key.span());
            let is_this = |key: &&Key| {
                let (of, last) = key.name().rsplit_once('.').map_or((None, key.name()), |(of, last)| (Some(of), last));
                of == section && last == name
            };
            if let Some(key) = keys().iter().find(is_this) {
                let at = if item.is_value() { self.source.at(item.span()) } else { at };
                self.value(key, item, at);
                continue;
            }
            if section.is_none() && name == hooks::SECTION {
                match (self.whose, item.as_table_like()) {
                    // A command that a project names would run because its folder was entered.
                    (Whose::Project, _) => {
                        self.problems.push(Problem::SectionByProject { at, section: hooks::SECTION });
                    }
                    (Whose::User(_), Some(inner)) => self.hooks(inner),
                    (Whose::User(_), None) => {
                        self.problems.push(Problem::NotASection { at, section: name.to_owned() });
                    }
                }
                continue;
            }
            if let (None, Some(named)) = (section, NamedSection::named(name)) {
                match (self.whose, item.as_table_like()) {
                    (Whose::Project, _) => {
                        self.problems.push(Problem::SectionByProject { at, section: named.name() });
                    }
                    (Whose::User(_), Some(inner)) => self.named_section(named, inner),
                    (Whose::User(_), None) => {
                        self.problems.push(Problem::NotASection { at, section: name.to_owned() });
                    }
                }
                continue;
            }
            let is_section = section.is_none() && keys().iter().any(|key| key.section() == Some(name));
            match (is_section, item.as_table_like()) {
                (true, Some(inner)) => self.table(inner, Some(name)),
                (true, None) => self.problems.push(Problem::NotASection { at, section: name.to_owned() }),
                (false, _) => self.problems.push(unknown(section, name, item, at)),
            }
        }
    }

    /// A value as it stands there, its variables replaced.
    pub(crate) fn given(&self, item: &Item) -> Result<Given, ExpandError> {
        let reading = match self.whose {
            Whose::User(reading) => reading,
            Whose::Project => Reading::Nothing,
        };
        let expanded = |text: &str| expand(text, reading);
        match item.as_value() {
            Some(Value::String(text)) => expanded(text.value()).map(Given::Text),
            Some(Value::Integer(number)) => Ok(Given::Whole(*number.value())),
            Some(Value::Float(number)) => Ok(Given::Number(*number.value())),
            Some(Value::Array(values)) => match values.iter().map(Value::as_str).collect::<Option<Vec<&str>>>() {
                Some(texts) => texts.into_iter().map(expanded).collect::<Result<_, _>>().map(Given::List),
                None => Ok(Given::Other),
            },
            Some(Value::Boolean(_) | Value::Datetime(_) | Value::InlineTable(_)) | None => Ok(Given::Other),
        }
    }

    fn value(&mut self, key: &'static Key, item: &Item, at: Position) {
        let is_project = matches!(self.whose, Whose::Project);
        if is_project && key.by_project() == ByProject::No {
            self.problems.push(Problem::NotByProject { at, key, why: None });
            return;
        }
        let given = self.given(item);
        let given = match given {
            Ok(given) => given,
            Err(reason) => {
                self.problems.push(Problem::Expansion { at, key: key.name().to_owned(), reason });
                return;
            }
        };
        let found = self.source.found(item);
        let origin = match self.whose {
            Whose::User(_) => Origin::User(at),
            Whose::Project => Origin::Project(at),
        };
        put(self.config, key, (given, &found), self.source.path.parent(), origin, self.problems);
    }
}

fn unknown(section: Option<&str>, name: &str, item: &Item, at: Position) -> Problem {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = if is_bare { name.to_owned() } else { format!("{name:?}") };
    let full = section.map_or(name.clone(), |section| format!("{section}.{name}"));
    let near = if item.is_table_like() || item.is_array_of_tables() {
        let sections = keys().iter().filter_map(Key::section);
        nearest(&full, sections.map(|section| (section, section)))
    } else {
        nearest(&full, keys().iter().map(|key| (key.name(), key.name())))
    };
    let name = full.chars().take(MOST_TOLD).collect();
    // A slip in `max_tokens` is no secret.
    if is_secret(&full) && near.is_none_or(|near| near.distance > 2) {
        return Problem::SecretKey { at, name };
    }
    Problem::UnknownKey { at, name, nearest: near.map(|near| near.candidate.to_owned()) }
}
