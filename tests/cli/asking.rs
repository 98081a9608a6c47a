//! Questions on a terminal: what nobody is asked about, how a question looks, and how long it waits.

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
