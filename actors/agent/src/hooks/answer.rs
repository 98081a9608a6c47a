//! What a command's exit code and output mean, and what several answers mean together.
//!
//! What is not understood is a no: a hook that fails to run, fails while it runs, or says something that is no answer,
//! has not allowed anything.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::commands::{CommandHook, HookEvent};
use super::process::{Ended, Output};
use crate::machine::{AfterTool, BeforeTool, FilterVerdict, MayStop, SessionStart};

/// How much of a hook's text reaches the model, in characters.
const MOST_TEXT: usize = 10_000;
/// How much of a command an error repeats, in characters.
const MOST_COMMAND: usize = 80;

/// What some programs write before any text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What hooks say, taken together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HookAnswer {
    /// Reasons to end the run.
    halt: Vec<String>,
    /// What is told of hooks that failed.
    failed: Vec<String>,
    /// Why the call, prompt or stop is refused.
    deny: Vec<String>,
    /// Why a person is asked first.
    ask: Vec<String>,
    /// What the tool runs with instead of the model's arguments.
    args: Option<Arc<Value>>,
    /// What the model is to know.
    context: Vec<String>,
}

/// The JSON that a command may write to stdout, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    #[serde(rename = "stopReason")]
    stop_reason: Option<String>,
    #[serde(rename = "systemMessage")]
    system_message: Option<String>,
    decision: Option<Word>,
    reason: Option<String>,
    #[serde(rename = "hookSpecificOutput")]
    specific: Option<Specific>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<Word>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    #[serde(alias = "approve")]
    Allow,
    #[serde(alias = "block")]
    Deny,
    Ask,
}

/// What one command said by how it ended.
pub(super) fn read(event: HookEvent, hook: &CommandHook, ended: Ended) -> HookAnswer {
    let of = format!("the {} hook `{}`", event.name(), cut(&hook.command, MOST_COMMAND));
    match ended {
        Ended::NotStarted { reason } => HookAnswer::failure(format!("{of} did not run: {reason}")),
        Ended::TimedOut => {
            let seconds = hook.timeout.as_secs_f64();
            HookAnswer::failure(format!("{of} did not end within {seconds} s: make it faster, or raise its `timeout`"))
        }
        Ended::Killed { signal } => {
            HookAnswer::failure(format!("{of} was killed by signal {signal}: look into why, or remove it"))
        }
        Ended::Exited { code: 0, out, .. } => said(event, &of, &out),
        Ended::Exited { code: 2, err, .. } => {
            let reason = err.text().trim();
            let reason =
                if reason.is_empty() { format!("{of} says no and gives no reason") } else { reason.to_owned() };
            HookAnswer { deny: vec![cut(&reason, MOST_TEXT)], ..HookAnswer::default() }
        }
        Ended::Exited { code, err, .. } => {
            let what = match code {
                126 => "cannot be executed: make it executable".to_owned(),
                127 => "was not found: install it, or correct its path".to_owned(),
                code => format!("failed with exit code {code}: make it exit 0 to allow or 2 to block"),
            };
            let told = err.text().trim();
            let told = if told.is_empty() { String::new() } else { format!(" ({})", cut(told, 1_000)) };
            HookAnswer::failure(format!("{of} {what}{told}"))
        }
    }
}

/// What a command said on stdout.
fn said(event: HookEvent, of: &str, out: &Output) -> HookAnswer {
    let text = match out {
        Output::Whole(text) => text.trim_matches(|c: char| c.is_whitespace() || c == BYTE_ORDER_MARK),
        Output::Cut(_) => return HookAnswer::failure(format!("{of} wrote more than 256 KiB: make its answer shorter")),
    };
    if !text.starts_with('{') {
        let is_context = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
        return match (may_hold_answer(text), is_context) {
            (true, _) => {
                let hint = "write the answer alone, as one JSON object in UTF-8, and anything else to stderr";
                HookAnswer::failure(format!("{of} wrote what may be an answer and cannot be read as one: {hint}"))
            }
            (false, true) => HookAnswer::adding(text.to_owned()),
            (false, false) => HookAnswer::default(),
        };
    }
    let read = serde_json::from_str::<Value>(text).and_then(|value| {
        let stray = stray_word(&value);
        Ok((serde_json::from_str::<Said>(text)?, stray))
    });
    match read {
        Ok((_, Some(word))) => {
            let hint =
                "`decision` and `continue` are the answer's own, `permissionDecision` its `hookSpecificOutput`'s";
            HookAnswer::failure(format!("{of} wrote `{word}` where it means nothing: {hint}"))
        }
        Ok((said, None)) => said.meaning(event, of),
        Err(error) => {
            let hint = "write a hook's answer, or no text that begins with `{`";
            HookAnswer::failure(format!("{of} wrote JSON that is no answer ({error}): {hint}"))
        }
    }
}

