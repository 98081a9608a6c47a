//! Scripts: what a scripted model answers; pure.
//!
//! A script is a list of steps, from code or from JSON. Which step a call gets depends on the call alone:
//!
//! 1. The call's *group*: the steps whose `when` matches it; if there are none and the call is a turn, the steps
//!    without `when`. A `when` that names no purpose speaks of turns.
//! 2. In the group, steps that fail (`error`, `cut_after`) belong to the next step that succeeds, and serve its
//!    attempts 0, 1, …; later attempts get the success.
//! 3. A turn gets the success whose number is the call's `response`. A call that is no turn always gets its group's
//!    first success: its `response` counts the conversation's answers, not its own. Without a group it gets
//!    a fixed text.

use std::time::Duration;

use playhouse_protocol::{Purpose, StreamConfig, Usage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Why a script cannot be used. Steps are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script `{path}` cannot be read: {reason}")]
    Unreadable {
        /// The script that could not be read.
        path: String,
        /// What the file system said.
        reason: String,
    },
    /// Something in the file is wrong.
    #[error("the script `{path}` cannot be used: {error}")]
    InFile {
        /// The script that is wrong.
        path: String,
        /// What is wrong with it, and where.
        error: Box<ScriptError>,
    },
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    Json(String),
    /// Something outside the steps is wrong.
    #[error("{0}")]
    Shape(String),
    /// A step is wrong.
    #[error("step {step}: {problem}")]
    Step {
        /// Its number, from 1.
        step: usize,
        /// Which of its fields is wrong, and what it takes.
        problem: String,
    },
}

/// Which calls a step is for. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// The system prompt contains this.
    pub system_contains: Option<String>,
    /// The session's first prompt contains this.
    pub prompt_contains: Option<String>,
    /// What the call is for; `None` is a turn.
    pub purpose: Option<Purpose>,
}

impl When {
    /// Calls whose system prompt contains `text`.
    pub fn system(text: impl Into<String>) -> Self {
        Self { system_contains: Some(text.into()), ..Self::default() }
    }

    /// Calls of sessions whose first prompt contains `text`.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self { prompt_contains: Some(text.into()), ..Self::default() }
    }

    /// Calls for a purpose.
    pub fn purpose(purpose: Purpose) -> Self {
        Self { purpose: Some(purpose), ..Self::default() }
    }

    fn matches(&self, config: &StreamConfig) -> bool {
        let contains = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|w| text.contains(w.as_str()));
        self.purpose.unwrap_or(Purpose::Turn) == config.purpose
            && contains(&self.system_contains, &config.system_prompt)
            && contains(&self.prompt_contains, &config.first_prompt)
    }
}

/// A tool call of a scripted answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolStep {
    /// Its id; `None` is `call_<response>_<place>`.
    pub id: Option<String>,
    /// The tool that the step calls.
    pub name: String,
    /// An object; or a string, which plays a model whose JSON does not parse.
    pub arguments: Value,
}

/// What a step says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Reasoning, streamed before the text; empty is none.
    pub thinking: String,
    /// Text, streamed between the reasoning and the tool calls; empty is none.
    pub text: String,
    /// Tool calls, streamed last.
    pub tool_calls: Vec<ToolStep>,
    /// Characters per piece; `None` is all at once.
    pub chunk: Option<usize>,
    /// The pause after each piece.
    pub delay: Duration,
    /// What it is said to consume; `None` is an estimate from the characters.
    pub usage: Option<Usage>,
}

/// How a step fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// With an HTTP status, before anything streams.
    Error {
        /// The HTTP status that the service is to answer with.
        status: u16,
        /// The wait the service asks for.
        retry_after: Option<Duration>,
        /// The body of the answer; `None` is a text of the script's own.
        message: Option<String>,
    },
    /// By a cut after this many characters of text.
    Cut {
        /// How many characters come before the stream is cut.
        after: usize,
    },
}

/// One step of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The calls it is for; `None` is every turn that no other step's `when` matches.
    pub when: Option<When>,
    /// What it streams; a step that is cut streams the beginning of it.
    pub reply: Reply,
    /// How it fails; `None` succeeds.
    pub failure: Option<Failure>,
}

