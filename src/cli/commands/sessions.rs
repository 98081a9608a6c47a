//! `playhouse sessions`: what is in the data directory. Needs no house.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use playhouse::agent::StoredEvents;
use playhouse::journal::{Conversation, SessionTable, entry_line, state_words};
use playhouse::protocol::{Entry, Seq, SessionId};
use playhouse::session::{self, Along, Branch, SessionHead, SessionSummary, Store, StoreError, Whereabouts};
use serde_json::json;

use crate::cli::args::{SessionsArgs, SessionsCommand};
use crate::cli::commands::damaged;
use crate::cli::exit::Exit;
use crate::cli::folders::here;
use crate::cli::house::unusable;
use crate::cli::terminal::follow::{SessionHome, unwritten};
use crate::cli::terminal::text::{Tint, error_line, for_stdout, one_line, width};
use crate::cli::terminal::view::write_out;

/// Lists, shows or removes.
pub fn sessions(args: SessionsArgs, folder: &Path, kept: &SessionHome) -> Result<(), Exit> {
    match args.command {
        SessionsCommand::List { all, json } => {
            let here = here()?;
            let listed = match (folder.exists(), json || all) {
                (false, _) => Listed::default(),
                (true, true) => Listed { shown: look(folder)?.list().map_err(Exit::refused)?, ..Listed::default() },
                (true, false) => Listed::first_page(&*look(folder)?, &here).map_err(Exit::refused)?,
            };
            if json { list_json(&listed.shown) } else { list(&listed, all, &here, folder) }
        }
        SessionsCommand::Show { session, json } => {
            let session = session.find(folder, here)?;
            let store = look(folder)?;
            let summary = SessionSummary::read(&*store, &session).map_err(Exit::refused)?;
            tell_damage(&summary, kept);
            match json {
                true => print_each(store.read(&session, Seq::default()).map_err(Exit::refused)?, |(seq, entry)| {
                    entry_line(seq, &entry).map_err(Exit::refused)
                })?,
                false => {
                    let mut conversation = Conversation::default();
                    print_each(along(&*store, &session).map_err(Exit::refused)?, |(_, entry)| {
                        Ok(conversation.tell(&entry))
                    })?;
                }
            }
            tell_state(&summary, kept);
            Ok(())
        }
        SessionsCommand::Events { session, after } => {
            let session = session.find(folder, here)?;
            let store = look(folder)?;
            let events = StoredEvents::open(&session, || store.read(&session, Seq::default()), after);
            print_each(events.map_err(Exit::refused)?, |event| {
                Ok(serde_json::to_string(&event).map_err(Exit::refused)? + "\n")
            })
        }
        SessionsCommand::Rm { session, json } => {
            let session = session.find(folder, here)?;
            remove(&*open(folder)?, &session, json)
        }
    }
}

/// Says what is wrong with a session's journal, before anything of it is shown.
pub(super) fn tell_damage(summary: &SessionSummary, kept: &SessionHome) {
    let session = kept.short(&summary.session_id);
    for damage in &summary.damage {
        error_line("warning: ", &format!("the journal of session {session}: {damage}"), Tint::Red);
    }
}

/// The entries that lead to the last one of a session's journal, one at a time.
pub(super) fn along(
    store: &dyn Store,
    session: &SessionId,
) -> Result<impl Iterator<Item = Result<(Seq, Arc<Entry>), StoreError>>, StoreError> {
    let along = Along::open(|| store.read(session, Seq::default()))?;
    Ok(along.filter_map(|record| match record {
        Ok((seq, entry, Branch::Main)) => Some(Ok((seq, entry))),
        Ok((_, _, Branch::Side)) => None,
        Err(error) => Some(Err(error)),
    }))
}

/// Says how a session stands, beside its conversation.
fn tell_state(summary: &SessionSummary, kept: &SessionHome) {
    let (word, more) = state_words(&summary.status);
    let text = match (&summary.held_by, more) {
        (Some(holder), _) => format!("running (pid {})", holder.pid),
        (None, Some(more)) => format!("{word}: {more}"),
        (None, None) => word.to_owned(),
    };
    error_line(&format!("session {}: ", kept.short(&summary.session_id)), &one_line(&text), Tint::Dim);
    if let (None, Some(advice)) = (&summary.held_by, damaged::advice(summary, kept)) {
        error_line("", &advice, Tint::None);
    }
}

/// The data directory, as one of the processes that share it.
pub(super) fn open(folder: &Path) -> Result<Arc<dyn Store>, Exit> {
    session::open(folder).map_err(|error| unusable(&error))
}

/// The data directory, for one who changes nothing in it.
pub fn look(folder: &Path) -> Result<Arc<dyn Store>, Exit> {
    session::look(folder).map_err(|error| unusable(&error))
}

