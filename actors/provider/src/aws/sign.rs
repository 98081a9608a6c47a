//! SigV4 on a request; pure: the time is passed in.
//!
//! "Signature Version 4" of AWS, with the settings of all services but S3: the path, encoded once in the request, is
//! encoded once more in what is signed. The vendor's own crate brings two dozen others along.

use std::collections::BTreeMap;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use playhouse_protocol::ProviderError;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use ring::hmac;

use super::{Keys, Scope};
use crate::wire::transport::HttpRequest;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// What is encoded: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Sent unsigned: what stands between here and the service may change them.
const UNSIGNED: [&str; 3] = ["authorization", "user-agent", "x-amzn-trace-id"];

/// Signs a request whose every header, and whose body, is settled.
pub(crate) fn sign(request: &mut HttpRequest, keys: &Keys, scope: &Scope, now: Timestamp) -> Result<(), ProviderError> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = now.strftime("%Y%m%d").to_string();
    put(request, "x-amz-date", &time)?;
    if let Some(token) = &keys.session_token {
        put(request, "x-amz-security-token", token.expose())?;
    }
    let headers = signed_headers(request);
    let names = headers.keys().cloned().collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let (path, query) = (path(&request.url), query(&request.url));
    let body = hex(digest(&SHA256, &request.body).as_ref());
    let canonical = format!("{}\n{path}\n{query}\n{lines}\n{names}\n{body}", request.method);
    let within = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let key = mac(format!("AWS4{}", keys.secret.expose()).as_bytes(), &day);
    let key = [&*scope.region, scope.service, "aws4_request"].iter().fold(key, |key, part| mac(key.as_ref(), part));
    let signature = hex(mac(key.as_ref(), &format!("{ALGORITHM}\n{time}\n{within}\n{hash}")).as_ref());
    let id = &keys.access_key_id;
    let authorization = format!("{ALGORITHM} Credential={id}/{within}, SignedHeaders={names}, Signature={signature}");
    put(request, "authorization", &authorization)
}

/// A header that no log shows.
fn put(request: &mut HttpRequest, name: &'static str, value: &str) -> Result<(), ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| ProviderError::Other {
        message: "the request cannot be signed: the credentials hold characters that no header can: copy them again"
            .to_owned(),
    })?;
    value.set_sensitive(true);
    request.headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// The headers that are signed, in their order, with the address. One that is no text is sent unsigned.
fn signed_headers(request: &HttpRequest) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &request.headers {
        let Ok(value) = value.to_str() else { continue };
        if UNSIGNED.contains(&name.as_str()) {
            continue;
        }
        // Runs of blanks count as one.
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = headers.entry(name.to_string()).or_default();
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(&value);
    }
    let host = request.url.host_str().unwrap_or_default();
    let host = match request.url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    headers.entry("host".to_owned()).or_insert(host);
    headers
}

/// The path as it is sent, without empty parts, encoded once more.
fn path(url: &Url) -> String {
    let path = url.path();
    let parts: Vec<String> =
        path.split('/').filter(|part| !part.is_empty()).map(|part| encoded(part.as_bytes())).collect();
    let end = if path.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

/// The query, encoded and sorted.
fn query(url: &Url) -> String {
    let Some(query) = url.query() else { return String::new() };
    let plain = |text: &str| encoded(&percent_decode_str(text).collect::<Vec<u8>>());
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string()
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Cases of the test suite that AWS publishes for Signature Version 4.
#[cfg(test)]
mod tests {
    use playhouse_protocol::Secret;
    use reqwest::Method;
    use reqwest::header::HeaderMap;

    use super::*;

    fn signature(method: Method, url: &str, headers: &[(&'static str, &'static str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let mut request =
            HttpRequest { method, url: Url::parse(url).unwrap(), headers: map, body: bytes::Bytes::new() };
        let keys = Keys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
            expires: None,
        };
        let scope = Scope { region: "us-east-1".to_owned(), service: "service" };
        sign(&mut request, &keys, &scope, "2015-08-30T12:36:00Z".parse().unwrap()).unwrap();
        assert_eq!(request.headers["x-amz-date"], "20150830T123600Z");
        let authorization = &request.headers["authorization"];
        assert!(authorization.is_sensitive());
        let authorization = authorization.to_str().unwrap();
        let head = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=";
        let (names, signature) = authorization.strip_prefix(head).unwrap().split_once(", Signature=").unwrap();
        format!("{names} {signature}")
    }

    #[test]
    fn signatures_are_those_that_aws_publishes() {
        let at = |path: &str| format!("https://example.amazonaws.com{path}");
        let cases = [
            ("get-vanilla", Method::GET, at("/"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("post-vanilla", Method::POST, at("/"), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "get-vanilla-query-order-key-case",
                Method::GET,
                at("/?Param2=value2&Param1=value1"),
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "normalize-path/get-slashes",
                Method::GET,
                at("//example//"),
                "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
            ),
        ];
        for (name, method, url, expected) in cases {
            assert_eq!(signature(method, &url, &[]), format!("host;x-amz-date {expected}"), "{name}");
        }
        // get-header-key-duplicate, get-header-value-trim
        let twice = [("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")];
        let expected = "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea";
        assert_eq!(signature(Method::GET, &at("/"), &twice), format!("host;my-header1;x-amz-date {expected}"));
        let blanks = [("my-header1", " value1"), ("my-header2", " \"a   b   c\"")];
        let expected = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736";
        assert_eq!(
            signature(Method::GET, &at("/"), &blanks),
            format!("host;my-header1;my-header2;x-amz-date {expected}")
        );
    }
}
