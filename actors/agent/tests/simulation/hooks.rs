//! The hooks: filters, the policy, and an answer for every other point.

use std::sync::Arc;

use playhouse_agent::machine::{
    AfterTool, BeforeTool, Checked, FilterVerdict, Filtered, HookCall, HookId, HookPoint, Machine, MayStop, Permit,
    SessionStart, Verdict,
};
use playhouse_agent::testing::Report;
use playhouse_protocol::{AgentMessage, Ruling};
use serde_json::json;

use crate::world::World;

impl World {
    pub fn hook(&mut self, machine: &mut Machine) {
        let waiting: Vec<HookId> = self.hooks.keys().copied().collect();
        if waiting.is_empty() {
            return self.tool(machine);
        }
        let hook = waiting[self.rng.usize(..waiting.len())];
        let Some(call) = self.hooks.remove(&hook) else { return };
        let verdict = match call {
            HookCall::Filter { inputs } => {
                Verdict::Filter(Filtered::Each(inputs.iter().map(|input| self.filter(input)).collect()))
            }
            HookCall::Policy { ours, .. } => match self.rng.u8(..5) {
                0 => Verdict::Policy(Ruling::Forbid { reason: "not here".into() }),
                1 => Verdict::Policy(Ruling::Allow { by: "the policy".into() }),
                // As if it had answered for another point.
                2 => Verdict::Noted,
                _ => Verdict::Policy(ours),
            },
            call => self.verdict(&call),
        };
        self.delivered.extend(said(&verdict));
        self.send(machine, Report::HookDone { hook, verdict });
    }

    fn filter(&mut self, input: &[Arc<AgentMessage>]) -> FilterVerdict {
        let verdict = match self.rng.u8(..5) {
            0 => return FilterVerdict::Reject("rude".into()),
            1 => FilterVerdict::Warn("careful".into()),
            _ => FilterVerdict::Pass,
        };
        self.checks.passed(input);
        verdict
    }

    /// What the hook's point can be answered with, each often enough. Now and then it is an answer for another point.
    fn verdict(&mut self, call: &HookCall) -> Verdict {
        let (reason, text) = ("no".to_owned(), "by the way".to_owned());
        let args = Arc::new(if self.rng.u8(..6) == 0 { json!("{\"cut") } else { json!({"n": 2}) });
        let roll = self.rng.u8(..24);
        if roll == 23 {
            return Verdict::BeforeTool(BeforeTool::Ask { reason, args: Some(args) });
        }
        match call.point() {
            HookPoint::BeforeLoop | HookPoint::BeforeTurn | HookPoint::BeforeUpdate => Verdict::Permit(match roll {
                0..=4 => Permit::No { reason },
                _ => Permit::Yes,
            }),
            HookPoint::AfterLoop | HookPoint::AfterTurn | HookPoint::AfterUpdate | HookPoint::OnError => Verdict::Noted,
            HookPoint::BeforeTool => Verdict::BeforeTool(match roll {
                0..=3 => BeforeTool::Block { reason },
                4 => BeforeTool::Halt { reason },
                5..=13 => BeforeTool::Amend { args },
                14..=16 => BeforeTool::Ask { reason, args: None },
                17..=18 => BeforeTool::Ask { reason, args: Some(args) },
                _ => BeforeTool::Run,
            }),
            HookPoint::AfterTool => Verdict::AfterTool(match roll {
                4 => AfterTool::Halt { reason },
                6..=11 => AfterTool::Say { text },
                _ => AfterTool::Done,
            }),
            HookPoint::Stop => Verdict::Stop(match roll {
                0..=3 => MayStop::GoOn { reason },
                4 => MayStop::Halt { reason },
                _ => MayStop::Yes,
            }),
            HookPoint::SessionStart => Verdict::SessionStart(match roll {
                0..=4 => SessionStart::Halt { reason },
                6..=11 => SessionStart::Say { text },
                _ => SessionStart::Plain,
            }),
            HookPoint::Check => Verdict::Check(match roll {
                0..=11 => Checked::Fails { reason },
                _ => Checked::Possible,
            }),
            HookPoint::Filter | HookPoint::Policy => Verdict::Noted,
        }
    }
}

/// A verdict's name, where it is one that must be seen.
fn said(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Policy(_) => Some("PolicyJudges"),
        Verdict::Check(Checked::Fails { .. }) => Some("CheckFails"),
        Verdict::Check(Checked::Possible) => Some("CheckPasses"),
        Verdict::BeforeTool(BeforeTool::Ask { .. }) => Some("HookAsks"),
        Verdict::BeforeTool(BeforeTool::Amend { .. }) => Some("HookAmends"),
        Verdict::AfterTool(AfterTool::Say { .. }) | Verdict::SessionStart(SessionStart::Say { .. }) => Some("HookSays"),
        Verdict::BeforeTool(BeforeTool::Halt { .. })
        | Verdict::AfterTool(AfterTool::Halt { .. })
        | Verdict::Stop(MayStop::Halt { .. })
        | Verdict::SessionStart(SessionStart::Halt { .. }) => Some("HookHalts"),
        _ => None,
    }
}
