//! What a model call consumed.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::price::{Cost, Prices};

/// Tokens in five classes that partition the total: nothing is counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens processed anew.
    pub input: u64,
    /// Completion tokens, without reasoning.
    pub output: u64,
    /// Prompt tokens served from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// Completion tokens spent on reasoning.
    pub reasoning: u64,
    /// The sum as written on the wire; readers use [`Usage::total`].
    pub total_tokens: u64,
    /// What it cost; `None` when some of it has no known price.
    #[serde(rename = "cost_nano_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// Usage of the given classes, with its total.
    pub fn of(input: u64, output: u64, cache_read: u64, cache_write: u64, reasoning: u64) -> Self {
        let mut usage = Self { input, output, cache_read, cache_write, reasoning, total_tokens: 0, cost: None };
        usage.total_tokens = usage.total();
        usage
    }

    /// The sum of the five classes.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write, self.reasoning]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The same usage with what it cost, if that is known.
    pub fn priced(self, prices: Option<&Prices>) -> Self {
        Self { cost: prices.and_then(|prices| prices.cost(&self)), ..self }
    }

    /// The share of the prompt that came from the cache; `None` when nothing was reported.
    pub fn cache_hit_rate(&self) -> Option<f64> {
        let prompt = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        (prompt > 0).then(|| self.cache_read as f64 / prompt as f64)
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let cost = match (self.total(), other.total()) {
            (0, _) => other.cost,
            (_, 0) => self.cost,
            (_, _) => self.cost.zip(other.cost).map(|(one, two)| one + two),
        };
        let sum = Self::of(
            self.input.saturating_add(other.input),
            self.output.saturating_add(other.output),
            self.cache_read.saturating_add(other.cache_read),
            self.cache_write.saturating_add(other.cache_write),
            self.reasoning.saturating_add(other.reasoning),
        );
        Self { cost, ..sum }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_priced_only_if_all_of_it_is() {
        let prices = Prices { input: 1_000_000, ..Prices::default() };
        let (priced, unpriced) = (Usage::of(10, 0, 0, 0, 0).priced(Some(&prices)), Usage::of(5, 0, 0, 0, 0));
        assert_eq!(priced.cost, Some(Cost { nano_dollars: 10_000 }));
        assert_eq!((priced + priced).cost, Some(Cost { nano_dollars: 20_000 }));
        assert_eq!((priced + unpriced).cost, None);
        assert_eq!((Usage::default() + priced + Usage::default()).cost, priced.cost, "nothing costs nothing");
        assert_eq!(serde_json::to_value(priced).unwrap()["cost_nano_usd"], 10_000);
    }

    #[test]
    fn hit_rate_is_unknown_without_a_prompt() {
        assert_eq!(Usage::default().cache_hit_rate(), None);
        assert_eq!(Usage::of(30, 5, 60, 10, 0).cache_hit_rate(), Some(0.6));
    }

    #[test]
    fn classes_partition_the_total() {
        let sum = Usage::of(1, 2, 3, 4, 5) + Usage::of(10, 20, 30, 40, 50);
        assert_eq!(sum, Usage::of(11, 22, 33, 44, 55));
        assert_eq!(sum.total_tokens, 165);
        assert_eq!(Usage::of(u64::MAX, 1, 0, 0, 0).total(), u64::MAX);
    }
}
