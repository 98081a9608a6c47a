//! What the command line does with a configuration and a journal, a program that embeds Playhouse does too.

use std::path::Path;
use std::time::Duration;

use playhouse::config::{Config, Platform, Sources, Variables};
use playhouse::from_config::{FromConfig, FromConfigError, KIND};
use playhouse::journal::{StepKind, conversation, decisions, entry_lines, session_table};
use playhouse::prelude::*;
use playhouse::protocol::entry::Settings;
use playhouse::{ResumeError, journal};
use serde_json::json;

/// The configuration of a project in `folder`, with the user's file beside it and nothing in the environment.
fn config(folder: &Path, flags: &[(&'static str, &str)]) -> Config {
    let home = [("HOME".into(), folder.as_os_str().to_owned())];
    let sources = Sources {
        variables: home.into_iter().collect::<Variables>(),
        platform: Platform::Xdg,
        folder: Some(folder.to_owned()),
        file: Some(folder.join("config.toml")),
        project: Some(folder.join("work")),
        flags: flags.iter().map(|(name, value)| (*name, (*value).into())).collect(),
        tools: Vec::new(),
    };
    Config::load(&sources).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    write(
        "config.toml",
        "model = \"scripted/play.json\"\npermission = \"yolo\"\ntools = [\"read_file\", \"bash\"]\n".into(),
    );
    write("work/playhouse.toml", "tools = [\"read_file\"]\n\n[limits]\nmax_turns = 7\n".into());
    write("work/note.txt", "a line of the file\n".into());
    let call = json!({"name": "read_file", "arguments": {"path": "note.txt"}});
    let turns = json!([{"text": "I look.", "tool_calls": [call]}, {"text": "I have read it."}, {"text": "Again."}]);
    write("play.json", json!({ "turns": turns }).to_string());
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_opens_an_agent_from_a_file_and_prints_its_session() {
    let folder = folder();
    let from = FromConfig::new(config(folder.path(), &[]));
    let house = from.house().unwrap().open().await.unwrap();
    let settings = from.settings(folder.path().join("work")).unwrap();
    from.check(&settings).await.unwrap();
    let agent = from.agent(&house, settings).unwrap().spawn().await.unwrap();
    let settings = agent.state().await.unwrap().settings;
    assert_eq!((settings.kind.as_str(), settings.tools.as_slice()), (KIND, ["read_file".to_owned()].as_slice()));
    assert_eq!((settings.limits.max_turns, settings.permission), (Some(7), PermissionMode::Yolo));
    assert_eq!(agent.prompt("Read the note.").await.unwrap().text(), "I have read it.");

    let session = agent.session_id();
    let entries = house.entries(&session).await.unwrap();
    let told = conversation(&entries);
    for part in
        ["\nuser:\nRead the note.\n", "→ read_file {\"path\":\"note.txt\"}", "a line of the file", "I have read it.\n"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let steps = decisions(&entries);
    let of = |kind| steps.iter().filter(|step| step.kind == kind).map(|step| step.what).collect::<Vec<_>>();
    assert_eq!((of(StepKind::Decision), of(StepKind::Effect)), (vec!["opened"], vec!["started"]));
    assert!(steps[1].line().contains("read_file") && steps[1].to_json()["tool_name"] == "read_file");
    assert_eq!(entry_lines(&entries).unwrap().lines().count(), entries.len());
    house.dismiss(agent.id()).await;
    let listed = session_table(&house.sessions().await.unwrap(), 0, 200);
    assert!(
        listed.contains(session.as_str()) && listed.contains("done") && listed.contains("Read the note."),
        "{listed}"
    );
    house.shutdown(Duration::ZERO).await;

    // Where the configuration keeps sessions, and as what the command line knows them.
    let data = folder.path().join(".local/share/playhouse");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_playhouse"));
    let shown = command.args(["sessions", "show", session.as_str(), "--data-dir"]).arg(&data).output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), told);

    let house = from.house().unwrap().open().await.unwrap();
    let agent = house.resume(&session).await.unwrap();
    assert_eq!(agent.prompt("And again.").await.unwrap().text(), "Again.");
    house.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_flags_change_a_stored_session_and_what_is_missing_parks_it() {
    let folder = folder();
    let from = FromConfig::new(config(folder.path(), &[]));
    let stored = from.settings("/somewhere").unwrap();
    let flags = [("--system", "Be brief."), ("--max-turns", "3")];
    let changed = FromConfig::new(config(folder.path(), &flags)).changed(&stored).unwrap();
    let mut expected = Settings { system_prompt: "Be brief.".into(), ..stored.clone() };
    expected.limits.max_turns = Some(3);
    assert_eq!(changed, expected);
    std::fs::write(folder.path().join("work/playhouse.toml"), "[limits]\nmax_turns = 1\n").unwrap();
    assert_eq!(FromConfig::new(config(folder.path(), &[])).changed(&stored).unwrap(), stored);

    let house = from.house().unwrap().open().await.unwrap();
    let agent = from.agent(&house, stored).unwrap().cwd(folder.path()).spawn().await.unwrap();
    agent.prompt("go").await.unwrap();
    let session = agent.session_id();
    house.dismiss(agent.id()).await;
    std::fs::remove_file(folder.path().join("play.json")).unwrap();
    let error = house.resume(&session).await.unwrap_err();
    assert!(matches!(&error, ResumeError::MissingPart { reason, .. } if reason.contains("play.json")), "{error}");
    let (word, more) = journal::state_words(&house.session(&session).await.unwrap().status);
    assert!(word == "parked" && more.is_some_and(|more| more.contains("play.json")));
    house.shutdown(Duration::ZERO).await;
}

#[test]
fn what_cannot_be_made_says_why() {
    let folder = folder();
    std::fs::write(folder.path().join("config.toml"), "").unwrap();
    let mut config = config(folder.path(), &[]);
    assert_eq!(FromConfig::new(config.clone()).settings("/"), Err(FromConfigError::NoModel));
    config.data_dir.value = None;
    assert_eq!(FromConfig::new(config.clone()).house().map(drop), Err(FromConfigError::NoDataDir));
    config.durability.value = Durability::None;
    assert!(FromConfig::new(config).house().is_ok());
}
