//! `playhouse audit`: whether journals are as they were written, and what was decided and done. Needs no house.

use std::path::Path;
use std::sync::Arc;

use playhouse::journal::{Decisions, StepKind};
use playhouse::protocol::{Entry, Seq, SessionId};
use playhouse::session::{Branch, ChainHash, SessionSummary, Store, StoreError, Verification, fold_chain};
use serde_json::{Value, json};

use crate::cli::args::{AuditArgs, AuditCommand};
use crate::cli::commands::sessions::{along, look, print, print_each, tell_damage};
use crate::cli::exit::Exit;
use crate::cli::folders::here;
use crate::cli::terminal::follow::SessionHome;
use crate::cli::terminal::text::{Tint, error_line, one_line};

/// `playhouse audit`: verifies journals, or shows what was decided in one.
pub fn audit(args: AuditArgs, folder: &Path, kept: &SessionHome) -> Result<(), Exit> {
    match args.command {
        AuditCommand::Verify { sessions, heads, json } => {
            let sessions = sessions.iter().map(|name| name.find(folder, here)).collect::<Result<_, _>>()?;
            let report = if folder.exists() { check(&*look(folder)?, sessions)? } else { Vec::new() };
            verify(&report, &heads, json, folder)
        }
        AuditCommand::Show { session, json } => {
            let session = session.find(folder, here)?;
            let store = look(folder)?;
            tell_damage(&SessionSummary::read(&*store, &session).map_err(Exit::refused)?, kept);
            let mut decisions = Decisions::default();
            print_each(along(&*store, &session).map_err(Exit::refused)?, |(seq, entry)| {
                let step = decisions.step(seq, &entry);
                Ok(step
                    .map_or_else(String::new, |step| if json { format!("{}\n", step.to_json()) } else { step.line() }))
            })
        }
    }
}

/// A session and what came out of checking its journal.
type CheckedSession = (SessionId, Result<Journal, StoreError>);

/// A journal that was read.
#[derive(Debug)]
struct Journal {
    checked: Verification,
    /// How many of its entries are decisions.
    decisions: usize,
    /// How many of its entries begin an effect.
    effects: usize,
}

impl Journal {
    fn read(store: &dyn Store, session: &SessionId) -> Result<Self, StoreError> {
        let checked = store.verify(session)?;
        let count = |(calls, decisions, effects): &mut (Decisions, usize, usize), entry: &Arc<Entry>, branch| match (
            branch,
            calls.step(Seq::default(), entry).map(|step| step.kind),
        ) {
            (Branch::Main, Some(StepKind::Decision)) => *decisions += 1,
            (Branch::Main, Some(StepKind::Effect)) => *effects += 1,
            (Branch::Main, Some(StepKind::Outcome) | None) | (Branch::Side, _) => {}
        };
        let ((_, decisions, effects), _) = fold_chain(|| store.read(session, Seq::default()), count)?;
        Ok(Self { checked, decisions, effects })
    }
}

/// Checks these sessions, or all.
fn check(store: &dyn Store, named: Vec<SessionId>) -> Result<Vec<CheckedSession>, Exit> {
    let everything = named.is_empty();
    let sessions = if everything { store.sessions().map_err(Exit::refused)? } else { named };
    let mut report = Vec::new();
    for session in sessions {
        match Journal::read(store, &session) {
            // Removed since it was listed.
            Err(StoreError::Unknown { .. }) if everything => {}
            Err(error @ StoreError::Unknown { .. }) => return Err(Exit::refused(error)),
            checked => report.push((session, checked)),
        }
    }
    Ok(report)
}

fn verify(report: &[CheckedSession], heads: &[ChainHash], json: bool, folder: &Path) -> Result<(), Exit> {
    if report.is_empty() && !json {
        error_line("", &format!("no sessions in {}", folder.display()), Tint::None);
    }
    let mut text = String::new();
    let mut is_well = true;
    for (session, checked) in report {
        let finding = Finding::of(checked);
        is_well &= finding.is_well();
        text.push_str(&if json { format!("{}\n", finding.json(session)) } else { finding.lines(session) });
    }
    for head in heads {
        let place = find(report, head);
        is_well &= place.is_some();
        text.push_str(&match (json, place) {
            (true, place) => {
                let (session, seq) = place.map(|(session, seq, _)| (session, seq)).unzip();
                format!("{}\n", json!({ "head": head, "found": place.is_some(), "session_id": session, "seq": seq }))
            }
            (false, Some((session, seq, since))) => {
                format!("found     head {head}: record {} of session {session}, {since} records since\n", seq.0)
            }
            (false, None) => format!(
                "not found head {head}: in none of these chains; records were cut off or rewritten since it was noted\n"
            ),
        });
    }
    print(&text)?;
    if is_well { Ok(()) } else { Err(Exit::Told(1)) }
}

