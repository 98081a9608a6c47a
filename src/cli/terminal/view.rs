//! What a run looks like: text for a person, or one event per line.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use playhouse::agent::RunReport;
use playhouse::protocol::entry::{BlockStage, PlannedChange};
use playhouse::protocol::{
    AgentEvent, AgentId, Event, LoopId, Message, MessageId, SessionId, StopReason, StreamDelta, ToolResult,
    is_stand_in, mask_patterns,
};
use playhouse::tools::summary;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::cli::exit::Exit;
use crate::cli::terminal::ask::{Asking, can_ask};
use crate::cli::terminal::cards;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::live::Live;
use crate::cli::terminal::markdown::{Markdown, ScreenLine};
use crate::cli::terminal::output::{Detail, Incomplete, OutputArgs, OutputForm, closed, document};
use crate::cli::terminal::sub_agents::SubAgents;
use crate::cli::terminal::text::{
    Tint, cut, fitted, for_stdout, harmless, one_line, size, stderr_colours, stderr_size, stdout_colours,
};
use crate::cli::terminal::totals::Totals;

/// How many refusals of one call are shown.
const MOST_REFUSED: usize = 3;

/// How many runs share the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    One,
    Several,
}

/// What becomes of the model's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// It is on the screen as it comes.
    Streams,
    /// The last message is the answer, and is written when the run is over; those before it go to stderr.
    Held,
}

/// A run that is over, as far as this process can tell.
#[derive(Debug)]
struct Ended {
    session: SessionId,
    /// `None` when the run did not end here.
    report: Option<Arc<RunReport>>,
}

/// Shows one session's events.
#[derive(Debug)]
pub struct View {
    output: OutputArgs,
    flow: Flow,
    /// What goes before each line beside the text: whose it is, where several runs share the output.
    label: String,
    asking: Asking,
    colours: bool,
    /// Whether stdout is a screen, which text must not control.
    screen: bool,
    /// Whether nobody can be asked.
    unattended: bool,
    /// Whether somebody watches stderr.
    progress: bool,
    /// Whether lines at its bottom may change.
    is_live: bool,
    live: Live,
    /// How many questions wait for an answer; the bottom of the screen is theirs.
    questions: usize,
    /// The message that streams.
    open: Option<MessageId>,
    mid_line: bool,
    /// What the open message has put on the screen, and whether something stands below it.
    streamed: String,
    disturbed: bool,
    /// The message as Markdown, where that is shown, and the rows it has taken.
    page: Option<Markdown>,
    rows: usize,
    /// What the model has thought and nobody was shown.
    thought: String,
    /// The last message, as long as it may be the answer.
    held: Option<String>,
    seen_ends: HashSet<LoopId>,
    ended: Option<Ended>,
    sub_agents: SubAgents,
    totals: Totals,
    broken: Option<io::Error>,
}

impl View {
    /// A view as the flags want it.
    pub fn new(output: &OutputArgs, runs: Runs, asking: &Asking) -> Self {
        let screen = io::stdout().is_terminal();
        let is_told = output.form() != OutputForm::StreamJson && output.detail() != Detail::Quiet;
        let flow = match (output.form(), runs) {
            (OutputForm::Text, Runs::One) if screen && is_told => Flow::Streams,
            (OutputForm::Text | OutputForm::Json | OutputForm::StreamJson, Runs::One | Runs::Several) => Flow::Held,
        };
        Self {
            output: output.clone(),
            flow,
            label: String::new(),
            asking: asking.clone(),
            colours: stderr_colours(),
            screen,
            unattended: !can_ask(),
            progress: is_told && runs == Runs::One && io::stderr().is_terminal(),
            is_live: is_told && runs == Runs::One && stderr_size().is_some(),
            live: Live::default(),
            questions: 0,
            open: None,
            mid_line: false,
            streamed: String::new(),
            disturbed: false,
            page: None,
            rows: 0,
            thought: String::new(),
            held: None,
            seen_ends: HashSet::new(),
            ended: None,
            sub_agents: SubAgents::default(),
            totals: Totals::new(Instant::now()),
            broken: None,
        }
    }

    /// Says with every line beside the text whose it is; empty where there is one run.
    pub fn label(&mut self, label: String) {
        self.label = label;
    }

