//! The end of a run: the answer, and what is missing in it.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use super::{Ended, Flow, View, write_out};
use crate::cli::exit::Exit;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::markdown::Markdown;
use crate::cli::terminal::output::{Detail, Incomplete, OutputForm, closed, document};
use crate::cli::terminal::text::{Tint, harmless, size, stderr_width, stdout_colours};
use crate::cli::terminal::wrap::wrapped;

impl View {
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

    /// The message that was held is no answer: another one came, or the run failed.
    pub(super) fn narrate_held(&mut self) {
        if let Some(text) = self.held.take() {
            self.narrate(&text);
        }
    }

    /// Words of the model that are not its answer.
    pub(super) fn narrate(&mut self, text: &str) {
        if text.trim().is_empty() || self.output.detail() == Detail::Quiet {
            return;
        }
        self.clear();
        let text = closed(text);
        let before = self.asking.cover();
        let shown = match stderr_width() {
            Some(columns) => Cow::Owned(wrapped(&harmless(&text), 0, Some(columns))),
            None if io::stderr().is_terminal() => Cow::Owned(harmless(&text)),
            None => Cow::Borrowed(&*text),
        };
        // With stderr gone there is nobody to tell.
        let _ = write!(io::stderr().lock(), "{before}{shown}");
    }
}
