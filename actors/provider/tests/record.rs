//! Recordings: what a real server on loopback said is kept, and said again when there is none.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playhouse_protocol::{AgentMessage, CallReport, Content, Message, ProviderError, StopReason, StreamConfig};
use playhouse_provider::{Deadlines, Recorder, Replayer, ServiceOptions, StreamProvider, StreamSink, Wiring, Wrap};
use playhouse_provider::{Limits, provider_for};
use serde_json::{Value, json};
use support::{Bench, EVENT_STREAM, PATIENCE, Server, config, model, quick, soon, wordless};
use tokio::sync::mpsc;

const TEXT: &[u8] = include_bytes!("fixtures/chat_text.sse");
const TOOLS: &[u8] = include_bytes!("fixtures/chat_tools.sse");
const KEY: &str = "sk-canary/42=";
/// A port where nobody listens: whoever asks there was not replayed.
const NOWHERE: &str = "http://127.0.0.1:9/v1";

fn provider(base_url: &str, key: &str, wrap: Wrap) -> Arc<dyn StreamProvider> {
    let deadlines = Deadlines { connect: PATIENCE, first_event: PATIENCE, idle: PATIENCE, total: None };
    let options = ServiceOptions { deadlines, limits: Limits::default() };
    provider_for(&model(base_url, Some(key)), &Wiring { options, wrap: Some(wrap), ..Wiring::default() }).unwrap()
}

fn turn(prompt: &str) -> StreamConfig {
    let messages = [AgentMessage::user(prompt, 0)].into_iter().collect();
    StreamConfig { messages, ..config(model(NOWHERE, None)) }
}

/// What came of a prompt, without the time it came at.
async fn ask(provider: &Arc<dyn StreamProvider>, prompt: &str) -> Result<Message, ProviderError> {
    let mut answer = soon(provider.stream(&turn(prompt), &StreamSink::discard())).await;
    if let Ok(Message::Assistant { timestamp, .. }) = &mut answer {
        *timestamp = 0;
    }
    answer
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn only_file(folder: &Path) -> Value {
    let files = files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap()
}

/// An answer of one word.
fn word(word: &str) -> Vec<u8> {
    let event = json!({ "choices": [{ "delta": { "content": word }, "finish_reason": "stop" }] });
    format!("data: {event}\n\ndata: [DONE]\n\n").into_bytes()
}

fn text(message: &Message) -> String {
    match message.content() {
        [Content::Text { text }] => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_recorded_comes_again_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|mut post| async move {
        match post.number {
            0 => post.stream(TEXT).await,
            1 => post.stream(TOOLS).await,
            2 => post.plain("429 Too Many Requests", "retry-after: 7\r\n", "slow down").await,
            3 => post.stream(TEXT).await,
            4 => {
                post.send(EVENT_STREAM).await;
                post.chunk(&TEXT[..TEXT.len() / 2]).await;
                None
            }
            5 => post.stream(&word("first")).await,
            6 => post.stream(&word("second")).await,
            _ => None,
        }
    })
    .await;
    let prompts = ["text", "tools", "limited", "limited", "cut", "same", "same", "no answer"];
    let recorder = Recorder::new(folder.path()).unwrap();
    let recorded = provider(&server.base_url, KEY, recorder.wrap());
    let mut said = Vec::new();
    for prompt in prompts {
        said.push(ask(&recorded, prompt).await);
    }
    soon(recorder.settle()).await.unwrap();
    assert_eq!((server.posts(), files(folder.path()).len()), (prompts.len(), prompts.len()));

    assert!(matches!(&said[1], Ok(Message::Assistant { stop_reason: StopReason::ToolUse, .. })), "{:?}", said[1]);
    assert_eq!(
        said[2].clone().map_err(wordless),
        Err(ProviderError::RateLimited { message: String::new(), retry_after_ms: Some(7_000) })
    );
    assert_eq!(said[0], said[3]);
    assert!(matches!(said[4], Err(ProviderError::Incomplete { .. })), "{:?}", said[4]);
    assert_eq!((&*text(said[5].as_ref().unwrap()), &*text(said[6].as_ref().unwrap())), ("first", "second"));
    assert!(matches!(said[7], Err(ProviderError::Network { .. })), "{:?}", said[7]);

    let replayer = Replayer::open(folder.path()).unwrap();
    let replayed = provider(NOWHERE, "sk-another-key", replayer.wrap());
    let mut again = Vec::new();
    for prompt in prompts {
        again.push(ask(&replayed, prompt).await);
    }
    assert_eq!(again, said);
    assert_eq!(server.posts(), prompts.len(), "a replay went to the network");
}

#[tokio::test]
async fn an_answer_is_on_disk_when_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|post| post.plain("400 Bad Request", "x-request-id: r1\r\n", "no such model")).await;
    let recorder = Recorder::new(folder.path()).unwrap();
    ask(&provider(&server.base_url, KEY, recorder.wrap()), "hi").await.unwrap_err();
    // Nothing is waited for here.
    let file = only_file(folder.path());
    let key = file["key"].as_str().unwrap();
    assert_eq!(
        file,
        json!({
            "version": 1, "key": key, "method": "POST", "path": "/v1/chat/completions",
            "request": {
                "model": "gpt-test", "stream": true, "stream_options": { "include_usage": true },
                "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" }],
            },
            "status": 400, "headers": { "x-request-id": "r1" }, "body": "no such model",
        })
    );
    assert_eq!(files(folder.path())[0], folder.path().join(format!("{}-0.json", &key[..16])));
}

