//! A session's settings: all from the configuration when it is new, changed by flags alone when it is stored.

use std::path::Path;

use playhouse::config::Config;
use playhouse::protocol::entry::Settings;
use playhouse::protocol::{Mode, QueueMode, Restrictions};

use super::kind::KIND;
use super::model::{self, Chain};
use super::place::here;
use super::stop::Stop;

/// The settings of a new session.
pub fn fresh(config: &Config, cwd: Option<&Path>, mode: Option<Mode>) -> Result<Settings, Stop> {
    let Chain { model, fallbacks } = model::chosen(config)?;
    Ok(Settings {
        kind: KIND.to_owned(),
        model: model.into(),
        fallbacks: fallbacks.into_iter().map(Into::into).collect(),
        system_prompt: config.system.value.as_str().into(),
        tools: config.tools.value.clone(),
        cwd: cwd.map_or_else(here, |cwd| Ok(cwd.to_owned()))?,
        permission: config.permission.value,
        grants: Vec::new(),
        // With the session, so that what the project forbids or does without stays so when it is taken up elsewhere.
        restrictions: Restrictions {
            ask: config.permissions.ask.value.clone(),
            forbid: config.permissions.forbid.value.clone(),
            sandbox: config.confinement.bounds(),
        },
        mode: mode.unwrap_or_default(),
        sandbox: config.sandbox.value,
        limits: config.limits.values(),
        durability: config.durability.value,
        retry: config.retry.values(),
        cache: config.cache.value,
        thinking_level: config.thinking.value,
        max_tokens: config.max_tokens.value,
        temperature: config.temperature.value,
        tool_execution: config.tool_execution.value,
        steering_mode: QueueMode::default(),
        follow_up_mode: QueueMode::default(),
        config_id: None,
        metadata: None,
    })
}

/// A stored session's settings, with what flags change.
pub fn changed(config: &Config, cwd: Option<&Path>, mode: Option<Mode>, stored: &Settings) -> Result<Settings, Stop> {
    let mut settings = stored.clone();
    model::changed(config, Chain::of(stored))?.put(&mut settings);
    put(&mut settings.system_prompt, config.system.by_flag().map(|text| text.as_str().into()).as_ref());
    put(&mut settings.tools, config.tools.by_flag());
    put(&mut settings.cwd, cwd.map(Path::to_owned).as_ref());
    put(&mut settings.permission, config.permission.by_flag());
    put(&mut settings.mode, mode.as_ref());
    put(&mut settings.sandbox, config.sandbox.by_flag());
    put(&mut settings.limits.max_turns, config.limits.max_turns.by_flag());
    put(&mut settings.limits.max_total_tokens, config.limits.max_total_tokens.by_flag());
    put(&mut settings.limits.max_duration, config.limits.max_duration.by_flag());
    put(&mut settings.durability, config.durability.by_flag());
    put(&mut settings.thinking_level, config.thinking.by_flag());
    put(&mut settings.max_tokens, config.max_tokens.by_flag());
    put(&mut settings.temperature, config.temperature.by_flag());
    Ok(settings)
}

fn put<T: Clone>(place: &mut T, given: Option<&T>) {
    if let Some(value) = given {
        *place = value.clone();
    }
}
