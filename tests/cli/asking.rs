//! Questions on a terminal: what nobody is asked about, how a question looks, and how long it waits.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::Desk;

fn calling(name: &str, arguments: Value) -> Value {
    json!({"tool_calls": [{"name": name, "arguments": arguments}]})
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
}

#[test]
fn nobody_is_asked_about_what_cannot_work() {
    let desk = Desk::new();
    desk.write("a.txt", "one two two\n");
    std::os::unix::fs::symlink(".git", desk.work().join("link")).unwrap();
    std::fs::create_dir(desk.work().join(".git")).unwrap();
    let turns = json!([
        calling("edit_file", edit("a.txt", "three", "3")),
        calling("edit_file", edit("a.txt", "two", "2")),
        calling("edit_file", edit("gone.txt", "one", "1")),
        calling("write_file", json!({"path": "a.txt", "content": "x"})),
        calling("write_file", json!({"path": "../b.txt", "content": "x"})),
        calling("write_file", json!({"path": "link/config", "content": "x"})),
        calling("bash", json!({"command": "no-such-program-here --help"})),
        {"text": "Nothing worked."},
    ]);
    let script = desk.script("s.json", turns);
    let (code, screen) = desk.on_terminal(&["run", "go", "--script", &script]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("Allow ") && !screen.contains("/?]"), "{screen}");
    let session = desk.session();
    let entries = desk.entries(&session);
    let asked = entries.iter().filter(|entry| entry["body"]["type"] == "permission_asked").count();
    let blocked: Vec<&Value> = entries.iter().filter(|entry| entry["body"]["type"] == "tool_blocked").collect();
    assert_eq!((asked, blocked.len()), (0, 7), "{entries:#?}");
    let words = [
        "`old_text` does not occur",
        "`old_text` occurs 2 times",
        "`gone.txt` does not exist",
        "`a.txt` exists and you have not read it",
        "leads out of the working directory",
        "which is guarded: name it so",
        "no-such-program-here: command not found",
    ];
    for (entry, words) in blocked.into_iter().zip(words) {
        assert_eq!(entry["body"]["stage"], "check", "{entry}");
        assert!(entry["body"]["reason"].as_str().unwrap().contains(words), "{words}: {entry}");
    }
    assert_eq!(std::fs::read_to_string(desk.work().join("a.txt")).unwrap(), "one two two\n");
}

#[test]
fn a_later_call_is_looked_at_and_asked_about_when_the_one_before_it_is_done() {
    let desk = Desk::new();
    desk.write("a.txt", "one\n");
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    let calls = json!([
        {"name": "edit_file", "arguments": edit("a.txt", "one", "two")},
        {"name": "edit_file", "arguments": edit("a.txt", "two", "three")},
        {"name": "edit_file", "arguments": edit("a.txt", "one", "four")},
    ]);
    let script = desk.script("s.json", json!([{"tool_calls": calls}, {"text": "Done."}]));
    let steps = [("+ two", "y\r"), ("+ three", "y\r")];
    let (code, screen) = desk.on_terminal_typing(&["run", "go", "--script", &script], &config, &steps);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("Allow edit_file").count(), 2, "{screen}");
    assert_eq!(std::fs::read_to_string(desk.work().join("a.txt")).unwrap(), "three\n");
    let done = screen.find("• edit_file: a.txt (1 edit)").expect(&screen);
    assert!(done < screen.find("+ three").unwrap(), "what was done stands before the next question: {screen}");
}

/// A script that runs one command.
fn running(desk: &Desk, command: &str) -> String {
    desk.script("run.json", json!([calling("bash", json!({ "command": command })), {"text": "Done."}]))
}

