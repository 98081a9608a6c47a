//! Several real processes on one data directory. The test binary starts itself as the other process.

mod common;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use common::{PATIENCE, find, id, numbered, prompt, prompts};
use playhouse_protocol::{Fate, NodeId, Seq};
use playhouse_session::disk::{Disk, Kernel};
use playhouse_session::{DamageKind, FileOptions, FileStore, Holder, Store, StoreError, Sync, Take};

const ROLE: &str = "PLAYHOUSE_TEST_ROLE";
const DATA: &str = "PLAYHOUSE_TEST_DATA";

/// Another process, killed when dropped.
struct Other {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Other {
    fn start(role: &str, data: &Path, fail: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["role_of_another_process", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(DATA, data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        match fail {
            Some(point) => command.env("PLAYHOUSE_FAIL", point),
            None => command.env_remove("PLAYHOUSE_FAIL"),
        };
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once('@') {
                    let _ = to.send(said.to_owned());
                }
            }
        });
        Self { child, stdin, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the other process said nothing")
    }

    /// Lets it go on past a [`wait_for_a_line`].
    fn nod(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// What it said until its end.
    fn rest(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            said.push(line);
        }
        self.child.wait().unwrap();
        said
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    println!("@{text}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_a_line() {
    let mut byte = [0u8; 1];
    while std::io::stdin().read_exact(&mut byte).is_ok() && byte[0] != b'\n' {}
}

/// Not a test by itself: what the processes that the tests start do.
#[test]
fn role_of_another_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let data = std::env::var(DATA).unwrap();
    let store = FileStore::open(data).unwrap();
    match role.as_str() {
        "hold" => {
            let epoch = store.own(&id("s")).unwrap();
            store.append(&id("s"), epoch, &prompts("held", 2), Sync::Disk).unwrap();
            say(store.node().as_str());
            wait_for_a_line();
        }
        "race" => {
            say("ready");
            wait_for_a_line();
            for n in 0..RACES {
                let session = id(&format!("s{n}"));
                let won = store.load(&session, Take::Own).and_then(|loaded| {
                    let name = format!("{}/{n}", store.node());
                    store.append(&session, loaded.epoch, &prompts(&name, 1), Sync::Kernel)
                });
                match won {
                    Ok(_) => say(&format!("won {n}")),
                    Err(StoreError::Held { .. }) => say(&format!("held {n}")),
                    Err(error) => say(&format!("error {n}: {error}")),
                }
            }
            say("done");
            wait_for_a_line();
        }
        #[cfg(feature = "fail-points")]
        "write" => fail_points::write(store, &prompts("w", 6)),
        #[cfg(feature = "fail-points")]
        "write-long" => fail_points::write(store, &fail_points::long()),
        other => panic!("unknown role {other}"),
    }
}

const RACES: usize = 50;

#[test]
fn f33_a_second_process_gets_a_clear_error_and_takes_over_after_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("hold", folder.path(), None);
    let node = NodeId::from(other.line());
    let store = FileStore::open(folder.path()).unwrap();
    let (session, pid) = (id("s"), other.child.id());
    let held = StoreError::Held { session: session.clone(), node: node.clone(), pid };
    assert_eq!(store.load(&session, Take::Own), Err(held.clone()));
    assert_eq!(store.own(&session), Err(held.clone()));
    assert_eq!(store.remove(&session), Err(held.clone()));
    assert!(held.to_string().contains(&format!("pid {pid}")), "{held}");
    let peeked = store.load(&session, Take::Peek).unwrap();
    assert_eq!((peeked.entries, peeked.epoch), (numbered(1, &prompts("held", 2)), 1));
    assert_eq!(store.list().unwrap()[0].held_by, Some(Holder { node: node.clone(), pid }));
    assert_eq!(store.dead_nodes().unwrap(), []);
    assert!(store.bury(std::slice::from_ref(&node)).unwrap_err().to_string().contains("is alive"));

