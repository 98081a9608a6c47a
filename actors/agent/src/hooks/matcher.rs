//! Which tools a command hook is for.

use std::fmt;

use regex::Regex;

/// Claude Code's names of tools, with ours.
const ALIASES: [(&str, &str); 9] = [
    ("Bash", "bash"),
    ("Edit", "edit_file"),
    ("MultiEdit", "edit_file"),
    ("Write", "write_file"),
    ("Read", "read_file"),
    ("Grep", "search"),
    ("Glob", "list_files"),
    ("LS", "list_files"),
    ("Task", "sub_agent"),
];

/// A pattern that is no regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern: name tools, as in `bash|edit_file`, or write a regular expression ({reason})")]
pub struct BadMatcher {
    pattern: String,
    reason: String,
}

/// Which tools a hook is for, as in Claude Code: names with `|` between them are compared whole, anything else is a
/// regular expression that a name must contain, and `*` or nothing is every tool. Claude Code's names stand for ours.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    text: String,
    /// Absent for plain names and for every tool.
    regex: Option<Regex>,
}

impl Matcher {
    /// Matches every tool.
    pub fn any() -> Self {
        Self::default()
    }

    /// The tools that this pattern names.
    pub fn new(pattern: impl Into<String>) -> Result<Self, BadMatcher> {
        let text = pattern.into();
        let is_plain = text == "*" || text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '|'));
        if is_plain {
            return Ok(Self { text, regex: None });
        }
        match Regex::new(&text) {
            Ok(regex) => Ok(Self { text, regex: Some(regex) }),
            Err(error) => {
                let told = error.to_string();
                let reason = told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                Err(BadMatcher { pattern: text, reason })
            }
        }
    }

    /// The pattern as it was given; empty for every tool.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is for every tool.
    pub fn is_any(&self) -> bool {
        matches!(self.text.as_str(), "" | "*")
    }

    /// Whether it is for the tool of this name.
    pub fn matches(&self, name: &str) -> bool {
        let also = ALIASES.iter().filter(|(_, ours)| *ours == name).map(|(theirs, _)| *theirs);
        self.is_any() || std::iter::once(name).chain(also).any(|name| self.names(name))
    }

    fn names(&self, name: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(name),
            None => self.text.split('|').any(|one| one == name),
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str) -> Vec<&'static str> {
        let tools = ["bash", "read_file", "list_files", "search", "edit_file", "write_file", "sub_agent", "bash_more"];
        let matcher = Matcher::new(pattern).unwrap();
        tools.into_iter().filter(|name| matcher.matches(name)).collect()
    }

    #[test]
    fn names_are_whole_and_claude_codes_stand_for_ours() {
        assert_eq!(matched("bash"), ["bash"]);
        assert_eq!(matched("Bash"), ["bash"]);
        assert_eq!(matched("Edit|Write|search"), ["search", "edit_file", "write_file"]);
        assert_eq!(matched("Read|LS|Grep|Task"), ["read_file", "list_files", "search", "sub_agent"]);
        assert_eq!(matched("bas"), Vec::<&str>::new());
    }

    #[test]
    fn the_rest_is_a_regular_expression_and_nothing_or_a_star_is_every_tool() {
        assert_eq!(matched(".*_file"), ["read_file", "list_files", "edit_file", "write_file"]);
        assert_eq!(matched("^bash"), ["bash", "bash_more"]);
        assert_eq!(matched("^(Edit|MultiEdit)$"), ["edit_file"]);
        assert_eq!((matched("").len(), matched("*").len(), matched(".*").len()), (8, 8, 8));
        let error = Matcher::new("(bash").unwrap_err().to_string();
        assert!(error.contains("`(bash` is no pattern") && error.contains("unclosed group"), "{error}");
    }
}
