//! The real program on a real terminal, which `script` gives it.

use std::io::{Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::Desk;

const DEADLINE: Duration = Duration::from_secs(120);
const INTERRUPT: u8 = 3;

impl Desk {
    /// Runs it on a terminal of 40 rows and 100 columns; gives its exit code and everything that came on the screen.
    pub fn on_terminal(&self, args: &[&str]) -> (Option<i32>, String) {
        perform(self.at_terminal(args), None)
    }

    /// As `on_terminal`, with so many columns; gives what is on the screen in the end, row by row, and the bytes.
    pub fn screen(&self, columns: usize, args: &[&str]) -> (Vec<String>, String) {
        let mut command = self.at_terminal_of(columns, args);
        command.env("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "1");
        let (code, bytes) = perform(command, None);
        assert_eq!(code, Some(0), "{bytes}");
        (rows(&bytes, columns), bytes)
    }

    /// As `screen`, however it ends.
    pub fn at_terminal_columns(&self, columns: usize, args: &[&str]) -> (Option<i32>, Vec<String>) {
        let (code, bytes) = perform(self.at_terminal_of(columns, args), None);
        (code, rows(&bytes, columns))
    }

    pub fn on_terminal_without_colours(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = self.at_terminal(args);
        command.env("NO_COLOR", "1");
        perform(command, None)
    }

    /// As `on_terminal`; someone presses Ctrl-C when this is on the screen.
    pub fn on_terminal_interrupted(&self, args: &[&str], at: &str) -> (Option<i32>, String) {
        perform(self.at_terminal(args), Some(at))
    }

    /// As `on_terminal`, with this file as the user's own; someone types the answer when a question is on the screen.
    pub fn on_terminal_answering(
        &self,
        args: &[&str],
        config: &std::path::Path,
        answer: &str,
    ) -> (Option<i32>, String) {
        let mut command = self.at_terminal(args);
        command.env("PLAYHOUSE_CONFIG", config);
        perform_typing(command, "/?] ", answer.as_bytes())
    }

    /// As above; this is typed before the question is there.
    pub fn on_terminal_typing_ahead(&self, args: &[&str], early: &str, answer: &str) -> (Option<i32>, String) {
        let mut early = Some(early.as_bytes());
        perform_with(self.at_terminal(args), |screen, keys| {
            if let Some(early) = early.take_if(|_| screen.contains("Wait")) {
                keys.write_all(early).unwrap();
            }
            screen.contains("/?] ").then(|| keys.write_all(answer.as_bytes()).unwrap()).is_some()
        })
    }

    /// As `on_terminal_answering`; each of these is typed when what comes before it is on the screen, behind where the one
    /// before it was.
    pub fn on_terminal_typing(
        &self,
        args: &[&str],
        config: &std::path::Path,
        steps: &[(&str, &str)],
    ) -> (Option<i32>, String) {
        let mut command = self.at_terminal(args);
        command.env("PLAYHOUSE_CONFIG", config);
        perform_with(command, in_order(steps))
    }

    /// Runs a line of a shell on a terminal; each of these is typed when what comes before it is on the screen, behind
    /// where the one before it was.
    pub fn at_shell(&self, line: &str, steps: &[(&str, &str)]) -> (Option<i32>, String) {
        self.at_shell_with(line, in_order(steps))
    }

    /// As above; someone looks at the screen whenever it changes, until they have typed what they wanted to.
    pub fn at_shell_with(&self, line: &str, look: impl FnMut(&str, &mut ChildStdin) -> bool) -> (Option<i32>, String) {
        perform_with(self.line_at_terminal(100, line), look)
    }

    /// As `on_terminal_typing`, with so many columns; gives what is on the screen in the end, row by row, too.
    pub fn screen_typing(
        &self,
        columns: usize,
        args: &[&str],
        steps: &[(&str, &str)],
    ) -> (Option<i32>, Vec<String>, String) {
        let (code, bytes) = perform_with(self.at_terminal_of(columns, args), in_order(steps));
        (code, rows(&bytes, columns), bytes)
    }

    fn at_terminal(&self, args: &[&str]) -> Command {
        self.at_terminal_of(100, args)
    }

    fn at_terminal_of(&self, columns: usize, args: &[&str]) -> Command {
        let words = [env!("CARGO_BIN_EXE_playhouse")].into_iter().chain(args.iter().copied());
        let words: Vec<String> = words.map(quoted).collect();
        self.line_at_terminal(columns, &format!("exec {}", words.join(" ")))
    }

    fn line_at_terminal(&self, columns: usize, line: &str) -> Command {
        // Whoever runs these tests in the background may ignore signals, which would be handed down.
        let line =
            format!("stty rows 40 cols {columns}; exec env --default-signal=HUP,INT,QUIT,TERM sh -c {}", quoted(line));
        let plain = self.command(&[]);
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]).current_dir(self.work()).env("TERM", "xterm");
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// Types each of these when what comes before it is on the screen, behind where the one before it was.
fn in_order<'a>(mut steps: &'a [(&'a str, &'a str)]) -> impl FnMut(&str, &mut ChildStdin) -> bool + 'a {
    let mut from = 0;
    move |screen, keys| {
        while let [(seen, typed), rest @ ..] = steps
            && let Some(place) = screen.get(from..).and_then(|new| new.find(seen))
        {
            keys.write_all(typed.as_bytes()).unwrap();
            (from, steps) = (from + place + seen.len(), rest);
        }
        steps.is_empty()
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What a terminal of so many columns shows after these bytes, as far as this program draws.
fn rows(bytes: &str, columns: usize) -> Vec<String> {
    let mut screen: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut kept = (0, 0);
    let mut chars = bytes.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                match chars.next() {
                    Some('[') => {}
                    Some('7') => {
                        kept = (row, column);
                        continue;
                    }
                    Some('8') => {
                        (row, column) = kept;
                        continue;
                    }
                    other => panic!("{other:?} in {bytes:?}"),
                }
                let mut number = String::new();
                let end = chars.by_ref().find(|c| {
                    number.extend(c.is_ascii_digit().then_some(*c));
                    c.is_ascii_alphabetic()
                });
                match end {
                    Some('A') => row -= number.parse::<usize>().unwrap_or(1),
                    Some('K') => screen[row].truncate(column),
                    Some('J') => {
                        screen.truncate(row + 1);
                        screen[row].truncate(column);
                    }
                    Some('m') => {}
                    other => panic!("{other:?} in {bytes:?}"),
                }
            }
            c => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                if screen.len() <= row {
                    screen.resize(row + 1, Vec::new());
                }
                if screen[row].len() <= column {
                    screen[row].resize(column + 1, ' ');
                }
                screen[row][column] = c;
                column += 1;
            }
        }
        if screen.len() <= row {
            screen.resize(row + 1, Vec::new());
        }
    }
    let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
    let mut rows: Vec<String> = screen.iter().map(text).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

