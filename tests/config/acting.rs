//! Every setting acts: in the journal's first entry, in what a service is sent, in what a run does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use serde_json::{Value, json};

use super::support::Place;

/// A service that answers each request with the next status, 200 with a short text. Before it answers, it gives the
/// request's body.
fn service(statuses: &'static [u16]) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (bodies, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for status in statuses {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            bodies.send(serde_json::from_slice(&body).unwrap()).unwrap();
            let piece = json!({"choices": [{"index": 0, "delta": {"content": "heard"}, "finish_reason": "stop"}]});
            let answer = if *status == 200 { format!("data: {piece}\n\ndata: [DONE]\n\n") } else { String::new() };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
        }
    });
    (url, requests)
}

#[test]
fn every_setting_of_a_file_is_in_the_journals_first_entry() {
    let place = Place::new();
    let (url, requests) = service(&[200]);
    place.user(format!(
        "model = 'openai/some-model'\nsystem = 'be calm'\ntools = ['read_file', 'sub_agent']\npermission = 'yolo'\n\
         durability = 'os'\ndata_dir = 'kept'\nthinking = 'low'\nmax_tokens = 77\ntemperature = 0.25\n\
         tool_execution = 'batched:3'\n\
         [openai]\nbase_url = '{url}'\n\
         [limits]\nmax_turns = 7\nmax_total_tokens = 'none'\nmax_duration = '90s'\n\
         [retry]\nmax_retries = 1\ninitial_delay_ms = 2\nbackoff_multiplier = 3.5\nmax_delay_ms = 4\n"
    ));
    assert_eq!(place.run(&["run", "hello"]).said(), "heard\n");
    let settings = place.settings();
    let expected = json!({
        "kind": "cli",
        "model": {
            "id": "some-model", "provider": "openai", "api": "openai_completions", "base_url": url,
            "key_variable": "OPENAI_API_KEY",
        },
        "system_prompt": "be calm",
        "tools": ["read_file", "sub_agent"],
        "cwd": place.work(),
        "permission": "yolo",
        "limits": {"max_turns": 7, "max_total_tokens": null, "max_duration": {"secs": 90, "nanos": 0}},
        "durability": "os",
        "retry": {"max_retries": 1, "initial_delay_ms": 2, "backoff_multiplier": 3.5, "max_delay_ms": 4},
        "cache": settings["cache"],
        "thinking_level": "low",
        "max_tokens": 77,
        "temperature": 0.25,
        "tool_execution": {"batched": {"size": 3}},
        "steering_mode": "one_at_a_time",
        "follow_up_mode": "one_at_a_time",
    });
    assert_eq!(settings, expected);
    assert!(place.home().join("config/playhouse/kept/sessions").is_dir(), "sessions are kept where the file says");
    // And the service was told.
    let [body] = requests.try_iter().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(body["model"], "some-model");
    assert_eq!(body["max_completion_tokens"], 77);
    assert_eq!(body["temperature"], 0.25);
    assert_eq!(body["reasoning_effort"], "low");
    assert!(body["messages"][0].to_string().contains("be calm"), "{body}");
    let tools: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(tools, ["read_file", "sub_agent"]);
}

#[test]
fn variables_flags_and_a_projects_file_reach_the_service_too() {
    let mut place = Place::new();
    let (url, requests) = service(&[200, 200]);
    place.set("PLAYHOUSE_OPENAI_BASE_URL", url);
    place.set("PLAYHOUSE_MAX_TOKENS", "11");
    place.project("model = 'openai/theirs'\nsystem = 'of the project'\ntools = ['bash']\nthinking = 'high'");
    assert_eq!(place.run(&["run", "one"]).said(), "heard\n");
    let flags = ["--model", "openai/mine", "--system", "", "--tools", "none", "--thinking", "off"];
    let more = ["--max-tokens", "12", "--temperature", "1.5"];
    assert_eq!(place.run(&[&["run", "two"][..], &flags, &more].concat()).said(), "heard\n");
    let seen = requests.try_iter().map(|body| {
        let first = &body["messages"][0];
        json!([
            body["model"],
            first["role"],
            first["content"],
            body["tools"][0]["function"]["name"],
            body["reasoning_effort"],
            body["max_completion_tokens"],
            body["temperature"],
        ])
    });
    let seen: Vec<Value> = seen.collect();
    let role = seen[0][1].clone();
    assert_eq!(
        seen,
        [
            json!(["theirs", role, "of the project", "bash", "high", 11, null]),
            json!(["mine", "user", "two", null, null, 12, 1.5]),
        ]
    );
}

