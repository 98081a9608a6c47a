//! Asking a person on the terminal before a tool runs.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{self, Duration};

use playhouse::agent::{Approvals, PermissionRequest, Turns};
use playhouse::protocol::{PermissionDecision, PermissionId, lock};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::terminal::question::{
    REMINDER, Reply, countdown, explanation, keys, keys_explained, question, reply, unanswered,
};
use crate::cli::terminal::text::{HANG, Tint, stderr_colours, stderr_width};
use crate::cli::terminal::wrap::wrapped;

/// Takes what is on a line off the screen.
const ERASE: &str = "\r\x1b[K";
/// How long a question waits for what comes before it on the screen.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How long after a line that is no answer more of the same paste may come, and how long after something was written over
/// a question more of that.
const REST: Duration = Duration::from_millis(50);

/// What a question and the rest of the screen know of each other. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Asking {
    open: Arc<AtomicBool>,
    /// Whether something was written below the question.
    covered: Arc<AtomicBool>,
    cover: Arc<Notify>,
    due: Arc<watch::Sender<Vec<PermissionId>>>,
    /// What became of answers and has to be said; as many as there were answers at most.
    amiss: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Asking {
    /// Whether a question is on the screen.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Something is about to be written: where a question is on the screen, it needs a line of its own, and the question
    /// is asked again below it. Gives what to write first.
    pub fn cover(&self) -> &'static str {
        if !self.is_open() {
            return "";
        }
        let is_covered = self.covered.swap(true, Ordering::SeqCst);
        self.cover.notify_one();
        if is_covered { "" } else { "\n" }
    }

    /// Waits until something was written over the question, and the rest of it too.
    async fn is_covered(&self) {
        while !self.covered.load(Ordering::SeqCst) {
            self.cover.notified().await;
        }
        while timeout(REST, self.cover.notified()).await.is_ok() {}
    }

    /// Something came out otherwise than a person was told.
    pub fn went_amiss(&self, text: String) {
        lock(&self.amiss).push(text);
    }

    /// What went amiss and was not said yet.
    pub fn amiss(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.amiss))
    }

    /// Everything that comes before this question is on the screen.
    pub fn is_due(&self, question: &PermissionId) {
        self.due.send_modify(|due| due.push(question.clone()));
    }

    async fn until_due(&self, question: &PermissionId) {
        let mut due = self.due.subscribe();
        // Late is better than never.
        let _ = timeout(CATCH_UP, due.wait_for(|due| due.contains(question))).await;
    }
}

/// Whether there is a terminal to ask on.
pub fn can_ask() -> bool {
    keyboard().is_some()
}

/// What a person types on who sees stderr: stdin, or the terminal itself where stdin is something else.
fn keyboard() -> Option<File> {
    if !io::stderr().is_terminal() {
        return None;
    }
    match io::stdin() {
        stdin if stdin.is_terminal() => stdin.as_fd().try_clone_to_owned().ok().map(File::from),
        _ => File::open("/dev/tty").ok(),
    }
}

/// Who answers the questions of agents and those of their sub-agents: the person at the terminal, or nobody when there is
/// none. A question comes after what is on the screen before it, and waits for as long as `limit` says once it is there.
pub fn approvals(asking: &Asking, limit: Option<Duration>) -> (Approvals, Approvals) {
    let keyboard = keyboard().and_then(|keyboard| Some((keyboard.try_clone().ok()?, keyboard)));
    let Some((input, keyboard)) = keyboard else { return (Approvals::Nobody, Approvals::Nobody) };
    let mut terminal = Questions::new(BufReader::new(input), io::stderr(), asking.clone());
    terminal.limit = limit;
    let state = terminal.state.get_mut();
    (state.keyboard, state.columns) = (Some(keyboard), stderr_width());
    if !stderr_colours() {
        state.lead = "";
    }
    let terminal = Arc::new(terminal);
    // The time of a question is kept where it is seen.
    let turns = Turns::without_limit();
    let approvals = || {
        let (terminal, asking) = (terminal.clone(), asking.clone());
        Approvals::in_turn(&turns, move |request| {
            let (terminal, asking) = (terminal.clone(), asking.clone());
            async move {
                asking.until_due(&request.permission_id).await;
                terminal.decide(&request).await
            }
        })
    };
    (approvals(), approvals())
}

