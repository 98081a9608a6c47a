//! Which services' keys are set, and the model that is asked when nobody chose one.

use std::collections::HashSet;

use playhouse_provider::{Access, PRESETS};

use crate::config::{Config, ModelName, Origin, Setting};

/// A key that is set, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// The service that it is for: the name of a preset.
    pub provider: &'static str,
    /// The variable that holds it.
    pub variable: &'static str,
    /// The model to ask there; `None` where that is the user's to know.
    pub model: Option<&'static str>,
}

impl KeySet {
    /// Those that are set, in the order of the presets. Services that share a key count once, those that may do without one
    /// not at all.
    pub(crate) fn all(is_set: impl Fn(&str) -> bool) -> Vec<Self> {
        let mut seen = HashSet::new();
        let of = |preset: &playhouse_provider::Preset| {
            let names = match preset.access {
                Access::Key(names) | Access::KeyOrLogin(names, _) => names,
                Access::MaybeKey(_) => &[],
            };
            let variable = names.iter().copied().find(|name| is_set(name))?;
            Some(Self { provider: preset.name, variable, model: preset.default_model() })
        };
        PRESETS.iter().filter_map(of).filter(|key| seen.insert(key.variable)).collect()
    }

    /// The name of a model there, for `--model`.
    pub fn choice(&self) -> String {
        format!("{}/{}", self.provider, self.model.unwrap_or("ID"))
    }
}

impl Config {
    /// Chooses the model by the one key that is set, if nobody else did.
    pub(crate) fn choose_by_key(&mut self) {
        let [KeySet { provider, variable, model: Some(id) }] = *self.keys_set else { return };
        if self.model.value.is_empty() && self.model.held_back.is_none() {
            let origin = Origin::Environment(variable.to_owned());
            let value = vec![ModelName::Served { provider, id: id.to_owned() }];
            self.model = Setting { value, origin, held_back: None };
        }
    }

    /// The key by which the model was chosen, if nobody else did.
    pub fn model_by_key(&self) -> Option<&KeySet> {
        let Origin::Environment(name) = &self.model.origin else { return None };
        self.keys_set.iter().find(|key| key.variable == name)
    }
}