impl Step {
    /// An answer of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { reply: Reply { text: text.into(), ..Reply::default() }, ..Self::default() }
    }

    /// A failure with an HTTP status.
    pub fn error(status: u16) -> Self {
        let failure = Some(Failure::Error { status, retry_after: None, message: None });
        Self { failure, ..Self::default() }
    }

    /// Reasoning that comes before the step's text.
    #[must_use]
    pub fn thinking(mut self, thinking: impl Into<String>) -> Self {
        self.reply.thinking = thinking.into();
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn tool_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.reply.tool_calls.push(ToolStep { id: None, name: name.into(), arguments });
        self
    }

    /// Streams in pieces of `chars` characters.
    #[must_use]
    pub fn chunk(mut self, chars: usize) -> Self {
        self.reply.chunk = Some(chars.max(1));
        self
    }

    /// Pauses after each piece.
    #[must_use]
    pub fn delay_ms(mut self, millis: u64) -> Self {
        self.reply.delay = Duration::from_millis(millis);
        self
    }

    /// Says what it consumes.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.reply.usage = Some(usage);
        self
    }

    /// Cuts the stream after `chars` characters of text.
    #[must_use]
    pub fn cut_after(mut self, chars: usize) -> Self {
        self.failure = Some(Failure::Cut { after: chars });
        self
    }

    /// Asks to wait, if it is an error.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        if let Some(Failure::Error { retry_after, .. }) = &mut self.failure {
            *retry_after = Some(wait);
        }
        self
    }

    /// Serves only these calls.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = Some(when);
        self
    }
}

/// The steps in the order in which they are taken, and the context window in tokens, if it has an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    pub(crate) context_window: Option<u64>,
    pub(crate) steps: Vec<Step>,
}

/// What a script has for a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Chosen<'a> {
    Step(&'a Step),
    /// No step is for this call, which is no turn.
    Fixed,
    /// The script is over.
    PastEnd {
        steps: usize,
        wanted: u64,
    },
}

impl Script {
    pub(crate) fn parse(json: &str) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(json).map_err(|error| ScriptError::Json(error.to_string()))?;
        let fields = object("a script", value).map_err(ScriptError::Shape)?;
        let mut script = Self::default();
        let mut turns = None;
        for (key, value) in fields {
            match key.as_str() {
                "context_window" => script.context_window = Some(field(&key, value).map_err(ScriptError::Shape)?),
                "turns" => turns = Some(field::<Vec<Value>>(&key, value).map_err(ScriptError::Shape)?),
                _ => {
                    let problem = format!("unknown key `{key}`: it has `context_window` and `turns`");
                    return Err(ScriptError::Shape(problem));
                }
            }
        }
        let turns = turns.ok_or_else(|| ScriptError::Shape("`turns` is missing: list the model's answers".into()))?;
        for (place, turn) in turns.into_iter().enumerate() {
            let step = step(turn).map_err(|problem| ScriptError::Step { step: place + 1, problem })?;
            script.steps.push(step);
        }
        Ok(script)
    }

    /// The step for a call.
    pub(crate) fn choose(&self, config: &StreamConfig) -> Chosen<'_> {
        let mut group: Vec<&Step> =
            self.steps.iter().filter(|step| step.when.as_ref().is_some_and(|when| when.matches(config))).collect();
        if group.is_empty() {
            if config.purpose != Purpose::Turn {
                return Chosen::Fixed;
            }
            group = self.steps.iter().filter(|step| step.when.is_none()).collect();
        }
        let wanted = match config.purpose {
            Purpose::Turn => config.response,
            Purpose::Summary | Purpose::Judge | Purpose::Wrapup | Purpose::Repair => 0,
        };
        let attempt = usize::try_from(config.attempt).unwrap_or(usize::MAX);
        let mut successes = 0;
        let mut failing: Vec<&Step> = Vec::new();
        for step in &group {
            if step.failure.is_some() {
                failing.push(step);
                continue;
            }
            if successes == wanted {
                return Chosen::Step(failing.get(attempt).copied().unwrap_or(step));
            }
            successes += 1;
            failing.clear();
        }
        match failing.get(attempt) {
            Some(step) if successes == wanted => Chosen::Step(step),
            Some(_) | None => {
                let steps = group.len();
                let number = u64::try_from(steps).unwrap_or(u64::MAX);
                Chosen::PastEnd { steps, wanted: number.saturating_add(wanted - successes).saturating_add(1) }
            }
        }
    }
}

fn field<T: DeserializeOwned>(key: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("`{key}`: {error}"))
}

fn object(what: &str, value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(format!("{what} must be an object, not `{other}`")),
    }
}

fn unknown(key: &str, known: &str) -> String {
    format!("unknown key `{key}`: use {known}")
}

const STEP_KEYS: &str = "text, thinking, tool_calls, chunk, delay_ms, usage, error, cut_after, when";

