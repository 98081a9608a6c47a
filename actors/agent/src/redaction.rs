//! Where secrets are taken out: what tools give, what users say, what hooks answer and why services fail, once, before
//! the machine is told. So the model, the journal, events and a replay see the same text.
//!
//! What the model said is never altered: it has seen placeholders only, and its arguments and signed reasoning must stay
//! what they were. Nor are images.

use std::borrow::Cow;
use std::sync::Arc;

use playhouse_protocol::entry::Settings;
use playhouse_protocol::{
    AgentMessage, Content, Message, Op, Opened, PermissionDecision, PlanDecision, ProviderError, Ruling, Secrets,
    ToolError, ToolReport, ToolResult,
};

use crate::machine::{AfterTool, BeforeTool, Checked, FilterVerdict, Filtered, MayStop, Permit, SessionStart, Verdict};

/// How a session begins, without secrets.
pub(super) fn clean_opened(secrets: &Secrets, opened: &mut Opened) {
    if secrets.is_empty() {
        return;
    }
    if matches!(secrets.redact(&opened.settings.system_prompt), Cow::Owned(_)) || opened.settings.metadata.is_some() {
        clean_settings(secrets, Arc::make_mut(&mut opened.settings));
    }
    opened.messages.iter_mut().for_each(|message| clean_message(secrets, message));
}

/// What is asked of an agent, without secrets.
pub(super) fn clean_op(secrets: &Secrets, op: &mut Op) {
    if secrets.is_empty() {
        return;
    }
    match op {
        Op::Prompt { messages, .. } | Op::Restore { messages } => {
            messages.iter_mut().for_each(|message| clean_message(secrets, message));
        }
        Op::Steer { message } | Op::FollowUp { message } => clean_message(secrets, message),
        Op::Configure { settings } => clean_settings(secrets, settings),
        Op::Answer { decision, .. } => match decision {
            PermissionDecision::Allow | PermissionDecision::AllowSession | PermissionDecision::AllowAlways => {}
            PermissionDecision::Deny { reason } => secrets.redact_string(reason),
        },
        Op::Plan { decision } => match decision {
            PlanDecision::Approve { .. } => {}
            PlanDecision::Reject { reason, .. } => secrets.redact_string(reason),
        },
        Op::Continue { .. } | Op::Abort | Op::Reset | Op::Rotate { .. } => {}
    }
}

/// What a tool reports, without secrets.
pub(super) fn clean_report(secrets: &Secrets, mut report: ToolReport) -> ToolReport {
    if secrets.is_empty() {
        return report;
    }
    match &mut report {
        ToolReport::Updated { partial, .. } => clean_result(secrets, partial),
        ToolReport::Progress { text, .. } => secrets.redact_string(text),
        ToolReport::Finished { result: Ok(result), .. } => clean_result(secrets, result),
        ToolReport::Finished { result: Err(error), .. } => match error {
            ToolError::Failed(text)
            | ToolError::NotFound(text)
            | ToolError::InvalidArgs(text)
            | ToolError::Panicked(text) => secrets.redact_string(text),
            ToolError::Cancelled | ToolError::TimedOut(_) | ToolError::NoThread { .. } => {}
        },
    }
    report
}

/// Why a call failed, without secrets.
pub(super) fn clean_failure(secrets: &Secrets, mut error: ProviderError) -> ProviderError {
    match &mut error {
        ProviderError::RateLimited { message, .. }
        | ProviderError::Unavailable { message, .. }
        | ProviderError::Network { message }
        | ProviderError::Auth { message }
        | ProviderError::Api { message }
        | ProviderError::Picture { message }
        | ProviderError::ContextOverflow { message }
        | ProviderError::Other { message }
        | ProviderError::Incomplete { message }
        | ProviderError::Lost { message } => secrets.redact_string(message),
        ProviderError::Empty { .. } | ProviderError::Cancelled => {}
    }
    error
}

/// What a hook answered, without secrets.
pub(super) fn clean_verdict(secrets: &Secrets, mut verdict: Verdict) -> Verdict {
    match &mut verdict {
        Verdict::Noted
        | Verdict::Permit(Permit::Yes)
        // What a hook makes of a call's arguments is for the tool.
        | Verdict::BeforeTool(BeforeTool::Run | BeforeTool::Amend { args: _ })
        | Verdict::AfterTool(AfterTool::Done)
        | Verdict::Filter(Filtered::PassAll)
        | Verdict::Policy(Ruling::Allow { .. })
        | Verdict::Stop(MayStop::Yes)
        | Verdict::SessionStart(SessionStart::Plain)
        | Verdict::Check(Checked::Possible) => {}
        Verdict::Permit(Permit::No { reason: text })
        | Verdict::BeforeTool(
            BeforeTool::Block { reason: text } | BeforeTool::Ask { reason: text, args: _ } | BeforeTool::Halt { reason: text },
        )
        | Verdict::AfterTool(AfterTool::Say { text } | AfterTool::Halt { reason: text })
        | Verdict::Filter(Filtered::RejectAll { reason: text })
        | Verdict::Policy(Ruling::Forbid { reason: text })
        | Verdict::Stop(MayStop::GoOn { reason: text } | MayStop::Halt { reason: text })
        | Verdict::Check(Checked::Fails { reason: text })
        | Verdict::SessionStart(SessionStart::Say { text } | SessionStart::Halt { reason: text }) => secrets.redact_string(text),
        Verdict::Policy(Ruling::Ask(question)) => secrets.redact_string(&mut question.reason),
        Verdict::Filter(Filtered::Each(all)) => all.iter_mut().for_each(|verdict| match verdict {
            FilterVerdict::Pass => {}
            FilterVerdict::Warn(text) | FilterVerdict::Reject(text) => secrets.redact_string(text),
        }),
    }
    verdict
}

fn clean_settings(secrets: &Secrets, settings: &mut Settings) {
    if let Cow::Owned(prompt) = secrets.redact(&settings.system_prompt) {
        settings.system_prompt = prompt.into();
    }
    if let Some(metadata) = &mut settings.metadata {
        secrets.redact_json(Arc::make_mut(metadata));
    }
}

fn clean_result(secrets: &Secrets, result: &mut ToolResult) {
    clean_content(secrets, &mut result.content);
    secrets.redact_json(&mut result.details);
}

/// Copies a message only if there is something to take out.
fn clean_message(secrets: &Secrets, message: &mut Arc<AgentMessage>) {
    if is_clean(secrets, message) {
        return;
    }
    match Arc::make_mut(message) {
        AgentMessage::Llm(llm) => match &mut llm.message {
            Message::User { content, .. } | Message::ToolResult { content, .. } => clean_content(secrets, content),
            Message::Assistant { .. } => {}
        },
        AgentMessage::Extension(note) => {
            secrets.redact_string(&mut note.kind);
            secrets.redact_json(&mut note.data);
        }
    }
}

fn is_clean(secrets: &Secrets, message: &AgentMessage) -> bool {
    match message {
        AgentMessage::Llm(llm) => match &llm.message {
            Message::User { content, .. } | Message::ToolResult { content, .. } => {
                content.iter().all(|block| match block {
                    Content::Text { text } => matches!(secrets.redact(text), Cow::Borrowed(_)),
                    Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => true,
                })
            }
            Message::Assistant { .. } => true,
        },
        AgentMessage::Extension(_) => false,
    }
}

fn clean_content(secrets: &Secrets, content: &mut [Content]) {
    for block in content {
        match block {
            Content::Text { text } => secrets.redact_string(text),
            Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall { .. } => {}
        }
    }
}
