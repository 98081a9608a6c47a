//! What a question for permission looks like on a terminal, and what an answer to it means.

use std::time::Duration;

use playhouse::agent::PermissionRequest;
use playhouse::protocol::{GrantScope, Level, PermissionDecision, Question};
use playhouse::tools::shell::{self, Reading};
use serde_json::Value;

use crate::cli::terminal::text::{cut, spelled_out};

/// How many characters of a command or an argument are shown at its beginning, and as many at its end.
const SHOWN: usize = 200;
/// How many lines of a change are shown.
const LINES: usize = 30;
/// How many programs of a command are named.
const PROGRAMS: usize = 20;

/// How many characters of a program's name are shown.
const LONGEST: usize = 60;

/// How much of a call is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// What fits on a screen, and how much that leaves out.
    Ends,
    All,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Decided(PermissionDecision),
    /// The person wants to know more.
    Explain,
    /// It is none of the keys that are offered.
    NotOffered,
}

/// The question: first what will be run, with nothing that could hide it, then why it is asked. The keys come below.
pub(super) fn question(request: &PermissionRequest) -> String {
    let danger = match request.question.level {
        Level::Dangerous | Level::Forbidden => " (dangerous)",
        Level::None | Level::ReadOnly | Level::Write | Level::Execute => "",
    };
    let Question { reason, rules, offer, .. } = &request.question;
    let mut below = Vec::new();
    if !reason.is_empty() {
        below.push(format!("({})", spelled_out(reason)));
    }
    if !rules.is_empty() && *offer > GrantScope::Once {
        let keys = if *offer == GrantScope::Session { "s" } else { "s, a" };
        below.push(format!("{keys}: {}", ends(&spelled_out(&rules.join(", ")), Part::Ends)));
    }
    let what = what(&request.args, Part::Ends);
    let mut text = format!("Allow {}{danger}: {what}\n", spelled_out(&request.tool_name));
    if !below.is_empty() {
        text.push_str(&format!("{}\n", below.join(" ")));
    }
    text
}

/// What each key does, and the whole of the call.
pub(super) fn explanation(request: &PermissionRequest) -> String {
    let Question { rules, offer, .. } = &request.question;
    let rules = spelled_out(&rules.join(", "));
    let mut text = "  y  yes, this once\n".to_owned();
    text.push_str(&match offer {
        GrantScope::Once => "     (a yes for longer is not offered: it could allow something else)\n".to_owned(),
        GrantScope::Session => format!(
            "  s  yes, and in this session from now on: {rules}\n     (always is not offered: it is dangerous, or another \
             thing in another project)\n"
        ),
        GrantScope::Always => format!(
            "  s  yes, and in this session from now on: {rules}\n  a  yes, and always from now on; it is kept in your \
             config.toml: {rules}\n"
        ),
    });
    text.push_str("  n  no; what follows it is told to the model, as in `n use git mv`\n");
    format!("{text}All of it:\n{}\n", what(&request.args, Part::All))
}

/// What the keys mean, in a few words.
pub(super) fn keys_explained(offer: GrantScope) -> &'static str {
    match offer {
        GrantScope::Once => "Keys: y yes, n no (what follows it is told to the model), ? shows all",
        GrantScope::Session => {
            "Keys: y yes, s yes in this session, n no (what follows it is told to the model), ? shows all"
        }
        GrantScope::Always => {
            "Keys: y yes, s yes in this session, a always yes, n no (what follows it is told to the model), ? shows all"
        }
    }
}

/// That an answer is none.
pub(super) const REMINDER: &str = "Answer with one of these keys; ? explains them.\n";

/// The keys there are, at the beginning of the line on which the answer is typed.
pub(super) fn keys(offer: GrantScope) -> &'static str {
    match offer {
        GrantScope::Once => "[y/n/?] ",
        GrantScope::Session => "[y/s/n/?] ",
        GrantScope::Always => "[y/s/a/n/?] ",
    }
}

/// How long there is left for an answer, on the line above the keys.
pub(super) fn countdown(left: Duration) -> String {
    format!("No answer in {} means no.", in_words(left))
}

/// That nobody answered, for the model and for whoever comes back.
pub(super) fn unanswered(limit: Duration) -> PermissionDecision {
    PermissionDecision::Deny { reason: format!("nobody answered within {}", in_words(limit)) }
}

/// A time in whole seconds, begun ones included.
fn in_words(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1_000);
    if seconds < 60 { format!("{seconds} s") } else { format!("{}:{:02} min", seconds / 60, seconds % 60) }
}

/// What an answer means: `y` once, `s` for the session, `a` always, `n` no, with the reason after it. Only what is offered
/// counts.
pub(super) fn reply(answer: &str, offer: GrantScope) -> Reply {
    let (word, rest) = answer.split_once(char::is_whitespace).unwrap_or((answer, ""));
    let deny = |reason: String| Reply::Decided(PermissionDecision::Deny { reason });
    match (word.to_lowercase().as_str(), rest.trim()) {
        ("y" | "yes", "") => Reply::Decided(PermissionDecision::Allow),
        ("s" | "session", "") if offer >= GrantScope::Session => Reply::Decided(PermissionDecision::AllowSession),
        ("a" | "always", "") if offer >= GrantScope::Always => Reply::Decided(PermissionDecision::AllowAlways),
        ("n" | "no", "") => deny("the user said no".to_owned()),
        ("n" | "no", reason) => deny(format!("the user said no: {reason}")),
        ("?", "") => Reply::Explain,
        _ => Reply::NotOffered,
    }
}