#[tokio::test]
async fn a_request_that_was_not_recorded_is_refused_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|post| post.stream(TEXT)).await;
    let recorder = Recorder::new(folder.path()).unwrap();
    ask(&provider(&server.base_url, KEY, recorder.wrap()), "known").await.unwrap();
    soon(recorder.settle()).await.unwrap();

    let replayer = Replayer::open(folder.path()).unwrap();
    // The server is still there, and must not be asked.
    let replayed = provider(&server.base_url, KEY, replayer.wrap());
    let unknown = ask(&replayed, "unknown").await.unwrap_err();
    ask(&replayed, "known").await.unwrap();
    let used = ask(&replayed, "known").await.unwrap_err();
    for error in [unknown, used] {
        assert!(matches!(error, ProviderError::Other { .. }) && !error.is_retryable(), "{error:?}");
        let text = error.to_string();
        for part in [folder.path().to_str().unwrap(), "POST /v1/chat/completions", "(request ", "--record"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
    assert_eq!(server.posts(), 1);
}

#[tokio::test]
async fn f52_the_key_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|mut post| async move {
        match post.number {
            0 => {
                let echo = json!({ "error": format!("wrong key {KEY}") }).to_string().replace('/', "\\/");
                let headers = format!("set-cookie: k={KEY}\r\nx-request-id: for {KEY}\r\n");
                post.plain("401 Unauthorized", &headers, &echo).await
            }
            1 => post.stream(&word(&format!("your key is {KEY}, I think"))).await,
            _ => {
                // Cut off within the key.
                post.send(EVENT_STREAM).await;
                post.chunk(format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}", &KEY[..12]).as_bytes()).await;
                None
            }
        }
    })
    .await;
    let recorder = Recorder::new(folder.path()).unwrap();
    let recorded = provider(&server.base_url, KEY, recorder.wrap());
    let prompt = format!("is {KEY} my key?");
    let mut said = Vec::new();
    for _ in 0..3 {
        said.push(ask(&recorded, &prompt).await);
    }
    soon(recorder.settle()).await.unwrap();

    let files = files(folder.path());
    assert_eq!(files.len(), 3);
    for file in &files {
        let bytes = fs::read(file).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("canary") && !file.to_str().unwrap().contains("canary"), "{text}");
        assert!(text.contains("is **** my key?"), "{text}");
    }
    let replayed = provider(NOWHERE, KEY, Replayer::open(folder.path()).unwrap().wrap());
    let error = ask(&replayed, &prompt).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Auth { message } if message.contains("wrong key ****")), "{error:?}");
    assert_eq!(text(&ask(&replayed, &prompt).await.unwrap()), "your key is ****, I think");
    assert_eq!(ask(&replayed, &prompt).await, said.pop().unwrap());
    let shown = format!("{recorder:?} {:?}", Replayer::open(folder.path()).unwrap());
    assert!(!shown.contains("canary"));
}

#[cfg(unix)]
#[tokio::test]
async fn recordings_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("deep/recordings");
    let server = Server::start(|post| post.stream(TEXT)).await;
    let recorder = Recorder::new(&folder).unwrap();
    ask(&provider(&server.base_url, KEY, recorder.wrap()), "hi").await.unwrap();
    soon(recorder.settle()).await.unwrap();
    assert_eq!((mode(&folder), mode(&files(&folder)[0])), (0o700, 0o600));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_recorders_in_one_folder_keep_everything() {
    const EACH: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|post| async move {
        let number = post.number;
        post.stream(&word(&format!("answer {number}"))).await
    })
    .await;
    let recorders = [Recorder::new(folder.path()).unwrap(), Recorder::new(folder.path()).unwrap()];
    let mut asking = tokio::task::JoinSet::new();
    for recorder in &recorders {
        for _ in 0..EACH {
            let provider = provider(&server.base_url, KEY, recorder.wrap());
            asking.spawn(async move { text(&ask(&provider, "same").await.unwrap()) });
        }
    }
    let mut said = asking.join_all().await;
    for recorder in &recorders {
        soon(recorder.settle()).await.unwrap();
    }
    // A later one goes on counting.
    let later = Recorder::new(folder.path()).unwrap();
    said.push(text(&ask(&provider(&server.base_url, KEY, later.wrap()), "same").await.unwrap()));
    soon(later.settle()).await.unwrap();
    let last = files(folder.path()).iter().filter(|file| file.to_str().unwrap().ends_with("-20.json")).count();
    assert_eq!((files(folder.path()).len(), last), (2 * EACH + 1, 1));

    let replayed = provider(NOWHERE, KEY, Replayer::open(folder.path()).unwrap().wrap());
    let mut again = Vec::new();
    for _ in 0..=2 * EACH {
        again.push(text(&ask(&replayed, "same").await.unwrap()));
    }
    assert_eq!(again.last(), said.last());
    again.sort();
    said.sort();
    assert_eq!(again, said);
}

