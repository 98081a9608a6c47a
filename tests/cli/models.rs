//! Who answers: `playhouse models`, chains of models, where they are, what they cost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use playhouse::provider::catalogue::{AS_OF, CATALOGUE};
use playhouse::provider::{Access, PRESETS};
use serde_json::{Value, json};

use super::support::{Desk, Done, finish};

/// A service that answers each request with the next status: 200 with a short text and its usage, others with nothing.
/// It gives each request's first line.
fn service(statuses: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || statuses.iter().map(|status| answer(&listener, *status)).collect());
    (url, serving)
}

fn answer(listener: &TcpListener, status: u16) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        if first.is_empty() {
            first = line.trim().to_owned();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "from afar"}, "finish_reason": "stop"}]});
    let usage =
        json!({"prompt_tokens": 1_000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 600}});
    let usage = json!({"choices": [], "usage": usage});
    let body = match status {
        200 => format!("data: {piece}\n\ndata: {usage}\n\ndata: [DONE]\n\n"),
        _ => String::new(),
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    first
}

/// An address where nothing listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

/// Runs it with these variables.
fn run_with(desk: &Desk, variables: &[(&str, &str)], args: &[&str]) -> Done {
    let mut command = desk.command(args);
    command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// One retry, at once.
const NO_WAIT: [(&str, &str); 2] = [("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "1"), ("PLAYHOUSE_RETRY_MAX_RETRIES", "1")];

#[test]
fn when_the_first_model_cannot_be_reached_the_next_answers() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "from the script"}]));
    let chain = format!("openai/first,scripted/{script}");
    let done = run_with(&desk, &NO_WAIT, &["run", "go", "--model", &chain, "--base-url", &nowhere()]);
    done.said("from the script\n");
    assert_eq!(done.err.matches("asking again").count(), 1, "one retry, then the other model: {done:?}");
    assert_eq!(done.err.matches("asking scripted/script instead").count(), 1, "{done:?}");
    let settings = desk.entries(&desk.session())[0]["body"]["settings"].clone();
    assert_eq!(
        (&settings["model"]["id"], &settings["fallbacks"][0]["script"]),
        (&json!("first"), &json!(script)),
        "{settings}"
    );
}

