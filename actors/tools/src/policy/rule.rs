//! One rule of a configuration, as text and as what it matches.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use playhouse_shell::{Meant, Pattern, PatternError, Reading};

use super::Facts;
use super::commands::Reach;
use crate::files::guarded::is_in;

/// Claude Code's names, with the tools here that do the same. A rule on reading or editing is there one on every tool
/// that does so.
const ALIASES: [(&str, &[&str]); 10] = [
    ("Bash", &["bash"]),
    ("Read", &["read_file", "list_files", "search"]),
    ("Edit", &["edit_file", "write_file"]),
    ("MultiEdit", &["edit_file", "write_file"]),
    ("Write", &["write_file"]),
    ("Grep", &["search"]),
    ("Glob", &["list_files"]),
    ("LS", &["list_files"]),
    ("Task", &["sub_agent"]),
    ("Agent", &["sub_agent"]),
];

/// Tools whose subject is a path beneath the working directory.
const OF_FILES: [&str; 5] = ["read_file", "list_files", "search", "edit_file", "write_file"];

/// A tool, or several that are alike, and what it may be used on.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    tools: Vec<String>,
    on: On,
}

#[derive(Clone, Debug)]
enum On {
    Anything,
    /// Which of the two counts is up to the tool; one of its kind is enough.
    This {
        paths: Vec<GlobMatcher>,
        /// Folders of which everything is meant, as in `secrets/**`.
        folders: Vec<GlobMatcher>,
        commands: Vec<Pattern>,
    },
}

/// Whose way of writing rules it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Paths are globs from the working directory.
    Ours,
    /// Paths are as in a `.gitignore`.
    ClaudeCode,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no rule: {why}; write the name of a tool, or what it may be used on in parentheses, such as \
     `bash(git status)`, `bash(cargo test *)` or `write_file(src/**)`"
)]
pub struct RuleError {
    text: String,
    why: String,
}

impl Rule {
    /// Reads `tool` or `tool(what)`.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = |why: &str| RuleError { text: text.to_owned(), why: why.to_owned() };
        let (tool, what) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                (tool, Some(rest.strip_suffix(')').ok_or_else(|| wrong("its last `)` is missing"))?.trim()))
            }
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if tool.is_empty() || !tool.chars().all(plain) {
            return Err(wrong("it does not begin with the name of a tool"));
        }
        let (tools, style): (Vec<String>, Style) = match ALIASES.iter().find(|(name, _)| *name == tool) {
            Some((_, ours)) => (ours.iter().map(|tool| (*tool).to_owned()).collect(), Style::ClaudeCode),
            None => (vec![tool.to_owned()], Style::Ours),
        };
        let on = match what {
            None => On::Anything,
            Some("") => return Err(wrong("there is nothing between its parentheses")),
            Some("*") if style == Style::ClaudeCode => On::Anything,
            Some(what) => {
                let has = |some: &[&str]| tools.iter().any(|tool| some.contains(&tool.as_str()));
                let (is_of_files, is_bash) = (has(&OF_FILES), has(&["bash"]));
                if is_of_files && leads_out(what, style) {
                    return Err(wrong(
                        "a tool for files reaches only what is beneath the working directory, named from there",
                    ));
                }
                let commands = commands(what);
                // In quotes it is a part of a word.
                if is_several(what) && !(is_bash && commands.is_ok()) {
                    return Err(wrong("it is several rules in one text; make each an entry of its own"));
                }
                if is_of_files && let Some(why) = never_matches(what, style) {
                    return Err(wrong(&why));
                }
                // Not every path is a command, nor every command a path.
                match (paths(what, style), commands) {
                    (_, Err(error)) if is_bash => return Err(wrong(&error)),
                    (Err(error), Err(_)) => return Err(wrong(&error.to_string())),
                    (Err(error), Ok(_)) if is_of_files => return Err(wrong(&error.to_string())),
                    (found, commands) => {
                        let whole = everything(what, style);
                        let whole = whole.strip_suffix("/**").map(|folder| paths(folder, style));
                        let folders = whole.and_then(Result::ok).unwrap_or_default();
                        let (paths, commands) = (found.unwrap_or_default(), commands.unwrap_or_default());
                        On::This { paths, folders, commands }
                    }
                }
            }
        };
        Ok(Self { text: text.trim().to_owned(), tools, on })
    }

    /// The tools that it speaks of, by their names here.
    pub fn tools(&self) -> &[String] {
        &self.tools
    }

    /// Whether it speaks of this tool at all.
    pub(crate) fn is_about(&self, tool: &str) -> bool {
        self.tools.iter().any(|own| own == tool)
    }

    /// Whether any part of the call is what this rule speaks of, for rules that refuse or ask.
    pub(super) fn touches(&self, tool: &str, reach: &Reach<'_>) -> Meant {
        let sure = |is_meant: bool| if is_meant { Meant::Yes } else { Meant::No };
        if !self.is_about(tool) {
            return Meant::No;
        }
        match (&self.on, reach) {
            (On::Anything, _) => Meant::Yes,
            (On::This { .. }, Reach::Path(Some(on))) => sure(self.speaks_of_path(on)),
            (On::This { commands, .. }, Reach::Command(line)) => {
                let seen = line.seen();
                let each = commands.iter().flat_map(|pattern| seen.iter().map(move |argv| line.meant(pattern, argv)));
                let meant = each.max().unwrap_or(Meant::No);
                // By the names as they were given: what a link is called says what it does.
                let given = if meant == Meant::No { line.reading.seen() } else { Vec::new() };
                let hides = |pattern: &Pattern| given.iter().any(|argv| line.may_start(pattern, argv));
                if commands.iter().any(hides) { Meant::Perhaps } else { meant }
            }
            (On::This { .. }, Reach::Nothing | Reach::Path(None)) => Meant::No,
        }
    }

    /// Whether it speaks of a path beneath the working directory, or of all that is in it.
    pub(super) fn speaks_of_path(&self, path: &str) -> bool {
        match &self.on {
            On::Anything => true,
            // What cannot be read as a path may mean any.
            On::This { paths, folders, .. } => {
                paths.is_empty() || paths.iter().chain(folders).any(|known| known.is_match(path))
            }
        }
    }

    /// Whether it has the name of a guarded place in it: neither `write_file` nor `write_file(**)` has.
    fn names_place(&self, place: &str) -> bool {
        match &self.on {
            On::Anything => false,
            On::This { paths, .. } => paths.iter().any(|path| is_in(Path::new(path.glob().glob()), place)),
        }
    }

    /// The first of these rules that has a part in covering the whole call; `None` if something of it is not covered.
    pub(super) fn covering<'a>(rules: &'a [Self], facts: &Facts<'_>, reach: &Reach<'_>) -> Option<&'a Self> {
        let names_place = |rule: &&Self| facts.guarded.is_none_or(|place| rule.names_place(place));
        let mut rules = rules.iter().filter(|rule| rule.is_about(facts.tool)).filter(names_place);
        if let Some(all) = rules.clone().find(|rule| matches!(rule.on, On::Anything)) {
            return Some(all);
        }
        match reach {
            Reach::Nothing | Reach::Path(None) => None,
            Reach::Path(Some(on)) => {
                let covers = |path: &GlobMatcher| path.is_match(on);
                rules.find(|rule| matches!(&rule.on, On::This { paths, .. } if paths.iter().any(covers)))
            }
            Reach::Command(line) => {
                let covers = |argv: &[String], rule: &&Self| match &rule.on {
                    On::This { commands, .. } => commands.iter().any(|pattern| pattern.matches(argv)),
                    On::Anything => false,
                };
                let Reading::Plain(line) = &line.reading else { return None };
                let mut first = None;
                for command in line.commands() {
                    let rule = rules.clone().find(|rule| covers(&command.argv, rule))?;
                    first = first.or(Some(rule));
                }
                first
            }
        }
    }
}