#[tokio::test]
async fn an_answer_that_is_let_go_of_is_kept_as_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (reached, mut reaches) = mpsc::channel(2);
    let server = Server::start(move |mut post| {
        let reached = reached.clone();
        async move {
            if post.number == 0 {
                post.send(EVENT_STREAM).await;
                post.chunk(&TEXT[..TEXT.len() / 2]).await;
            }
            reached.try_send(()).unwrap();
            post.closed().await;
            None
        }
    })
    .await;
    let recorder = Recorder::new(folder.path()).unwrap();
    let recorded = provider(&server.base_url, KEY, recorder.wrap());
    let mut bench = Bench::of(recorded).await;
    bench.start("within", turn("within the answer"), quick());
    soon(reaches.recv()).await.unwrap();
    assert!(matches!(bench.report().await, CallReport::Delta { .. }));
    bench.cancel("within");
    bench.start("before", turn("before the answer"), quick());
    soon(reaches.recv()).await.unwrap();
    bench.cancel("before");
    bench.silence().await;
    soon(recorder.settle()).await.unwrap();

    let pages: Vec<Value> =
        files(folder.path()).iter().map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect();
    assert_eq!(pages.len(), 2);
    let within = pages.iter().find(|page| page.get("status").is_some()).unwrap();
    let before = pages.iter().find(|page| page.get("status").is_none()).unwrap();
    assert_eq!((&within["cut"], &before["cut"]), (&json!(true), &json!(true)));
    assert!(within["body"].as_str().unwrap().starts_with("data: "), "{within}");
    assert_eq!(before.get("body"), None);

    let replayed = provider(NOWHERE, KEY, Replayer::open(folder.path()).unwrap().wrap());
    let error = ask(&replayed, "within the answer").await.unwrap_err();
    assert!(matches!(&error, ProviderError::Incomplete { message } if message.contains("let go of")), "{error:?}");
    let error = ask(&replayed, "before the answer").await.unwrap_err();
    assert!(matches!(&error, ProviderError::Network { message } if message.contains("given up")), "{error:?}");
}

#[tokio::test]
async fn f12_a_body_over_the_limit_is_passed_on_whole_and_kept_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|post| post.stream(TEXT)).await;
    let recorder = Recorder::with_body_limit(folder.path(), 100).unwrap();
    let whole = ask(&provider(&server.base_url, KEY, recorder.wrap()), "hi").await.unwrap();
    soon(recorder.settle()).await.unwrap();
    let unlimited = tempfile::tempdir().unwrap();
    let other = Recorder::with_body_limit(unlimited.path(), TEXT.len()).unwrap();
    assert_eq!(ask(&provider(&server.base_url, KEY, other.wrap()), "hi").await.unwrap(), whole);
    soon(other.settle()).await.unwrap();

    let (cut, kept) = (only_file(folder.path()), only_file(unlimited.path()));
    assert_eq!(cut["body"].as_str().unwrap().as_bytes(), &TEXT[..100]);
    assert_eq!((&cut["cut"], cut["note"].as_str().unwrap().contains("first 100 bytes")), (&json!(true), true));
    assert_eq!((kept["body"].as_str().unwrap().as_bytes(), kept.get("cut")), (TEXT, None));
    let replayed = provider(NOWHERE, KEY, Replayer::open(folder.path()).unwrap().wrap());
    assert!(matches!(ask(&replayed, "hi").await, Err(ProviderError::Incomplete { .. })));
}

#[tokio::test]
async fn a_request_that_got_no_answer_fails_again_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let recorder = Recorder::new(folder.path()).unwrap();
    let refused = ask(&provider(&url, KEY, recorder.wrap()), "hi").await.unwrap_err();
    let file = only_file(folder.path());
    assert!(file["failed"].as_str().unwrap().contains("refused") && file.get("status").is_none(), "{file}");
    let replayed = provider(NOWHERE, KEY, Replayer::open(folder.path()).unwrap().wrap());
    assert_eq!(ask(&replayed, "hi").await.unwrap_err(), refused);
}
