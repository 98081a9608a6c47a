//! What few sessions have beside their conversation: rules that answers have added, a plan, restarts. The part of the fold
//! that is about these.

use std::sync::Arc;

use playhouse_protocol::entry::{Opened, PlannedChange, Wake};
use playhouse_protocol::{AgentMessage, EntryBody, InputId, ToolCallId, ToolResult};

use super::run::{Ask, Pending, Run};
use crate::machine::Durable;

/// What few sessions have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    grants: Vec<String>,
    plan: Vec<PlannedChange>,
    last_change: u32,
    /// How often in a row it was restarted in its work and got nowhere.
    restarts: u32,
}

impl Extra {
    pub(super) fn of(opened: &Opened) -> Option<Box<Self>> {
        let (grants, plan) = (opened.settings.grants.clone(), opened.plan.clone());
        let last_change = plan.iter().map(|planned| planned.change).max().unwrap_or_default();
        (!grants.is_empty() || !plan.is_empty()).then(|| Box::new(Self { grants, plan, last_change, restarts: 0 }))
    }
}

impl Durable {
    /// What the agent was allowed for longer than once: rules.
    pub fn grants(&self) -> &[String] {
        self.extra.as_ref().map(|extra| extra.grants.as_slice()).unwrap_or_default()
    }

    /// Changes that wait for approval.
    pub fn plan(&self) -> &[PlannedChange] {
        self.extra.as_ref().map(|extra| extra.plan.as_slice()).unwrap_or_default()
    }

    /// The number of the last change that was planned.
    pub fn last_change(&self) -> u32 {
        self.extra.as_ref().map(|extra| extra.last_change).unwrap_or_default()
    }

    /// How often in a row it was restarted in the middle of its work and got nowhere.
    pub fn restarts(&self) -> u32 {
        self.extra.as_ref().map(|extra| extra.restarts).unwrap_or_default()
    }

    /// Keeps the count of restarts. What is written again after every restart is no progress; anything else is.
    pub(super) fn count_restarts(&mut self, body: &EntryBody) {
        match body {
            EntryBody::Recovered { wake: Wake::Restarted, .. } => {
                // A sub-agent counts its own.
                if !self.waits_for_others(|_| true) {
                    let extra = self.extra_mut();
                    extra.restarts = extra.restarts.saturating_add(1);
                }
            }
            EntryBody::Requested { .. } | EntryBody::AttemptFailed { .. } | EntryBody::Parked { .. } => {}
            _ => {
                if let Some(extra) = &mut self.extra {
                    extra.restarts = 0;
                }
            }
        }
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Rules that hold from now on.
    pub(super) fn grant(&mut self, rules: &[String]) {
        for rule in rules {
            if !self.grants().contains(rule) {
                self.extra_mut().grants.push(rule.clone());
            }
        }
    }

    /// No yes holds any more: what was allowed in one directory is another thing in the next.
    pub(super) fn drop_grants(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.grants.clear();
        }
    }

    /// A call goes into the plan; the model is told so.
    pub(super) fn plan_change(&mut self, id: &ToolCallId, change: u32, at: u64) {
        let Some(slot) = self.run.as_deref().and_then(Run::turn).and_then(|turn| turn.slot(id)) else { return };
        let planned = PlannedChange { change, tool_name: slot.name.clone(), args: slot.args.clone() };
        let extra = self.extra_mut();
        extra.last_change = extra.last_change.max(change);
        extra.plan.push(planned);
        self.answer(id, &queued_as(change), false, at, false);
    }

    /// A run is to carry out these changes.
    pub(super) fn approve(&mut self, input_id: &InputId, changes: &[u32], at: u64) {
        self.seen.insert(input_id.clone());
        self.last_active_at = Some(at);
        let plan = std::mem::take(&mut self.extra_mut().plan);
        let (approved, rest) = plan.into_iter().partition(|planned| changes.contains(&planned.change));
        self.extra_mut().plan = rest;
        let (input_id, ask) = (input_id.clone(), Ask::Plan(approved));
        self.pending = Some(Box::new(Pending { input_id, ask, format: None, aborting: false }));
    }

    /// Changes that are off.
    pub(super) fn drop_changes(&mut self, changes: &[u32]) {
        self.extra_mut().plan.retain(|planned| !changes.contains(&planned.change));
    }

    /// Nothing is planned any more.
    pub(super) fn drop_plan(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.plan.clear();
        }
    }

    /// Approved changes that nothing has come of go back into the plan.
    pub(super) fn put_back_what_is_undone(&mut self) {
        let undone = match (&mut self.run, &mut self.pending) {
            (Some(run), _) => std::mem::take(&mut run.plan),
            (None, Some(pending)) => match &mut pending.ask {
                Ask::Plan(changes) => std::mem::take(changes),
                Ask::Prompt(_) | Ask::Continue(_) => Vec::new(),
            },
            (None, None) => Vec::new(),
        };
        if !undone.is_empty() {
            self.extra_mut().plan.splice(..0, undone);
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