/// Questions to one person, one at a time.
pub struct Questions {
    state: Mutex<State>,
    asking: Asking,
    /// How long a question waits; `None` is as long as it takes.
    limit: Option<Duration>,
}

struct State {
    /// Read from the first question on, by a thread of its own: a read of a terminal cannot be called off.
    input: Option<(Box<dyn BufRead + Send>, mpsc::Sender<Line>)>,
    /// The same terminal, for what is to be thrown away.
    keyboard: Option<File>,
    lines: mpsc::Receiver<Line>,
    output: Box<dyn Write + Send>,
    /// Whether the keys were explained: once is enough.
    is_explained: bool,
    /// What takes the place of lines that change, where there are any.
    lead: &'static str,
    /// How wide the screen is; `None` where that is not known.
    columns: Option<usize>,
}

/// A line that was typed, and when it was read.
type Line = (time::Instant, String);

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("asking", &self.asking).finish_non_exhaustive()
    }
}

impl Questions {
    fn new(input: impl BufRead + Send + 'static, output: impl Write + Send + 'static, asking: Asking) -> Self {
        let (sender, lines) = mpsc::channel(1);
        let state = State {
            input: Some((Box::new(input), sender)),
            keyboard: None,
            lines,
            output: Box::new(output),
            is_explained: false,
            lead: ERASE,
            columns: None,
        };
        Self { state: Mutex::new(state), asking, limit: None }
    }

    async fn decide(&self, request: &PermissionRequest) -> PermissionDecision {
        let mut state = self.state.lock().await;
        state.start_reading();
        let State { keyboard, lines, output, is_explained, lead, columns, .. } = &mut *state;
        let offer = request.question.offer;
        let until = self.limit.map(|limit| Instant::now() + limit);
        let mut open = OnScreen::new(&self.asking, output, lead, *columns);
        let mut text = question(request);
        if !std::mem::replace(is_explained, true) {
            text = format!("{}\n{text}", keys_explained(offer));
        }
        loop {
            // What was typed before the question is no answer to it.
            forget_typed(keyboard.as_ref());
            open.is_answered = false;
            // A person who cannot see the question cannot say yes.
            let answer = match open.ask(&text, keys(offer), until) {
                Ok(()) => open.answer(lines, until).await,
                Err(_) => Typed::Gone,
            };
            let answer = match (answer, self.limit) {
                (Typed::Line(answer), _) => answer,
                (Typed::Covered, _) => continue,
                (Typed::TooLate, Some(limit)) => return unanswered(limit),
                (Typed::TooLate, None) | (Typed::Gone, _) => {
                    return PermissionDecision::Deny { reason: "the user could not be asked".to_owned() };
                }
            };
            open.is_answered = true;
            text = match reply(answer.trim(), offer) {
                Reply::Decided(decision) => {
                    forget_typed(keyboard.as_ref());
                    return decision;
                }
                Reply::Explain => explanation(request),
                Reply::NotOffered => REMINDER.to_owned(),
            };
            // The next line of a paste is no answer either.
            while let Ok(Some(_)) = timeout(REST, lines.recv()).await {}
        }
    }
}

impl State {
    fn start_reading(&mut self) {
        let Some((mut input, sender)) = self.input.take() else { return };
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while input.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                // What is no UTF-8 is no answer, and not the end either.
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                if sender.blocking_send((time::Instant::now(), text)).is_err() {
                    return;
                }
            }
        });
    }
}

/// Throws away what a terminal has and nobody has read.
fn forget_typed(keyboard: Option<&File>) {
    if let Some(keyboard) = keyboard {
        // Where it fails, what was read before the question is thrown away all the same.
        let _ = tcflush(keyboard, QueueSelector::IFlush);
    }
}

/// Lines that go are red, and those that come green, as on the card of the call.
fn tint_of(line: &str) -> Tint {
    match line.get(..2) {
        Some("- ") => Tint::Red,
        Some("+ ") => Tint::Green,
        Some(_) | None => Tint::None,
    }
}

