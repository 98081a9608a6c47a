//! What durability `flush` means to the kernel: the calls of the real program, seen by strace.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a session whose prompt is long enough for a blob and gives its system calls, as far as they are about the data
/// directory or standard output, with the paths relative to the folder that it is in.
fn traced() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (script, trace) = (root.join("script.json"), root.join("trace"));
    fs::write(&script, r#"{"turns":[{"text":"Done."}]}"#).unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq", "-s", "16", "-e", "trace=write,fdatasync,fsync", "-o"]).arg(&trace);
    command.arg(env!("CARGO_BIN_EXE_playhouse")).args(["run", "--durability", "flush", "--script"]).arg(&script);
    command.env("PLAYHOUSE_CONFIG", "/dev/null").env("PLAYHOUSE_HOME", root.join("deep/data")).current_dir(&root);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("strace is needed here: `cargo xtask ci` installs it");
    child.stdin.take().unwrap().write_all("x".repeat(100_000).as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && done.stdout == b"Done.\n", "{done:?}");
    let ours = format!("<{}", root.display());
    let calls = fs::read_to_string(trace).unwrap();
    let calls = calls.lines().filter(|call| call.contains(&ours) || call.contains(" write(1<"));
    calls.map(|call| call.replace(&ours, "<")).collect()
}

/// Where the first call of this kind on a path that ends like this is, after some other call.
#[track_caller]
fn after(calls: &[String], at: usize, call: &str, ending: &str) -> usize {
    let is_it = |line: &String| line.contains(&format!(" {call}(")) && line.contains(&format!("{ending}>"));
    let found = calls.iter().skip(at).position(is_it);
    at + found.unwrap_or_else(|| panic!("no {call} of …{ending} after call {at}:\n{}", calls.join("\n")))
}

#[test]
fn f32_everything_is_on_the_disk_before_it_is_acknowledged() {
    let calls = traced();
    let acknowledged = calls.iter().position(|call| call.contains(" write(1<")).expect("nothing was said");
    let record = after(&calls, 0, "write", ".journal");
    let shard = |at| {
        let is_it = |line: &String| {
            let path = line.split_once("/sessions/").and_then(|(_, path)| path.split_once('>'));
            line.contains(" fsync(") && path.is_some_and(|(name, _)| name.len() == 2)
        };
        at + calls.iter().skip(at).position(is_it).unwrap_or_else(|| panic!("{}", calls.join("\n")))
    };
    // The folders' own names, from the first that was there before.
    for folder in ["<", "/deep", "/deep/data", "/sessions"] {
        assert!(after(&calls, 0, "fsync", folder) < record, "{folder}");
    }
    // The blob and its names come before the record that names it.
    let blob_written = after(&calls, 0, "write", ".1.new");
    let is_blob = |line: &String| line.contains(" fdatasync(") && line.contains(".blobs/");
    let blob = calls.iter().position(is_blob).unwrap_or_else(|| panic!("{}", calls.join("\n")));
    let blobs = after(&calls, blob, "fsync", ".blobs");
    let names = shard(blob);
    assert!(blob_written < blob && blob < blobs && blobs < record && names < record, "{}", calls.join("\n"));
    // The record and its journal's name come before anyone hears of it.
    let journal = after(&calls, record, "fdatasync", ".journal");
    assert!(journal < acknowledged && shard(record) < acknowledged, "{}", calls.join("\n"));
}
