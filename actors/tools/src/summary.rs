//! One line about a finished call, for people.

use playhouse_protocol::{Content, ToolError, ToolResult};
use serde_json::Value;

use crate::builtin::bash;
use crate::text::cut;

const MAX_CHARS: usize = 120;

/// What a call was and how it ended, in one line of at most 120 characters: `bash: cargo test (exit 0)`. Pure.
pub fn summary(name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
    let subject = match name {
        "bash" => bash::shown(args),
        "search" => args.get("pattern").and_then(Value::as_str).unwrap_or_default().to_owned(),
        _ => subject(args),
    };
    let ending = match result {
        Ok(result) => ending(name, result),
        Err(ToolError::Cancelled) => "cancelled".to_owned(),
        Err(ToolError::TimedOut(ms)) => format!("timed out after {ms} ms"),
        Err(ToolError::NotFound(_)) => "no such tool".to_owned(),
        Err(error) => format!("failed: {}", cut(&error.to_string(), 60)),
    };
    // The ending is what one looks for: the subject gives way to it.
    let room = MAX_CHARS.saturating_sub(name.chars().count() + ending.chars().count() + 6);
    let subject = cut(&subject, room.saturating_sub(1));
    let line = match (subject.is_empty(), ending.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{name} ({ending})"),
        (false, true) => format!("{name}: {subject}"),
        (false, false) => format!("{name}: {subject} ({ending})"),
    };
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(&line, MAX_CHARS - 1)
}

fn ending(name: &str, result: &ToolResult) -> String {
    let number = |key: &str| result.details.get(key).and_then(Value::as_i64);
    match name {
        "bash" => match (number("exit_code"), number("signal")) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => String::new(),
        },
        "list_files" => number("entries").map(|count| format!("{count} entries")).unwrap_or_default(),
        "search" => number("matches").map(|count| format!("{count} matches")).unwrap_or_default(),
        "edit_file" => number("edits").map(|count| format!("{count} edits")).unwrap_or_default(),
        "write_file" => number("bytes").map(|count| format!("{count} bytes")).unwrap_or_default(),
        "read_file" => {
            let is_image = result.content.iter().any(|block| matches!(block, Content::Image { .. }));
            let what = if is_image { "image, " } else { "" };
            number("bytes").map(|count| format!("{what}{count} bytes")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// What a call is about: the argument that says it best.
fn subject(args: &Value) -> String {
    const TELLING: [&str; 8] = ["path", "file", "url", "query", "pattern", "command", "name", "task"];
    let told = TELLING.iter().find_map(|key| args.get(key).and_then(Value::as_str));
    match (told, args) {
        (Some(text), _) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        (None, Value::Object(all)) if all.is_empty() => String::new(),
        (None, Value::Null) => String::new(),
        (None, _) => args.to_string(),
    }
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
