//! What every wire protocol offers.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use playhouse_protocol::{Message, ProviderError, StreamConfig};

use crate::sink::StreamSink;

/// A way to ask a model. It makes exactly one attempt per call: retrying belongs to the connection.
#[async_trait]
pub trait StreamProvider: Send + Sync {
    /// The provider's name, for people and logs.
    fn provider_id(&self) -> &str;

    /// Asks the model, pushing what streams into `tx`, and gives the whole response as a [`Message::Assistant`].
    ///
    /// Only the protocol's own terminal event makes this `Ok`. Dropping the future cancels the request.
    async fn stream(&self, config: &StreamConfig, tx: &StreamSink) -> Result<Message, ProviderError>;

    /// Says why a request would be refused before anything is sent, if it would.
    fn check(&self, _config: &StreamConfig) -> Result<(), ProviderError> {
        Ok(())
    }

    /// How many tokens the request would be, by the service's own count; `None` where it has none.
    async fn count_tokens(&self, _config: &StreamConfig) -> Result<Option<u64>, ProviderError> {
        Ok(None)
    }

    /// Gets other credentials after the service refused the present ones; `Ok(false)` when there are no others.
    async fn refresh(&self) -> Result<bool, ProviderError> {
        Ok(false)
    }
}

/// The wall clock in unix milliseconds, for the timestamps of responses.
pub(crate) fn unix_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The start of a text for an error: at most `cap` characters.
pub(crate) fn excerpt(text: &str, cap: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(cap) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
