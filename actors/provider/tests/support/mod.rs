//! What the tests share: requests, an agent to report to, and an HTTP server with every byte in the test's hands.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use playhouse_protocol::{
    AgentMessage, CacheConfig, CallReport, Content, Message, ModelConfig, ProviderError, Purpose, RetryConfig, Secret,
    StopReason, StreamConfig, StreamDelta, ThinkingLevel, Usage,
};
use playhouse_provider::{
    Connection, ConnectionArgs, ConnectionMsg, ConnectionRules, ConnectionStatus, Patience, StreamProvider,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Nothing here takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it did not happen in time")
}

/// Waits until `check` holds, looking again whenever the runtime has nothing better to do.
pub async fn until(mut check: impl FnMut() -> bool) {
    soon(async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

pub fn model(base_url: &str, key: Option<&str>) -> ModelConfig {
    ModelConfig {
        api_key: key.map(Secret::new),
        base_url: Some(base_url.to_owned()),
        ..ModelConfig::openai("gpt-test", Secret::new(""))
    }
}

pub fn config(model: ModelConfig) -> StreamConfig {
    StreamConfig {
        model_config: Arc::new(model),
        system_prompt: "be brief".into(),
        conversation: "conversation".into(),
        tail: Vec::new(),
        messages: [AgentMessage::user("hi", 0)].into_iter().collect(),
        tools: Arc::new([]),
        thinking_level: ThinkingLevel::Off,
        max_tokens: None,
        temperature: None,
        cache_config: CacheConfig::default(),
        purpose: Purpose::Turn,
        response: 0,
        attempt: 0,
        first_prompt: "hi".into(),
        response_format: None,
    }
}

pub fn assistant(text: &str) -> Message {
    Message::Assistant {
        content: vec![Content::text(text)],
        stop_reason: StopReason::Stop,
        model: "m".into(),
        provider: "fake".into(),
        usage: Usage::default(),
        timestamp: 0,
        error_message: None,
    }
}

/// Retries without waiting long.
pub fn quick() -> RetryConfig {
    RetryConfig { initial_delay_ms: 1, max_delay_ms: 5, ..RetryConfig::default() }
}

/// An agent that hands every report to the test.
pub struct Agent;

impl Actor for Agent {
    type Msg = CallReport;
    type State = mpsc::Sender<CallReport>;
    type Arguments = mpsc::Sender<CallReport>;

    async fn pre_start(
        &self,
        _: ActorRef<CallReport>,
        out: mpsc::Sender<CallReport>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(out)
    }

    async fn handle(
        &self,
        _: ActorRef<CallReport>,
        report: CallReport,
        out: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let _ = out.try_send(report);
        Ok(())
    }
}

/// A connection, an agent, and what the agent was told.
pub struct Bench {
    pub connection: ActorRef<ConnectionMsg>,
    pub agent: ActorRef<CallReport>,
    pub reports: mpsc::Receiver<CallReport>,
    pub load: Arc<AtomicUsize>,
}

impl Bench {
    pub async fn new(provider: impl StreamProvider + 'static) -> Self {
        Self::of(Arc::new(provider)).await
    }

    pub async fn of(provider: Arc<dyn StreamProvider>) -> Self {
        let load = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(ConnectionStatus::default());
        let rules = ConnectionRules::default();
        let args = ConnectionArgs { provider, load: load.clone(), rules, status };
        let (connection, _) = Actor::spawn(None, Connection, args).await.unwrap();
        let (agent, reports) = agent().await;
        Self { connection, agent, reports, load }
    }

    pub fn start(&self, call: &str, config: StreamConfig, retry: RetryConfig) {
        self.start_for(&self.agent, call, config, retry);
    }

    pub fn start_for(&self, agent: &ActorRef<CallReport>, call: &str, config: StreamConfig, retry: RetryConfig) {
        let (cell, reply) = (agent.get_cell(), agent.get_derived());
        self.connection
            .send_message(ConnectionMsg::Start {
                call: call.into(),
                config,
                retry,
                patience: Patience::Waits,
                agent: cell,
                reply,
            })
            .unwrap();
    }

    pub fn cancel(&self, call: &str) {
        self.connection.send_message(ConnectionMsg::Cancel { call: call.into() }).unwrap();
    }

    /// The next report; an attempt that failed is journaled at once.
    pub async fn report(&mut self) -> CallReport {
        let report = self.unjournaled().await;
        if let CallReport::Retrying { call, attempt, .. } = &report {
            self.go_on(call.as_str(), attempt + 1);
        }
        report
    }

    /// The next report; nothing is said to it.
    pub async fn unjournaled(&mut self) -> CallReport {
        soon(self.reports.recv()).await.unwrap()
    }

    pub fn go_on(&self, call: &str, attempt: u32) {
        self.connection.send_message(ConnectionMsg::GoOn { call: call.into(), attempt }).unwrap();
    }

    /// The next report that is no delta.
    pub async fn outcome(&mut self) -> CallReport {
        loop {
            match self.report().await {
                CallReport::Delta { .. } => {}
                report => return report,
            }
        }
    }

    pub fn load(&self) -> usize {
        self.load.load(Ordering::SeqCst)
    }

    /// Waits until the connection has nothing to do, then checks that the agent was told nothing more.
    pub async fn silence(&mut self) {
        let load = self.load.clone();
        until(|| load.load(Ordering::SeqCst) == 0).await;
        assert!(self.reports.try_recv().is_err(), "the agent was told more");
    }
}

pub async fn agent() -> (ActorRef<CallReport>, mpsc::Receiver<CallReport>) {
    let (out, reports) = mpsc::channel(10_000);
    let (agent, _) = Actor::spawn(None, Agent, out).await.unwrap();
    (agent, reports)
}

pub fn text_of(deltas: &[StreamDelta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| match delta {
            StreamDelta::Text { delta } => Some(delta.as_str()),
            StreamDelta::Thinking { .. } | StreamDelta::ToolCallDelta { .. } => None,
        })
        .collect()
}

/// One request at the server, with the socket to answer it on.
pub struct Post {
    /// Counted from 0 over all connections.
    pub number: usize,
    /// Counted from 0 on its connection.
    pub on_connection: usize,
    pub head: String,
    pub body: serde_json::Value,
    pub socket: TcpStream,
}

pub const EVENT_STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

impl Post {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that has gone away is for the test to notice.
        let _ = self.socket.write_all(bytes.as_ref()).await;
    }

    /// Sends one HTTP chunk.
    pub async fn chunk(&mut self, bytes: &[u8]) {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(chunk).await;
    }

    /// Sends a whole event stream and keeps the connection open.
    pub async fn stream(mut self, bytes: &[u8]) -> Option<TcpStream> {
        self.send(EVENT_STREAM).await;
        self.chunk(bytes).await;
        self.send("0\r\n\r\n").await;
        Some(self.socket)
    }

    /// Sends a plain response and keeps the connection open.
    pub async fn plain(mut self, status: &str, headers: &str, body: &str) -> Option<TcpStream> {
        let length = body.len();
        self.send(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")).await;
        Some(self.socket)
    }

    /// Waits until the client closes its side.
    pub async fn closed(&mut self) {
        let mut byte = [0_u8; 1];
        loop {
            match self.socket.read(&mut byte).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// A server on loopback.
pub struct Server {
    pub base_url: String,
    posts: Arc<AtomicUsize>,
}

impl Server {
    /// Serves every request with `answer`, which gives the socket back to keep the connection.
    pub async fn start<F, Fut>(answer: F) -> Self
    where
        F: Fn(Post) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<TcpStream>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let posts = Arc::new(AtomicUsize::new(0));
        let counter = posts.clone();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { return };
                socket.set_nodelay(true).unwrap();
                let (counter, answer) = (counter.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut socket = Some(socket);
                    for on_connection in 0.. {
                        let Some(open) = socket.take() else { return };
                        let Some((head, body, open)) = read_request(open).await else { return };
                        let number = counter.fetch_add(1, Ordering::SeqCst);
                        socket = answer(Post { number, on_connection, head, body, socket: open }).await;
                    }
                });
            }
        });
        Self { base_url, posts }
    }

    /// How many requests have come.
    pub fn posts(&self) -> usize {
        self.posts.load(Ordering::SeqCst)
    }
}

async fn read_request(mut socket: TcpStream) -> Option<(String, serde_json::Value, TcpStream)> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let length: usize = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse().unwrap()))
        .unwrap_or(0);
    while bytes.len() < head_end + length {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    Some((head, serde_json::from_slice(&bytes[head_end..]).unwrap(), socket))
}

/// An error without the service's words at a rate limit.
pub fn wordless(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::RateLimited { retry_after_ms, .. } => {
            ProviderError::RateLimited { message: String::new(), retry_after_ms }
        }
        other => other,
    }
}
