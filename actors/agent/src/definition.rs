//! What an agent is made of that no journal can hold: its code.

use std::fmt;
use std::sync::Arc;

use playhouse_protocol::{EffectClass, SessionId, ToolCallId, ToolDefinition, ToolError, ToolResult};
use playhouse_provider::StreamProvider;
use playhouse_tools::{ToolSet, Vetted, summary};
use serde_json::Value;

use crate::hooks::{Approvals, Hooks};
use crate::hub::Callback;
use crate::machine::{Catalog, Vetting};
use crate::sub_agent::SubAgentTool;

/// An agent's code: tools, sub-agents, hooks, who answers questions, and a provider of its own if it has one.
#[derive(Clone, Default)]
pub struct Definition {
    /// Its tools.
    pub tools: Option<ToolSet>,
    /// Its sub-agents.
    pub sub_agents: Vec<Arc<SubAgentTool>>,
    /// Its hooks.
    pub hooks: Hooks,
    /// Who answers questions.
    pub approvals: Approvals,
    /// Who answers instead of the model's own service.
    pub provider_override: Option<Arc<dyn StreamProvider>>,
    /// What is called with each of its events.
    pub callbacks: Vec<Callback>,
    /// How many events a subscriber may be behind.
    pub broadcast: Option<usize>,
}

impl Definition {
    /// Its tools.
    pub fn tools(&self) -> ToolSet {
        self.tools.clone().unwrap_or_else(ToolSet::empty)
    }

    /// The sub-agent of this name.
    pub fn sub_agent(&self, name: &str) -> Option<&Arc<SubAgentTool>> {
        self.sub_agents.iter().find(|sub| sub.name() == name)
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

/// The machine's view of an agent's tools and sub-agents.
pub(crate) struct Toolbox {
    tools: ToolSet,
    /// Absent for most agents.
    subs: Option<Box<Subs>>,
}

struct Subs {
    as_tools: ToolSet,
    /// The tools and these.
    definitions: Arc<[ToolDefinition]>,
}

impl Toolbox {
    pub fn new(definition: &Definition) -> Self {
        let tools = definition.tools();
        if definition.sub_agents.is_empty() {
            return Self { tools, subs: None };
        }
        let as_tools = definition.sub_agents.iter().map(|sub| sub.as_tool()).collect();
        // A sub-agent's schema is ours, so it compiles; a name used twice loses its second meaning.
        let as_tools = ToolSet::new(as_tools).unwrap_or_else(|_| ToolSet::empty());
        let definitions = tools.definitions().iter().chain(as_tools.definitions().iter()).cloned().collect();
        Self { tools, subs: Some(Box::new(Subs { as_tools, definitions })) }
    }
}

impl Catalog for Toolbox {
    fn definitions(&self) -> Arc<[ToolDefinition]> {
        match &self.subs {
            Some(subs) => subs.definitions.clone(),
            None => self.tools.definitions(),
        }
    }

    fn vet(&self, session: &SessionId, call: &ToolCallId, name: &str, args: &Value) -> Vetting {
        let (vetted, is_child) = match self.subs.as_ref().filter(|subs| subs.as_tools.get(name).is_some()) {
            Some(subs) => (subs.as_tools.vet(name, args), true),
            None => (self.tools.vet(name, args), false),
        };
        match vetted {
            Vetted::Blocked { stage, reason } => Vetting::Blocked { stage, reason },
            Vetted::Ready { ask, .. } if is_child => {
                let effect = EffectClass::Child { session: crate::sub_agent::child_session(session, call) };
                Vetting::Ready { effect, ask }
            }
            Vetted::Ready { effect, ask, .. } => Vetting::Ready { effect, ask },
        }
    }

    fn summary(&self, name: &str, args: &Value, result: &Result<ToolResult, ToolError>) -> String {
        summary(name, args, result)
    }
}
