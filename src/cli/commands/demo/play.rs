//! The script: what the director and the stagehands say and do.

use std::time::Duration;

use playhouse::agent::Definition;
use playhouse::prelude::{Scripted, Step, default_tools};
use playhouse::provider::When;
use playhouse::tools::ToolSet;
use serde_json::json;

/// The id of the agent that the others work for.
pub const DIRECTOR: &str = "director";
/// The tool behind which the children are.
pub const STAGEHAND: &str = "stagehand";
/// Where every stagehand writes one line.
pub const PLAYBILL: &str = "playbill.txt";
/// The stagehand whose actor panics, from 1.
pub const UNLUCKY: usize = 7;

/// What there is to be set up.
pub const SCENES: [&str; 12] = [
    "a harbour at dawn",
    "the lighthouse stair",
    "a market in the rain",
    "a workshop full of clocks",
    "a train between stations",
    "the library cellar",
    "a bridge in a storm",
    "the empty theatre",
    "a kitchen at midnight",
    "the observatory dome",
    "a field under snow",
    "the harbour again",
];

/// The task of a scene, by which its stagehand's lines are found.
fn task(number: usize, scene: &str) -> String {
    format!("Scene {number:02}: set up {scene}")
}

/// The number of the scene that a task is for.
pub fn scene_of(task: &str) -> Option<usize> {
    let number = task.strip_prefix("Scene ")?.get(..2)?.parse().ok()?;
    (1..=SCENES.len()).contains(&number).then_some(number)
}

/// A stagehand's code: real tools, and the director's script.
pub fn stagehand() -> Definition {
    // Names that are given twice are the only thing that could be wrong with them.
    Definition { tools: ToolSet::new(default_tools()).ok(), ..Definition::default() }
}

/// Everything that is said, streamed at a pace that people can follow, or at once.
pub fn script(pace: Duration) -> Scripted {
    let pause = u64::try_from(pace.as_millis()).unwrap_or(u64::MAX);
    let paced = |step: Step| if pause == 0 { step } else { step.chunk(6).delay_ms(pause) };
    let mut steps = Vec::new();
    let mut opening = Step::text("Twelve scenes, twelve stagehands, all at once.");
    for (n, scene) in SCENES.iter().enumerate() {
        opening = opening.tool_call(STAGEHAND, json!({ "task": task(n + 1, scene) }));
    }
    let is_director = || When::prompt("Stage a play");
    steps.push(paced(opening).when(is_director()));
    let count = format!("sort {PLAYBILL} | uniq | wc -l");
    let look = Step::text("Everyone is done. Let me count the playbill.");
    steps.push(paced(look.tool_call("bash", json!({ "command": count }))).when(is_director()));
    steps.push(paced(Step::text("Twelve scenes stand, each set up once. Curtain up.")).when(is_director()));
    for (n, scene) in SCENES.iter().enumerate() {
        let number = n + 1;
        let mine = || When::prompt(format!("Scene {number:02}:"));
        let file = format!("scene-{number:02}.txt");
        let build = format!("echo 'Scene {number:02}: {scene}' | tee {file} >> {PLAYBILL}");
        let first = Step::text(format!("Setting up {scene}.")).tool_call("bash", json!({ "command": build }));
        let second = Step::text("Looking it over from the stalls.").tool_call("read_file", json!({ "path": file }));
        let last = Step::text(format!("{scene}: ready."));
        steps.extend([first, second, last].map(|step| paced(step).when(mine())));
    }
    Scripted::new(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_names_its_scene() {
        for (n, scene) in SCENES.iter().enumerate() {
            assert_eq!(scene_of(&task(n + 1, scene)), Some(n + 1));
        }
        assert_eq!(SCENES.len(), 12);
        assert_eq!(scene_of(&task(UNLUCKY, "x")), Some(UNLUCKY));
        assert_eq!([scene_of("Scene 13: x"), scene_of("Scene"), scene_of("Scene é1: x"), scene_of("")], [None; 4]);
    }
}
