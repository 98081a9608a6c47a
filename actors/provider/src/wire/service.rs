//! A service behind HTTP: one protocol, one transport, one set of credentials.
//!
//! It makes one request per attempt and repeats none. Only the protocol's terminal event makes a response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use playhouse_protocol::catalogue::nearest;
use playhouse_protocol::{Content, Message, ModelConfig, ProviderError, StreamConfig};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::credentials::{Credentials, KeySource};
use super::decoder::{Decoder, Finish, Limits, Progress};
use super::http::{read_start, retry_after};
use super::transcripts::Transcripts;
use super::transport::{Body, HttpRequest, HttpResponse, Transport};
use crate::pictures;
use crate::provider::{StreamProvider, excerpt, unix_ms};
use crate::sink::StreamSink;
use crate::thinking;

/// How much of a failed response is read.
const ERROR_BODY: usize = 64 << 10;
/// How long a failed response may take to say what is wrong.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);
/// What is read, and how long is waited, for the body's end after the terminal event, so that the connection can be
/// used again.
const TAIL: usize = 64 << 10;
const TAIL_WAIT: Duration = Duration::from_secs(1);
/// How long a finished response waits for that itself: usually the end is there already.
const TAIL_GLANCE: Duration = Duration::from_millis(2);
/// How long the pieces of a burst may gather on their way to the agent: its next frame, for someone who reads along.
const GATHER: Duration = Duration::from_millis(5);
/// How much encoded history a service keeps.
const TRANSCRIPTS: usize = 64 << 20;
/// How long counting tokens may take.
const COUNT_WAIT: Duration = Duration::from_secs(30);

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// How long a connection may take to be there.
    pub connect: Duration,
    /// From the request to the first data event.
    pub first_event: Duration,
    /// From one data event to the next; keep-alives do not count.
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

/// What a service may be given beside its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceOptions {
    /// How long things may take.
    pub deadlines: Deadlines,
    /// How much a response may be.
    pub limits: Limits,
}

/// One wire protocol: how a turn is asked for, and how the answer is read. Pure.
pub(crate) trait Protocol: Send + Sync {
    /// The content type of an answer that streams.
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// The request of a turn, without credentials.
    fn request(&self, config: &StreamConfig, transcripts: &Transcripts) -> Result<HttpRequest, ProviderError>;

    /// What reads the answer to it.
    fn decoder(&self, config: &StreamConfig, limits: Limits) -> Box<dyn Decoder>;

    /// What an answer that failed means. `headers` are the service's.
    fn classify(&self, status: u16, _headers: &HeaderMap, body: &str, retry_after: Option<Duration>) -> ProviderError {
        ProviderError::classify(status, body, retry_after)
    }

    /// What an answer of status 200 and the wrong content type means, if it is an error in plain JSON.
    fn classify_plain(&self, body: &str) -> Option<ProviderError> {
        #[derive(serde::Deserialize)]
        struct Failure<'a> {
            #[serde(borrow)]
            error: &'a serde_json::value::RawValue,
        }
        let failure: Failure<'_> = serde_json::from_str(body).ok()?;
        Some(super::failure::classify_object(failure.error.get()))
    }

    /// The request that counts the tokens of a turn, where the protocol has one.
    fn count_request(
        &self,
        _config: &StreamConfig,
        _transcripts: &Transcripts,
    ) -> Option<Result<HttpRequest, ProviderError>> {
        None
    }

    /// The number in the answer to it.
    fn counted(&self, _body: &[u8]) -> Option<u64> {
        None
    }
}

/// A service behind HTTP.
pub struct Service {
    provider: Arc<str>,
    /// Where it is, for errors; without a query.
    place: String,
    protocol: Box<dyn Protocol>,
    transport: Arc<dyn Transport>,
    credentials: Arc<dyn Credentials>,
    key_source: KeySource,
    headers: HeaderMap,
    options: ServiceOptions,
    transcripts: Transcripts,
}

