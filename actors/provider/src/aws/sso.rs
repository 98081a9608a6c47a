//! IAM Identity Center: the token that `aws sso login` left, for the credentials of a role.

use jiff::Timestamp;
use playhouse_protocol::{ProviderError, Secret};
use reqwest::Method;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde::Deserialize;

use super::http::{FAR, add, plain, send, url};
use super::profile::{Profiles, Section};
use super::{Clock, Environment, Keys, dns_suffix};

const WHENCE: &str = "IAM Identity Center";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    access_token: String,
    expires_at: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleResponse {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// When the credentials end, in Unix milliseconds.
    expiration: i64,
}

/// The credentials of a profile that signs in; `None` where it does not.
pub(super) async fn credentials(
    environment: &Environment,
    clock: &Clock,
    profiles: &Profiles,
    name: &str,
    profile: &Section,
) -> Result<Option<Keys>, ProviderError> {
    let session = profile.get("sso_session");
    let start = profile.get("sso_start_url");
    let Some(key) = session.or(start) else { return Ok(None) };
    let broken = |what: &str| ProviderError::Other { message: format!("the AWS profile `{name}` {what}") };
    let within = match session {
        Some(session) => {
            profiles.sso_session(session).ok_or_else(|| broken(&format!("names no known sso-session: `{session}`")))?
        }
        None => profile,
    };
    let need = |section: &Section, key: &str| {
        section.get(key).map(str::to_owned).ok_or_else(|| broken(&format!("signs in, and has no {key}")))
    };
    let region = need(within, "sso_region")?;
    let (account, role) = (need(profile, "sso_account_id")?, need(profile, "sso_role_name")?);

    let login = || broken(&format!("is signed out: run `aws sso login --profile {name}`"));
    let file: String =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let path = environment.home().ok_or_else(login)?.join(".aws/sso/cache").join(file).with_extension("json");
    let cached = tokio::fs::read_to_string(path).await.map_err(|_| login())?;
    let token: Token = serde_json::from_str(&cached).map_err(|_| login())?;
    if token.expires_at <= clock.now() {
        return Err(login());
    }

    let base = environment
        .get("AWS_ENDPOINT_URL_SSO")
        .unwrap_or_else(|| format!("https://portal.sso.{region}.{}", dns_suffix(&region)));
    let mut address = url(&format!("{}/federation/credentials", base.trim_end_matches('/')), "AWS_ENDPOINT_URL_SSO")?;
    address.query_pairs_mut().append_pair("role_name", &role).append_pair("account_id", &account);
    let mut request = plain(Method::GET, address);
    add(&mut request, "x-amz-sso_bearer_token", &token.access_token)?;
    let answer = send(request, WHENCE, FAR).await?;
    match answer.status {
        200..=299 => {}
        401 => return Err(login()),
        _ => return Err(answer.failure(WHENCE, None)),
    }
    let answer: RoleResponse = serde_json::from_str(&answer.body)
        .map_err(|_| ProviderError::Other { message: format!("{WHENCE} gave an answer without credentials") })?;
    let keys = answer.role_credentials;
    Ok(Some(Keys {
        access_key_id: keys.access_key_id,
        secret: Secret::new(keys.secret_access_key),
        session_token: Some(Secret::new(keys.session_token)),
        expires: Timestamp::from_millisecond(keys.expiration).ok(),
    }))
}
