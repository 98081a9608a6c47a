//! The demo on the screen: a live tree on a terminal, lines when piped, and the same summary at the end.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use playhouse::prelude::{AgentEvent, Event};
use playhouse::supervision::{NodeSnapshot, NodeState};

use super::board::{Board, Player, PlayerEnd};
use super::play::{SCENES, STAGEHAND, UNLUCKY};
use crate::cli::terminal::text::{Tint, cut, one_line, size, stdout_colours, width};
use crate::cli::terminal::wrap::wrapped;

/// A pause after each piece of text, for people.
const PACE: Duration = Duration::from_millis(30);
/// The width of lines that are read in no terminal, in columns.
const LINE: usize = 100;
/// Where the words of the summary begin, in columns.
const SUMMARY_HANG: usize = 13;
/// Rows that the tree takes, with room for the summary's beginning.
const ROWS: usize = SCENES.len() + 8;

/// Where the demo is shown.
#[derive(Debug)]
pub struct Screen {
    form: ScreenForm,
    colours: bool,
}

#[derive(Debug)]
enum ScreenForm {
    /// A table that is drawn over itself.
    Live {
        columns: usize,
        /// Lines of the last drawing.
        drawn: usize,
    },
    /// One line for each thing that matters.
    Lines,
}

impl Screen {
    /// The screen that stdout is.
    pub fn open() -> Self {
        let form = match size() {
            Some((columns, rows)) if rows >= ROWS && columns >= 40 => ScreenForm::Live { columns, drawn: 0 },
            Some(_) | None => ScreenForm::Lines,
        };
        Self { form, colours: stdout_colours() }
    }

    /// How long to pause after each piece of text: only for a person who looks on.
    pub fn pace(&self) -> Duration {
        if io::stdout().is_terminal() { PACE } else { Duration::ZERO }
    }

    /// Says what is about to happen.
    pub fn introduce(&self) -> io::Result<()> {
        let stagehands = SCENES.len();
        self.write_words(
            &format!(
                "Playhouse demo: a director and {stagehands} stagehands, each an agent with a journal of its own.\n"
            ),
            0,
        )?;
        let (on, off) = Tint::Dim.codes(self.colours);
        let text =
            "The models are scripted, offline: no key, no network. Actors, journals, tools and crashes are real.";
        self.write(&format!("{on}{}{off}\n\n", wrapped(text, 0, width())))
    }

    /// Draws the live tree, where there is one.
    pub fn draw(&mut self, board: &Board, tree: &[NodeSnapshot]) -> io::Result<()> {
        let colours = self.colours;
        let ScreenForm::Live { columns, drawn } = &mut self.form else { return Ok(()) };
        let lines = picture(board, tree, colours, *columns);
        let mut text = String::new();
        if *drawn > 0 {
            text.push_str(&format!("\x1b[{drawn}A"));
        }
        for line in &lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        *drawn = lines.len();
        self.write(&text)
    }

    /// Says what happened, where there is no live tree.
    pub fn tell(&self, board: &Board, event: &Event) -> io::Result<()> {
        let ScreenForm::Lines = self.form else { return Ok(()) };
        let Some(scene) = board.scene(event) else { return Ok(()) };
        let line = match &event.event {
            AgentEvent::ToolExecutionEnd { summary, duration_ms, .. } => {
                format!("{STAGEHAND} {scene:02}  {} {duration_ms} ms", cut(&one_line(summary), 70))
            }
            AgentEvent::TurnEnd { turn_index: 0, .. } if scene == UNLUCKY => {
                format!("{STAGEHAND} {scene:02}  ! its actor is made to panic")
            }
            AgentEvent::AgentRestarted { reason } => {
                let messages = board.stagehand(scene).and_then(|player| player.struck_at).unwrap_or_default();
                format!("{STAGEHAND} {scene:02}  ! {reason}: goes on from its journal with {messages} messages")
            }
            AgentEvent::AgentEnd { .. } => format!("{STAGEHAND} {scene:02}  done"),
            _ => return Ok(()),
        };
        self.write_words(&format!("{line}\n"), STAGEHAND.len() + 5)
    }

    /// Says what was shown, once all are done.
    pub fn conclude(&mut self, board: &Board, bill: &str) -> io::Result<()> {
        let unlucky = board.stagehand(UNLUCKY).cloned().unwrap_or_default();
        let (had, has) = (unlucky.struck_at.unwrap_or_default(), unlucky.messages);
        let seconds = board.elapsed().as_secs_f64();
        let tokens = board.usage().total();
        self.write(&format!("\n{}", card(&unlucky, self.colours, self.columns())))?;
        let text = format!(
            "\n\
             children     {} of {} done\n\
             tool calls   {}, real ones: bash, read_file\n\
             restarts     {}: {STAGEHAND} {UNLUCKY:02}'s actor panicked with {had} messages in its conversation,\n\
             \x20            was brought back by its supervisor, and ended with {has}\n\
             playbill     {} lines for {} scenes: no effect was repeated\n\
             tokens       {tokens}, as scripted; cost none\n\
             time         {seconds:.1} s\n\
             \n\
             next         `playhouse models` says which providers there are and which keys are set; then\n\
             \x20            playhouse run --model PROVIDER/ID \"What is in this folder?\"\n\
             \x20            Kill it in the middle, and `playhouse resume` goes on.\n",
            board.done(),
            SCENES.len(),
            board.tool_calls(),
            board.restarts(),
            bill.lines().count(),
            SCENES.len(),
        );
        self.write_words(&text, SUMMARY_HANG)
    }