/// What a call would do.
fn what(args: &Value, part: Part) -> String {
    if let Some(command) = args.get("command").and_then(Value::as_str) {
        return format!("{}\nIt runs {}", ends(&in_lines(command), part), programs(command));
    }
    let path = args.get("path").and_then(Value::as_str);
    if let (Some(path), Some(edits)) = (path, args.get("edits").and_then(Value::as_array)) {
        return format!("{}\n{}", spelled_out(path), diff(edits, part));
    }
    if let (Some(path), Some(content)) = (path, args.get("content").and_then(Value::as_str)) {
        let lines: Vec<String> = content.lines().map(|line| format!("+ {}", ends(&spelled_out(line), part))).collect();
        return format!("{}\n{}", spelled_out(path), in_part(&lines, part));
    }
    let Some(fields) = args.as_object() else { return spelled_out(&args.to_string()) };
    let rest = fields.iter().filter(|(name, _)| path.is_none() || name.as_str() != "path");
    let rest = rest.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{}: {}", spelled_out(name), ends(&spelled_out(text), part)),
        None => format!("{}: {}", spelled_out(name), ends(&spelled_out(&value.to_string()), part)),
    });
    path.map(spelled_out).into_iter().chain(rest).collect::<Vec<_>>().join(", ")
}

/// A command with nothing hidden. Several lines are shown as such, each behind a mark: the `\n` of one could be a
/// backslash and a letter of the command.
fn in_lines(command: &str) -> String {
    if !command.contains('\n') {
        return spelled_out(command);
    }
    command.split('\n').map(|line| format!("\n| {}", spelled_out(line))).collect()
}

/// The beginning and the end of a text, and how much is between them.
fn ends(text: &str, part: Part) -> String {
    let length = text.chars().count();
    if part == Part::All || length <= 2 * SHOWN {
        return text.to_owned();
    }
    let (head, tail): (String, String) =
        (text.chars().take(SHOWN).collect(), text.chars().skip(length - SHOWN).collect());
    format!("{head}… [{} of {length} characters are left out: ? shows them] …{tail}", length - 2 * SHOWN)
}

/// The programs that a command starts, as far as can be read.
fn programs(command: &str) -> String {
    let reading = shell::read(command);
    let mut names: Vec<String> = Vec::new();
    for argv in reading.seen() {
        if let Some(name) =
            argv.first().map(|name| cut(&spelled_out(name), LONGEST)).filter(|name| !names.contains(name))
        {
            names.push(name);
        }
    }
    if let Reading::Plain(line) = &reading {
        // What is named by its path alone is not named once more without it.
        let written: Vec<String> = line.commands().iter().filter_map(|command| command.argv.first()).cloned().collect();
        let ends_in =
            |name: &str| written.iter().any(|path| path.rsplit_once('/').is_some_and(|(_, last)| last == name));
        names.retain(|name| !ends_in(name) || written.contains(name));
    }
    let more = names.len().saturating_sub(PROGRAMS);
    names.truncate(PROGRAMS);
    let mut text = names.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    match reading {
        Reading::Plain(_) => text,
        Reading::Opaque(_) if text.is_empty() => "what cannot be read off its text".to_owned(),
        Reading::Opaque(_) => format!("{text}, and perhaps what cannot be read off its text"),
    }
}

/// Edits as lines that go and lines that come, between those that stay, as far as they fit a screen.
fn diff(edits: &[Value], part: Part) -> String {
    let lines: Vec<String> = changes(edits).iter().map(|line| ends(line, part)).collect();
    in_part(&lines, part)
}

/// The first and the last of many lines.
fn in_part(lines: &[String], part: Part) -> String {
    let more = lines.len().saturating_sub(LINES);
    if part == Part::All || more == 0 {
        return lines.join("\n");
    }
    let (head, tail) = (lines.get(..LINES / 2).unwrap_or_default(), lines.get(LINES / 2 + more..).unwrap_or_default());
    format!("{}\n… [{more} lines are left out: ? shows them] …\n{}", head.join("\n"), tail.join("\n"))
}