    other.kill();
    assert_eq!(store.list().unwrap()[0].held_by, None);
    assert_eq!(store.dead_nodes().unwrap(), std::slice::from_ref(&node));
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.epoch, loaded.damage), (numbered(1, &prompts("held", 2)), 2, vec![]));
    assert_eq!(store.append(&session, 2, &[prompt("mine", "x")], Sync::Disk).unwrap(), [Seq(3)]);
    assert_eq!(store.load(&session, Take::Own).unwrap().epoch, 2, "waking in the same process bumps nothing");
    store.bury(std::slice::from_ref(&node)).unwrap();
    store.bury(std::slice::from_ref(&node)).unwrap();
    assert_eq!(store.dead_nodes().unwrap(), []);
    assert_eq!(store.list().unwrap()[0].held_by.as_ref().map(|h| &h.node), Some(store.node()));
}

#[test]
fn f33_a_process_that_ends_in_order_leaves_nothing_to_bury() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("hold", folder.path(), None);
    other.line();
    other.nod();
    other.rest();
    let store = FileStore::open(folder.path()).unwrap();
    assert_eq!(store.dead_nodes().unwrap(), []);
    assert_eq!(store.load(&id("s"), Take::Own).unwrap().epoch, 2);
}

/// A process that is killed while it starts another leaves its lock with that one, until it has loaded its program.
#[test]
fn f33_a_lock_that_outlives_its_process_for_a_moment_does_not_keep_it_alive() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let lock = |node: &str, pid: u32| {
        let path = folder.path().join(format!("owners/{node}.lock"));
        fs::write(&path, serde_json::json!({ "node": node, "pid": pid }).to_string()).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.lock().unwrap();
        file
    };
    let _alive = lock("alive", std::process::id());
    let dead = lock("dead", gone.id());
    let loading = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(dead);
    });
    assert_eq!(store.dead_nodes().unwrap(), [NodeId::from("dead")]);
    loading.join().unwrap();
}

#[test]
fn f33_of_several_processes_exactly_one_gets_a_new_session() {
    let folder = tempfile::tempdir().unwrap();
    let mut others: Vec<_> = (0..3).map(|_| Other::start("race", folder.path(), None)).collect();
    for other in &others {
        assert_eq!(other.line(), "ready");
    }
    others.iter_mut().for_each(Other::nod);
    let mut winners = vec![0; RACES];
    for other in &others {
        loop {
            let line = other.line();
            match line.split_once(' ') {
                Some(("won", n)) => winners[n.parse::<usize>().unwrap()] += 1,
                Some(("held", _)) => {}
                _ if line == "done" => break,
                _ => panic!("{line}"),
            }
        }
    }
    assert_eq!(winners, vec![1; RACES]);
    others.iter_mut().for_each(Other::kill);
    let store = FileStore::open(folder.path()).unwrap();
    for n in 0..RACES {
        let loaded = store.load(&id(&format!("s{n}")), Take::Own).unwrap();
        assert_eq!((loaded.entries.len(), loaded.epoch, loaded.damage), (1, 2, vec![]));
    }
}

#[test]
fn f33_a_stale_writer_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (FileStore::open(folder.path()).unwrap(), FileStore::open(folder.path()).unwrap());
    let session = id("s");
    let epoch = old.own(&session).unwrap();
    old.append(&session, epoch, &prompts("old", 2), Sync::Disk).unwrap();
    // As when a lock is lost with its file: the old owner looks dead but is not.
    fs::remove_file(folder.path().join(format!("owners/{}.lock", old.node()))).unwrap();
    let loaded = new.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries.len(), loaded.epoch), (2, 2));
    let path = find(folder.path(), "s.journal");
    let before = fs::read(&path).unwrap();
    let by = Some(Holder { node: new.node().clone(), pid: std::process::id() });
    let fenced = StoreError::Fenced { session: session.clone(), epoch, by };
    assert_eq!(old.append(&session, epoch, &prompts("stale", 1), Sync::Kernel), Err(fenced.clone()));
    assert_eq!(fs::read(&path).unwrap(), before);
    new.append(&session, 2, &prompts("new", 1), Sync::Disk).unwrap();
    assert_eq!(old.append(&session, epoch, &prompts("stale", 1), Sync::Kernel), Err(fenced));
    assert!(matches!(old.load(&session, Take::Own), Err(StoreError::Held { .. })));
    let loaded = new.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries.len(), loaded.damage), (3, vec![]));
}

