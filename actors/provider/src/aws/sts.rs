//! The service that gives credentials for a role.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use playhouse_protocol::{ProviderError, Secret};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use super::http::{FAR, plain, send, url};
use super::sign::sign;
use super::{Clock, Environment, Keys, Scope, dns_suffix};
use crate::wire::credentials::redacted;

/// What a session is called in the account's logs when nothing names it.
const SESSION: &str = "playhouse";

/// A role to take on.
#[derive(Clone, Debug, Default)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) seconds: Option<String>,
}

/// What proves that it may be taken on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof<'a> {
    /// Keys that sign the request.
    Keys(&'a Keys),
    /// A token of an identity provider; the request is not signed.
    Token(&'a Secret),
}

/// The credentials of a role.
pub(super) async fn assume(
    environment: &Environment,
    region: &str,
    clock: &Clock,
    role: &Role,
    proof: Proof<'_>,
) -> Result<Keys, ProviderError> {
    let whence = format!("STS, asked for the role {},", role.arn);
    let endpoint = environment
        .get("AWS_ENDPOINT_URL_STS")
        .unwrap_or_else(|| format!("https://sts.{region}.{}/", dns_suffix(region)));
    let action = match proof {
        Proof::Keys(_) => "AssumeRole",
        Proof::Token(_) => "AssumeRoleWithWebIdentity",
    };
    let mut form = vec![
        ("Action", action),
        ("Version", "2011-06-15"),
        ("RoleArn", &role.arn),
        ("RoleSessionName", role.session.as_deref().unwrap_or(SESSION)),
    ];
    form.extend(role.seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
    match proof {
        Proof::Keys(_) => form.extend(role.external_id.as_deref().map(|id| ("ExternalId", id))),
        Proof::Token(token) => form.push(("WebIdentityToken", token.expose())),
    }
    let body: Vec<String> =
        form.iter().map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))).collect();
    let mut request = plain(Method::POST, url(&endpoint, "AWS_ENDPOINT_URL_STS")?);
    request.body = body.join("&").into();
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    match proof {
        Proof::Keys(keys) => {
            let scope = Scope { region: region.to_owned(), service: "sts" };
            sign(&mut request, keys, &scope, clock.now())?;
        }
        Proof::Token(_) => {}
    }
    let answer = send(request, &whence, FAR).await?;
    if !answer.is_success() {
        let secret = match proof {
            Proof::Keys(keys) => &keys.secret,
            Proof::Token(token) => token,
        };
        let said = tag(&answer.body, "Message").map(|said| redacted(said.to_owned(), secret));
        return Err(answer.failure(&whence, said.as_deref()));
    }
    let keys = (|| {
        Some(Keys {
            access_key_id: tag(&answer.body, "AccessKeyId")?.to_owned(),
            secret: Secret::new(tag(&answer.body, "SecretAccessKey")?),
            session_token: Some(Secret::new(tag(&answer.body, "SessionToken")?)),
            expires: Some(tag(&answer.body, "Expiration")?.parse().ok()?),
        })
    })();
    keys.ok_or_else(|| ProviderError::Other { message: format!("{whence} gave an answer without credentials") })
}

/// The text of the first element of this name. The values that matter hold nothing that XML would have to escape.
fn tag<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim())
}
