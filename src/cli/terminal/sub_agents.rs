//! The sub-agents of a run: their labels, and how far in the tree of agents they are.

use std::collections::HashMap;

use playhouse::protocol::{AgentEvent, AgentId, Event, ToolCallId};

/// The sub-agents of a run, as their parents' events tell of them.
#[derive(Debug, Default)]
pub struct SubAgents {
    /// The agent whose helpers they are.
    root: Option<AgentId>,
    by_agent: HashMap<AgentId, SubAgent>,
    /// By who called and how: ids of calls are an agent's own.
    by_call: HashMap<(AgentId, ToolCallId), String>,
    count: usize,
}

/// How a sub-agent is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAgent {
    /// How many are above it.
    pub depth: usize,
    /// Its tool's name and its number among all sub-agents.
    pub label: String,
}

impl SubAgents {
    /// From here on these are the helpers of `agent`.
    pub fn root_is(&mut self, agent: &AgentId) {
        if self.root.as_ref() != Some(agent) {
            *self = Self { root: Some(agent.clone()), ..Self::default() };
        }
    }

    /// Takes note of sub-agents that start and end.
    pub fn take(&mut self, event: &Event) {
        // One that an earlier process started is known by what it tells.
        if self.root.as_ref().is_some_and(|root| *root != event.agent_id) {
            self.enter(event.agent_id.clone(), 1, "sub-agent");
        }
        match &event.event {
            AgentEvent::SubAgentStart { tool_call_id, tool_name, child_session_id } => {
                let depth = self.of(event).map_or(0, |sub_agent| sub_agent.depth) + 1;
                let label = self.enter(child_session_id.as_str().into(), depth, tool_name);
                self.by_call.insert((event.agent_id.clone(), tool_call_id.clone()), label);
            }
            AgentEvent::SubAgentEnd { child_session_id, .. } => {
                self.by_agent.remove(&AgentId::from(child_session_id.as_str()));
            }
            _ => {}
        }
    }

    fn enter(&mut self, agent: AgentId, depth: usize, tool_name: &str) -> String {
        let count = &mut self.count;
        let sub_agent = self.by_agent.entry(agent).or_insert_with(|| {
            *count += 1;
            SubAgent { depth, label: format!("{tool_name} {count}") }
        });
        sub_agent.label.clone()
    }

    /// The sub-agent that told this; `None` for the agent itself.
    pub fn of(&self, event: &Event) -> Option<&SubAgent> {
        self.by_agent.get(&event.agent_id)
    }

    /// What goes before a line about this event.
    pub fn lead(&self, event: &Event) -> String {
        self.of(event)
            .map_or_else(String::new, |sub_agent| format!("{}{} ", "│ ".repeat(sub_agent.depth), sub_agent.label))
    }

    /// The line about a tool call, with its number if it is a sub-agent's.
    pub fn named(&self, event: &Event, call: &ToolCallId, tool_name: &str, line: &str) -> String {
        let label = self.by_call.get(&(event.agent_id.clone(), call.clone()));
        match (label, line.strip_prefix(tool_name)) {
            (Some(label), Some(rest)) => format!("{label}{rest}"),
            _ => line.to_owned(),
        }
    }

    /// How many sub-agents there were.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::protocol::{EventId, SessionId};

    fn told(agent: &str, event: AgentEvent) -> Event {
        Event {
            id: EventId::default(),
            agent_id: agent.into(),
            session_id: SessionId::new("s").unwrap(),
            loop_id: None,
            timestamp: Default::default(),
            event,
        }
    }

    fn start(call: &str, child: &str) -> AgentEvent {
        let child_session_id = SessionId::new(child).unwrap();
        AgentEvent::SubAgentStart { tool_call_id: call.into(), tool_name: "helper".into(), child_session_id }
    }

    fn restarted() -> AgentEvent {
        AgentEvent::AgentRestarted { reason: String::new() }
    }

    #[test]
    fn a_helper_of_an_earlier_process_is_not_taken_for_the_agent() {
        let mut sub_agents = SubAgents::default();
        sub_agents.root_is(&"root".into());
        sub_agents.take(&told("left over", restarted()));
        assert_eq!(sub_agents.lead(&told("left over", restarted())), "│ sub-agent 1 ");
    }

    #[test]
    fn helpers_of_helpers_stand_further_in_and_a_restart_gives_nobody_a_new_number() {
        let mut sub_agents = SubAgents::default();
        sub_agents.root_is(&"root".into());
        sub_agents.take(&told("root", start("a", "one")));
        sub_agents.take(&told("one", start("b", "two")));
        sub_agents.take(&told("root", start("a", "one")));
        assert_eq!(sub_agents.lead(&told("root", restarted())), "");
        assert_eq!(sub_agents.lead(&told("one", restarted())), "│ helper 1 ");
        assert_eq!(sub_agents.lead(&told("two", restarted())), "│ │ helper 2 ");
        let named = |agent: &str, call: &str, tool: &str, line: &str| {
            sub_agents.named(&told(agent, restarted()), &call.into(), tool, line)
        };
        assert_eq!(named("one", "b", "helper", "helper: count"), "helper 2: count");
        assert_eq!(named("two", "b", "bash", "bash: ls"), "bash: ls", "another's call of the same id");
        let child_session_id = SessionId::new("two").unwrap();
        sub_agents.take(&told(
            "one",
            AgentEvent::SubAgentEnd { tool_call_id: "b".into(), child_session_id, is_error: false },
        ));
        assert_eq!((sub_agents.lead(&told("two", restarted())), sub_agents.count()), (String::new(), 2));
    }
}
