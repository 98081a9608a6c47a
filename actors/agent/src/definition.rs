//! What an agent is made of that no journal can hold: its code.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use playhouse_protocol::entry::BlockStage;
use playhouse_protocol::{
    Access, EffectClass, Level, States, Subject, ToolCallId, ToolDefinition, ToolError, ToolResult,
};
use playhouse_provider::StreamProvider;
use playhouse_tools::policy::{Facts, LiveRules, SessionPolicy, level_here};
use playhouse_tools::{SandboxRules, ToolSet, Vetted};
use serde_json::Value;

use crate::hooks::policy::{PermissionPolicy, PolicyRequest, strictest};
use crate::hooks::process::Scene;
use crate::hooks::{Approvals, Hooks};
use crate::hub::Callback;
use crate::machine::{Authority, Catalog, HookCall, HookPoint, HookSet, Verdict, Vetting};
use crate::sub_agent::SubAgentTool;

/// An agent's code: tools, sub-agents, hooks, who answers questions, and a provider of its own if it has one.
#[derive(Clone, Default)]
pub struct Definition {
    /// Its tools; `None` is none.
    pub tools: Option<ToolSet>,
    /// What its tools and those of its sub-agents have of the program, before what the agents above it and its house have.
    pub states: States,
    /// Its sub-agents, which the model calls as tools.
    pub sub_agents: Vec<Arc<SubAgentTool>>,
    /// Where its user's code is consulted.
    pub hooks: Hooks,
    /// Who answers questions for permission.
    pub approvals: Approvals,
    /// Who has a say in what may run; the strictest counts.
    pub policies: Vec<Arc<dyn PermissionPolicy>>,
    /// Who answers instead of the model's own service.
    pub provider_override: Option<Arc<dyn StreamProvider>>,
    /// What is called with each of its events.
    pub callbacks: Vec<Callback>,
    /// How many events a subscriber may be behind.
    pub broadcast: Option<usize>,
}

impl Definition {
    /// Its tools, without sub-agents.
    pub fn tools(&self) -> ToolSet {
        self.tools.clone().unwrap_or_else(ToolSet::empty)
    }

    /// The sub-agent of this name.
    pub fn sub_agent(&self, name: &str) -> Option<&Arc<SubAgentTool>> {
        self.sub_agents.iter().find(|sub| sub.name() == name)
    }

    /// Refuses a definition with a tool, or a sub-agent's, that takes a state which is neither its own nor among those
    /// that it is given.
    pub fn check_states(&self, given: &States) -> Result<(), MissingState> {
        let given = self.states.over(given);
        if let Some((tool, state)) = self.tools.as_ref().and_then(|tools| tools.missing_state(&given)) {
            let (tool, state, given) = (tool.to_owned(), state.name(), given.names());
            return Err(MissingState { tool, sub_agent: None, state, given });
        }
        for sub in &self.sub_agents {
            sub.definition().check_states(&given).map_err(|missing| MissingState {
                sub_agent: Some(missing.sub_agent.unwrap_or_else(|| sub.name().to_owned())),
                ..missing
            })?;
        }
        Ok(())
    }

    /// The points at which its code is consulted.
    pub(crate) fn points(&self) -> HookSet {
        let points = self.hooks.set();
        if self.policies.is_empty() { points } else { points.with(HookPoint::Policy) }
    }

    /// Consults its code. The future belongs to a task that the agent can end.
    pub(crate) fn consult(&self, call: HookCall, scene: impl FnOnce() -> Scene) -> BoxFuture<'static, Verdict> {
        match call {
            HookCall::Policy { name, call, args, level, ours } => {
                let request = PolicyRequest { tool_name: name, tool_call_id: call, args, level, ours };
                let policies = self.policies.clone();
                Box::pin(async move { Verdict::Policy(strictest(&policies, &request).await) })
            }
            call => self.hooks.run(call, scene),
        }
    }

    /// The names of everything a model can call.
    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.tools();
        let subs = self.sub_agents.iter().map(|sub| sub.name().to_owned());
        tools.names().map(str::to_owned).chain(subs).collect()
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("tools", &self.tool_names())
            .field("hooks", &self.hooks)
            .field("approvals", &self.approvals)
            .finish_non_exhaustive()
    }
}

