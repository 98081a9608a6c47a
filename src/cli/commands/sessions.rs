//! `playhouse sessions`: what is in the data directory. Needs no house.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use playhouse::agent::machine::events::replay;
use playhouse::journal::{conversation, entry_lines, session_table, state_words};
use playhouse::protocol::SessionId;
use playhouse::session::{self, SessionSummary, Store, StoreError, Take};
use serde_json::json;

use crate::cli::args::{SessionsArgs, SessionsCommand};
use crate::cli::commands::damaged;
use crate::cli::exit::Exit;
use crate::cli::house::unusable;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::text::{Tint, error_line, one_line, width};
use crate::cli::terminal::view::write_out;

/// Lists, shows or removes.
pub fn sessions(args: SessionsArgs, folder: &Path) -> Result<(), Exit> {
    let is_there = folder.exists();
    match args.command {
        SessionsCommand::List { json } => {
            let all = if is_there { look(folder)?.list().map_err(Exit::refused)? } else { Vec::new() };
            list(&all, json, folder)
        }
        SessionsCommand::Show { session, .. }
        | SessionsCommand::Events { session, .. }
        | SessionsCommand::Rm { session, .. }
            if !is_there =>
        {
            Err(Exit::refused(StoreError::Unknown { session }))
        }
        SessionsCommand::Show { session, json } => {
            let store = look(folder)?;
            let loaded = store.load(&session, Take::Peek).map_err(Exit::refused)?;
            for damage in &loaded.damage {
                error_line("warning: ", &format!("the journal of session {session}: {damage}"), Tint::Red);
            }
            let text = match json {
                true => entry_lines(&loaded.entries).map_err(Exit::refused)?,
                false => conversation(&loaded.entries),
            };
            print(&text)?;
            let held_by = store.holder(&session).map_err(Exit::refused)?;
            tell_state(&SessionSummary::of(&session, &loaded.entries, held_by, loaded.damage));
            Ok(())
        }
        SessionsCommand::Events { session, after } => {
            let loaded = look(folder)?.load(&session, Take::Peek).map_err(Exit::refused)?;
            let entries = loaded.entries.iter().map(|(seq, entry)| (*seq, entry.as_ref()));
            let events = replay(entries, after);
            let events = events.map_err(|error| Exit::Refused(format!("session `{session}`: {error}")))?;
            let mut lines = String::new();
            for event in &events {
                lines.push_str(&serde_json::to_string(event).map_err(Exit::refused)?);
                lines.push('\n');
            }
            print(&lines)
        }
        SessionsCommand::Rm { session, json } => remove(&*open(folder)?, &session, json),
    }
}

/// Says how a session stands, beside its conversation.
fn tell_state(summary: &SessionSummary) {
    let (word, more) = state_words(&summary.status);
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
pub(super) fn open(folder: &Path) -> Result<Arc<dyn Store>, Exit> {
    session::open(folder).map_err(|error| unusable(&error))
}

/// The data directory, for one who changes nothing in it.
pub(super) fn look(folder: &Path) -> Result<Arc<dyn Store>, Exit> {
    session::look(folder).map_err(|error| unusable(&error))
}

/// Writes to stdout; a reader who has gone ends the program.
pub(super) fn print(text: &str) -> Result<(), Exit> {
    write_out(text).map_err(|error| unwritten(&error))
}

fn list(all: &[SessionSummary], json: bool, folder: &Path) -> Result<(), Exit> {
    if json {
        let mut lines = String::new();
        for session in all {
            lines.push_str(&serde_json::to_string(session).map_err(Exit::refused)?);
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
    print(&session_table(all, now, width().unwrap_or(200)))
}

/// Removes a session, then those of its sub-agents: nothing is left that needs them.
fn remove(store: &dyn Store, session: &SessionId, json: bool) -> Result<(), Exit> {
    let all = store.list().map_err(Exit::refused)?;
    let Some(summary) = all.iter().find(|one| one.session_id == *session) else {
        return Err(Exit::refused(StoreError::Unknown { session: session.clone() }));
    };
    if let Some(parent) = &summary.parent
        && all.iter().any(|one| one.session_id == *parent)
    {
        let text = format!("session `{session}` belongs to a sub-agent; remove its parent `{parent}`");
        return Err(Exit::Refused(text));
    }
    let mut doomed = vec![session];
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        next += 1;
        doomed.extend(all.iter().filter(|one| one.parent.as_ref() == Some(parent)).map(|one| &one.session_id));
    }
    for session in doomed {
        store.remove(session).map_err(Exit::refused)?;
        if json {
            print(&format!("{}\n", json!({ "removed": session })))?;
        } else {
            error_line("", &format!("removed session {session}"), Tint::None);
        }
    }
    Ok(())
}
