//! What must hold, whatever happens.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use playhouse_agent::machine::{Durable, Effect, HookPoint, HookSet, events};
use playhouse_agent::testing::Report;
use playhouse_protocol::entry::{InputKind, Opened};
use playhouse_protocol::transcript::{self, TranscriptEnd};
use playhouse_protocol::{
    AgentEvent, AgentMessage, CallId, Content, EffectClass, Entry, EntryBody, EventId, InputId, Message, MessageId, Op,
    Outcome, PermissionDecision, Seq, SessionId, StopReason, ToolCallId,
};

use crate::common::Input;

pub struct Checks {
    pub opened: Opened,
    /// The fold of each journal as far as it is written.
    folds: HashMap<SessionId, Durable>,
    /// The events of each journal as far as it is written.
    derived: HashMap<EventKey, AgentEvent>,
    order: HashMap<SessionId, Order>,
    acked: HashSet<InputId>,
    calls: HashSet<(SessionId, CallId)>,
    ran_once: HashSet<(SessionId, ToolCallId)>,
    last_event: Option<(SessionId, EventId)>,
    open_message: Option<MessageId>,
    /// Whether inputs have to pass a filter, and the texts that passed it in this incarnation.
    filter: Option<HashSet<String>>,
}

type EventKey = (SessionId, EventId);

impl Checks {
    pub fn new(opened: &Opened, hooks: HookSet) -> Self {
        Self {
            opened: opened.clone(),
            filter: hooks.has(HookPoint::Filter).then(HashSet::new),
            folds: HashMap::new(),
            derived: HashMap::new(),
            order: HashMap::new(),
            acked: HashSet::new(),
            calls: HashSet::new(),
            ran_once: HashSet::new(),
            last_event: None,
            open_message: None,
        }
    }

    /// An entry reached the journal: this prefix must be a state to go on from.
    pub fn written(&mut self, session: &SessionId, seq: Seq, entry: &Arc<Entry>) {
        let fold = self.folds.entry(session.clone()).or_insert_with(|| match &entry.body {
            EntryBody::Opened(opened) => Durable::new(opened),
            other => panic!("a journal begins with {other:?}"),
        });
        if !matches!(entry.body, EntryBody::Opened(_)) {
            assert_eq!(fold.tail, entry.parent, "the chain of parents is broken at {}", entry.id);
        }
        let order = self.order.entry(session.clone()).or_default();
        for (k, event) in events::derive(fold, entry).into_iter().enumerate() {
            order.event(&event);
            self.derived.insert((session.clone(), EventId { seq, k: k as u32 }), event);
        }
        fold.apply(entry);
        self.only_what_was_passed(entry);
        let fold = &self.folds[session];
        let transcript = fold.transcript();
        if transcript.sendable().next().is_some() {
            transcript::validate(transcript.sendable(), TranscriptEnd::Any)
                .unwrap_or_else(|error| panic!("after {}: {error}\n{transcript:#?}", entry.id));
        }
    }

    /// The filter let this input in.
    pub fn passed(&mut self, input: &[Arc<AgentMessage>]) {
        if let Some(passed) = &mut self.filter {
            passed.extend(input.iter().filter_map(|message| first_text(message)));
        }
    }

    /// What a filter did not pass is placed nowhere.
    fn only_what_was_passed(&self, entry: &Entry) {
        let (EntryBody::TurnStarted { placed, .. } | EntryBody::LoopEnded { placed, .. }) = &entry.body else { return };
        let Some(passed) = &self.filter else { return };
        for text in placed.iter().flat_map(|input| &input.messages).filter_map(|message| first_text(message)) {
            // What a person says begins so; what a hook or a plan says is not filtered.
            assert!(!text.starts_with("message ") || passed.contains(&text), "`{text}` was placed unfiltered");
        }
    }

