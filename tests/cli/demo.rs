//! The demo, as a newcomer runs it.

use crate::support::Desk;

const SUMMARY: [&str; 4] = [
    "children     12 of 12 done",
    "tool calls   25, real ones: bash, read_file",
    "restarts     1: stagehand 07's actor panicked with 3 messages in its conversation,",
    "playbill     12 lines for 12 scenes: no effect was repeated",
];

/// The card with the panic, the fold and the messages that came back, and after the summary what to do next.
#[track_caller]
fn the_crash_is_seen(shown: &str) {
    let card = [
        "stagehand 07's actor panicked, and was restarted after a crash",
        " was folded into 3 messages:",
        "  user: Scene 07",
        "  assistant: Setting up a bridge in a storm.",
    ];
    let after = [
        "  bash: ",
        "it went on from there, and ended with 6",
        "children     12 of 12 done",
        "next         `playhouse models`",
    ];
    let mut rest = shown;
    for part in card.into_iter().chain(after) {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is not where it should be: {shown}")).1;
    }
}

#[test]
fn piped_it_tells_what_happens_line_by_line_and_sums_up() {
    let desk = Desk::new();
    let done = desk.run(&["demo"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("The models are scripted, offline: no key, no network."), "{done:?}");
    assert!(done.out.contains("stagehand 07  ! its actor is made to panic"), "{done:?}");
    assert!(done.out.contains("goes on from its journal with 3 messages"), "{done:?}");
    assert!(!done.out.contains('\x1b'), "{done:?}");
    the_crash_is_seen(&done.out);
    assert!(!done.out.contains(['•', '·']), "{done:?}");
    for line in SUMMARY {
        assert!(done.out.lines().any(|shown| shown == line), "{line}: {done:?}");
    }
    assert_eq!(desk.left_in_tmp(), Vec::<String>::new());
    assert!(!desk.data().exists(), "the demo keeps nothing where sessions are kept");
}

#[test]
fn on_a_terminal_it_draws_the_tree_over_itself() {
    let desk = Desk::new();
    let (code, screen) = desk.on_terminal(&["demo"]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("scripted, offline"), "{screen}");
    assert!(screen.contains("\x1b[17A"), "nothing was drawn over: {screen}");
    assert!(screen.contains("✗ panicked:"), "{screen}");
    assert!(screen.contains("✓ restarted:"), "{screen}");
    the_crash_is_seen(&screen);
    for line in SUMMARY {
        assert!(screen.lines().any(|shown| shown.trim_end() == line), "{line}: {screen}");
    }
}

#[test]
fn interrupted_it_ends_at_once_and_leaves_nothing() {
    let desk = Desk::new();
    let (code, screen) = desk.on_terminal_interrupted(&["demo"], "stagehand 12");
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("the demo was interrupted; nothing of it is left"), "{screen}");
    assert_eq!(desk.left_in_tmp(), Vec::<String>::new());
}
