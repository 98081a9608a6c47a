//! `playhouse completions`: what a shell offers.

use std::process::Command;

use crate::support::Desk;

/// What bash offers for the last of these words.
fn offered(script: &std::path::Path, words: &str) -> Vec<String> {
    let line = r#"
        source "$1" || exit 9
        read -ra COMP_WORDS <<< "$2"
        [[ $2 == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        complete -p playhouse > /dev/null || exit 8
        _playhouse playhouse "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash").args(["--norc", "-c", line, "bash"]).arg(script).arg(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_words() {
    let desk = Desk::new();
    let done = desk.run(&["completions", "bash"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let script = desk.write("playhouse.bash", &done.out);
    assert_eq!(offered(&script, "playhouse ses"), ["sessions"]);
    assert_eq!(offered(&script, "playhouse sessions r"), ["rm"]);
    assert_eq!(offered(&script, "playhouse run --image"), ["--image"]);
    assert_eq!(offered(&script, "playhouse run --permission "), ["strict", "ask", "auto-safe", "yolo"]);
    assert_eq!(offered(&script, "playhouse completions z"), ["zsh"]);
    assert!(offered(&script, "playhouse ").contains(&"completions".to_owned()));
}

#[test]
fn zsh_and_fish_get_theirs_and_other_shells_are_refused() {
    let desk = Desk::new();
    let zsh = desk.run(&["completions", "zsh"]);
    assert!(zsh.code == Some(0) && zsh.out.starts_with("#compdef playhouse"), "{zsh:?}");
    let fish = desk.run(&["completions", "fish"]);
    assert!(fish.code == Some(0) && fish.out.contains("complete -c playhouse"), "{fish:?}");
    for script in [zsh, fish] {
        assert!(script.out.contains("sessions") && script.out.contains("yolo"), "{script:?}");
    }
    let done = desk.run(&["completions", "tcsh"]);
    assert!(done.code == Some(2) && done.err.contains("tcsh") && done.err.contains("bash"), "{done:?}");
    assert!(!desk.data().exists(), "it makes nothing");
}