    /// The live state is the fold of the journal and what is on its way there.
    pub fn live<'a>(&self, durable: &Durable, pending: impl Iterator<Item = &'a Arc<Entry>>) {
        let mut expected = match self.folds.get(&durable.session_id) {
            Some(fold) => fold.clone(),
            None => Durable::new(&self.opened),
        };
        for entry in pending {
            expected.apply(entry);
        }
        if expected.journaled || durable.journaled {
            assert_eq!(&expected, durable);
        }
    }

    pub fn effect(
        &mut self,
        session: &SessionId,
        effect: &Effect,
        journals: &HashMap<SessionId, Vec<(Seq, Arc<Entry>)>>,
    ) {
        let holds = |test: &dyn Fn(&EntryBody) -> bool| journals.values().flatten().any(|(_, entry)| test(&entry.body));
        match effect {
            Effect::Call { call, config } => {
                assert!(holds(&|body| matches!(body, EntryBody::Requested { call_id, .. } if call_id == call)));
                assert!(
                    !holds(
                        &|body| matches!(body, EntryBody::Responded { call_id, .. } if same_turn(call_id.as_str(), call.as_str()))
                    ),
                    "{call} was answered before"
                );
                transcript::validate(config.messages.sendable(), TranscriptEnd::Open).unwrap();
                assert!(self.calls.insert((session.clone(), call.clone())), "{call} was made twice");
                let here = journals.get(session).into_iter().flatten();
                let answers = here.filter(|(_, entry)| is_answer(&entry.body)).count();
                assert_eq!(config.response, answers as u64, "{call} is answered by the wrong step of a script");
            }
            Effect::RunTool { call, args, effect, .. } => {
                assert!(is_started(holds, call), "{call} runs without its intent");
                self.runs_as_journaled(journals.get(session).into_iter().flatten(), call, args);
                if *effect == EffectClass::Once {
                    let run = (session.clone(), call.clone());
                    assert!(self.ran_once.insert(run), "{call} ran twice");
                }
            }
            Effect::Spawn { call, .. } => assert!(is_started(holds, call)),
            Effect::Ack { input_id } => {
                self.acked.insert(input_id.clone());
            }
            Effect::Emit(event) => {
                let at = (event.session_id.clone(), event.id);
                if let Some((session, last)) = &self.last_event
                    && *session == event.session_id
                {
                    assert!(event.id > *last, "event {} after {last}", event.id);
                }
                self.last_event = Some(at.clone());
                self.message_order(&event.event);
                match self.derived.get(&at) {
                    Some(expected) => assert_eq!(&event.event, expected),
                    None => assert!(is_fleeting(&event.event), "{at:?} is in no journal: {:?}", event.event),
                }
            }
            Effect::Finish(report) => {
                let ended = |body: &EntryBody| matches!(body, EntryBody::LoopEnded { .. });
                let entry = journals
                    .values()
                    .flatten()
                    .find(|(_, e)| e.loop_id.as_ref() == Some(&report.loop_id) && ended(&e.body));
                assert!(entry.is_some(), "{} is finished before its end is durable", report.loop_id);
            }
            Effect::GoOn { call, attempt } => {
                let failed = |body: &EntryBody| {
                    matches!(body, EntryBody::AttemptFailed { call_id, attempt: failed, .. }
                        if call_id == call && failed + 1 == *attempt)
                };
                assert!(holds(&failed), "attempt {attempt} of {call} before the failure of the last is durable");
            }
            Effect::Append { .. }
            | Effect::Hook { .. }
            | Effect::Ask { .. }
            | Effect::Remember { .. }
            | Effect::Cancel(_)
            | Effect::Refuse { .. }
            | Effect::Arm { .. }
            | Effect::Disarm(_)
            | Effect::Rotated { .. }
            | Effect::Park { .. } => {}
        }
    }

    /// A tool runs with the arguments that the journal has for it: the model's, or those that a hook put in their place.
    /// What a hook asks about runs after a yes.
    fn runs_as_journaled<'a>(
        &self,
        journal: impl Iterator<Item = &'a (Seq, Arc<Entry>)>,
        call: &ToolCallId,
        args: &serde_json::Value,
    ) {
        let (mut expected, mut unanswered) = (None, false);
        for (_, entry) in journal {
            match &entry.body {
                EntryBody::Responded { message, .. } => {
                    let asked = message.llm().into_iter().flat_map(|message| message.tool_calls());
                    expected = asked.filter(|(id, ..)| *id == call).map(|(.., args)| args).last().or(expected);
                }
                EntryBody::ToolHooked { tool_call_id, args, ask } if tool_call_id == call => {
                    expected = args.as_deref().or(expected);
                    unanswered = ask.is_some();
                }
                EntryBody::PermissionResolved { tool_call_id, answer, .. } if tool_call_id == call => {
                    assert!(
                        !matches!(answer.decision, PermissionDecision::Deny { .. }),
                        "{call} runs though it was denied"
                    );
                    unanswered = false;
                }
                _ => {}
            }
        }
        assert_eq!(expected, Some(args), "{call}");
        assert!(!unanswered, "{call} runs, and nobody answered what a hook asked");
    }

    /// A model's message is shown, then filled, then closed.
    fn message_order(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageStart { message_id, message } if is_assistant(message.llm()) => {
                assert_eq!(self.open_message.replace(message_id.clone()), None);
            }
            AgentEvent::MessageUpdate { message_id, .. } => assert_eq!(self.open_message.as_ref(), Some(message_id)),
            AgentEvent::MessageEnd { message_id, message } if is_assistant(message.llm()) => {
                assert_eq!(self.open_message.take().as_ref(), Some(message_id));
            }
            AgentEvent::AgentRestarted { .. } => self.open_message = None,
            AgentEvent::TurnEnd { .. } | AgentEvent::AgentEnd { .. } => assert_eq!(self.open_message, None),
            _ => {}
        }
    }

    pub fn restarted(&mut self) {
        self.open_message = None;
        if let Some(passed) = &mut self.filter {
            passed.clear();
        }
    }

    pub fn finish(&self, journals: &HashMap<SessionId, Vec<(Seq, Arc<Entry>)>>, session: &SessionId, last: &Durable) {
        let all: Vec<&Entry> = journals.values().flatten().map(|(_, entry)| entry.as_ref()).collect();
        for journal in journals.values() {
            let entries: Vec<&Entry> = journal.iter().map(|(_, entry)| entry.as_ref()).collect();
            self.every_call_has_one_result(&entries);
        }
        self.every_prompt_ends(&all);
        self.every_input_is_taken_once(&all);
        for input in &self.acked {
            self.is_somewhere(input, &all, last);
        }
        for order in self.order.values() {
            order.finish();
        }
        if let Some(journal) = journals.get(session) {
            let mut fold = None;
            for (_, entry) in journal {
                let fold = fold.get_or_insert_with(|| match &entry.body {
                    EntryBody::Opened(opened) => Durable::new(opened),
                    other => panic!("a journal begins with {other:?}"),
                });
                fold.apply(entry);
            }
            assert_eq!(fold.as_ref(), Some(last));
        }
    }

    fn every_call_has_one_result(&self, all: &[&Entry]) {
        let mut results: HashMap<&ToolCallId, usize> = HashMap::new();
        for entry in all {
            match &entry.body {
                EntryBody::ToolEnded { tool_call_id, .. }
                | EntryBody::ToolBlocked { tool_call_id, .. }
                | EntryBody::ToolQueued { tool_call_id, .. }
                | EntryBody::ToolSkipped { tool_call_id, .. } => *results.entry(tool_call_id).or_default() += 1,
                _ => {}
            }
        }
        for entry in all {
            if let EntryBody::Responded { message, .. } = &entry.body {
                for (id, ..) in message.llm().unwrap().tool_calls() {
                    assert_eq!(results.remove(id), Some(1), "results of {id}");
                }
            }
        }
        assert!(results.is_empty(), "results without a call: {results:?}");
    }

    fn every_prompt_ends(&self, all: &[&Entry]) {
        let started = |id: &InputId| {
            all.iter().filter(|e| matches!(&e.body, EntryBody::LoopStarted { input_id, .. } if input_id == id)).count()
        };
        let ends = all.iter().filter(|entry| matches!(entry.body, EntryBody::LoopEnded { .. })).count();
        let mut asked = 0;
        for entry in all {
            let id = match &entry.body {
                EntryBody::Input(input) if input.kind == InputKind::Prompt => &input.input_id,
                EntryBody::ContinueAsked { input_id, .. } | EntryBody::PlanApproved { input_id, .. } => input_id,
                _ => continue,
            };
            asked += 1;
            assert!(started(id) <= 1, "{id} started twice");
        }
        assert_eq!(asked, ends, "runs asked for and ended");
    }

    /// An input that was repeated, because its sender did not know its fate, is taken once.
    fn every_input_is_taken_once(&self, all: &[&Entry]) {
        let mut taken = HashSet::new();
        for entry in all {
            let id = entry.body.takes();
            assert!(id.is_none_or(|id| taken.insert(id)), "{id:?} was taken twice");
        }
    }

    /// An acknowledged input is in the journal, and entered the conversation once, or was rejected, or still waits.
    fn is_somewhere(&self, id: &InputId, all: &[&Entry], last: &Durable) {
        let mut kind = None;
        let mut fates = 0;
        for entry in all {
            match &entry.body {
                EntryBody::Input(input) if input.input_id == *id => kind = Some(input.kind),
                EntryBody::TurnStarted { placed, .. } | EntryBody::LoopEnded { placed, .. } => {
                    fates += placed.iter().filter(|placed| placed.input_id == *id).count();
                }
                EntryBody::InputRejected { input_id, .. } if input_id == id => fates += 1,
                _ => {}
            }
        }
        let Some(kind) = kind else { return };
        match kind {
            InputKind::Prompt => {
                let started =
                    |entry: &&&Entry| matches!(&entry.body, EntryBody::LoopStarted { input_id, .. } if input_id == id);
                let run = all.iter().find(started).and_then(|entry| entry.loop_id.as_ref());
                let refused = all.iter().any(|entry| match &entry.body {
                    // One that `before_loop` refused has no start.
                    EntryBody::LoopEnded { outcome: Outcome::Halted { .. }, .. } if run.is_none() => true,
                    EntryBody::LoopEnded { outcome, .. } if entry.loop_id.as_ref() == run => match outcome {
                        Outcome::Rejected { .. } | Outcome::Halted { .. } => true,
                        Outcome::Aborted | Outcome::Limit { .. } => self.filter.is_some(),
                        Outcome::Stop | Outcome::Length | Outcome::Error { .. } => false,
                    },
                    _ => false,
                });
                assert!(fates == 1 || (fates == 0 && refused), "prompt {id} has {fates} fates");
            }
            InputKind::Steer | InputKind::FollowUp => {
                let waits = last.steering.iter().chain(&last.follow_ups).any(|input| input.input_id == *id);
                let reset = all.iter().any(|entry| matches!(entry.body, EntryBody::Reset { .. }));
                let fates = fates + usize::from(waits);
                assert!(fates == 1 || (fates == 0 && reset), "{kind:?} {id} has {fates} fates");
            }
        }
    }
}

