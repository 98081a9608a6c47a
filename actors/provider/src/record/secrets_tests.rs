use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::*;

fn request(url: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    HttpRequest { method: Method::POST, url: Url::parse(url).unwrap(), headers, body: Bytes::new() }
}

fn secrets(headers: &[(&'static str, &str)]) -> Secrets {
    Secrets::of(&request("https://h/v1", headers))
}

#[test]
fn a_marked_header_is_secret_with_and_without_its_scheme_and_others_are_not() {
    let mut asked = request("https://h/v1", &[("x-own", "Token own-secret-1"), ("x-plain", "not-secret-at-all")]);
    asked.headers.get_mut("x-own").unwrap().set_sensitive(true);
    let secrets = Secrets::of(&asked);
    assert_eq!(secrets.clean_text("a Token own-secret-1 b own-secret-1"), "a **** b ****");
    assert_eq!(secrets.clean_text("not-secret-at-all"), "not-secret-at-all");
}

#[test]
fn a_header_that_always_holds_a_key_needs_no_mark() {
    for name in HEADERS {
        let asked = request("https://h/v1", &[(name, "Bearer sk-canary-1")]);
        assert_eq!(Secrets::of(&asked).clean_text("is sk-canary-1."), "is ****.", "{name}");
    }
}

#[test]
fn a_secret_is_found_in_every_spelling() {
    let key = r#"k/"=&'<x>-1\é"#.replace('é', "y");
    let secrets = secrets(&[("x-api-key", &key)]);
    let json = json!({ "echo": key }).to_string();
    let nested = json!({ "arguments": json }).to_string();
    let slashed = json.replace('/', "\\/");
    let html = json.replace('=', "\\u003d").replace('&', "\\u0026").replace('\'', "\\u0027");
    let html = html.replace('<', "\\u003c").replace('>', "\\u003e");
    for text in [json, slashed, html] {
        assert_eq!(secrets.clean_text(&text), r#"{"echo":"****"}"#);
    }
    assert_eq!(secrets.clean_text("?k=k%2F%22%3D%26%27%3Cx%3E-1%5Cy&a=1"), "?k=****&a=1");
    let value: Value = serde_json::from_str(&nested).unwrap();
    assert_eq!(secrets.clean_json(value), json!({ "arguments": r#"{"echo":"****"}"# }));
}

#[test]
fn json_is_cleaned_in_names_and_values_however_they_are_escaped() {
    let secrets = secrets(&[("x-api-key", "sk-canary-1")]);
    let body = r#"{"\u0073k-canary-1": ["x sk-canary-1", {"deep": "sk\u002dcanary-1"}], "n": 1}"#;
    let clean = secrets.clean_json(serde_json::from_str(body).unwrap());
    assert_eq!(clean, json!({ "****": ["x ****", { "deep": "****" }], "n": 1 }));
}

#[test]
fn a_stand_in_for_a_key_is_left_alone() {
    let secrets = secrets(&[("authorization", "Bearer none")]);
    assert_eq!(secrets.clean_text(r#"{"tool_choice":"none"}"#), r#"{"tool_choice":"none"}"#);
}

#[test]
fn the_parts_of_an_aws_signature_are_secrets() {
    let signature = "AWS4-HMAC-SHA256 Credential=AKIACANARY00/20260102/us-east-1/bedrock/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature=0123456789abcdef";
    let secrets = secrets(&[("authorization", signature), ("x-amz-security-token", "session-token")]);
    let echo = "AKIACANARY00/20260102 did not sign 0123456789abcdef with session-token in us-east-1";
    assert_eq!(secrets.clean_text(echo), "****/20260102 did not sign **** with **** in us-east-1");
}

#[test]
fn secret_parameters_leave_the_path_and_what_they_held() {
    let url = "https://h:1/v1/m%2Fx:stream?alt=sse&key=canary%2B12&X-Amz-Signature=0123456789&x-amz-date=2026\
               &Api_Key=a&token=b&signature=c&%6Bey=d&api-version=1&flag";
    let asked = request(url, &[]);
    let secrets = Secrets::of(&asked);
    assert_eq!(secrets.clean_path(&asked.url), "/v1/m%2Fx:stream?alt=sse&api-version=1&flag");
    assert_eq!(secrets.clean_text("bad key canary+12, canary%2B12, 0123456789"), "bad key ****, ****, ****");
    let only = request("https://h/v1?key=canary-12", &[]);
    assert_eq!(Secrets::of(&only).clean_path(&only.url), "/v1");
}

#[test]
fn a_secret_in_a_path_is_taken_out() {
    let asked = request("https://h/u/sk-canary-1/x", &[("x-api-key", "sk-canary-1")]);
    assert_eq!(Secrets::of(&asked).clean_path(&asked.url), "/u/****/x");
}

#[test]
fn the_start_of_a_secret_at_a_cut_is_taken_out() {
    let secrets = secrets(&[("authorization", "Bearer sk-canary-0123")]);
    assert_eq!(secrets.clean_cut(b"your key sk-canary-01".to_vec()), b"your key ****");
    assert_eq!(secrets.clean_cut(b"your sk-canary-0123 is Bearer sk-can".to_vec()), b"your **** is ****");
    assert_eq!(secrets.clean_cut(b"to ask".to_vec()), b"to ask");
    assert_eq!(secrets.clean(b"your key sk-canary-01".to_vec()), b"your key sk-canary-01");
}

#[test]
fn what_is_no_text_is_cleaned_too() {
    let secrets = secrets(&[("x-api-key", "sk-canary-1")]);
    assert_eq!(secrets.clean(b"\xff\x00sk-canary-1\xfesk-canary-1".to_vec()), b"\xff\x00****\xfe****");
}

#[test]
fn f52_a_stream_that_repeats_a_secret_is_kept_without_it_however_it_is_written() {
    let secrets = secrets(&[("authorization", "Bearer sk/canary+1=&x")]);
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "user:sk/canary+1=&x, and so on");
    for said in [
        "sk\\/canary+1=\\u0026x".to_owned(),
        "sk%2fcanary%2b1%3d%26x".to_owned(),
        "sk%2Fcanary%2B1%3D%26x".to_owned(),
        "sk/canary+1=&amp;x".to_owned(),
        "sk&#x2F;canary&#43;1&#61;&#38;x".to_owned(),
        format!("{}\\n{}", &encoded[..20], &encoded[20..]),
        format!("{}\r\n{}", &encoded[..20], &encoded[20..]),
    ] {
        let frame = format!("data: {{\"delta\":\"{said}\"}}\n\n");
        let kept = String::from_utf8(secrets.clean(frame.into_bytes())).unwrap();
        assert!(kept.contains("****") && !kept.contains("canary"), "{said}: {kept}");
    }
}

/// What the documentation says of recordings: a frame is looked at as it came, and what frames make together is not.
#[test]
fn f52_a_secret_within_a_frame_is_found_and_halves_in_two_frames_are_not() {
    let secrets = secrets(&[("authorization", "Bearer sk-canary-0123")]);
    let frame = |said: &str| format!("data: {{\"delta\":\"{said}\"}}\n\n");
    let clean = |text: String| String::from_utf8(secrets.clean(text.into_bytes())).unwrap();
    let whole = frame("it is ") + &frame("sk-canary-0123") + &frame(".");
    assert_eq!(clean(whole), frame("it is ") + &frame("****") + &frame("."));
    let halves = frame("it is sk-can") + &frame("ary-0123.");
    assert_eq!(clean(halves.clone()), halves);
}
