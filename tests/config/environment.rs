//! Variables: those that are ours, those that only look like it, and those that hold no text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::{Value, json};

use super::support::Place;

fn raw() -> OsString {
    OsString::from_vec(b"/tmp/\xff".to_vec())
}

#[test]
fn an_unknown_variable_is_named_with_the_nearest() {
    let meant = |nearest: &str| format!("did you mean {nearest}?");
    let nothing = "unset it, or rename it if it is another program's".to_owned();
    for (name, hint) in [
        ("PLAYHOUSE_MODLE", meant("PLAYHOUSE_MODEL")),
        ("PLAYHOUSE_MAX_TURNS", meant("PLAYHOUSE_LIMITS_MAX_TURNS")),
        ("PLAYHOUSE_LIMIT_MAX_TURN", meant("PLAYHOUSE_LIMITS_MAX_TURNS")),
        ("PLAYHOUSE_MAX_TOKEN", meant("PLAYHOUSE_MAX_TOKENS")),
        ("PLAYHOUSE_BASEURL", meant("PLAYHOUSE_BASE_URL")),
        ("PLAYHOUSE_IDLE_MS", meant("PLAYHOUSE_CONNECTION_IDLE_MS")),
        ("PLAYHOUSE_DATA_DIR", meant("PLAYHOUSE_HOME")),
        ("PLAYHOUSE_CONFG", meant("PLAYHOUSE_CONFIG")),
        ("PLAYHOUSE_model", meant("PLAYHOUSE_MODEL")),
        ("PLAYHOUSE_COLOUR", nothing.clone()),
        ("PLAYHOUSE_", nothing),
    ] {
        let mut place = Place::new();
        place.set(name, "x");
        let refusal = format!("playhouse has no variable {name}: {hint}");
        for args in [&["config", "show"][..], &["sessions", "list"], &["resume"], &["run", "hi"]] {
            place.run(args).refused(&[&refusal]);
        }
        place.set(name, "");
        assert_eq!(place.run(&["config", "show"]).code, Some(0), "an empty variable counts as unset");
    }
}

#[test]
fn the_key_of_a_service_is_not_taken_by_another_name() {
    for name in ["PLAYHOUSE_API_KEY", "PLAYHOUSE_OPENAI_API_KEY", "PLAYHOUSE_TOKEN"] {
        let mut place = Place::new();
        place.set(name, "sk-canary");
        let instead = "set the service's own instead, such as OPENAI_API_KEY";
        place.run(&["config", "show"]).refused(&[&format!("playhouse has no variable {name}: {instead}")]);
    }
}

#[test]
fn bad_values_of_variables_are_named_with_what_is_expected() {
    for (name, value, told) in [
        ("PLAYHOUSE_LIMITS_MAX_TURNS", "many", " is \"many\": it takes a whole number from 1 to 4294967295, or `none`"),
        ("PLAYHOUSE_MAX_TOKENS", "1.5", " is \"1.5\": it takes a whole number from 1 to 4294967295"),
        ("PLAYHOUSE_TEMPERATURE", "NaN", " is \"NaN\": it takes a number from 0 to 2"),
        ("PLAYHOUSE_PERMISSION", "YOLO", " is \"YOLO\": it takes `strict`, `ask`, `auto-safe` or `yolo`"),
        ("PLAYHOUSE_SYSTEM", "any", ""),
        ("PLAYHOUSE_TOOLS", " , ", ": no tool is named: give names separated by commas, or none"),
        (
            "PLAYHOUSE_OPENAI_BASE_URL",
            "sk-canary",
            ": this base URL cannot be used: it starts with http:// or https:// and names a host",
        ),
    ] {
        let mut place = Place::new();
        place.set(name, value);
        let done = place.run(&["config", "show"]);
        match told {
            "" => assert_eq!(done.code, Some(0), "{done:?}"),
            told => done.refused(&[&format!("{name}{told}")]),
        }
    }
    let mut place = Place::new();
    place.set("PLAYHOUSE_PERMISSION", "é".repeat(10_000));
    let told = format!("PLAYHOUSE_PERMISSION is \"{}: it takes `strict`, `ask`, `auto-safe` or `yolo`", "é".repeat(79));
    place.run(&["config", "show"]).refused(&[&told]);
}

#[test]
fn a_variable_that_is_no_text_is_named_and_a_folder_may_be_any_bytes() {
    for key in playhouse::config::keys() {
        let mut place = Place::new();
        place.set(key.variable(), raw());
        let done = place.run(&["config", "show"]);
        match key.name() {
            "data_dir" => assert_eq!(done.code, Some(0), "{done:?}"),
            _ => done.refused(&[&format!("{} is not UTF-8 text: set it again, or unset it", key.variable())]),
        }
    }
    for name in ["OPENAI_BASE_URL", "OLLAMA_HOST"] {
        let mut place = Place::new();
        place.set(name, raw());
        place.run(&["config", "show"]).refused(&[&format!("{name} is not UTF-8 text: set it again, or unset it")]);
    }
    let mut place = Place::new();
    place.set(OsString::from_vec(b"PLAYHOUSE_\xff".to_vec()), "x");
    assert_eq!(place.run(&["config", "show"]).code, Some(2));
}

#[test]
fn what_tools_and_tests_set_is_left_alone() {
    let mut place = Place::new();
    for name in ["HOUSE", "RUN", "FAIL", "SEED", "RUNS", "BLOW"] {
        place.set(format!("PLAYHOUSE_{name}"), "x");
    }
    assert_eq!(place.run(&["config", "show"]).code, Some(0));
    place.set("PLAYHOUSES", "x");
    assert_eq!(place.run(&["config", "show"]).code, Some(0));
}

#[test]
fn the_program_can_be_a_tool_of_itself() {
    let place = Place::new();
    let command = format!("{} config show --json | head -3", env!("CARGO_BIN_EXE_playhouse"));
    let call = json!({"name": "bash", "arguments": {"command": command}});
    let script = place.script(json!([{"tool_calls": [call]}, {"text": "done"}]));
    // In the sandbox too, if it may read the program.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_playhouse")).parent().unwrap();
    place.user(format!("sandbox_read = ['{}']", program.display()));
    let done = place.run(&["run", "go", "--script", &script, "--permission", "yolo", "--json"]);
    let result: Vec<Value> = done.lines().into_iter().filter(|event| event["type"] == "ToolExecutionEnd").collect();
    assert_eq!((result.len(), &result[0]["is_error"]), (1, &json!(false)), "{result:?}");
    assert!(result[0].to_string().contains(r#"\"key\":\"system\""#), "{result:?}");
}