/// The order of the events that a journal stands for.
#[derive(Default)]
struct Order {
    in_run: bool,
    /// Whether a plan was just rejected.
    rejected: bool,
    in_turn: bool,
    tools: HashMap<ToolCallId, Tool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Started,
    Ended,
    Answered,
}

impl Order {
    fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart { .. } => {
                assert!(!self.in_run);
                self.in_run = true;
            }
            AgentEvent::AgentEnd { outcome, .. } => {
                assert!(!self.in_turn);
                assert!(self.in_run || matches!(outcome, Outcome::Halted { .. }), "{outcome:?} without a start");
                self.in_run = false;
            }
            AgentEvent::TurnStart { .. } => {
                assert!(self.in_run && !self.in_turn);
                self.in_turn = true;
                self.tools.clear();
            }
            AgentEvent::TurnEnd { message, tool_results, .. } => {
                assert!(self.in_turn);
                self.in_turn = false;
                let asked: Vec<_> = message.llm().unwrap().tool_calls().map(|(id, ..)| id.clone()).collect();
                let answered: Vec<_> = tool_results.iter().map(|m| answers(m.llm().unwrap()).clone()).collect();
                assert_eq!(asked, answered);
                for id in asked {
                    assert_eq!(self.tools.get(&id), Some(&Tool::Answered), "{id}");
                }
            }
            AgentEvent::ToolExecutionStart { tool_call_id, .. } => {
                assert!(self.in_turn);
                assert_eq!(self.tools.insert(tool_call_id.clone(), Tool::Started), None);
            }
            AgentEvent::ToolExecutionEnd { tool_call_id, .. } => {
                assert_eq!(self.tools.insert(tool_call_id.clone(), Tool::Ended), Some(Tool::Started));
            }
            AgentEvent::ToolBlocked { tool_call_id, .. } => {
                assert_eq!(self.tools.insert(tool_call_id.clone(), Tool::Ended), None);
            }
            AgentEvent::MessageStart { message, .. } => {
                if let Some(message @ Message::ToolResult { .. }) = message.llm() {
                    assert_eq!(self.tools.get(answers(message)), Some(&Tool::Ended));
                }
            }
            AgentEvent::MessageEnd { message, .. } => match message.llm() {
                Some(message @ Message::ToolResult { .. }) => {
                    let before = self.tools.insert(answers(message).clone(), Tool::Answered);
                    assert_eq!(before, Some(Tool::Ended));
                }
                Some(Message::Assistant { .. }) => assert!(self.in_turn),
                // What a rejected plan leaves comes between runs.
                Some(Message::User { .. }) | None => assert!(self.in_run || std::mem::take(&mut self.rejected)),
            },
            AgentEvent::ModelRequestStart { .. }
            | AgentEvent::ProviderRetry { .. }
            | AgentEvent::SubAgentStart { .. }
            | AgentEvent::SubAgentEnd { .. }
            | AgentEvent::PermissionRequired { .. }
            | AgentEvent::PermissionResolved { .. } => assert!(self.in_turn),
            AgentEvent::PlanChangeQueued { tool_call_id, .. } => {
                assert!(self.in_turn);
                assert_eq!(self.tools.insert(tool_call_id.clone(), Tool::Ended), None);
            }
            AgentEvent::ModeChanged { .. } => assert!(!self.in_run),
            AgentEvent::PlanResolved { rejected, .. } => {
                assert!(!self.in_run);
                self.rejected = !rejected.is_empty();
            }
            AgentEvent::InputRejected { .. } => assert!(self.in_run),
            AgentEvent::AgentRestarted { .. } => {}
            fleeting => panic!("in no journal: {fleeting:?}"),
        }
    }

    fn finish(&self) {
        assert!(!self.in_run && !self.in_turn, "something is left open");
    }
}

