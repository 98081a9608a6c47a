//! What the machine's tests and its simulation share.

use std::sync::Arc;

use playhouse_agent::testing::Report;
use playhouse_protocol::entry::Settings;
use playhouse_protocol::{
    Command, Content, Durability, ExecutionLimits, Message, ModelConfig, PermissionMode, StopReason, Usage,
};

/// What a machine can be told.
#[derive(Clone, Debug)]
pub enum Input {
    Command(Command),
    Report(Report),
}

impl From<Command> for Input {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<Report> for Input {
    fn from(report: Report) -> Self {
        Self::Report(report)
    }
}

/// A model's message of five tokens.
pub fn assistant(content: Vec<Content>, stop_reason: StopReason) -> Message {
    Message::Assistant {
        content,
        stop_reason,
        model: "m".into(),
        provider: "p".into(),
        usage: Usage::of(3, 2, 0, 0, 0),
        timestamp: 5,
        error_message: None,
    }
}

/// Settings without limits, in which tools ask.
pub fn settings() -> Settings {
    Settings {
        kind: "test".into(),
        model: Arc::new(ModelConfig::scripted("x")),
        fallbacks: Vec::new(),
        system_prompt: "".into(),
        tools: Vec::new(),
        cwd: "/".into(),
        permission: PermissionMode::Ask,
        grants: Vec::new(),
        restrictions: Default::default(),
        mode: Default::default(),
        sandbox: Default::default(),
        limits: ExecutionLimits::none(),
        durability: Durability::Flush,
        retry: Default::default(),
        cache: Default::default(),
        thinking_level: Default::default(),
        max_tokens: None,
        temperature: None,
        tool_execution: Default::default(),
        steering_mode: Default::default(),
        follow_up_mode: Default::default(),
        config_id: Some("c".into()),
        metadata: None,
    }
}
