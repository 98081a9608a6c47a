//! Claims between sessions, with the tools that take them.

use std::fs;
use std::path::Path;

use playhouse_protocol::{Cancel, EffectClass, Secrets, ToolResult};
use serde_json::json;

use super::*;
use crate::builtin::{EditFile, WriteFile};
use crate::files::paths::{Root, Spot};
use crate::files::replace::{Old, replace};
use crate::files::{AskedPath, Use};
use crate::process::sweeps::Sweeps;
use crate::runtime::{SCOPE, Scope};
use crate::sandbox::{Confined, Sandbox};

fn ctx(folder: &Path, session: &str) -> ToolContext {
    ToolContext {
        tool_call_id: "call".into(),
        tool_name: "test".to_owned(),
        session_id: SessionId::new(session).unwrap(),
        cwd: folder.to_owned(),
        effect: EffectClass::Once,
        reconcile: false,
        cancel: Cancel::new(),
        states: Default::default(),
        on_update: None,
        on_progress: None,
    }
}

fn place(folder: &Path, name: &str) -> (AskedPath, Spot) {
    let asked = AskedPath::for_test(name, folder);
    let spot = Root::open(&asked).unwrap().spot().unwrap();
    (asked, spot)
}

async fn edit(ctx: ToolContext, old: &str, new: &str) -> Result<ToolResult, ToolError> {
    let args = json!({"path": "a.txt", "edits": [{"old_text": old, "new_text": new}]});
    ToolRuntime::here().call(&EditFile, Sandbox::default(), args, ctx).await
}

fn holder(session: &str) -> Holder {
    Holder { session: SessionId::new(session).unwrap(), call: "held".into() }
}

fn files() -> Arc<Files> {
    ToolRuntime::here().files
}

/// As if the claim had been taken so long ago.
fn aged(claim: Claim, age: Duration) -> Claim {
    let mut files = lock(&CLAIMS.files);
    let since = claim.held.since.checked_sub(age).unwrap();
    let held = Arc::new(Holding { holder: claim.held.holder.clone(), since, standing: Mutex::new(Standing::Holds) });
    files.get_mut(&claim.file).unwrap().held = held.clone();
    drop(files);
    let old = Claim { claims: claim.claims, file: claim.file.clone(), files: claim.files.clone(), held };
    // Dropped, it finds that the file is not its own any more.
    drop(claim);
    old
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_ten_seconds_and_is_then_told_who_holds_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one").unwrap();
    let (_, spot) = place(folder.path(), "a.txt");
    let claim = Claim::for_test(&spot.key().unwrap(), "alice");
    let started = tokio::time::Instant::now();
    let said = "`a.txt` is being changed by call `held` of session `alice`; nothing was written: try again later, or work \
                on something else";
    assert_eq!(edit(ctx(folder.path(), "bob"), "one", "two").await, Err(ToolError::Failed(said.to_owned())));
    assert_eq!(started.elapsed().as_secs(), WAIT.as_secs());
    let (runtime, args) = (ToolRuntime::here(), json!({"path": "a.txt", "content": "x"}));
    let write = runtime.call(&WriteFile, Sandbox::default(), args, ctx(folder.path(), "bob"));
    assert_eq!(write.await, Err(ToolError::Failed(said.to_owned())));
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one");
    drop(claim);
    assert!(edit(ctx(folder.path(), "bob"), "one", "two").await.is_ok());
    assert!(!lock(&CLAIMS.files).contains_key(&spot.key().unwrap()), "nothing of it is left");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_an_agent_of_another_house_changes_is_waited_for_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one").unwrap();
    let (_, spot) = place(folder.path(), "a.txt");
    let (one, other) = (ToolRuntime::new("one"), ToolRuntime::new("other"));
    let claim = CLAIMS.claim(&spot.key().unwrap(), holder("alice"), &one.files).ok().unwrap();
    let scope = Scope {
        confined: Arc::new(Confined::new(Sandbox::default(), folder.path().to_owned(), &other)),
        runtime: other,
        sweeps: Sweeps::default(),
        off_limits: Default::default(),
        secrets: Secrets::default(),
        output: None,
    };
    let edited = SCOPE.scope(scope.clone(), edit(ctx(folder.path(), "bob"), "one", "two")).await;
    assert!(matches!(&edited, Err(ToolError::Failed(text)) if text.contains("of session `alice`")), "{edited:?}");
    drop(claim);
    SCOPE.scope(scope, edit(ctx(folder.path(), "bob"), "one", "two")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_goes_on_when_the_file_is_free_and_those_who_wait_go_in_order() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "0").unwrap();
    let (_, spot) = place(folder.path(), "a.txt");
    let key = spot.key().unwrap();
    let claim = Claim::for_test(&key, "alice");
    let mut waiting = Vec::new();
    for n in 0..20 {
        let ctx = ctx(folder.path(), &format!("s{n}"));
        let work = async move { edit(ctx, &n.to_string(), &(n + 1).to_string()).await.map(|_| ()) };
        waiting.push(tokio::spawn(work));
        // Each is in the line before the next comes.
        while lock(&CLAIMS.files).get(&key).unwrap().line.len() <= n {
            tokio::task::yield_now().await;
        }
    }
    // The last gives up, which costs the others nothing.
    let gone = waiting.pop().unwrap();
    gone.abort();
    drop(claim);
    for edit in waiting {
        edit.await.unwrap().unwrap();
    }
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "19");
    assert!(!lock(&CLAIMS.files).contains_key(&key), "nothing of it is left");
}

