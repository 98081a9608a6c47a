//! What a run looks like: text for a person, or one event per line.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use playhouse::protocol::entry::{BlockStage, PlannedChange};
use playhouse::protocol::{
    AgentEvent, AgentId, Event, LoopId, Message, MessageId, StopReason, StreamDelta, ToolResult, mask_patterns,
};
use playhouse::tools::summary;
use serde_json::Value;

use crate::cli::terminal::ask::{Asking, can_ask};
use crate::cli::terminal::sub_agents::SubAgents;
use crate::cli::terminal::text::{Tint, cut, for_stdout, harmless, one_line, stderr_colours};
use crate::cli::terminal::totals::Totals;

/// How many refusals of one call are shown.
const MOST_REFUSED: usize = 3;

/// What goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// The model's text as it streams.
    Text,
    /// The model's text, all at once when the run is over: several runs share the output.
    Gathered,
    /// One event per line.
    Json,
}

impl OutputForm {
    /// The form for one run.
    pub fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Shows one session's events.
#[derive(Debug)]
pub struct View {
    form: OutputForm,
    /// What goes before each line beside the text: whose it is, where several runs share the output.
    label: String,
    asking: Asking,
    colours: bool,
    /// Whether stdout is a screen, which text must not control.
    screen: bool,
    /// Whether nobody can be asked.
    unattended: bool,
    /// Whether stderr has a progress line.
    progress: bool,
    /// What is waited for, and since when.
    waiting: Option<(String, Instant)>,
    /// Whether the progress line is on the screen.
    drawn: bool,
    frame: usize,
    /// The message that streams.
    open: Option<MessageId>,
    mid_line: bool,
    gathered: String,
    ended: HashSet<LoopId>,
    sub_agents: SubAgents,
    totals: Totals,
    broken: Option<io::Error>,
}

impl View {
    /// A view in this form.
    pub fn new(form: OutputForm, asking: &Asking) -> Self {
        Self {
            form,
            label: String::new(),
            asking: asking.clone(),
            colours: stderr_colours(),
            screen: io::stdout().is_terminal(),
            unattended: !can_ask(),
            progress: form == OutputForm::Text && io::stderr().is_terminal(),
            waiting: None,
            drawn: false,
            frame: 0,
            open: None,
            mid_line: false,
            gathered: String::new(),
            ended: HashSet::new(),
            sub_agents: SubAgents::default(),
            totals: Totals::new(Instant::now()),
            broken: None,
        }
    }

    /// Says with every line beside the text whose it is.
    pub fn label(&mut self, session: &str) {
        self.label = format!("[{session}] ");
    }

    /// Shows an event. After an error nothing more is written.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        self.sub_agents.take(event);
        self.totals.take(&event.event);
        if let AgentEvent::AgentEnd { .. } = &event.event {
            self.ended.extend(event.loop_id.clone());
        }
        let shown = match self.form {
            _ if self.broken.is_some() => Ok(()),
            OutputForm::Json => json_line(event),
            OutputForm::Text | OutputForm::Gathered => self.tell(event),
        };
        if let AgentEvent::PermissionRequired { permission_id, .. } = &event.event {
            self.asking.is_due(permission_id);
        }
        shown.inspect_err(|error| self.broken = Some(io::Error::new(error.kind(), error.to_string())))
    }

    /// Says what waits for approval, and how to give it.
    pub fn plan(&mut self, session: &str, plan: &[PlannedChange]) {
        if self.form == OutputForm::Json {
            return;
        }
        let changes =
            if plan.len() == 1 { "1 change waits".to_owned() } else { format!("{} changes wait", plan.len()) };
        self.note(Tint::Dim, &format!("{changes} for approval: playhouse plan show {session}"));
    }

    /// Whose run it is: everyone else is a sub-agent.
    pub fn is_of(&mut self, agent: &AgentId) {
        self.sub_agents.root_is(agent);
    }

    /// Whether the end of this run was shown.
    pub fn saw_end(&self, run: &LoopId) -> bool {
        self.ended.contains(run)
    }

    /// Whether everything could be written.
    pub fn written(&self) -> Result<(), &io::Error> {
        self.broken.as_ref().map_or(Ok(()), Err)
    }

