//! `commands.txt`, read.

use playhouse_protocol::Level;

/// What a command line is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Plain {
        level: Level,
        wraps: bool,
    },
    /// With the words that a command inside is to begin with.
    Opaque(Option<Vec<String>>),
}

pub struct Case {
    pub number: usize,
    pub command: String,
    pub expected: Judgement,
}

pub fn read() -> Vec<Case> {
    let lines =
        include_str!("commands.txt").lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| case(at + 1, line)).collect()
}

fn case(number: usize, line: &str) -> Case {
    let (judgement, command) =
        line.split_once(": ").unwrap_or_else(|| panic!("line {number} has no judgement: {line}"));
    let plain = |level: &str, wraps| {
        let level = serde_json::from_value(level.into()).unwrap_or_else(|_| panic!("line {number}: {judgement}"));
        Judgement::Plain { level, wraps }
    };
    let expected = match judgement.split_once(' ') {
        None if judgement == "opaque" => Judgement::Opaque(None),
        None => plain(judgement, false),
        Some(("opaque", sees)) => {
            let words = sees.strip_prefix("sees ").unwrap_or_else(|| panic!("line {number}: {judgement}"));
            Judgement::Opaque(Some(words.split(' ').map(str::to_owned).collect()))
        }
        Some((level, "wraps")) => plain(level, true),
        Some(_) => panic!("line {number}: {judgement}"),
    };
    Case { number, command: unfold(command), expected }
}

/// Puts in what `⟨…⟩` stands for.
fn unfold(text: &str) -> String {
    let mut pieces = text.split('⟨');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (inside, after) = piece.split_once('⟩').expect("a closing bracket");
        match (inside.strip_prefix("U+"), inside.split_once('×')) {
            (Some(code), _) => out.extend(char::from_u32(u32::from_str_radix(code, 16).expect("a number"))),
            (None, Some((count, what))) => out.push_str(&what.repeat(count.parse().expect("a count"))),
            (None, None) => panic!("{inside}"),
        }
        out.push_str(after);
    }
    out
}
