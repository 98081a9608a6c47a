//! Keys are in no log, event, journal, error or debug output.

use std::path::Path;
use std::time::Duration;

use playhouse::prelude::*;
use playhouse::provider::PRESETS;

use crate::kit::soon;
use crate::service::{Answer, Service};

/// Everything in a folder, as one text.
fn everything(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        all.push_str(&path.display().to_string());
        match path.is_dir() {
            true => all.push_str(&everything(&path)),
            false => all.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default())),
        }
    }
    all
}

#[tokio::test]
async fn f52_a_key_is_in_no_sink_whatever_the_service_sends_back() {
    let logs = crate::canary::log::capture();
    for preset in PRESETS {
        let canary = format!("sk-canary-{}-9f8e7d6c5b4a", preset.name);
        // A service that shows whoever asks what it was sent.
        let echo = canary.clone();
        let service = Service::new(move |number, request| {
            let shown: Vec<&str> = request.headers.values().filter_map(|value| value.to_str().ok()).collect();
            let shown = shown.join(" ");
            let text = format!("{echo} {shown}");
            let mut answer = match number {
                0 => Answer::failed(400, json!({"error": {"message": text, "type": "bad"}}).to_string()),
                1 => Answer::failed(401, text),
                2 => Answer::ok(format!("data: {}\n\n", json!({"error": {"message": text}}))),
                3 => Answer::ok(text).header("content-type", "text/html"),
                _ => Answer { status: 0, ..Answer::failed(0, "refused") },
            };
            answer.wait = Duration::ZERO;
            answer
        });
        let folder = tempfile::tempdir().unwrap();
        let house = service.house().data_dir(folder.path()).open().await.unwrap();
        let mut model = preset.model("m", |_| None);
        model.api_key = Some(Secret::new(canary.as_str()));
        model.base_url.get_or_insert_with(|| "https://service.example/openai/v1".to_owned());
        (model.region, model.project) = (Some("us-east-1".to_owned()), Some("p".to_owned()));
        let mut said = format!("{model:?} {model:#?} {}", serde_json::to_string(&model).unwrap());
        let retry = RetryConfig { max_retries: 1, initial_delay_ms: 1, max_delay_ms: 1, ..RetryConfig::default() };
        let agent = house.agent().model(model).retry(retry).spawn().await.unwrap();
        let mut events = agent.subscribe();
        for _ in 0..5 {
            let report = soon("an answer", agent.prompt_report("hi")).await.unwrap();
            assert!(matches!(report.outcome, Outcome::Error { .. }), "{}: {report:?}", preset.name);
            said.push_str(&format!("{report:?}"));
        }
        assert!(service.seen().len() >= 5, "{}", preset.name);
        said.push_str(&format!("{:?} {:?} {agent:?} {house:?}", agent.state().await.unwrap(), house.tree()));
        said.push_str(&serde_json::to_string(&house.tree()).unwrap());
        house.shutdown(Duration::ZERO).await;
        while let Some(event) = events.next().await {
            said.push_str(&format!("{event:?}{}", serde_json::to_string(&*event).unwrap()));
        }
        said.push_str(&everything(folder.path()));
        assert!(said.contains("refused") && said.contains("****"), "{}: the sinks were looked into", preset.name);
        assert!(!said.contains(&canary), "{}: {}", preset.name, around(&said, &canary));
        assert!(!said.contains("9f8e7d6c5b4a"), "{}", preset.name);
    }
    let logged = logs.lock().unwrap().clone();
    assert!(!logged.is_empty(), "something was logged");
    assert!(!logged.contains("sk-canary"), "{}", around(&logged, "sk-canary"));
}

fn around(text: &str, what: &str) -> String {
    let at = text.find(what).unwrap_or_default();
    text.chars().skip(at.saturating_sub(200)).take(400).collect()
}

mod log {
    use std::fmt::Write;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    struct Log(Arc<Mutex<String>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            let _ = write!(self.0, " {field}={value:?}");
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            attributes.record(&mut Fields(&mut self.0.lock().unwrap()));
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, values: &Record<'_>) {
            values.record(&mut Fields(&mut self.0.lock().unwrap()));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut Fields(&mut self.0.lock().unwrap()));
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Everything that the process logs from here on, at every level.
    pub fn capture() -> Arc<Mutex<String>> {
        let log: Arc<Mutex<String>> = Arc::default();
        tracing::subscriber::set_global_default(Log(log.clone())).unwrap();
        log
    }
}
