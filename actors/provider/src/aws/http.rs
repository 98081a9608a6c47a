//! Small requests to the services that hand out credentials.

use std::time::Duration;

use playhouse_protocol::ProviderError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use crate::provider::excerpt;
use crate::wire::http::{HttpTransport, read_start};
use crate::wire::transport::{HttpRequest, Transport};

/// What an answer may be: credentials are a few thousand bytes.
const CAP: usize = 64 << 10;

/// How long a service may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    pub(super) total: Duration,
}

/// A service somewhere in the network.
pub(super) const FAR: Patience = Patience { connect: Duration::from_secs(10), total: Duration::from_secs(30) };
/// A service of the machine's own surroundings: there at once, or not at all.
pub(super) const NEAR: Patience = Patience { connect: Duration::from_secs(1), total: Duration::from_secs(5) };

/// A status and a text.
pub(super) struct TextResponse {
    pub(super) status: u16,
    pub(super) body: String,
}

impl TextResponse {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What an answer that is no success means. `said` is what may be shown of it: a body may hold what should not be.
    pub(super) fn failure(&self, whence: &str, said: Option<&str>) -> ProviderError {
        let said = said.map(|said| format!(": {}", excerpt(said, 300))).unwrap_or_default();
        let message = format!("{whence} gave no credentials: HTTP {}{said}", self.status);
        match self.status {
            429 | 500..=599 => ProviderError::Network { message },
            _ => ProviderError::Auth { message },
        }
    }
}

pub(super) fn url(text: &str, whence: &str) -> Result<Url, ProviderError> {
    Url::parse(text).map_err(|error| ProviderError::Other { message: format!("{whence} is no address: {error}") })
}

/// A request without a body.
pub(super) fn plain(method: Method, url: Url) -> HttpRequest {
    HttpRequest { method, url, headers: HeaderMap::new(), body: Default::default() }
}

/// Adds a header that may be secret.
pub(super) fn add(request: &mut HttpRequest, name: &'static str, value: &str) -> Result<(), ProviderError> {
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| ProviderError::Other {
        message: format!("the value for `{name}` holds characters that no header can"),
    })?;
    value.set_sensitive(true);
    request.headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Sends a request once and reads the answer.
pub(super) async fn send(
    request: HttpRequest,
    whence: &str,
    patience: Patience,
) -> Result<TextResponse, ProviderError> {
    let failed = |message: String| ProviderError::Network { message: format!("{whence} cannot be reached: {message}") };
    let exchange = async {
        let transport = HttpTransport::new(&request.url, patience.connect).map_err(|error| failed(error.message))?;
        let mut response = transport.send(request).await.map_err(|error| failed(error.message))?;
        let body = read_start(&mut response.body, CAP, patience.total).await;
        Ok(TextResponse { status: response.status, body: String::from_utf8_lossy(&body).into_owned() })
    };
    tokio::time::timeout(patience.total, exchange).await.unwrap_or_else(|_| Err(failed("it takes too long".to_owned())))
}
