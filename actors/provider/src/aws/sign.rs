//! SigV4 on a request; pure: the time is passed in.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as signed};
use aws_sigv4::sign::v4::SigningParams;
use jiff::Timestamp;
use playhouse_protocol::ProviderError;
use reqwest::header::{HeaderName, HeaderValue};

use super::{Keys, Scope};
use crate::wire::transport::HttpRequest;

/// Signs a request whose every header, and whose body, is settled.
///
/// The settings are those of all services but S3: the path, encoded once in the request, is encoded once more in what
/// is signed.
pub(crate) fn sign(request: &mut HttpRequest, keys: &Keys, scope: &Scope, now: Timestamp) -> Result<(), ProviderError> {
    let failed = |message: String| ProviderError::Other { message: format!("the request cannot be signed: {message}") };
    let token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let identity = Credentials::new(keys.access_key_id.clone(), keys.secret.expose(), token, None, "playhouse").into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(&scope.region)
        .name(scope.service)
        .time(SystemTime::from(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(error.to_string()))?
        .into();
    // A header that is no text is sent unsigned.
    let headers = request.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let body = SignableBody::Bytes(&request.body);
    let signable = SignableRequest::new(request.method.as_str(), request.url.as_str(), headers, body)
        .map_err(|error| failed(error.to_string()))?;
    let (instructions, _) = signed(signable, &params).map_err(|error| failed(error.to_string()))?.into_parts();
    let (headers, _) = instructions.into_parts();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value())
            .map_err(|_| failed("the credentials hold characters that no header can: copy them again".to_owned()))?;
        value.set_sensitive(true);
        request.headers.insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}
