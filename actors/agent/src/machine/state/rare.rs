//! What few sessions have beside their conversation: rules that answers have added, a plan, restarts. The part of the fold
//! that is about these.

use std::sync::Arc;

use playhouse_protocol::entry::{Opened, PlannedChange, Wake};
use playhouse_protocol::{AgentMessage, EntryBody, InputId, ToolCallId, ToolResult};

use super::run::{Pending, RunRequest};
use crate::machine::Durable;

/// What few sessions have: kept in a box, since there may be very many agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RareState {
    grants: Vec<String>,
    plan: Vec<PlannedChange>,
    last_change: u32,
    /// How often in a row it was restarted in its work and got nowhere.
    restarts: u32,
}

impl RareState {
    pub(super) fn of(opened: &Opened) -> Option<Box<Self>> {
        let (grants, plan) = (opened.settings.grants.clone(), opened.plan.clone());
        let last_change = plan.iter().map(|planned| planned.change).max().unwrap_or_default();
        (!grants.is_empty() || !plan.is_empty()).then(|| Box::new(Self { grants, plan, last_change, restarts: 0 }))
    }
}

impl Durable {
    /// What the agent was allowed for longer than once: rules.
    pub fn grants(&self) -> &[String] {
        self.rare.as_ref().map(|rare| rare.grants.as_slice()).unwrap_or_default()
    }

    /// Changes that wait for approval.
    pub fn plan(&self) -> &[PlannedChange] {
        self.rare.as_ref().map(|rare| rare.plan.as_slice()).unwrap_or_default()
    }

    /// The number of the last change that was planned.
    pub fn last_change(&self) -> u32 {
        self.rare.as_ref().map(|rare| rare.last_change).unwrap_or_default()
    }

    /// How often in a row it was restarted in the middle of its work and got nowhere.
    pub fn restarts(&self) -> u32 {
        self.rare.as_ref().map(|rare| rare.restarts).unwrap_or_default()
    }

    /// Keeps the count of restarts. What is written again after every restart is no progress; anything else is.
    pub(super) fn count_restarts(&mut self, body: &EntryBody) {
        match body {
            EntryBody::Recovered { wake: Wake::Restarted, .. } => {
                // A sub-agent counts its own.
                if !self.waits_for_others(|_| true) {
                    let rare = self.rare_mut();
                    rare.restarts = rare.restarts.saturating_add(1);
                }
            }
            EntryBody::Requested { .. } | EntryBody::AttemptFailed { .. } | EntryBody::Parked { .. } => {}
            _ => {
                if let Some(rare) = &mut self.rare {
                    rare.restarts = 0;
                }
            }
        }
    }

    fn rare_mut(&mut self) -> &mut RareState {
        self.rare.get_or_insert_default()
    }

    /// Rules that hold from now on.
    pub(super) fn grant(&mut self, rules: &[String]) {
        for rule in rules {
            if !self.grants().contains(rule) {
                self.rare_mut().grants.push(rule.clone());
            }
        }
    }

    /// No yes holds any more: what was allowed in one directory is another thing in the next.
    pub(super) fn drop_grants(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.grants.clear();
        }
    }

    /// A call goes into the plan; the model is told so.
    pub(super) fn plan_change(&mut self, id: &ToolCallId, change: u32, at: u64) {
        let Some(slot) = self.turn().and_then(|turn| turn.slot(id)) else { return };
        let planned = PlannedChange { change, tool_name: slot.name.clone(), args: slot.args.clone() };
        let rare = self.rare_mut();
        rare.last_change = rare.last_change.max(change);
        rare.plan.push(planned);
        self.answer(id, &queued_as(change), false, at, false);
    }

    /// A run is to carry out these changes.
    pub(super) fn approve(&mut self, input_id: &InputId, changes: &[u32], at: u64) {
        self.seen.insert(input_id.clone());
        self.last_active_at = Some(at);
        let plan = std::mem::take(&mut self.rare_mut().plan);
        let (approved, rest) = plan.into_iter().partition(|planned| changes.contains(&planned.change));
        self.rare_mut().plan = rest;
        let (input_id, request) = (input_id.clone(), RunRequest::Plan(approved));
        self.pending = Some(Box::new(Pending { input_id, request, format: None, aborting: false }));
    }

    /// These changes were rejected.
    pub(super) fn drop_changes(&mut self, changes: &[u32]) {
        self.rare_mut().plan.retain(|planned| !changes.contains(&planned.change));
    }

    /// Nothing is planned any more.
    pub(super) fn drop_plan(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.plan.clear();
        }
    }

    /// Approved changes that nothing has come of go back into the plan.
    pub(super) fn put_back_what_is_undone(&mut self) {
        let undone = match (&mut self.run, &mut self.pending) {
            (Some(run), _) => std::mem::take(&mut run.plan),
            (None, Some(pending)) => match &mut pending.request {
                RunRequest::Plan(changes) => std::mem::take(changes),
                RunRequest::Prompt(_) | RunRequest::Continue(_) => Vec::new(),
            },
            (None, None) => Vec::new(),
        };
        if !undone.is_empty() {
            self.rare_mut().plan.splice(..0, undone);
        }
    }
}

/// What the model is told of a call that was queued.
pub(super) fn queued_as(change: u32) -> ToolResult {
    ToolResult::text(format!(
        "Queued as change {change} of the plan. Nothing was changed yet: it runs if the plan is approved. Go on \
         planning as if it had been done, and end with a summary of the plan."
    ))
}

/// What a run that carries out a plan begins with.
pub(super) fn approved(changes: &[PlannedChange], at: u64) -> Arc<AgentMessage> {
    let text = format!("The plan is approved. Carried out now: {}.", listed(changes));
    Arc::new(AgentMessage::user(text, at))
}

/// The changes by number and tool, for a text.
pub(in crate::machine) fn listed(changes: &[PlannedChange]) -> String {
    let one = |planned: &PlannedChange| format!("change {} ({})", planned.change, planned.tool_name);
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}
