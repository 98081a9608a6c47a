//! `playhouse audit`: tampering is found, a kill is none, and what was decided is told.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Desk, files};

/// A session with a tool that ran, one that was denied and one that does not exist.
fn a_session(desk: &Desk) -> String {
    let script = desk.script(
        "s.json",
        json!([
            {"tool_calls": [
                {"name": "bash", "arguments": {"command": "touch hi"}},
                {"name": "list_files", "arguments": {"path": "."}},
                {"name": "nope", "arguments": {}},
            ]},
            {"text": "Done."},
            {"text": "More."},
        ]),
    );
    desk.run(&["run", "go", "--script", &script]).said("Done.\n");
    desk.session()
}

fn journal(desk: &Desk, session: &str) -> PathBuf {
    let is_it = |path: &PathBuf| path.to_str().unwrap().ends_with(&format!("{session}.journal"));
    files(&desk.data()).into_iter().find(is_it).unwrap()
}

/// The head that a check of one whole session prints, of the whole line.
#[track_caller]
fn head_of(desk: &Desk, session: &str) -> String {
    let done = desk.run(&["audit", "verify", session]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let records = desk.entries(session).len();
    let line = format!("ok        {session}  {records} records, 3 decisions, 1 effects, head ");
    let head = done.out.strip_prefix(&line).unwrap_or_else(|| panic!("{done:?}"));
    head.trim_end().to_owned()
}

#[test]
fn a_check_counts_what_there_is_and_a_head_noted_earlier_is_found_again() {
    let desk = Desk::new();
    let none = desk.run(&["audit", "verify"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.err.starts_with("no sessions in "), "{none:?}");
    let session = a_session(&desk);
    let head = head_of(&desk, &session);
    assert_eq!(head.len(), 64);
    let records = desk.entries(&session).len();
    desk.run(&["run", "go on", "--session", &session]).said("More.\n");
    let added = desk.entries(&session).len() - records;
    let done = desk.run(&["audit", "verify", "--head", &head]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let found = format!("found     head {head}: record {records} of session {session}, {added} records since");
    assert_eq!(done.out.lines().nth(1), Some(found.as_str()), "{done:?}");

    let done = desk.run(&["audit", "verify", &session, "--json", "--head", &head]);
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((done.code, lines.len()), (Some(0), 2), "{done:?}");
    assert_eq!(lines[0]["status"], "ok");
    assert_eq!((&lines[0]["effects"], &lines[0]["chained_from_line"]), (&json!(1), &json!(1)));
    assert_eq!(lines[1], json!({"head": head, "found": true, "session_id": session, "seq": records}));
}

#[test]
fn tampering_is_named_with_its_line_and_the_exit_code_is_1() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let head = head_of(&desk, &session);
    let path = journal(&desk, &session);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();

    let denied = lines.iter().position(|line| line.contains("tool_blocked")).unwrap();
    fs::write(&path, [&lines[..denied], &lines[denied + 1..]].concat().concat()).unwrap();
    let done = desk.run(&["audit", "verify", &session]);
    let told = format!("before line {0} the entries {0} to {0} are missing\n", denied + 1);
    assert_eq!((done.code, done.out.as_str()), (Some(1), format!("broken    {session}  {told}").as_str()));
    let done = desk.run(&["audit", "verify", "--json"]);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&told["status"], &told["broken"]["line"]), (&json!("broken"), &json!(denied + 1)), "{done:?}");
    assert_eq!((done.code, &told["head"]), (Some(1), &Value::Null));

    fs::write(&path, whole.replacen("touch hi", "touch ho", 1)).unwrap();
    let done = desk.run(&["audit", "verify"]);
    assert!(done.code == Some(1) && done.out.contains("its checksum is "), "{done:?}");

    // Cut off between two records it looks whole; the head tells.
    fs::write(&path, lines[..lines.len() - 2].concat()).unwrap();
    let done = desk.run(&["audit", "verify"]);
    assert!(done.code == Some(0) && done.out.starts_with("ok "), "{done:?}");
    let done = desk.run(&["audit", "verify", "--head", &head]);
    assert!(done.code == Some(1) && done.out.contains(&format!("not found head {head}: ")), "{done:?}");

    fs::write(&path, whole).unwrap();
    assert_eq!(head_of(&desk, &session), head);
}

#[test]
fn a_journal_without_a_chain_is_not_said_to_be_well_and_does_not_go_on() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let path = journal(&desk, &session);
    let old: String = fs::read_to_string(&path).unwrap().lines().map(without_chain).collect();
    let lines = old.lines().count();
    fs::write(&path, old).unwrap();
    let done = desk.run(&["audit", "verify"]);
    assert!(
        done.code == Some(1) && done.out.starts_with(&format!("no chain  {session}  {lines} records: ")),
        "{done:?}"
    );
    // Whoever can write such a journal can write anything into it.
    desk.run(&["run", "go on", "--session", &session]).refused(&["is damaged", "--accept-broken-chain"]);
}

