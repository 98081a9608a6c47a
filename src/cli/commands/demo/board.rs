//! What the demo knows of its players, from their events alone.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use playhouse::prelude::{AgentEvent, Event, Message, Outcome, StreamDelta, Usage};
use playhouse::protocol::AgentId;

use super::play::{DIRECTOR, SCENES, STAGEHAND, UNLUCKY, scene_of};

/// The director or a stagehand, as its events tell of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Player {
    /// What it does at this moment.
    pub doing: String,
    /// Tools it has run.
    pub tools: usize,
    /// Messages of its conversation.
    pub messages: usize,
    /// The first of them, a line each.
    pub said: Vec<String>,
    /// How many it had when its actor was made to panic.
    pub struck_at: Option<usize>,
    /// Why it came back, as its supervisor says.
    pub reason: String,
    /// How many entries of its journal it was folded from.
    pub folded: usize,
    /// How often it came back from its journal.
    pub restarts: usize,
    /// Whether its run is over, and how.
    pub end: Option<PlayerEnd>,
    /// What its models are said to have consumed.
    pub usage: Usage,
}

/// How a player's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerEnd {
    /// The model was done.
    Done,
    /// It was aborted, stopped or an error.
    Failed,
}

/// The director and the stagehands.
#[derive(Debug)]
pub struct Board {
    begun: Instant,
    director: Player,
    /// By the numbers of their scenes, less one.
    stagehands: Vec<Player>,
    scenes: HashMap<AgentId, usize>,
}

impl Board {
    /// Nobody on stage yet.
    pub fn new(begun: Instant) -> Self {
        let stagehands = vec![Player::default(); SCENES.len()];
        Self { begun, director: Player::default(), stagehands, scenes: HashMap::new() }
    }

    pub fn director(&self) -> &Player {
        &self.director
    }

    /// The stagehands, with the numbers of their scenes.
    pub fn stagehands(&self) -> impl Iterator<Item = (usize, &Player)> {
        (1..).zip(&self.stagehands)
    }

    /// The scene of the stagehand that told this, from 1.
    pub fn scene(&self, event: &Event) -> Option<usize> {
        self.scenes.get(&event.agent_id).copied()
    }

    /// The stagehand of a scene.
    pub fn stagehand(&self, scene: usize) -> Option<&Player> {
        self.stagehands.get(scene.checked_sub(1)?)
    }

    /// How long it has gone on.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A stagehand's actor is about to panic.
    pub fn strike(&mut self, scene: usize) {
        if let Some(player) = scene.checked_sub(1).and_then(|place| self.stagehands.get_mut(place)) {
            player.struck_at = Some(player.messages);
            player.doing = "its actor panics".to_owned();
        }
    }

    /// A stagehand came back, and its journal has this many entries.
    pub fn folded(&mut self, scene: usize, entries: usize) {
        if let Some(player) = scene.checked_sub(1).and_then(|place| self.stagehands.get_mut(place)) {
            player.folded = entries;
        }
    }

    /// Takes in what happened.
    pub fn take(&mut self, event: &Event) {
        if event.agent_id.as_str() == DIRECTOR {
            self.director.take(&event.event);
            return;
        }
        // A stagehand's scene is in its first message.
        if let AgentEvent::MessageEnd { message, .. } = &event.event
            && let Some(message @ Message::User { .. }) = message.llm()
            && let Some(scene) = scene_of(&message.text())
        {
            self.scenes.entry(event.agent_id.clone()).or_insert(scene);
        }
        let place = self.scene(event).and_then(|scene| scene.checked_sub(1));
        if let Some(player) = place.and_then(|place| self.stagehands.get_mut(place)) {
            player.take(&event.event);
        }
    }

    /// Stagehands that ended well.
    pub fn done(&self) -> usize {
        self.stagehands.iter().filter(|player| player.end == Some(PlayerEnd::Done)).count()
    }

    /// Tools that were run, by everyone.
    pub fn tool_calls(&self) -> usize {
        self.players().map(|player| player.tools).sum()
    }

    /// How often anyone came back from its journal.
    pub fn restarts(&self) -> usize {
        self.players().map(|player| player.restarts).sum()
    }

    /// The tokens of all agents together.
    pub fn usage(&self) -> Usage {
        self.players().fold(Usage::default(), |sum, player| sum + player.usage)
    }

    fn players(&self) -> impl Iterator<Item = &Player> {
        std::iter::once(&self.director).chain(&self.stagehands)
    }

    /// Whether everything that the demo claims is so.
    pub fn verdict(&self, bill: &str) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("the demo did not go as it should: {what}; please report this"));
        let lines: Vec<&str> = bill.lines().collect();
        let distinct: HashSet<&str> = lines.iter().copied().collect();
        if self.done() != SCENES.len() {
            return wrong(&format!("{} of {} stagehands ended well", self.done(), SCENES.len()));
        }
        if lines.len() != SCENES.len() || distinct.len() != SCENES.len() {
            return wrong(&format!("the playbill has {} lines, {} of them distinct", lines.len(), distinct.len()));
        }
        match self.stagehand(UNLUCKY) {
            Some(Player { restarts: 1, struck_at: Some(had), messages, .. }) if *had > 0 && messages > had => Ok(()),
            other => wrong(&format!("the stagehand that was struck did not go on: {other:?}")),
        }
    }
}

