//! A text of several lines that a person types or pastes.
//!
//! The terminal hands on every key as it comes. Its own way of reading lines cannot tell a pasted empty line from a typed
//! one, leaves the rest of a paste to the shell, and cuts lines at 4,095 bytes.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

use playhouse::protocol::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::signal::unix;
use tokio::sync::oneshot;

use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::text::{harmless, is_dumb, stderr_width, width_of};

/// What stands before each line.
const LEAD: &str = "> ";
/// How long after an empty line more of the same paste may come, from a terminal that does not mark pastes. Nobody types
/// this fast.
const PASTE_GAP: Duration = Duration::from_millis(50);
/// How long it takes until all threads are stopped, at most.
const STOPPED_BY: Duration = Duration::from_secs(1);
/// The longest text, in bytes: as much as may be piped in.
const MOST: usize = 1 << 20;

/// How the terminal was before; `None` while it is so.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Lets a person enter a text. `None` if they asked to stop.
pub fn enter(mut interrupt: Interrupt) -> io::Result<Option<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let taken = GivesBack;
    take_over()?;
    let (sender, text) = oneshot::channel();
    // A read of a terminal cannot be called off. After a signal the program ends, and this with it.
    std::thread::Builder::new().name("entry".to_owned()).spawn(move || sender.send(typed()))?;
    let text = runtime.block_on(async {
        tokio::select! {
            biased;
            () = interrupt.asked() => Ok(None),
            text = text => text.unwrap_or_else(|gone| Err(io::Error::other(gone))).map(Some),
        }
    });
    drop(taken);
    text
}

/// Whether stdin has something or has ended, within this time.
pub fn stdin_is_ready(limit: Option<Duration>) -> bool {
    let (stdin, limit) = (io::stdin(), limit.and_then(|limit| Timespec::try_from(limit).ok()));
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    loop {
        match poll(&mut watched, limit.as_ref()) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            // What cannot be watched is read, and that says what is wrong with it.
            Err(_) => return true,
        }
    }
}

/// Makes the terminal what it was before a text was entered, if it is not. What is typed and not read is thrown away: the
/// shell must not take the end of a paste for a command.
pub fn give_back() {
    let Some(before) = lock(&BEFORE).take() else { return };
    if !is_dumb() {
        say("\x1b[?2004l");
    }
    // A terminal that is gone needs nothing.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
}

/// Lets the terminal hand on every key, and mark what is pasted, if it can.
fn take_over() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut modes = before.clone();
    modes.input_modes.remove(InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR);
    // Signals are raised here, for none is meant by what is pasted.
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    *lock(&BEFORE) = Some(before);
    tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
    if !is_dumb() {
        say("\x1b[?2004h");
    }
    Ok(())
}

/// Gives the terminal back when it is dropped.
struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        give_back();
    }
}

fn say(text: &str) {
    // With stderr gone there is nobody to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Reads keys until the text ends.
fn typed() -> io::Result<String> {
    let mut entry = Entry::new(stderr_width().unwrap_or(80));
    say(LEAD);
    let mut buffer = [0; 4096];
    loop {
        let count = match rustix::io::read(io::stdin(), &mut buffer) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut keys = buffer.iter().take(count).peekable();
        while let Some(key) = keys.next() {
            match entry.take(*key) {
                Step::GoesOn => {}
                Step::EmptyLine if keys.peek().is_none() && !stdin_is_ready(Some(PASTE_GAP)) => return entry.end(),
                Step::EmptyLine => entry.echo.push_str(LEAD),
                Step::Ends => return entry.end(),
                Step::Raises(signal) => {
                    say(&std::mem::take(&mut entry.echo));
                    raise(signal, &mut entry)?;
                }
            }
        }
        say(&std::mem::take(&mut entry.echo));
        if count == 0 {
            return entry.end();
        }
        if entry.text.len() > MOST {
            return Err(io::Error::other("it is more than 1 MiB: put it into a file, and name that in the prompt"));
        }
    }
}

/// Does what the terminal does itself at other times, for all programs of this command.
fn raise(signal: Signal, entry: &mut Entry) -> io::Result<()> {
    if signal != Signal::TSTP {
        say("\n");
        return Ok(kill_current_process_group(signal)?);
    }
    give_back();
    // Other threads may be told to stop before this one, so it waits until it is told to go on. Where nobody could tell
    // it so, the system does not stop it either.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut goes_on = unix::signal(unix::SignalKind::from_raw(Signal::CONT.as_raw()))?;
        kill_current_process_group(signal)?;
        let _ = tokio::time::timeout(STOPPED_BY, goes_on.recv()).await;
        io::Result::Ok(())
    })?;
    take_over()?;
    entry.echo.push('\n');
    entry.show_line();
    Ok(())
}