/// A message as it was before a warning was added to it.
fn first_text(message: &AgentMessage) -> Option<String> {
    let Some(Message::User { content, .. }) = message.llm() else { return None };
    content.iter().find_map(|block| match block {
        Content::Text { text } => Some(text.clone()),
        _ => None,
    })
}

fn answers(message: &Message) -> &ToolCallId {
    match message {
        Message::ToolResult { tool_call_id, .. } => tool_call_id,
        other => panic!("no answer: {other:?}"),
    }
}

/// Whether a model completed a response.
fn is_answer(body: &EntryBody) -> bool {
    let EntryBody::Responded { message, call_id, .. } = body else { return false };
    // What a plan says was not said by a model.
    if call_id.as_str().ends_with("/plan") {
        return false;
    }
    matches!(
        message.llm(),
        Some(Message::Assistant { stop_reason: StopReason::Stop | StopReason::Length | StopReason::ToolUse, .. })
    )
}

fn is_assistant(message: Option<&Message>) -> bool {
    matches!(message, Some(Message::Assistant { .. }))
}

fn is_fleeting(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::MessageStart { message, .. } => is_assistant(message.llm()),
        AgentEvent::MessageUpdate { .. }
        | AgentEvent::ToolExecutionUpdate { .. }
        | AgentEvent::ProgressMessage { .. } => true,
        _ => false,
    }
}

