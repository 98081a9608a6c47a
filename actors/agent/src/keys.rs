//! Keys: never in a journal, so found again in the environment.

use std::sync::Arc;

use playhouse_protocol::{ModelConfig, Secret};

/// The model with its key: the one it has, else the one in the environment variable it names.
pub fn with_key(mut model: Arc<ModelConfig>) -> Arc<ModelConfig> {
    if model.api_key.is_none()
        && let Some(Ok(key)) = model.key_variable.as_ref().map(std::env::var)
        && !key.is_empty()
    {
        Arc::make_mut(&mut model).api_key = Some(Secret::new(key));
    }
    model
}