#[test]
fn f33_a_stale_write_between_check_and_takeover_is_not_acknowledged_and_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Takeover::new(folder.path(), |_| {}, Ending::Goes);
    let old = disk.store();
    let session = id("s");
    let epoch = old.own(&session).unwrap();
    old.append(&session, epoch, &prompts("a", 1), Sync::Kernel).unwrap();
    let stale = old.append(&session, epoch, &prompts("stale", 1), Sync::Kernel).unwrap_err();
    let new = disk.new.lock().unwrap().take().unwrap();
    let by = Some(Holder { node: new.node().clone(), pid: std::process::id() });
    let fenced = StoreError::Fenced { session: session.clone(), epoch, by };
    assert_eq!(stale, StoreError::InDoubt { cause: Box::new(fenced) });
    assert_eq!(stale.fate(), Fate::Unknown);
    // The new owner notices that the file is not as it left it, reads again and goes on.
    let changed = new.append(&session, 2, &prompts("b", 1), Sync::Kernel);
    assert!(matches!(changed, Err(StoreError::Changed { .. })), "{changed:?}");
    assert_eq!(new.load(&session, Take::Own).unwrap().entries.len(), 2);
    assert_eq!(new.append(&session, 2, &prompts("b", 1), Sync::Kernel).unwrap(), [Seq(3)]);
    assert!(!new.load(&session, Take::Own).unwrap().damage.iter().any(|d| matches!(d.kind, DamageKind::Torn { .. })));
}

#[test]
fn f33_a_failed_append_takes_nothing_from_a_new_owner() {
    let long = || prompt("long", &"x".repeat(70_000));
    let folder = tempfile::tempdir().unwrap();
    let goes_on = move |new: &FileStore| {
        assert_eq!(new.append(&id("s"), 2, &[long()], Sync::Disk).unwrap(), [Seq(2)]);
    };
    let disk = Takeover::new(folder.path(), goes_on, Ending::Fails);
    let old = disk.store();
    let session = id("s");
    let epoch = old.own(&session).unwrap();
    old.append(&session, epoch, &prompts("a", 1), Sync::Kernel).unwrap();
    // The same long string as the new owner's, so that the new owner's record names a blob that this append made.
    let error = old.append(&session, epoch, &[prompt("stale", &"x".repeat(70_000))], Sync::Kernel).unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    let new = disk.new.lock().unwrap().take().unwrap();
    let expected = numbered(1, &[prompts("a", 1), vec![long()]].concat());
    let loaded = new.load(&session, Take::Own).unwrap();
    assert!(loaded.entries == expected, "{} entries", loaded.entries.len());
    assert_eq!(loaded.damage, []);
}

/// A disk on which another process takes over in the very moment of the second write.
#[derive(Debug)]
struct Takeover {
    folder: PathBuf,
    old: OnceLock<NodeId>,
    new: Mutex<Option<FileStore>>,
    goes_on: GoesOn,
    ending: Ending,
    writes: AtomicUsize,
}

/// What the new owner does at once.
struct GoesOn(Box<dyn Fn(&FileStore) + Send + std::marker::Sync>);

impl std::fmt::Debug for GoesOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GoesOn")
    }
}

/// What becomes of the old owner's write.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Goes,
    Fails,
}