#[test]
fn when_a_service_fails_the_next_one_answers_and_the_answer_names_it() {
    let desk = Desk::new();
    let (first, failing) = service(&[500, 500]);
    let (second, answering) = service(&[200, 200]);
    let places = [("PLAYHOUSE_OPENAI_BASE_URL", first.as_str()), ("PLAYHOUSE_OLLAMA_BASE_URL", &second)];
    let done =
        run_with(&desk, &[&places[..], &NO_WAIT].concat(), &["run", "go", "--model", "openai/a, ollama/b", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let events: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let retries = events.iter().filter(|event| event["type"] == "ProviderRetry").count();
    let end = events.iter().find(|event| event["type"] == "AgentEnd").unwrap();
    let last = end["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((retries, &last["provider"], &last["model"]), (2, &json!("ollama"), &json!("b")), "{end}");
    assert_eq!(failing.join().unwrap().len(), 2);
    // A flag puts another chain in place of the session's.
    let done = run_with(&desk, &[], &["run", "on", "--continue", "--model", "ollama/c", "--base-url", &second]);
    done.said("from afar\n");
    let entries = desk.entries(&desk.session());
    let settings = &entries.iter().rfind(|entry| entry["body"]["type"] == "configured").unwrap()["body"]["settings"];
    assert_eq!((&settings["model"]["id"], &settings["fallbacks"]), (&json!("c"), &Value::Null), "{settings}");
    assert_eq!(answering.join().unwrap().len(), 2);
}

#[test]
fn a_chain_that_cannot_be_asked_is_refused_before_anything_is_made() {
    let desk = Desk::new();
    let script = desk.script("s.json", json!([{"text": "never"}]));
    let run = |variables: &[(&str, &str)], chain: &str| {
        let chain = chain.replace("SCRIPT", &script);
        run_with(&desk, variables, &["run", "go", "--model", &chain])
    };
    run(&[], "scripted/SCRIPT,groq/x").refused(&["the fallback groq/x cannot be asked", "GROQ_API_KEY"]);
    run(&[("GROQ_API_KEY", " ")], "scripted/SCRIPT,groq/x").refused(&["groq/x", "GROQ_API_KEY is set but empty"]);
    run(&[], "scripted/SCRIPT,scripted/gone.json").refused(&["the fallback scripted/", "gone.json", "cannot be read"]);
    run(&[], "groq/x,scripted/SCRIPT").refused(&["no key for `groq`", "GROQ_API_KEY"]);
    run(&[], "scripted/SCRIPT,gorq/x").refused(&["cannot be read"]);
    run(&[], "openai/x,gorq/x").refused(&["`gorq`", "did you mean `groq`?", "playhouse models"]);
    assert!(!desk.data().exists(), "nothing was made");
}

#[test]
fn the_providers_are_listed_with_the_keys_they_need_and_no_key_is_shown() {
    let desk = Desk::new();
    let variables = [
        ("GROQ_API_KEY", "gsk-canary"),
        ("XAI_API_KEY", ""),
        ("PLAYHOUSE_HOME", "/proc/no/such/place"),
        ("GOOGLE_API_KEY", "canary"),
    ];
    let listed = run_with(&desk, &variables, &["models"]);
    assert_eq!((listed.code, listed.err.as_str()), (Some(0), ""), "{listed:?}");
    let lines: Vec<String> =
        listed.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "openai OpenAI chat completions chat completions OPENAI_API_KEY not set openai/gpt-5",
        "groq Groq chat completions GROQ_API_KEY set groq/llama-3.3-70b-versatile",
        "xai xAI chat completions XAI_API_KEY not set xai/grok-4",
        "google Google Gemini Gemini GEMINI_API_KEY or GOOGLE_API_KEY set google/gemini-2.5-flash",
        "lmstudio LM Studio chat completions – not needed lmstudio/MODEL",
        "vertex Google Vertex Gemini on Vertex GOOGLE_OAUTH_ACCESS_TOKEN signed in by application default credentials, \
         if there are any vertex/gemini-2.5-flash",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
    }
    assert_eq!(lines.len(), 1 + PRESETS.len() + 3);
    assert!(listed.out.contains(&format!("{} models are known, as of {AS_OF}", CATALOGUE.len())), "{listed:?}");
    assert!(!listed.out.contains("canary"));

    let document = run_with(&desk, &variables, &["models", "--json"]);
    assert!(!document.out.contains("canary"));
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!((&document["priced_models"], &document["as_of"]), (&json!(CATALOGUE.len()), &json!(AS_OF)));
    let rows = document["providers"].as_array().unwrap();
    assert_eq!(rows.len(), PRESETS.len());
    for (row, preset) in rows.iter().zip(PRESETS) {
        let (Access::Key(names) | Access::MaybeKey(names) | Access::KeyOrLogin(names, _)) = preset.access;
        assert_eq!((&row["name"], &row["key_variables"]), (&json!(preset.name), &json!(names)));
    }
    let groq = json!({
        "name": "groq", "title": "Groq", "protocol": "openai_completions", "key_variables": ["GROQ_API_KEY"],
        "base_url": "https://api.groq.com/openai/v1", "key": "set", "example": "groq/llama-3.3-70b-versatile",
    });
    assert!(rows.contains(&groq), "{rows:#?}");
}

#[test]
fn the_models_of_a_provider_are_listed_with_their_limits_and_prices() {
    let desk = Desk::new();
    let listed = desk.run(&["models", "anthropic"]);
    let lines: Vec<String> =
        listed.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.contains(&"anthropic/claude-sonnet-4-5 200000 64000 3 15 0.3 3.75".to_owned()), "{lines:#?}");
    assert!(listed.out.contains(AS_OF) && !listed.out.contains("gpt-5"), "{listed:?}");
    let document: Value = serde_json::from_str(&desk.run(&["models", "google", "--json"]).out).unwrap();
    let pro = json!({
        "model": "google/gemini-2.5-pro", "context_window": 1_048_576, "max_output": 65_536,
        "prices": {"input": 1.25, "output": 10.0, "cache_read": 0.125, "cache_write": 1.25, "up_to": 200_000},
    });
    assert!(document["models"].as_array().unwrap().contains(&pro), "{document:#}");
    assert_eq!((&document["provider"], &document["as_of"]), (&json!("google"), &json!(AS_OF)));
    // The same models, by another protocol.
    assert!(desk.run(&["models", "openai-responses"]).out.contains("openai-responses/gpt-5\t"));
    let nothing = desk.run(&["models", "azure"]);
    assert!(nothing.out.starts_with("Nothing is known of the models of Azure OpenAI."), "{nothing:?}");
    desk.run(&["models", "antropic"]).refused(&["`antropic`", "did you mean `anthropic`?", "playhouse models"]);
}

/// As `cut -f1,4` and its like want it: whole values, and a blank line before the words for people.
#[test]
fn what_is_piped_has_tabs_between_its_columns() {
    let desk = Desk::new();
    let columns = |args: &[&str]| -> Vec<Vec<String>> {
        let out = desk.run(args).out;
        let rows = out.lines().take_while(|line| !line.is_empty());
        rows.map(|row| row.split('\t').map(str::to_owned).collect()).collect()
    };
    let providers = columns(&["models"]);
    assert_eq!(providers.len(), 1 + PRESETS.len());
    for (row, preset) in providers.iter().skip(1).zip(PRESETS) {
        let (name, title) = (preset.name, preset.title);
        let example = format!("{name}/{}", preset.example);
        assert_eq!((row[0].as_str(), row[1].as_str(), row[5].as_str(), row.len()), (name, title, &*example, 6));
    }
    let models = columns(&["models", "anthropic"]);
    assert!(models.len() > 3 && models.iter().all(|row| row.len() == 8), "{models:?}");
    assert!(models.iter().skip(1).all(|row| row[0].starts_with("anthropic/claude-")), "{models:?}");
}

#[test]
fn the_last_line_says_what_a_run_cost_if_that_is_known() {
    let desk = Desk::new();
    let (url, serving) = service(&[200, 200]);
    let file = desk.write("c.toml", "[models.'openai/priced']\ninput = 10\noutput = 20\ncache_read = 1");
    let file = file.to_str().unwrap();
    let cost = |model: &str| {
        let (code, screen) = desk.on_terminal(&["run", "go", "--model", model, "--base-url", &url, "--config", file]);
        assert_eq!(code, Some(0), "{screen}");
        let tally = screen.lines().find(|line| line.contains("tokens in")).unwrap_or_else(|| panic!("{screen}"));
        tally.replace("\x1b[0m", "").trim_end().rsplit(", ").next().unwrap().to_owned()
    };
    // 400 × $10 + 600 × $1 + 200 × $20, for a million each.
    assert_eq!(cost("openai/priced"), "$0.008600");
    assert_eq!(cost("openai/unheard-of"), "cost unknown");
    serving.join().unwrap();
}

#[test]
fn what_a_helper_costs_is_a_part_of_what_the_run_cost() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}});
    let say = json!({"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]});
    let call = json!({"index": 0, "id": "c", "type": "function",
        "function": {"name": "sub_agent", "arguments": "{\"task\": \"help\"}"}});
    let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let serving = std::thread::spawn(move || {
        for piece in [&call, &say, &say] {
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
            reader.read_exact(&mut vec![0; length]).unwrap();
            let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let body = format!("{head}data: {piece}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
            stream.write_all(body.as_bytes()).unwrap();
        }
    });
    let file = desk.write("c.toml", "[models.'openai/x']\ninput = 1\noutput = 1\n[limits]\nmax_total_tokens = 'none'");
    let args = ["run", "go", "--model", "openai/x", "--base-url", &url, "--tools", "sub_agent"];
    let (code, screen) = desk.on_terminal(&[&args[..], &["--config", file.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{screen}");
    let tally = screen.lines().find(|line| line.contains("tokens in")).unwrap_or_else(|| panic!("{screen}"));
    assert!(tally.contains("3 turns, 1 tool call, 1 sub-agent, ") && tally.contains(", $3.0000"), "{tally}");
    serving.join().unwrap();
}

#[test]
fn an_exchange_is_recorded_and_played_again_without_a_service_or_a_key() {
    let desk = Desk::new();
    let recordings = desk.work().join("recordings").display().to_string();
    let (url, serving) = service(&[200]);
    let key = [("GROQ_API_KEY", "gsk-canary-0123456789")];
    let args = ["run", "go", "--model", "groq/x", "--base-url", &url, "--record", &recordings];
    run_with(&desk, &key, &args).said("from afar\n");
    assert_eq!(serving.join().unwrap(), ["POST /v1/chat/completions HTTP/1.1"]);
    let files: Vec<_> = std::fs::read_dir(&recordings).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert!(!std::fs::read_to_string(files[0].path()).unwrap().contains("canary"));

    // No service, no key: the recording answers, and says what it does not have.
    let again = ["--model", "groq/x", "--base-url", "https://nobody.example/v1", "--replay", &recordings];
    desk.run(&[&["run", "go"][..], &again].concat()).said("from afar\n");
    let other = desk.run(&[&["run", "something else"][..], &again].concat());
    assert!(other.code == Some(1) && other.err.contains("--record"), "{other:?}");
    desk.run(&["run", "go", "--model", "groq/x"]).refused(&["GROQ_API_KEY"]);
    desk.run(&["run", "go", "--model", "groq/x", "--replay", "/no/such/folder"]).refused(&["/no/such/folder"]);
    desk.run(&["run", "go", "--record", "a", "--replay", "b"]).refused(&["--record", "--replay"]);
}

#[test]
fn without_a_model_the_one_key_that_is_set_chooses_it() {
    let desk = Desk::new();
    let (url, serving) = service(&[200]);
    let variables = [("OPENAI_API_KEY", "key-0123456789"), ("OPENAI_BASE_URL", url.as_str())];
    let done = run_with(&desk, &variables, &["run", "go"]);
    done.said("from afar\n");
    assert_eq!(serving.join().unwrap().len(), 1);
    let note = "note: asking openai/gpt-5, since OPENAI_API_KEY is the one key that is set; --model names another\n";
    assert!(done.err.starts_with(note), "{done:?}");
    let shown = run_with(&desk, &variables, &["config", "show", "--origin"]);
    assert!(shown.out.contains("environment OPENAI_API_KEY"), "{shown:?}");
    // Whoever names one is told nothing.
    let script = desk.script("s.json", json!([{"text": "played"}]));
    let done = run_with(&desk, &variables, &["run", "go", "--script", &script]);
    done.said("played\n");
    assert_eq!(done.err, "");
}

#[test]
fn several_keys_or_none_are_an_error_that_says_what_to_do() {
    let desk = Desk::new();
    let both = [("OPENAI_API_KEY", "key-0123456789"), ("ANTHROPIC_API_KEY", "key-0123456789")];
    let words = ["--model anthropic/claude-sonnet-4-5 or --model openai/gpt-5", "ANTHROPIC_API_KEY and OPENAI_API_KEY"];
    run_with(&desk, &both, &["run", "go"]).refused(&words);
    let azure = [("AZURE_OPENAI_API_KEY", "key-0123456789")];
    run_with(&desk, &azure, &["run", "go"]).refused(&["AZURE_OPENAI_API_KEY is set", "--model azure/ID"]);
    desk.run(&["run", "go"]).refused(&["no key is set", "ANTHROPIC_API_KEY", "ollama pull", "--model ollama/qwen3"]);
}

#[test]
fn a_model_has_short_names_and_slips_are_met_with_the_right_one() {
    let desk = Desk::new();
    let model = |name: &str| {
        let shown = desk.run(&["config", "show", "--json", "--model", name]);
        let rows = shown.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.into_iter().find(|row| row["key"] == "model").unwrap_or_else(|| panic!("{shown:?}"))["value"].clone()
    };
    for (name, meant) in [
        ("sonnet", json!("anthropic/claude-sonnet-4-5")),
        ("gpt-5", json!("openai/gpt-5")),
        ("gemini", json!("google/gemini-2.5-flash")),
        ("mistral", json!("mistral/mistral-large-latest")),
        ("opus,gpt-5-mini", json!(["anthropic/claude-opus-4-5", "openai/gpt-5-mini"])),
    ] {
        assert_eq!(model(name), meant, "{name}");
    }
    desk.run(&["run", "go", "--model", "sonet"]).refused(&["did you mean `sonnet`?", "PROVIDER/ID"]);
    desk.run(&["run", "go", "--model", "haiku"]).refused(&["ANTHROPIC_API_KEY"]);
}

#[test]
fn the_doctor_says_which_keys_are_set_and_what_to_do_next() {
    let desk = Desk::new();
    let none = desk.run(&["doctor"]);
    let line = |done: &Done, name: &str| {
        done.out.lines().find(|line| line.get(9..).is_some_and(|rest| rest.starts_with(name))).map(str::to_owned)
    };
    assert!(line(&none, "keys ").unwrap().contains("none is set"), "{none:?}");
    assert!(line(&none, "model ").unwrap().contains("ollama pull"), "{none:?}");
    assert!(none.out.ends_with("next: choose a model, as said above; `playhouse demo` shows it all without one\n"));
    let one = run_with(&desk, &[("GROQ_API_KEY", "gsk-canary-0123456789")], &["doctor"]);
    assert!(line(&one, "keys ").unwrap().contains("GROQ_API_KEY (groq)"), "{one:?}");
    let model = "groq/llama-3.3-70b-versatile (environment GROQ_API_KEY)";
    assert!(line(&one, "model ").unwrap().contains(model), "{one:?}");
    assert!(one.out.ends_with("next: playhouse run \"What is in this directory?\"\n"), "{one:?}");
    assert!(!one.out.contains("canary"));
}