    /// Shows an event. After an error nothing more is written.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        self.sub_agents.take(event);
        self.totals.take(&event.event);
        if let AgentEvent::AgentEnd { .. } = &event.event {
            self.seen_ends.extend(event.loop_id.clone());
        }
        let shown = match self.output.form() {
            _ if self.broken.is_some() => Ok(()),
            OutputForm::StreamJson => json_line(event),
            OutputForm::Text | OutputForm::Json => self.tell(event),
        };
        if let AgentEvent::PermissionRequired { permission_id, .. } = &event.event {
            self.asking.is_due(permission_id);
        }
        self.draw();
        shown.inspect_err(|error| self.broken = Some(io::Error::new(error.kind(), error.to_string())))
    }

    /// Says what waits for approval, and how to give it.
    pub fn plan(&mut self, session: &str, plan: &[PlannedChange]) {
        if self.output.form() == OutputForm::StreamJson {
            return;
        }
        let changes =
            if plan.len() == 1 { "1 change waits".to_owned() } else { format!("{} changes wait", plan.len()) };
        self.note(Tint::Dim, &format!("{changes} for approval: playhouse plan show {session}"));
    }

    /// Whose run it is: everyone else is a sub-agent.
    pub fn is_of(&mut self, agent: &AgentId) {
        self.sub_agents.root_is(agent);
        self.ended = None;
        self.narrate_held();
    }

    /// How the run ended; `None` if it did not end here.
    pub fn has_ended(&mut self, session: &SessionId, report: Option<Arc<RunReport>>) {
        self.ended = Some(Ended { session: session.clone(), report });
    }

    /// Whether the end of this run was shown.
    pub fn saw_end(&self, run: &LoopId) -> bool {
        self.seen_ends.contains(run)
    }

    /// Whether everything could be written.
    pub fn written(&self) -> Result<(), &io::Error> {
        self.broken.as_ref().map_or(Ok(()), Err)
    }

    /// Ends the output with the answer, if it is not on the screen, and with what is missing in it.
    pub fn finish(&mut self, done: Result<(), Exit>) -> Result<(), Exit> {
        self.live.is_over();
        self.clear();
        let ended_line = if self.broken.is_some() { Ok(()) } else { self.end_line() };
        let ended = self.ended.take().filter(|_| !matches!(done, Err(Exit::Refused(_))));
        let report = ended.as_ref().and_then(|ended| ended.report.as_deref()).filter(|_| done.is_ok());
        let incomplete = ended.as_ref().and_then(|ended| Incomplete::of(ended.report.as_deref()?));
        let done = done.and_then(|()| ended_line.map_err(|error| unwritten(&error)));
        let done = self.output.judged(done, incomplete);
        if !self.label.is_empty() && report.is_some_and(|report| !report.text().is_empty()) {
            self.note(Tint::Dim, "answers:");
        }
        let written = match (self.output.form(), &ended) {
            _ if self.broken.is_some() => Ok(()),
            (OutputForm::Json, Some(Ended { session, report })) => {
                write_out(&document(session, report.as_deref(), &self.totals, &done))
            }
            (OutputForm::Text, _) if self.flow == Flow::Held => {
                report.map_or(Ok(()), |report| self.put_answer(&report.text()))
            }
            (OutputForm::Text | OutputForm::Json | OutputForm::StreamJson, _) => Ok(()),
        };
        match report {
            Some(report) => {
                self.held = None;
                self.output.keep(&report.text())?;
            }
            None => self.narrate_held(),
        }
        if let (Some(incomplete), Ok(())) = (incomplete, &done) {
            self.note(Tint::Red, &format!("note: {incomplete}"));
        }
        done?;
        written.map_err(|error| unwritten(&error))
    }

    fn put_answer(&self, answer: &str) -> io::Result<()> {
        let Some((columns, _)) = size().filter(|_| stdout_colours()) else {
            return write_out(&self.on_screen(&closed(answer)));
        };
        let mut page = Markdown::new(columns);
        let mut lines = page.push(answer);
        lines.extend(page.end());
        write_out(&lines.iter().map(|line| format!("{}\n", line.text)).collect::<String>())
    }

    /// Text that may be shown as it is.
    fn on_screen<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.screen { Cow::Owned(harmless(text)) } else { Cow::Borrowed(text) }
    }

    /// The message that was held is no answer: another one came, or the run failed.
    fn narrate_held(&mut self) {
        if let Some(text) = self.held.take() {
            self.narrate(&text);
        }
    }

    /// Words of the model that are not its answer.
    fn narrate(&mut self, text: &str) {
        if text.trim().is_empty() || self.output.detail() == Detail::Quiet {
            return;
        }
        self.clear();
        let text = closed(text);
        let shown = if io::stderr().is_terminal() { Cow::Owned(harmless(&text)) } else { Cow::Borrowed(&*text) };
        // With stderr gone there is nobody to tell.
        let _ = io::stderr().lock().write_all(shown.as_bytes());
    }

    /// Whether [`View::tick`] has something to do.
    pub fn has_progress(&self) -> bool {
        self.is_live && self.live.has_something()
    }

    /// Whether nothing is written before the end, so that a reader who leaves is not noticed by writing.
    pub fn waits_with_answer(&self) -> bool {
        self.flow == Flow::Held && self.output.form() != OutputForm::StreamJson
    }

    /// Whether whoever was to read the answer is gone.
    pub fn has_lost_reader(&mut self) -> bool {
        if self.waits_with_answer() && self.broken.is_none() && !stdout_is_read() {
            self.broken = Some(io::ErrorKind::BrokenPipe.into());
            return true;
        }
        false
    }

    /// Draws the next frame of what changes.
    pub fn tick(&mut self) {
        self.draw();
    }

    /// Draws the lines at the bottom, unless somebody types there or a line of text is open.
    fn draw(&mut self) {
        if self.is_live && !self.mid_line && self.questions == 0 && !self.asking.is_open() {
            self.live.draw(self.page.as_ref().and_then(Markdown::pending));
        }
    }

    fn clear(&mut self) {
        self.live.erase();
    }

    /// A line beside the text.
    pub fn note(&mut self, tint: Tint, line: &str) {
        if self.output.detail() != Detail::Quiet {
            self.put_line(tint, line);
        }
    }

    /// What has to be said even when nothing else is.
    pub fn warn(&mut self, line: &str) {
        self.put_line(Tint::Red, line);
    }

    fn put_line(&mut self, tint: Tint, line: &str) {
        self.put_text(tint, &one_line(line));
    }

    fn put_text(&mut self, tint: Tint, line: &str) {
        self.clear();
        self.disturbed = true;
        let before = if self.asking.is_open() { "\n" } else { "" };
        let (on, off) = tint.codes(self.colours);
        // With stderr gone there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{before}{on}{}{line}{off}", self.label);
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
                // No model said it, and how the message ended is said when the run is over.
                StreamDelta::Text { delta } if is_stand_in(delta) => {}
                StreamDelta::Text { delta } => match self.flow {
                    Flow::Streams => {
                        if self.open.as_ref() != Some(message_id) {
                            self.show_thought();
                            self.open = Some(message_id.clone());
                            self.begin_text();
                        }
                        self.say(delta)?;
                    }
                    Flow::Held => self.wait_for("the model is writing"),
                },
                StreamDelta::Thinking { delta } => {
                    self.thought.push_str(delta);
                    self.wait_for("the model is thinking");
                }
                StreamDelta::ToolCallDelta { .. } => self.wait_for("waiting for the model"),
            },
            AgentEvent::MessageEnd { message_id, message } => match message.llm() {
                Some(Message::Assistant { stop_reason, .. }) => {
                    let streamed = self.open.take().is_some_and(|open| open == *message_id);
                    self.live.waits_no_more();
                    if *stop_reason == StopReason::Error {
                        self.thought.clear();
                    }
                    self.show_thought();
                    let text = message.llm().map(Message::words).unwrap_or_default();
                    let calls = message.llm().is_some_and(|message| message.tool_calls().next().is_some());
                    match (self.flow, stop_reason) {
                        (Flow::Streams, StopReason::Error) if streamed => self.strike()?,
                        (_, StopReason::Error) => {}
                        (Flow::Streams, _) => {
                            if !streamed {
                                self.begin_text();
                                self.say(&text)?;
                            }
                            self.end_line()?;
                        }
                        // Its calls are told of next.
                        (Flow::Held, _) if calls => {
                            self.narrate_held();
                            self.narrate(&text);
                        }
                        (
                            Flow::Held,
                            StopReason::Stop
                            | StopReason::Length
                            | StopReason::Refusal
                            | StopReason::ToolUse
                            | StopReason::Aborted,
                        ) => {
                            self.narrate_held();
                            self.held = Some(text);
                        }
                    }
                }
                Some(Message::User { .. } | Message::ToolResult { .. }) | None => {}
            },
            AgentEvent::AgentEnd { .. } => {
                self.live.is_over();
                self.clear();
                self.end_line()?;
                if self.progress {
                    let line = self.totals.line(self.sub_agents.count());
                    self.note(Tint::Dim, &line);
                }
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } => {
                let line = summary(tool_name, args, &Ok(ToolResult::text("")));
                let line = format!("▸ {}", self.sub_agents.named(event, tool_call_id, tool_name, &line));
                if !self.is_live {
                    self.beside(event, Tint::Dim, &line);
                }
                let line = one_line(&format!("{}{line}", self.sub_agents.lead(event)));
                self.live.waits_no_more();
                self.live.begin(&event.agent_id, tool_call_id, line, args.clone());
            }
            AgentEvent::ToolExecutionEnd {
                tool_call_id, tool_name, result, summary, is_error, duration_ms, ..
            } => {
                let args = self.live.end(&event.agent_id, tool_call_id).map(|call| call.args).unwrap_or_default();
                let line = self.sub_agents.named(event, tool_call_id, tool_name, summary);
                let line = format!("{}• {line} {}", self.sub_agents.lead(event), seconds(*duration_ms));
                self.card(cards::tint(tool_name, result, *is_error), &one_line(&line));
                let is_own = self.sub_agents.of(event).is_none();
                if is_own && (self.is_live || self.output.detail() == Detail::All) {
                    for (tint, line) in cards::below(tool_name, &args, result, *is_error, self.output.detail()) {
                        self.card(tint, &line);
                    }
                }
                for line in refused(tool_name, result) {
                    self.beside(event, Tint::Red, &format!("  sandbox: {line}"));
                }
            }
            AgentEvent::ToolBlocked { tool_call_id, tool_name, stage, reason, .. } => {
                self.live.end(&event.agent_id, tool_call_id);
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
                self.live.waits_no_more();
                self.questions += 1;
                self.clear();
            }
            AgentEvent::PermissionResolved { .. } => self.questions = self.questions.saturating_sub(1),
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
                self.live.forget(&event.agent_id);
                if self.sub_agents.of(event).is_none() && self.open.take().is_some() {
                    self.strike()?;
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

    /// A line of a call, no longer than the screen is wide.
    fn card(&mut self, tint: Tint, line: &str) {
        if self.output.detail() == Detail::Quiet {
            return;
        }
        let columns = stderr_size().filter(|_| self.output.detail() != Detail::All).map(|(columns, _)| columns);
        let line = columns.map_or_else(|| line.to_owned(), |columns| fitted(line, columns.saturating_sub(1)));
        self.put_text(tint, &line);
    }

    /// What the model has thought: one line of it, or all.
    fn show_thought(&mut self) {
        let thought = std::mem::take(&mut self.thought);
        let lines: Vec<&str> = thought.lines().filter(|line| !line.trim().is_empty()).collect();
        match self.output.detail() {
            Detail::All => lines.iter().for_each(|line| self.card(Tint::Dim, &format!("∴ {}", harmless(line)))),
            Detail::Usual if self.is_live && !lines.is_empty() => {
                let more = if lines.len() > 1 { format!(" (+{} lines)", lines.len() - 1) } else { String::new() };
                let first = lines.first().map(|line| one_line(line)).unwrap_or_default();
                let room = stderr_size().map_or(80, |(columns, _)| columns).saturating_sub(more.len() + 4);
                self.card(Tint::Dim, &format!("∴ {}{more}", fitted(&first, room)));
            }
            Detail::Usual | Detail::Quiet => {}
        }
    }

    fn wait_for(&mut self, what: &str) {
        if self.is_live {
            self.live.wait_for(what);
        }
    }

    /// Text comes that nothing of is on the screen.
    fn begin_text(&mut self) {
        self.streamed.clear();
        (self.disturbed, self.rows) = (false, 0);
        self.page = size().filter(|_| stdout_colours()).map(|(columns, _)| Markdown::new(columns));
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.streamed.push_str(text);
        if let Some(page) = &mut self.page {
            let lines = page.push(text);
            self.wait_for("the model is writing");
            return self.put_lines(&lines);
        }
        self.live.waits_no_more();
        self.clear();
        self.mid_line = !text.ends_with('\n');
        write_out(&self.on_screen(text))
    }

    /// Lines of the model's text that are complete.
    fn put_lines(&mut self, lines: &[ScreenLine]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.clear();
        let columns = size().map_or(80, |(columns, _)| columns);
        self.rows += lines.iter().map(|line| line.columns.max(1).div_ceil(columns)).sum::<usize>();
        write_out(&lines.iter().map(|line| format!("{}\n", line.text)).collect::<String>())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if let Some(mut page) = self.page.take() {
            self.live.waits_no_more();
            let lines = page.end();
            return self.put_lines(&lines);
        }
        if std::mem::take(&mut self.mid_line) { write_out("\n") } else { Ok(()) }
    }

    /// What the open message has put on the screen is no part of the answer.
    fn strike(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.streamed);
        self.clear();
        let is_page = self.page.take().is_some();
        if text.trim().is_empty() {
            return self.end_line();
        }
        if let Some((columns, rows)) = size().filter(|_| is_page && !self.disturbed)
            && self.rows < rows
        {
            let up = if self.rows > 0 { format!("\x1b[{}A", self.rows) } else { String::new() };
            let struck = fitted(&one_line(&text), columns.saturating_sub(1));
            return write_out(&format!("\r{up}\x1b[J\x1b[2m\x1b[9m{struck}\x1b[0m\n"));
        }
        self.end_line()?;
        self.note(Tint::Red, "✗ discarded: what stands above is no part of the answer");
        Ok(())
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

/// Whether stdout is no pipe, or one with a reader.
fn stdout_is_read() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let told = poll(&mut asked, Some(&Timespec::default()));
    told.is_err() || asked.iter().all(|one| !one.revents().contains(PollFlags::ERR))
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