/// Whether a path of a rule is one that no tool for files reaches.
fn leads_out(what: &str, style: Style) -> bool {
    let is_absolute = match style {
        Style::Ours => what.starts_with('/'),
        // One slash is the project's folder there, two are the root.
        Style::ClaudeCode => what.starts_with("//"),
    };
    is_absolute || what == "~" || what.starts_with("~/") || what.split('/').any(|part| part == "..")
}

/// Whether what is between the first and the last parenthesis is the end of one rule and the beginning of another.
fn is_several(what: &str) -> bool {
    what.split(')').skip(1).any(|after| {
        let next = after.split_once('(').map(|(name, _)| name.trim_start_matches([' ', ',', ';']));
        let is_apart = after.starts_with([' ', ',', ';']);
        is_apart && next.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
    })
}

/// Why no path that a tool is given can be what this says, and what to write instead; `None` if one can.
fn never_matches(what: &str, style: Style) -> Option<String> {
    let path = what.strip_prefix("./").unwrap_or(what);
    if path.contains("//") {
        return Some("two slashes are in no path as it is compared; write one slash".to_owned());
    }
    if path.starts_with('!') {
        return Some(format!("nothing can be excepted from a rule; write `\\{path}` for a file with that name"));
    }
    if path == "." || (path.is_empty() && style == Style::ClaudeCode) {
        return Some(
            "`.` is in no path as it is compared; write `**` for all that is in the working directory".to_owned(),
        );
    }
    let has_dot = path.split('/').any(|part| part == ".");
    has_dot.then(|| "`.` is in no path as it is compared; leave the `.` out".to_owned())
}

/// A folder with its slash is all that is in it.
fn everything(what: &str, style: Style) -> Cow<'_, str> {
    match style {
        Style::Ours if what.ends_with('/') => format!("{what}**").into(),
        Style::Ours | Style::ClaudeCode => what.into(),
    }
}

/// What a rule's path matches.
fn paths(what: &str, style: Style) -> Result<Vec<GlobMatcher>, globset::Error> {
    let globs = match style {
        Style::Ours => vec![everything(what, style).trim_start_matches("./").to_owned()],
        Style::ClaudeCode => {
            let rooted = what.trim_start_matches("./");
            let path = rooted.trim_matches('/');
            let place =
                if rooted.starts_with('/') || path.contains('/') { path.to_owned() } else { format!("**/{path}") };
            vec![format!("{place}/**"), place]
        }
    };
    let glob = |text: String| Ok(GlobBuilder::new(&text).literal_separator(true).build()?.compile_matcher());
    globs.into_iter().map(glob).collect()
}

/// What a rule's command matches. `touch:*` is Claude Code's for `touch *`, and may be a part of a word as well.
fn commands(what: &str) -> Result<Vec<Pattern>, String> {
    let prefix = what.strip_suffix(":*").filter(|prefix| !prefix.is_empty());
    if prefix.is_some_and(|prefix| prefix.ends_with(":*")) {
        return Err("`:*` stands once, at the end".to_owned());
    }
    let prefix = prefix.map(|prefix| format!("{prefix} *"));
    let patterns = prefix.as_deref().into_iter().chain([what]).map(Pattern::parse);
    patterns.collect::<Result<_, PatternError>>().map_err(|error| error.to_string())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
