//! The model's text on the screen as it comes: as Markdown where that is shown, and struck if its attempt is discarded.

use std::io;

use super::{View, write_out};
use crate::cli::terminal::markdown::{Markdown, ScreenLine};
use crate::cli::terminal::text::{Tint, fitted, one_line, size, stdout_colours};

impl View {
    /// Text comes that nothing of is on the screen.
    pub(super) fn begin_text(&mut self) {
        self.streamed.clear();
        (self.disturbed, self.rows) = (false, 0);
        self.page = size().filter(|_| stdout_colours()).map(|(columns, _)| Markdown::new(columns));
    }

    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
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

    pub(super) fn end_line(&mut self) -> io::Result<()> {
        if let Some(mut page) = self.page.take() {
            self.live.waits_no_more();
            let lines = page.end();
            return self.put_lines(&lines);
        }
        if std::mem::take(&mut self.mid_line) { write_out("\n") } else { Ok(()) }
    }

    /// What the open message has put on the screen is no part of the answer.
    pub(super) fn strike(&mut self) -> io::Result<()> {
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
