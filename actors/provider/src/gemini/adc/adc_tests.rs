//! The ways to a token, each against a real server on loopback.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::exchange::Endpoint;
use super::source::Metadata;
use super::*;

/// A key that was made for these tests and opens nothing.
pub(crate) const KEY: &str = include_str!("../../../tests/fixtures/gemini/TEST-ONLY-service-account-key.pem");
const PUBLIC: &[u8] = include_bytes!("../../../tests/fixtures/gemini/TEST-ONLY-service-account-public.der");
const NOW: u64 = 1_800_000_000;

/// A request that came, and how many came before it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) number: usize,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedRequest {
    /// The fields of a form.
    fn field(&self, name: &str) -> Option<String> {
        let pair = self.body.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")))?;
        Some(percent_decode_str(pair).decode_utf8().unwrap().into_owned())
    }
}

/// A server that answers every request with what `answer` says: a status, headers, a body.
pub(crate) struct Server {
    pub(crate) base: String,
    pub(crate) asked: Arc<std::sync::Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    pub(crate) async fn start(
        answer: impl Fn(&ReceivedRequest) -> (u16, String, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<std::sync::Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (answer, log, count) = (Arc::new(answer), asked.clone(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (answer, log, count) = (answer.clone(), log.clone(), count.clone());
                tokio::spawn(async move {
                    let (mut bytes, mut buffer) = (Vec::new(), [0_u8; 4096]);
                    let (head, body) = loop {
                        let read = socket.read(&mut buffer).await.unwrap_or(0);
                        bytes.extend_from_slice(&buffer[..read]);
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        let Some((head, body)) = text.split_once("\r\n\r\n") else {
                            if read == 0 {
                                return;
                            }
                            continue;
                        };
                        let length = head.lines().find_map(|line| {
                            let line = line.to_ascii_lowercase();
                            line.strip_prefix("content-length: ").map(|n| n.parse::<usize>().unwrap())
                        });
                        if body.len() >= length.unwrap_or(0) {
                            break (head.to_owned(), body.to_owned());
                        }
                    };
                    let asked = ReceivedRequest { number: count.fetch_add(1, Ordering::SeqCst), head, body };
                    let (status, headers, body) = answer(&asked);
                    log.lock().unwrap().push(asked);
                    let length = body.len();
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                    );
                    let _ = socket.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { base, asked }
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> ReceivedRequest {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

fn token(asked: &ReceivedRequest) -> (u16, String, String) {
    let body =
        json!({"access_token": format!("ya29.canary-{}", asked.number), "expires_in": 3600, "token_type": "Bearer"});
    (200, "content-type: application/json\r\n".into(), body.to_string())
}

fn refused(_: &ReceivedRequest) -> (u16, String, String) {
    (400, String::new(), r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#.into())
}

pub(crate) fn service_account(tokens: &str) -> Value {
    json!({
        "type": "service_account", "project_id": "acme", "private_key_id": "k1", "private_key": KEY,
        "client_email": "robot@acme.iam.gserviceaccount.com", "client_id": "1", "token_uri": format!("{tokens}/token"),
    })
}

fn authorized_user(tokens: &str) -> Value {
    json!({
        "type": "authorized_user", "client_id": "id.apps", "client_secret": "canary-client-secret",
        "refresh_token": "1//canary-refresh", "quota_project_id": "payer", "token_uri": format!("{tokens}/token"),
    })
}

/// Credentials from a file, and the clock they go by.
fn adc(file: &Value) -> (Adc, Arc<AtomicU64>) {
    of(file::read(&file.to_string()).unwrap())
}

fn of(found: FoundCredentials) -> (Adc, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(NOW));
    let clock = time.clone();
    (Adc::new(found, Arc::new(move || clock.load(Ordering::SeqCst))), time)
}

fn request() -> HttpRequest {
    HttpRequest::post_json(Url::parse("https://aiplatform.googleapis.com/").unwrap(), "{}")
}

async fn bearer(adc: &Adc) -> Result<String, ProviderError> {
    let mut request = request();
    let signed = tokio::time::timeout(Duration::from_secs(60), adc.authorize(&mut request)).await.unwrap();
    signed.map(|()| request.headers[AUTHORIZATION].to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_service_account_signs_who_it_is() {
    let server = Server::start(token).await;
    let (adc, _) = adc(&service_account(&server.base));
    let mut signed = request();
    adc.authorize(&mut signed).await.unwrap();
    assert_eq!(signed.headers[AUTHORIZATION], "Bearer ya29.canary-0");
    assert!(signed.headers[AUTHORIZATION].is_sensitive());
    assert!(!signed.headers.contains_key("x-goog-user-project"));

    let asked = server.last();
    assert!(asked.head.starts_with("POST /token HTTP/1.1\r\n"), "{}", asked.head);
    assert!(asked.head.to_ascii_lowercase().contains("content-type: application/x-www-form-urlencoded"));
    assert_eq!(asked.field("grant_type").unwrap(), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let statement = asked.field("assertion").unwrap();
    let parts: Vec<&str> = statement.split('.').collect();
    let read = |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    assert_eq!(read(parts[0]), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    assert_eq!(
        read(parts[1]),
        json!({
            "iss": "robot@acme.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": format!("{}/token", server.base), "iat": NOW, "exp": NOW + 3_600,
        })
    );
    let stated = format!("{}.{}", parts[0], parts[1]);
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, PUBLIC);
    public.verify(stated.as_bytes(), &signature).unwrap();
    assert!(public.verify(format!("{stated}x").as_bytes(), &signature).is_err());
    assert!(!adc.redact(format!("echo {statement}")).contains(parts[2]), "the statement is as good as a key");
}

#[tokio::test]
async fn a_token_is_used_until_a_minute_before_it_ends() {
    let server = Server::start(token).await;
    let (adc, time) = adc(&service_account(&server.base));
    for (at, expected) in [(0, 0), (1, 0), (3_539, 0), (3_540, 1), (3_540 + 3_539, 1), (3_540 + 3_540, 2)] {
        time.store(NOW + at, Ordering::SeqCst);
        assert_eq!(bearer(&adc).await, Ok(format!("Bearer ya29.canary-{expected}")), "after {at} s");
    }
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn a_refused_token_is_fetched_anew_once() {
    let server = Server::start(token).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.canary-0".into()));
    // A service answered 401: the connection refreshes once and asks again.
    assert_eq!(adc.refresh().await, Ok(true));
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.canary-1".into()));
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.canary-1".into()));
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn all_who_wait_share_one_token() {
    let server = Server::start(token).await;
    let (adc, _) = adc(&service_account(&server.base));
    let all = futures::future::join_all((0..50).map(|_| bearer(&adc))).await;
    assert!(all.iter().all(|got| *got == Ok("Bearer ya29.canary-0".into())), "{all:?}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_person_who_logged_in_is_refreshed_and_pays() {
    let server = Server::start(token).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    let mut signed = request();
    adc.authorize(&mut signed).await.unwrap();
    assert_eq!(signed.headers["x-goog-user-project"], "payer");
    let asked = server.last();
    let fields = ["grant_type", "client_id", "client_secret", "refresh_token"].map(|name| asked.field(name).unwrap());
    assert_eq!(fields, ["refresh_token", "id.apps", "canary-client-secret", "1//canary-refresh"]);
}

#[tokio::test]
async fn a_refused_login_says_what_to_do_and_shows_no_secret() {
    let server = Server::start(|asked: &ReceivedRequest| (400, String::new(), format!("bad: {}", asked.body))).await;
    for file in [authorized_user(&server.base), service_account(&server.base)] {
        let (adc, _) = adc(&file);
        let error = bearer(&adc).await.unwrap_err();
        let ProviderError::Auth { message } = error else { panic!("{error:?}") };
        assert!(message.contains("gcloud auth application-default login"), "{message}");
        let shown = adc.redact(message);
        assert!(!shown.contains("canary") && shown.contains("****"), "{shown}");
    }
    let server = Server::start(refused).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    let error = bearer(&adc).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Auth { message } if message.contains("invalid_grant")), "{error}");
    let line = KEY.lines().nth(3).unwrap();
    let (robot, _) = self::adc(&service_account(&server.base));
    for (adc, secret) in [(&adc, "1//canary-refresh"), (&adc, "canary-client-secret"), (&robot, line)] {
        assert_eq!(adc.redact(format!("a {secret} b")), "a **** b");
        assert!(!format!("{adc:?} {adc:#?}").contains(secret));
    }
}

#[tokio::test]
async fn a_token_that_a_service_sends_back_is_taken_out() {
    let server = Server::start(token).await;
    let (adc, _) = adc(&service_account(&server.base));
    bearer(&adc).await.unwrap();
    assert_eq!(adc.redact("bad token ya29.canary-0!".into()), "bad token ****!");
    adc.refresh().await.unwrap();
    bearer(&adc).await.unwrap();
    assert_eq!(adc.redact("ya29.canary-0 ya29.canary-1".into()), "**** ****", "the one before as well");
}

#[tokio::test]
async fn what_fails_on_the_way_may_be_asked_again() {
    for (status, limited) in [(503, true), (429, true), (500, false), (502, false)] {
        let server = Server::start(move |_: &ReceivedRequest| (status, String::new(), "sorry".into())).await;
        let (adc, _) = adc(&authorized_user(&server.base));
        let error = bearer(&adc).await.unwrap_err();
        assert!(error.is_retryable(), "{status}: {error:?}");
        assert_eq!(matches!(error, ProviderError::RateLimited { .. }), limited, "{status}");
    }
    let server = Server::start(|_: &ReceivedRequest| (200, String::new(), "<html>".into())).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    assert!(matches!(bearer(&adc).await, Err(ProviderError::Network { .. })));
    // Nobody listens there.
    let (adc, _) = self::adc(&authorized_user("http://127.0.0.1:1"));
    assert!(matches!(bearer(&adc).await, Err(ProviderError::Network { .. })));
}

#[tokio::test]
async fn all_who_wait_share_one_failure() {
    let server = Server::start(refused).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    let all = futures::future::join_all((0..50).map(|_| bearer(&adc))).await;
    assert!(all.iter().all(|got| matches!(got, Err(ProviderError::Auth { .. }))), "{all:?}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_fetch_that_failed_is_not_kept() {
    let server =
        Server::start(|asked: &ReceivedRequest| if asked.number == 0 { refused(asked) } else { token(asked) }).await;
    let (adc, _) = adc(&authorized_user(&server.base));
    assert!(bearer(&adc).await.is_err());
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.canary-1".into()));
}

fn named(server: &Server) -> Environment {
    let host = server.base.strip_prefix("http://").unwrap().to_owned();
    Environment { metadata_host: Some(host), ..Environment::default() }
}

#[tokio::test]
async fn the_metadata_server_is_asked_in_its_own_way() {
    let server = Server::start(|asked: &ReceivedRequest| {
        let (status, headers, body) = token(asked);
        (status, format!("{headers}Metadata-Flavor: Google\r\n"), body)
    })
    .await;
    let (adc, _) = of(find(&named(&server)).unwrap());
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.canary-0".into()));
    let head = server.last().head;
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    assert!(head.starts_with(&format!("GET {path}?scopes=https://www.googleapis.com/auth/cloud-platform ")), "{head}");
    assert!(head.to_ascii_lowercase().contains("metadata-flavor: google"), "{head}");
}

#[tokio::test]
async fn what_is_no_metadata_server_gets_no_trust() {
    let portal = Server::start(token).await;
    let (adc, _) = of(find(&named(&portal)).unwrap());
    assert!(matches!(bearer(&adc).await, Err(ProviderError::Auth { .. })), "a captive portal");
    let bare =
        Server::start(|_: &ReceivedRequest| (404, "Metadata-Flavor: Google\r\n".into(), "not found".into())).await;
    let (adc, _) = of(find(&named(&bare)).unwrap());
    let error = bearer(&adc).await.unwrap_err().to_string();
    assert!(error.contains("no service account") && error.contains("gcloud auth"), "{error}");
    let gone = Environment { metadata_host: Some("127.0.0.1:1".into()), ..Environment::default() };
    let (adc, _) = of(find(&gone).unwrap());
    assert!(matches!(bearer(&adc).await, Err(ProviderError::Network { .. })), "one that was named must be there");
}

#[tokio::test]
async fn a_machine_without_a_metadata_server_says_what_to_do() {
    let unnamed = |answered: OnceLock<()>| {
        let tokens = Endpoint::metadata("http://127.0.0.1:1/token", Duration::from_secs(1)).unwrap();
        let source = Source::Metadata(Metadata { tokens, named: Explicit::No, answered });
        of(FoundCredentials { source, project: None, quota_project: None, secrets: Vec::new(), explicit: Explicit::No })
            .0
    };
    let error = bearer(&unnamed(OnceLock::new())).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Auth { message } if message.contains("gcloud auth")), "{error:?}");
    // One that has answered before is there, and may answer again.
    let error = bearer(&unnamed(OnceLock::from(()))).await.unwrap_err();
    assert!(matches!(error, ProviderError::Network { .. }), "{error:?}");
}

#[tokio::test]
async fn a_service_account_that_another_may_use() {
    let server = Server::start(|asked: &ReceivedRequest| {
        if asked.head.starts_with("POST /iam") {
            let body = json!({"accessToken": "ya29.other", "expireTime": "2027-01-15T09:00:00Z"});
            (200, String::new(), body.to_string())
        } else {
            token(asked)
        }
    })
    .await;
    let file = json!({
        "type": "impersonated_service_account", "delegates": ["d"],
        "service_account_impersonation_url": format!("{}/iam:generateAccessToken", server.base),
        "source_credentials": authorized_user(&server.base),
    });
    let (adc, time) = adc(&file);
    assert_eq!(bearer(&adc).await, Ok("Bearer ya29.other".into()));
    let asked = server.last();
    assert!(asked.head.to_ascii_lowercase().contains("authorization: bearer ya29.canary-0"), "{}", asked.head);
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body, json!({"scope": [SCOPE], "delegates": ["d"], "lifetime": "3600s"}));
    assert_eq!(adc.redact("ya29.canary-0 ya29.other".into()), "**** ****");
    // It ends when it says.
    time.store("2027-01-15T08:58:59Z".parse::<jiff::Timestamp>().unwrap().as_second() as u64, Ordering::SeqCst);
    bearer(&adc).await.unwrap();
    assert_eq!(server.count(), 2);
    time.fetch_add(1, Ordering::SeqCst);
    bearer(&adc).await.unwrap();
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn somebody_whom_another_service_vouches_for() {
    let server = Server::start(|asked: &ReceivedRequest| {
        if asked.head.starts_with("GET /subject") {
            (200, String::new(), json!({"value": "canary-subject"}).to_string())
        } else {
            token(asked)
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "canary-subject\n").unwrap();
    let sources = [
        json!({"file": path}),
        json!({"url": format!("{}/subject", server.base), "headers": {"x-secret": "canary-header"},
            "format": {"type": "json", "subject_token_field_name": "value"}}),
    ];
    for source in sources {
        let (adc, _) = adc(&json!({
            "type": "external_account", "audience": "//iam.googleapis.com/pool", "credential_source": source,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": format!("{}/sts", server.base),
        }));
        assert!(bearer(&adc).await.unwrap().starts_with("Bearer ya29.canary-"));
        let asked = server.last();
        assert!(asked.head.starts_with("POST /sts "));
        let names = ["grant_type", "audience", "scope", "subject_token", "subject_token_type"];
        assert_eq!(
            names.map(|name| asked.field(name).unwrap()),
            [
                "urn:ietf:params:oauth:grant-type:token-exchange",
                "//iam.googleapis.com/pool",
                SCOPE,
                "canary-subject",
                "urn:ietf:params:oauth:token-type:jwt",
            ]
        );
        assert_eq!(adc.redact("canary-subject".into()), "****");
    }
}

fn write(dir: &Path, name: &str, json: &Value) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, json.to_string()).unwrap();
    path
}

#[test]
fn credentials_are_looked_for_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let key = write(dir.path(), "key.json", &service_account("http://127.0.0.1:1"));
    write(dir.path(), "application_default_credentials.json", &authorized_user("http://127.0.0.1:1"));
    let gcloud_dir = Some(dir.path().to_owned());
    let both = Environment {
        credentials_file: Some(key),
        gcloud_dir,
        metadata_host: Some("127.0.0.1:1".into()),
        ..Environment::default()
    };
    let found = find(&both).unwrap();
    assert!(matches!(found.source, Source::ServiceAccount(_)));
    assert_eq!((found.project.as_deref(), found.quota_project.as_deref()), (Some("acme"), None));

    let person = find(&Environment { credentials_file: None, ..both.clone() }).unwrap();
    assert!(matches!(person.source, Source::AuthorizedUser { .. }));
    assert_eq!((person.project.as_deref(), person.quota_project.as_deref()), (Some("payer"), Some("payer")));
    let other = Environment { credentials_file: None, quota_project: Some("q".into()), ..both.clone() };
    assert_eq!(find(&other).unwrap().quota_project.as_deref(), Some("q"));

    let empty = Some(dir.path().join("nothing"));
    let machine = find(&Environment { credentials_file: None, gcloud_dir: empty.clone(), ..both.clone() }).unwrap();
    assert!(matches!((&machine.source, machine.explicit), (Source::Metadata(_), Explicit::Yes)));
    let last = find(&Environment { gcloud_dir: empty.clone(), ..Environment::default() }).unwrap();
    assert!(matches!((&last.source, last.explicit), (Source::Metadata(_), Explicit::No)));

    let missing = find(&Environment { credentials_file: empty, ..both }).unwrap_err();
    assert!(missing.contains("GOOGLE_APPLICATION_CREDENTIALS") && missing.contains("nothing"), "{missing}");
}

#[test]
fn a_file_that_cannot_be_used_is_named_by_its_fault_and_shows_nothing() {
    let without = |field: &str| {
        let mut file = service_account("https://oauth2.googleapis.com");
        file.as_object_mut().unwrap().remove(field);
        file.to_string()
    };
    let with = |field: &str, value: Value| {
        let mut file = service_account("https://oauth2.googleapis.com");
        file[field] = value;
        file.to_string()
    };
    let external = |source: Value| {
        json!({"type": "external_account", "credential_source": source, "audience": "a", "token_url": "https://x/"})
            .to_string()
    };
    for (text, expected) in [
        ("canary {".to_owned(), "no credentials file (line 1"),
        (with("client_email", json!({"canary": 1})), "no credentials file"),
        ("{}".to_owned(), "no `type`"),
        (without("private_key"), "`private_key`"),
        (without("client_email"), "`client_email`"),
        (with("private_key", json!("-----BEGIN PRIVATE KEY-----\ncanary\n")), "no RSA key"),
        (with("token_uri", json!("http://tokens.example/")), "not an https address"),
        (with("token_uri", json!("nowhere")), "no address"),
        (with("type", json!("gdch_service_account")), "`gdch_service_account`"),
        (external(json!({"environment_id": "aws1"})), "`file` or a `url`"),
        (external(json!({"file": "x"})), "`subject_token_type`"),
    ] {
        let error = file::read(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}
