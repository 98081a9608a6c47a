//! What has names of its own: what the user knows of a model, and what they send to a provider.

use std::collections::BTreeMap;

use playhouse_protocol::{Prices, ReasoningSummary, TakenImages};

use crate::config::keys::shown::{Shown, name_in_toml};
use crate::config::{Origin, Setting};

/// `[models."PROVIDER/ID"]` and `[providers.NAME]` of the user's file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedSections {
    /// What is known of models, by `PROVIDER/ID`.
    pub models: BTreeMap<String, ModelFacts>,
    /// What is sent to providers, by their names.
    pub providers: BTreeMap<String, ProviderFacts>,
}

/// What the user knows of a model: it wins over what is known of it otherwise. Prices are in dollars for a million
/// tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// The context window in tokens.
    pub context_window: Option<Setting<u64>>,
    /// The most output tokens to ask for.
    pub max_tokens: Option<Setting<u32>>,
    /// Which summary of its reasoning is asked for.
    pub reasoning_summary: Option<Setting<ReasoningSummary>>,
    /// Which pictures it takes.
    pub images: Option<Setting<TakenImages>>,
    /// The price of prompt tokens.
    pub input: Option<Setting<f64>>,
    /// The price of completion tokens.
    pub output: Option<Setting<f64>>,
    /// The price of prompt tokens from the cache; without it, that of others.
    pub cache_read: Option<Setting<f64>>,
    /// The price of prompt tokens written to the cache; without it, that of others.
    pub cache_write: Option<Setting<f64>>,
}

impl ModelFacts {
    /// The prices; `None` when the user gives none.
    pub(crate) fn prices(&self) -> Option<Prices> {
        let (input, output) = self.input.as_ref().zip(self.output.as_ref())?;
        let or_input = |price: &Option<Setting<f64>>| micro_dollars(price.as_ref().unwrap_or(input).value);
        Some(Prices {
            input: micro_dollars(input.value),
            output: micro_dollars(output.value),
            cache_read: or_input(&self.cache_read),
            cache_write: or_input(&self.cache_write),
            up_to: None,
        })
    }
}

/// Millionths of a dollar. The reader of files has seen to it that it is a small number, and not below zero.
fn micro_dollars(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

/// The summaries of reasoning, by the words that a file has for them.
pub(crate) const SUMMARIES: [(&str, ReasoningSummary); 4] = [
    ("auto", ReasoningSummary::Auto),
    ("concise", ReasoningSummary::Concise),
    ("detailed", ReasoningSummary::Detailed),
    ("none", ReasoningSummary::Unasked),
];

/// What the user sends to a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderFacts {
    /// Headers beside the protocol's own.
    pub headers: BTreeMap<String, Setting<String>>,
}

/// One value of these sections.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRow<'a> {
    /// The section, as a file writes it: `models."openai/gpt-5"`.
    pub section: String,
    /// Its key in there, as a file writes it.
    pub name: String,
    /// What it is set to.
    pub value: Shown,
    /// Where the value came from.
    pub origin: &'a Origin,
}

impl NamedSections {
    /// Everything in them, section by section.
    pub fn rows(&self) -> Vec<NamedRow<'_>> {
        let models = self.models.iter().flat_map(|(name, facts)| {
            let section = format!("models.{}", name_in_toml(name));
            facts.rows().into_iter().map(move |(name, value, origin)| NamedRow {
                section: section.clone(),
                name: name.to_owned(),
                value,
                origin,
            })
        });
        let providers = self.providers.iter().flat_map(|(name, facts)| {
            let section = format!("providers.{}.headers", name_in_toml(name));
            facts.headers.iter().map(move |(name, header)| NamedRow {
                section: section.clone(),
                name: name_in_toml(name),
                value: Shown::Text(header.value.clone()),
                origin: &header.origin,
            })
        });
        models.chain(providers).collect()
    }
}

impl ModelFacts {
    /// Each with its name, if it is there.
    fn rows(&self) -> Vec<(&'static str, Shown, &Origin)> {
        let window = self.context_window.as_ref().map(|it| ("context_window", Shown::Whole(it.value), &it.origin));
        let tokens = self.max_tokens.as_ref().map(|it| ("max_tokens", Shown::Whole(it.value.into()), &it.origin));
        let prices = [
            ("input", &self.input),
            ("output", &self.output),
            ("cache_read", &self.cache_read),
            ("cache_write", &self.cache_write),
        ];
        let prices = prices
            .into_iter()
            .filter_map(|(name, price)| price.as_ref().map(|it| (name, Shown::Number(it.value), &it.origin)));
        let word = |text: &str| Shown::Text(text.to_owned());
        let summary = self.reasoning_summary.as_ref().map(|it| {
            let named = SUMMARIES.iter().find(|(_, summary)| *summary == it.value);
            ("reasoning_summary", named.map_or(Shown::Unset, |(name, _)| word(name)), &it.origin)
        });
        let images = self.images.as_ref().map(|it| {
            let value = match &it.value {
                TakenImages::None => word("none"),
                TakenImages::Any => word("any"),
                TakenImages::Of(formats) => Shown::List(formats.clone()),
            };
            ("images", value, &it.origin)
        });
        window.into_iter().chain(tokens).chain(summary).chain(images).chain(prices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_costs_is_what_a_prompt_costs_unless_it_is_said() {
        let price = |dollars: f64| Some(Setting::default_of(dollars));
        let mut facts = ModelFacts { input: price(2.5), output: price(0.000_001), ..ModelFacts::default() };
        let prices = Prices { input: 2_500_000, output: 1, cache_read: 2_500_000, cache_write: 2_500_000, up_to: None };
        assert_eq!(facts.prices(), Some(prices));
        (facts.cache_read, facts.cache_write) = (price(0.0), price(10_000.0));
        assert_eq!(facts.prices(), Some(Prices { cache_read: 0, cache_write: 10_000_000_000, ..prices }));
        facts.input = None;
        assert_eq!(facts.prices(), None);
    }
}
