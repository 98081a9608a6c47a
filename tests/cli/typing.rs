//! What a person types or pastes when a run asks for its prompt.

use std::io::Write;

use serde_json::json;

use crate::support::Desk;
use crate::telling::is_told;

const ANSWER: &str = "so it was heard";
/// Switches bracketed paste on and off.
const PASTE_ON: &str = "\x1b[?2004h";
const PASTE_OFF: &str = "\x1b[?2004l";

/// The command that asks for a prompt and answers it, for a shell.
fn asking(desk: &Desk) -> String {
    let script = desk.script("s.json", json!([{"text": ANSWER}]));
    format!("'{}' run --script '{script}'", env!("CARGO_BIN_EXE_playhouse"))
}

#[test]
fn a_paste_of_paragraphs_is_one_prompt_and_the_shell_gets_nothing_of_it() {
    let paste = "para one\r\r  para two\r\rtouch LEFT_OVER\r\r";
    let text = "para one\n\n  para two\n\ntouch LEFT_OVER";
    // From a terminal that marks what is pasted, after which a person presses enter, and from one that does not.
    for pasted in [format!("\x1b[200~{paste}\x1b[201~\r"), paste.to_owned()] {
        let desk = Desk::new();
        let run = format!("{}\r", asking(&desk));
        let steps = [("shell$ ", run.as_str()), ("> ", &pasted), (ANSWER, "exit\r")];
        let (_, screen) = desk.at_shell("PS1='shell$ ' exec bash --norc --noprofile -i", &steps);
        assert!(!desk.work().join("LEFT_OVER").exists(), "the shell has run it: {screen}");
        is_told(&desk, text);
    }
}

#[test]
fn a_long_line_is_taken_whole_and_what_was_erased_is_not() {
    let long = "word ".repeat(2_000);
    let cases = [
        (format!("{long}end\r\r"), format!("{long}end")),
        (
            "no\x15say héx\x7fll\x7fl\u{1f980}\x7fo wrold\x17wor\x1b[Dld\x1b[A\r\r".to_owned(),
            "say héllo world".to_owned(),
        ),
        ("\x1b[200~tab\there\r\n\x04\x03\x1b[31mred\x1b[201~\r\r".to_owned(), "tab\there\nred".to_owned()),
    ];
    for (typed, text) in cases {
        let desk = Desk::new();
        let (code, screen) = desk.at_shell(&asking(&desk), &[("> ", &typed)]);
        assert_eq!(code, Some(0), "{screen}");
        is_told(&desk, &text);
    }
}

#[test]
fn the_terminal_is_as_it_was_however_the_question_for_a_prompt_ends() {
    for (typed, expected) in [("hello\r\r", 0), ("hello\x04", 0), ("hello\x03", 130), ("hello\x1c", 131), ("TERM", 143)]
    {
        let desk = Desk::new();
        let line = format!(
            "trap : INT QUIT; sh -c 'echo \"pid=$$,\"; exec \"$@\"' sh {}; echo \"ended with $?.\"; stty -a",
            asking(&desk)
        );
        let (_, screen) = desk.at_shell_with(&line, |screen, keys| {
            if !screen.contains("> ") {
                return false;
            }
            if typed == "TERM" {
                let pid = screen.split("pid=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
                let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            } else {
                keys.write_all(typed.as_bytes()).unwrap();
            }
            true
        });
        assert!(screen.contains(&format!("ended with {expected}.")), "{typed:?}: {screen:?}");
        let (on, off) = (screen.rfind(PASTE_ON).expect("pastes are marked"), screen.rfind(PASTE_OFF));
        assert!(off.is_some_and(|off| off > on), "{typed:?}: {screen:?}");
        for mode in [" icanon", " echo ", " icrnl"] {
            assert!(screen.contains(mode), "{typed:?}, {mode}: {screen:?}");
        }
    }
}

#[test]
fn a_prompt_that_is_begun_is_gone_on_with_after_a_pause() {
    let desk = Desk::new();
    let run = format!("{}\r", asking(&desk));
    let steps =
        [("shell$ ", run.as_str()), ("> ", "one \x1a"), ("Stopped", "fg\r"), ("> one ", "two\r\r"), (ANSWER, "exit\r")];
    let (_, screen) = desk.at_shell("PS1='shell$ ' exec bash --norc --noprofile -i", &steps);
    assert!(screen.contains(ANSWER), "{screen}");
    is_told(&desk, "one two");
}
