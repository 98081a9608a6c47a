//! Keys: never in a journal, so found again in the environment.

use playhouse_protocol::{ModelConfig, Secret};

/// The model with its key: the one it has, else the one in the environment variable it names.
pub fn with_key(model: &ModelConfig) -> ModelConfig {
    let mut model = model.clone();
    if model.api_key.is_none()
        && let Some(Ok(key)) = model.key_variable.as_ref().map(std::env::var)
        && !key.is_empty()
    {
        model.api_key = Some(Secret::new(key));
    }
    model
}
