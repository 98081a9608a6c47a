//! Every setting acts: in the journal's first entry, in what a service is sent, in what a run does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::Place;

/// A service that answers each request with the next status, 200 with a short text. Before it answers, it gives the
/// request's body, with the lines before it as `head`.
fn service(statuses: &'static [u16]) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (bodies, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for status in statuses {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut head) = (0, Vec::new());
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            body["head"] = json!(head);
            bodies.send(body).unwrap();
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
         sandbox = 'off'\ndurability = 'os'\ndata_dir = 'kept'\nthinking = 'low'\nmax_tokens = 77\ntemperature = 0.25\n\
         tool_execution = 'batched:3'\ncache = 'off'\n\
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
            "key_variable": "OPENAI_API_KEY", "compat": settings["model"]["compat"],
        },
        "system_prompt": "be calm",
        "tools": ["read_file", "sub_agent"],
        "cwd": place.work(),
        "permission": "yolo",
        "sandbox": "off",
        "limits": {"max_turns": 7, "max_total_tokens": null, "max_duration": {"secs": 90, "nanos": 0}},
        "durability": "os",
        "retry": {"max_retries": 1, "initial_delay_ms": 2, "backoff_multiplier": 3.5, "max_delay_ms": 4},
        "cache": {"enabled": false, "strategy": "disabled"},
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
        // Calls that only read may run at the same time, so both begin before either ends.
        let call = json!({"name": "list_files", "arguments": {}});
        let script = place.script(json!([{"tool_calls": [call.clone(), call]}, {"text": "ok"}]));
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

/// The first line of each request, and what it asks for.
fn asked(requests: &mpsc::Receiver<Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    requests.try_iter().map(|body| (text(&body["head"][0]), text(&body["model"]))).collect()
}

#[test]
fn the_place_of_a_model_is_the_flags_then_ours_then_its_sections_then_its_vendors() {
    let mut place = Place::new();
    let (url, requests) = service(&[200, 200, 200, 200, 200]);
    let at = |path: &str| url.replace("/v1", path);
    let post = |path: &str| (format!("POST {path}/chat/completions HTTP/1.1"), "m".to_owned());
    place.user("model = 'ollama/m'");
    place.set("OLLAMA_HOST", at("/theirs"));
    assert_eq!(place.run(&["run", "a"]).said(), "heard\n");
    place.user(format!("model = 'ollama/m'\nollama.base_url = '{}'", at("/section")));
    assert_eq!(place.run(&["run", "a"]).said(), "heard\n");
    place.set("PLAYHOUSE_OLLAMA_BASE_URL", at("/variable"));
    assert_eq!(place.run(&["run", "a"]).said(), "heard\n");
    place.user(format!("model = 'ollama/m'\nbase_url = '{}'", at("/first")));
    assert_eq!(place.run(&["run", "a"]).said(), "heard\n");
    assert_eq!(place.run(&["run", "a", "--base-url", &at("/flag")]).said(), "heard\n");
    let places = ["/theirs/v1", "/section", "/variable", "/first", "/flag"];
    assert_eq!(asked(&requests), places.map(post));
}

#[test]
fn a_base_url_is_the_first_models_alone() {
    let mut place = Place::new();
    let (url, requests) = service(&[200]);
    place.set("GROQ_API_KEY", "gsk-canary");
    let script = place.script(json!([{"text": "played"}]));
    place.user(format!("model = ['vllm/one', 'groq/two', 'scripted/{script}']\nbase_url = '{url}'"));
    assert_eq!(place.run(&["run", "a"]).said(), "heard\n");
    let settings = place.settings();
    let places = [&settings["model"], &settings["fallbacks"][0], &settings["fallbacks"][1]];
    let places = places.map(|model| (model["provider"].clone(), model["base_url"].clone()));
    let own = "https://api.groq.com/openai/v1";
    assert_eq!(places, [(json!("vllm"), json!(url)), (json!("groq"), json!(own)), (json!("scripted"), Value::Null)]);
    assert!(!settings.to_string().contains("canary"));
    assert_eq!(asked(&requests).len(), 1);
}

