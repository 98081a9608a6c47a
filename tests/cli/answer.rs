//! stdout is the answer: the last message, whatever came before it.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Desk, Done, finish};
use crate::wires::{Answer, WIRES, Wire};

/// Runs a prompt against a service; the model `second` is asked when `first` fails.
fn ask(wire: &'static Wire, args: &[&str], answers: impl Fn(usize, &str) -> Answer + Send + 'static) -> Done {
    let desk = Desk::new();
    let url = wire.serve(answers);
    let models = format!("{0}/first,{0}/second", wire.provider);
    let mut command = desk.command(&[&["run", "go", "--model", &models, "--tools", "list_files"], args].concat());
    command.env(wire.address.0, url).envs(wire.variables.iter().copied());
    command.env("PLAYHOUSE_RETRY_MAX_RETRIES", "2").env("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "1");
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Cuts, a failure, a tool, and at last another model.
fn troubled(number: usize, request: &str) -> Answer {
    match number {
        _ if request.contains("second") => Answer::Says("The answer."),
        0 => Answer::Cut("A false start"),
        1 => Answer::Calls("Let me look."),
        2 | 4 => Answer::Cut("The ans"),
        _ => Answer::Fails(500),
    }
}

#[test]
fn f66_stdout_is_the_last_message_alone_under_cuts_retries_fallbacks_and_tools_on_every_wire() {
    for wire in &WIRES {
        let done = ask(wire, &[], troubled);
        assert_eq!((done.code, done.out.as_str()), (Some(0), "The answer.\n"), "{}: {done:?}", wire.provider);
        for told in ["Let me look.\n", "list_files", "asking again", "second instead"] {
            assert!(done.err.contains(told), "{}: {told}: {done:?}", wire.provider);
        }
        assert!(!done.err.contains("A false start"), "{}: what was discarded is nowhere: {done:?}", wire.provider);
    }
}

#[test]
fn f66_a_shell_gets_the_answer_and_a_run_that_fails_leaves_stdout_empty_on_every_wire() {
    for wire in &WIRES {
        let done = ask(wire, &[], |number, _| match number {
            0 => Answer::Calls("Let me look."),
            _ => Answer::Cut("Half an ans"),
        });
        assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{}: {done:?}", wire.provider);
    }
}

#[test]
fn f66_a_scripted_model_that_is_cut_leaves_only_its_last_message() {
    let desk = Desk::new();
    let script = desk.script(
        "s.json",
        json!([
            {"text": "Hello there", "chunk": 3, "cut_after": 7},
            {"text": "Looking.", "tool_calls": [{"name": "list_files", "arguments": {}}]},
            {"text": "Hello the", "cut_after": 7},
            {"text": "Hello there.\n"},
        ]),
    );
    // As `answer=$(playhouse run …)` has it.
    let mut command = desk.command_by(
        &["sh", "-c", r#"answer=$("$0" "$@"); printf '<%s>' "$answer""#],
        &["run", "hi", "--script", &script],
    );
    command.env("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "1");
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(done.out, "<Hello there.>", "{done:?}");
}

#[test]
fn json_is_one_document_about_the_run() {
    for wire in &WIRES {
        let done = ask(wire, &["--output", "json"], troubled);
        assert_eq!((done.code, done.out.lines().count()), (Some(0), 1), "{}: {done:?}", wire.provider);
        let document: Value = serde_json::from_str(&done.out).unwrap();
        let parts = ["answer", "outcome", "error", "incomplete", "exit_code", "turns", "tool_calls"];
        assert_eq!(
            parts.map(|part| document[part].clone()),
            [json!("The answer."), json!({"type": "stop"}), Value::Null, Value::Null, json!(0), json!(2), json!(1)],
            "{}: {document}",
            wire.provider
        );
        let docs = include_str!("../../docs/events.md");
        let (_, table) = docs.split_once("## The document of").unwrap();
        let documented = table.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
        let mut documented: Vec<&str> = documented.map(|line| line.split('`').next().unwrap()).collect();
        documented.sort();
        let mut fields: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort();
        assert_eq!(fields, documented, "docs/events.md has them all");
        assert!(document["session_id"].is_string() && document["duration_ms"].is_u64(), "{document}");
        assert!(document["usage"]["total_tokens"].is_u64() && document["cost_usd"].is_null(), "{document}");
    }
}

#[test]
fn a_run_that_fails_has_its_document_too() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"error": {"status": 400, "message": "no such thing"}}]));
    let done = desk.run(&["run", "a", "--script", &script, "--output", "json", "--quiet"]);
    let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!((done.code, &document["exit_code"], &document["answer"]), (Some(1), &json!(1), &Value::Null));
    assert_eq!(document["outcome"]["type"], "error", "{document}");
    assert!(document["error"].as_str().unwrap().contains("no such thing"), "{document}");
    assert!(done.err.starts_with("error: ") && done.err.lines().count() == 1, "{done:?}");
    // What is refused before there is a run has none.
    desk.run(&["run", "a", "--script", "missing.json", "--output", "json"]).refused(&["missing.json"]);
}

