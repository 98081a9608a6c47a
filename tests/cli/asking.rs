//! Questions on a terminal: what nobody is asked about.

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
    let steps = [("- one\r\n+ two", "y\r"), ("- two\r\n+ three", "y\r")];
    let (code, screen) = desk.on_terminal_typing(&["run", "go", "--script", &script], &config, &steps);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("Allow edit_file").count(), 2, "{screen}");
    assert_eq!(std::fs::read_to_string(desk.work().join("a.txt")).unwrap(), "three\n");
    let done = screen.find("• edit_file: a.txt (1 edits)").expect(&screen);
    assert!(done < screen.find("+ three").unwrap(), "what was done stands before the next question: {screen}");
}
