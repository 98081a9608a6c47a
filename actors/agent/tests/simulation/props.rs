//! What a world is made of: tools, settings, hooks, messages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use playhouse_agent::machine::{Authority, Catalog, HookPoint, HookSet, Vetting};
use playhouse_protocol::entry::{BlockStage, Settings};
use playhouse_protocol::{
    Access, Content, EffectClass, ExecutionLimits, GrantScope, Level, Message, Mode, ModelConfig, PermissionMode,
    Question, QueueMode, Ruling, SessionId, Stance, StopReason, ToolCallId, ToolDefinition, ToolError,
    ToolExecutionStrategy, ToolResult,
};
use serde_json::Value;

use crate::common;

/// Tools whose names say what they are.
pub struct Props;

impl Catalog for Props {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::new([])
    }

    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting {
        let session = authority.session;
        if args.is_string() {
            return Vetting::Blocked { stage: BlockStage::Schema, reason: "not JSON".into() };
        }
        let allow = || Ruling::Allow { by: "test".into() };
        let ready = |effect| Vetting::Ready { effect, level: Level::None, ruling: allow() };
        match name {
            "read" => ready(EffectClass::Read),
            "same" => ready(EffectClass::Idempotent { key: call.to_string() }),
            "probe" => ready(EffectClass::Reconcilable { probe: call.to_string() }),
            "once" => ready(EffectClass::Once),
            "child" => {
                let child = format!("{session}-{}", call.as_str().replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
                ready(EffectClass::Child { session: SessionId::new(child).unwrap() })
            }
            "risky" => {
                let ruling = match authority.mode.stance(Level::Execute) {
                    _ if authority.grants.iter().any(|rule| rule == "risky") => allow(),
                    Stance::Run => allow(),
                    Stance::Ask => Ruling::Ask(Question {
                        reason: "take a risk".into(),
                        level: Level::Execute,
                        offer: GrantScope::Always,
                        rules: vec!["risky".into()],
                    }),
                    Stance::Refuse => Ruling::Forbid { reason: "refused".into() },
                };
                Vetting::Ready { effect: EffectClass::Once, level: Level::Execute, ruling }
            }
            _ => Vetting::Blocked { stage: BlockStage::Lookup, reason: "no such tool".into() },
        }
    }

    fn access(&self, name: &str, _: &Value) -> Access {
        match name {
            "read" => Access::Reads(None),
            "same" => Access::Writes("a".into()),
            "probe" => Access::Writes("b".into()),
            "child" => Access::Free,
            _ => Access::Alone,
        }
    }

    fn summary(&self, name: &str, _: &Value, _: &Result<ToolResult, ToolError>) -> String {
        name.to_owned()
    }
}

pub fn pick<T: Clone + Ord>(rng: &mut Rng, set: &BTreeSet<T>) -> Option<T> {
    (!set.is_empty()).then(|| set.iter().nth(rng.usize(..set.len())).cloned()).flatten()
}

pub fn assistant(text: &str, calls: Vec<Content>, stop_reason: StopReason) -> Message {
    common::assistant([Content::text(text)].into_iter().chain(calls).collect(), stop_reason)
}

pub fn settings(rng: &mut Rng) -> Settings {
    let mode = |rng: &mut Rng| if rng.bool() { QueueMode::All } else { QueueMode::OneAtATime };
    Settings {
        kind: "sim".into(),
        fallbacks: (0..rng.usize(..3)).map(|n| Arc::new(ModelConfig::scripted(format!("fallback {n}")))).collect(),
        permission: if rng.u8(..4) == 0 { PermissionMode::Yolo } else { PermissionMode::Ask },
        mode: if rng.u8(..4) == 0 { Mode::Plan } else { Mode::Act },
        limits: match rng.u8(..4) {
            0 => ExecutionLimits { max_turns: Some(rng.u32(..4)), ..ExecutionLimits::none() },
            1 => ExecutionLimits { max_duration: Some(Duration::from_millis(500)), ..ExecutionLimits::none() },
            _ => ExecutionLimits::default(),
        },
        tool_execution: match rng.u8(..3) {
            0 => ToolExecutionStrategy::Parallel,
            1 => ToolExecutionStrategy::Sequential,
            _ => ToolExecutionStrategy::Batched { size: 2 },
        },
        steering_mode: mode(rng),
        follow_up_mode: mode(rng),
        config_id: None,
        ..common::settings()
    }
}

pub fn hook_set(rng: &mut Rng) -> HookSet {
    let all = [
        HookPoint::BeforeLoop,
        HookPoint::AfterLoop,
        HookPoint::BeforeTurn,
        HookPoint::AfterTurn,
        HookPoint::BeforeTool,
        HookPoint::AfterTool,
        HookPoint::BeforeUpdate,
        HookPoint::AfterUpdate,
        HookPoint::OnError,
        HookPoint::Filter,
        HookPoint::Policy,
        HookPoint::Stop,
        HookPoint::SessionStart,
    ];
    let density = rng.u8(..4);
    let chosen = all.into_iter().filter(|_| rng.u8(..4) < density);
    let hooks = chosen.fold(HookSet::default(), HookSet::with);
    // Most agents have tools that look ahead.
    if rng.u8(..8) == 0 { hooks } else { hooks.with(HookPoint::Check) }
}
