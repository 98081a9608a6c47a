//! `${NAME}` in the strings of the user's file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::json;

use super::support::Place;

#[test]
fn variables_are_replaced_in_strings_and_lists_and_nowhere_else() {
    let mut place = Place::new();
    place.set("WHO", "an actor");
    place.set("ODD", "${WHO} $$ \"\n#");
    place.set("TOOL", "bash");
    place.user(
        "system = 'You are ${WHO}, ${MOOD:-calm}; $$5, $${WHO}, ${ODD}'\n\
         tools = ['${TOOL}']\n\
         data_dir = '${HOME}/kept'\n\
         [limits]\nmax_duration = '${TIME:-20m}'",
    );
    let shown = place.shown(&[]);
    let text = "You are an actor, calm; $5, ${WHO}, ${WHO} $$ \"\n#";
    assert_eq!(shown["system"], json!({"value": text, "origin": "user", "path": place.user_file(), "line": 1}));
    assert_eq!(shown["tools"]["value"], json!(["bash"]));
    assert_eq!(shown["data_dir"]["value"], json!(place.home().join("kept")));
    assert_eq!(shown["limits.max_duration"]["value"], "20m");
    // A variable and a flag are taken as they are.
    place.set("PLAYHOUSE_SYSTEM", "${WHO} $$");
    assert_eq!(place.shown(&[])["system"]["value"], "${WHO} $$");
    assert_eq!(place.shown(&["--system", "${WHO}"])["system"]["value"], "${WHO}");
}

#[test]
fn what_cannot_be_replaced_is_named_with_file_key_and_variable() {
    let mut place = Place::new();
    place.set("EMPTY", "");
    place.set("RAW", OsString::from_vec(vec![0xff]));
    place.set("OPENAI_API_KEY", "sk-canary");
    let path = place.user_file().display().to_string();
    for (text, told) in [
        ("${GONE}", "the variable GONE is not set: set it, or give a default as in ${GONE:-default}"),
        ("${EMPTY}", "the variable EMPTY is not set: set it, or give a default as in ${EMPTY:-default}"),
        ("${RAW}", "the variable RAW is not UTF-8 text: set it again"),
        ("${", "`${` has no end: write ${NAME}, or $$ for a dollar"),
        ("a ${HOME", "`${HOME` has no end: write ${NAME}, or $$ for a dollar"),
        ("${}", "`${}` names no variable: write ${NAME} or ${NAME:-default}, or $$ for a dollar"),
        ("${A B}", "`${A B}` names no variable: write ${NAME} or ${NAME:-default}, or $$ for a dollar"),
        (
            "${OPENAI_API_KEY}",
            "the variable OPENAI_API_KEY looks like a secret, and settings are written to the journal: leave it out",
        ),
    ] {
        place.user(format!("# one\nsystem = '{text}'"));
        place.run(&["config", "show"]).refused(&[&format!("{path}:2:10: system: {told}")]);
        place.user(format!("tools = ['bash', '{text}']"));
        place.run(&["config", "show"]).refused(&[&format!("{path}:1:9: tools: {told}")]);
    }
}

#[test]
fn what_a_variable_brings_is_judged_but_not_repeated() {
    let mut place = Place::new();
    place.set("PRIVATE", "canary");
    place.user("permission = '${PRIVATE}'");
    let path = place.user_file().display().to_string();
    place.run(&["config", "show"]).refused(&[&format!(
        "{path}:1:14: permission is '${{PRIVATE}}': it takes `strict`, `ask`, `auto-safe` or `yolo`"
    )]);
}
