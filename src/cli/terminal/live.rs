//! The lines at the bottom of the screen that change: calls under way, text that is not complete, what is waited for.

use std::io::{self, Write};
use std::time::Instant;

use playhouse::protocol::{AgentId, ToolCallId};
use serde_json::Value;

use crate::cli::terminal::text::{Tint, fitted, one_line, stderr_size};

/// A call that is under way.
#[derive(Debug)]
pub struct OpenCall {
    agent: AgentId,
    id: ToolCallId,
    /// Its line, with what stands before it.
    line: String,
    pub args: Value,
}

/// What changes at the bottom of the screen. It is drawn on stderr, and erased before anything else is written.
#[derive(Debug, Default)]
pub struct Live {
    calls: Vec<OpenCall>,
    /// What is waited for, and since when.
    waiting: Option<(String, Instant)>,
    frame: usize,
    /// How many lines are on the screen.
    drawn: usize,
}

impl Live {
    pub fn begin(&mut self, agent: &AgentId, id: &ToolCallId, line: String, args: Value) {
        self.calls.push(OpenCall { agent: agent.clone(), id: id.clone(), line, args });
    }

    /// The call, which is no longer under way.
    pub fn end(&mut self, agent: &AgentId, id: &ToolCallId) -> Option<OpenCall> {
        let at = self.calls.iter().position(|call| call.agent == *agent && call.id == *id)?;
        Some(self.calls.remove(at))
    }

    pub fn wait_for(&mut self, what: &str) {
        if self.waiting.as_ref().is_none_or(|(now, _)| now != what) {
            self.waiting = Some((what.to_owned(), Instant::now()));
        }
    }

    pub fn waits_no_more(&mut self) {
        self.waiting = None;
    }

    /// What an agent had under way is no more: it was restarted.
    pub fn forget(&mut self, agent: &AgentId) {
        self.calls.retain(|call| call.agent != *agent);
    }

    /// Nothing is under way any more.
    pub fn is_over(&mut self) {
        self.waiting = None;
        self.calls.clear();
    }

    pub fn has_something(&self) -> bool {
        self.waiting.is_some() || !self.calls.is_empty()
    }

    /// Takes the lines off the screen.
    pub fn erase(&mut self) {
        let lines = std::mem::take(&mut self.drawn);
        if lines > 0 {
            // With stderr gone there is nobody to see it.
            let _ = io::stderr().lock().write_all(erasing(lines).as_bytes());
        }
    }

    /// Draws the lines anew, with the beginning of what is not complete.
    pub fn draw(&mut self, unfinished: Option<&str>) {
        let Some((columns, rows)) = stderr_size() else { return };
        let (on, off) = Tint::Dim.codes(true);
        // Room for what is waited for, for unfinished text, and for the line that says how many calls are not shown.
        let room = rows.saturating_sub(4).max(1);
        let mut lines: Vec<String> = self.calls.iter().take(room).map(|call| call.line.clone()).collect();
        if self.calls.len() > room {
            lines.push(format!("… and {} more calls", self.calls.len() - room));
        }
        lines.extend(unfinished.map(one_line));
        if let Some((what, since)) = &self.waiting {
            lines.push(format!("… {what}{} {} s", self.dots(), since.elapsed().as_secs()));
        }
        let columns = columns.saturating_sub(1);
        let lines: Vec<String> = lines.iter().map(|line| format!("{on}{}{off}", fitted(line, columns))).collect();
        let text = format!("{}{}", erasing(self.drawn), lines.join("\n"));
        self.drawn = lines.len();
        self.frame += 1;
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    fn dots(&self) -> &'static str {
        const FRAMES: [&str; 4] = [".  ", ".. ", "...", "   "];
        FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default()
    }
}

fn erasing(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\r\x1b[K{}", "\x1b[1A\x1b[K".repeat(lines - 1)) }
}
