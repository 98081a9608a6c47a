//! Signed statements of a service account.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Serialize;

/// How long a statement is good for; the most that Google takes.
const LIFETIME: u64 = 3_600;

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    typ: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

/// Who asks whom for what, from when to when in unix seconds.
#[derive(Debug, Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

/// A private RSA key from its PEM text, as PKCS#8 or PKCS#1.
pub(super) fn read_key(pem: &str) -> Result<RsaKeyPair, String> {
    let unusable = || "its private key is no RSA key in PEM: download the key file again".to_owned();
    let inside: String =
        pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("-----")).collect();
    let der = STANDARD.decode(inside).map_err(|_| unusable())?;
    let key =
        if pem.contains("BEGIN RSA PRIVATE KEY") { RsaKeyPair::from_der(&der) } else { RsaKeyPair::from_pkcs8(&der) };
    key.map_err(|_| unusable())
}

/// The statement that `account` asks `audience` for a token of `scope`.
pub(super) fn sign(
    key: &RsaKeyPair,
    key_id: Option<&str>,
    (account, scope, audience): (&str, &str, &str),
    now: u64,
) -> Result<String, String> {
    let header = Header { alg: "RS256", typ: "JWT", kid: key_id };
    let claims = Claims { iss: account, scope, aud: audience, iat: now, exp: now.saturating_add(LIFETIME) };
    let encoded = |json: Result<Vec<u8>, serde_json::Error>| {
        json.map(|json| URL_SAFE_NO_PAD.encode(json)).map_err(|error| error.to_string())
    };
    let mut statement = encoded(serde_json::to_vec(&header))?;
    statement.push('.');
    statement.push_str(&encoded(serde_json::to_vec(&claims))?);
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), statement.as_bytes(), &mut signature)
        .map_err(|_| "the private key cannot sign".to_owned())?;
    statement.push('.');
    statement.push_str(&URL_SAFE_NO_PAD.encode(signature));
    Ok(statement)
}
