//! Every part of the benchmark runs, in small.

use std::process::Command;

#[test]
fn every_part_runs_and_has_its_rows() {
    let output = Command::new(env!("CARGO_BIN_EXE_playhouse-bench")).arg("--smoke").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let measures: Vec<&str> = said.lines().skip(2).filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    assert_eq!(
        measures,
        [
            "CPU per turn, 3 agents at once",
            "CPU per turn, turns 1 to 2, 1 KB results",
            "CPU per turn, turns 3 to 5, 1 KB results",
            "connections opened by 5 agents, 2 requests at once",
            "bytes to events, chat completions",
            "bytes to events, Anthropic Messages",
            "bytes to events, OpenAI Responses",
            "bytes to events, Gemini",
            "bytes to events, Bedrock",
            "memory per agent, 3 streaming",
            "wall time over the ideal, 3 streaming",
            "CPU per piece, 3 streaming",
            "memory per idle agent, 5",
            "events delivered, 2 subscribers",
            "journal records, `flush`, 2 sessions",
            "journal records, `os`, 2 sessions",
            "journal records, `none`, 2 sessions",
            "a call that does nothing",
            "`read_file` 1 KB, over the raw read",
            "`read_file` 1 MB, over the raw read",
            "`edit_file` 1 KB, beside write and rename",
            "`search` in 1,000 files, beside ripgrep",
            "`bash true`, beside spawning it",
        ]
    );
}

#[test]
fn f67_a_comparison_whose_program_is_missing_says_so() {
    // Playhouse itself needs bash and nothing else.
    let path = std::env::var_os("PATH").unwrap();
    let bash = std::env::split_paths(&path).map(|folder| folder.join("bash")).find(|file| file.exists()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(bash, folder.path().join("bash")).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_playhouse-bench"));
    let output = bench.args(["--smoke", "tools"]).env("PATH", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let search = said.lines().find(|line| line.contains("ripgrep")).unwrap();
    let cells: Vec<&str> = search.split('|').map(str::trim).collect();
    assert_eq!((cells[2], &cells[4..]), ("no rg here", &["", "", "", ""][..]), "{search}");
}

#[test]
fn what_is_no_part_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_playhouse-bench")).args(["--fast"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: usage: playhouse-bench"));
}