    /// Leaves the screen as it is, at the start of a line.
    pub fn leave(&self) {
        if let ScreenForm::Live { .. } = self.form {
            // With stdout gone there is nothing to leave.
            let _ = self.write("\n");
        }
    }

    /// How wide the lines of a card may be.
    fn columns(&self) -> usize {
        match self.form {
            ScreenForm::Live { columns, .. } => columns,
            ScreenForm::Lines => width().unwrap_or(LINE),
        }
    }

    /// Writes lines of words and what they are about, wrapped where the screen is narrow.
    fn write_words(&self, text: &str, hang: usize) -> io::Result<()> {
        self.write(&wrapped(text, hang, width()))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// The tree at this moment.
fn picture(board: &Board, tree: &[NodeSnapshot], colours: bool, columns: usize) -> Vec<String> {
    let alive = |kind: &str| tree.iter().filter(|node| node.kind == kind).count();
    let running = tree.iter().filter(|node| node.state == NodeState::Running).count();
    let mut lines = vec![
        format!("house        {} actors alive, {running} running", tree.len()),
        format!("├─ sessions  {} writers", alive("writer")),
        format!("├─ providers {} connection, scripted", alive("connection")),
        "└─ stage".to_owned(),
        format!("   └─ director     {}", state(board.director(), colours, columns.saturating_sub(19))),
    ];
    for (scene, player) in board.stagehands() {
        let branch = if scene == SCENES.len() { "└─" } else { "├─" };
        let room = columns.saturating_sub(24);
        lines.push(format!("      {branch} {STAGEHAND} {scene:02} {}", state(player, colours, room)));
    }
    lines
}

/// The crash from its panic to the conversation that came back.
fn card(player: &Player, colours: bool, columns: usize) -> String {
    let had = player.struck_at.unwrap_or_default();
    let row = |tint: Tint, indent: &str, text: &str| {
        let (on, off) = tint.codes(colours);
        let room = columns.saturating_sub(2 + indent.len());
        let text = wrapped(&one_line(text), 0, Some(room));
        text.lines().map(|line| format!("{on}│{off} {indent}{line}\n")).collect::<String>()
    };
    let mut card = row(Tint::Red, "", &format!("{STAGEHAND} {UNLUCKY:02}'s actor panicked, and was {}", player.reason));
    let folded = format!("its journal of {} entries was folded into {had} messages:", player.folded);
    card.push_str(&row(Tint::Yellow, "", &folded));
    for line in player.said.iter().take(had) {
        card.push_str(&row(Tint::Yellow, "  ", line));
    }
    card.push_str(&row(Tint::Green, "", &format!("it went on from there, and ended with {}", player.messages)));
    card
}

/// What a player does, in `room` columns.
fn state(player: &Player, colours: bool, room: usize) -> String {
    let (mark, tint) = match (player.end, player.struck_at, player.restarts) {
        (Some(PlayerEnd::Done), _, 0) => ("✓", Tint::Green),
        (Some(PlayerEnd::Done), _, _) => ("✓ restarted:", Tint::Green),
        (Some(PlayerEnd::Failed), _, _) => ("✗", Tint::Red),
        (None, Some(_), 0) => ("✗ panicked:", Tint::Red),
        (None, _, 1..) => ("↻ restarted:", Tint::Yellow),
        (None, None, 0) if player.messages == 0 => ("waits", Tint::Dim),
        (None, None, 0) => ("▸", Tint::None),
    };
    let (on, off) = tint.codes(colours);
    let said = cut(&one_line(&player.doing), room.saturating_sub(mark.chars().count() + 1));
    format!("{on}{mark}{off} {said}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_picture_fits_its_screen_and_names_everyone() {
        let board = Board::new(Instant::now());
        let lines = picture(&board, &[], false, 60);
        assert_eq!(lines.len(), SCENES.len() + 5);
        assert!(lines.len() + 3 <= ROWS);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "      └─ stagehand 12 waits ");
    }

    #[test]
    fn a_state_says_what_became_of_a_player_and_is_cut() {
        let player = |end, struck_at, restarts, messages| Player {
            doing: "says\n something \x1b[2J long".to_owned(),
            end,
            struck_at,
            restarts,
            messages,
            ..Player::default()
        };
        assert_eq!(state(&player(None, None, 0, 1), false, 12), "▸ says some…");
        assert_eq!(state(&player(None, Some(3), 0, 3), false, 30), "✗ panicked: says something [2…");
        assert_eq!(state(&player(None, Some(3), 1, 3), false, 30), "↻ restarted: says something […");
        assert_eq!(state(&player(Some(PlayerEnd::Done), Some(3), 1, 6), false, 30), "✓ restarted: says something […");
    }

    #[test]
    fn the_card_of_the_crash_has_the_panic_the_fold_and_what_came_back() {
        let said = ["user: Scene 07", "assistant: Setting up a bridge in a storm.", "bash: (no output)"];
        let player = Player {
            said: said.map(str::to_owned).into(),
            struck_at: Some(3),
            reason: "restarted after a crash".to_owned(),
            folded: 9,
            messages: 6,
            ..Player::default()
        };
        let expected = "│ stagehand 07's actor panicked, and was restarted after a crash\n\
                        │ its journal of 9 entries was folded into 3 messages:\n\
                        │   user: Scene 07\n\
                        │   assistant: Setting up a bridge in a storm.\n\
                        │   bash: (no output)\n\
                        │ it went on from there, and ended with 6\n";
        assert_eq!(card(&player, false, 80), expected);
        assert!(card(&player, false, 40).lines().all(|line| line.chars().count() <= 40));
    }
}
