//! The commands that are hooks: for which event, for which tools, and what each is told.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use playhouse_protocol::{AgentMessage, Message};
use serde_json::{Map, Value, json};

use super::answer::{HookAnswer, read};
use super::matcher::Matcher;
use super::process::{Scene, run};
use super::{ToolCallInfo, ToolResultInfo};
use crate::machine::{HookPoint, HookSet, SessionSource, SlowHooks};

/// How long a command may take that does not say.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// What killing a command that ran out of time may take.
const MARGIN: Duration = Duration::from_secs(5);

/// An event that commands can be told of, by Claude Code's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// A tool is about to run.
    PreToolUse,
    /// A tool ran, and its result is about to go to the model.
    PostToolUse,
    /// A user says something.
    UserPromptSubmit,
    /// A run would stop.
    Stop,
    /// A sub-agent's run would stop.
    SubagentStop,
    /// A session takes its first prompt, new or folded from its journal.
    SessionStart,
}

impl HookEvent {
    /// Every event that there is.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStop,
        Self::SessionStart,
    ];

    /// Its name in configuration and in what commands are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::SessionStart => "SessionStart",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether there is something for a [`Matcher`] to look at: a tool's name, or how a session starts.
    pub fn has_matcher(self) -> bool {
        match self {
            Self::PreToolUse | Self::PostToolUse | Self::SessionStart => true,
            Self::UserPromptSubmit | Self::Stop | Self::SubagentStop => false,
        }
    }
}

/// A command that is a hook.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandHook {
    /// What `bash -c` is given.
    pub command: String,
    /// For which tools, or for which `SessionStart`.
    pub matcher: Matcher,
    /// How long it may take.
    pub timeout: Duration,
}

impl CommandHook {
    /// A command for everything, with 60 s to answer.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), matcher: Matcher::any(), timeout: COMMAND_TIMEOUT }
    }

    /// For these tools only.
    pub fn matcher(mut self, matcher: Matcher) -> Self {
        self.matcher = matcher;
        self
    }

    /// How long it may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Whose hooks they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// An agent that users talk to.
    #[default]
    Agent,
    /// A sub-agent: its parent talks to it, and its stop is a `SubagentStop`.
    SubAgent,
}

/// The commands that an agent has for hooks, by event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    hooks: Arc<Vec<(HookEvent, CommandHook)>>,
    role: Role,
}

impl Commands {
    pub(super) fn push(&mut self, event: HookEvent, hook: CommandHook) {
        Arc::make_mut(&mut self.hooks).push((event, hook));
    }

    /// A sub-agent's: its parent's and its own.
    pub(super) fn beneath(mut self, parent: &Self) -> Self {
        let mut all = parent.hooks.as_ref().clone();
        all.extend(self.hooks.iter().filter(|own| !parent.hooks.contains(own)).cloned());
        self.hooks = Arc::new(all);
        self.role = Role::SubAgent;
        self
    }

    /// The event at a point.
    fn event(&self, point: HookPoint) -> Option<HookEvent> {
        match (point, self.role) {
            (HookPoint::BeforeTool, _) => Some(HookEvent::PreToolUse),
            (HookPoint::AfterTool, _) => Some(HookEvent::PostToolUse),
            (HookPoint::Filter, Role::Agent) => Some(HookEvent::UserPromptSubmit),
            (HookPoint::Stop, Role::Agent) => Some(HookEvent::Stop),
            (HookPoint::Stop, Role::SubAgent) => Some(HookEvent::SubagentStop),
            (HookPoint::SessionStart, Role::Agent) => Some(HookEvent::SessionStart),
            (HookPoint::Filter | HookPoint::SessionStart, Role::SubAgent)
            | (
                HookPoint::BeforeLoop
                | HookPoint::AfterLoop
                | HookPoint::BeforeTurn
                | HookPoint::AfterTurn
                | HookPoint::BeforeUpdate
                | HookPoint::AfterUpdate
                | HookPoint::OnError
                | HookPoint::Policy
                | HookPoint::Check,
                _,
            ) => None,
        }
    }

    fn at(&self, point: HookPoint) -> impl Iterator<Item = &CommandHook> {
        let event = self.event(point);
        self.hooks.iter().filter(move |(of, _)| Some(*of) == event).map(|(_, hook)| hook)
    }

    /// Whether there is a command at this point.
    pub(super) fn has(&self, point: HookPoint) -> bool {
        self.at(point).next().is_some()
    }

    /// The points that have commands, and how much longer than code they may take.
    pub(super) fn slow(&self) -> SlowHooks {
        let points =
            [HookPoint::BeforeTool, HookPoint::AfterTool, HookPoint::Filter, HookPoint::Stop, HookPoint::SessionStart];
        let points = points.into_iter().filter(|point| self.has(*point)).fold(HookSet::default(), HookSet::with);
        let longest = self.hooks.iter().map(|(_, hook)| hook.timeout.as_secs_f64().ceil() as u64).max();
        let seconds = longest.map_or(0, |longest| longest.saturating_add(MARGIN.as_secs()));
        SlowHooks { points, seconds: u16::try_from(seconds).unwrap_or(u16::MAX) }
    }

