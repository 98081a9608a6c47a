//! `playhouse sessions`: what is in the data directory. Needs no house.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use playhouse::agent::machine::events::replay;
use playhouse::protocol::SessionId;
use playhouse::session::{self, SessionStatus, SessionSummary, Store, StoreError, Take};
use serde_json::json;

use super::args::{SessionsArgs, SessionsCommand};
use super::damaged;
use super::follow::unwritten;
use super::kind::unusable;
use super::show;
use super::stop::Stop;
use super::text::{Tint, cut, error_line, one_line, width};
use super::view::write_out;

/// Lists, shows or removes.
pub fn sessions(args: SessionsArgs, folder: &Path) -> Result<(), Stop> {
    let is_there = folder.exists();
    match args.command {
        SessionsCommand::List { json } => {
            let all = if is_there { look(folder)?.list().map_err(Stop::refused)? } else { Vec::new() };
            list(&all, json, folder)
        }
        SessionsCommand::Show { session, .. }
        | SessionsCommand::Events { session, .. }
        | SessionsCommand::Rm { session, .. }
            if !is_there =>
        {
            Err(Stop::refused(StoreError::Unknown { session }))
        }
        SessionsCommand::Show { session, json } => {
            let store = look(folder)?;
            let loaded = store.load(&session, Take::Peek).map_err(Stop::refused)?;
            for damage in &loaded.damage {
                error_line("warning: ", &format!("the journal of session {session}: {damage}"), Tint::Red);
            }
            let text = if json { show::entries(&loaded.entries)? } else { show::conversation(&loaded.entries) };
            print(&text)?;
            let held_by = store.holder(&session).map_err(Stop::refused)?;
            tell_state(&SessionSummary::of(&session, &loaded.entries, held_by, loaded.damage));
            Ok(())
        }
        SessionsCommand::Events { session, after } => {
            let loaded = look(folder)?.load(&session, Take::Peek).map_err(Stop::refused)?;
            let entries = loaded.entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
            let events = replay(entries, after);
            let events = events.map_err(|error| Stop::Refused(format!("session `{session}`: {error}")))?;
            let mut lines = String::new();
            for event in &events {
                lines.push_str(&serde_json::to_string(event).map_err(Stop::refused)?);
                lines.push('\n');
            }
            print(&lines)
        }
        SessionsCommand::Rm { session, json } => remove(&*open(folder)?, &session, json),
    }
}

/// Says how a session stands, beside its conversation.
fn tell_state(summary: &SessionSummary) {
    let (word, more) = state(&summary.status);
    let text = match (&summary.held_by, more) {
        (Some(holder), _) => format!("running (pid {})", holder.pid),
        (None, Some(more)) => format!("{word}: {more}"),
        (None, None) => word.to_owned(),
    };
    error_line(&format!("session {}: ", summary.session_id), &one_line(&text), Tint::Dim);
    if let (None, Some(advice)) = (&summary.held_by, damaged::advice(summary)) {
        error_line("", &advice, Tint::None);
    }
}

/// The data directory, as one of the processes that share it.
pub(super) fn open(folder: &Path) -> Result<Arc<dyn Store>, Stop> {
    session::open(folder).map_err(|error| unusable(&error))
}

/// The data directory, for one who changes nothing in it.
pub(super) fn look(folder: &Path) -> Result<Arc<dyn Store>, Stop> {
    session::look(folder).map_err(|error| unusable(&error))
}

/// Writes to stdout.
pub(super) fn print(text: &str) -> Result<(), Stop> {
    write_out(text).map_err(|error| unwritten(&error))
}

fn list(all: &[SessionSummary], json: bool, folder: &Path) -> Result<(), Stop> {
    if json {
        let mut lines = String::new();
        for session in all {
            lines.push_str(&serde_json::to_string(session).map_err(Stop::refused)?);
            lines.push('\n');
        }
        return print(&lines);
    }
    if all.is_empty() {
        error_line("", &format!("no sessions in {}", folder.display()), Tint::None);
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    print(&table(all, now, width().unwrap_or(200)))
}

/// One line per session, sub-agents' sessions below the one they belong to.
fn table(all: &[SessionSummary], now: u64, width: usize) -> String {
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
    let (word, more_words) = state(&session.status);
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
fn state(status: &SessionStatus) -> (&'static str, Option<String>) {
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

/// Removes a session, then those of its sub-agents: nothing is left that needs them.
fn remove(store: &dyn Store, session: &SessionId, json: bool) -> Result<(), Stop> {
    let all = store.list().map_err(Stop::refused)?;
    let Some(summary) = all.iter().find(|one| one.session_id == *session) else {
        return Err(Stop::refused(StoreError::Unknown { session: session.clone() }));
    };
    if let Some(parent) = &summary.parent
        && all.iter().any(|one| one.session_id == *parent)
    {
        let text = format!("session `{session}` belongs to a sub-agent; remove its parent `{parent}`");
        return Err(Stop::Refused(text));
    }
    let mut doomed = vec![session];
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        next += 1;
        doomed.extend(all.iter().filter(|one| one.parent.as_ref() == Some(parent)).map(|one| &one.session_id));
    }
    for session in doomed {
        store.remove(session).map_err(Stop::refused)?;
        if json {
            print(&format!("{}\n", json!({ "removed": session })))?;
        } else {
            error_line("", &format!("removed session {session}"), Tint::None);
        }
    }
    Ok(())
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
        let text = table(&all, 61_000, 60);
        assert_eq!(
            text,
            "b    1m  done        scripted/script  0 messages  new\n\
             a    1m  done        scripted/script  0 messages  old thing\n\
             └ c    1m  parked      scripted/script  0 messages  sub [31m\n\
             └     parked: no key\n\
             o    1m  done        scripted/script  0 messages  x\n"
        );
        assert!(table(&all, 0, 20).lines().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn ages_are_short() {
        let ages: Vec<String> = [0, 59_999, 60_000, 3_600_000, 86_400_000 * 3].into_iter().map(age).collect();
        assert_eq!(ages, ["0s", "59s", "1m", "1h", "3d"]);
    }
}
