//! Going on with a session whose journal is damaged, after a person said so.
//!
//! What can be read becomes the conversation of a new session with today's configuration and no grants; the damaged
//! journal stays as it is, with a last entry that names the new session.

use std::sync::Arc;

use playhouse::House;
use playhouse::agent::machine::Durable;
use playhouse::agent::machine::run::RunRequest;
use playhouse::agent::{AgentHandle, new_session_id};
use playhouse::from_config::FromConfig;
use playhouse::protocol::entry::{Opened, Settings};
use playhouse::protocol::{AgentMessage, SessionId};
use playhouse::session::{Branch, LastRun, SessionStatus, SessionSummary, StoreError};

use crate::cli::exit::Exit;
use crate::cli::terminal::follow::{SessionHome, Watch};
use crate::cli::terminal::text::Tint;

/// Whether the user accepts that a journal is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// `--accept-broken-chain` was given.
    Damage,
    Nothing,
}

impl Accept {
    /// Whether the flag was given.
    pub fn of(flag: bool) -> Self {
        if flag { Self::Damage } else { Self::Nothing }
    }
}

/// What a session is that cannot go on because its journal is damaged, and what to do.
pub fn advice(summary: &SessionSummary, kept: &SessionHome) -> Option<String> {
    let SessionStatus::Damaged { last_run } = &summary.status else { return None };
    let (session, flag) = (kept.short(&summary.session_id), kept.flag());
    Some(match last_run {
        LastRun::Unknown => format!(
            "the journal of session `{session}` is damaged, and what was left to do cannot be told: see `playhouse sessions \
             show {session}{flag}`, then go on as far as it goes with `playhouse resume {session}{flag} \
             --accept-broken-chain`, or remove it with `playhouse sessions rm {session}{flag}`"
        ),
        LastRun::Ended => format!(
            "the journal of session `{session}` is damaged; its last run had ended: to go on from what can be read, `playhouse \
             run --session {session}{flag} --accept-broken-chain PROMPT`"
        ),
    })
}

/// A new session's agent with what can be read of a damaged one, and what was still to be said in that: it is said to
/// the agent like any prompt, since no guard may have passed it. The agent's journal begins with what it is told first;
/// after that, [`House::name_successor`] is due.
pub async fn go_on(
    house: &House,
    session: &SessionId,
    settings: Settings,
    from: &FromConfig,
    watch: &mut Watch,
) -> Result<(AgentHandle, Messages), Exit> {
    let (messages, unsaid) = readable(house, session, &settings).await.map_err(Exit::refused)?;
    let short = watch.kept.short(session);
    if messages.is_empty() && unsaid.is_empty() {
        let flag = watch.kept.flag();
        let text = format!(
            "nothing of the conversation of session `{short}` can be read: remove it with `playhouse sessions rm {short}{flag}`"
        );
        return Err(Exit::Failed(text));
    }
    let agent = from.agent(house, settings).map_err(Exit::refused)?.messages(messages);
    let agent = agent.spawn().await.map_err(Exit::refused)?;
    let new = watch.kept.short(&agent.session_id());
    watch.view.note(Tint::Red, &format!("what can be read of session {short} goes on as session {new}"));
    Ok((agent, unsaid))
}

type Messages = Vec<Arc<AgentMessage>>;

/// The conversation as far as lines that can be read tell it, and what waited to be said in it.
async fn readable(house: &House, session: &SessionId, settings: &Settings) -> Result<(Messages, Messages), StoreError> {
    // For when the first entry is lost; the settings of a damaged journal are not used in any case.
    let opened = Opened::new(new_session_id().as_str().into(), session.clone(), Arc::new(settings.clone()));
    let empty = Durable::new(&opened);
    let folded = house.fold(session, move |folded: &mut Option<Durable>, entry, branch| match branch {
        Branch::Main => folded.get_or_insert_with(|| Durable::new(&opened)).apply(entry),
        Branch::Side => {}
    });
    let durable = folded.await?.0.unwrap_or(empty);
    let mut unsaid = durable.run.as_ref().map(|run| run.prompt.clone()).unwrap_or_default();
    if let Some(RunRequest::Prompt(prompt)) = durable.pending.as_ref().map(|pending| &pending.request) {
        unsaid.extend(prompt.iter().cloned());
    }
    for queued in durable.steering.iter().chain(&durable.follow_ups) {
        unsaid.extend(queued.messages.iter().cloned());
    }
    Ok((durable.transcript().as_slice().to_vec(), unsaid))
}