fn perform(command: Command, interrupt_at: Option<&str>) -> (Option<i32>, String) {
    match interrupt_at {
        Some(at) => perform_typing(command, at, &[INTERRUPT]),
        None => perform_typing(command, "", &[]),
    }
}

/// Types these keys once, when this is on the screen.
fn perform_typing(command: Command, at: &str, typed: &[u8]) -> (Option<i32>, String) {
    perform_with(command, |screen, keys| {
        let is_time = !typed.is_empty() && screen.contains(at);
        is_time.then(|| keys.write_all(typed).unwrap()).is_some()
    })
}

/// Lets someone look at the screen whenever it changes, until they have typed what they wanted to.
fn perform_with(mut command: Command, mut look: impl FnMut(&str, &mut ChildStdin) -> bool) -> (Option<i32>, String) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` is needed");
    let mut keys = child.stdin.take().unwrap();
    let mut terminal = child.stdout.take().unwrap();
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let begun = Instant::now();
    let (mut screen, mut is_done) = (Vec::new(), false);
    while let Ok(piece) = pieces.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
        screen.extend(piece);
        is_done = is_done || look(&String::from_utf8_lossy(&screen), &mut keys);
    }
    if begun.elapsed() >= DEADLINE {
        child.kill().unwrap();
        panic!("the program did not end: {}", String::from_utf8_lossy(&screen));
    }
    drop(keys);
    (child.wait().unwrap().code(), String::from_utf8_lossy(&screen).into_owned())
}
