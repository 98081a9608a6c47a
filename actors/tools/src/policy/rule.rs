//! One rule of a configuration, as text and as what it matches.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use playhouse_shell::{Pattern, Reading};

use super::commands::Reach;

/// A tool, and what it may be used on.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    tool: String,
    on: On,
}

#[derive(Clone, Debug)]
enum On {
    Anything,
    /// Which of the two counts is up to the tool.
    This {
        path: Option<GlobMatcher>,
        command: Option<Pattern>,
    },
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
        let on = match what {
            None => On::Anything,
            Some("") => return Err(wrong("there is nothing between its parentheses")),
            Some(what) => {
                let glob = GlobBuilder::new(what.trim_start_matches("./")).literal_separator(true).build();
                // Not every path is a command, nor every command a path.
                match (glob, Pattern::parse(what)) {
                    (Err(error), Err(_)) => return Err(wrong(&error.to_string())),
                    (glob, command) => {
                        On::This { path: glob.ok().map(|glob| glob.compile_matcher()), command: command.ok() }
                    }
                }
            }
        };
        Ok(Self { text: text.trim().to_owned(), tool: tool.to_owned(), on })
    }

    /// Whether it speaks of this tool at all.
    pub(crate) fn is_about(&self, tool: &str) -> bool {
        self.tool == tool
    }

    /// Whether any part of the call is what this rule speaks of.
    pub(super) fn touches(&self, tool: &str, reach: &Reach) -> bool {
        self.is_about(tool)
            && match (&self.on, reach) {
                (On::Anything, _) => true,
                // What cannot be read as a path may mean any.
                (On::This { path, .. }, Reach::Path(Some(on))) => path.as_ref().is_none_or(|path| path.is_match(on)),
                (On::This { command, .. }, Reach::Command(line)) => {
                    command.as_ref().is_some_and(|pattern| line.seen().iter().any(|argv| pattern.matches(argv)))
                }
                (On::This { .. }, Reach::Nothing | Reach::Path(None)) => false,
            }
    }

    /// The first of these rules that has a part in covering the whole call; `None` if something of it is not covered.
    pub(super) fn covering<'a>(rules: &'a [Self], tool: &str, reach: &Reach) -> Option<&'a Self> {
        let mut rules = rules.iter().filter(|rule| rule.is_about(tool));
        if let Some(all) = rules.clone().find(|rule| matches!(rule.on, On::Anything)) {
            return Some(all);
        }
        match reach {
            Reach::Nothing | Reach::Path(None) => None,
            Reach::Path(Some(on)) => {
                rules.find(|rule| matches!(&rule.on, On::This { path: Some(path), .. } if path.is_match(on)))
            }
            Reach::Command(line) => {
                let covers = |argv: &[String], rule: &&Self| match &rule.on {
                    On::This { command: Some(pattern), .. } => pattern.matches(argv),
                    On::This { command: None, .. } | On::Anything => false,
                };
                let Reading::Plain(line) = line else { return None };
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
