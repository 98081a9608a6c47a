//! What stands below the line of a call that has ended: a diff for an edit, else the head of its output.

use playhouse::protocol::{Content, ToolResult};
use serde_json::Value;

use crate::cli::terminal::output::Detail;
use crate::cli::terminal::question::changes;
use crate::cli::terminal::text::{Tint, harmless};

/// How many lines of an output are shown.
const HEAD: usize = 8;
/// How many lines of a diff are shown.
const DIFF: usize = 30;

/// How the line of a call looks: red if it failed, yellow if its program ended with an error.
pub fn tint(tool_name: &str, result: &ToolResult, is_error: bool) -> Tint {
    let code = result.details.get("exit_code").and_then(Value::as_i64).filter(|_| tool_name == "bash");
    match code {
        Some(code) if code != 0 => Tint::Yellow,
        Some(_) | None if is_error => Tint::Red,
        Some(_) | None => Tint::Dim,
    }
}

/// The lines below a call.
pub fn below(
    tool_name: &str,
    args: &Value,
    result: &ToolResult,
    is_error: bool,
    detail: Detail,
) -> Vec<(Tint, String)> {
    let edits = args.get("edits").and_then(Value::as_array).filter(|_| tool_name == "edit_file" && !is_error);
    let (lines, most): (Vec<(Tint, String)>, usize) = match edits {
        Some(edits) => (changes(edits).into_iter().map(|line| (of_change(&line), line)).collect(), DIFF),
        // What it failed with is in the line of the call.
        None if is_error && tool_name != "bash" => (Vec::new(), HEAD),
        None => (text(result).lines().map(|line| (Tint::Dim, line.to_owned())).collect(), HEAD),
    };
    let more = lines.len().saturating_sub(most);
    let mut shown: Vec<(Tint, String)> = lines.into_iter().map(|(tint, line)| (tint, format!("  {line}"))).collect();
    // One line more costs no more than to say that it is left out.
    if detail != Detail::All && more > 1 {
        shown.truncate(most);
        shown.push((Tint::Dim, format!("  … {more} more lines (--verbose shows them)")));
    }
    shown
}

fn of_change(line: &str) -> Tint {
    match line.chars().next() {
        Some('-') => Tint::Red,
        Some('+') => Tint::Green,
        _ => Tint::Dim,
    }
}

/// What a call gave, as it may be shown.
pub fn text(result: &ToolResult) -> String {
    let blocks = result.content.iter().filter_map(|block| match block {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    harmless(blocks.collect::<Vec<_>>().join("\n").trim_end()).replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_output_shows_its_head_and_all_of_it_if_asked() {
        let long: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
        let result = ToolResult { details: json!({"exit_code": 0}), ..ToolResult::text(long.join("\n")) };
        let lines = below("bash", &json!({}), &result, false, Detail::Usual);
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[8].1, "  … 12 more lines (--verbose shows them)");
        assert_eq!(below("bash", &json!({}), &result, false, Detail::All).len(), 20);
        let nine = ToolResult::text(long[..9].join("\n"));
        assert_eq!(below("bash", &json!({}), &nine, false, Detail::Usual).len(), 9);
    }

    #[test]
    fn an_exit_that_is_not_zero_has_a_colour_of_its_own_and_an_edit_is_a_diff() {
        let exit = |code: i64| ToolResult { details: json!({"exit_code": code}), ..ToolResult::default() };
        let tints = [tint("bash", &exit(0), false), tint("bash", &exit(1), false), tint("x", &exit(1), true)];
        assert_eq!(tints, [Tint::Dim, Tint::Yellow, Tint::Red]);
        let args = json!({"path": "a", "edits": [{"old_text": "one\ntwo", "new_text": "one\n2"}]});
        let lines = below("edit_file", &args, &ToolResult::text("done"), false, Detail::Usual);
        let expected = [(Tint::Dim, "    one"), (Tint::Red, "  - two"), (Tint::Green, "  + 2")];
        assert_eq!(lines, expected.map(|(tint, line)| (tint, line.to_owned())));
    }
}
