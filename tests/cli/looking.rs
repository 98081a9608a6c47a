//! Commands that change nothing: they work where nobody may write, and an empty journal does not trouble them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use playhouse::protocol::{Entry, EntryBody, SessionId};
use playhouse::session::{FileStore, Store, Sync, Take};
use serde_json::json;

use crate::support::{Desk, Done, files, finish};

fn a_session(desk: &Desk) -> String {
    let script = desk.script("s.json", json!([{"text": "Done."}]));
    desk.run(&["run", "go", "--script", &script]).said("Done.\n");
    desk.session()
}

/// Runs a command that may not pass by permissions, as root does.
fn run_as_others(desk: &Desk, args: &[&str]) -> Done {
    let plain = desk.command(args);
    let mut command = match fs::metadata("/proc/self").unwrap().uid() {
        0 => {
            let mut command = Command::new("setpriv");
            command.arg("--bounding-set=-dac_override,-dac_read_search").arg("--").arg(plain.get_program());
            command
        }
        _ => Command::new(plain.get_program()),
    };
    command.args(plain.get_args()).current_dir(plain.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn chmod(folder: &Path, mode: u32) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            chmod(&entry.path(), mode);
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn f34_reading_commands_work_on_a_data_directory_that_nobody_may_write_to() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let before = files(&desk.data());
    chmod(&desk.data(), 0o500);
    let run = |args: &[&str]| run_as_others(&desk, args);
    let script = desk.work().join("s.json");
    let all = [
        (run(&["sessions", "list"]), session.as_str()),
        (run(&["sessions", "show", &session]), "Done."),
        (run(&["audit", "verify"]), "ok  "),
        (run(&["audit", "show", &session]), "opened"),
        (run(&["config", "show"]), "data_dir"),
        (run(&["models"]), "anthropic"),
    ];
    let doctor = run(&["doctor"]);
    let refused = run(&["run", "go", "--script", script.to_str().unwrap()]);
    chmod(&desk.data(), 0o700);
    for (done, says) in all {
        assert!(done.code == Some(0) && done.out.contains(says), "{says}: {done:?}");
    }
    assert!(doctor.code == Some(1) && doctor.err.contains("runs will not work here"), "{doctor:?}");
    refused.refused(&["no permission", desk.data().to_str().unwrap()]);
    assert_eq!(files(&desk.data()), before, "nothing is left behind");
}

#[test]
fn f32_an_empty_journal_is_noted_and_not_broken() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let journal = files(&desk.data()).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    fs::write(journal.unwrap(), "").unwrap();
    let line = format!("empty     {session}  nothing was written before a crash; it can be removed\n");
    desk.run(&["audit", "verify"]).said(&line);
    let told: serde_json::Value = serde_json::from_str(&desk.run(&["audit", "verify", "--json"]).out).unwrap();
    assert_eq!((&told["status"], &told["records"]), (&json!("empty"), &json!(0)));
}

/// How much memory a reading command may have, in KiB: 3 MB are what it takes to begin.
const ROOM: usize = 5 << 10;
/// How many bytes there are in the journal that it reads.
const JOURNAL: usize = 8 << 20;

#[test]
fn reading_a_journal_takes_memory_for_a_few_records_and_not_for_all() {
    let desk = Desk::new();
    let session = a_session(&desk);
    let reason = "x".repeat(60_000);
    let many = JOURNAL / reason.len();
    {
        let (store, id) = (FileStore::open(desk.data()).unwrap(), SessionId::new(session.clone()).unwrap());
        let loaded = store.load(&id, Take::Own).unwrap();
        let mut parent = loaded.entries.last().map(|(_, entry)| entry.id.clone());
        for n in 0..many {
            let id_of_it = format!("big-{n}").as_str().into();
            let body = EntryBody::Parked { reason: reason.clone() };
            let entry = Entry { id: id_of_it, loop_id: None, parent, at: 1, body };
            parent = Some(entry.id.clone());
            store.append(&id, loaded.epoch, &[Arc::new(entry)], Sync::Kernel).unwrap();
        }
    }
    let limited = format!("ulimit -d {ROOM} && exec \"$@\"");
    let told = |args: &[&str]| {
        let mut command = desk.command_by(&["sh", "-c", &limited, "sh"], args);
        let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(done.code, Some(0), "{args:?}: {:.2000}", done.err);
        done.out
    };
    assert!(told(&["audit", "verify"]).starts_with("ok "));
    assert!(told(&["audit", "show", &session]).contains("opened"));
    let whole = |text: String| text.matches(&reason).count();
    assert_eq!(whole(told(&["sessions", "show", &session])), many);
    assert_eq!(whole(told(&["sessions", "show", &session, "--json"])), many);
    assert_eq!(whole(told(&["sessions", "events", &session])), many);
}

#[test]
fn on_a_narrow_terminal_the_doctor_breaks_no_word() {
    let desk = Desk::new();
    let piped = desk.run(&["doctor"]).out;
    for columns in [40, 120] {
        let (rows, bytes) = desk.screen(columns, &["doctor"]);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&rows.join("\n")), words(&piped), "{bytes}");
        assert!(columns == 40 || rows.iter().any(|row| row.starts_with(&" ".repeat(26))), "{rows:#?}");
    }
}