/// The keys of an answer that decide something.
const DECIDING: [&str; 4] = ["hookSpecificOutput", "permissionDecision", "decision", "continue"];

/// Whether a text that is no JSON object could be an answer that was spoilt: one behind other words, within something
/// else, or in another encoding than UTF-8.
fn may_hold_answer(text: &str) -> bool {
    let is_garbled = text.contains(['\0', char::REPLACEMENT_CHARACTER]);
    let names_key = DECIDING.iter().any(|key| text.contains(&format!("\"{key}\"")));
    let begins =
        |line: &str| line.trim_start_matches(|c: char| c.is_whitespace() || c == BYTE_ORDER_MARK).starts_with('{');
    is_garbled || names_key || text.lines().any(begins) || serde_json::from_str::<Value>(text).is_ok()
}

/// A word that decides in its own place and is in another, or written in another case.
fn stray_word(answer: &Value) -> Option<String> {
    let plain = |key: &str| key.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let means = |key: &str| DECIDING.into_iter().find(|word| plain(word) == plain(key));
    let fields = answer.as_object()?;
    let stray = |key: &&String| means(key).is_some_and(|word| key.as_str() != word || word == "permissionDecision");
    if let Some(key) = fields.keys().find(stray) {
        return Some(key.clone());
    }
    let specific = fields.get("hookSpecificOutput")?.as_object()?;
    specific.keys().find(|key| means(key).is_some_and(|_| key.as_str() != "permissionDecision")).cloned()
}

impl Said {
    fn meaning(self, event: HookEvent, of: &str) -> HookAnswer {
        if let Some(message) = &self.system_message {
            tracing::warn!(hook = event.name(), "{message}");
        }
        let specific = self.specific.unwrap_or_default();
        if let Some(other) = specific.hook_event_name.filter(|name| name != event.name()) {
            return HookAnswer::failure(format!("{of} answered for `{other}`: let its `hookEventName` be the event's"));
        }
        let mut answer = HookAnswer::default();
        if self.goes_on == Some(false) {
            let reason = filled(self.stop_reason).unwrap_or_else(|| format!("{of} ended the run"));
            answer.halt.push(reason);
        }
        let reason = filled(specific.permission_decision_reason).or_else(|| filled(self.reason));
        let reason = reason.unwrap_or_else(|| format!("{of} gives no reason"));
        // Where both are there, the one that is stricter counts.
        let words = [self.decision, specific.permission_decision];
        let has = |word: Word| words.contains(&Some(word));
        match event {
            HookEvent::PreToolUse => {
                if has(Word::Deny) {
                    answer.deny.push(reason);
                } else if has(Word::Ask) {
                    answer.ask.push(reason);
                }
                answer.args = specific.updated_input.map(Arc::new);
            }
            HookEvent::PostToolUse | HookEvent::UserPromptSubmit | HookEvent::SessionStart => {
                if has(Word::Deny) {
                    answer.deny.push(reason);
                }
                answer.context.extend(filled(specific.additional_context));
            }
            HookEvent::Stop | HookEvent::SubagentStop => {
                if has(Word::Deny) {
                    answer.deny.push(reason);
                }
            }
        }
        answer.bounded()
    }
}

impl HookAnswer {
    /// The answer of a hook that failed.
    fn failure(reason: String) -> Self {
        Self { failed: vec![reason], ..Self::default() }
    }

