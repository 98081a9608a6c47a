//! Exchanges that are recorded, and played again without a service.

use std::time::Duration;

use playhouse::prelude::*;
use playhouse::provider::RecordError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::kit::soon;
use crate::service::{model, says};

/// A service on loopback that answers each request with the next text; gives its base URL.
async fn serve(texts: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for text in texts {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let mut buffer = [0; 4_096];
            loop {
                let n = socket.read(&mut buffer).await.unwrap();
                bytes.extend_from_slice(&buffer[..n]);
                let request = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
                let length =
                    head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0) {
                    break;
                }
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            socket.write_all(format!("{head}{}", says(text)).as_bytes()).await.unwrap();
        }
    });
    base_url
}

async fn talk(house: &House, model: ModelConfig) -> Vec<String> {
    say(house, model, ["one", "two"]).await
}

async fn say(house: &House, model: ModelConfig, prompts: [&str; 2]) -> Vec<String> {
    let agent = house.agent().model(model).spawn().await.unwrap();
    let mut said = Vec::new();
    for prompt in prompts {
        let report = soon("an answer", agent.prompt_report(prompt)).await.unwrap();
        said.push(match &report.outcome {
            Outcome::Stop => report.text(),
            other => format!("{other:?}"),
        });
    }
    house.shutdown(Duration::ZERO).await;
    said
}

#[tokio::test]
async fn a_conversation_is_recorded_and_played_again_without_service_or_key() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = folder.path().join("recordings");
    let base_url = serve(&["first", "second"]).await;
    let here = ModelConfig { base_url: Some(base_url), ..model("m") };
    let house = House::builder().record(&recordings).open().await.unwrap();
    assert_eq!(talk(&house, here).await, ["first", "second"]);
    assert_eq!(std::fs::read_dir(&recordings).unwrap().count(), 2, "both are on the disk when the house has closed");

    // Another address, where nobody is, and no key.
    let elsewhere = ModelConfig {
        base_url: Some("http://127.0.0.1:9/v1".to_owned()),
        api_key: None,
        key_variable: None,
        ..model("m")
    };
    let house = House::builder().replay(&recordings).open().await.unwrap();
    assert_eq!(talk(&house, elsewhere.clone()).await, ["first", "second"]);

    // What was not recorded is said, and not retried.
    let house = House::builder().replay(&recordings).open().await.unwrap();
    let other = ModelConfig { id: "another".into(), ..elsewhere };
    let said = talk(&house, other).await;
    assert!(said[0].contains("--record"), "{said:?}");
}

/// A replay has no key, and whatever stands in its place must not be taken out of what is said.
#[tokio::test]
async fn a_conversation_about_recordings_is_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let prompts = ["what was recorded?", "none of it, - or all that was recorded?"];
    let here = ModelConfig { base_url: Some(serve(&["it is recorded", "all"]).await), ..model("m") };
    let house = House::builder().record(folder.path()).open().await.unwrap();
    assert_eq!(say(&house, here.clone(), prompts).await, ["it is recorded", "all"]);
    let house = House::builder().replay(folder.path()).open().await.unwrap();
    let keyless = ModelConfig { api_key: None, key_variable: None, ..here };
    assert_eq!(say(&house, keyless, prompts).await, ["it is recorded", "all"]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_played_keeps_the_house_closed() {
    let folder = tempfile::tempdir().unwrap();
    let refused = House::builder().replay(folder.path().join("none")).open().await.err();
    assert!(matches!(refused, Some(playhouse::OpenError::Recordings(RecordError::NoFolder { .. }))), "{refused:?}");
}