/// What a key does beside changing the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoesOn,
    /// Ends the text, unless more of a paste is there.
    EmptyLine,
    Ends,
    Raises(Signal),
}

/// A text that is being entered.
#[derive(Debug)]
struct Entry {
    text: String,
    /// What the screen is to be sent.
    echo: String,
    columns: usize,
    /// Where the cursor is, counted from where the line begins.
    row: usize,
    column: usize,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    /// What has come of a sequence that began with escape.
    sequence: Option<String>,
    is_pasting: bool,
    /// Whether the last key was a return, with which a line feed is one line end.
    is_return: bool,
}

impl Entry {
    fn new(columns: usize) -> Self {
        Self {
            text: String::new(),
            echo: String::new(),
            columns: columns.max(LEAD.len() + 2),
            row: 0,
            column: LEAD.len(),
            partial: Vec::new(),
            sequence: None,
            is_pasting: false,
            is_return: false,
        }
    }

    /// The text, without the empty lines at its end.
    fn end(&mut self) -> io::Result<String> {
        say(&std::mem::take(&mut self.echo));
        Ok(self.text.trim_end().to_owned())
    }

    fn take(&mut self, key: u8) -> Step {
        let after_return = std::mem::replace(&mut self.is_return, key == b'\r');
        if self.sequence.is_some() && key >= b' ' {
            self.take_sequence(key);
            return Step::GoesOn;
        }
        self.sequence = None;
        match key {
            b'\x1b' => self.sequence = Some(String::new()),
            b'\n' if after_return => {}
            b'\r' | b'\n' => return self.end_line(),
            b'\t' => self.push('\t'),
            b' '..b'\x7f' | b'\x80'.. => self.take_byte(key),
            // What else is pasted is no key that somebody pressed.
            _ if self.is_pasting => {}
            b'\x04' => {
                self.echo.push('\n');
                return Step::Ends;
            }
            b'\x03' => return Step::Raises(Signal::INT),
            b'\x1c' => return Step::Raises(Signal::QUIT),
            b'\x1a' => return Step::Raises(Signal::TSTP),
            b'\x08' | b'\x7f' => self.erase(1),
            // Ctrl-U and Ctrl-W.
            b'\x15' => self.erase(usize::MAX),
            b'\x17' => {
                let line = self.line();
                let kept = line.trim_end().trim_end_matches(|c: char| !c.is_whitespace());
                self.erase(line.chars().count() - kept.chars().count());
            }
            _ => {}
        }
        Step::GoesOn
    }

    /// Arrows and the like change nothing; two sequences are the marks of a paste.
    fn take_sequence(&mut self, key: u8) {
        let Some(sequence) = &mut self.sequence else { return };
        sequence.push(char::from(key));
        let is_over = match (sequence.chars().next(), sequence.len()) {
            (Some('['), 1) | (Some('O'), 1) => false,
            (Some('['), ..32) => (b'@'..=b'~').contains(&key),
            _ => true,
        };
        match sequence.as_str() {
            "[200~" => self.is_pasting = true,
            "[201~" => self.is_pasting = false,
            _ => {}
        }
        if is_over {
            self.sequence = None;
        }
    }

