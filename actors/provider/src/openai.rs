//! OpenAI chat completions over streaming HTTP, and every service that speaks it.
//!
//! One instance is one client with its own pool, for one base URL and one key. It follows no redirect, keeps no
//! cookie and repeats no request: the client library's own retries are off, and a request that it sent once is
//! reported, never sent again. A loopback address is reached directly; others through the proxy that the standard
//! environment variables name, if they do.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use playhouse_protocol::{Content, Message, ModelConfig, ProviderError, Secret, StreamConfig};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::chat::{ChatDecoder, Limits, Progress};
use crate::encode::encode_request;
use crate::http::{describe, read_start, retry_after};
use crate::provider::{StreamProvider, excerpt, unix_ms};
use crate::registry::SetupError;
use crate::sink::StreamSink;
use crate::transcripts::Transcripts;
use crate::wire::ErrorReport;

/// Where OpenAI itself is.
const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
/// How much of a failed response is read.
const ERROR_BODY: usize = 64 << 10;
/// How long a failed response may take to say what is wrong.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);
/// What is read, and how long is waited, for the body's end after `[DONE]`, so that the connection can be used again.
const TAIL: usize = 64 << 10;
const TAIL_WAIT: Duration = Duration::from_secs(1);
/// How long a finished response waits for that itself: usually the end is there already.
const TAIL_GLANCE: Duration = Duration::from_millis(2);
/// How long the pieces of a burst may gather on their way to the agent: its next frame, for someone who reads along.
const GATHER: Duration = Duration::from_millis(5);
/// How much encoded history a connection keeps.
const TRANSCRIPTS: usize = 64 << 20;

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// To connect.
    pub connect: Duration,
    /// From the request to the first data event.
    pub first_event: Duration,
    /// From one data event to the next; keep-alive comments do not count.
    pub idle: Duration,
    /// For the whole attempt; `None` is off.
    pub total: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_event: Duration::from_secs(120),
            idle: Duration::from_secs(120),
            total: None,
        }
    }
}

/// What an [`OpenAi`] may be given beside its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAiOptions {
    /// How long things may take.
    pub deadlines: Deadlines,
    /// How much a response may be.
    pub limits: Limits,
}

