//! What a running tool shows before it is done.

use playhouse_protocol::{AgentEvent, Content, ToolCallId, ToolResult};

use crate::machine::state::flight::{ToolPhase, UpdateState};
use crate::machine::{HookCall, HookPoint, Machine, Permit, Verdict};

impl Machine {
    pub(in crate::machine) fn tool_updated(&mut self, call: &ToolCallId, partial: ToolResult) {
        let Some(tool) = self.flight.run.tools.get_mut(call) else { return };
        if tool.phase != ToolPhase::Running || tool.finished.is_some() {
            return;
        }
        match tool.update {
            UpdateState::None => self.begin_update(call, partial),
            UpdateState::Before(_) | UpdateState::After => tool.next_update = Some(partial),
        }
    }

    pub(in crate::machine) fn tool_progress(&mut self, call: &ToolCallId, text: String) {
        if self.flight.run.tools.get(call).is_some_and(|tool| tool.phase == ToolPhase::Running)
            && let Some(slot) = self.slot(call)
        {
            let (tool_call_id, tool_name) = (slot.id.clone(), slot.name.clone());
            self.tell(AgentEvent::ProgressMessage { tool_call_id, tool_name, text });
        }
    }

    fn begin_update(&mut self, call: &ToolCallId, partial: ToolResult) {
        if !self.setup.hooks.has(HookPoint::BeforeUpdate) {
            self.show_update(call, partial);
            return;
        }
        let Some(slot) = self.slot(call) else { return };
        let hook = HookCall::BeforeUpdate { name: slot.name.clone(), call: call.clone(), text: text_of(&partial) };
        if let Some(tool) = self.flight.run.tools.get_mut(call) {
            tool.update = UpdateState::Before(partial);
        }
        self.run_tool_hook(call, hook);
    }

    fn show_update(&mut self, call: &ToolCallId, partial: ToolResult) {
        let Some(slot) = self.slot(call) else { return };
        let (tool_call_id, tool_name) = (slot.id.clone(), slot.name.clone());
        let text = text_of(&partial);
        let hook = HookCall::AfterUpdate { name: tool_name.clone(), call: call.clone(), text };
        self.tell(AgentEvent::ToolExecutionUpdate { tool_call_id, tool_name, partial_result: partial });
        if !self.setup.hooks.has(HookPoint::AfterUpdate) {
            self.end_update(call);
            return;
        }
        if let Some(tool) = self.flight.run.tools.get_mut(call) {
            tool.update = UpdateState::After;
        }
        self.run_tool_hook(call, hook);
    }

    pub(super) fn update_answered(&mut self, call: &ToolCallId, verdict: Verdict) {
        let Some(tool) = self.flight.run.tools.get_mut(call) else { return };
        match (std::mem::replace(&mut tool.update, UpdateState::None), verdict) {
            (UpdateState::Before(partial), Verdict::Permit(Permit::Yes)) => self.show_update(call, partial),
            (UpdateState::Before(_) | UpdateState::After | UpdateState::None, _) => self.end_update(call),
        }
    }

    fn end_update(&mut self, call: &ToolCallId) {
        let Some(tool) = self.flight.run.tools.get_mut(call) else { return };
        tool.update = UpdateState::None;
        if let Some((result, duration_ms)) = tool.finished.take() {
            self.end_call(call, result, duration_ms);
        } else if let Some(next) = tool.next_update.take() {
            self.begin_update(call, next);
        }
    }
}

fn text_of(result: &ToolResult) -> String {
    result
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Text { text } => Some(text.as_str()),
            Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => None,
        })
        .collect()
}
