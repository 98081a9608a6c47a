use std::collections::BTreeSet;

use bytes::Bytes;
use reqwest::Url;
use serde_json::Value;

use super::*;

/// Answers every request with the same pieces.
struct Pieces(Vec<Result<Bytes, TransportError>>);

#[async_trait]
impl Transport for Pieces {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
        let body = Box::pin(stream::iter(self.0.clone()));
        Ok(HttpResponse { status: 200, headers: Default::default(), body })
    }
}

fn request(body: &'static str) -> HttpRequest {
    HttpRequest::post_json(Url::parse("http://h/v1").unwrap(), body)
}

fn key() -> Key {
    let request = request("{}");
    Request::of(&request, &Secrets::of(&request)).key()
}

fn only_file(folder: &Path) -> Value {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap()
}

#[test]
fn a_number_is_reserved_once_by_however_many() {
    let folder = tempfile::tempdir().unwrap();
    let taken = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let place = ReservedFile::reserve(folder.path(), &key()).unwrap();
                    assert!(!place.file.exists());
                    place.fill(b"x").unwrap();
                    assert!(taken.lock().unwrap().insert(place.file), "two had the same number");
                }
            });
        }
    });
    let expected = (0..200).map(|number| folder.path().join(format!("{}-{number}.json", key().start())));
    assert_eq!(taken.into_inner().unwrap(), expected.collect());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 200, "something else was left");
}

#[test]
fn what_a_killed_process_left_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let killed = ReservedFile::reserve(folder.path(), &key()).unwrap();
    assert!(killed.part.exists() && !killed.file.exists());
    let next = ReservedFile::reserve(folder.path(), &key()).unwrap();
    assert!(next.file.to_str().unwrap().ends_with("-1.json"), "{:?}", next.file);
}

#[tokio::test]
async fn the_file_is_there_when_the_body_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path()).unwrap();
    let pieces = vec![Ok(Bytes::from_static(b"\xff")), Ok(Bytes::from_static(b"\x00"))];
    let transport = Recording { inner: Box::new(Pieces(pieces)), deck: recorder.0.clone() };
    let mut response = transport.send(request("{}")).await.unwrap();
    while response.body.next().await.is_some() {}
    assert_eq!(only_file(folder.path())["body_base64"], "/wA=");
    assert!(response.body.next().await.is_none(), "a body that has ended stays so");
    recorder.settle().await.unwrap();
}

#[tokio::test]
async fn the_file_is_there_when_the_body_has_broken() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path()).unwrap();
    let pieces = vec![Ok(Bytes::from_static(b"so far")), Err(TransportError::broken("reset"))];
    let transport = Recording { inner: Box::new(Pieces(pieces)), deck: recorder.0.clone() };
    let mut response = transport.send(request("{}")).await.unwrap();
    assert!(response.body.next().await.unwrap().is_ok());
    assert_eq!(response.body.next().await.unwrap(), Err(TransportError::broken("reset")));
    let file = only_file(folder.path());
    assert_eq!((&file["cut"], &file["note"], &file["body"]), (&true.into(), &"reset".into(), &"so far".into()));
    assert!(response.body.next().await.is_none());
}

#[test]
fn a_runtime_that_shuts_down_loses_no_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path()).unwrap();
    let transport = Recording { inner: Box::new(Pieces(vec![Ok(Bytes::from_static(b"x"))])), deck: recorder.0.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut held = runtime.block_on(transport.send(request(r#"{"held":1}"#))).unwrap();
    assert!(runtime.block_on(held.body.next()).unwrap().is_ok());
    drop(runtime);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(held);
    let file = only_file(folder.path());
    assert_eq!((&file["cut"], &file["body"]), (&true.into(), &"x".into()));
}

#[tokio::test]
async fn a_request_that_cannot_be_recorded_is_not_sent() {
    struct Never;
    #[async_trait]
    impl Transport for Never {
        async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
            panic!("it was sent");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path().join("deep/er")).unwrap();
    fs::remove_dir(folder.path().join("deep/er")).unwrap();
    let transport = Recording { inner: Box::new(Never), deck: recorder.0.clone() };
    let error = transport.send(request("{}")).await.unwrap_err();
    assert_eq!(error.kind, TransportErrorKind::Final);
    assert!(error.message.contains("not sent") && error.message.contains("deep/er"), "{error}");
    recorder.settle().await.unwrap();
}

#[tokio::test]
async fn an_exchange_that_cannot_be_written_is_passed_on_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(folder.path().join("gone")).unwrap();
    let transport = Recording { inner: Box::new(Pieces(vec![Ok(Bytes::from_static(b"x"))])), deck: recorder.0.clone() };
    let mut response = transport.send(request("{}")).await.unwrap();
    fs::remove_dir_all(folder.path().join("gone")).unwrap();
    assert_eq!(response.body.next().await.unwrap().unwrap(), "x");
    assert!(response.body.next().await.is_none());
    let lost = recorder.settle().await.unwrap_err();
    assert!(matches!(&lost, RecordError::Write { path, .. } if path.starts_with(folder.path().join("gone"))), "{lost}");
    recorder.settle().await.expect("it is told once");
}

#[test]
fn a_folder_that_cannot_be_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = Recorder::new(file.path()).unwrap_err();
    assert!(matches!(&refused, RecordError::Folder { path, .. } if path == file.path()), "{refused}");
}