    /// The commands at a point, with what they are told of.
    pub(super) fn round(&self, point: HookPoint, scene: Scene) -> Round {
        let event = self.event(point).unwrap_or(HookEvent::PreToolUse);
        Round { event, hooks: self.at(point).cloned().collect(), scene }
    }
}

/// The commands of one event, about to be told of it.
pub(super) struct Round {
    event: HookEvent,
    hooks: Vec<CommandHook>,
    scene: Scene,
}

impl Round {
    pub(super) async fn before_tool(&self, info: &ToolCallInfo) -> HookAnswer {
        let told = json!({"tool_name": info.name, "tool_input": info.args.as_ref(), "tool_use_id": info.call.as_str()});
        self.ask(&info.name, told).await
    }

    pub(super) async fn after_tool(&self, info: &ToolResultInfo) -> HookAnswer {
        let text = info.result.llm().map(Message::text).unwrap_or_default();
        let told = json!({
            "tool_name": info.name,
            "tool_input": info.args.as_ref(),
            "tool_use_id": info.call.as_str(),
            "tool_response": {"content": text, "is_error": info.is_error},
        });
        self.ask(&info.name, told).await
    }

    pub(super) async fn prompt(&self, messages: &[Arc<AgentMessage>]) -> HookAnswer {
        let texts: Vec<String> = messages.iter().filter_map(|message| message.llm()).map(Message::text).collect();
        self.ask("", json!({"prompt": texts.join("\n")})).await
    }

    pub(super) async fn stop(&self, refusals: u32) -> HookAnswer {
        self.ask("", json!({"stop_hook_active": refusals > 0})).await
    }

    pub(super) async fn session_start(&self, source: SessionSource) -> HookAnswer {
        self.ask(source.as_str(), json!({"source": source.as_str()})).await
    }

    /// Tells every command that is for `subject`, side by side, one that is there twice once.
    async fn ask(&self, subject: &str, told: Value) -> HookAnswer {
        let mut asked: Vec<&CommandHook> = Vec::new();
        for hook in &self.hooks {
            let is_for = !self.event.has_matcher() || hook.matcher.matches(subject);
            if is_for && asked.iter().all(|known| known.command != hook.command) {
                asked.push(hook);
            }
        }
        if asked.is_empty() {
            return HookAnswer::default();
        }
        let input = self.input(told);
        let answers = asked.into_iter().map(|hook| self.tell(hook, input.as_bytes()));
        join_all(answers).await.into_iter().fold(HookAnswer::default(), HookAnswer::joined)
    }

    async fn tell(&self, hook: &CommandHook, input: &[u8]) -> HookAnswer {
        read(self.event, hook, run(hook, input, &self.scene).await)
    }

    /// What every event says, and what this one does.
    fn input(&self, told: Value) -> String {
        let transcript = self.scene.transcript.as_deref().map(|path| path.to_string_lossy()).unwrap_or_default();
        let mut all = Map::new();
        all.insert("session_id".to_owned(), json!(self.scene.session_id));
        all.insert("transcript_path".to_owned(), json!(transcript));
        all.insert("cwd".to_owned(), json!(self.scene.cwd.to_string_lossy()));
        all.insert("permission_mode".to_owned(), json!(self.scene.permission));
        all.insert("hook_event_name".to_owned(), json!(self.event.name()));
        if let Value::Object(told) = told {
            all.extend(told);
        }
        Value::Object(all).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_agent_has_its_parents_commands_once_and_its_own() {
        let mut parent = Commands::default();
        parent.push(HookEvent::PreToolUse, CommandHook::new("a"));
        parent.push(HookEvent::SubagentStop, CommandHook::new("b"));
        parent.push(HookEvent::Stop, CommandHook::new("c"));
        parent.push(HookEvent::UserPromptSubmit, CommandHook::new("d"));
        parent.push(HookEvent::SessionStart, CommandHook::new("e"));
        let mut child = parent.clone();
        child.push(HookEvent::PreToolUse, CommandHook::new("own"));
        let child = child.beneath(&parent);
        let at = |commands: &Commands, point| -> Vec<String> {
            commands.at(point).map(|hook| hook.command.clone()).collect()
        };
        assert_eq!(at(&child, HookPoint::BeforeTool), ["a", "own"]);
        assert_eq!(at(&child, HookPoint::Stop), ["b"]);
        assert_eq!(at(&parent, HookPoint::Stop), ["c"]);
        assert!(!child.has(HookPoint::Filter) && !child.has(HookPoint::SessionStart));
        assert!(parent.has(HookPoint::Filter) && parent.has(HookPoint::SessionStart));
    }

    #[test]
    fn a_point_waits_for_its_slowest_command() {
        let mut commands = Commands::default();
        commands.push(HookEvent::PreToolUse, CommandHook::new("a").timeout(Duration::from_secs(600)));
        commands.push(HookEvent::PreToolUse, CommandHook::new("b"));
        let points = HookSet::default().with(HookPoint::BeforeTool);
        assert_eq!(commands.slow(), SlowHooks { points, seconds: 605 });
    }
}