/// What a [`Service`] is made of.
pub(crate) struct Parts {
    pub(crate) provider: Arc<str>,
    pub(crate) place: String,
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) key_source: KeySource,
    /// Headers that the model's configuration adds.
    pub(crate) headers: HeaderMap,
    pub(crate) options: ServiceOptions,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("provider", &self.provider)
            .field("place", &self.place)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Service {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { provider, place, protocol, transport, credentials, key_source, headers, options } = parts;
        Self {
            provider,
            place,
            protocol,
            transport,
            credentials,
            key_source,
            headers,
            options,
            transcripts: Transcripts::new(TRANSCRIPTS),
        }
    }

    /// The request of a turn, without credentials.
    #[cfg(feature = "request-rules")]
    pub(crate) fn request_of(&self, config: &StreamConfig) -> Result<HttpRequest, ProviderError> {
        self.protocol.request(config, &self.transcripts)
    }

    fn redact(&self, text: String) -> String {
        self.credentials.redact(text)
    }

    /// Sends a request, and gives the answer if it is a success.
    async fn send(
        &self,
        mut request: HttpRequest,
        until: Instant,
        model: &ModelConfig,
    ) -> Result<HttpResponse, ProviderError> {
        let exchange = async {
            request.headers.extend(self.headers.clone());
            self.credentials.authorize(&mut request).await?;
            self.transport.send(request).await.map_err(|error| error.unanswered())
        };
        let mut response = match timeout_at(until, exchange).await {
            Err(_) => return Err(self.no_first_event()),
            Ok(answered) => answered?,
        };
        if !(200..300).contains(&response.status) {
            let wait = retry_after(&response.headers, Timestamp::now());
            let body = self.text_of(&mut response.body).await;
            let error = self.protocol.classify(response.status, &response.headers, &body, wait);
            return Err(self.explained(response.status, &response.headers, error, model));
        }
        Ok(response)
    }

    /// The error of an answer that failed, with what to do about it where more is known here than in its protocol.
    fn explained(&self, status: u16, headers: &HeaderMap, error: ProviderError, model: &ModelConfig) -> ProviderError {
        let place = &self.place;
        match (status, error) {
            (404, ProviderError::Api { message }) => {
                let near = nearest(&model.provider, &model.id);
                let near = near.map(|near| format!(": did you mean `{}/{near}`?", model.provider)).unwrap_or_default();
                ProviderError::Api {
                    message: format!("{message}; check the model's id and the base URL ({place}){near}"),
                }
            }
            (300..400, ProviderError::Api { .. }) => {
                let target = redirect_target(headers, place).unwrap_or_else(|| "an address it does not say".to_owned());
                ProviderError::Api {
                    message: format!(
                        "HTTP {status}: it redirects to {target}, which is not followed: set the base URL ({place}) to \
                         where the service is now"
                    ),
                }
            }
            (403, ProviderError::Auth { message }) => {
                ProviderError::Auth { message: format!("{message}{}", self.key_source.forbidden()) }
            }
            (_, ProviderError::Auth { message }) => {
                ProviderError::Auth { message: format!("{message}{}", self.key_source.refused()) }
            }
            (_, error) => error,
        }
    }

    async fn text_of(&self, body: &mut Body) -> String {
        let start = read_start(body, ERROR_BODY, ERROR_BODY_WAIT).await;
        self.redact(String::from_utf8_lossy(&start).into_owned())
    }

    /// Asks for a turn, and gives the body that streams the answer.
    async fn request(
        &self,
        mut request: HttpRequest,
        until: Instant,
        model: &ModelConfig,
    ) -> Result<Body, ProviderError> {
        let expected = self.protocol.content_type();
        request.headers.insert(ACCEPT, HeaderValue::from_static(expected));
        let mut response = self.send(request, until, model).await?;
        match content_type(&response.headers) {
            // A service that does not say what it sends is judged by what it sends.
            None => Ok(response.body),
            Some(kind) if kind.eq_ignore_ascii_case(expected) => Ok(response.body),
            Some(kind) => {
                let body = self.text_of(&mut response.body).await;
                Err(self.protocol.classify_plain(&body).unwrap_or_else(|| self.wrong_content(&kind, &body)))
            }
        }
    }

    fn wrong_content(&self, kind: &str, body: &str) -> ProviderError {
        let expected = self.protocol.content_type();
        ProviderError::Api {
            message: format!(
                "the service answered with `{kind}` instead of `{expected}`; check the base URL ({}). It sent: {}",
                self.place,
                excerpt(body, 200)
            ),
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
        body: &mut Body,
        decoder: &mut dyn Decoder,
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
                chunk = body.next() => chunk,
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
                Some(Err(error)) => return Err(error.broken_off()),
                None => return Ok(()),
                Some(Ok(chunk)) => chunk,
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

    fn silent(&self, decoder: &dyn Decoder) -> ProviderError {
        if decoder.data_events() == 0 {
            return self.no_first_event();
        }
        let seconds = self.options.deadlines.idle.as_secs_f64();
        ProviderError::Incomplete { message: format!("no data came for {seconds} s") }
    }

    /// Reads what is left of a finished response, behind the call if it takes time: a body's end can come late.
    async fn drain(&self, mut body: Body, tx: &StreamSink) {
        if timeout(TAIL_GLANCE, drain(&mut body)).await.is_err() {
            tx.leave(async move {
                let _ = timeout(TAIL_WAIT, drain(&mut body)).await;
            });
        }
    }

    /// The request, unless it is known that the service would not take it.
    fn checked(&self, config: &StreamConfig) -> Result<HttpRequest, ProviderError> {
        thinking::check(config)?;
        pictures::check(config)?;
        self.protocol.request(config, &self.transcripts)
    }

    async fn attempt(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        let request = self.checked(config)?;
        let first_until = Instant::now() + self.options.deadlines.first_event;
        let mut body = self.request(request, first_until, &config.model_config).await?;
        let mut decoder = self.protocol.decoder(config, self.options.limits);
        self.read(&mut body, decoder.as_mut(), first_until, tx).await?;
        let unknown = decoder.unknown_events();
        if unknown > 0 {
            tracing::debug!(provider = &*self.provider, unknown, "events of unknown kinds were passed over");
        }
        let whole = decoder.finish(&Finish { response: config.response, taken: &|id| is_taken(config, id) })?;
        self.drain(body, tx).await;
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

    async fn count(&self, request: HttpRequest, model: &ModelConfig) -> Result<u64, ProviderError> {
        let mut response = self.send(request, Instant::now() + COUNT_WAIT, model).await?;
        let body = read_start(&mut response.body, ERROR_BODY, ERROR_BODY_WAIT).await;
        self.protocol.counted(&body).ok_or_else(|| {
            let text = self.redact(String::from_utf8_lossy(&body).into_owned());
            ProviderError::Api { message: format!("the service gave no number of tokens: {}", excerpt(&text, 200)) }
        })
    }
}

#[async_trait]
impl StreamProvider for Service {
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

    fn check(&self, config: &StreamConfig) -> Result<(), ProviderError> {
        self.checked(config).map(drop)
    }

    async fn count_tokens(&self, config: &StreamConfig) -> Result<Option<u64>, ProviderError> {
        let Some(request) = self.protocol.count_request(config, &self.transcripts) else { return Ok(None) };
        let counted = self.count(request?, &config.model_config).await;
        counted.map(Some).map_err(|error| redact_error(error, |text| self.redact(text)))
    }

    async fn refresh(&self) -> Result<bool, ProviderError> {
        let refreshed = self.credentials.refresh().await;
        refreshed.map_err(|error| redact_error(error, |text| self.redact(text)))
    }
}

/// Takes the key out of whatever text an error holds: an error inside the stream is the service's text too.
fn redact_error(error: ProviderError, redact: impl Fn(String) -> String) -> ProviderError {
    use ProviderError as E;
    match error {
        E::RateLimited { message, retry_after_ms } => E::RateLimited { message: redact(message), retry_after_ms },
        E::Network { message } => E::Network { message: redact(message) },
        E::Auth { message } => E::Auth { message: redact(message) },
        E::Api { message } => E::Api { message: redact(message) },
        E::Picture { message } => E::Picture { message: redact(message) },
        E::ContextOverflow { message } => E::ContextOverflow { message: redact(message) },
        E::Other { message } => E::Other { message: redact(message) },
        E::Incomplete { message } => E::Incomplete { message: redact(message) },
        E::Lost { message } => E::Lost { message: redact(message) },
        E::Unavailable { message, retry_after_ms } => E::Unavailable { message: redact(message), retry_after_ms },
        unchanged @ (E::Empty { .. } | E::Cancelled) => unchanged,
    }
}

/// Where a redirect leads, without its query, which may hold a secret.
fn redirect_target(headers: &HeaderMap, place: &str) -> Option<String> {
    let mut target = Url::parse(place).ok()?.join(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    target.set_query(None);
    target.set_fragment(None);
    // A target that takes no user name has none to take out.
    let _ = target.set_username("").and_then(|()| target.set_password(None));
    Some(excerpt(target.as_str(), 200))
}

async fn drain(body: &mut Body) {
    let mut read = 0;
    while let Some(Ok(chunk)) = body.next().await {
        read += chunk.len();
        if read > TAIL {
            return;
        }
    }
}

/// Whether the conversation already has a call of this id.
fn is_taken(config: &StreamConfig, id: &str) -> bool {
    config.sendable().flat_map(Message::content).any(|block| match block {
        Content::ToolCall { id: used, .. } => used.as_str() == id,
        Content::Text { .. } | Content::Image { .. } | Content::Thinking { .. } => false,
    })
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_owned())
}
