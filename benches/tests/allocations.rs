//! What a turn allocates does not grow with its conversation.

use std::process::Command;

#[test]
fn a_turn_allocates_as_much_late_in_a_conversation_as_early() {
    let output = Command::new(env!("CARGO_BIN_EXE_playhouse-allocations")).arg("--short").output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
}
