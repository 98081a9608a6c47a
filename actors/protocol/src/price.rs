//! What tokens cost.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// What a million tokens of each class cost, in millionths of a dollar: a price of $2.50 is 2,500,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Prompt tokens processed anew.
    pub input: u64,
    /// Completion tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens from the cache.
    pub cache_read: u64,
    /// Prompt tokens written to the cache.
    pub cache_write: u64,
    /// The longest prompt, in tokens, for which these are the prices; that of a longer one is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
}

impl Prices {
    /// What this usage of one call costs; `None` where these are not its prices.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        if self.up_to.is_some_and(|most| prompt > most) {
            return None;
        }
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.reasoning, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        // Tokens × millionths of a dollar per million tokens = 10⁻¹² dollars.
        let pico = parts.iter().fold(0_u128, |sum, (tokens, price)| sum + u128::from(*tokens) * u128::from(*price));
        Some(Cost { nano_dollars: u64::try_from(pico.div_ceil(1_000)).unwrap_or(u64::MAX) })
    }
}

/// An amount of money, never negative and never rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost {
    /// In thousand-millionths of a dollar.
    pub nano_dollars: u64,
}

impl Cost {
    /// The cost of no tokens; not of an unknown number.
    pub const ZERO: Self = Self { nano_dollars: 0 };

    /// In dollars, for people.
    fn dollars(self) -> f64 {
        self.nano_dollars as f64 / 1e9
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { nano_dollars: self.nano_dollars.saturating_add(other.nano_dollars) }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        match dollars {
            _ if self.nano_dollars == 0 => f.write_str("$0"),
            _ if dollars < 0.01 => write!(f, "${dollars:.6}"),
            _ => write!(f, "${dollars:.4}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_price_and_reasoning_costs_as_output() {
        let prices = Prices {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: 300_000,
            cache_write: 3_750_000,
            up_to: Some(13_000),
        };
        let cost = prices.cost(&Usage::of(1_000, 100, 10_000, 2_000, 50)).unwrap();
        assert_eq!(prices.cost(&Usage::of(1_001, 100, 10_000, 2_000, 50)), None, "a longer prompt has other prices");
        // 0.003 + 0.0015 + 0.003 + 0.0075 + 0.00075
        assert_eq!(cost, Cost { nano_dollars: 15_750_000 });
        assert!(cost.to_string().starts_with("$0.015"));
        assert_eq!(prices.cost(&Usage::default()), Some(Cost::ZERO));
        assert_eq!(Cost { nano_dollars: 38_000 }.to_string(), "$0.000038");
    }

    #[test]
    fn less_than_can_be_counted_is_rounded_up_and_more_does_not_wrap() {
        let prices = Prices { input: 1, output: 1, cache_read: 1, cache_write: 1, up_to: None };
        assert_eq!(prices.cost(&Usage::of(1, 0, 0, 0, 0)), Some(Cost { nano_dollars: 1 }));
        let all = Prices { input: u64::MAX, ..prices };
        assert_eq!(all.cost(&Usage::of(u64::MAX, 0, 0, 0, 0)), Some(Cost { nano_dollars: u64::MAX }));
    }
}
