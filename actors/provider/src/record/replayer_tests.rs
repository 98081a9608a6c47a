use futures::StreamExt;
use reqwest::Url;
use serde_json::json;

use super::*;
use crate::record::exchange::to_file;

fn request(body: &'static str) -> HttpRequest {
    HttpRequest::post_json(Url::parse("http://h/v1/x?key=canary-12").unwrap(), body)
}

/// Writes a recording under a number, and gives its path.
fn put(folder: &Path, body: &'static str, number: u64, outcome: Outcome) -> PathBuf {
    let request = request(body);
    let secrets = Secrets::of(&request);
    let request = Request::of(&request, &secrets);
    let key = request.key();
    let path = folder.join(format!("{}-{number}.json", key.start()));
    fs::write(&path, to_file(&key, request, outcome, &secrets).unwrap()).unwrap();
    path
}

fn said(text: &str) -> Outcome {
    let head = Head { status: 200, headers: Default::default() };
    Outcome::Answered { head, body: text.as_bytes().to_vec() }
}

async fn ask(transport: &Playing, body: &'static str) -> Result<Vec<u8>, TransportError> {
    let mut response = transport.send(request(body)).await?;
    let mut whole = Vec::new();
    while let Some(piece) = response.body.next().await {
        whole.extend_from_slice(&piece?);
    }
    Ok(whole)
}

#[tokio::test]
async fn the_nth_request_gets_the_nth_recording_by_number() {
    let folder = tempfile::tempdir().unwrap();
    for number in [10, 2, 0] {
        put(folder.path(), "{}", number, said(&number.to_string()));
    }
    put(folder.path(), "[]", 0, said("other"));
    let replayer = Replayer::open(folder.path()).unwrap();
    let (one, two) = (Playing(replayer.0.clone()), Playing(replayer.0.clone()));
    assert_eq!(ask(&one, "{}").await.unwrap(), b"0");
    assert_eq!(ask(&two, "{}").await.unwrap(), b"2");
    assert_eq!(ask(&one, "[]").await.unwrap(), b"other");
    assert_eq!(ask(&one, "{}").await.unwrap(), b"10");
    let over = ask(&one, "{}").await.unwrap_err();
    assert!(over.message.starts_with("all 3 recordings"), "{over}");
}

#[tokio::test]
async fn what_was_not_recorded_says_so_and_how_to_help() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "{}", 0, said(""));
    let transport = Playing(Replayer::open(folder.path()).unwrap().0);
    let asked = request("[1]");
    let key = Request::of(&asked, &Secrets::of(&asked)).key();
    let error = ask(&transport, "[1]").await.unwrap_err();
    let message = format!(
        "no recording in {} answers POST /v1/x (request {}): record it with --record",
        folder.path().display(),
        key.start()
    );
    assert_eq!(error, TransportError { message, kind: TransportErrorKind::Final });
    ask(&transport, "{}").await.unwrap();
    let over = ask(&transport, "{}").await.unwrap_err();
    assert!(over.message.starts_with("the one recording"), "{over}");
    assert_eq!(over.kind, TransportErrorKind::Final);
}

#[tokio::test]
async fn cut_and_failed_recordings_end_as_they_did() {
    let folder = tempfile::tempdir().unwrap();
    let head = Head { status: 200, headers: Default::default() };
    put(folder.path(), "{}", 0, Outcome::Cut { head: Some(head), body: b"so far".to_vec(), note: "reset".into() });
    put(folder.path(), "{}", 1, Outcome::Cut { head: None, body: Vec::new(), note: "given up".into() });
    put(folder.path(), "{}", 2, Outcome::Failed { message: "refused".into() });
    let transport = Playing(Replayer::open(folder.path()).unwrap().0);
    let mut cut = transport.send(request("{}")).await.unwrap();
    assert_eq!(cut.body.next().await.unwrap().unwrap(), "so far");
    assert_eq!(cut.body.next().await.unwrap().unwrap_err(), TransportError::broken("reset"));
    assert!(cut.body.next().await.is_none());
    assert_eq!(ask(&transport, "{}").await.unwrap_err(), TransportError::broken("given up"));
    assert_eq!(ask(&transport, "{}").await.unwrap_err(), TransportError::broken("refused"));
}

#[test]
fn a_folder_that_cannot_be_read_says_which_file_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nowhere");
    let refused = Replayer::open(&missing).unwrap_err();
    assert!(matches!(&refused, RecordError::NoFolder { path } if *path == missing), "{refused}");
    assert!(refused.to_string().contains("--record"));

    let path = put(folder.path(), "{}", 0, said("x"));
    Replayer::open(folder.path()).unwrap();
    let right = fs::read(&path).unwrap();

    fs::write(&path, &right[..right.len() / 2]).unwrap();
    let refused = Replayer::open(folder.path()).unwrap_err();
    assert!(matches!(&refused, RecordError::Malformed { path: at, .. } if *at == path), "{refused}");
    assert!(refused.to_string().contains(path.to_str().unwrap()));

    let mut other: serde_json::Value = serde_json::from_slice(&right).unwrap();
    other["version"] = json!(9);
    fs::write(&path, other.to_string()).unwrap();
    let refused = Replayer::open(folder.path()).unwrap_err();
    assert!(matches!(&refused, RecordError::Version { path: at, found: 9, known: 1 } if *at == path), "{refused}");

    fs::write(&path, &right).unwrap();
    for wrong in ["notes.json", "0123456789abcdef-0.json"] {
        let wrong = folder.path().join(wrong);
        fs::rename(&path, &wrong).unwrap();
        let refused = Replayer::open(folder.path()).unwrap_err();
        assert!(matches!(&refused, RecordError::Misnamed { path: at, .. } if *at == wrong), "{refused}");
        fs::rename(&wrong, &path).unwrap();
    }
}

#[tokio::test]
async fn other_files_are_left_alone_and_a_file_that_vanishes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "{}", 0, said("x"));
    fs::write(folder.path().join("README.md"), "notes").unwrap();
    fs::write(path.with_extension("json.part"), "").unwrap();
    let transport = Playing(Replayer::open(folder.path()).unwrap().0);
    fs::remove_file(&path).unwrap();
    let error = ask(&transport, "{}").await.unwrap_err();
    assert!(error.kind == TransportErrorKind::Final && error.message.contains(path.to_str().unwrap()), "{error}");
}