#[test]
fn what_is_said_of_a_model_and_its_provider_reaches_the_service() {
    let mut place = Place::new();
    let (url, requests) = service(&[200]);
    place.set("BETA", "two");
    place.user(format!(
        "model = 'openai/x'\nopenai.base_url = '{url}'\n\
         [models.'openai/x']\ncontext_window = 5000\nmax_tokens = 321\ninput = 1.25\noutput = 10\ncache_read = 0.125\n\
         [providers.openai]\nheaders = {{ x-beta = 'one ${{BETA}}' }}"
    ));
    assert_eq!(place.run(&["run", "hello"]).said(), "heard\n");
    let [body] = requests.try_iter().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(body["max_completion_tokens"], 321);
    assert!(body["head"].as_array().unwrap().contains(&json!("x-beta: one two")), "{body}");
    let model = place.settings()["model"].clone();
    let prices = json!({"input": 1_250_000, "output": 10_000_000, "cache_read": 125_000, "cache_write": 1_250_000});
    assert_eq!(
        [&model["context_window"], &model["max_tokens"], &model["prices"], &model["headers"]],
        [&json!(5000), &json!(321), &prices, &json!({"x-beta": "one two"})]
    );
}

/// A service that takes requests and never answers.
fn silent() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (format!("http://{}/v1", listener.local_addr().unwrap()), listener)
}

#[test]
fn deadlines_end_an_attempt() {
    for (key, told) in [("first_event_ms = 50", "the service sent nothing for 0.05 s"), ("total_ms = 70", "0.07 s")] {
        let (url, _listener) = silent();
        let place = Place::new();
        place
            .user(format!("model = 'openai/m'\nopenai.base_url = '{url}'\nretry.max_retries = 0\n[connection]\n{key}"));
        let done = place.run(&["run", "hello"]);
        assert!(done.code == Some(1) && done.err.contains(told), "{key}: {done:?}");
    }
}

/// Reads the lines before a request's body; whether they all came.
fn read_head(stream: &TcpStream) -> bool {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    lines.map_while(Result::ok).any(|line| line.is_empty())
}

#[test]
fn a_service_that_pauses_too_long_within_its_answer_is_given_up() {
    let (url, listener) = silent();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_head(&stream);
        let piece = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(format!("{head}data: {piece}\n\n").as_bytes()).unwrap();
        // Until the other side gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let place = Place::new();
    place.user(format!(
        "model = 'openai/m'\nopenai.base_url = '{url}'\nretry.max_retries = 0\n[connection]\nidle_ms = 60"
    ));
    let done = place.run(&["run", "hello"]);
    assert!(done.code == Some(1) && done.err.contains("no data came for 0.06 s"), "{done:?}");
    serving.join().unwrap();
}

#[test]
fn a_service_that_fails_is_left_alone_for_as_long_as_configured() {
    let attempts = |connection: &str| {
        let (url, listener) = silent();
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let is_request = read_head(&stream.unwrap());
                counted.fetch_add(is_request.into(), Ordering::SeqCst);
            }
        });
        let place = Place::new();
        let script = place.script(json!([{"text": "instead"}]));
        place.user(format!(
            "model = 'openai/m,scripted/{script}'\nopenai.base_url = '{url}'\n\
             retry = {{ max_retries = 2, initial_delay_ms = 50, max_delay_ms = 100 }}\n[connection]\n{connection}"
        ));
        assert_eq!(place.run(&["run", "hello"]).said(), "instead\n");
        seen.load(Ordering::SeqCst)
    };
    assert_eq!(attempts(""), 3);
    assert_eq!(attempts("breaker_failures = 2\nbreaker_pause_ms = 86400000"), 2);
    assert_eq!(attempts("breaker_failures = 1"), 1, "ten seconds is longer than a retry would wait");
    assert_eq!(attempts("breaker_failures = 1\nbreaker_pause_ms = 1"), 3);
}

