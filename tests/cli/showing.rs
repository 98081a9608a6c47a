//! What a run looks like: on a terminal, and when piped.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::support::Desk;

/// A run with two helpers, one of which runs a tool.
fn two_helpers(desk: &Desk) -> String {
    desk.script(
        "s.json",
        json!([
            {"text": "Asking around.", "chunk": 4, "tool_calls": [
                {"name": "sub_agent", "arguments": {"task": "count the files"}},
                {"name": "sub_agent", "arguments": {"task": "say nothing"}},
            ]},
            {"text": "There is one file."},
            {"tool_calls": [{"name": "list_files", "arguments": {"path": "."}}], "when": {"prompt_contains": "count"}},
            {"text": "one", "when": {"prompt_contains": "count"}},
            {"text": "nothing", "when": {"prompt_contains": "say"}},
        ]),
    )
}

const FLAGS: [&str; 4] = ["run", "go", "--tools", "list_files,sub_agent"];

#[test]
fn piped_it_is_plain_and_helpers_stand_beneath_their_agent() {
    let desk = Desk::new();
    let script = two_helpers(&desk);
    let done = desk.run(&[&FLAGS[..], &["--script", &script]].concat());
    done.said("There is one file.\n");
    assert!(!done.err.contains('\x1b') && !done.err.contains("tokens in"), "{done:?}");
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(&lines[..3], ["Asking around.", "▸ sub_agent 1: count the files", "▸ sub_agent 2: say nothing"]);
    assert!(lines.contains(&"│ sub_agent 1 ▸ list_files: ."), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("│ sub_agent 1 • list_files: . (1 entr")), "{lines:#?}");
    let ended =
        |n: usize| lines.iter().any(|line| line.starts_with(&format!("• sub_agent {n}")) && line.ends_with(" s"));
    assert!(ended(1) && ended(2), "{lines:#?}");
}