    /// The model is to know this.
    pub(super) fn adding(text: String) -> Self {
        let context = filled(Some(text)).map(|text| cut(&text, MOST_TEXT));
        Self { context: context.into_iter().collect(), ..Self::default() }
    }

    /// Somebody is to say yes.
    pub(super) fn asking(reason: String) -> Self {
        Self { ask: vec![reason], ..Self::default() }
    }

    /// The arguments are to be these.
    pub(super) fn amending(args: Arc<Value>) -> Self {
        Self { args: Some(args), ..Self::default() }
    }

    fn bounded(mut self) -> Self {
        for texts in [&mut self.halt, &mut self.deny, &mut self.ask, &mut self.context] {
            for text in texts {
                *text = cut(text, MOST_TEXT);
            }
        }
        self
    }

    /// Two answers that did not know of each other.
    pub(super) fn joined(mut self, other: Self) -> Self {
        if let (Some(one), Some(another)) = (&self.args, &other.args)
            && one != another
        {
            let reason = "two hooks change the arguments in different ways: leave that to one of them";
            self.failed.push(reason.to_owned());
        }
        self.followed_by(other)
    }

    /// An answer and one that came to what it made of the call.
    pub(super) fn followed_by(mut self, other: Self) -> Self {
        self.halt.extend(other.halt);
        self.failed.extend(other.failed);
        self.deny.extend(other.deny);
        self.ask.extend(other.ask);
        self.args = other.args.or(self.args);
        self.context.extend(other.context);
        self
    }

    /// Before a tool: the strictest counts.
    pub(super) fn before_tool(self) -> BeforeTool {
        if let Some(reason) = told(&self.halt) {
            return BeforeTool::Halt { reason };
        }
        if let Some(reason) = told(self.failed.iter().chain(&self.deny)) {
            return BeforeTool::Block { reason };
        }
        match (told(&self.ask), self.args) {
            (Some(reason), args) => BeforeTool::Ask { reason, args },
            (None, Some(args)) => BeforeTool::Amend { args },
            (None, None) => BeforeTool::Run,
        }
    }

    /// After a tool: it ran, so all that is left is to tell the model.
    pub(super) fn after_tool(self) -> AfterTool {
        if let Some(reason) = told(&self.halt) {
            return AfterTool::Halt { reason };
        }
        let failed = self.failed.iter().map(|reason| format!("A hook failed after this: {reason}"));
        let denied = self.deny.iter().map(|reason| format!("A hook objects to this: {reason}"));
        let texts: Vec<String> = failed.chain(denied).chain(self.context.iter().cloned()).collect();
        told(&texts).map_or(AfterTool::Done, |text| AfterTool::Say { text: format!("\n{text}") })
    }

    /// When input is taken; `warning` is what the filters add.
    pub(super) fn on_input(self, warning: Option<String>) -> FilterVerdict {
        if let Some(reason) = told(self.halt.iter().chain(&self.failed).chain(&self.deny)) {
            return FilterVerdict::Reject(reason);
        }
        match (warning, told(&self.context)) {
            (Some(warning), Some(text)) => FilterVerdict::Warn(format!("{warning}\n{text}")),
            (Some(warning), None) => FilterVerdict::Warn(warning),
            (None, Some(text)) => FilterVerdict::Warn(format!("\n{text}")),
            (None, None) => FilterVerdict::Pass,
        }
    }

    /// When a session starts: a hook that says no, or fails, ends the run.
    pub(super) fn on_session_start(self) -> SessionStart {
        if let Some(reason) = told(self.halt.iter().chain(&self.failed).chain(&self.deny)) {
            return SessionStart::Halt { reason };
        }
        told(&self.context).map_or(SessionStart::Plain, |text| SessionStart::Say { text: format!("\n{text}") })
    }

    /// When a run would stop. That a hook failed is nothing the model could mend, so it ends the run.
    pub(super) fn on_stop(self) -> MayStop {
        if let Some(reason) = told(self.halt.iter().chain(&self.failed)) {
            return MayStop::Halt { reason };
        }
        told(&self.deny).map_or(MayStop::Yes, |reason| MayStop::GoOn { reason })
    }
}

fn told<'a>(texts: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let texts: Vec<&str> = texts.into_iter().map(String::as_str).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
