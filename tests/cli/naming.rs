//! Sessions by the beginning of their id or as `last`, and how they are listed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use playhouse::protocol::entry::Opened;
use playhouse::protocol::{Entry, EntryBody, SessionId};
use playhouse::session::{FileStore, Store, Sync, Take};
use serde_json::{Value, json};

use crate::support::{Desk, Done, files, finish};

/// Runs a prompt in a new session and gives its id.
fn a_session(desk: &Desk, prompt: &str, flags: &[&str]) -> String {
    let script = desk.script("s.json", json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]));
    desk.run(&[&["run", prompt, "--script", &script], flags].concat()).said("one\n");
    let is_it = |session: &Value| session["first_prompt"] == prompt;
    let found = desk.sessions().into_iter().find(is_it).unwrap();
    found["session_id"].as_str().unwrap().to_owned()
}

/// Puts a copy of a session's journal under another id.
fn copy(desk: &Desk, session: &str, id: &str) {
    let id = SessionId::new(id).unwrap();
    let store = FileStore::open(desk.data()).unwrap();
    let entries = store.load(&SessionId::new(session).unwrap(), Take::Peek).unwrap().entries;
    let entries: Vec<Arc<Entry>> = entries
        .into_iter()
        .map(|(_, entry)| {
            let mut entry = Entry::clone(&entry);
            if let EntryBody::Opened(opened) = &entry.body {
                let opened = Opened { session_id: id.clone(), ..Opened::clone(opened) };
                entry.body = EntryBody::Opened(opened.into());
            }
            Arc::new(entry)
        })
        .collect();
    let epoch = store.own(&id).unwrap();
    store.append(&id, epoch, &entries, Sync::Kernel).unwrap();
}

/// What the program shows on a terminal of this many columns.
fn on_terminal(desk: &Desk, columns: usize, args: &[&str]) -> Done {
    let line = format!("stty cols {columns} rows 24; '{}' {}", env!("CARGO_BIN_EXE_playhouse"), args.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(desk.work()).stdin(Stdio::null()).env("TERM", "xterm");
    for (name, value) in desk.command(&[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    done.out = done.out.replace('\r', "");
    done
}

#[test]
fn a_session_is_named_by_the_beginning_of_its_id() {
    let desk = Desk::new();
    let session = a_session(&desk, "first", &[]);
    let short = &session[..12];
    for args in [
        &["sessions", "show", short][..],
        &["sessions", "events", short],
        &["audit", "verify", short],
        &["audit", "show", short],
        &["plan", "show", short],
    ] {
        let done = desk.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    }
    desk.run(&["run", "more", "--session", short]).said("two\n");
    let done = desk.run(&["resume", short]);
    assert!(done.code == Some(0) && done.err.contains("nothing to resume"), "{done:?}");
    desk.run(&["sessions", "show", "0000"]).refused(&["no session", "`0000`"]);
    desk.run(&["sessions", "show", &session[..3]]).refused(&["no session", "4 characters"]);
    desk.run(&["sessions", "rm", short, "--json"]).said(&format!("{{\"removed\":\"{session}\"}}\n"));
}

#[test]
fn a_beginning_that_several_sessions_have_is_refused_with_their_ids() {
    let desk = Desk::new();
    let session = a_session(&desk, "first", &[]);
    copy(&desk, &session, "twin-one");
    copy(&desk, &session, "twin-two");
    copy(&desk, &session, "twin");
    let several = ["2 sessions", "twin-one", "twin-two"];
    desk.run(&["sessions", "show", "twin-"]).refused(&several);
    desk.run(&["run", "x", "--session", "twin-"]).refused(&several);
    desk.run(&["resume", "twin-"]).refused(&several);
    desk.run(&["plan", "show", "twin-"]).refused(&several);
    desk.run(&["audit", "verify", "twin-"]).refused(&several);
    desk.run(&["sessions", "rm", "twin-"]).refused(&several);
    desk.run(&["sessions", "rm", "twin", "--json"]).said("{\"removed\":\"twin\"}\n");
}

#[test]
fn last_is_the_newest_session_of_this_directory_and_no_sub_agents() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    desk.run(&["sessions", "show", "last"]).refused(&["no session of", "sessions list --all"]);
    let old = a_session(&desk, "old", &[]);
    let turns = json!([
        {"tool_calls": [{"name": "sub_agent", "arguments": {"task": "count"}}], "when": {"prompt_contains": "go"}},
        {"text": "one two", "when": {"prompt_contains": "count"}},
        {"text": "counted", "when": {"prompt_contains": "go"}},
    ]);
    let script = desk.script("helper.json", turns);
    let done = desk.run(&["run", "go", "--script", &script, "--tools", "sub_agent"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let elsewhere = a_session(&desk, "elsewhere", &["--cwd", "deeper"]);
    let shown = desk.run(&["sessions", "show", "last"]);
    assert!(shown.out.contains("user:\ngo\n"), "{shown:?}");
    desk.run(&["run", "more", "--session", "last", "--cwd", "deeper"]).said("two\n");
    assert!(desk.run(&["sessions", "show", &elsewhere]).out.contains("user:\nmore\n"));
    // What was used last is the newest.
    desk.run(&["run", "again", "--session", &old]).said("two\n");
    desk.run(&["run", "and again", "--session", "last"]).said("three\n");
    assert!(desk.run(&["sessions", "show", &old]).out.contains("user:\nand again\n"));
}

#[test]
fn hints_have_an_id_that_is_short_and_unique() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"error": {"status": 401, "message": "bad key"}}]));
    let done = desk.run(&["run", "a", "--script", &script]);
    let session = desk.session();
    let hint = format!("playhouse resume {}\n", &session[..12]);
    assert!(done.code == Some(1) && done.err.contains(&hint), "{done:?}");
    assert!(!done.err.contains(&session), "{done:?}");
    copy(&desk, &session, &format!("{}x", &session[..14]));
    desk.run(&["sessions", "show", &session[..12]]).refused(&["2 sessions"]);
    let done = desk.run(&["run", "b", "--session", &session]);
    assert!(done.err.contains(&format!("playhouse resume {}\n", &session[..15])), "{done:?}");
}