#[test]
fn with_json_the_events_of_helpers_are_there_under_their_own_ids() {
    let desk = Desk::new();
    let script = two_helpers(&desk);
    let done = desk.run(&[&FLAGS[..], &["--script", &script, "--json"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut agents: Vec<String> = done.events().iter().map(|event| event.agent_id.to_string()).collect();
    agents.sort();
    agents.dedup();
    assert_eq!(agents.len(), 3);
    assert_eq!(done.names().iter().filter(|name| *name == "AgentEnd").count(), 3);
}

#[test]
fn on_a_terminal_text_streams_tools_have_cards_and_a_line_tells_the_tokens() {
    let desk = Desk::new();
    let script = two_helpers(&desk);
    let (code, screen) = desk.on_terminal(&[&FLAGS[..], &["--script", &script]].concat());
    assert_eq!(code, Some(0), "{screen}");
    for part in [
        "Asking around.",
        "\x1b[2m▸ sub_agent 1: count the files\x1b[0m",
        "\x1b[2m│ sub_agent 1 ▸ list_files: .\x1b[0m",
        "There is one file.",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let tally = screen.lines().find(|line| line.contains("tokens in")).unwrap_or_else(|| panic!("{screen}"));
    assert!(tally.contains("5 turns, 3 tool calls, 2 sub-agents, ") && tally.contains("cost unknown"), "{tally}");
    assert!(!desk.on_terminal_without_colours(&[&FLAGS[..], &["--script", &script]].concat()).1.contains("\x1b[2m"));
}

#[test]
fn what_turns_text_around_is_visible_on_a_terminal() {
    let desk = Desk::new();
    let odd = "a\u{202e}b\u{2066}c\u{200f}d\u{9b}e";
    let call = json!({"name": "list_files", "arguments": {"path": odd}});
    let script = desk.script("s.json", json!([{"text": odd, "tool_calls": [call]}, {"text": odd}]));
    let run = ["run", "--script", script.as_str(), odd];
    let as_json = [&run[..], &["--json"]].concat();
    let (_, run_screen) = desk.on_terminal(&run);
    let session = desk.session();
    let mut screens = vec![run_screen, desk.on_terminal(&as_json).1];
    for args in [&["sessions", "list"][..], &["sessions", "show", &session], &["sessions", "show", &session, "--json"]]
    {
        screens.push(desk.on_terminal(args).1);
    }
    screens.push(desk.on_terminal(&["audit", "show", &session]).1);
    for screen in screens {
        assert!(!screen.contains(['\u{202e}', '\u{2066}', '\u{200f}', '\u{9b}']), "{screen:?}");
        assert!(screen.contains("202e"), "it is there, written out: {screen:?}");
    }
    // Whoever reads from a pipe gets what was said.
    let piped = desk.run(&run);
    assert!(piped.out.contains(odd), "{piped:?}");
}

/// A run with all that a screen has: thought, text, a command that fails, an edit, two calls at once, a false start.
fn busy(desk: &Desk) -> String {
    desk.write("a.txt", "one\ntwo\n");
    let call = |name: &str, arguments: serde_json::Value| json!({"name": name, "arguments": arguments});
    let edits = json!([{"old_text": "one\ntwo", "new_text": "one\n2"}]);
    desk.script(
        "s.json",
        json!([
            {"thinking": "First the files.\nThen the rest.", "text": "I **look** around.\n\nThen I go on with it", "chunk": 3,
             "tool_calls": [call("bash", json!({"command": "seq 1 12; exit 3"})), call("list_files", json!({}))]},
            {"tool_calls": [call("edit_file", json!({"path": "a.txt", "edits": edits}))]},
            {"text": "All is wrong", "cut_after": 9},
            {"text": "# Done\n\n- `a.txt` has a 2 where there was the word two before, as you asked\n\n| file | lines |\n|---|---|\n| a.txt | 2 |\n", "chunk": 5},
        ]),
    )
}

#[test]
fn a_screen_of_120_columns_has_cards_diffs_and_markdown() {
    let desk = Desk::new();
    let script = busy(&desk);
    let (rows, bytes) = desk.screen(120, &["run", "go", "--script", &script, "--permission", "yolo"]);
    let has = |part: &str| assert!(rows.iter().any(|row| row == part), "{part}: {rows:#?}");
    for part in [
        "∴ First the files. (+1 lines)",
        "I look around.",
        "Then I go on with it",
        "  8",
        "    one",
        "  - two",
        "  + 2",
    ] {
        has(part);
    }
    has("  … 5 more lines (--verbose shows them)");
    for part in
        ["Done", "• a.txt has a 2 where there was the word two before, as you asked", "file  │ lines", "a.txt │ 2"]
    {
        has(part);
    }
    let count = |part: &str| rows.iter().filter(|row| row.contains(part)).count();
    assert_eq!((count("bash: seq"), count("list_files"), count("edit_file")), (1, 1, 1), "one line each: {rows:#?}");
    assert_eq!((count("▸"), count("waiting for"), count("All is wr")), (0, 0, 1), "{rows:#?}");
    for coloured in
        ["\x1b[33m• bash: seq", "\x1b[31m  - two", "\x1b[32m  + 2", "\x1b[9mAll is wr\x1b[0m", "\x1b[1mlook\x1b[0m"]
    {
        assert!(bytes.contains(coloured), "{coloured:?}: {bytes:?}");
    }
    let (rows, _) = desk.screen(120, &["run", "go", "--script", &busy(&desk), "--permission", "yolo", "--verbose"]);
    for part in ["∴ First the files.", "∴ Then the rest.", "  12"] {
        assert!(rows.iter().any(|row| row == part), "{part}: {rows:#?}");
    }
}

#[test]
fn a_screen_of_40_columns_breaks_no_words_and_one_without_colours_has_no_codes() {
    let desk = Desk::new();
    let script = busy(&desk);
    let (rows, _) = desk.screen(40, &["run", "go", "--script", &script, "--permission", "yolo"]);
    let place = rows
        .iter()
        .position(|row| row == "• a.txt has a 2 where there was the word")
        .unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(rows[place + 1], "  two before, as you asked", "{rows:#?}");
    assert!(rows.iter().filter(|row| row.contains("bash: seq") || row.contains("a.txt │ 2")).count() == 2, "{rows:#?}");
    let (code, screen) =
        desk.on_terminal_without_colours(&["run", "go", "--script", &busy(&desk), "--permission", "yolo"]);
    assert!(code == Some(0) && !screen.contains('\x1b'), "{screen:?}");
    assert!(
        screen.contains("- `a.txt` has") && screen.contains("▸ bash: seq") && screen.contains("• bash: seq"),
        "{screen:?}"
    );
}

#[test]
fn lines_and_signs_of_an_answer_are_on_the_screen_as_they_were_written() {
    let desk = Desk::new();
    let lines: String = (1..=30).map(|n| format!("line {n} of many\n")).collect();
    let rest =
        "def __init__(self, *args, **kwargs):\n  src/*.rs and **open\n\nKeep  these   spaces, 2 * 3, snake_case.\n";
    let script = desk.script("s.json", json!([{"text": format!("{lines}{rest}"), "chunk": 7}]));
    let (rows, _) = desk.screen(60, &["run", "go", "--script", &script]);
    let expected: Vec<String> = format!("{lines}{rest}").lines().map(str::to_owned).collect();
    let from = rows.iter().position(|row| row == "line 1 of many").unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(rows[from..from + expected.len()], expected, "{rows:#?}");
}

/// Fails unless these words are on a screen of 40 columns, none of them broken, in rows that are no longer.
#[track_caller]
fn is_whole(rows: &[String], words: &str) {
    let shown: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
    assert!(shown.join(" ").contains(words), "{words}: {rows:#?}");
    // What was drawn in the last column and wrapped by the terminal goes on in the next row.
    assert!(rows.iter().all(|row| row.chars().count() <= 40), "{rows:#?}");
}

#[test]
fn on_40_columns_no_word_of_a_run_is_broken() {
    let desk = Desk::new();
    let turns = json!([
        {"error": {"status": 503, "message": "the service is overloaded at present"}},
        {"text": "Done.", "usage": {"input": 1_234_567, "output": 89}},
    ]);
    let script = desk.script("s.json", turns);
    let (rows, _) = desk.screen(40, &["run", "go", "--script", &script]);
    is_whole(&rows, "; asking again in 0.0 s");
    is_whole(&rows, "out, 1 turn, 0.");
    is_whole(&rows, "s, cost unknown");
    for (args, words) in [
        (&["run", "go", "--script", "none.json"][..], "none.json"),
        (&["run", "go", "--model", "no-such-model"], "error: "),
        (&["sessions", "show", "0000"], "error: "),
    ] {
        let (code, screen) = desk.at_terminal_columns(40, args);
        assert_eq!(code, Some(2), "{screen:#?}");
        let piped = desk.run(args).err;
        assert!(piped.contains(words) && piped.trim_end().lines().count() == 1, "{piped}");
        is_whole(&screen, piped.trim_end());
    }
}

#[test]
fn on_40_columns_no_word_of_doctor_models_and_demo_is_broken() {
    let desk = Desk::new();
    for args in [&["doctor"][..], &["models"], &["models", "anthropic"]] {
        let (_, rows) = desk.at_terminal_columns(40, args);
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{rows:#?}");
        let piped = desk.run(args).out;
        let words: Vec<&str> = piped.split_whitespace().collect();
        for row in rows.iter().filter(|row| !row.is_empty()) {
            let word = row.split_whitespace().next_back().unwrap_or_default();
            let is_cut = word.ends_with('…') || word.chars().count() >= 36;
            let is_label = args[0] == "models";
            assert!(is_cut || is_label || words.contains(&word), "{word} is broken: {rows:#?}");
        }
    }
    let (_, rows) = desk.at_terminal_columns(40, &["models", "anthropic"]);
    is_whole(&rows, "in, ");
    is_whole(&rows, " read, ");
    let (_, rows) = desk.at_terminal_columns(40, &["demo"]);
    is_whole(&rows, "each an agent with a journal of its own.");
    is_whole(&rows, "was brought back by its supervisor, and ended with 6");
    is_whole(&rows, "which providers there are and which keys are set; then");
}

#[test]
fn help_breaks_no_words_at_any_width() {
    let desk = Desk::new();
    // What others have in their usage is wider than 40 columns, and is left as one line.
    for args in [&["--help"][..], &["run", "--help"]] {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = words(&desk.run(args).out);
        for columns in [40, 80, 200] {
            let (rows, _) = desk.screen(columns, args);
            assert_eq!(words(&rows.join("\n")), all, "{columns}: {rows:#?}");
            assert!(rows.iter().all(|row| row.chars().count() <= columns), "{columns}: {rows:#?}");
        }
    }
}

#[test]
fn what_is_wrong_with_flags_is_said_in_claps_layout_and_shows_no_key() {
    let desk = Desk::new();
    let done = desk.run(&["run", "--colour", "a"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.starts_with("error: unexpected argument '--colour' found\n\n"), "{done:?}");
    assert!(
        done.err.contains("\nUsage: playhouse run") && done.err.ends_with("\n\nFor more information, try '--help'.\n")
    );
    let key = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";
    let done = desk.run(&["run", "a", &format!("--key={key}")]);
    assert!(done.code == Some(2) && !done.err.contains(key), "{done:?}");
}

#[test]
fn one_large_piece_is_printed_and_nothing_is_said_to_be_missing() {
    let desk = Desk::new();
    let large = "x".repeat(1 << 20);
    let script = desk.script("s.json", json!([{"text": large}]));
    let done = desk.run(&["run", "a", "--script", &script, "--json"]);
    assert!(!done.out.contains("\"Lagged\""), "{:.2000}", done.out);
    assert!(done.names().contains(&"MessageUpdate".to_owned()), "{:?}", done.names());
    let done = desk.run(&["run", "a", "--script", &script]);
    assert!(done.code == Some(0) && !done.err.contains("too slow"), "{}", done.err);
}

#[test]
fn what_a_message_says_stands_before_what_became_of_its_calls() {
    let desk = Desk::new();
    // A message that was cut off in a call, which is therefore not run.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let call =
            json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "bash", "arguments": "{\"com"}}]);
        let cut = [json!({"content": "I will.", "tool_calls": call}), json!("length")];
        for [delta, finish] in [cut, [json!({"content": "No."}), json!("stop")]] {
            let mut socket = listener.accept().unwrap().0;
            let _ = socket.read(&mut [0; 65_536]);
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            let chunk = json!({"id": "x", "model": "m", "choices": [choice]});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = write!(socket, "{head}data: {chunk}\n\ndata: [DONE]\n\n");
        }
    });
    let done = desk.run(&["run", "a", "--model", "vllm/m", "--base-url", &url]);
    let (said, card) = (done.err.find("I will."), done.err.find("bash did not run"));
    assert!(said.is_some() && card.is_some() && said < card, "{done:?}");
}

#[test]
fn control_characters_of_a_path_or_a_flag_do_not_reach_the_terminal() {
    let desk = Desk::new();
    let config = desk.write("odd\x1b[31m.toml", "sandbox = 7\n");
    let done = desk.run(&["doctor", "--config", config.to_str().unwrap()]);
    assert!(done.code == Some(1) && !done.out.contains('\x1b') && done.out.contains("odd\\u{1b}[31m.toml"), "{done:?}");
    let (code, screen) = desk.on_terminal(&["run", "--colour\x1b]0;owned\x07"]);
    assert!(code == Some(2) && !screen.contains("\x1b]0;") && screen.contains("'--colour"), "{screen:?}");
}