    fn take_byte(&mut self, byte: u8) {
        self.partial.push(byte);
        let c = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.chars().next(),
            Err(error) if error.error_len().is_none() => return,
            Err(_) => Some(char::REPLACEMENT_CHARACTER),
        };
        self.partial.clear();
        if let Some(c) = c.filter(|c| !c.is_control()) {
            self.push(c);
        }
    }

    fn push(&mut self, c: char) {
        self.text.push(c);
        self.show(c);
    }

    fn end_line(&mut self) -> Step {
        let is_empty = self.line().trim().is_empty();
        if is_empty && self.text.trim().is_empty() {
            // Nothing was said yet.
            self.text.clear();
        } else {
            self.text.push('\n');
        }
        self.echo.push('\n');
        (self.row, self.column) = (0, LEAD.len());
        if is_empty && !self.is_pasting && !self.text.is_empty() {
            return Step::EmptyLine;
        }
        self.echo.push_str(LEAD);
        Step::GoesOn
    }

    /// The line that is being entered.
    fn line(&self) -> &str {
        self.text.rsplit('\n').next().unwrap_or_default()
    }

    /// Takes so many characters off the end of the line, and no more than it has.
    fn erase(&mut self, count: usize) {
        let count = count.min(self.line().chars().count());
        if count == 0 {
            return;
        }
        for _ in 0..count {
            self.text.pop();
        }
        let up = if self.row > 0 { format!("\x1b[{}A", self.row) } else { String::new() };
        // A screen that cannot be drawn on shows the line again below.
        self.echo.push_str(&if is_dumb() { "\n".to_owned() } else { format!("\r{up}\x1b[J") });
        self.show_line();
    }

    /// Puts the line on the screen, which has nothing of it.
    fn show_line(&mut self) {
        self.echo.push_str(LEAD);
        (self.row, self.column) = (0, LEAD.len());
        for c in self.line().to_owned().chars() {
            self.show(c);
        }
    }

    fn show(&mut self, c: char) {
        let shown = if c == '\t' { "    ".to_owned() } else { harmless(c.encode_utf8(&mut [0; 4])) };
        for c in shown.chars() {
            let width = width_of(c.encode_utf8(&mut [0; 4]));
            if self.column + width > self.columns {
                (self.row, self.column) = (self.row + 1, 0);
            }
            self.echo.push(c);
            self.column += width;
            if self.column == self.columns {
                // Terminals go on to the next line with the next character: so does this.
                self.echo.push_str(" \r");
                (self.row, self.column) = (self.row + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &str) -> (String, Vec<Step>) {
        let mut entry = Entry::new(20);
        let steps = keys.bytes().map(|key| entry.take(key)).filter(|step| *step != Step::GoesOn).collect();
        (entry.text, steps)
    }

    #[test]
    fn an_empty_line_ends_a_text_that_is_typed_and_none_that_is_pasted() {
        assert_eq!(after("\r \ra\rb\r\r"), ("a\nb\n\n".to_owned(), vec![Step::EmptyLine]));
        assert_eq!(after("\x1b[200~a\r\rb\r\r\x1b[201~"), ("a\n\nb\n\n".to_owned(), vec![]));
        assert_eq!(after("\x1b[200~a\r\n\r\nb\x04\x1b[201~c\x04"), ("a\n\nbc".to_owned(), vec![Step::Ends]));
        assert_eq!(after("\x1b[200~\x03\x1a\x1c\x1b[201~\x03").1, [Step::Raises(Signal::INT)]);
    }

    #[test]
    fn keys_that_are_no_text_leave_none() {
        assert_eq!(after("a\x1b[A\x1bOA\x1b[1;5Cb\x1bxc\x1b\r\x01d").0, "abc\nd");
        assert_eq!(after("one two  \x17three\x7f\x7f").0, "one thr");
        assert_eq!(after("a\rb\x15\x7f\x7fc").0, "a\nc");
    }

    #[test]
    fn a_line_that_was_wrapped_is_drawn_again_from_where_it_began() {
        let mut entry = Entry::new(10);
        entry.take(b'\t');
        "abcdef".bytes().for_each(|key| assert_eq!(entry.take(key), Step::GoesOn));
        assert_eq!((entry.echo.as_str(), entry.row, entry.column), ("    abcd \ref", 1, 2));
        entry.echo.clear();
        entry.take(b'\x7f');
        assert_eq!((entry.echo.as_str(), entry.row, entry.column), ("\r\x1b[1A\x1b[J>     abcd \re", 1, 1));
        entry.echo.clear();
        "漢字漢字漢".bytes().for_each(|key| assert_eq!(entry.take(key), Step::GoesOn));
        assert_eq!((entry.row, entry.column), (2, 2), "a wide character is not cut in two");
    }

    #[test]
    fn what_is_no_text_in_utf8_is_shown_as_such() {
        let mut entry = Entry::new(20);
        [b'a', 0xff, 0xc3, 0xa9, 0xe2, b'b'].iter().for_each(|key| assert_eq!(entry.take(*key), Step::GoesOn));
        assert_eq!(entry.text, "a\u{fffd}é\u{fffd}");
    }
}
