//! What a service is asked for: reasoning and its summary, pictures. Through the program, at services on loopback.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::support::{Desk, Done, finish};
use super::wires::{Answer, WIRES, Wire};

/// A service that says `hi` to everything and keeps the bodies of requests.
struct Kept {
    wire: &'static Wire,
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Kept {
    fn of(provider: &str) -> Self {
        let wire = WIRES.iter().find(|wire| wire.provider == provider).unwrap();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = bodies.clone();
        let url = wire.serve(move |_, request| {
            let body = request.find('{').and_then(|start| serde_json::from_str(&request[start..]).ok());
            kept.lock().unwrap().push(body.unwrap_or_default());
            Answer::Says("hi")
        });
        Self { wire, url, bodies }
    }

    fn run(&self, desk: &Desk, config: &str, args: &[&str]) -> Done {
        let file = desk.write("config.toml", config);
        let mut command = desk.command(args);
        command.env("PLAYHOUSE_CONFIG", file).env(self.wire.address.0, &self.url);
        command
            .env("XAI_API_KEY", "k")
            .envs(self.wire.variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    /// The last body.
    fn last(&self) -> Value {
        self.bodies.lock().unwrap().last().unwrap().clone()
    }
}

const NOTE: &str = "note: thinking off: openai/gpt-5 still reasons: it cannot be turned off\n";

#[test]
fn thinking_off_where_it_cannot_be_is_said_and_the_run_goes_on() {
    let (desk, service) = (Desk::new(), Kept::of("openai"));
    let run = |config: &str, args: &[&str]| service.run(&desk, config, &[&["run", "go"], args].concat());
    let asked = run("", &["--model", "openai/gpt-5", "--thinking", "off"]);
    asked.said("hi\n");
    assert!(asked.err.contains(NOTE), "{asked:?}");
    let asked = run("model = 'openai/gpt-5'\nthinking = 'off'", &[]);
    asked.said("hi\n");
    assert!(asked.err.contains(NOTE), "{asked:?}");
    let chain = run("", &["--model", "openai/gpt-5.1,openai/gpt-5", "--thinking", "off"]);
    assert_eq!(chain.err.matches("thinking off: ").count(), 1, "{chain:?}");
    let stored = run("", &["--continue", "--model", "openai/gpt-5", "--thinking", "off"]);
    stored.said("hi\n");
    assert!(stored.err.contains(NOTE), "{stored:?}");
    for args in [
        &["--model", "openai/gpt-5"][..],
        &["--model", "openai/gpt-5.1", "--thinking", "off"],
        &["--model", "openai/gpt-5", "--thinking", "low"],
        &["--model", "openai/gpt-5", "--thinking", "off", "--quiet"],
    ] {
        let done = run("", args);
        done.said("hi\n");
        assert!(!done.err.contains("thinking off"), "{args:?}: {done:?}");
    }
}

#[test]
fn the_summary_of_reasoning_is_chosen_in_the_file() {
    let (desk, service) = (Desk::new(), Kept::of("openai-responses"));
    for (line, sent) in [
        ("", json!({"effort": "low", "summary": "auto"})),
        ("reasoning_summary = 'auto'", json!({"effort": "low", "summary": "auto"})),
        ("reasoning_summary = 'concise'", json!({"effort": "low", "summary": "concise"})),
        ("reasoning_summary = 'detailed'", json!({"effort": "low", "summary": "detailed"})),
        ("reasoning_summary = 'none'", json!({"effort": "low"})),
    ] {
        let config = format!("model = 'openai-responses/gpt-5'\n[models.'openai-responses/gpt-5']\n{line}");
        service.run(&desk, &config, &["run", "go", "--thinking", "low"]).said("hi\n");
        assert_eq!(service.last()["reasoning"], sent, "{line}");
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0crc!\0\0\0\0IENDcrc!";
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\0\0;";

#[test]
fn which_pictures_a_model_takes_is_said_in_the_file() {
    let (desk, service) = (Desk::new(), Kept::of("openai"));
    for (name, bytes) in [("a.png", PNG), ("a.gif", GIF)] {
        std::fs::write(desk.work().join(name), bytes).unwrap();
    }
    let run = |model: &str, line: &str, picture: &str| {
        let config = format!("[models.'{model}']\n{line}");
        let place = ["--base-url", &service.url];
        service.run(&desk, &config, &[&["run", "look", "--model", model, "--image", picture], &place[..]].concat())
    };
    let pictures = || service.last().to_string().matches(";base64,").count();
    run("openai/mine", "", "a.png").said("hi\n");
    assert_eq!(pictures(), 1);
    run("openai/mine", "images = 'none'", "a.png").refused(&["openai/mine takes no images"]);
    run("openai/mine", "images = ['image/png']", "a.png").said("hi\n");
    assert_eq!(pictures(), 1);
    let done = run("openai/mine", "images = ['image/png']", "a.gif");
    done.refused(&["a picture is image/gif, and image/png are taken"]);
    // What is known of a model is overruled: this one is known to take none.
    run("xai/grok-3", "", "a.png").refused(&["xai/grok-3 takes no images"]);
    run("xai/grok-3", "images = 'any'", "a.gif").said("hi\n");
    assert_eq!(pictures(), 1, "nor are the formats of its service looked at");
}
