//! What a run looks like: text for a person, or one event per line.

mod ending;
mod telling;
mod text_flow;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use playhouse::agent::RunReport;
use playhouse::protocol::entry::PlannedChange;
use playhouse::protocol::{AgentEvent, AgentId, Event, LoopId, MessageId, SessionId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::terminal::ask::{Asking, can_ask};
use crate::cli::terminal::live::Live;
use crate::cli::terminal::markdown::Markdown;
use crate::cli::terminal::output::{Detail, OutputArgs, OutputForm};
use crate::cli::terminal::sub_agents::SubAgents;
use crate::cli::terminal::text::{
    HANG, Tint, for_stdout, harmless, one_line, stderr_colours, stderr_size, stderr_width,
};
use crate::cli::terminal::totals::Totals;
use crate::cli::terminal::wrap::wrapped;

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
        self.tell_amiss();
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

    /// Text that may be shown as it is.
    fn on_screen<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.screen { Cow::Owned(harmless(text)) } else { Cow::Borrowed(text) }
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
        self.tell_amiss();
        self.draw();
    }

    /// What became of answers, if it is not what the person was told.
    pub(super) fn tell_amiss(&mut self) {
        for text in self.asking.amiss() {
            self.warn(&format!("! {text}"));
        }
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

    /// Lines that are wider than the screen are wrapped by words.
    fn put_text(&mut self, tint: Tint, line: &str) {
        self.clear();
        self.disturbed = true;
        let before = self.asking.cover();
        let (on, off) = tint.codes(self.colours);
        let line = wrapped(&format!("{}{line}", self.label), HANG, stderr_width());
        // With stderr gone there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{before}{on}{line}{off}");
    }

    fn wait_for(&mut self, what: &str) {
        if self.is_live {
            self.live.wait_for(what);
        }
    }
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
