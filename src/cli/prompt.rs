//! What a run is told: the prompt, what is piped in beside it, and pictures.

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use playhouse::protocol::{Content, Message};
use playhouse::provider::is_whole_picture;
use playhouse::tools::picture;
use rustix::fs::{FileType, fstat};

use crate::cli::exit::Exit;
use crate::cli::terminal::entry::{self, stdin_is_ready};
use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::text::{Tint, error_line};

/// The most that may be piped in beside a prompt, in bytes: about what a large model can still take in.
const MOST: usize = 1 << 20;
/// When a person is told what is waited for.
const TOLD: Duration = Duration::from_secs(1);
/// How long a program that nobody watches waits for the first byte beside a prompt. Whoever started it may have left it
/// a pipe that is never written to.
const FIRST_BYTE: Duration = Duration::from_secs(5);
/// The largest picture, in bytes, as for `read_file`.
const LARGEST: u64 = 20_000_000;

/// What a user says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said(Vec<Content>);

impl Said {
    /// As a message of this time, in unix milliseconds.
    pub fn message(&self, timestamp: u64) -> Message {
        Message::User { content: self.0.clone(), timestamp }
    }

    /// Whether there is a picture in it.
    pub fn has_pictures(&self) -> bool {
        self.0.iter().any(|content| matches!(content, Content::Image { .. }))
    }
}

/// What stdin is.
enum Stdin {
    Terminal,
    /// A file, a pipe, or a socket, which is the pipe of some programs.
    Input,
    /// Closed, or a device.
    Nothing,
}

impl Stdin {
    fn of_this_process() -> Self {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Self::Terminal;
        }
        match fstat(&stdin).map(|about| FileType::from_raw_mode(about.st_mode)) {
            Ok(FileType::RegularFile | FileType::Fifo | FileType::Socket) => Self::Input,
            Ok(_) | Err(_) => Self::Nothing,
        }
    }
}

/// Whether someone will have to type the prompt.
pub fn is_asked_for(given: Option<&str>) -> bool {
    given.is_none() && matches!(Stdin::of_this_process(), Stdin::Terminal)
}

/// What is said: `given` and what is piped in beside it, or what stdin has when `given` is nothing or `-`; and pictures.
/// With an interrupt, a person is asked for the prompt.
pub fn read(given: Option<String>, pictures: &[PathBuf], interrupt: Option<&Interrupt>) -> Result<Said, Exit> {
    let pictures = pictures.iter().map(|path| picture_of(path)).collect::<Result<Vec<_>, _>>()?;
    let (text, context) = match (given, interrupt) {
        (Some(text), _) if text != "-" => (text, true),
        (None, Some(interrupt)) => (asked(interrupt.clone())?, false),
        (Some(_) | None, _) => (whole()?, false),
    };
    if text.trim().is_empty() {
        return Err(Exit::Refused("the prompt is empty: say something".to_owned()));
    }
    let text = match if context { beside()? } else { None } {
        Some(piped) => with_context(&text, &piped),
        None => text,
    };
    Ok(Said([Content::text(text)].into_iter().chain(pictures).collect()))
}

/// Lets a person type the prompt.
fn asked(interrupt: Interrupt) -> Result<String, Exit> {
    if !io::stderr().is_terminal() {
        return Err(Exit::Refused("there is no prompt: give one, or pipe it in".to_owned()));
    }
    let text = "What should be done? Type or paste any number of lines; an empty line ends it, or Ctrl-D.";
    error_line("", text, Tint::Dim);
    match entry::enter(interrupt) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(Exit::Interrupted("interrupted before the prompt was sent".to_owned())),
        Err(error) => Err(Exit::Refused(format!("the prompt cannot be read from the terminal: {error}"))),
    }
}

/// All of stdin as the prompt.
fn whole() -> Result<String, Exit> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(|error| {
        Exit::Refused(format!("the prompt cannot be read from stdin ({error}): it must be UTF-8 text"))
    })?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// What is piped in beside a prompt, if there is something.
fn beside() -> Result<Option<String>, Exit> {
    match Stdin::of_this_process() {
        Stdin::Terminal | Stdin::Nothing => return Ok(None),
        Stdin::Input => {}
    }
    let (mut input, mut bytes, mut waiting) = (io::stdin().lock(), Vec::new(), Waiting::new());
    loop {
        if let Waited::InVain = waiting.for_more(bytes.is_empty()) {
            let text =
                "nothing came from stdin, so the prompt goes without it; start with </dev/null where there is nothing";
            error_line("note: ", text, Tint::Dim);
            return Ok(None);
        }
        let piece = input.fill_buf().map_err(|error| Exit::Refused(format!("stdin cannot be read: {error}")))?;
        if piece.is_empty() {
            break;
        }
        bytes.extend_from_slice(piece);
        let taken = piece.len();
        input.consume(taken);
        if bytes.len() > MOST {
            let text =
                "more than 1 MiB came from stdin beside the prompt: put it into a file, and name that in the prompt";
            return Err(Exit::Refused(text.to_owned()));
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        let text =
            "what came from stdin beside the prompt is no UTF-8 text: convert it, or put it into a file and name that";
        Exit::Refused(text.to_owned())
    })?;
    let text = text.trim_end();
    Ok(if text.is_empty() { None } else { Some(text.to_owned()) })
}

/// What came of waiting for stdin.
enum Waited {
    /// It has something, or has ended.
    Ready,
    /// Nothing came, and nobody is there to do something about it.
    InVain,
}

/// Waits for stdin, for as long as a person sees that, or as something has come.
struct Waiting {
    is_watched: bool,
    is_told: bool,
}

impl Waiting {
    fn new() -> Self {
        Self { is_watched: io::stderr().is_terminal(), is_told: false }
    }

    fn for_more(&mut self, is_first: bool) -> Waited {
        if self.is_watched && !self.is_told {
            if stdin_is_ready(Some(TOLD)) {
                return Waited::Ready;
            }
            error_line("", "waiting for stdin to end, which is context for the prompt (Ctrl-C leaves)", Tint::Dim);
            self.is_told = true;
        }
        let limit = if is_first && !self.is_watched { Some(FIRST_BYTE) } else { None };
        if stdin_is_ready(limit) { Waited::Ready } else { Waited::InVain }
    }
}

/// The prompt with what was piped in, between marks that are not in it.
fn with_context(prompt: &str, piped: &str) -> String {
    let mut mark = "stdin".to_owned();
    let mut n = 2;
    while piped.contains(&format!("</{mark}>")) {
        mark = format!("stdin-{n}");
        n += 1;
    }
    format!("{prompt}\n\nThis was piped in:\n<{mark}>\n{piped}\n</{mark}>")
}

/// The picture in a file.
fn picture_of(path: &Path) -> Result<Content, Exit> {
    let refused = |reason: &str| Exit::Refused(format!("--image {}: {reason}", path.display()));
    // A pipe or a device may never end.
    match path.metadata() {
        Ok(found) if !found.is_file() => return Err(refused("it is no plain file; give one with a picture")),
        Ok(_) | Err(_) => {}
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| refused(&format!("{error}; give a file with a picture")))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LARGEST {
        return Err(refused("it is more than 20 MB; make it smaller first"));
    }
    let shown = picture(&bytes).ok_or_else(|| refused("it is no PNG, JPEG, GIF or WebP; convert it first"))?;
    if !is_whole_picture(&bytes) {
        return Err(refused("the picture is cut off or damaged; get it again"));
    }
    Ok(shown)
}
