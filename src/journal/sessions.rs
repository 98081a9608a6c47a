//! Sessions as lists show them.

use std::collections::HashSet;

use playhouse_protocol::SessionId;
use playhouse_session::{SessionStatus, SessionSummary};

use crate::text::{cut, one_line};

/// One line per session, sub-agents' sessions below the one they belong to, and what more there is to say below each.
/// `now` is in unix milliseconds; lines have at most `width` characters.
pub fn session_table(all: &[SessionSummary], now: u64, width: usize) -> String {
    let known: HashSet<&SessionId> = all.iter().map(|session| &session.session_id).collect();
    let is_root = |session: &&SessionSummary| session.parent.as_ref().is_none_or(|parent| !known.contains(parent));
    let mut text = String::new();
    let mut waiting: Vec<(&SessionSummary, usize)> = all.iter().filter(is_root).rev().map(|root| (root, 0)).collect();
    while let Some((session, depth)) = waiting.pop() {
        row(session, depth, now, width, &mut text);
        let of = |child: &&SessionSummary| child.parent.as_ref() == Some(&session.session_id);
        waiting.extend(all.iter().filter(of).rev().map(|child| (child, depth + 1)));
    }
    text
}

fn row(session: &SessionSummary, depth: usize, now: u64, width: usize, text: &mut String) {
    let indent = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
    let age = session.last_active_at.map_or_else(|| "?".to_owned(), |at| age(now.saturating_sub(at)));
    let (word, more_words) = state_words(&session.status);
    let status = match &session.held_by {
        Some(holder) => format!("running (pid {})", holder.pid),
        None => word.to_owned(),
    };
    let model = cut(&one_line(session.model.as_deref().unwrap_or("?")), 30);
    let prompt = one_line(session.first_prompt.as_deref().unwrap_or("(no prompt)"));
    let line = format!(
        "{indent}{}  {age:>4}  {status:<10}  {model}  {} messages  {prompt}",
        session.session_id, session.messages
    );
    text.push_str(&cut(&line, width));
    text.push('\n');
    let mut more =
        |line: String| text.push_str(&format!("{}\n", cut(&format!("{indent}    {}", one_line(&line)), width)));
    if let (None, Some(words)) = (&session.held_by, more_words) {
        more(format!("{word}: {words}"));
    }
    for damage in &session.damage {
        more(format!("damaged: {damage}"));
    }
    if let (None, SessionStatus::Damaged { .. }) = (&session.held_by, &session.status) {
        more(format!(
            "see `playhouse sessions show {}`; --accept-broken-chain goes on all the same",
            session.session_id
        ));
    }
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
            "b    1m  done        scripted/script  0 messages  new\n\
             a    1m  done        scripted/script  0 messages  old thing\n\
             └ c    1m  parked      scripted/script  0 messages  sub [31m\n\
             └     parked: no key\n\
             o    1m  done        scripted/script  0 messages  x\n"
        );
        assert!(session_table(&all, 0, 20).lines().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn ages_are_short() {
        let ages: Vec<String> = [0, 59_999, 60_000, 3_600_000, 86_400_000 * 3].into_iter().map(age).collect();
        assert_eq!(ages, ["0s", "59s", "1m", "1h", "3d"]);
    }
}