/// A tool takes a state that nobody gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool `{tool}`{} takes `State<{state}>`, and nobody gave a `{state}`{}: call `.state(…)` with one on `House::builder()`, or on the agent's builder",
    owner(sub_agent.as_deref()), list(given)
)]
pub struct MissingState {
    /// The tool's name.
    pub tool: String,
    /// The sub-agent that has the tool, if it is a sub-agent's.
    pub sub_agent: Option<String>,
    /// The name of the type that is missing.
    pub state: &'static str,
    /// The names of the types that are there.
    pub given: Vec<&'static str>,
}

fn owner(sub_agent: Option<&str>) -> String {
    sub_agent.map(|name| format!(" of the sub-agent `{name}`")).unwrap_or_default()
}

fn list(given: &[&str]) -> String {
    if given.is_empty() { String::new() } else { format!(" (there are: `{}`)", given.join("`, `")) }
}

/// The machine's view of an agent's tools and sub-agents.
pub(crate) struct Toolbox {
    tools: ToolSet,
    rules: LiveRules,
    /// Says which places are guarded.
    sandbox: Arc<SandboxRules>,
    /// Absent for most agents.
    subs: Option<Box<Subs>>,
}

struct Subs {
    as_tools: ToolSet,
    /// The tools and these.
    definitions: Arc<[ToolDefinition]>,
}

impl Toolbox {
    pub fn new(definition: &Definition, rules: LiveRules, sandbox: Arc<SandboxRules>) -> Self {
        let tools = definition.tools();
        if definition.sub_agents.is_empty() {
            return Self { tools, rules, sandbox, subs: None };
        }
        let as_tools = definition.sub_agents.iter().map(|sub| sub.as_tool()).collect();
        // A sub-agent's schema is ours, so it compiles; a name used twice loses its second meaning.
        let as_tools = ToolSet::new(as_tools).unwrap_or_else(|_| ToolSet::empty());
        let definitions = tools.definitions().iter().chain(as_tools.definitions().iter()).cloned().collect();
        Self { tools, rules, sandbox, subs: Some(Box::new(Subs { as_tools, definitions })) }
    }
}

impl Catalog for Toolbox {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        match &self.subs {
            Some(subs) => subs.definitions.clone(),
            None => self.tools.definitions(),
        }
    }

    fn vet(&self, authority: Authority<'_>, call: &ToolCallId, name: &str, args: &Value) -> Vetting {
        let (vetted, is_child) = match self.subs.as_ref().filter(|subs| subs.as_tools.get(name).is_some()) {
            Some(subs) => (subs.as_tools.vet(name, args), true),
            None => (self.tools.vet(name, args), false),
        };
        let (effect, mut ask, mut level, subject) = match vetted {
            Vetted::Blocked { stage, reason } => return Vetting::Blocked { stage, reason },
            Vetted::Ready { effect, ask, level, subject, .. } => (effect, ask, level, subject),
        };
        level = level_here(level, &subject, authority.cwd);
        let guarded = match (level, &subject) {
            (Level::Write | Level::Execute, Subject::Path(path)) => {
                self.sandbox.guarding(Path::new(path), authority.cwd)
            }
            _ => None,
        };
        if let Some(place) = guarded {
            level = Level::Dangerous;
            let wants = ask.unwrap_or_else(|| format!("use `{name}`"));
            ask = Some(format!("{wants}; other programs run or follow what is in `{place}`"));
        }
        if level == Level::Forbidden {
            let reason = format!("`{name}` refuses these arguments: they could do great harm; do it in a safer way");
            return Vetting::Blocked { stage: BlockStage::Safety, reason };
        }
        let effect = if is_child {
            EffectClass::Child { session: crate::sub_agent::child_session(authority.session, authority.run, call) }
        } else {
            effect
        };
        let facts = Facts { tool: name, level, subject: &subject, cwd: authority.cwd, wants: ask.as_deref(), guarded };
        let held =
            SessionPolicy { mode: authority.mode, grants: authority.grants, restrictions: authority.restrictions };
        let ruling = self.rules.get().judge(&facts, &held);
        Vetting::Ready { effect, level, ruling }
    }

    fn access(&self, name: &str, args: &Value) -> Access {
        match self.subs.as_ref().filter(|subs| subs.as_tools.get(name).is_some()) {
            Some(_) => Access::Free,
            None => self.tools.access(name, args),
        }
    }

    fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
        self.tools.summary(name, args, result)
    }
}
