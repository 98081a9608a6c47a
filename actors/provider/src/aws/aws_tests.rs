use std::path::Path;
use std::sync::atomic::AtomicI64;

use super::test_server::{Server, is_signed, reply};
use super::*;

const NOW: i64 = 1_790_000_000;
const LATER: &str = "2026-09-21T15:13:20Z";

/// A home without anything, on a machine that is not in the cloud.
struct Desk {
    home: tempfile::TempDir,
    variables: Vec<(String, String)>,
    now: Arc<AtomicI64>,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { home: tempfile::tempdir().unwrap(), variables: vec![], now: Arc::new(AtomicI64::new(NOW)) };
        let home = desk.home.path().display().to_string();
        desk.with("HOME", &home).with("AWS_EC2_METADATA_DISABLED", "true")
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn path(&self, name: &str) -> String {
        Path::new(self.home.path()).join(name).display().to_string()
    }

    fn credentials(&self) -> AwsCredentials {
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let scope = Scope { region: "eu-west-1".to_owned(), service: "bedrock" };
        AwsCredentials::new(Environment::of(&variables), scope, Clock::at(self.now.clone()))
    }

    async fn keys(&self) -> Result<Keys, ProviderError> {
        self.credentials().keys().await
    }

    async fn refused(&self) -> String {
        self.keys().await.unwrap_err().to_string()
    }
}

fn keys(id: &str, secret: &str, token: Option<&str>, expires: Option<&str>) -> Keys {
    Keys {
        access_key_id: id.to_owned(),
        secret: Secret::new(secret),
        session_token: token.map(Secret::new),
        expires: expires.map(|expires| expires.parse().unwrap()),
    }
}