#[test]
fn the_list_is_this_directorys_with_a_head_and_says_what_there_is_elsewhere() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    a_session(&desk, "here", &[]);
    a_session(&desk, "there", &["--cwd", "deeper"]);
    let done = desk.run(&["sessions", "list"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    assert!(lines[0].starts_with("ID ") && lines[0].contains("STATUS") && lines[0].ends_with("PROMPT"), "{done:?}");
    assert!(lines[1].ends_with("here") && lines[1].find("done") == lines[0].find("STATUS"), "{done:?}");
    assert!(done.err.contains("1 session of another directory: playhouse sessions list --all"), "{done:?}");
    let all = desk.run(&["sessions", "list", "--all"]);
    let words: Vec<&str> = all.out.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let deeper = format!("{}:", desk.work().join("deeper").display());
    assert_eq!(words, ["PROMPT", "here", "", &deeper, "there"], "{all:?}");
    assert_eq!(all.err, "");
    assert_eq!(desk.sessions().len(), 2, "JSON has all");
    let nowhere = desk.work().join("empty");
    std::fs::create_dir(&nowhere).unwrap();
    let output = desk.command(&["sessions", "list"]).current_dir(&nowhere).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty() && err.contains("no sessions of") && err.contains("2 sessions of"), "{err}");
}

#[test]
fn the_list_begins_with_the_newest_and_reads_no_more_than_it_shows() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    let session = a_session(&desk, "newest", &[]);
    a_session(&desk, "there", &["--cwd", "deeper"]);
    for n in 0..52 {
        copy(&desk, &session, &format!("copy-{n:02}"));
    }
    let journals = files(&desk.data()).into_iter().filter(|path| path.extension().is_some_and(|e| e == "journal"));
    for journal in journals {
        let name = journal.file_stem().unwrap().to_str().unwrap();
        let Some(n) = name.strip_prefix("copy-").map(|n| n.parse::<u64>().unwrap()) else { continue };
        // The 50th of the list and the one after it have lost their second line.
        if n == 48 || n == 49 {
            let text = std::fs::read_to_string(&journal).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            lines[1] = "{}";
            std::fs::write(&journal, lines.join("\n") + "\n").unwrap();
        }
        let file = std::fs::File::options().append(true).open(&journal).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60 + n)).unwrap();
    }
    let done = desk.run(&["sessions", "list"]);
    let rows = |done: &Done| done.out.lines().filter(|line| line.contains("  scripted/script  ")).count();
    let damaged = |done: &Done| done.out.matches("  damaged  ").count();
    assert_eq!((rows(&done), damaged(&done)), (50, 1), "{done:?}");
    assert!(done.err.contains("4 more, older or of other directories: playhouse sessions list --all"), "{done:?}");
    let all = desk.run(&["sessions", "list", "--all"]);
    assert_eq!((rows(&all), damaged(&all), all.err.as_str()), (54, 2, ""), "{all:?}");
    assert_eq!(desk.sessions().len(), 54, "JSON has all");
}