/// Where a head is: the session, the record, and how many follow it.
fn find<'a>(report: &'a [CheckedSession], head: &ChainHash) -> Option<(&'a SessionId, Seq, usize)> {
    report.iter().find_map(|(session, checked)| {
        let checked = &checked.as_ref().ok()?.checked;
        let seq = checked.find(head)?;
        let until = usize::try_from(seq.0).unwrap_or(usize::MAX);
        Some((session, seq, checked.records().saturating_sub(until)))
    })
}

/// What there is to say of a journal.
#[derive(Debug)]
enum Finding<'a> {
    /// It is as it was written.
    Well(&'a Journal, ChainHash),
    /// Nothing was written to it: a crash came before the first record was whole.
    Empty(&'a Journal),
    /// Nothing in it is part of a chain.
    NoChain(&'a Journal),
    /// Something in it is not.
    Broken(&'a Journal, String),
    /// It could not be read.
    Unread(&'a StoreError),
}

impl<'a> Finding<'a> {
    fn of(journal: &'a Result<Journal, StoreError>) -> Self {
        match journal {
            Err(error) => Self::Unread(error),
            Ok(journal) => match (&journal.checked.broken, journal.checked.head()) {
                (Some(damage), _) => Self::Broken(journal, damage.to_string()),
                (None, Some(head)) => Self::Well(journal, head),
                (None, None) if journal.checked.records() == 0 => Self::Empty(journal),
                (None, None) => Self::NoChain(journal),
            },
        }
    }

    fn is_well(&self) -> bool {
        match self {
            Self::Well(..) | Self::Empty(_) => true,
            Self::NoChain(_) | Self::Broken(..) | Self::Unread(_) => false,
        }
    }

    fn lines(&self, session: &SessionId) -> String {
        let (mut text, notes) = match self {
            Self::Well(journal, head) => {
                let Journal { checked, decisions, effects } = journal;
                let records = checked.records();
                let text = format!(
                    "ok        {session}  {records} records, {decisions} decisions, {effects} effects, head {head}\n"
                );
                (text, notes(checked))
            }
            Self::Empty(Journal { checked, .. }) => (
                format!("empty     {session}  nothing was written before a crash; it can be removed\n"),
                notes(checked),
            ),
            Self::NoChain(Journal { checked, .. }) => {
                let records = checked.records();
                let why = "written before there was one; it begins with the next record and covers these";
                (format!("no chain  {session}  {records} records: {why}\n"), notes(checked))
            }
            Self::Broken(_, damage) => (format!("broken    {session}  {}\n", one_line(damage)), Vec::new()),
            Self::Unread(error) => (format!("broken    {session}  {}\n", one_line(&error.to_string())), Vec::new()),
        };
        notes.iter().for_each(|note| text.push_str(&format!("          {}\n", one_line(note))));
        text
    }

    fn json(&self, session: &SessionId) -> Value {
        let (status, journal, reason) = match self {
            Self::Well(journal, _) => ("ok", Some(journal), None),
            Self::Empty(journal) => ("empty", Some(journal), None),
            Self::NoChain(journal) => ("no_chain", Some(journal), None),
            Self::Broken(journal, damage) => ("broken", Some(journal), Some(damage.clone())),
            Self::Unread(error) => ("broken", None, Some(error.to_string())),
        };
        let checked = journal.map(|journal| &journal.checked);
        json!({
            "session_id": session,
            "status": status,
            "reason": reason,
            "broken": checked.and_then(|checked| checked.broken.as_ref()),
            "records": checked.map(Verification::records),
            "decisions": journal.map(|journal| journal.decisions),
            "effects": journal.map(|journal| journal.effects),
            "head": checked.filter(|checked| checked.broken.is_none()).and_then(Verification::head),
            "chained_from_line": checked.and_then(|checked| checked.chained_from),
            "notes": checked.map(notes).unwrap_or_default(),
        })
    }
}

/// What is unusual and nothing wrong.
fn notes(checked: &Verification) -> Vec<String> {
    let from = checked.chained_from.filter(|line| *line > 1);
    let from = from.map(|line| format!("no chain before line {line}, which covers what stands there"));
    from.into_iter().chain(checked.notes.iter().map(ToString::to_string)).collect()
}