#[test]
fn what_is_asked_comes_first_with_its_programs_and_the_keys_have_a_line_of_their_own() {
    for columns in [40, 120] {
        let desk = Desk::new();
        let script = running(&desk, "touch a.txt");
        let run = ["run", "go", "--script", &script];
        let (code, rows, bytes) = desk.screen_typing(columns, &run, &[("/?] ", "y\r")]);
        assert_eq!(code, Some(0), "{bytes}");
        let at = rows.iter().position(|row| row == "Allow bash: touch a.txt").unwrap_or_else(|| panic!("{rows:#?}"));
        assert_eq!(rows[at + 1], "It runs touch", "{rows:#?}");
        assert!(rows[at + 2].starts_with("(run a shell command) s, a:"), "{rows:#?}");
        let answered = rows.iter().position(|row| row == "[y/s/a/n/?] y").unwrap_or_else(|| panic!("{rows:#?}"));
        assert!(rows[answered + 1].starts_with("• bash: touch a.txt (exit 0)"), "{rows:#?}");
        assert!(!bytes.contains("No answer"), "there is no limit: {bytes}");
    }
}

#[test]
fn a_question_with_a_limit_counts_down_in_one_line_and_ends_as_a_no() {
    let desk = Desk::new();
    let script = running(&desk, "touch a.txt");
    let run = ["run", "go", "--script", &script, "--question-timeout", "3s"];
    let (code, rows, bytes) = desk.screen_typing(40, &run, &[]);
    assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), false), "{bytes}");
    let seen = ["3 s", "2 s", "1 s"].map(|left| bytes.find(&format!("No answer in {left} means no.")).expect(&bytes));
    assert!(seen.is_sorted(), "{bytes}");
    let asked: Vec<&String> = rows.iter().filter(|row| row.contains("No answer in")).collect();
    assert_eq!(asked, ["No answer in 1 s means no."], "{rows:#?}");
    let words: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
    assert!(words.join(" ").contains("bash did not run: nobody answered within 3 s"), "{rows:#?}");

    // Where nothing can be drawn, it is said once.
    let (code, screen) = desk.on_terminal_without_colours(&run);
    assert_eq!((code, screen.matches("No answer in").count()), (Some(0), 1), "{screen}");
    assert!(screen.contains("No answer in 3 s means no.\r\n[y/s/a/n/?] ") && !screen.contains('\x1b'), "{screen:?}");
}

#[test]
fn an_answer_is_taken_while_the_time_runs_and_waiting_is_no_running_time() {
    let desk = Desk::new();
    let script = running(&desk, "touch a.txt");
    let run = ["run", "go", "--script", &script, "--question-timeout", "60s", "--max-duration", "2s"];
    let steps = [("No answer in 57 s", "what?\r"), ("Answer with one of these keys", "y\r")];
    let (code, rows, bytes) = desk.screen_typing(100, &run, &steps);
    assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), true), "{bytes}");
    assert!(rows.iter().any(|row| row == "[y/s/a/n/?] what?"), "what was typed stays: {rows:#?}");
}

/// The program for a line of a shell.
fn program() -> String {
    format!("'{}'", env!("CARGO_BIN_EXE_playhouse"))
}

#[test]
fn with_something_piped_in_a_person_is_asked_on_the_terminal() {
    for (answer, is_made) in [("y\r", true), ("n\r", false)] {
        let desk = Desk::new();
        let script = running(&desk, "touch a.txt");
        let line = format!("printf '%s\\n' -old +new | {} run 'review this' --script '{script}'", program());
        let (code, screen) = desk.at_shell(&line, &[("/?] ", answer)]);
        assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), is_made), "{screen}");
    }
}