impl Takeover {
    fn new(
        folder: &Path,
        goes_on: impl Fn(&FileStore) + Send + std::marker::Sync + 'static,
        ending: Ending,
    ) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.to_owned(),
            old: OnceLock::new(),
            new: Mutex::default(),
            goes_on: GoesOn(Box::new(goes_on)),
            ending,
            writes: AtomicUsize::new(0),
        })
    }

    fn store(self: &Arc<Self>) -> FileStore {
        let options = FileOptions { disk: self.clone(), ..FileOptions::default() };
        let old = FileStore::open_with(&self.folder, options).unwrap();
        self.old.set(old.node().clone()).unwrap();
        old
    }
}

impl Disk for Takeover {
    fn write(&self, file: &fs::File, record: &[u8]) -> io::Result<usize> {
        if self.writes.fetch_add(1, Ordering::SeqCst) == 1 {
            let lock = format!("owners/{}.lock", self.old.get().unwrap());
            fs::remove_file(self.folder.join(lock)).unwrap();
            let new = FileStore::open(&self.folder).unwrap();
            assert_eq!(new.load(&id("s"), Take::Own).unwrap().entries.len(), 1);
            (self.goes_on.0)(&new);
            *self.new.lock().unwrap() = Some(new);
            match self.ending {
                Ending::Goes => {}
                Ending::Fails => return Err(io::ErrorKind::StorageFull.into()),
            }
        }
        Kernel.write(file, record)
    }

    fn flush(&self, file: &fs::File) -> io::Result<()> {
        Kernel.flush(file)
    }
}

#[test]
fn a_name_can_be_used_by_one_process_only() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| {
        FileStore::open_with(folder.path(), FileOptions { node: Some(name.into()), ..FileOptions::default() })
    };
    let first = named("n-1").unwrap();
    assert_eq!(first.node().as_str(), "n-1");
    for bad in ["n-1", "takeover", "", "../x", "a/b"] {
        assert!(matches!(named(bad), Err(StoreError::Node { .. })), "{bad}");
    }
    drop(first);
    named("n-1").unwrap();
}

/// Needs `--features fail-points`.
#[cfg(feature = "fail-points")]
mod fail_points {
    use super::*;
    use crate::common::stage::Stage;
    use playhouse_protocol::{AgentMessage, CommitReport, Entry, EntryBody};
    use playhouse_session::Damage;

    /// Two entries with two blobs each.
    pub fn long() -> Vec<Arc<Entry>> {
        let message = |fill: char| Arc::new(AgentMessage::user(fill.to_string().repeat(66_000), 1));
        let entry = |name: &str, messages| common::entry(name, 1, EntryBody::Restored { input_id: None, messages });
        vec![entry("a", vec![message('a'), message('b')]), entry("c", vec![message('c'), message('d')])]
    }

    /// Appends entries, one by one, and says which were committed.
    #[tokio::main(flavor = "current_thread")]
    pub async fn write(store: FileStore, entries: &[Arc<Entry>]) {
        let mut stage = Stage::on(Arc::new(store)).await;
        for entry in entries {
            stage.send(&id("s"), std::slice::from_ref(entry));
            match stage.report().await {
                CommitReport::Committed { batch, .. } => say(&format!("committed {batch}")),
                CommitReport::Failed { batch, error, .. } => say(&format!("failed {batch}: {error}")),
            }
        }
    }