fn step(value: Value) -> Result<Step, String> {
    let mut step = Step::default();
    let mut says = false;
    let mut cut = None;
    for (key, value) in object("a step", value)? {
        match key.as_str() {
            "text" => (step.reply.text, says) = (field(&key, value)?, true),
            "thinking" => (step.reply.thinking, says) = (field(&key, value)?, true),
            "tool_calls" => {
                let calls: Vec<Value> = field(&key, value)?;
                let numbered = calls.into_iter().enumerate();
                step.reply.tool_calls = numbered
                    .map(|(place, call)| {
                        tool_call(call).map_err(|problem| format!("tool call {}: {problem}", place + 1))
                    })
                    .collect::<Result<_, _>>()?;
                says = true;
            }
            "chunk" => match field(&key, value)? {
                0 => return Err("`chunk` must be at least 1 character".to_owned()),
                chars => step.reply.chunk = Some(chars),
            },
            "delay_ms" => step.reply.delay = Duration::from_millis(field(&key, value)?),
            "usage" => step.reply.usage = Some(usage(value).map_err(|problem| format!("`usage`: {problem}"))?),
            "error" => step.failure = Some(failure(value).map_err(|problem| format!("`error`: {problem}"))?),
            "cut_after" => cut = Some(field(&key, value)?),
            "when" => step.when = Some(when(value).map_err(|problem| format!("`when`: {problem}"))?),
            _ => return Err(unknown(&key, STEP_KEYS)),
        }
    }
    match (&step.failure, cut) {
        (Some(_), None) if says => Err("`error` and an answer exclude each other: make them two steps".to_owned()),
        (Some(_), Some(_)) => Err("`error` and `cut_after` exclude each other: make them two steps".to_owned()),
        (Some(_), None) => Ok(step),
        (None, _) if !says => Err("it says nothing: give it text, thinking, tool_calls or error".to_owned()),
        (None, None) => Ok(step),
        (None, Some(after)) => {
            step.failure = Some(Failure::Cut { after });
            Ok(step)
        }
    }
}

fn tool_call(value: Value) -> Result<ToolStep, String> {
    let mut call = ToolStep { id: None, name: String::new(), arguments: json!({}) };
    for (key, value) in object("a tool call", value)? {
        match key.as_str() {
            "id" => call.id = Some(field(&key, value)?),
            "name" => call.name = field(&key, value)?,
            "arguments" => match value {
                Value::Object(_) | Value::String(_) => call.arguments = value,
                other => return Err(format!("`arguments` must be an object, not `{other}`")),
            },
            _ => return Err(unknown(&key, "name, arguments, id")),
        }
    }
    if call.name.is_empty() {
        return Err("`name` is missing".to_owned());
    }
    if call.id.as_ref().is_some_and(String::is_empty) {
        return Err("`id` is empty: leave it out".to_owned());
    }
    Ok(call)
}

fn usage(value: Value) -> Result<Usage, String> {
    let mut usage = Usage::default();
    for (key, value) in object("it", value)? {
        match key.as_str() {
            "input" => usage.input = field(&key, value)?,
            "output" => usage.output = field(&key, value)?,
            "cache_read" => usage.cache_read = field(&key, value)?,
            "cache_write" => usage.cache_write = field(&key, value)?,
            "reasoning" => usage.reasoning = field(&key, value)?,
            // The sum of the others, whatever is written here.
            "total_tokens" => drop(field::<u64>(&key, value)?),
            _ => return Err(unknown(&key, "input, output, cache_read, cache_write, reasoning")),
        }
    }
    usage.total_tokens = usage.total();
    Ok(usage)
}

fn failure(value: Value) -> Result<Failure, String> {
    let (mut status, mut retry_after, mut message) = (None, None, None);
    for (key, value) in object("it", value)? {
        match key.as_str() {
            "status" => match field::<u16>(&key, value)? {
                code @ 400..=599 => status = Some(code),
                code => return Err(format!("`status` must be 400 to 599, not {code}")),
            },
            "retry_after" => {
                let seconds: f64 = field(&key, value)?;
                let wait = Duration::try_from_secs_f64(seconds).map_err(|error| format!("`retry_after`: {error}"))?;
                retry_after = Some(wait);
            }
            "message" => message = Some(field(&key, value)?),
            _ => return Err(unknown(&key, "status, retry_after, message")),
        }
    }
    let status = status.ok_or("`status` is missing")?;
    Ok(Failure::Error { status, retry_after, message })
}

fn when(value: Value) -> Result<When, String> {
    let mut when = When::default();
    for (key, value) in object("it", value)? {
        match key.as_str() {
            "system_contains" => when.system_contains = Some(field(&key, value)?),
            "prompt_contains" => when.prompt_contains = Some(field(&key, value)?),
            "purpose" => when.purpose = Some(field(&key, value)?),
            _ => return Err(unknown(&key, "system_contains, prompt_contains, purpose")),
        }
    }
    if when == When::default() {
        return Err("it is empty: give it system_contains, prompt_contains or purpose, or leave it out".to_owned());
    }
    Ok(when)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
