//! `playhouse demo`: the product at work, with no key and no network.
//!
//! A director and twelve stagehands, each an agent with a journal of its own, work with real tools in a temporary
//! folder. One stagehand's actor is made to panic in the middle of its run; its supervisor brings it back, and it goes
//! on from its journal. What the models say is a script, and the screen says so.

mod board;
mod play;
mod screen;

use std::path::Path;
use std::time::{Duration, Instant};

use playhouse::House;
use playhouse::agent::{Agent, RunStream, Subscription};
use playhouse::prelude::{AgentEvent, Event, Outcome, PermissionMode, SubAgentTool, default_tools};
use playhouse::protocol::AgentId;

use crate::cli::exit::Exit;
use crate::cli::terminal::follow::unwritten;
use crate::cli::terminal::signals::{self, Interrupt};
use board::Board;
use play::{DIRECTOR, PLAYBILL, STAGEHAND, UNLUCKY};
use screen::Screen;

/// How often the live tree is drawn.
const FRAME: Duration = Duration::from_millis(80);

/// Plays the demo, and checks that what it shows is so.
pub async fn demo() -> Result<(), Exit> {
    let interrupt = Interrupt::listen()?;
    let folder = tempfile::Builder::new()
        .prefix("playhouse-demo-")
        .tempdir()
        .map_err(|error| Exit::Refused(format!("the demo needs a temporary folder, and there is none: {error}")))?;
    let stage = folder.path().join("stage");
    std::fs::create_dir(&stage).map_err(|error| Exit::Refused(format!("the stage cannot be set: {error}")))?;
    let house = House::builder().data_dir(folder.path().join("data")).open().await.map_err(Exit::refused)?;
    signals::watch_over(&house);
    let played = on_stage(&house, &stage, interrupt).await;
    house.shutdown(Duration::ZERO).await;
    let bill = std::fs::read_to_string(stage.join(PLAYBILL)).unwrap_or_default();
    played.and_then(|(board, mut screen)| {
        screen.conclude(&board, &bill).map_err(|error| unwritten(&error))?;
        board.verdict(&bill).map_err(Exit::Failed)
    })
}

async fn on_stage(house: &House, stage: &Path, mut interrupt: Interrupt) -> Result<(Board, Screen), Exit> {
    let mut screen = Screen::open();
    screen.introduce().map_err(|error| unwritten(&error))?;
    let director = house
        .agent()
        .id(DIRECTOR)
        .provider_override(play::script(screen.pace()))
        .system_prompt("You direct a play.")
        .tools(default_tools())
        .sub_agent(SubAgentTool::new(STAGEHAND).with_definition(play::stagehand()))
        .permission(PermissionMode::Yolo)
        .cwd(stage)
        .spawn()
        .await
        .map_err(Exit::refused)?;
    let mut events = house.subscribe();
    let mut run = director.run_stream("Stage a play in twelve scenes.").await.map_err(Exit::refused)?;
    let mut show = Show { house, board: Board::new(Instant::now()), struck: false };
    let mut frame = tokio::time::interval(FRAME);
    loop {
        tokio::select! {
            biased;
            () = interrupt.asked() => {
                // A run that is over needs no end.
                let _ = director.abort().await;
                screen.leave();
                return Err(Exit::Interrupted("the demo was interrupted; nothing of it is left".to_owned()));
            }
            event = run.next() => if event.is_none() { break },
            Some(event) = events.next() => show.take(&event, &mut screen).await.map_err(|error| unwritten(&error))?,
            _ = frame.tick() => screen.draw(&show.board, &house.tree()).map_err(|error| unwritten(&error))?,
        }
    }
    show.rest(&mut events, &mut screen).await.map_err(|error| unwritten(&error))?;
    finished(run).await?;
    screen.draw(&show.board, &house.tree()).map_err(|error| unwritten(&error))?;
    Ok((show.board, screen))
}

async fn finished(run: RunStream) -> Result<(), Exit> {
    let output = run.output().await.map_err(|error| Exit::Failed(error.to_string()))?;
    match &output.outcome {
        Outcome::Stop => Ok(()),
        other => Err(Exit::Failed(format!("the director did not finish: {other:?}"))),
    }
}

/// The demo under way.
struct Show<'a> {
    house: &'a House,
    board: Board,
    /// Whether the unlucky one was struck.
    struck: bool,
}

impl Show<'_> {
    async fn take(&mut self, event: &Event, screen: &mut Screen) -> std::io::Result<()> {
        self.board.take(event);
        if let (AgentEvent::AgentRestarted { .. }, Some(scene)) = (&event.event, self.board.scene(event)) {
            // What was there before it came back. A journal that cannot be read is shown as none.
            let entries = self.house.entries(&event.session_id).await.unwrap_or_default();
            self.board.folded(scene, entries.iter().filter(|(seq, _)| *seq < event.id.seq).count());
        }
        screen.tell(&self.board, event)?;
        // Struck after its first turn: it has a conversation to come back with, and a tool that must not run twice.
        let first_turn = matches!(event.event, AgentEvent::TurnEnd { turn_index: 0, .. });
        if first_turn && !self.struck && self.board.scene(event) == Some(UNLUCKY) {
            self.struck = true;
            self.board.strike(UNLUCKY);
            screen.draw(&self.board, &self.house.tree())?;
            let agent: AgentId = event.agent_id.clone();
            // One that is not there any more cannot be struck, and the verdict says so.
            let _ = self.house.crash(&agent).await;
        }
        Ok(())
    }

    /// What was told before the run's end and is not read yet.
    async fn rest(&mut self, events: &mut Subscription, screen: &mut Screen) -> std::io::Result<()> {
        while let Some(event) = events.try_next() {
            self.take(&event, screen).await?;
        }
        Ok(())
    }
}