#[test]
fn requests_and_tokens_per_minute_are_as_many_as_configured() {
    // Its first answer asks for a tool, so that there is a second request.
    let goes_on = |connection: &str| {
        let (url, listener) = silent();
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            let call = json!({"index": 0, "id": "c", "type": "function",
                "function": {"name": "list_files", "arguments": "{}"}});
            let call =
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
            let say = json!({"choices": [{"index": 0, "delta": {"content": "again"}, "finish_reason": "stop"}]});
            let usage = json!({"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 100}});
            for piece in [call, say] {
                let (mut stream, _) = listener.accept().unwrap();
                sender.send(read_head(&stream)).unwrap();
                let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                let body = format!("{head}data: {piece}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
                stream.write_all(body.as_bytes()).unwrap();
            }
        });
        let place = Place::new();
        place.user(format!("model = 'openai/m'\nopenai.base_url = '{url}'\n[connection]\n{connection}"));
        let mut child = place.start(&place.work(), &["run", "hello"]);
        assert_eq!(requests.recv_timeout(Duration::from_secs(60)), Ok(true));
        // Long enough for another, should there be one.
        let wait = if connection.ends_with("= 1") { Duration::from_secs(2) } else { Duration::from_secs(60) };
        let second = requests.recv_timeout(wait);
        child.kill().unwrap();
        child.wait().unwrap();
        second.is_ok()
    };
    assert!(goes_on("requests_per_minute = 2\ntokens_per_minute = 1001"));
    assert!(!goes_on("requests_per_minute = 1"));
    assert!(!goes_on("tokens_per_minute = 1"));
}

#[test]
fn requests_at_once_are_as_many_as_configured() {
    // The agent asks two helpers at the same time. The service keeps a helper waiting until the other one asks too, or
    // for so long.
    let most = |connection: &str, patience: Duration| {
        let (url, listener) = silent();
        let state = Arc::new((Mutex::new((0, 0)), Condvar::new()));
        let seen = state.clone();
        std::thread::spawn(move || {
            let call = |index: usize| {
                json!({"index": index, "id": format!("c{index}"), "type": "function",
                    "function": {"name": "sub_agent", "arguments": "{\"task\": \"help\"}"}})
            };
            let calls = json!({"tool_calls": [call(0), call(1)]});
            let calls = json!({"choices": [{"index": 0, "delta": calls, "finish_reason": "tool_calls"}]});
            let say = json!({"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]});
            for (n, stream) in listener.incoming().enumerate() {
                let (mut stream, state) = (stream.unwrap(), state.clone());
                let piece = if n == 0 { calls.clone() } else { say.clone() };
                std::thread::spawn(move || {
                    read_head(&stream);
                    let (lock, changed) = &*state;
                    let mut numbers = lock.lock().unwrap();
                    numbers.0 += 1;
                    numbers.1 = numbers.0.max(numbers.1);
                    changed.notify_all();
                    if n == 1 || n == 2 {
                        numbers = changed.wait_timeout_while(numbers, patience, |(_, most)| *most < 2).unwrap().0;
                    }
                    numbers.0 -= 1;
                    drop(numbers);
                    let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                    stream.write_all(format!("{head}data: {piece}\n\ndata: [DONE]\n\n").as_bytes()).unwrap();
                });
            }
        });
        let place = Place::new();
        place.user(format!(
            "model = 'openai/m'\nopenai.base_url = '{url}'\ntools = ['sub_agent']\n[connection]\n{connection}"
        ));
        assert_eq!(place.run(&["run", "hello"]).said(), "ok\n");
        seen.0.lock().unwrap().1
    };
    assert_eq!(most("concurrency = 2", Duration::from_secs(60)), 2);
    assert_eq!(most("concurrency = 1", Duration::from_millis(500)), 1);
}

#[test]
fn a_service_that_cannot_be_connected_to_is_given_up() {
    let (url, listener) = silent();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: when the queue is full, the next has to wait.
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queue.push(stream);
        assert!(queue.len() < 10_000, "the queue has no end");
    }
    let place = Place::new();
    place.user(format!(
        "model = 'openai/m'\nopenai.base_url = '{url}'\nretry.max_retries = 0\n[connection]\nconnect_ms = 50"
    ));
    let begun = Instant::now();
    let done = place.run(&["run", "hello"]);
    // Two timers run for the same time, and either may be the first.
    let is_late = ["deadline has elapsed", "operation timed out"].iter().any(|words| done.err.contains(words));
    assert!(done.code == Some(1) && done.err.contains(&address.to_string()) && is_late, "{done:?}");
    assert!(begun.elapsed() < Duration::from_secs(9), "ten seconds is the default");
}