/// How far in a line of words goes on that is wider than the screen. What a call would do is shown as it is: a break
/// would read as part of it.
fn hang_of(line: &str) -> Option<usize> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| line.starts_with(beginning));
    if begins(&["Keys: ", "It runs ", "(", "s: ", "s, a: ", "Answer "]) {
        return Some(HANG);
    }
    begins(&["  y  ", "  s  ", "  a  ", "  n  ", "     ("]).then_some(5)
}

/// What came of waiting for an answer.
enum Typed {
    Line(String),
    /// The terminal is gone.
    Gone,
    TooLate,
    /// Something was written over the question.
    Covered,
}

/// A question on the screen, until it is answered or called off.
struct OnScreen<'a> {
    asking: &'a Asking,
    output: &'a mut Box<dyn Write + Send>,
    is_answered: bool,
    lead: &'static str,
    columns: Option<usize>,
    /// What is read before that is no answer.
    since: time::Instant,
}

impl<'a> OnScreen<'a> {
    fn new(
        asking: &'a Asking,
        output: &'a mut Box<dyn Write + Send>,
        lead: &'static str,
        columns: Option<usize>,
    ) -> Self {
        asking.open.store(true, Ordering::SeqCst);
        Self { asking, output, is_answered: false, lead, columns, since: time::Instant::now() }
    }

    /// Takes the place of the progress line. The keys are on a line of their own, beneath the time that is left.
    fn ask(&mut self, question: &str, keys: &str, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| format!("{}\n", countdown(until - Instant::now()))).unwrap_or_default();
        let line = |line: &str| {
            let (on, off) = tint_of(line).codes(!self.lead.is_empty());
            match hang_of(line) {
                Some(hang) => format!("{on}{}{off}\n", wrapped(line, hang, self.columns)),
                None => format!("{on}{line}{off}\n"),
            }
        };
        let question: String = question.lines().map(line).collect();
        self.asking.covered.store(false, Ordering::SeqCst);
        self.since = time::Instant::now();
        self.put(&format!("{}{question}{left}{keys}", self.lead))
    }

    /// Writes at once: what a person types meanwhile must not come in between.
    fn put(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }

    /// Waits for a line, and shows how the time runs out.
    async fn answer(&mut self, lines: &mut mpsc::Receiver<Line>, until: Option<Instant>) -> Typed {
        loop {
            let next = until.map(|until| until - Duration::from_secs((until - Instant::now()).as_secs()));
            tokio::select! {
                biased;
                line = lines.recv() => match line {
                    Some((at, line)) if at >= self.since => return Typed::Line(line),
                    Some(_) => continue,
                    None => return Typed::Gone,
                },
                () = self.asking.is_covered() => return Typed::Covered,
                () = at(next) => {}
            }
            let Some(until) = until.filter(|until| next != Some(*until)) else { return Typed::TooLate };
            if !self.lead.is_empty() && !self.asking.covered.load(Ordering::SeqCst) {
                // The cursor stays where the person types.
                let _ = self.put(&format!("\x1b7\x1b[A{ERASE}{}\x1b8", countdown(until - Instant::now())));
            }
        }
    }
}

