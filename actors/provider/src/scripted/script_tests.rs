use super::*;
use crate::testing::config;

fn error(json: &str) -> String {
    Script::parse(json).unwrap_err().to_string()
}

fn step_error(step: &str) -> String {
    error(&format!("{{\"turns\":[{{\"text\":\"ok\"}},{step}]}}"))
}

#[test]
fn every_key_is_read() {
    let script = Script::parse(
        r#"{"context_window":32000,"turns":[
            {"text":"a","thinking":"t","tool_calls":[{"name":"n","arguments":{"x":1}},{"name":"m","id":"i"}],
             "chunk":8,"delay_ms":5,"usage":{"input":1,"output":2,"cache_read":3,"cache_write":4,"reasoning":5}},
            {"error":{"status":429,"retry_after":1}},
            {"text":"b","cut_after":12,"when":{"system_contains":"s","prompt_contains":"p","purpose":"judge"}}]}"#,
    )
    .unwrap();
    let first = Step {
        when: None,
        reply: Reply {
            thinking: "t".into(),
            text: "a".into(),
            tool_calls: vec![
                ToolStep { id: None, name: "n".into(), arguments: json!({"x": 1}) },
                ToolStep { id: Some("i".into()), name: "m".into(), arguments: json!({}) },
            ],
            chunk: Some(8),
            delay: Duration::from_millis(5),
            usage: Some(Usage::of(1, 2, 3, 4, 5)),
        },
        failure: None,
    };
    let when =
        When { system_contains: Some("s".into()), prompt_contains: Some("p".into()), purpose: Some(Purpose::Judge) };
    let second = Step::error(429).retry_after(Duration::from_secs(1));
    let third = Step::text("b").cut_after(12).when(when);
    assert_eq!(script, Script { context_window: Some(32_000), steps: vec![first, second, third] });
}

