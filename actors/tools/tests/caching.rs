//! The cache of files that were read, beside writers that this process knows nothing of.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Answer, Bench, eventually, text};
use playhouse_tools::default_tools;
use serde_json::{Value, json};

async fn agent(folder: &Path) -> Bench {
    Bench::in_house(default_tools(), "test-house", folder.to_owned()).await
}

async fn read(bench: &mut Bench) -> Answer {
    bench.run("read_file", json!({"path": "a.txt"})).await
}

/// What was read, and whether it came from the cache.
fn seen(answer: &Answer) -> (String, bool) {
    (text(answer), answer.as_ref().unwrap().details.get("cached") == Some(&Value::Bool(true)))
}

/// Waits until the file's marks are old enough to be trusted.
async fn settled(path: &Path) {
    eventually("the file is old", || {
        let seen = fs::metadata(path).unwrap();
        let changed = UNIX_EPOCH + Duration::new(seen.ctime() as u64, seen.ctime_nsec() as u32);
        SystemTime::now().duration_since(changed).is_ok_and(|age| age > Duration::from_millis(2_050))
    })
    .await;
}

fn by_another_program(folder: &Path, script: &str) {
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap().success());
}

#[tokio::test]
async fn a_file_is_read_once_until_somebody_changes_it_whoever_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "one\n").unwrap();
    let (mut alice, mut bob) = (agent(folder.path()).await, agent(folder.path()).await);
    assert_eq!(seen(&read(&mut alice).await), ("one\n".into(), false));
    assert_eq!(seen(&read(&mut alice).await), ("one\n".into(), false), "its marks are too young");
    settled(&path).await;
    let first = read(&mut alice).await;
    assert_eq!(seen(&first), ("one\n".into(), false));
    let second = read(&mut bob).await;
    assert_eq!(seen(&second), ("one\n".into(), true), "what one has read the other need not");
    assert_eq!(first.unwrap().details["version"], second.unwrap().details["version"]);
    let part = bob.run("read_file", json!({"path": "./a.txt", "byte_offset": 1, "byte_limit": 2})).await;
    assert_eq!(seen(&part), ("ne".into(), true));
    // In place and of the same size, with the time of its last change set back.
    by_another_program(folder.path(), "cp -p a.txt b.txt && printf 'two\\n' > a.txt && touch -r b.txt a.txt");
    assert_eq!(seen(&read(&mut alice).await), ("two\n".into(), false));
    settled(&path).await;
    read(&mut alice).await.unwrap();
    assert_eq!(seen(&read(&mut alice).await), ("two\n".into(), true));
    read(&mut bob).await.unwrap();
    // A change that fails is a change, as far as this goes.
    let edits = json!([{"old_text": "nowhere", "new_text": "x"}]);
    assert!(bob.run("edit_file", json!({"path": "a.txt", "edits": edits})).await.is_err());
    assert_eq!(seen(&read(&mut alice).await), ("two\n".into(), false));
    assert_eq!(seen(&read(&mut alice).await), ("two\n".into(), true));
    let edits = json!([{"old_text": "two", "new_text": "six"}]);
    bob.run("edit_file", json!({"path": "a.txt", "edits": edits})).await.unwrap();
    assert_eq!(seen(&read(&mut alice).await), ("six\n".into(), false));
    // The check before a change reads the file, whatever the cache has.
    by_another_program(folder.path(), "printf 'ten\\n' > a.txt");
    let edits = json!([{"old_text": "ten", "new_text": "1"}]);
    let refused = alice.run("edit_file", json!({"path": "a.txt", "edits": edits})).await;
    assert!(format!("{refused:?}").contains("was changed since"), "{refused:?}");
}

/// Another program writes and says so; what is read then is what it wrote, however fast one follows the other.
#[tokio::test]
async fn a_change_within_a_tick_of_the_clock_is_seen() {
    const ROUNDS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "00000").unwrap();
    let mut bench = agent(folder.path()).await;
    let script = "while read -r n; do printf '%05d' \"$n\" 1<>a.txt; echo; done";
    let mut writer = Command::new("bash");
    writer.args(["-c", script]).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let (mut asks, mut says) = (writer.stdin.take().unwrap(), BufReader::new(writer.stdout.take().unwrap()).lines());
    for n in 1..=ROUNDS {
        writeln!(asks, "{n}").unwrap();
        says.next().unwrap().unwrap();
        assert_eq!(text(&read(&mut bench).await), format!("{n:05}"));
    }
    drop(asks);
    writer.wait().unwrap();
}