#[test]
fn a_session_is_listed_where_it_works_now() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    let session = a_session(&desk, "there", &["--cwd", "deeper"]);
    assert_eq!(desk.run(&["sessions", "list"]).out, "");
    let here = desk.work().display().to_string();
    desk.run(&["run", "on", "--session", &session, "--cwd", &here]).said("two\n");
    let done = desk.run(&["sessions", "list"]);
    assert!(done.out.contains(&session) && done.err.is_empty(), "{done:?}");
    desk.run(&["run", "back", "--session", &session, "--cwd", "deeper"]).said("three\n");
    let done = desk.run(&["sessions", "list"]);
    assert!(done.out.is_empty() && done.err.contains("1 session of another directory"), "{done:?}");
}

#[test]
fn the_list_fits_a_terminal_of_80_columns_and_of_40() {
    let desk = Desk::new();
    let session = a_session(&desk, &"a long prompt ".repeat(12), &[]);
    for columns in [80, 40] {
        let done = on_terminal(&desk, columns, &["sessions", "list"]);
        let lines: Vec<&str> = done.out.lines().collect();
        assert_eq!((done.code, lines.len()), (Some(0), 2), "{done:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{done:?}");
        assert!(lines[0].starts_with("ID             AGE  STATUS"), "{done:?}");
        assert!(lines[1].starts_with(&format!("{}  ", &session[..12])), "{done:?}");
        assert!(lines[1].contains("  done ") && lines[1].contains("a long"), "{done:?}");
        assert_eq!(lines[0].contains("MODEL"), columns == 80, "{done:?}");
    }
}

#[test]
fn a_session_is_found_without_opening_the_others() {
    let desk = Desk::new();
    let session = a_session(&desk, "first", &[]);
    let journal = files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|e| e == "journal"));
    let journal = journal.unwrap();
    // Whoever opens one of these waits for a writer that never comes.
    for n in 0..40 {
        let path = journal.with_file_name(format!("trap{n}.journal"));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }
    let shown = desk.run(&["sessions", "show", &session[..12]]);
    assert!(shown.code == Some(0) && shown.out.contains("first"), "{shown:?}");
    let file = std::fs::File::options().append(true).open(&journal).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let shown = desk.run(&["sessions", "show", "last"]);
    assert!(shown.code == Some(0) && shown.out.contains("first"), "{shown:?}");
}