fn issued(id: &str) -> String {
    format!(r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t","Expiration":"{LATER}"}}"#)
}

const PROFILES: &str = "[profile dev]\naws_access_key_id = AKIADEV\naws_secret_access_key = dev\n";

#[tokio::test]
async fn variables_come_first_and_are_fixed() {
    let desk = Desk::new().file(".aws/config", PROFILES).with("AWS_PROFILE", "dev");
    assert_eq!(desk.keys().await.unwrap(), keys("AKIADEV", "dev", None, None));
    let desk = desk.with("AWS_ACCESS_KEY_ID", "AKIAENV").with("AWS_SECRET_ACCESS_KEY", "env");
    assert_eq!(desk.keys().await.unwrap(), keys("AKIAENV", "env", None, None));
    let desk = desk.with("AWS_SESSION_TOKEN", "tok");
    assert_eq!(desk.keys().await.unwrap(), keys("AKIAENV", "env", Some("tok"), None));
    assert!(!desk.credentials().refresh().await.unwrap());
    let half = Desk::new().with("AWS_ACCESS_KEY_ID", "AKIAENV");
    assert!(half.refused().await.contains("set both"));
}

#[tokio::test]
async fn files_are_read_and_what_is_wrong_in_them_is_said() {
    let own = Desk::new()
        .file("conf", "[default]\nregion = us-west-2\n")
        .file("cred", "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s1\naws_session_token = t1\n");
    let (conf, cred) = (own.path("conf"), own.path("cred"));
    let own = own.with("AWS_CONFIG_FILE", &conf).with("AWS_SHARED_CREDENTIALS_FILE", &cred);
    assert_eq!(own.keys().await.unwrap(), keys("AKIA1", "s1", Some("t1"), None));
    let variables = [("AWS_CONFIG_FILE", conf.as_str())];
    assert_eq!(Environment::of(&variables).profile_region(), Ok(Some("us-west-2".to_owned())));

    // Named and not there: nobody else's credentials are used.
    let missing = Desk::new().file(".aws/config", PROFILES).with("AWS_PROFILE", "prod");
    assert!(missing.refused().await.contains("no AWS profile `prod`"));
    let torn = Desk::new().file(".aws/credentials", "[default]\naws_secret_access_key s3cr3t\n");
    let refused = torn.refused().await;
    assert!(refused.contains("credentials, line 2") && !refused.contains("s3cr3t"), "{refused}");
    let half = Desk::new().file(".aws/credentials", "[default]\naws_access_key_id = A\n");
    assert!(half.refused().await.contains("needs both"));
    let nothing = Desk::new().refused().await;
    assert!(nothing.contains("AWS_ACCESS_KEY_ID") && nothing.contains("AWS_BEARER_TOKEN_BEDROCK"), "{nothing}");
    let ring = "[profile a]\nrole_arn = r\nsource_profile = b\n[profile b]\nrole_arn = r\nsource_profile = a\n";
    let ring = Desk::new().file(".aws/config", ring).with("AWS_PROFILE", "a");
    assert!(ring.refused().await.contains("from itself"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_profile_can_name_a_program() {
    let config = r#"[default]
credential_process = sh -c 'echo "{\"Version\":1,\"AccessKeyId\":\"AKIAPROC\",\"SecretAccessKey\":\"p\"}"'
"#;
    let desk = Desk::new().file(".aws/config", config);
    assert_eq!(desk.keys().await.unwrap(), keys("AKIAPROC", "p", None, None));
}

#[tokio::test]
async fn ec2_is_asked_for_a_token_first() {
    let server = Server::start(|request| {
        let token = request.header("x-aws-ec2-metadata-token");
        let roles = "/latest/meta-data/iam/security-credentials/";
        match (request.method.as_str(), request.target.as_str(), token) {
            ("PUT", "/latest/api/token", None) => {
                assert_eq!(request.header("x-aws-ec2-metadata-token-ttl-seconds"), Some("21600"));
                reply("200 OK", "", "TOKEN==")
            }
            ("GET", path, Some("TOKEN==")) if path == roles => reply("200 OK", "", "my-role\n"),
            ("GET", path, Some("TOKEN==")) if path == format!("{roles}my-role") => {
                reply("200 OK", "", issued("ASIAEC2"))
            }
            _ => reply("401 Unauthorized", "", ""),
        }
    })
    .await;
    let desk =
        Desk::new().with("AWS_EC2_METADATA_DISABLED", "false").with("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.url);
    assert_eq!(desk.keys().await.unwrap(), keys("ASIAEC2", "s", Some("t"), Some(LATER)));
    assert_eq!(server.seen().len(), 3);
    let off = desk.with("AWS_EC2_METADATA_DISABLED", "TRUE");
    assert!(off.refused().await.contains("no AWS credentials were found"));
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_container_is_asked_with_its_token() {
    let server = Server::start(|request| match (request.target.as_str(), request.header("authorization")) {
        ("/creds", Some("Basic abc" | "from-file")) => reply("200 OK", "", issued("ASIACONT")),
        ("/broken", _) => reply("200 OK", "", "{\"SecretAccessKey\":\"s3cr3t\"}"),
        ("/busy", _) => reply("503 Service Unavailable", "", "s3cr3t"),
        _ => reply("403 Forbidden", "", "s3cr3t"),
    })
    .await;
    let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let desk =
        Desk::new().with(full, &format!("{}/creds", server.url)).with("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc");
    assert_eq!(desk.keys().await.unwrap(), keys("ASIACONT", "s", Some("t"), Some(LATER)));
    let desk = desk.file("token", "from-file\n");
    let file = desk.path("token");
    let desk = desk.with("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &file);
    assert!(desk.keys().await.is_ok());
    for (path, retryable) in [("broken", false), ("busy", true), ("else", false)] {
        let error = Desk::new().with(full, &format!("{}/{path}", server.url)).keys().await.unwrap_err();
        assert_eq!(error.is_retryable(), retryable, "{error}");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
    let refused = Desk::new().with(full, "http://example.com/creds").refused().await;
    assert!(refused.contains("must be https"), "{refused}");
}

fn sts_answer(action: &str, id: &str) -> String {
    format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><AssumedRoleUser>\
         <Arn>arn:aws:sts::1:assumed-role/r/s</Arn></AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId>\
         <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{LATER}</Expiration>\
         </Credentials></{action}Result></{action}Response>"
    )
}

#[tokio::test]
async fn a_token_of_an_identity_provider_is_changed_for_a_role() {
    let server = Server::start(|request| {
        assert_eq!(request.header("authorization"), None, "it is not signed");
        if request.text().contains("WebIdentityToken=ey%2Etoken") {
            return reply("200 OK", "", sts_answer("AssumeRoleWithWebIdentity", "ASIAWEB"));
        }
        reply("400 Bad Request", "", "<ErrorResponse><Error><Message>no good</Message></Error></ErrorResponse>")
    })
    .await;
    let arn = "arn:aws:iam::123456789012:role/r";
    let desk = Desk::new().file("token", "ey.token\n");
    let file = desk.path("token");
    let desk = desk
        .with("AWS_WEB_IDENTITY_TOKEN_FILE", &file)
        .with("AWS_ROLE_ARN", arn)
        .with("AWS_ENDPOINT_URL_STS", &server.url);
    assert_eq!(desk.keys().await.unwrap(), keys("ASIAWEB", "s", Some("t"), Some(LATER)));
    assert_eq!(
        server.seen()[0].text(),
        "Action=AssumeRoleWithWebIdentity&Version=2011%2D06%2D15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fr&\
         RoleSessionName=playhouse&WebIdentityToken=ey%2Etoken"
    );
    // The file is read anew.
    let desk = desk.file("token", "old");
    let refused = desk.refused().await;
    assert!(refused.contains(arn) && refused.contains("no good"), "{refused}");
}

#[tokio::test]
async fn a_profile_takes_on_a_role_with_anothers_keys() {
    let server = Server::start(|_| reply("200 OK", "", sts_answer("AssumeRole", "ASIAROLE"))).await;
    let config = "[profile base]\naws_access_key_id = AKIABASE\naws_secret_access_key = base/secret\n\
        [profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\nrole_session_name = me\nexternal_id = x1\n\
        [profile env]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = Environment\n\
        [profile mfa]\nrole_arn = r\nsource_profile = base\nmfa_serial = m\n";
    let desk = |profile: &str| {
        Desk::new().file(".aws/config", config).with("AWS_PROFILE", profile).with("AWS_ENDPOINT_URL_STS", &server.url)
    };
    assert_eq!(desk("role").keys().await.unwrap(), keys("ASIAROLE", "s", Some("t"), Some(LATER)));
    let seen = &server.seen()[0];
    is_signed(seen, "AKIABASE", "base/secret", "eu-west-1/sts").unwrap();
    assert!(seen.text().contains("RoleSessionName=me&ExternalId=x1"), "{}", seen.text());
    assert!(desk("env").refused().await.contains("its source has no credentials"));
    assert!(desk("mfa").refused().await.contains("second factor"));
}

#[tokio::test]
async fn a_signed_in_session_gives_credentials_until_it_expires() {
    let server = Server::start(|request| {
        if request.header("x-amz-sso_bearer_token") != Some("sso-token") {
            return reply("401 Unauthorized", "", "");
        }
        assert_eq!(request.target, "/federation/credentials?role_name=Dev&account_id=123456789012");
        let body = r#"{"roleCredentials":{"accessKeyId":"ASIASSO","secretAccessKey":"s","sessionToken":"t","expiration":1790003600000}}"#;
        reply("200 OK", "", body)
    })
    .await;
    let config = "[profile corp]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Dev\n\
        [sso-session corp]\nsso_region = eu-central-1\nsso_start_url = https://corp.awsapps.com/start\n\
        [profile old]\nsso_start_url = https://corp.awsapps.com/start\nsso_region = eu-central-1\n\
        sso_account_id = 123456789012\nsso_role_name = Dev\n";
    // `printf corp | sha1sum`, `printf https://corp.awsapps.com/start | sha1sum`.
    let (by_name, by_url) = (SHA1_NAME, SHA1_URL);
    let token = |token: &str, until: &str| format!(r#"{{"accessToken":"{token}","expiresAt":"{until}","region":"x"}}"#);
    let desk = |profile: &str, cached: &str| {
        let desk = Desk::new()
            .file(".aws/config", config)
            .with("AWS_PROFILE", profile)
            .with("AWS_ENDPOINT_URL_SSO", &server.url);
        desk.file(&format!(".aws/sso/cache/{by_name}.json"), cached)
            .file(&format!(".aws/sso/cache/{by_url}.json"), cached)
    };
    let good = token("sso-token", LATER);
    for profile in ["corp", "old"] {
        let expires = Timestamp::from_second(1_790_003_600).unwrap().to_string();
        assert_eq!(desk(profile, &good).keys().await.unwrap(), keys("ASIASSO", "s", Some("t"), Some(&expires)));
        for bad in [token("sso-token", "2026-01-01T00:00:00Z"), token("revoked", LATER), "{".to_owned()] {
            let refused = desk(profile, &bad).refused().await;
            assert!(refused.contains(&format!("aws sso login --profile {profile}")), "{refused}");
        }
    }
}

const SHA1_NAME: &str = "ee0bfd2552fbd840c02cc48b6e823320543c450f";
const SHA1_URL: &str = "a51746d4aa793ae07b25e90c3a5db96fc7832bd7";

#[tokio::test]
async fn credentials_are_kept_until_five_minutes_before_they_expire_and_fetched_once() {
    let count = Arc::new(AtomicI64::new(0));
    let (counter, healthy) = (count.clone(), Arc::new(AtomicI64::new(1)));
    let health = healthy.clone();
    let server = Server::start(move |_| {
        let number = counter.fetch_add(1, Ordering::SeqCst);
        if health.load(Ordering::SeqCst) == 0 {
            return reply("500 Oops", "", "");
        }
        let expires = Timestamp::from_second(NOW + 3_600 * (number + 1)).unwrap();
        reply("200 OK", "", format!(r#"{{"AccessKeyId":"A{number}","SecretAccessKey":"secret-{number}","Token":"token-{number}","Expiration":"{expires}"}}"#))
    })
    .await;
    let desk = Desk::new().with("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.url);
    let credentials = desk.credentials();
    let id = async || credentials.keys().await.map(|keys| keys.access_key_id);
    let all = futures::future::join_all((0..20).map(|_| id())).await;
    assert!(all.into_iter().all(|id| id.as_deref() == Ok("A0")));
    assert_eq!(count.load(Ordering::SeqCst), 1, "twenty who ask at once share one search");

    desk.now.store(NOW + 3_299, Ordering::SeqCst);
    assert_eq!(id().await.unwrap(), "A0");
    desk.now.store(NOW + 3_300, Ordering::SeqCst);
    assert_eq!(id().await.unwrap(), "A1");
    assert!(credentials.refresh().await.unwrap());
    assert_eq!(id().await.unwrap(), "A2");

    // The service is down: the old ones serve until they expire, and not longer.
    healthy.store(0, Ordering::SeqCst);
    desk.now.store(NOW + 3 * 3_600 - 60, Ordering::SeqCst);
    assert_eq!(id().await.unwrap(), "A2");
    desk.now.store(NOW + 3 * 3_600, Ordering::SeqCst);
    assert!(matches!(id().await, Err(ProviderError::Network { .. })));

    let text = credentials.redact("secret-0 token-0 secret-2 token-2 A2".to_owned());
    assert_eq!(text, "**** **** **** **** A2");
    assert!(!format!("{credentials:?} {:?}", keys("A", "canary", Some("canary"), None)).contains("canary"));

    // Those who ask at once share a search that finds nothing, too.
    let so_far = || count.load(Ordering::SeqCst);
    let before = so_far();
    assert!(id().await.is_err());
    let each = so_far() - before;
    let all = futures::future::join_all((0..20).map(|_| id())).await;
    assert!(all.into_iter().all(|id| id.is_err()));
    assert_eq!(so_far() - before, each * 2);
}