    fn run(role: &str, point: &str) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let said = Other::start(role, folder.path(), Some(point)).rest();
        (folder, said)
    }

    #[test]
    fn f32_a_process_killed_at_any_append_has_everything_it_acknowledged() {
        for n in 1..=6usize {
            for (point, kept) in [("append-before", n - 1), ("append-after", n), ("append-flushed", n)] {
                let (folder, said) = run("write", &format!("{point}:{n}"));
                let expected: Vec<_> = (1..n).map(|n| format!("committed {n}")).collect();
                assert_eq!(said, expected, "{point}:{n}");
                let store = FileStore::open(folder.path()).unwrap();
                let loaded = store.load(&id("s"), Take::Own).unwrap();
                assert_eq!(loaded.entries, numbered(1, &prompts("w", kept)), "{point}:{n}");
                assert_eq!(loaded.damage, []);
                // What was not acknowledged is sent again, and is there once.
                let seqs = store.append(&id("s"), loaded.epoch, &prompts("w", 6), Sync::Disk).unwrap();
                assert_eq!(seqs, (1..=6).map(Seq).collect::<Vec<_>>());
                assert_eq!(store.load(&id("s"), Take::Own).unwrap().entries, numbered(1, &prompts("w", 6)));
                let checked = store.verify(&id("s")).unwrap();
                assert_eq!(
                    (checked.broken.clone(), checked.notes.len(), checked.records()),
                    (None, 0, 6),
                    "{point}:{n}"
                );
            }
        }
    }

    #[test]
    fn f30_f31_injected_errors_are_reported_and_final() {
        for (point, text) in [
            ("disk-full:3", "the disk is full"),
            ("write-short:3", "bytes were written"),
            ("flush-error:3", "injected flush error"),
        ] {
            let (folder, said) = run("write", point);
            assert_eq!(said[..2], ["committed 1", "committed 2"]);
            assert_eq!(said.len(), 6);
            for line in &said[2..] {
                assert!(line.starts_with("failed") && line.contains(text), "{point}: {line}");
            }
            let store = FileStore::open(folder.path()).unwrap();
            let loaded = store.load(&id("s"), Take::Own).unwrap();
            assert!(loaded.entries.starts_with(&numbered(1, &prompts("w", 2))), "{point}");
            let is_torn = |damage: &Damage| matches!(damage.kind, DamageKind::Torn { .. });
            let torn = usize::from(point.starts_with("write-short"));
            assert_eq!((loaded.damage.len(), loaded.damage.iter().all(is_torn)), (torn, true), "{point}");
        }
    }

    #[test]
    fn f32_a_process_killed_at_any_blob_leaves_no_record_without_its_blobs() {
        for (point, acknowledged, kept) in [
            ("blob-before:1", 0, 0),
            ("blob-after:1", 0, 0),
            ("blob-before:2", 0, 0),
            ("blob-after:3", 1, 1),
            ("append-before:2", 1, 1),
            ("append-after:2", 1, 2),
            ("append-flushed:2", 1, 2),
        ] {
            let (folder, said) = run("write-long", point);
            assert_eq!(said, (1..=acknowledged).map(|n| format!("committed {n}")).collect::<Vec<_>>(), "{point}");
            let store = FileStore::open(folder.path()).unwrap();
            let loaded = store.load(&id("s"), Take::Own).unwrap();
            assert_eq!((loaded.entries, loaded.damage), (numbered(1, &long()[..kept]), vec![]), "{point}");
            let seqs = store.append(&id("s"), loaded.epoch, &long(), Sync::Disk).unwrap();
            assert_eq!(seqs, [Seq(1), Seq(2)]);
            let loaded = store.load(&id("s"), Take::Own).unwrap();
            assert_eq!((loaded.entries, loaded.damage), (numbered(1, &long()), vec![]), "{point}");
            store.remove(&id("s")).unwrap();
            assert_eq!(common::snapshot(&folder.path().join("sessions")), []);
        }
    }

    #[test]
    fn f30_a_blob_without_room_is_reported_and_final() {
        let (folder, said) = run("write-long", "blob-full:4");
        assert_eq!(said.len(), 2);
        assert!(said[0] == "committed 1" && said[1].contains("the disk is full"), "{said:?}");
        let loaded = FileStore::open(folder.path()).unwrap().load(&id("s"), Take::Own).unwrap();
        assert_eq!((loaded.entries, loaded.damage), (numbered(1, &long()[..1]), vec![]));
    }
}
