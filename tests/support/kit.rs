//! What tests of the whole house share: tools made of closures, gates to wait at, deadlines.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use playhouse::prelude::*;
use playhouse::protocol::transcript::{TranscriptEnd, validate};
use playhouse::protocol::{ProviderError, StreamConfig};
use playhouse::provider::StreamSink;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Longer than anything takes on a machine that still works.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits, but not for ever.
pub async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not happen within {DEADLINE:?}"),
    }
}

/// Waits until something is so that nobody announces.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not so after {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

type Work = Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send>>;

/// A tool made of a closure.
#[derive(Clone)]
pub struct FnTool {
    name: String,
    effect: EffectClass,
    asks: Option<String>,
    work: Arc<dyn Fn(Value, ToolContext) -> Work + Send + Sync>,
}

impl FnTool {
    pub fn new<F, W>(name: &str, work: F) -> Self
    where
        F: Fn(Value, ToolContext) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        let work = Arc::new(move |args, ctx| Box::pin(work(args, ctx)) as Work);
        Self { name: name.to_owned(), effect: EffectClass::Once, asks: None, work }
    }

    pub fn effect(mut self, effect: EffectClass) -> Self {
        self.effect = effect;
        self
    }

    pub fn asks(mut self, reason: &str) -> Self {
        self.asks = Some(reason.to_owned());
        self
    }
}

#[async_trait]
impl Tool for FnTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "a tool of a test"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self, _: &Value) -> EffectClass {
        self.effect.clone()
    }

    fn needs_permission(&self, _: &Value) -> Option<String> {
        self.asks.clone()
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        (self.work)(args, ctx).await
    }
}

/// A place where something waits until the test lets it pass. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<(usize, bool)>>);

impl Gate {
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new((0, false))))
    }

    pub fn open(&self) {
        self.0.send_modify(|(_, open)| *open = true);
    }

    /// Comes to the gate and waits until it is open.
    pub async fn pass(&self) {
        self.0.send_modify(|(came, _)| *came += 1);
        let mut gate = self.0.subscribe();
        let _ = gate.wait_for(|(_, open)| *open).await;
    }

    /// Resolves when someone has come to the gate for the nth time.
    pub async fn reached(&self, times: usize) {
        let mut gate = self.0.subscribe();
        let _ = gate.wait_for(|(came, _)| *came >= times).await;
    }

    pub fn came(&self) -> usize {
        self.0.borrow().0
    }

    /// A tool that waits here. A crash lets it come again.
    pub fn tool(&self, name: &str) -> FnTool {
        let gate = self.clone();
        let tool = FnTool::new(name, move |_, _| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(ToolResult::text("passed"))
            }
        });
        tool.effect(EffectClass::Read)
    }
}

/// A tool that answers with a text.
pub fn saying(name: &str, text: &str) -> FnTool {
    let text = text.to_owned();
    FnTool::new(name, move |_, _| {
        let text = text.clone();
        async move { Ok(ToolResult::text(text)) }
    })
}

/// A tool that ends when it is told to.
pub fn hanging(name: &str) -> FnTool {
    FnTool::new(name, |_, ctx| async move {
        ctx.cancel.cancelled().await;
        Err(ToolError::Cancelled)
    })
}

/// A model whose answers are made by a closure, whatever was asked before. It may have to wait at a gate first.
pub struct FnModel {
    gate: Option<Gate>,
    answer: Box<dyn Fn(&StreamConfig) -> Step + Send + Sync>,
}

impl FnModel {
    pub fn new(answer: impl Fn(&StreamConfig) -> Step + Send + Sync + 'static) -> Self {
        Self { gate: None, answer: Box::new(answer) }
    }

    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

#[async_trait]
impl StreamProvider for FnModel {
    fn provider_id(&self) -> &str {
        "closure"
    }

    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError> {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        let step = (self.answer)(config);
        let config = StreamConfig { response: 0, attempt: 0, ..config.clone() };
        Scripted::new([step]).stream(&config, tx).await
    }
}

/// Panics of tests' own making are not worth a word.
pub fn be_quiet_about(words: &'static str) {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|text| text.contains(words)) {
            loud(info);
        }
    }));
}

/// One line per message: who says it and what.
pub fn lines<'a>(messages: impl IntoIterator<Item = &'a Arc<AgentMessage>>) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::User { .. } => format!("user: {}", message.text()),
        Message::Assistant { stop_reason, .. } => {
            let calls: Vec<&str> = message.tool_calls().map(|(_, name, _)| name).collect();
            let mut line = format!("model: {}", message.text());
            if !calls.is_empty() {
                line = format!("{line}[{}]", calls.join(", "));
            }
            match serde_json::to_value(stop_reason).unwrap() {
                Value::String(stop) if stop == "aborted" || stop == "error" => format!("{line} ({stop})"),
                _ => line,
            }
        }
        Message::ToolResult { tool_name, is_error, .. } => {
            format!("{}{tool_name}: {}", if *is_error { "!" } else { "" }, message.text())
        }
    };
    messages.into_iter().filter_map(|message| message.llm()).map(line).collect()
}

/// What an agent says of itself, its conversation being one that a provider would take.
pub async fn healthy(agent: &AgentHandle) -> playhouse::agent::AgentState {
    let state = soon("the agent's state", agent.state()).await.unwrap();
    if !state.messages.is_empty() {
        validate(state.messages.sendable(), TranscriptEnd::Any).unwrap_or_else(|error| panic!("{error}: {state:#?}"));
    }
    state
}

/// The name of the event's variant.
pub fn name_of(event: &AgentEvent) -> String {
    serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned()
}

/// The events of the run that is under way, its last included.
pub async fn rest_of_run(events: &mut Subscription) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    while let Some(event) = soon("the next event", events.next()).await {
        let is_end = matches!(event.event, AgentEvent::AgentEnd { .. });
        all.push(event);
        if is_end {
            break;
        }
    }
    all
}

/// Waits for an event that fits.
pub async fn wait_for(events: &mut Subscription, fits: impl Fn(&AgentEvent) -> bool) -> Arc<Event> {
    loop {
        let event = soon("an event", events.next()).await.expect("the agent is gone");
        if fits(&event.event) {
            return event;
        }
    }
}