fn is_started(holds: impl Fn(&dyn Fn(&EntryBody) -> bool) -> bool, call: &ToolCallId) -> bool {
    holds(&|body| matches!(body, EntryBody::ToolStarted { tool_call_id, .. } if tool_call_id == call))
}

/// Whether two call ids are of one turn: they differ in the attempt only.
fn same_turn(a: &str, b: &str) -> bool {
    a.rsplit_once('/').map(|(turn, _)| turn) == b.rsplit_once('/').map(|(turn, _)| turn)
}

/// An input's name.
pub fn variant(input: &Input) -> &'static str {
    match input {
        Input::Command(command) => match &command.op {
            Op::Prompt { format: None, .. } => "Prompt",
            Op::Prompt { format: Some(_), .. } => "PromptFor",
            Op::Steer { .. } => "Steer",
            Op::FollowUp { .. } => "FollowUp",
            Op::Continue { .. } => "Continue",
            Op::Abort => "Abort",
            Op::Reset => "Reset",
            Op::Restore { .. } => "Restore",
            Op::Configure { .. } => "Configure",
            Op::Rotate { .. } => "Rotate",
            Op::Answer { .. } => "Approved",
            Op::Plan { .. } => "Plan",
        },
        Input::Report(report) => match report {
            Report::Delta { .. } => "Delta",
            Report::Retrying { .. } => "Retrying",
            Report::Responded { .. } => "Responded",
            Report::CallFailed { .. } => "CallFailed",
            Report::HookDone { .. } => "HookDone",
            Report::ToolUpdated { .. } => "ToolUpdated",
            Report::ToolProgress { .. } => "ToolProgress",
            Report::ToolFinished { .. } => "ToolFinished",
            Report::ChildEnded { .. } => "ChildEnded",
            Report::ChildIs { .. } => "ChildIs",
            Report::Committed { .. } => "Committed",
            Report::CommitFailed { .. } => "CommitFailed",
            Report::WriterLost => "WriterLost",
            Report::ConnectionLost { .. } => "ConnectionLost",
            Report::ExecutorLost => "ExecutorLost",
            Report::Timer { .. } => "Timer",
        },
    }
}