impl Player {
    fn take(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::ModelRequestStart { .. } => self.doing.clear(),
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } => self.doing.push_str(delta),
            AgentEvent::MessageEnd { message, .. } => {
                if let Some(message) = message.llm() {
                    self.messages += 1;
                    // As many as it had when it was struck are shown.
                    if self.struck_at.is_none() {
                        self.said.push(line(message));
                    }
                }
                if let Some(message @ Message::Assistant { .. }) = message.llm() {
                    self.doing = message.text();
                }
            }
            AgentEvent::ToolExecutionStart { tool_name, .. } => {
                self.doing =
                    if tool_name == STAGEHAND { "waiting for the stagehands".to_owned() } else { tool_name.clone() };
            }
            AgentEvent::ToolExecutionEnd { tool_name, summary, .. } if tool_name != STAGEHAND => {
                self.tools += 1;
                self.doing.clone_from(summary);
            }
            AgentEvent::AgentRestarted { reason } => {
                self.restarts += 1;
                self.reason.clone_from(reason);
                self.doing = "back, going on from its journal".to_owned();
            }
            AgentEvent::AgentEnd { outcome, usage, .. } => {
                self.end = Some(if *outcome == Outcome::Stop { PlayerEnd::Done } else { PlayerEnd::Failed });
                self.usage += *usage;
            }
            _ => {}
        }
    }
}

/// A message in one line: who says it, and what.
fn line(message: &Message) -> String {
    let who = match message {
        Message::User { .. } => "user",
        Message::Assistant { .. } => "assistant",
        Message::ToolResult { tool_name, .. } => tool_name,
    };
    let text = match message.text() {
        text if text.trim().is_empty() => "(no output)".to_owned(),
        text => text,
    };
    format!("{who}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::prelude::{AgentMessage, ToolResult};
    use playhouse::protocol::{EventId, SessionId};
    use std::sync::Arc;

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

    fn said(text: &str) -> AgentEvent {
        AgentEvent::MessageEnd { message_id: "m".into(), message: Arc::new(AgentMessage::user(text, 0)) }
    }

    fn ended(outcome: Outcome) -> AgentEvent {
        AgentEvent::AgentEnd { messages: vec![], usage: Usage::of(3, 2, 0, 0, 0), outcome, rejection: None }
    }

    fn whole_play() -> (Board, String) {
        let mut board = Board::new(Instant::now());
        let mut bill = String::new();
        for scene in 1..=SCENES.len() {
            let agent = format!("child-{scene}");
            board.take(&told(&agent, said(&format!("Scene {scene:02}: x"))));
            board.take(&told(
                &agent,
                AgentEvent::ToolExecutionEnd {
                    tool_call_id: "c".into(),
                    tool_name: "bash".into(),
                    result: Arc::new(ToolResult::text("")),
                    is_error: false,
                    child_loop_id: None,
                    duration_ms: 1,
                    summary: "bash: echo".into(),
                },
            ));
            if scene == UNLUCKY {
                board.strike(scene);
                board.take(&told(&agent, AgentEvent::AgentRestarted { reason: "x".into() }));
            }
            board.take(&told(&agent, said("more")));
            board.take(&told(&agent, ended(Outcome::Stop)));
            bill.push_str(&format!("scene {scene}\n"));
        }
        (board, bill)
    }

    #[test]
    fn a_whole_play_is_counted_and_stands() {
        let (board, bill) = whole_play();
        assert_eq!((board.done(), board.tool_calls(), board.restarts()), (12, 12, 1));
        assert_eq!(board.usage(), Usage::of(36, 24, 0, 0, 0));
        let unlucky = board.stagehand(UNLUCKY).unwrap();
        assert_eq!((unlucky.said.as_slice(), unlucky.reason.as_str()), (&["user: Scene 07: x".to_owned()][..], "x"));
        assert_eq!(board.verdict(&bill), Ok(()));
    }

    #[test]
    fn whatever_is_not_so_is_said() {
        let (board, bill) = whole_play();
        assert!(board.verdict(&format!("{bill}scene 3\n")).unwrap_err().contains("13 lines, 12 of them distinct"));
        let (mut board, bill) = whole_play();
        board.take(&told("child-2", ended(Outcome::Aborted)));
        assert!(board.verdict(&bill).unwrap_err().contains("11 of 12"));
        let (mut board, bill) = whole_play();
        board.stagehands[UNLUCKY - 1].restarts = 0;
        assert!(board.verdict(&bill).unwrap_err().contains("did not go on"));
    }
}