/// A service that speaks OpenAI chat completions.
pub struct OpenAi {
    provider: Arc<str>,
    url: Url,
    client: Client,
    key: Option<Secret>,
    options: OpenAiOptions,
    transcripts: Transcripts,
    /// Bodies that are read to their end behind their response; each ends within [`TAIL_WAIT`], all with the client.
    tails: Mutex<JoinSet<()>>,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("provider", &self.provider)
            .field("url", &self.url.as_str())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl OpenAi {
    /// A client for the model's service. Reads the system's certificates when the address is `https`.
    pub fn new(model: &ModelConfig, options: OpenAiOptions) -> Result<Self, SetupError> {
        let base = model.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
        let url = endpoint(base)?;
        let key = model.api_key.as_ref().map(|key| Secret::new(key.expose().trim()));
        let key = key.filter(|key| !key.expose().is_empty());
        if let (None, Some(variable)) = (&key, needed_key(model, &url)) {
            return Err(SetupError::MissingKey { provider: model.provider.to_string(), variable });
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &key {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| SetupError::BadKey { provider: model.provider.to_string() })?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let mut client = crate::http::client()
            .default_headers(headers)
            .user_agent(concat!("playhouse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.deadlines.connect)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .tcp_nodelay(true);
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        if url.scheme() == "http" {
            // Plain HTTP needs no certificates, and a machine without any can still talk to a local service.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| SetupError::Client { message: describe(error) })?;
        Ok(Self {
            provider: model.provider.clone(),
            url,
            client,
            key,
            options,
            transcripts: Transcripts::new(TRANSCRIPTS),
            tails: Mutex::default(),
        })
    }

    /// Takes the key out of a text that a service sent.
    fn redact(&self, text: String) -> String {
        match &self.key {
            Some(key) if text.contains(key.expose()) => text.replace(key.expose(), "****"),
            Some(_) | None => text,
        }
    }

    async fn request(&self, body: Vec<u8>, until: Instant) -> Result<Response, ProviderError> {
        let sent = timeout_at(until, self.client.post(self.url.clone()).body(body).send()).await;
        let mut response = match sent {
            Err(_) => return Err(self.no_first_event()),
            Ok(Err(error)) => return Err(ProviderError::Network { message: self.redact(describe(error)) }),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after(response.headers(), Timestamp::now());
            let body = self.redact(read_start(&mut response, ERROR_BODY, ERROR_BODY_WAIT).await);
            return Err(ProviderError::classify(status.as_u16(), &body, wait));
        }
        match content_type(&response) {
            // A service that does not say what it sends is judged by what it sends.
            None => Ok(response),
            Some(kind) if kind.eq_ignore_ascii_case("text/event-stream") => Ok(response),
            Some(kind) => {
                let body = self.redact(read_start(&mut response, ERROR_BODY, ERROR_BODY_WAIT).await);
                Err(self.wrong_content(&kind, &body))
            }
        }
    }

    fn wrong_content(&self, kind: &str, body: &str) -> ProviderError {
        #[derive(serde::Deserialize)]
        struct Failure<'a> {
            #[serde(borrow)]
            error: &'a serde_json::value::RawValue,
        }
        match serde_json::from_str::<Failure<'_>>(body) {
            Ok(failure) => ErrorReport::classify(failure.error.get()),
            Err(_) => ProviderError::Api {
                message: format!(
                    "the service answered with `{kind}` instead of an event stream; check the base URL ({}). It sent: {}",
                    self.url,
                    excerpt(body, 200)
                ),
            },
        }
    }

    fn no_first_event(&self) -> ProviderError {
        let seconds = self.options.deadlines.first_event.as_secs_f64();
        ProviderError::Network { message: format!("the service sent nothing for {seconds} s") }
    }

    /// Reads events until the terminal one.
    ///
    /// The first piece after a pause goes to the agent at once; those that follow it within [`GATHER`] go together. A
    /// response that comes in a burst costs the agent two messages, not one per token.
    async fn read(
        &self,
        response: &mut Response,
        decoder: &mut ChatDecoder,
        first_until: Instant,
        tx: &StreamSink,
    ) -> Result<(), ProviderError> {
        let mut until = first_until;
        let (mut due, mut held) = (Instant::now(), false);
        // Set anew only when it is over: resetting a timer for every piece costs more than reading it.
        let timer = sleep_until(until);
        tokio::pin!(timer);
        loop {
            let next = if held { due.min(until) } else { until };
            if next < timer.deadline() {
                timer.as_mut().reset(next);
            }
            let chunk = tokio::select! {
                biased;
                chunk = response.chunk() => chunk,
                () = &mut timer => {
                    let now = Instant::now();
                    if std::mem::take(&mut held) {
                        tx.flush();
                        due = now + GATHER;
                    }
                    if now >= until {
                        return Err(self.silent(decoder));
                    }
                    timer.as_mut().reset(until);
                    continue;
                }
            };
            let chunk = match chunk {
                Err(error) => return Err(ProviderError::Incomplete { message: self.redact(describe(error)) }),
                Ok(None) => return Ok(()),
                Ok(Some(chunk)) => chunk,
            };
            let before = decoder.data_events();
            if decoder.feed(&chunk, &mut |event| tx.hold(event))? == Progress::Done {
                return Ok(());
            }
            if decoder.data_events() > before {
                let now = Instant::now();
                until = now + self.options.deadlines.idle;
                held = now < due;
                if !held {
                    tx.flush();
                    due = now + GATHER;
                }
            }
        }
    }

    fn silent(&self, decoder: &ChatDecoder) -> ProviderError {
        if decoder.data_events() == 0 {
            return self.no_first_event();
        }
        let seconds = self.options.deadlines.idle.as_secs_f64();
        ProviderError::Incomplete { message: format!("no data came for {seconds} s") }
    }

    /// Reads what is left of a finished response, in the background if it takes time: a body's end can come late.
    async fn drain(&self, mut response: Response) {
        if timeout(TAIL_GLANCE, drain(&mut response)).await.is_ok() {
            return;
        }
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        while tails.try_join_next().is_some() {}
        tails.spawn(async move {
            let _ = timeout(TAIL_WAIT, drain(&mut response)).await;
        });
    }

    async fn attempt(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let body = encode_request(config, &self.transcripts)?;
        let first_until = Instant::now() + self.options.deadlines.first_event;
        let mut response = self.request(body, first_until).await?;
        // They lie in the connection's read buffer, and would keep all of it for as long as the response streams.
        drop(std::mem::take(response.headers_mut()));
        let mut decoder = ChatDecoder::new(self.options.limits);
        self.read(&mut response, &mut decoder, first_until, tx).await?;
        let whole = decoder.finish(config.response, |id| is_taken(config, id))?;
        self.drain(response).await;
        Ok(Message::Assistant {
            content: whole.content,
            stop_reason: whole.stop_reason,
            model: match whole.model {
                Some(model) if *model != *config.model_config.id => model.into(),
                Some(_) | None => config.model_config.id.clone(),
            },
            provider: self.provider.clone(),
            usage: whole.usage,
            timestamp: unix_ms(),
            error_message: None,
        })
    }
}

#[async_trait]
impl StreamProvider for OpenAi {
    fn provider_id(&self) -> &str {
        &self.provider
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let result = match self.options.deadlines.total {
            None => self.attempt(config, tx).await,
            Some(total) => timeout(total, self.attempt(config, tx)).await.unwrap_or_else(|_| {
                let seconds = total.as_secs_f64();
                Err(ProviderError::Incomplete { message: format!("the response took longer than {seconds} s") })
            }),
        };
        result.map_err(|error| redact_error(error, |text| self.redact(text)))
    }
}

/// Takes the key out of whatever text an error holds: an error inside the stream is the service's text too.
fn redact_error(error: ProviderError, redact: impl Fn(String) -> String) -> ProviderError {
    use ProviderError as E;
    match error {
        E::Network { message } => E::Network { message: redact(message) },
        E::Auth { message } => E::Auth { message: redact(message) },
        E::Api { message } => E::Api { message: redact(message) },
        E::ContextOverflow { message } => E::ContextOverflow { message: redact(message) },
        E::Other { message } => E::Other { message: redact(message) },
        E::Incomplete { message } => E::Incomplete { message: redact(message) },
        E::Lost { message } => E::Lost { message: redact(message) },
        unchanged @ (E::RateLimited { .. } | E::Cancelled) => unchanged,
    }
}

async fn drain(response: &mut Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > TAIL {
            return;
        }
    }
}

/// Whether the conversation already has a call of this id.
fn is_taken(config: &StreamConfig, id: &str) -> bool {
    config.messages.sendable().flat_map(Message::content).any(|block| match block {
        Content::ToolCall { id: used, .. } => used.as_str() == id,
        Content::Text { .. } | Content::Image { .. } | Content::Thinking { .. } => false,
    })
}

fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_owned())
}

/// `{base}/chat/completions`, from a base that can be one.
fn endpoint(base: &str) -> Result<Url, SetupError> {
    let bad = |reason: &str| SetupError::BadBaseUrl { reason: reason.to_owned() };
    let url = Url::parse(base.trim()).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it must start with http:// or https:// and name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("a user name or password in it would be written to the journal; give the key by its variable"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it must not have a `?` or `#` part"));
    }
    let joined = format!("{}/chat/completions", url.as_str().trim_end_matches('/'));
    Url::parse(&joined).map_err(|error| bad(&error.to_string()))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The variable that should have held the key, where one is needed: always for OpenAI itself, for another service when
/// the model says where its key is. A service on this machine can do without.
fn needed_key(model: &ModelConfig, url: &Url) -> Option<String> {
    let variable = model.key_variable.clone();
    match &model.base_url {
        None => Some(variable.unwrap_or_else(|| "OPENAI_API_KEY".to_owned())),
        Some(_) if is_loopback(url) => None,
        Some(_) => variable,
    }
}