/// The lines of edits, each behind its mark: `-`, `+`, or a space if it stays.
pub(super) fn changes(edits: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for edit in edits {
        let text = |name: &str| edit.get(name).and_then(Value::as_str).unwrap_or_default();
        let (old, new): (Vec<&str>, Vec<&str>) =
            (text("old_text").lines().collect(), text("new_text").lines().collect());
        let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
        let before = old.iter().zip(&new).take_while(same).count();
        let most = old.len().min(new.len()) - before;
        let after = old.iter().rev().zip(new.iter().rev()).take(most).take_while(same).count();
        let mut put = |mark: &str, some: Option<&[&str]>| {
            lines.extend(some.unwrap_or_default().iter().map(|line| format!("{mark} {}", spelled_out(line))));
        };
        put(" ", old.get(..before));
        put("-", old.get(before..old.len() - after));
        put("+", new.get(before..new.len() - after));
        put(" ", old.get(old.len() - after..));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(args: Value) -> String {
        what(&args, Part::Ends)
    }

    #[test]
    fn only_what_is_offered_counts() {
        let offers = [GrantScope::Once, GrantScope::Session, GrantScope::Always];
        assert_eq!(offers.map(|offer| reply("s", offer) == Reply::NotOffered), [true, false, false]);
        assert_eq!(offers.map(|offer| reply("always", offer) == Reply::NotOffered), [true, true, false]);
        for nothing in ["", "yep", "y please", "N0", "? x"] {
            assert_eq!(reply(nothing, GrantScope::Always), Reply::NotOffered, "{nothing}");
        }
        assert_eq!(reply("?", GrantScope::Once), Reply::Explain);
    }

    #[test]
    fn the_time_that_is_left_is_said_in_minutes_and_seconds() {
        let said = |millis| countdown(Duration::from_millis(millis));
        assert_eq!(said(59_001), "No answer in 1:00 min means no.");
        assert_eq!(said(125_000), "No answer in 2:05 min means no.");
        assert_eq!(
            [said(59_000), said(1), said(0)].map(|said| said.replace("No answer in ", "")),
            ["59 s means no.", "1 s means no.", "0 s means no."]
        );
    }

    #[test]
    fn a_long_command_shows_both_ends_what_is_left_out_and_its_programs() {
        let command = format!("curl http://x | sh; echo {}; rm -r target", "a ".repeat(1_000));
        let shown = shown(json!({ "command": command }));
        assert!(shown.starts_with("curl http://x | sh;") && shown.contains("rm -r target\nIt runs curl, sh, echo, rm"));
        assert!(shown.contains("characters are left out: ? shows them") && shown.chars().count() < 600, "{shown}");
        assert!(what(&json!({ "command": command }), Part::All).contains(&command));
    }

    #[test]
    fn a_line_break_is_one_and_looks_like_nothing_else() {
        let (broken, written) =
            (shown(json!({"command": "echo a\ntouch b"})), shown(json!({"command": "echo a\\ntouch b"})));
        assert_eq!(broken, "\n| echo a\n| touch b\nIt runs echo, touch");
        assert_eq!(written, "echo a\\ntouch b\nIt runs echo");
        let (broken, written) = (shown(json!({"command": "touch a\\\nb"})), shown(json!({"command": "touch a\\\\nb"})));
        assert!(broken.starts_with("\n| touch a\\\n| b\nIt runs "), "{broken}");
        assert_eq!(written, "touch a\\\\nb\nIt runs touch");
        assert!(shown(json!({"command": "true\n\u{1b}[A"})).contains("| \\u{1b}[A"), "nothing moves the cursor");
    }

    #[test]
    fn a_program_that_is_named_by_its_path_is_named_once() {
        assert_eq!(shown(json!({"command": "./run.sh && make"})), "./run.sh && make\nIt runs ./run.sh, make");
        let both = shown(json!({"command": "./ls; ls"}));
        assert!(both.contains(" ls") && both.contains("./ls"), "two programs of one name are two: {both}");
    }

    #[test]
    fn a_program_with_a_long_name_does_not_fill_the_screen() {
        let shown = shown(json!({"command": format!("{} x", "z".repeat(390))}));
        let named = shown.lines().find_map(|line| line.strip_prefix("It runs ")).unwrap();
        assert_eq!(named, format!("{}…", "z".repeat(59)));
    }

    #[test]
    fn what_is_written_stands_in_lines_beneath_its_path() {
        let args = |content: &str| json!({"path": "a.txt", "content": content});
        assert_eq!(shown(args("one\n\u{1b}[A\n")), "a.txt\n+ one\n+ \\u{1b}[A");
        let many = shown(args(&"x\n".repeat(100)));
        assert!(many.contains("70 lines are left out: ? shows them") && many.lines().count() == 32, "{many}");
    }

    #[test]
    fn an_edit_is_a_diff_after_its_path() {
        let edit = json!({"old_text": "fn a() {\n    one\n}", "new_text": "fn a() {\n    two\u{202e}\n    three\n}"});
        let expected = "src/a.rs\n  fn a() {\n-     one\n+     two\\u{202e}\n+     three\n  }";
        assert_eq!(shown(json!({"path": "src/a.rs", "edits": [edit]})), expected);
        let many: Vec<Value> = (0..100).map(|n| json!({"old_text": format!("o{n}"), "new_text": ""})).collect();
        let shown = shown(json!({"path": "a", "edits": many}));
        assert!(
            shown.contains("- o0\n") && shown.ends_with("- o99") && shown.contains("70 lines are left out"),
            "{shown}"
        );
        let same = json!({"old_text": "a\na", "new_text": "a"});
        assert_eq!(super::what(&json!({"path": "a", "edits": [same]}), Part::Ends), "a\n  a\n- a");
    }
}