#[test]
fn retries_are_as_many_and_as_late_as_configured() {
    let place = Place::new();
    let (url, requests) = service(&[503, 503, 503, 503]);
    place.user(format!(
        "model = 'openai/m'\nopenai.base_url = '{url}'\n\
         [retry]\nmax_retries = 3\ninitial_delay_ms = 10\nbackoff_multiplier = 3\nmax_delay_ms = 50"
    ));
    let done = place.run(&["run", "hello", "--json"]);
    assert_eq!((done.code, requests.try_iter().count()), (Some(1), 4), "{done:?}");
    let events = done.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let delays: Vec<u64> =
        events.filter(|event| event["type"] == "ProviderRetry").map(|e| e["delay_ms"].as_u64().unwrap()).collect();
    // ±20 % of 10, of 3 × 10, and of the cap.
    let expected = [8..=12, 24..=36, 40..=60];
    assert!(
        delays.len() == 3 && delays.iter().zip(&expected).all(|(delay, range)| range.contains(delay)),
        "{delays:?}"
    );
}

#[test]
fn limits_stop_a_run() {
    let call = json!({"name": "list_files", "arguments": {}});
    let usage = json!({"input": 10, "output": 10});
    let turn = json!({"text": "ab", "chunk": 1, "delay_ms": 2, "tool_calls": [call], "usage": usage});
    for (key, told) in [
        ("max_turns = 2", "max turns reached (2)"),
        ("max_total_tokens = 25", "max tokens reached (25)"),
        ("max_duration = '1ms'", "max duration reached (0.001 s)"),
    ] {
        let place = Place::new();
        let script = place.script(json!([turn, turn, turn, {"text": "never"}]));
        place.user(format!("model = 'scripted/{script}'\n[limits]\n{key}"));
        let done = place.run(&["run", "go"]);
        assert!(done.code == Some(3) && done.err.contains(told), "{key}: {done:?}");
    }
}

#[test]
fn permission_and_tools_decide_what_runs() {
    let place = Place::new();
    let call = json!({"name": "bash", "arguments": {"command": "echo x >> made"}});
    let script = place.script(json!([{"tool_calls": [call]}, {"text": "ok"}]));
    let made = || std::fs::read_to_string(place.work().join("made")).unwrap_or_default().lines().count();
    let user = |text: &str| {
        place.user(format!("model = 'scripted/{script}'\n{text}"));
        place.run(&["run", "go"]).said();
        made()
    };
    assert_eq!(user(""), 0, "without a terminal nobody can be asked");
    assert_eq!(user("permission = 'yolo'"), 1);
    assert_eq!(user("permission = 'yolo'\ntools = []"), 1);
    assert_eq!(user("permission = 'yolo'\ntools = ['read_file', 'bash']"), 2);
    // A project narrows both.
    place.project("permission = 'ask'");
    assert_eq!(user("permission = 'yolo'"), 2);
    place.project("tools = ['read_file']");
    assert_eq!(user("permission = 'yolo'"), 2);
    place.project("");
    assert_eq!(user("permission = 'yolo'"), 3);
}

#[test]
fn tool_execution_decides_how_many_run_at_once() {
    let order = |setting: &str| {
        let place = Place::new();
        let wait = "while ! test -e two; do sleep 0.01; done; echo one";
        let call = |command: &str| json!({"name": "bash", "arguments": {"command": command}});
        // In parallel the first waits for the second; one after the other it would wait for ever.
        let first = if setting == "parallel" { wait } else { "echo one" };
        let script = place.script(json!([{"tool_calls": [call(first), call("touch two")]}, {"text": "ok"}]));
        place.user(format!("model = 'scripted/{script}'\npermission = 'yolo'\ntool_execution = '{setting}'"));
        let events = place.run(&["run", "go", "--json"]).lines();
        let names = events.iter().filter_map(|event| event["type"].as_str()?.strip_prefix("ToolExecution"));
        names.filter(|name| *name != "Update").map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order("sequential"), ["Start", "End", "Start", "End"]);
    assert_eq!(order("batched:1"), ["Start", "End", "Start", "End"]);
    assert_eq!(order("parallel"), ["Start", "Start", "End", "End"]);
}

#[test]
fn durability_none_keeps_nothing() {
    let mut place = Place::new();
    let script = place.script(json!([{"text": "gone"}]));
    place.set("PLAYHOUSE_DURABILITY", "none");
    let done = place.run(&["run", "a", "--script", &script]);
    assert_eq!(done.said(), "gone\n");
    assert_eq!(done.err, "note: durability none: this session is only in memory and cannot be resumed\n");
    assert!(!place.home().join("data").exists());
}

#[test]
fn a_configured_place_does_not_stand_in_the_way_of_a_script() {
    let place = Place::new();
    let script = place.script(json!([{"text": "played"}]));
    place.user("model = 'openai/m'\nopenai.base_url = 'http://127.0.0.1:1/v1'");
    assert_eq!(place.run(&["run", "a", "--script", &script]).said(), "played\n");
    assert_eq!(place.settings()["model"]["base_url"], Value::Null);
}