#[test]
fn forms_of_output_are_named_and_json_alone_is_the_stream() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "ok"}]));
    let run = |flags: &[&str]| desk.run(&[&["run", "a", "--script", &script], flags].concat());
    run(&["--output", "text"]).said("ok\n");
    let (stream, short) = (run(&["--output", "stream-json"]), run(&["--json"]));
    assert_eq!(stream.names(), short.names());
    let both = run(&["--json", "--output", "json"]);
    assert!(both.code == Some(2) && both.err.contains("--json") && both.err.contains("--output"), "{both:?}");
    let wrong = run(&["--output", "xml"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("text, json, stream-json"), "{wrong:?}");
}

#[test]
fn quiet_is_the_answer_and_errors() {
    let desk = Desk::new();
    let turns = json!([
        {"text": "Looking.", "tool_calls": [{"name": "list_files", "arguments": {}}]},
        {"text": "Cut", "cut_after": 2},
        {"text": "**Done.**"},
    ]);
    let script = desk.script("s.json", turns);
    let done = desk.run(&["run", "a", "--script", &script, "--quiet", "--durability", "none"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "**Done.**\n", ""));
    let done = desk.run(&["run", "a", "--script", &script, "--quiet", "--max-turns", "1"]);
    assert_eq!((done.code, done.out.as_str()), (Some(3), ""));
    assert!(done.err.starts_with("error: stopped: ") && done.err.lines().count() == 1, "{done:?}");
    let done = ask(&WIRES[1], &["--quiet"], |_, _| Answer::Full("Half"));
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "Half\n", ""), "a note is no error");
    let (code, screen) = desk.on_terminal(&["run", "a", "--script", &script, "--quiet"]);
    assert!(code == Some(0) && !screen.contains("Looking") && !screen.contains("list_files"), "{screen:?}");
}

#[test]
fn the_last_message_is_written_to_a_file_whole_or_not_at_all() {
    let desk = Desk::new();
    let turns =
        json!([{"text": "One.", "tool_calls": [{"name": "list_files", "arguments": {}}]}, {"text": "Two\nlines."}]);
    let script = desk.script("s.json", turns);
    let file = desk.write("last.txt", "from before");
    let read = || std::fs::read_to_string(&file).unwrap();
    let run =
        |flags: &[&str]| desk.run(&[&["run", "a", "--script", &script, "--last-message", "last.txt"], flags].concat());
    assert_eq!((run(&["--max-turns", "1"]).code, read().as_str()), (Some(3), "from before"), "it failed");
    run(&[]).said("Two\nlines.\n");
    assert_eq!(read(), "Two\nlines.\n");
    for form in ["json", "stream-json"] {
        std::fs::remove_file(&file).unwrap();
        assert_eq!(run(&["--output", form]).code, Some(0));
        assert_eq!(read(), "Two\nlines.\n", "{form}");
    }
    let names: Vec<_> = std::fs::read_dir(desk.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left beside it: {names:?}");
    // Before anything is asked.
    let to = |path: &str| desk.run(&["run", "a", "--script", &script, "--last-message", path]);
    to("nowhere/last.txt").refused(&["--last-message", "nowhere"]);
    to(".").refused(&["--last-message", "directory"]);
    to("/dev/null").said("Two\nlines.\n");
    assert!(std::fs::metadata("/dev/null").is_ok_and(|found| !found.is_file()), "a device stays one");
}

#[test]
fn what_is_no_plain_file_gets_the_last_message_and_is_not_replaced() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "Hello."}]));
    // As `(echo before; playhouse run …; echo after) > all.txt` has it.
    for (place, redirected) in
        [("/dev/stdout", ">"), ("/dev/stderr", "2>"), ("/dev/fd/3", "3>"), ("/proc/self/fd/1", ">")]
    {
        let shell =
            format!("{{ {{ echo before; }} >all.txt; \"$0\" \"$@\" {redirected}>all.txt; echo after >>all.txt; }}");
        let args = ["run", "hi", "--script", &script, "--quiet", "--last-message", place];
        let mut command = desk.command_by(&["sh", "-c", &shell], &args);
        let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let all = std::fs::read_to_string(desk.work().join("all.txt")).unwrap();
        let twice = if redirected == ">" { "Hello.\nHello.\n" } else { "Hello.\n" };
        assert_eq!((done.code, all), (Some(0), format!("before\n{twice}after\n")), "{place}: {done:?}");
    }
    let shell = r#"(echo before; "$0" "$@"; echo after) > all.txt"#;
    let args = ["run", "hi", "--script", &script, "--quiet", "--last-message", "/dev/stdout"];
    let mut command = desk.command_by(&["sh", "-c", shell], &args);
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let all = std::fs::read_to_string(desk.work().join("all.txt")).unwrap();
    assert_eq!((done.code, all.as_str()), (Some(0), "before\nHello.\nHello.\nafter\n"), "{done:?}");
    // A pipe gets it and stays one.
    let shell = r#"mkfifo pipe; cat pipe > got.txt & "$0" "$@"; wait"#;
    let args = ["run", "hi", "--script", &script, "--last-message", "pipe"];
    let mut command = desk.command_by(&["sh", "-c", shell], &args);
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let got = std::fs::read_to_string(desk.work().join("got.txt")).unwrap();
    assert_eq!((done.code, got.as_str()), (Some(0), "Hello.\n"), "{done:?}");
    assert!(!std::fs::metadata(desk.work().join("pipe")).unwrap().is_file());
    // What a link leads to is made, and the link stays.
    let link = desk.work().join("link");
    std::os::unix::fs::symlink("target.txt", &link).unwrap();
    let to = |path: &str| desk.run(&["run", "hi", "--script", &script, "--last-message", path]);
    to("link").said("Hello.\n");
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(desk.work().join("target.txt")).unwrap(), "Hello.\n");
    std::os::unix::fs::symlink("nowhere/target.txt", desk.work().join("lost")).unwrap();
    to("lost").refused(&["--last-message lost", "no such directory"]);
    to("-").refused(&["--last-message -", "stdout by itself"]);
    assert!(!desk.work().join("-").exists());
}

