//! `playhouse plan`: what a planning agent has queued, and what becomes of it.

use std::path::PathBuf;

use playhouse::House;
use playhouse::agent::{Agent, AgentHandle, new_input};
use playhouse::config::Config;
use playhouse::protocol::entry::PlannedChange;
use playhouse::protocol::{Command, Op, PlanDecision, SessionId};
use serde_json::json;

use crate::cli::args::RecordingArgs;
use crate::cli::args::{PlanArgs, PlanCommand};
use crate::cli::commands::damaged;
use crate::cli::commands::resume::{refuse_if_not_ours, tell_damage};
use crate::cli::exit::Exit;
use crate::cli::folders::here;
use crate::cli::house::{close_house, from_config, open_house};
use crate::cli::terminal::ask::Asking;
use crate::cli::terminal::follow::{EVENTS, SessionHome, Watch, parked_reason, unwritten};
use crate::cli::terminal::output::OutputArgs;
use crate::cli::terminal::signals::Interrupt;
use crate::cli::terminal::text::{cut, harmless, one_line};
use crate::cli::terminal::view::{Runs, View, write_out};

/// How much of an argument is shown.
const SHOWN_LINES: usize = 40;
const SHOWN_CHARS: usize = 4_000;

/// Does what is asked with a session's plan.
pub async fn plan(args: PlanArgs, config: Config, (folder, kept): (PathBuf, SessionHome)) -> Result<(), Exit> {
    let (session, recordings, output) = match &args.command {
        PlanCommand::Show { session, .. } => (session, RecordingArgs::default(), OutputArgs::default()),
        PlanCommand::Approve { session, recordings, output, .. } => (session, recordings.clone(), output.clone()),
        PlanCommand::Reject { session, recordings, .. } => (session, recordings.clone(), OutputArgs::default()),
    };
    output.check()?;
    let session = session.find(&folder, here)?;
    let (interrupt, asking) = (Interrupt::listen()?, Asking::default());
    let house = open_house(&from_config(config, &asking, &recordings), &asking, Some(folder)).await?;
    let mut watch = Watch { view: View::new(&output, Runs::One, &asking), interrupt, kept, slot: None };
    let done = carry_out(&house, &session, args.command, &mut watch).await;
    let done = watch.view.finish(done);
    close_house(&house, &asking).await;
    done
}

async fn carry_out(house: &House, session: &SessionId, what: PlanCommand, watch: &mut Watch) -> Result<(), Exit> {
    let agent = bring(house, session, watch).await?;
    match what {
        PlanCommand::Show { json, .. } => {
            let state = agent.state().await.map_err(Exit::refused)?;
            write_out(&shown(&state.plan, json)).map_err(|error| unwritten(&error))
        }
        PlanCommand::Approve { changes, .. } => {
            let mut events = agent.subscribe_tree_with(EVENTS);
            let input_id = new_input();
            let decision = PlanDecision::Approve { changes: chosen(changes) };
            let told = agent.submit(Command::new(input_id.clone(), Op::Plan { decision })).await;
            told.map_err(|error| watch.not_taken(house, &agent, &error))?;
            let followed = watch.follow(&agent, &input_id, &mut events).await;
            let done = watch.verdict(followed, session);
            if let Ok(state) = agent.state().await
                && !state.plan.is_empty()
            {
                watch.view.plan(&watch.kept.short(session), &state.plan);
            }
            done
        }
        PlanCommand::Reject { changes, reason, .. } => {
            let told = agent.reject_plan(chosen(changes), reason).await;
            told.map_err(|error| watch.not_taken(house, &agent, &error))
        }
    }
}

/// The session's agent, on stage and at rest.
async fn bring(house: &House, session: &SessionId, watch: &mut Watch) -> Result<AgentHandle, Exit> {
    let summary = house.session(session).await.map_err(Exit::refused)?;
    refuse_if_not_ours(&summary)?;
    tell_damage(&summary, watch);
    if let Some(advice) = damaged::advice(&summary, &watch.kept) {
        return Err(Exit::Refused(advice));
    }
    if summary.status.is_unfinished() && !summary.status.has_ended() {
        let (short, flag) = (watch.kept.short(session), watch.kept.flag());
        let text = format!("session `{short}` has a run that is not finished: playhouse resume {short}{flag}");
        return Err(Exit::Refused(text));
    }
    let agent = house.resume(session).await.map_err(Exit::refused)?;
    match agent.state().await {
        Ok(_) => Ok(agent),
        Err(error) => Err(Exit::Refused(parked_reason(house, &agent, &error))),
    }
}

/// No number means all.
fn chosen(changes: Vec<u32>) -> Option<Vec<u32>> {
    if changes.is_empty() { None } else { Some(changes) }
}

fn shown(plan: &[PlannedChange], json: bool) -> String {
    if json {
        return plan.iter().map(|planned| format!("{}\n", json!(planned))).collect();
    }
    if plan.is_empty() {
        return "nothing is planned\n".to_owned();
    }
    plan.iter().map(one).collect()
}

/// A change with all it would do, as far as that fits a screen.
fn one(planned: &PlannedChange) -> String {
    let mut text = format!("{}. {}\n", planned.change, one_line(&planned.tool_name));
    for (name, value) in planned.args.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = cut(harmless(&value).trim_end(), SHOWN_CHARS);
        let lines: Vec<&str> = value.lines().collect();
        if let [line] = lines.as_slice() {
            text.push_str(&format!("   {}: {line}\n", one_line(name)));
            continue;
        }
        text.push_str(&format!("   {}:\n", one_line(name)));
        for line in lines.iter().take(SHOWN_LINES) {
            text.push_str(&format!("   | {line}\n"));
        }
        if lines.len() > SHOWN_LINES {
            text.push_str(&format!("   … and {} more lines\n", lines.len() - SHOWN_LINES));
        }
    }
    text
}