#[test]
fn resuming_several_sessions_says_whose_each_line_is() {
    let desk = Desk::new();
    let mut expected = Vec::new();
    for (name, answer) in [("one", "first answer"), ("two", "second answer")] {
        let turns = json!([
            {"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]},
            {"tool_calls": [{"name": "bash", "arguments": {"command": format!("echo {name}")}}]},
            {"text": answer},
        ]);
        let script = desk.script(&format!("{name}.json"), turns);
        let args = ["run", name, "--script", &script, "--permission", "yolo"];
        let running = desk.start_until(&args, "ToolExecutionStart");
        expected.push((running.session.clone(), name, answer));
        running.kill();
    }
    let done = desk.run(&["resume"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut said: Vec<&str> = done.out.lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["first answer", "second answer"], "stdout has the answers alone");
    for (session, name, _) in &expected {
        let label = format!("[{}] ", &session[..12]);
        assert!(done.err.contains(&format!("{label}{name}")), "{done:?}");
        let of_it = |line: &&str| line.starts_with(&label);
        assert!(done.err.lines().filter(of_it).any(|line| line.contains(&format!("echo {name}"))), "{done:?}");
        assert!(done.err.contains(&format!("{label}answers:")), "{done:?}");
    }
    assert!(done.err.lines().all(|line| line.starts_with('[')), "{done:?}");
}

/// Kills a run in the middle of a tool; its script is over when it goes on, so that it fails then.
fn killed(desk: &Desk, prompt: &str, flags: &[&str]) -> String {
    let turns = json!([{"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]},
        {"error": {"status": 401, "message": "bad key"}}]);
    let script = desk.script("killed.json", turns);
    let args = [&["run", prompt, "--script", &script, "--permission", "yolo"], flags].concat();
    let running = desk.start_until(&args, "ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    session
}

#[test]
fn errors_of_several_sessions_say_whose_they_are() {
    let desk = Desk::new();
    let sessions = [killed(&desk, "one", &[]), killed(&desk, "two", &[])];
    let done = desk.run(&["resume"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.lines().all(|line| line.starts_with('[')), "{done:?}");
    for session in sessions {
        let line = format!("[{}] error: the run failed: the provider refused the key", &session[..12]);
        assert!(done.err.contains(&line), "{done:?}");
    }
}

#[test]
fn resume_goes_on_with_this_directorys_sessions_and_with_all_when_asked() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("deeper")).unwrap();
    killed(&desk, "there", &["--cwd", "deeper"]);
    let done = desk.run(&["resume"]);
    done.said("");
    let waits = "1 unfinished session of another directory waits: playhouse resume --all\n";
    assert_eq!(done.err, format!("nothing to resume here; {waits}"), "{done:?}");
    let here = killed(&desk, "here", &[]);
    let done = desk.run(&["resume"]);
    assert!(done.code == Some(1) && done.err.contains(waits) && done.err.contains(&here[..12]), "{done:?}");
    assert!(!done.err.contains("there"), "{done:?}");
    let states = || desk.sessions().iter().map(|one| one["status"].clone()).collect::<Vec<_>>();
    assert_eq!(states(), ["failed", "unfinished"]);
    let done = desk.run(&["resume", "--all"]);
    assert!(done.code == Some(1) && done.err.contains("there"), "{done:?}");
    assert_eq!(states(), ["failed", "failed"]);
    desk.run(&["resume", "--all", "last"]).refused(&["--all"]);
}

#[test]
fn whoever_is_too_late_with_a_session_is_told_the_same_by_a_hair_or_by_far() {
    let desk = Desk::new();
    let turns = json!([
        {"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]},
        {"text": "a few words", "chunk": 1, "delay_ms": 50},
    ]);
    let script = desk.script("s.json", turns);
    let running = desk.start_until(&["run", "go", "--script", &script, "--permission", "yolo"], "ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    let all: Vec<_> = (0..6).map(|_| desk.start(&["resume", &session])).collect();
    let mut answers = 0;
    for done in all.into_iter().map(finish) {
        match done.code {
            Some(0) if done.out == "a few words\n" => answers += 1,
            Some(0) => assert!(done.err.contains("is finished: nothing to resume"), "{done:?}"),
            _ => done.refused(&["is held by another process", "pid"]),
        }
    }
    assert_eq!(answers, 1);
}

#[test]
fn columns_of_the_list_hold_while_a_session_runs() {
    let desk = Desk::new();
    a_session(&desk, "here", &[]);
    let slow = desk.script("slow.json", json!([{"text": "slow ".repeat(2_000), "chunk": 1, "delay_ms": 20}]));
    let running = desk.start_until(&["run", "here too", "--script", &slow], "MessageUpdate");
    let list = desk.run(&["sessions", "list"]).out;
    running.kill();
    let mut lines = list.lines();
    let at = lines.next().and_then(|head| head.find("PROMPT"));
    assert!(list.contains("running (pid ") && at.is_some(), "{list}");
    assert!(lines.all(|line| line.find("here") == at), "{list}");
}

#[test]
fn a_beginning_that_many_sessions_have_lists_a_few_of_them() {
    let desk = Desk::new();
    let session = a_session(&desk, "first", &[]);
    (0..7).for_each(|n| copy(&desk, &session, &format!("twin-{n}")));
    let few = ["7 sessions", "twin-0, twin-1, twin-2, twin-3, twin-4 and 2 more; give more of it"];
    desk.run(&["sessions", "show", "twin"]).refused(&few);
}

/// The seconds of processor time that a command takes in a directory without sessions.
fn seconds_elsewhere(desk: &Desk, args: &[&str]) -> f64 {
    let shell = r#"cd empty && TIMEFORMAT=%U && time "$0" "$@" 2>/dev/null"#;
    let mut command = desk.command_by(&["bash", "-c", shell], args);
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    done.err.trim().parse().unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn last_in_a_directory_without_sessions_costs_no_more_than_the_list() {
    let desk = Desk::new();
    std::fs::create_dir(desk.work().join("empty")).unwrap();
    let script = desk.script("s.json", json!([{"text": "a long answer ".repeat(20_000)}]));
    assert_eq!(desk.run(&["run", "x", "--script", &script, "--quiet"]).code, Some(0));
    let session = desk.session();
    (0..100).for_each(|n| copy(&desk, &session, &format!("copy-{n}")));
    let list = seconds_elsewhere(&desk, &["sessions", "list"]);
    for args in [&["sessions", "show", "last"][..], &["run", "on", "--continue"]] {
        let last = seconds_elsewhere(&desk, args);
        // Reading every journal whole takes many times as long.
        assert!(last < 3.0 * list + 0.3, "{args:?}: {last} s, and the list {list} s");
    }
}