#[test]
fn a_bad_step_is_named_with_its_key() {
    for (step, expected) in [
        (r#"{"txt":"x"}"#, "step 2: unknown key `txt`: use text, thinking"),
        (r#"{"text":5}"#, "step 2: `text`: invalid type"),
        (r#"{"text":"x","chunk":0}"#, "step 2: `chunk` must be at least 1"),
        (r#"{"text":"x","chunk":-1}"#, "step 2: `chunk`: "),
        (r#"{"text":"x","usage":{"in":1}}"#, "step 2: `usage`: unknown key `in`"),
        (r#"{"text":"x","when":{"system":"a"}}"#, "step 2: `when`: unknown key `system`"),
        (r#"{"text":"x","when":{"purpose":"fun"}}"#, "step 2: `when`: `purpose`: unknown variant `fun`"),
        (r#"{"text":"x","when":{}}"#, "step 2: `when`: it is empty"),
        (r#"{"tool_calls":[{"name":"a"},{"nam":"b"}]}"#, "step 2: tool call 2: unknown key `nam`"),
        (r#"{"tool_calls":[{"arguments":{}}]}"#, "step 2: tool call 1: `name` is missing"),
        (r#"{"tool_calls":[{"name":"a","arguments":[1]}]}"#, "step 2: tool call 1: `arguments` must be an object"),
        (r#"{"error":{"retry_after":1}}"#, "step 2: `error`: `status` is missing"),
        (r#"{"error":{"status":200}}"#, "step 2: `error`: `status` must be 400 to 599"),
        (r#"{"error":{"status":429,"retry_after":-1}}"#, "step 2: `error`: `retry_after`"),
        (r#"{"error":{"status":429,"code":1}}"#, "step 2: `error`: unknown key `code`"),
        (r#"{"error":{"status":429},"text":"x"}"#, "step 2: `error` and an answer exclude each other"),
        (r#"{"error":{"status":429},"cut_after":1}"#, "step 2: `error` and `cut_after` exclude each other"),
        (r#"{}"#, "step 2: it says nothing"),
        (r#"{"cut_after":3}"#, "step 2: it says nothing"),
        (r#""text""#, "step 2: a step must be an object"),
    ] {
        let message = step_error(step);
        assert!(message.starts_with(expected), "{step}: {message}");
    }
}

#[test]
fn a_bad_script_says_what_is_wrong() {
    assert!(error("{\"turns\":[}").contains("line 1 column 11"));
    assert_eq!(error("[]"), "a script must be an object, not `[]`");
    assert!(error("{}").contains("`turns` is missing"));
    assert!(error(r#"{"turns":[],"window":1}"#).contains("unknown key `window`"));
    assert!(error(r#"{"turns":{}}"#).contains("`turns`"));
    assert!(error(r#"{"turns":[],"context_window":"x"}"#).contains("`context_window`"));
}

fn text_of(script: &Script, response: u64, attempt: u32) -> String {
    let mut config = config("hello");
    (config.response, config.attempt) = (response, attempt);
    described(script.choose(&config))
}

fn described(chosen: Chosen<'_>) -> String {
    match chosen {
        Chosen::Step(Step { failure: Some(Failure::Error { status, .. }), .. }) => status.to_string(),
        Chosen::Step(Step { failure: Some(Failure::Cut { .. }), .. }) => "cut".into(),
        Chosen::Step(step) => step.reply.text.clone(),
        Chosen::Fixed => "fixed".into(),
        Chosen::PastEnd { steps, wanted } => format!("{wanted} of {steps}"),
    }
}

fn script(steps: Vec<Step>) -> Script {
    Script { context_window: None, steps }
}

#[test]
fn failing_steps_serve_the_attempts_of_the_next_success() {
    let script = script(vec![
        Step::text("a"),
        Step::error(429),
        Step::text("x").cut_after(1),
        Step::text("b"),
        Step::text("c"),
        Step::error(500),
    ]);
    let row = |response| (0..4).map(|attempt| text_of(&script, response, attempt)).collect::<Vec<_>>();
    assert_eq!(row(0), ["a", "a", "a", "a"]);
    assert_eq!(row(1), ["429", "cut", "b", "b"]);
    assert_eq!(row(2), ["c", "c", "c", "c"]);
    assert_eq!(row(3), ["500", "7 of 6", "7 of 6", "7 of 6"]);
    assert_eq!(row(4), ["8 of 6", "8 of 6", "8 of 6", "8 of 6"]);
    assert_eq!(text_of(&Script::default(), 0, 0), "1 of 0");
}

#[test]
fn groups_are_chosen_by_what_the_call_is() {
    let script = script(vec![
        Step::text("default 0"),
        Step::text("child 0").when(When::system("child")),
        Step::text("default 1"),
        Step::error(503).when(When::purpose(Purpose::Summary)),
        Step::text("summary").when(When::purpose(Purpose::Summary)),
        Step::text("child 1").when(When::system("child")),
        Step::text("task").when(When::prompt("task")),
    ]);
    let choose = |system: &str, prompt: &str, purpose, response, attempt| {
        let mut config = config("x");
        config.system_prompt = system.into();
        config.first_prompt = prompt.into();
        (config.purpose, config.response, config.attempt) = (purpose, response, attempt);
        described(script.choose(&config))
    };
    assert_eq!(choose("", "", Purpose::Turn, 0, 0), "default 0");
    assert_eq!(choose("", "", Purpose::Turn, 1, 0), "default 1");
    assert_eq!(choose("", "", Purpose::Turn, 2, 0), "3 of 2");
    assert_eq!(choose("a child", "", Purpose::Turn, 0, 0), "child 0");
    assert_eq!(choose("a child", "", Purpose::Turn, 1, 0), "child 1");
    assert_eq!(choose("", "the task", Purpose::Turn, 0, 0), "task");
    assert_eq!(choose("", "", Purpose::Summary, 9, 0), "503");
    assert_eq!(choose("a child", "", Purpose::Summary, 9, 1), "summary");
    assert_eq!(choose("a child", "the task", Purpose::Judge, 0, 0), "fixed");
}