/// Writes what each of these is told by to stdout, none of them kept.
pub(super) fn print_each<T, E: fmt::Display>(
    all: impl Iterator<Item = Result<T, E>>,
    mut text: impl FnMut(T) -> Result<String, Exit>,
) -> Result<(), Exit> {
    let mut out = BufWriter::new(io::stdout().lock());
    for one in all {
        let text = text(one.map_err(Exit::refused)?)?;
        out.write_all(for_stdout(&text).as_bytes()).map_err(|error| unwritten(&error))?;
    }
    out.flush().map_err(|error| unwritten(&error))
}

/// Writes to stdout; a reader who has gone ends the program.
pub(super) fn print(text: &str) -> Result<(), Exit> {
    write_out(text).map_err(|error| unwritten(&error))
}

fn list_json(stored: &[SessionSummary]) -> Result<(), Exit> {
    let mut lines = String::new();
    for session in stored {
        lines.push_str(&serde_json::to_string(session).map_err(Exit::refused)?);
        lines.push('\n');
    }
    print(&lines)
}

/// How many sessions are listed unless all are asked for; those of sub-agents are not counted.
const PAGE: usize = 50;

/// Sessions that are listed, and those that are not. Each that is listed was read and checked whole; of the others no more
/// is known than that they are there.
#[derive(Debug, Default)]
struct Listed {
    shown: Vec<SessionSummary>,
    others: Vec<SessionId>,
    /// How many of the others may be of this directory, and how many are not; those of sub-agents are not counted.
    older: usize,
    elsewhere: usize,
}

impl Listed {
    /// The newest sessions of a directory, with those of their sub-agents.
    fn first_page(store: &dyn Store, here: &Path) -> Result<Self, StoreError> {
        let heads = store.heads(here)?;
        let known: HashSet<&SessionId> = heads.iter().map(|head| &head.session_id).collect();
        let mut children = HashMap::<&SessionId, Vec<&SessionId>>::new();
        let (mut wanted, mut older, mut elsewhere) = (Vec::new(), 0, 0);
        for SessionHead { session_id, parent, whereabouts } in &heads {
            match (parent.as_ref().filter(|parent| known.contains(parent)), whereabouts) {
                (Some(parent), _) => children.entry(parent).or_default().push(session_id),
                (None, Whereabouts::MaybeHere) if wanted.len() < PAGE => wanted.push(session_id.clone()),
                (None, Whereabouts::MaybeHere) => older += 1,
                (None, Whereabouts::Elsewhere) => elsewhere += 1,
            }
        }
        let mut next = 0;
        while let Some(below) = wanted.get(next).map(|session| children.remove(session)) {
            next += 1;
            wanted.extend(below.into_iter().flatten().cloned());
        }
        let shown = store.summaries(&wanted)?;
        let wanted: HashSet<&SessionId> = wanted.iter().collect();
        let others = known.difference(&wanted).copied().cloned().collect();
        Ok(Self { shown, others, older, elsewhere })
    }
}

/// This directory's sessions, then either those of others or how many more there are.
fn list(listed: &Listed, all: bool, here: &Path, folder: &Path) -> Result<(), Exit> {
    let Listed { shown, others, older, elsewhere: unread } = listed;
    if shown.is_empty() && others.is_empty() {
        error_line("", &format!("no sessions in {}", folder.display()), Tint::None);
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    let table = SessionTable::of_some(shown, others, now, width().unwrap_or(200));
    // One that has lost its directory with its first line may be of this one.
    let is_here = |root: &SessionSummary| root.cwd.as_ref().is_none_or(|cwd| *cwd == here);
    let of_here = table.rows(is_here);
    let mut elsewhere = Elsewhere::default();
    table.roots().filter(|root| !is_here(root)).for_each(|root| elsewhere.take(root));
    let mut text = String::new();
    if !of_here.is_empty() || all {
        text.push_str(&table.head());
    }
    text.push_str(&of_here);
    if all {
        for directory in &elsewhere.directories {
            text.push_str(&format!("\n{}:\n", one_line(&directory.display().to_string())));
            text.push_str(&table.rows(|root| root.cwd.as_ref() == Some(directory)));
        }
        return print(&text);
    }
    print(&text)?;
    let none = if of_here.is_empty() { format!("no sessions of {}; ", here.display()) } else { String::new() };
    let more = match (older, unread + elsewhere.sessions) {
        (0, 0) => return Ok(()),
        (0, 1) => "1 session of another directory".to_owned(),
        (0, count) => format!("{count} sessions of other directories"),
        // Which of them are of this directory is known once they are read.
        (older, count) => format!("{} more, older or of other directories", older + count),
    };
    error_line("", &format!("{none}{more}: playhouse sessions list --all"), Tint::Dim);
    Ok(())
}

/// What there is of other directories, those of the newest sessions first.
#[derive(Debug, Default)]
struct Elsewhere<'a> {
    sessions: usize,
    directories: Vec<&'a PathBuf>,
    seen: HashSet<&'a PathBuf>,
}

impl<'a> Elsewhere<'a> {
    fn take(&mut self, root: &'a SessionSummary) {
        self.sessions += 1;
        self.directories.extend(root.cwd.as_ref().filter(|directory| self.seen.insert(directory)));
    }
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