#[test]
fn a_byte_that_is_no_text_is_no_answer_and_neither_is_a_later_line_of_a_paste() {
    for typed in [&b"\xff\r"[..], b"hello\rworld\ry\rrest\r"] {
        let desk = Desk::new();
        let line = format!("{} run go --script '{}'", program(), running(&desk, "touch a.txt"));
        let mut typed = Some(typed);
        let (code, screen) = desk.at_shell_with(&line, |screen, keys| {
            if let Some(typed) = typed.take_if(|_| screen.contains("/?] ")) {
                keys.write_all(typed).unwrap();
            }
            let again = screen.contains("Answer with one of these keys; ? explains them.\r\n[y/s/a/n/?] ");
            again.then(|| keys.write_all(b"n thanks\r").unwrap()).is_some()
        });
        assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), false), "{screen}");
        assert!(screen.contains("the user said no: thanks"), "{screen}");
        assert_eq!(screen.matches("Answer with one of these keys").count(), 1, "{screen}");
    }
}

#[test]
fn a_question_that_something_was_written_over_is_asked_again() {
    let desk = Desk::new();
    let sub_agent = |task: &str| json!({"name": "sub_agent", "arguments": {"task": task}});
    let step = |task: &str| {
        let command = format!("until test -e go; do sleep 0.1; done; touch {task}.txt");
        let calls = json!([{"name": "bash", "arguments": {"command": command}}]);
        json!({"tool_calls": calls, "when": {"prompt_contains": task}})
    };
    let end = |task: &str| json!({"text": "done", "when": {"prompt_contains": task}});
    let turns = json!([
        {"tool_calls": [sub_agent("one"), sub_agent("two")]}, {"text": "Done."},
        step("one"), end("one"), step("two"), end("two"),
    ]);
    let script = desk.script("s.json", turns);
    let line = format!("{} run go --tools bash,sub_agent --script '{script}'", program());
    let mut is_begun = false;
    let (code, screen) = desk.at_shell_with(&line, |screen, keys| {
        let asked = screen.matches("/?] ").count();
        if asked == 1 && !std::mem::replace(&mut is_begun, true) {
            keys.write_all(b"y\r").unwrap();
        }
        if asked == 2 {
            // Now the first command ends, and its card is written over the second question.
            std::fs::write(desk.work().join("go"), "").unwrap();
        }
        let after_card = screen.find("• bash: until").and_then(|card| screen.get(card..)).unwrap_or_default();
        let is_asked_again = after_card.contains("Allow bash: until") && after_card.contains("/?] ");
        is_asked_again.then(|| keys.write_all(b"y\r").unwrap()).is_some()
    });
    let is_made = ["one.txt", "two.txt"].map(|file| desk.work().join(file).exists());
    assert_eq!((code, is_made), (Some(0), [true; 2]), "{screen}");
    assert!(!screen.lines().any(|line| line.contains("/?] ") && line.contains('•')), "{screen}");
}

#[test]
fn an_always_that_cannot_be_kept_is_said() {
    let desk = Desk::new();
    let config = desk.work().with_file_name("config.toml");
    std::fs::write(&config, "").unwrap();
    let script = running(&desk, "touch a.txt");
    let line = format!("PLAYHOUSE_CONFIG='{}' {} run go --script '{script}'", config.display(), program());
    let (code, screen) = desk.at_shell_with(&line, |screen, keys| {
        if !screen.contains("/?] ") {
            return false;
        }
        std::fs::write(&config, "model = \"open").unwrap();
        keys.write_all(b"a\r").unwrap();
        true
    });
    assert_eq!((code, desk.work().join("a.txt").exists()), (Some(0), true), "{screen}");
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.join(" ").contains("is allowed until this program ends, and not always: `"), "{screen}");
}

#[test]
fn ctrl_c_at_a_question_names_the_tool_that_did_not_start_once() {
    let desk = Desk::new();
    let script = running(&desk, "touch a.txt");
    let (code, screen) = desk.on_terminal_interrupted(&["run", "go", "--script", &script], "/?] ");
    assert_eq!((code, desk.work().join("a.txt").exists()), (Some(130), false), "{screen}");
    assert!(screen.contains("• bash: Aborted before it started."), "{screen}");
    assert_eq!(screen.matches("Aborted before it started").count(), 1, "{screen}");
}