/// Waits until then, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Drop for OnScreen<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            // Nobody pressed enter; what comes next needs a line of its own.
            let _ = writeln!(self.output);
        }
        self.asking.open.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::protocol::{GrantScope, Level, Question};
    use serde_json::{Value, json};
    use std::io::{PipeReader, PipeWriter, Read};

    fn request(args: Value) -> PermissionRequest {
        PermissionRequest {
            permission_id: "p".into(),
            tool_call_id: "c".into(),
            tool_name: "bash".to_owned(),
            args: Arc::new(args),
            question: Question { offer: GrantScope::Always, ..Question::default() },
        }
    }

    struct Person {
        screen: PipeReader,
        keys: Option<PipeWriter>,
    }

    impl Person {
        fn sit_down() -> (Self, Arc<Questions>) {
            let (stdin, keys) = io::pipe().unwrap();
            let (screen, stderr) = io::pipe().unwrap();
            let mut questions = Questions::new(BufReader::new(stdin), stderr, Asking::default());
            questions.state.get_mut().is_explained = true;
            (Self { screen, keys: Some(keys) }, Arc::new(questions))
        }

        /// Reads until the question is there.
        fn reads(&mut self) -> String {
            let mut seen = Vec::new();
            let mut byte = [0];
            while !seen.ends_with(b"/?] ") && self.screen.read(&mut byte).unwrap() > 0 {
                seen.push(byte[0]);
            }
            String::from_utf8(seen).unwrap()
        }

        fn closes_the_line(&mut self) {
            let mut byte = [0];
            self.screen.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"\n");
        }

        fn types(&mut self, text: &str) {
            self.keys.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        }
    }

    async fn answered(person: &mut Person, questions: &Arc<Questions>, answer: &str) -> PermissionDecision {
        let asked = questions.clone();
        let decision = tokio::spawn(async move { asked.decide(&request(json!({"command": "ls\nrm x"}))).await });
        assert_eq!(person.reads(), "\r\x1b[KAllow bash: \n| ls\n| rm x\nIt runs ls, rm\n[y/s/a/n/?] ");
        person.types(answer);
        decision.await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_a_yes_is_a_yes() {
        let (mut person, questions) = Person::sit_down();
        let no = PermissionDecision::Deny { reason: "the user said no".to_owned() };
        assert_eq!(answered(&mut person, &questions, "y\n").await, PermissionDecision::Allow);
        assert_eq!(answered(&mut person, &questions, "n\n").await, no);
        for nothing in ["\n", "yep\n", "y please\n", "y\u{fffd}\n", "x\nb\ny\n"] {
            let asked = questions.clone();
            let decision = tokio::spawn(async move { asked.decide(&request(json!({"command": "ls"}))).await });
            person.reads();
            person.types(nothing);
            let again = "\r\x1b[KAnswer with one of these keys; ? explains them.\n[y/s/a/n/?] ";
            assert_eq!(person.reads(), again, "it is asked again, once");
            person.types("n\n");
            assert_eq!(decision.await.unwrap(), no);
        }
        assert_eq!(answered(&mut person, &questions, " yes \n").await, PermissionDecision::Allow);
        assert_eq!(answered(&mut person, &questions, "s\n").await, PermissionDecision::AllowSession);
        assert_eq!(answered(&mut person, &questions, "A\n").await, PermissionDecision::AllowAlways);
        let because = PermissionDecision::Deny { reason: "the user said no: use git mv".to_owned() };
        assert_eq!(answered(&mut person, &questions, "n use git mv\n").await, because);
    }

    #[test]
    fn a_yes_holds_no_longer_than_is_offered_and_long_arguments_are_cut() {
        for (key, offer) in [("a", GrantScope::Once), ("a", GrantScope::Session), ("s", GrantScope::Once)] {
            assert_eq!(reply(key, offer), Reply::NotOffered);
        }
        assert_eq!(reply("s", GrantScope::Always), Reply::Decided(PermissionDecision::AllowSession));
        let mut long = request(json!({"path": "a", "content": "x".repeat(3_000)}));
        long.question = Question { offer: GrantScope::Session, level: Level::Dangerous, ..Question::default() };
        let lasting =
            Question { reason: "run a command".into(), rules: vec!["bash(ls)".into()], ..Question::default() };
        let asked = question(&PermissionRequest { question: lasting, ..request(json!({"command": "ls"})) });
        assert_eq!(asked, "Allow bash: ls\nIt runs ls\n(run a command)\n");
        let shown = question(&long);
        assert!(shown.contains("of 3000 characters") && shown.chars().count() < 520, "{shown}");
        assert!(shown.starts_with("Allow bash (dangerous): ") && keys(GrantScope::Session) == "[y/s/n/?] ", "{shown}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_question_called_off_leaves_the_next_one_its_answer() {
        let (mut person, questions) = Person::sit_down();
        let asked = questions.clone();
        let first = tokio::spawn(async move { asked.decide(&request(json!({"command": "a"}))).await });
        person.reads();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert!(!questions.asking.is_open());
        person.closes_the_line();
        assert_eq!(answered(&mut person, &questions, "y\n").await, PermissionDecision::Allow);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_terminal_that_is_gone_says_no() {
        let (mut person, questions) = Person::sit_down();
        person.keys = None;
        let decided = tokio::time::timeout(Duration::from_secs(30), questions.decide(&request(json!({})))).await;
        assert_eq!(decided.unwrap(), PermissionDecision::Deny { reason: "the user could not be asked".to_owned() });
    }
}
