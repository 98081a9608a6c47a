//! Services in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use playhouse::prelude::*;
use playhouse::provider::{HttpRequest, HttpResponse, Transport, TransportError};
use tokio::time::Instant;

/// A request as it came, and when.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub host: String,
    pub body: Value,
}

/// What a service does with a request.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Before the head comes.
    pub wait: Duration,
    /// Between the head and the body's end, after its first half.
    pub stream: Duration,
}

impl Answer {
    pub fn ok(body: impl Into<String>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, body: body.into(), wait: Duration::from_millis(100), stream: Duration::ZERO }
    }

    pub fn failed(status: u16, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.into(), wait: Duration::from_millis(100), stream: Duration::ZERO }
    }

    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub fn streaming(mut self, time: Duration) -> Self {
        self.stream = time;
        self
    }
}

type Answers = dyn Fn(usize, &HttpRequest) -> Answer + Send + Sync;

/// A service whose answers a closure makes, by the number of the request. Clones are the same service.
#[derive(Clone)]
pub struct Service {
    answers: Arc<Answers>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    pub fn new(answers: impl Fn(usize, &HttpRequest) -> Answer + Send + Sync + 'static) -> Self {
        Self { answers: Arc::new(answers), seen: Arc::default() }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// A house whose services are all this one.
    pub fn house(&self) -> playhouse::HouseBuilder {
        let service = self.clone();
        House::builder().transport(move |_| Arc::new(service.clone()) as Arc<dyn Transport>)
    }
}

#[async_trait]
impl Transport for Service {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let number = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Seen {
                at: Instant::now(),
                host: request.url.host_str().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&request.body).unwrap_or_default(),
            });
            seen.len() - 1
        };
        let answer = (self.answers)(number, &request);
        tokio::time::sleep(answer.wait).await;
        if answer.status == 0 {
            return Err(TransportError::broken(answer.body));
        }
        let mut headers = http_headers();
        for (name, value) in answer.headers {
            headers.insert(name, value.parse().unwrap());
        }
        let half = answer.body.len() / 2;
        let half = (half..).find(|at| answer.body.is_char_boundary(*at)).unwrap();
        let (first, last) = answer.body.split_at(half);
        let (first, last, pause) = (first.to_owned(), last.to_owned(), answer.stream);
        let body = stream::iter([(first, Duration::ZERO), (last, pause)]).then(|(piece, pause)| async move {
            tokio::time::sleep(pause).await;
            Ok(piece.into_bytes().into())
        });
        Ok(HttpResponse { status: answer.status, headers, body: Box::pin(body) })
    }
}

fn http_headers() -> playhouse::provider::HeaderMap {
    playhouse::provider::HeaderMap::new()
}

/// A chat-completions response that says `text`.
pub fn says(text: &str) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "x", "model": "m", "choices": [choice]}))
    };
    let usage = json!({"id": "x", "model": "m", "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4}});
    let text = chunk(json!({"content": text}), Value::Null);
    format!("{text}{}data: {usage}\n\ndata: [DONE]\n\n", chunk(json!({}), json!("stop")))
}

/// A model of a service that speaks chat completions.
pub fn model(id: &str) -> ModelConfig {
    let mut model = ModelConfig::openai(id, Secret::new("sk-canary-0123456789"));
    model.base_url = Some("https://service.example/v1".to_owned());
    model
}
