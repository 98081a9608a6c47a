use bytes::Bytes;
use reqwest::{Method, Url};
use serde_json::json;

use super::*;

fn asked(url: &str, body: &[u8]) -> HttpRequest {
    let body = Bytes::copy_from_slice(body);
    HttpRequest { body, ..HttpRequest::post_json(Url::parse(url).unwrap(), Vec::new()) }
}

fn with_key(mut request: HttpRequest, key: &'static str) -> HttpRequest {
    request.headers.insert("x-api-key", HeaderValue::from_static(key));
    request
}

fn request(request: &HttpRequest) -> Request {
    Request::of(request, &Secrets::of(request))
}

fn key(url: &str, body: &str) -> Key {
    request(&asked(url, body.as_bytes())).key()
}

#[test]
fn a_key_depends_on_method_path_and_body_and_on_nothing_else() {
    let one = key("https://a.example/v1/x?alt=sse", r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#);
    assert_eq!(one, key("http://b.example:8/v1/x?alt=sse", r#"{"b":{"d":null,"c":[1,2]},"a":1}"#));
    assert_eq!(one, key("https://a.example/v1/x?alt=sse&key=canary-12", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#));
    assert_ne!(one, key("https://a.example/v1/y?alt=sse", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#));
    assert_ne!(one, key("https://a.example/v1/x", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#));
    assert_ne!(one, key("https://a.example/v1/x?alt=sse", r#"{"a":1,"b":{"c":[2,1],"d":null}}"#));
    let mut got = asked("https://a.example/v1/x?alt=sse", br#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
    assert_eq!(one, request(&got).key());
    got.method = Method::GET;
    assert_ne!(one, request(&got).key());
    assert_ne!(key("https://h/", "x"), key("https://h/", "y"));
    assert_ne!(key("https://h/", r#"{"a":"1"}"#), key("https://h/", r#"{"a":1}"#));
    assert!(one.0.starts_with(one.start()) && one.start().len() == 16);
}

#[test]
fn a_key_is_the_same_today_and_tomorrow() {
    // A change of this is a change of the version.
    let key = key("https://h/v1/chat/completions", r#"{"model":"m","messages":[{"role":"user","content":"hé"}]}"#);
    assert_eq!(key.to_string(), "e67bfabfaa60e89a77e9520edf3e728c6c4f043c10c8beb2cbe5563c8a6a432c");
}

#[test]
fn the_secret_of_a_request_is_not_in_its_key() {
    let body = |key: &str| format!(r#"{{"prompt":"my key is {key}"}}"#).into_bytes();
    let one = with_key(asked("https://h/v1", &body("sk-canary-1")), "sk-canary-1");
    let two = with_key(asked("https://h/v1", &body("sk-canary-2")), "sk-canary-2");
    assert_eq!(request(&one), request(&two));
}

fn written(asked: &HttpRequest, outcome: Outcome) -> (Value, (Key, Outcome)) {
    let secrets = Secrets::of(asked);
    let request = Request::of(asked, &secrets);
    let file = to_file(&request.key(), request, outcome, &secrets).unwrap();
    (serde_json::from_slice(&file).unwrap(), from_file(&file).unwrap())
}

fn head(status: u16, headers: &[(&str, &str)]) -> Head {
    let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    Head { status, headers }
}

#[test]
fn a_file_holds_what_was_asked_and_answered() {
    let asked = with_key(asked("https://h/v1/x?key=canary-12", br#"{"b":1,"a":"sk-canary-1"}"#), "sk-canary-1");
    let answered =
        Outcome::Answered { head: head(200, &[("content-type", "text/plain")]), body: b"h\xc3\xa9".to_vec() };
    let (file, (key, outcome)) = written(&asked, answered);
    assert_eq!(
        file,
        json!({
            "version": 1, "key": key.to_string(), "method": "POST", "path": "/v1/x",
            "request": { "a": "****", "b": 1 },
            "status": 200, "headers": { "content-type": "text/plain" }, "body": "hé",
        })
    );
    assert_eq!(key, request(&asked).key());
    let head = head(200, &[("content-type", "text/plain")]);
    assert_eq!(outcome, Outcome::Answered { head, body: "hé".into() });
}

#[test]
fn what_is_no_text_is_encoded() {
    let answered = || Outcome::Answered { head: head(200, &[]), body: b"\xff\x00".to_vec() };
    let (file, (_, outcome)) = written(&asked("https://h/v1", b"\xfe"), answered());
    assert_eq!((&file["request_base64"], &file["body_base64"]), (&json!("/g=="), &json!("/wA=")));
    assert_eq!(outcome, answered());
    let (file, _) = written(&asked("https://h/v1", b""), answered());
    assert_eq!((file.get("request"), file.get("request_base64")), (None, None));
}

#[test]
fn every_end_comes_back_as_it_was() {
    let ends = || {
        [
            Outcome::Cut { head: Some(head(200, &[("request-id", "r1")])), body: b"da".to_vec(), note: "reset".into() },
            Outcome::Cut { head: None, body: Vec::new(), note: "given up".into() },
            Outcome::Failed { message: "refused".into() },
            Outcome::Answered { head: head(204, &[]), body: Vec::new() },
        ]
    };
    for (end, expected) in ends().into_iter().zip(ends()) {
        let (file, (_, outcome)) = written(&asked("https://h/v1", b"{}"), end);
        assert_eq!(outcome, expected, "{file}");
    }
}

#[test]
fn only_harmless_headers_are_kept() {
    let sent = head(
        200,
        &[
            ("content-type", "text/event-stream"),
            ("retry-after", "7"),
            ("x-request-id", "r"),
            ("x-amzn-errortype", "ThrottlingException"),
            ("x-ratelimit-remaining-tokens", "1"),
            ("set-cookie", "session=canary"),
            ("authorization", "canary"),
            ("www-authenticate", "canary"),
            ("server", "s"),
        ],
    );
    let kept = Head::of(200, &sent.headers);
    let mut names: Vec<_> = kept.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["content-type", "retry-after", "x-amzn-errortype", "x-ratelimit-remaining-tokens", "x-request-id"]
    );
}

#[test]
fn a_file_that_is_wrong_says_how() {
    let asked = asked("https://h/v1", b"{}");
    let (right, _) = written(&asked, Outcome::Answered { head: head(200, &[]), body: b"x".to_vec() });
    let flaw = |change: &dyn Fn(&mut Value)| {
        let mut file = right.clone();
        change(&mut file);
        match from_file(file.to_string().as_bytes()) {
            Err(Flaw::Malformed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(flaw(&|file| file["key"] = json!("../../x")).contains("64 hex"));
    assert!(flaw(&|file| file["status"] = json!(7)).contains("status"));
    assert!(flaw(&|file| file["status"] = Value::Null).contains("neither `status` nor `failed`"));
    assert!(flaw(&|file| file["failed"] = json!("x")).contains("`failed` and an answer"));
    assert!(flaw(&|file| file["body_base64"] = json!("eA==")).contains("both"));
    assert!(flaw(&|file| file["headers"] = json!({ "a b": "" })).contains("`a b`"));
    assert!(flaw(&|file| file["surprise"] = json!(1)).contains("surprise"));
    assert!(flaw(&|file| file["version"] = json!("one")).contains("\"one\""));
    assert!(
        flaw(&|file| {
            file["body"] = Value::Null;
            file["body_base64"] = json!("!");
        })
        .contains("body_base64")
    );
    assert!(matches!(from_file(b"{\"version\":1"), Err(Flaw::Malformed(_))));
    assert_eq!(from_file(br#"{"version":2,"other":"fields"}"#), Err(Flaw::Version(2)));
}
