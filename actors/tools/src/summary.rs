//! One line about a call, for people. What stands in it is each tool's own word ([`Tool::summary`]).

use std::sync::{Arc, LazyLock};

use playhouse_protocol::{ToolError, ToolResult};
use serde_json::Value;

use crate::builtin::default_tools;
use crate::text::cut;
use crate::tool::Tool;

const MAX_CHARS: usize = 120;

/// What a tool says of one of its calls, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSummary {
    /// What the call is about: `cargo test`. Empty if there is nothing to say.
    pub about: String,
    /// How it ended: `exit 0`. Empty before its end, and if there is nothing to say.
    pub ending: String,
}

impl CallSummary {
    /// About the argument that says best what the call is about; without an ending.
    pub fn of(args: &Value) -> Self {
        const TELLING: [&str; 8] = ["path", "file", "url", "query", "pattern", "command", "name", "task"];
        let told = TELLING.iter().find_map(|key| args.get(key).and_then(Value::as_str));
        let about = match (told, args) {
            (Some(text), _) => text.split_whitespace().collect::<Vec<_>>().join(" "),
            (None, Value::Object(all)) if all.is_empty() => String::new(),
            (None, Value::Null) => String::new(),
            (None, _) => args.to_string(),
        };
        Self { about, ending: String::new() }
    }

    /// Ends with a number that the result's details have: `3 matches`.
    pub(crate) fn counting(self, result: Option<&ToolResult>, key: &str, what: &str) -> Self {
        let count = result.and_then(|result| result.details.get(key)?.as_i64());
        let ending = count.map(|count| match (count, one_of(what)) {
            (1, Some(one)) => format!("1 {one}"),
            (count, _) => format!("{count} {what}"),
        });
        Self { ending: ending.unwrap_or_default(), ..self }
    }

    /// One line of at most 120 characters: `bash: cargo test (exit 0)`.
    pub(crate) fn line(self, name: &str, result: &Result<ToolResult, ToolError>) -> String {
        let Self { about, ending } = self;
        let ending = match result {
            Ok(_) => ending,
            Err(ToolError::Cancelled) => "cancelled".to_owned(),
            Err(ToolError::TimedOut(ms)) => format!("timed out after {ms} ms"),
            Err(ToolError::NotFound(_)) => "no such tool".to_owned(),
            Err(error) => format!("failed: {}", cut(&error.to_string(), 60)),
        };
        // The ending is what one looks for: the rest gives way to it.
        let room = MAX_CHARS.saturating_sub(name.chars().count() + ending.chars().count() + 6);
        let about = cut(&about, room.saturating_sub(1));
        let line = match (about.is_empty(), ending.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{name} ({ending})"),
            (false, true) => format!("{name}: {about}"),
            (false, false) => format!("{name}: {about} ({ending})"),
        };
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        cut(&line, MAX_CHARS - 1)
    }
}

/// The word for one of several.
fn one_of(several: &str) -> Option<&'static str> {
    [("edits", "edit"), ("matches", "match"), ("entries", "entry"), ("bytes", "byte")]
        .into_iter()
        .find_map(|(many, one)| (many == several).then_some(one))
}

/// What a call was and how it ended, in one line of at most 120 characters: `bash: cargo test (exit 0)`. For those who
/// know the call and not the tools: only the built-in ones have their own word here. An agent asks its
/// [`ToolSet`](crate::ToolSet::summary). Pure.
pub fn summary(name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
    static BUILTIN: LazyLock<Vec<Arc<dyn Tool>>> = LazyLock::new(default_tools);
    let tool = BUILTIN.iter().find(|tool| tool.name() == name);
    let told = tool.map_or_else(|| CallSummary::of(args), |tool| tool.summary(args, result.as_ref().ok()));
    told.line(name, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ok(details: Value) -> Result<ToolResult, ToolError> {
        Ok(ToolResult { details, ..ToolResult::text("x") })
    }

    #[test]
    fn a_line_says_what_was_done_and_how_it_ended() {
        let bash = json!({"command": "cargo\n  test"});
        assert_eq!(summary("bash", &bash, &ok(json!({"exit_code": 0}))), "bash: cargo test (exit 0)");
        assert_eq!(summary("bash", &bash, &Err(ToolError::Cancelled)), "bash: cargo test (cancelled)");
        assert_eq!(summary("bash", &bash, &Err(ToolError::TimedOut(5))), "bash: cargo test (timed out after 5 ms)");
        let path = json!({"path": "a.rs", "limit": 3});
        assert_eq!(summary("read_file", &path, &ok(json!({"bytes": 12}))), "read_file: a.rs (12 bytes)");
        assert_eq!(summary("list_files", &json!({}), &ok(json!({"entries": 2}))), "list_files (2 entries)");
        let pattern = json!({"path": "src", "pattern": "fn main"});
        assert_eq!(summary("search", &pattern, &ok(json!({"matches": 3}))), "search: fn main (3 matches)");
        assert_eq!(summary("edit_file", &path, &ok(json!({"edits": 2, "bytes": 9}))), "edit_file: a.rs (2 edits)");
        assert_eq!(summary("edit_file", &path, &ok(json!({"edits": 1}))), "edit_file: a.rs (1 edit)");
        assert_eq!(summary("search", &pattern, &ok(json!({"matches": 1}))), "search: fn main (1 match)");
        assert_eq!(summary("write_file", &path, &ok(json!({"bytes": 9}))), "write_file: a.rs (9 bytes)");
        assert_eq!(summary("mine", &json!({"n": 1}), &ok(Value::Null)), "mine: {\"n\":1}");
    }

    #[test]
    fn a_line_is_one_line_and_short_whatever_comes() {
        let long = "ä\n".repeat(500);
        let results =
            [ok(json!({"exit_code": 1})), Err(ToolError::Failed(long.clone())), Err(ToolError::Panicked(long.clone()))];
        for name in ["bash", "read_file", "x", &"n".repeat(300)] {
            for args in
                [json!({"command": long, "path": long}), json!({}), json!(null), json!([long]), json!({"k": long})]
            {
                for result in &results {
                    let line = summary(name, &args, result);
                    assert!(line.chars().count() <= MAX_CHARS && !line.contains('\n'), "{line}");
                }
            }
        }
        let line = summary("bash", &json!({"command": long}), &ok(json!({"exit_code": 1})));
        assert!(line.ends_with("(exit 1)"), "{line}");
    }
}