#[test]
fn resumed_and_planned_runs_print_their_last_message_too() {
    let desk = Desk::new();
    let wait = json!({"text": "Waiting.", "tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]});
    let script = desk.script("s.json", json!([wait, {"text": "finished"}, {"text": "more"}]));
    let args = ["run", "go", "--script", script.as_str(), "--permission", "yolo"];
    let killed = || {
        let running = desk.start_until(&args, "ToolExecutionStart");
        let session = running.session.clone();
        running.kill();
        session
    };
    let session = killed();
    let done = desk.run(&["resume", &session, "--output", "json", "--last-message", "last.txt"]);
    let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!((&document["answer"], &document["session_id"]), (&json!("finished"), &json!(session)));
    assert_eq!(std::fs::read_to_string(desk.work().join("last.txt")).unwrap(), "finished\n");
    killed();
    killed();
    let done = desk.run(&["resume", "--output", "json", "--quiet"]);
    assert_eq!((done.code, done.out.lines().count(), done.err.as_str()), (Some(0), 2, ""), "one for each: {done:?}");
    desk.run(&["resume", "--last-message", "x"]).refused(&["--last-message", "SESSION"]);

    let change = json!({"text": "Planning.", "tool_calls":
        [{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}]});
    let script = desk.script("p.json", json!([change, {"text": "Planned."}, {"text": "Made."}]));
    let done = desk.run(&["run", "go", "--script", &script, "--plan"]);
    done.said("Planned.\n");
    let sessions = desk.sessions();
    let planned = sessions.iter().find(|one| one["model"].as_str().is_some_and(|model| model.contains("p"))).unwrap();
    let session = planned["session_id"].as_str().unwrap();
    let done = desk.run(&["plan", "approve", session, "--output", "json"]);
    let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!((&document["answer"], done.code), (&json!("Made."), Some(0)), "{done:?}");
}

#[test]
fn f66_on_a_terminal_what_was_discarded_is_struck_and_replaced() {
    let desk = Desk::new();
    let script =
        desk.script("s.json", json!([{"text": "Hello there", "chunk": 3, "cut_after": 7}, {"text": "Hello there."}]));
    let (code, screen) = desk.on_terminal(&["run", "hi", "--script", &script]);
    assert_eq!(code, Some(0), "{screen:?}");
    assert!(screen.contains("\x1b[9mHello t\x1b[0m"), "{screen:?}");
    let (_, screen) = desk.on_terminal_without_colours(&["run", "hi", "--script", &script]);
    assert!(screen.contains("Hello t\r\n✗ discarded: what stands above is no part of the answer\r\n"), "{screen:?}");
}

#[test]
fn an_answer_that_is_cut_or_refused_is_said_so_and_fails_only_if_that_is_asked_for_on_every_wire() {
    type Case = (fn() -> Answer, &'static str, &'static str, &'static str);
    let cases: [Case; 3] = [
        (|| Answer::Full("Half an ans"), "Half an ans\n", "length", "the answer is cut off"),
        (|| Answer::Refuses("Well, "), "Well, \n", "refusal", "the model declined to answer"),
        (|| Answer::Refuses(""), "", "refusal", "the model declined to answer"),
    ];
    for wire in &WIRES {
        for (answer, out, name, told) in cases {
            let case = format!("{} {name}", wire.provider);
            let done = ask(wire, &[], move |_, _| answer());
            assert_eq!((done.code, done.out.as_str()), (Some(0), out), "{case}: {done:?}");
            assert!(done.err.starts_with("note: ") && done.err.lines().count() == 1, "{case}: {done:?}");
            assert!(done.err.contains(told), "{case}: {done:?}");
            let done = ask(wire, &["--fail-incomplete", "--output", "json"], move |_, _| answer());
            let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
            let parts = ["incomplete", "exit_code"].map(|part| document[part].clone());
            assert_eq!((done.code, parts), (Some(4), [json!(name), json!(4)]), "{case}: {done:?}");
            assert_eq!(document["answer"], out.trim_end_matches('\n'), "{case}: {document}");
            assert!(document["error"].as_str().unwrap().contains(told), "{document}");
            assert!(done.err.starts_with("error: ") && done.err.lines().count() == 1, "{case}: {done:?}");
        }
        let done = ask(wire, &["--fail-incomplete"], |_, _| Answer::Says("All of it."));
        assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "All of it.\n", ""), "{done:?}");
    }
}

#[test]
fn an_answer_without_words_is_said_so() {
    let desk = Desk::new();
    // A model that has called a tool and then has nothing to add is asked again, and then the run fails.
    let script = desk.script("s.json", json!([{"text": " \n"}]));
    let done = desk.run(&["run", "a", "--script", &script, "--fail-incomplete"]);
    assert!(done.out.trim().is_empty() && done.err.contains("empty"), "{done:?}");
    assert!(matches!(done.code, Some(1 | 4)), "{done:?}");
}

#[test]
fn an_empty_answer_fails_with_1_or_with_4_where_that_is_asked_for_on_every_wire() {
    let nothing: fn(usize, &str) -> Answer = |_, _| Answer::Says("");
    // What a tool did before is no answer.
    let after_a_tool: fn(usize, &str) -> Answer =
        |number, _| if number == 0 { Answer::Calls("Let me look.") } else { Answer::Says("") };
    for wire in &WIRES {
        for answers in [nothing, after_a_tool] {
            for (flags, code) in [(&["--quiet"][..], 1), (&["--quiet", "--fail-incomplete"], 4)] {
                let done = ask(wire, flags, answers);
                assert_eq!((done.code, done.out.as_str()), (Some(code), ""), "{}: {done:?}", wire.provider);
                assert!(done.err.starts_with("error: ") && done.err.lines().count() == 1, "{done:?}");
                assert!(done.err.contains("the model gave an empty answer"), "{}: {done:?}", wire.provider);
                let done = ask(wire, &[flags, &["--output", "json"]].concat(), answers);
                let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"));
                let parts = ["incomplete", "exit_code", "answer"].map(|part| document[part].clone());
                assert_eq!(parts, [json!("empty"), json!(code), Value::Null], "{}: {document}", wire.provider);
            }
        }
    }
}

#[test]
fn a_refusal_without_words_stands_in_the_conversation_alone() {
    let wire = &WIRES[0];
    let desk = Desk::new();
    let url = wire.serve(|_, _| Answer::Refuses(""));
    let mut command = desk.command(&["run", "go", "--model", "anthropic/m"]);
    command.env(wire.address.0, url).envs(wire.variables.iter().copied());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).said("");
    let shown = desk.run(&["sessions", "show", "last"]);
    assert!(shown.out.contains("[The model declined to answer: refusal]"), "{shown:?}");
}

#[test]
fn exit_codes_are_the_same_in_the_help_and_in_the_docs() {
    let desk = Desk::new();
    let docs = include_str!("../../docs/outcomes.md");
    let (_, table) = docs.split_once("## Exit codes").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let of_docs: Vec<(u8, String)> = rows
        .filter_map(|(code, text)| Some((code.parse().ok()?, text.trim_end_matches(" |").to_owned())))
        .map(|(code, text)| (code, text.split([':', ';']).next().unwrap().to_owned()))
        .collect();
    for args in [&["--help"][..], &["run", "--help"], &["resume", "--help"], &["plan", "approve", "--help"]] {
        let help = desk.run(args);
        let (_, listed) = help.out.split_once("Exit codes:\n").unwrap_or_else(|| panic!("{args:?}: {help:?}"));
        let of_help = listed.lines().map(|line| line.trim().split_once(char::is_whitespace).unwrap());
        let of_help: Vec<(u8, String)> =
            of_help.map(|(code, text)| (code.parse().unwrap(), text.trim().to_owned())).collect();
        assert_eq!(of_help, of_docs, "{args:?}");
    }
    let codes: Vec<u8> = of_docs.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 129, 130, 131, 143]);
}