#[tokio::test]
async fn a_claim_older_than_a_minute_is_taken_over_and_its_holder_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one").unwrap();
    let (asked, spot) = place(folder.path(), "a.txt");
    let old = spot.open(Use::Write).unwrap();
    let hung = aged(Claim::for_test(&spot.key().unwrap(), "alice"), TTL);
    edit(ctx(folder.path(), "bob"), "one", "two").await.unwrap();
    let late = replace(&asked, &spot, Old::File(&old), b"late", &hung, &Cancel::new());
    let said = "`a.txt` was held for more than a minute and then given to call `call` of session `bob`; nothing was written: \
                read it again, then repeat your change";
    assert_eq!(late, Err(ToolError::Failed(said.to_owned())));
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "two");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary is left");
    drop(hung);
}

#[tokio::test]
async fn a_holder_that_is_just_replacing_the_file_is_not_overtaken() {
    let folder = tempfile::tempdir().unwrap();
    let (_, spot) = place(folder.path(), "a.txt");
    let key = spot.key().unwrap();
    let hung = aged(Claim::for_test(&key, "alice"), TTL);
    let during = hung.replacing(|| CLAIMS.claim(&key, holder("bob"), &files()).err()).ok().flatten();
    assert_eq!(during, Some(holder("alice")));
    let taken = CLAIMS.claim(&key, holder("bob"), &files()).ok().unwrap();
    assert_eq!(hung.replacing(|| ()), Err(holder("bob")));
    // The late end of the first takes nothing from the second.
    drop(hung);
    assert_eq!(CLAIMS.claim(&key, holder("carol"), &files()).err(), Some(holder("bob")));
    drop(taken);
    drop(CLAIMS.claim(&key, holder("carol"), &files()).ok().unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_waits_takes_over_as_soon_as_the_holders_minute_is_over() {
    // The minute is told by a clock that does not stand still, so it is a short one.
    let claims: &'static Claims = Box::leak(Box::new(Claims::new(Duration::from_millis(50))));
    let folder = tempfile::tempdir().unwrap();
    let (_, spot) = place(folder.path(), "a.txt");
    let key = spot.key().unwrap();
    tokio::time::resume();
    let hung = claims.claim(&key, holder("alice"), &files()).ok().unwrap();
    let started = Instant::now();
    let taken = claims.wait(&key, holder("bob"), &files(), tokio::time::Instant::now() + WAIT).await;
    assert!(taken.is_ok() && started.elapsed() >= Duration::from_millis(40) && started.elapsed() < WAIT);
    assert_eq!(hung.replacing(|| ()), Err(holder("bob")));
}
