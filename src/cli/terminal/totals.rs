//! What a run came to, on one line.

use std::time::Instant;

use playhouse::protocol::{AgentEvent, Usage};
use serde_json::{Value, json};

/// Counts a run and its sub-agents.
#[derive(Debug)]
pub struct Totals {
    begun: Instant,
    usage: Usage,
    turns: usize,
    tools: usize,
}

impl Totals {
    /// Nothing is counted yet; time runs from `begun`.
    pub fn new(begun: Instant) -> Self {
        Self { begun, usage: Usage::default(), turns: 0, tools: 0 }
    }

    /// Counts what an event stands for.
    pub fn take(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::TurnEnd { .. } => self.turns += 1,
            AgentEvent::ToolExecutionEnd { .. } => self.tools += 1,
            AgentEvent::AgentEnd { usage, .. } => self.usage += *usage,
            _ => {}
        }
    }

    /// The same as fields of a document.
    pub fn document(&self) -> Value {
        let cost = self.usage.cost.map(|cost| cost.nano_dollars as f64 / 1e9);
        let duration_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        json!({
            "usage": self.usage,
            "cost_usd": cost,
            "turns": self.turns,
            "tool_calls": self.tools,
            "duration_ms": duration_ms,
        })
    }

    /// The line. What it costs is not known unless every call has its price.
    pub fn line(&self, sub_agents: usize) -> String {
        let Usage { input, output, cache_read, cache_write, reasoning, .. } = self.usage;
        let mut parts = vec![format!("{} tokens in", grouped(input + cache_read + cache_write))];
        if let Some(rate) = self.usage.cache_hit_rate().filter(|rate| *rate > 0.0) {
            parts.push(format!("{:.0} % of them cached", rate * 100.0));
        }
        parts.push(format!("{} out", grouped(output + reasoning)));
        parts.push(counted(self.turns, "turn"));
        if self.tools > 0 {
            parts.push(counted(self.tools, "tool call"));
        }
        if sub_agents > 0 {
            parts.push(counted(sub_agents, "sub-agent"));
        }
        parts.push(format!("{:.1} s", self.begun.elapsed().as_secs_f64()));
        parts.push(self.usage.cost.map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string()));
        format!("— {}", parts.join(", "))
    }
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A number in groups of three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use playhouse::protocol::{Outcome, Prices};

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn totals_add_up_a_run_and_its_helpers() {
        let mut totals = Totals::new(Instant::now());
        for usage in [Usage::of(1_000, 20, 3_000, 0, 5), Usage::of(0, 1, 0, 0, 0)] {
            let (messages, rejection) = (Vec::new(), None);
            totals.take(&AgentEvent::AgentEnd { messages, usage, outcome: Outcome::Stop, rejection });
        }
        let line = totals.line(1);
        assert!(line.starts_with("— 4,000 tokens in, 75 % of them cached, 26 out, 0 turns, 1 sub-agent, 0."), "{line}");
        assert!(line.ends_with(" s, cost unknown"), "{line}");
    }

    #[test]
    fn a_cost_is_told_when_all_of_it_is_known() {
        let prices = Prices { input: 10_000_000, output: 20_000_000, ..Prices::default() };
        let mut totals = Totals::new(Instant::now());
        let mut end = |usage| {
            let (messages, rejection) = (Vec::new(), None);
            totals.take(&AgentEvent::AgentEnd { messages, usage, outcome: Outcome::Stop, rejection });
            totals.line(0)
        };
        let priced = Usage::of(1_000, 100, 0, 0, 0).priced(Some(&prices));
        assert!(end(priced).ends_with(" s, $0.0120"));
        assert!(end(priced).ends_with(" s, $0.0240"), "a helper's is added");
        assert!(end(Usage::of(1, 0, 0, 0, 0)).ends_with(" s, cost unknown"));
    }
}
