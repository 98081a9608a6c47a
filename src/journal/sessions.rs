//! Sessions as lists show them.

use std::collections::{HashMap, HashSet};

use playhouse_protocol::SessionId;
use playhouse_session::{SessionStatus, SessionSummary};

use crate::text::{cut, one_line};

/// The fewest characters of an id that are shown. An id begins with the millisecond in which it was made, in 12 of them:
/// with fewer it would no longer be the only one as soon as another session is started within the minute.
const SHORTEST: usize = 12;
/// From this width on there is room for whole ids.
const WHOLE_IDS: usize = 120;
/// From this width on there is room for the model, and from that one for the number of messages.
const WITH_MODEL: usize = 72;
const WITH_MESSAGES: usize = 56;
/// The most of a model's name that is shown.
const MODEL: usize = 24;

/// The shortest beginning of an id that no other of these ids has, of at least 12 characters.
pub fn short_id<'a>(session: &'a SessionId, all: impl IntoIterator<Item = &'a SessionId>) -> &'a str {
    let id = session.as_str();
    let others = all.into_iter().filter(|other| *other != session);
    let in_common = |other: &SessionId| id.bytes().zip(other.as_str().bytes()).take_while(|(a, b)| a == b).count();
    let needed = others.map(in_common).max().map_or(0, |most| most + 1);
    // An id is ASCII, so that any place in it is one between two characters.
    id.get(..needed.max(SHORTEST)).unwrap_or(id)
}

/// One line per session below a head, sub-agents' sessions below the one they belong to, and what more there is to say
/// below each. `now` is in unix milliseconds; lines have at most `width` characters.
pub fn session_table(all: &[SessionSummary], now: u64, width: usize) -> String {
    let table = SessionTable::new(all, now, width);
    table.head() + &table.rows(|_| true)
}

/// Sessions as [`session_table`] shows them, some at a time.
#[derive(Debug)]
pub struct SessionTable<'a> {
    rows: Vec<Placed<'a>>,
    /// What is shown of each id.
    ids: HashMap<&'a SessionId, &'a str>,
    id_width: usize,
    status_width: usize,
    now: u64,
    width: usize,
}

/// A session, in how many others it is nested, and the outermost of those, or itself.
#[derive(Debug)]
struct Placed<'a> {
    session: &'a SessionSummary,
    depth: usize,
    root: &'a SessionSummary,
}

impl<'a> SessionTable<'a> {
    /// A table of these sessions: `now` is in unix milliseconds; lines have at most `width` characters.
    pub fn new(all: &'a [SessionSummary], now: u64, width: usize) -> Self {
        Self::of_some(all, [], now, width)
    }

    /// As [`SessionTable::new`], where there are others that are not shown: no id is cut so short that it could be one of
    /// theirs.
    pub fn of_some(
        all: &'a [SessionSummary],
        others: impl IntoIterator<Item = &'a SessionId>,
        now: u64,
        width: usize,
    ) -> Self {
        let known: HashSet<&SessionId> = all.iter().map(|session| &session.session_id).collect();
        let mut children = HashMap::<&SessionId, Vec<&SessionSummary>>::new();
        let mut waiting = Vec::new();
        for session in all.iter().rev() {
            match session.parent.as_ref().filter(|parent| known.contains(parent)) {
                Some(parent) => children.entry(parent).or_default().push(session),
                None => waiting.push(Placed { session, depth: 0, root: session }),
            }
        }
        let mut rows = Vec::new();
        while let Some(placed) = waiting.pop() {
            let below = children.get(&placed.session.session_id).into_iter().flatten();
            let (depth, root) = (placed.depth + 1, placed.root);
            waiting.extend(below.map(|session| Placed { session, depth, root }));
            rows.push(placed);
        }
        let ids = shown_ids(known.into_iter().chain(others).collect(), width);
        let mut table = Self { rows, ids, id_width: 0, status_width: 0, now, width };
        let wide = |row: &Placed| table.id(row.session).len() + 2 * row.depth;
        table.id_width = table.rows.iter().map(wide).max().unwrap_or_default().max(2);
        let statuses = table.rows.iter().map(|row| status_of(row.session).len());
        table.status_width = statuses.max().unwrap_or_default().max(10);
        table
    }

    /// What stands above the columns.
    pub fn head(&self) -> String {
        self.line("ID", "AGE", "STATUS", "MSGS", "MODEL", "PROMPT")
    }

    /// The sessions that are chosen, with all that are below them.
    pub fn rows(&self, is_chosen: impl Fn(&SessionSummary) -> bool) -> String {
        let mut text = String::new();
        let chosen = self.rows.iter().filter(|row| is_chosen(row.root));
        chosen.for_each(|row| self.row(row.session, row.depth, &mut text));
        text
    }

