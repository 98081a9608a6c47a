//! What came out, as a table: Playhouse beside the hand-written loop and the goal.

use std::fmt::Write;

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A time in seconds, shown in microseconds.
    Micros(f64),
    /// A size in bytes, shown in kilobytes.
    Kilobytes(f64),
    /// How many times the other.
    Times(f64),
    /// So many per second.
    PerSecond(f64),
    /// Megabytes per second, from bytes.
    MegabytesPerSecond(f64),
    /// A number without a unit.
    Count(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Micros(seconds) => write!(f, "{:.1} µs", seconds * 1e6),
            Self::Kilobytes(bytes) => write!(f, "{:.1} KB", bytes / 1e3),
            Self::Times(ratio) => write!(f, "{ratio:.2} ×"),
            Self::PerSecond(rate) => write!(f, "{rate:.0} /s"),
            Self::MegabytesPerSecond(rate) => write!(f, "{:.0} MB/s", rate / 1e6),
            Self::Count(count) => write!(f, "{count:.0}"),
        }
    }
}

/// What Playhouse's value stands beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Nothing: there is no other way to do it.
    Nothing,
    /// The value of the other way.
    Value(Value),
    /// Nothing here: this program is not installed.
    Missing(&'static str),
}

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Value(value) => value.fmt(f),
            Self::Missing(program) => write!(f, "no {program} here"),
        }
    }
}

/// What is hoped for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// There is no goal: it is measured to be seen.
    None,
    /// The ratio to the loop is at most this.
    Ratio(f64),
    /// Playhouse's own value is at most this.
    AtMost(Value),
    /// Playhouse's own value is at least this.
    AtLeast(Value),
}

/// One measure: a line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured, and of how many.
    pub measure: String,
    /// What the hand-written loop needed.
    pub hand: Beside,
    /// What Playhouse needed.
    pub house: Value,
    /// Playhouse to the loop.
    pub ratio: Option<f64>,
    /// What is hoped for.
    pub goal: Goal,
}

impl Row {
    /// A measure of Playhouse alone.
    pub fn alone(measure: impl Into<String>, house: Value, goal: Goal) -> Self {
        Self { measure: measure.into(), hand: Beside::Nothing, house, ratio: None, goal }
    }

    /// Whether the goal is met; no goal is always met.
    pub fn is_met(&self) -> bool {
        match self.goal {
            Goal::None => true,
            Goal::Ratio(most) => self.ratio.is_some_and(|ratio| ratio <= most),
            Goal::AtMost(most) => number(self.house) <= number(most),
            Goal::AtLeast(least) => number(self.house) >= number(least),
        }
    }

    fn met(&self) -> &'static str {
        match (self.goal, self.is_met()) {
            (Goal::None, _) => "",
            (Goal::Ratio(_) | Goal::AtMost(_) | Goal::AtLeast(_), true) => "yes",
            (Goal::Ratio(_) | Goal::AtMost(_) | Goal::AtLeast(_), false) => "no",
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.measure.clone(),
            self.hand.to_string(),
            self.house.to_string(),
            self.ratio.map(|ratio| Value::Times(ratio).to_string()).unwrap_or_default(),
            match self.goal {
                Goal::None => String::new(),
                Goal::Ratio(most) => format!("≤ {}", Value::Times(most)),
                Goal::AtMost(most) => format!("≤ {most}"),
                Goal::AtLeast(least) => format!("≥ {least}"),
            },
            self.met().to_owned(),
        ]
    }
}

/// The number without its unit.
pub fn number(value: Value) -> f64 {
    match value {
        Value::Micros(n)
        | Value::Kilobytes(n)
        | Value::Times(n)
        | Value::PerSecond(n)
        | Value::MegabytesPerSecond(n)
        | Value::Count(n) => n,
    }
}

/// The table, in Markdown.
pub fn render(rows: &[Row]) -> String {
    let head = ["measure", "hand-written loop", "Playhouse", "ratio", "goal", "met?"].map(str::to_owned);
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let mut widths = [0; 6];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        for (place, (cell, width)) in line.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            // Writing to a string cannot fail.
            let _ = if place == 0 { write!(out, "| {cell}{pad} ") } else { write!(out, "| {pad}{cell} ") };
        }
        out.push_str("|\n");
        if n == 0 {
            for (place, width) in widths.iter().enumerate() {
                let rule = "-".repeat(*width);
                let _ = if place == 0 { write!(out, "|-{rule}-") } else { write!(out, "|-{rule}:") };
            }
            out.push_str("|\n");
        }
    }
    out
}

/// The middle one of the values in their order; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_whether_goals_are_met() {
        let turn = Row {
            measure: "a turn".into(),
            hand: Beside::Value(Value::Micros(1e-4)),
            house: Value::Micros(1.3e-4),
            ratio: Some(1.3),
            goal: Goal::Ratio(1.25),
        };
        let idle = Row::alone("idle", Value::Kilobytes(11_000.0), Goal::AtMost(Value::Kilobytes(12_000.0)));
        let rate = Row::alone("records", Value::PerSecond(1e5), Goal::None);
        let search = Row { hand: Beside::Missing("rg"), ..Row::alone("search", Value::Micros(1e-4), Goal::None) };
        assert_eq!(
            render(&[turn, idle, rate, search]),
            "\
| measure | hand-written loop | Playhouse |  ratio |      goal | met? |
|---------|------------------:|----------:|-------:|----------:|-----:|
| a turn  |          100.0 µs |  130.0 µs | 1.30 × |  ≤ 1.25 × |   no |
| idle    |                   |   11.0 KB |        | ≤ 12.0 KB |  yes |
| records |                   | 100000 /s |        |           |      |
| search  |        no rg here |  100.0 µs |        |           |      |
"
        );
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