#[test]
fn f64_an_edited_journal_does_not_widen_permissions() {
    let touch =
        |name: &str| json!({"tool_calls": [{"name": "bash", "arguments": {"command": format!("touch {name}")}}]});
    for (forge, says) in [(forged as fn(&str) -> String, "does not follow"), (without_chain_and_forged, "no hash")] {
        let desk = Desk::new();
        let script =
            desk.script("s.json", json!([touch("first"), {"text": "Done."}, touch("second"), {"text": "More."}]));
        desk.run(&["run", "go", "--script", &script, "--permission", "auto-safe"]).said("Done.\n");
        let session = desk.session();
        let path = journal(&desk, &session);
        let honest = fs::read_to_string(&path).unwrap();
        fs::write(&path, honest.lines().map(forge).collect::<String>()).unwrap();
        assert_eq!(desk.sessions()[0]["status"], "damaged");
        for words in [&["run", "on", "--session", &session][..], &["resume", &session]] {
            desk.run(words).refused(&["is damaged", "--accept-broken-chain"]);
        }
        // Who accepts it goes on with today's permissions.
        let on = ["run", "on", "--session", &session, "--accept-broken-chain", "--script", &script];
        desk.run(&on).said("Done.\n");
        assert!(!desk.work().join("first").exists() && !desk.work().join("second").exists(), "{says}");
        // As it was written, it goes on as it was.
        fs::write(&path, honest).unwrap();
        assert_eq!(desk.run(&["audit", "verify", &session]).code, Some(0));
    }
}

/// The line with wider permissions and a checksum that fits.
fn forged(line: &str) -> String {
    sealed(line, Hash::Stays, "\"permission\":\"auto_safe\"", "\"permission\":\"yolo\"")
}

fn without_chain_and_forged(line: &str) -> String {
    sealed(line, Hash::Goes, "\"permission\":\"auto_safe\"", "\"permission\":\"yolo\"")
}

/// The line as an older build wrote it.
fn without_chain(line: &str) -> String {
    sealed(line, Hash::Goes, "", "")
}

#[derive(Clone, Copy, PartialEq)]
enum Hash {
    Stays,
    Goes,
}

/// The line with another text in its entry, and its checksum.
fn sealed(line: &str, hash: Hash, from: &str, to: &str) -> String {
    let record: Value = serde_json::from_str(line).unwrap();
    let (seq, epoch) = (record["seq"].as_u64().unwrap(), record["epoch"].as_u64().unwrap());
    let entry = line.split_once("\"entry\":").unwrap().1.strip_suffix('}').unwrap();
    let entry = if from.is_empty() { entry.to_owned() } else { entry.replace(from, to) };
    let chain = record["chain"].as_str().filter(|_| hash == Hash::Stays);
    let mut bytes = [seq.to_le_bytes(), epoch.to_le_bytes()].concat();
    bytes.extend(chain.unwrap_or_default().as_bytes());
    bytes.extend(entry.as_bytes());
    let sum = crc32(&bytes);
    let chain = chain.map(|chain| format!("\"chain\":\"{chain}\",")).unwrap_or_default();
    format!("{{\"seq\":{seq},\"epoch\":{epoch},\"sum\":\"{sum:08x}\",{chain}\"entry\":{entry}}}\n")
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
        }
    }
    !sum
}

#[test]
fn f38_a_session_that_was_killed_and_resumed_is_whole() {
    let desk = Desk::new();
    let script = desk.script(
        "s.json",
        json!([{"tool_calls": [{"name": "bash", "arguments": {"command": "sleep 600"}}]}, {"text": "Back."}]),
    );
    let args = ["run", "go", "--script", &script, "--permission", "yolo"];
    let running = desk.start_until(&args, "ToolExecutionStart");
    let session = running.session.clone();
    running.kill();
    let path = journal(&desk, &session);
    let mut torn = fs::read(&path).unwrap();
    torn.extend(b"{\"seq\":9,\"epo");
    fs::write(&path, torn).unwrap();
    let done = desk.run(&["audit", "verify", &session]);
    let note = done.out.lines().nth(1).unwrap_or_default();
    assert!(done.code == Some(0) && note.ends_with("the last 13 bytes are no whole record; ignored"), "{done:?}");
    desk.run(&["resume", &session]).said("Back.\n");
    let done = desk.run(&["audit", "verify", &session]);
    assert_eq!((done.code, done.out.lines().count()), (Some(0), 1), "{done:?}");
}

#[test]
fn what_was_decided_and_done_is_shown_in_order() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let done = desk.run(&["audit", "show", &session, "--json"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let steps: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let what = |step: &Value| {
        let of = |name: &str| step[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", of("kind"), of("what"), of("tool_name"))
    };
    let mut told: Vec<String> = steps.iter().map(what).collect();
    assert_eq!(told.remove(0), "decision opened -");
    told.sort();
    let expected =
        ["decision blocked bash", "decision blocked nope", "effect started list_files", "outcome ended list_files"];
    assert_eq!(told, expected);
    let started = steps.iter().find(|step| step["what"] == "started").unwrap();
    assert_eq!(
        (&started["detail"], &started["arguments"]),
        (&json!("read; read-only, by mode ask"), &json!("{\"path\":\".\"}"))
    );
    let digest = "2eafb1f1c7336630d0a5f0493d05bbc7bcc40382c36408e5f4b53825106d02bc";
    assert_eq!(started["arguments_hash"], digest);

    let done = desk.run(&["audit", "show", &session]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 5, "{done:?}");
    assert!(lines[0].contains("Z  opened      permission ask, tools read_file,"), "{done:?}");
    let denied = lines.iter().find(|line| line.contains("blocked     bash")).unwrap();
    assert!(denied.contains("at approval: ") && denied.ends_with("{\"command\":\"touch hi\"}"), "{denied}");
}

#[test]
fn a_session_that_is_not_there_and_a_head_that_is_none_are_refused() {
    let desk = Desk::new();
    for there in [false, true] {
        if there {
            a_session(&desk);
        }
        for command in ["verify", "show"] {
            desk.run(&["audit", command, "gone"]).refused(&["there is no session `gone`"]);
        }
    }
    desk.run(&["audit", "verify", "--head", "abc"]).refused(&["--head", "64 lower-case hex digits"]);
}