    /// The sessions that are below no other.
    pub fn roots(&self) -> impl Iterator<Item = &'a SessionSummary> {
        self.rows.iter().filter(|row| row.depth == 0).map(|row| row.session)
    }

    fn id(&self, session: &'a SessionSummary) -> &'a str {
        self.ids.get(&session.session_id).copied().unwrap_or(session.session_id.as_str())
    }

    fn row(&self, session: &'a SessionSummary, depth: usize, text: &mut String) {
        let indent = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
        let age = session.last_active_at.map_or_else(|| "?".to_owned(), |at| age(self.now.saturating_sub(at)));
        let (word, more_words) = state_words(&session.status);
        let status = status_of(session);
        let id = self.id(session);
        let model = cut(&one_line(session.model.as_deref().unwrap_or("?")), MODEL);
        let prompt = one_line(session.first_prompt.as_deref().unwrap_or("(no prompt)"));
        let messages = session.messages.to_string();
        text.push_str(&self.line(&format!("{indent}{id}"), &age, &status, &messages, &model, &prompt));
        let mut more = |line: String| {
            let line = format!("{indent}    {}", one_line(&line));
            text.push_str(&format!("{}\n", cut(&line, self.width)));
        };
        if let (None, Some(words)) = (&session.held_by, more_words) {
            more(format!("{word}: {words}"));
        }
        for damage in &session.damage {
            more(format!("damaged: {damage}"));
        }
        if let (None, SessionStatus::Damaged { .. }) = (&session.held_by, &session.status) {
            more(format!("see `playhouse sessions show {id}`; --accept-broken-chain goes on all the same"));
        }
    }

    /// One line, with as many columns as there is room for.
    fn line(&self, id: &str, age: &str, status: &str, messages: &str, model: &str, prompt: &str) -> String {
        let mut line = format!("{id:<0$}  {age:>4}  {status:<1$}", self.id_width, self.status_width);
        if self.width >= WITH_MESSAGES {
            line.push_str(&format!("  {messages:>4}"));
        }
        if self.width >= WITH_MODEL {
            line.push_str(&format!("  {model:<MODEL$}"));
        }
        line.push_str(&format!("  {prompt}"));
        cut(line.trim_end(), self.width) + "\n"
    }
}

/// What stands in the column of states.
fn status_of(session: &SessionSummary) -> String {
    match &session.held_by {
        Some(holder) => format!("running (pid {})", holder.pid),
        None => state_words(&session.status).0.to_owned(),
    }
}

/// What is shown of each id: all where there is room, else its beginning that no other has.
fn shown_ids(mut ids: Vec<&SessionId>, width: usize) -> HashMap<&SessionId, &str> {
    // Whoever has most in common with an id stands beside it.
    ids.sort_unstable();
    ids.dedup();
    let near =
        |at: usize| [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| ids.get(at).copied());
    let shown = |at, id| if width >= WHOLE_IDS { SessionId::as_str(id) } else { short_id(id, near(at)) };
    ids.iter().enumerate().map(|(at, id)| (*id, shown(at, *id))).collect()
}

/// What lists call a state, and what more is known of it.
pub fn state_words(status: &SessionStatus) -> (&'static str, Option<String>) {
    match status {
        SessionStatus::Done => ("done", None),
        SessionStatus::Unfinished { unreachable } => ("unfinished", unreachable.clone()),
        SessionStatus::Waiting { question } => ("waiting", Some(question.clone())),
        SessionStatus::Failed { message } => ("failed", Some(message.clone())),
        SessionStatus::Aborted => ("aborted", None),
        SessionStatus::Limited { limit } => ("limited", Some(limit.to_string())),
        SessionStatus::Parked { reason } => ("parked", Some(reason.clone())),
        SessionStatus::Damaged { .. } => ("damaged", None),
    }
}

fn age(millis: u64) -> String {
    match millis / 1_000 {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3_600 => format!("{}m", s / 60),
        s @ 3_600..86_400 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(id: &str, parent: Option<&str>, prompt: &str) -> SessionSummary {
        let session = SessionId::new(id).unwrap();
        let mut summary = SessionSummary::of(&session, &[], None, Vec::new());
        summary.parent = parent.map(|parent| SessionId::new(parent).unwrap());
        summary.first_prompt = Some(prompt.to_owned());
        summary.model = Some("scripted/script".to_owned());
        summary.last_active_at = Some(1_000);
        summary
    }

    #[test]
    fn children_stand_below_their_parents_and_lines_fit_the_terminal() {
        let mut child = summary("c", Some("a"), "sub\x1b[31m");
        child.status = SessionStatus::Parked { reason: "no key".to_owned() };
        let all = [summary("b", None, "new"), child, summary("a", None, "old\nthing"), summary("o", Some("gone"), "x")];
        let text = session_table(&all, 61_000, 60);
        assert_eq!(
            text,
            "ID    AGE  STATUS      MSGS  PROMPT\n\
             b      1m  done           0  new\n\
             a      1m  done           0  old thing\n\
             └ c    1m  parked         0  sub [31m\n\
             └     parked: no key\n\
             o      1m  done           0  x\n"
        );
        assert!(session_table(&all, 0, 20).lines().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn an_id_is_shown_as_far_as_no_other_has_the_same() {
        let ids =
            ["0190aaaabbbb-1234", "0190aaaabbbb-1300", "0190aaaabbbb", "short"].map(|id| SessionId::new(id).unwrap());
        let short: Vec<&str> = ids.iter().map(|id| short_id(id, &ids)).collect();
        assert_eq!(short, ["0190aaaabbbb-12", "0190aaaabbbb-13", "0190aaaabbbb", "short"]);
        let shown = shown_ids(ids.iter().collect(), 80);
        assert!(ids.iter().zip(&short).all(|(id, short)| shown[id] == *short), "{shown:?}");
        assert_eq!(shown_ids(ids.iter().collect(), 120)[&ids[0]], "0190aaaabbbb-1234");
        let one = [summary(ids[0].as_str(), None, "x")];
        let table = SessionTable::of_some(&one, &ids, 0, 80);
        assert!(table.rows(|_| true).starts_with("0190aaaabbbb-12  "), "others that are not shown count");
    }

    #[test]
    fn ages_are_short() {
        let ages: Vec<String> = [0, 59_999, 60_000, 3_600_000, 86_400_000 * 3].into_iter().map(age).collect();
        assert_eq!(ages, ["0s", "59s", "1m", "1h", "3d"]);
    }
}