    /// Ends the output: what was gathered is written, a line that is open is closed.
    pub fn finish(&mut self) -> io::Result<()> {
        self.waiting = None;
        self.clear();
        if self.broken.is_some() {
            return Ok(());
        }
        self.end_line()?;
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() {
            return Ok(());
        }
        if !self.label.is_empty() {
            self.note(Tint::Dim, "answers:");
        }
        write_out(&gathered)
    }

    /// Whether [`View::tick`] has something to do.
    pub fn has_progress(&self) -> bool {
        self.progress && self.waiting.is_some()
    }

    /// Draws the next frame of the progress line.
    pub fn tick(&mut self) {
        // On a line with text or a question there is no room for it.
        if self.mid_line || self.asking.is_open() {
            return;
        }
        let Some((what, since)) = &self.waiting else { return };
        const FRAMES: [&str; 4] = [".  ", ".. ", "...", "   "];
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default();
        let (on, off) = Tint::Dim.codes(self.colours);
        let seconds = since.elapsed().as_secs();
        let _ = write!(io::stderr().lock(), "\r{on}… {what}{frame} {seconds} s{off}\x1b[K");
        self.frame += 1;
        self.drawn = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// A line beside the text.
    pub fn note(&mut self, tint: Tint, line: &str) {
        self.clear();
        let before = if self.asking.is_open() { "\n" } else { "" };
        let (on, off) = tint.codes(self.colours);
        // With stderr gone there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{before}{on}{}{}{off}", self.label, one_line(line));
    }

    fn tell(&mut self, event: &Event) -> io::Result<()> {
        match &event.event {
            // What a sub-agent says is for the agent that asked it, which gets it as the tool's result.
            AgentEvent::ModelRequestStart { .. }
            | AgentEvent::MessageUpdate { .. }
            | AgentEvent::MessageEnd { .. }
            | AgentEvent::AgentEnd { .. }
                if self.sub_agents.of(event).is_some() => {}
            AgentEvent::ModelRequestStart { .. } => self.wait_for("waiting for the model"),
            AgentEvent::MessageUpdate { message_id, delta } => match delta {
                StreamDelta::Text { delta } => {
                    self.open = Some(message_id.clone());
                    self.say(delta)?;
                }
                StreamDelta::Thinking { .. } => self.wait_for("the model is thinking"),
                StreamDelta::ToolCallDelta { .. } => self.wait_for("waiting for the model"),
            },
            AgentEvent::MessageEnd { message_id, message } => match message.llm() {
                Some(Message::Assistant { stop_reason, .. }) => {
                    let streamed = self.open.take().is_some_and(|open| open == *message_id);
                    self.waiting = None;
                    if !streamed && *stop_reason != StopReason::Error {
                        self.say(&message.llm().map(Message::text).unwrap_or_default())?;
                    }
                    self.end_line()?;
                }
                Some(Message::User { .. } | Message::ToolResult { .. }) | None => {}
            },
            AgentEvent::AgentEnd { .. } => {
                self.waiting = None;
                self.clear();
                self.end_line()?;
                if self.progress {
                    let line = self.totals.line(self.sub_agents.count());
                    self.note(Tint::Dim, &line);
                }
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } => {
                let line = summary(tool_name, args, &Ok(ToolResult::text("")));
                let line = self.sub_agents.named(event, tool_call_id, tool_name, &line);
                self.beside(event, Tint::Dim, &format!("▸ {line}"));
                self.wait_for(&format!("running {}", cut(&one_line(tool_name), 40)));
            }
            AgentEvent::ToolExecutionEnd {
                tool_call_id, tool_name, result, summary, is_error, duration_ms, ..
            } => {
                let tint = if *is_error { Tint::Red } else { Tint::Dim };
                let line = self.sub_agents.named(event, tool_call_id, tool_name, summary);
                self.beside(event, tint, &format!("• {line} {}", seconds(*duration_ms)));
                for line in refused(tool_name, result) {
                    self.beside(event, Tint::Red, &format!("  sandbox: {line}"));
                }
            }
            AgentEvent::ToolBlocked { tool_name, stage, reason, .. } => {
                let hint = match stage {
                    BlockStage::Approval if self.unattended => " (--permission yolo runs it without asking)",
                    BlockStage::Approval
                    | BlockStage::Lookup
                    | BlockStage::Schema
                    | BlockStage::Limit
                    | BlockStage::Plan
                    | BlockStage::Policy
                    | BlockStage::Safety
                    | BlockStage::Hook => "",
                };
                let reason = cut(&one_line(reason), 200);
                self.beside(event, Tint::Red, &format!("• {tool_name} did not run: {reason}{hint}"));
            }
            AgentEvent::PlanChangeQueued { tool_name, args, change, .. } => {
                let line = one_line(&summary(tool_name, args, &Ok(ToolResult::default())));
                self.beside(event, Tint::Dim, &format!("• planned as change {change}: {line}"));
            }
            AgentEvent::InputRejected { reason, .. } => {
                self.beside(event, Tint::Red, &format!("! rejected: {reason}"));
            }
            AgentEvent::PermissionRequired { .. } => {
                self.waiting = None;
                self.clear();
            }
            AgentEvent::ProviderRetry { error, falls_back_on: Some(model), .. } => {
                self.beside(event, Tint::Red, &format!("! {}; asking {model} instead", shown_error(error)));
            }
            AgentEvent::ProviderRetry { error, delay_ms, falls_back_on: None, .. } => {
                self.beside(
                    event,
                    Tint::Red,
                    &format!("! {}; asking again in {}", shown_error(error), seconds(*delay_ms)),
                );
                self.wait_for("waiting to ask again");
            }
            AgentEvent::AgentRestarted { reason } => {
                if self.sub_agents.of(event).is_none() {
                    self.open = None;
                    self.end_line()?;
                }
                self.beside(event, Tint::Dim, &format!("! the agent goes on from its journal: {reason}"));
            }
            AgentEvent::Error { message } => self.beside(event, Tint::Red, &format!("! {message}")),
            AgentEvent::Lagged { missed, .. } => {
                self.note(Tint::Red, &format!("! the output is too slow: {missed} events are missing here"));
            }
            AgentEvent::AgentStart { .. }
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnEnd { .. }
            | AgentEvent::MessageStart { .. }
            | AgentEvent::ToolExecutionUpdate { .. }
            | AgentEvent::ProgressMessage { .. }
            | AgentEvent::PermissionResolved { .. }
            | AgentEvent::ModeChanged { .. }
            | AgentEvent::PlanResolved { .. }
            | AgentEvent::SubAgentStart { .. }
            | AgentEvent::SubAgentEnd { .. } => {}
        }
        Ok(())
    }

    /// A line beside the text, where the one who told it stands in the tree.
    fn beside(&mut self, event: &Event, tint: Tint, line: &str) {
        let lead = self.sub_agents.lead(event);
        self.note(tint, &format!("{lead}{line}"));
    }

    fn wait_for(&mut self, what: &str) {
        if self.progress && self.waiting.as_ref().is_none_or(|(now, _)| now != what) {
            self.waiting = Some((what.to_owned(), Instant::now()));
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.waiting = None;
        self.clear();
        self.mid_line = !text.ends_with('\n');
        match (self.form, self.screen) {
            (OutputForm::Gathered, _) => {
                self.gathered.push_str(text);
                Ok(())
            }
            (_, true) => write_out(&harmless(text)),
            (_, false) => write_out(text),
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.mid_line) {
            return Ok(());
        }
        if self.form == OutputForm::Gathered {
            self.gathered.push('\n');
            return Ok(());
        }
        write_out("\n")
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}

/// What the sandbox refused a command, as its result says it; other tools' results may say what they like.
fn refused(tool_name: &str, result: &ToolResult) -> Vec<String> {
    let list = result.details.get("refused").and_then(Value::as_array).filter(|_| tool_name == "bash");
    let texts = list.into_iter().flatten().filter_map(|one| one.get("text")?.as_str().map(str::to_owned));
    let mut texts: Vec<String> = texts.collect();
    let more = texts.len().saturating_sub(MOST_REFUSED);
    if more > 0 {
        texts.truncate(MOST_REFUSED);
        texts.push(format!("… and {more} more"));
    }
    texts
}

/// One event on one line of stdout.
fn json_line(event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_string(event)?;
    line.push('\n');
    write_out(&line)
}

/// Writes to stdout at once, all of it or an error: never a panic.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(for_stdout(text).as_bytes())?;
    out.flush()
}

/// A service's words, without what has the shape of a key.
fn shown_error(error: &impl std::fmt::Display) -> String {
    mask_patterns(&error.to_string()).into_owned()
}
