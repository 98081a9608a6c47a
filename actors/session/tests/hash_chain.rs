//! The chain through a journal: every way of writing keeps it, every way of tampering breaks it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::stage::Stage;
use common::{Fault, TestDisk, entry, find, id, opened, prompt, prompts, store_on};
use playhouse_protocol::{AgentMessage, CommitReport, Entry, EntryBody, Seq};
use playhouse_session::blob::{BlobProblem, NoBlobs};
use playhouse_session::record::{BadLine, encode};
use playhouse_session::{
    ChainHash, Damage, DamageKind, FileStore, Holder, Store, StoreError, Sync, Take, Verification,
};

/// A store with a journal of these entries, and where that is.
fn written(entries: &[Arc<Entry>]) -> (tempfile::TempDir, FileStore, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let epoch = store.own(&id("s")).unwrap();
    for entry in entries {
        store.append(&id("s"), epoch, std::slice::from_ref(entry), Sync::Kernel).unwrap();
    }
    store.rest(&id("s")).unwrap();
    let path = find(folder.path(), "s.journal");
    (folder, store, path)
}

#[track_caller]
fn verified(store: &FileStore) -> Verification {
    store.verify(&id("s")).unwrap()
}

/// Fails unless nothing at all is wrong. Answers the head.
#[track_caller]
fn is_whole(store: &FileStore, records: usize) -> ChainHash {
    let checked = verified(store);
    assert_eq!((&checked.broken, checked.notes.as_slice()), (&None, [].as_slice()));
    let entries = store.load(&id("s"), Take::Peek).unwrap().entries.len();
    assert_eq!((checked.records(), entries, checked.chained_from), (records, records, Some(1)));
    checked.head().unwrap()
}

/// The line and the kind of what is broken.
#[track_caller]
fn broken(store: &FileStore) -> (u64, DamageKind) {
    let damage = verified(store).broken.expect("something is broken");
    (damage.line, damage.kind)
}

/// Takes over from a store that looks dead and is not.
fn take_over(folder: &Path, from: &FileStore) -> FileStore {
    fs::remove_file(folder.join(format!("owners/{}.lock", from.node()))).unwrap();
    FileStore::open(folder).unwrap()
}

/// A journal's line, taken apart and put together with a checksum that fits.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    seq: u64,
    epoch: u64,
    chain: Option<String>,
    blobs: bool,
    entry: String,
}

impl Line {
    fn parse(text: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let entry = text.split_once("\"entry\":").unwrap().1.trim_end().strip_suffix('}').unwrap();
        Self {
            seq: value["seq"].as_u64().unwrap(),
            epoch: value["epoch"].as_u64().unwrap(),
            chain: value["chain"].as_str().map(str::to_owned),
            blobs: value["blobs"] == true,
            entry: entry.to_owned(),
        }
    }

    fn text(&self) -> String {
        let Self { seq, epoch, chain, blobs, entry } = self;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&seq.to_le_bytes());
        hasher.update(&epoch.to_le_bytes());
        hasher.update(if *blobs { b"blobs" } else { b"" });
        hasher.update(chain.as_deref().unwrap_or_default().as_bytes());
        hasher.update(entry.as_bytes());
        let sum = hasher.finalize();
        let chain = chain.as_ref().map(|chain| format!("\"chain\":\"{chain}\",")).unwrap_or_default();
        let blobs = if *blobs { "\"blobs\":true," } else { "" };
        format!("{{\"seq\":{seq},\"epoch\":{epoch},\"sum\":\"{sum:08x}\",{chain}{blobs}\"entry\":{entry}}}\n")
    }
}

fn read_lines(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<Line> = text.lines().map(Line::parse).collect();
    assert_eq!(join(&lines), text, "the tests write lines as the store does");
    lines
}

fn join(lines: &[Line]) -> String {
    lines.iter().map(Line::text).collect()
}

fn write_lines(path: &Path, lines: &[Line]) {
    fs::write(path, join(lines)).unwrap();
}

#[test]
fn batches_repeats_rests_and_takeovers_make_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let first = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = first.own(&session).unwrap();
    let mut heads = Vec::new();
    first.append(&session, epoch, &[vec![opened("s")], prompts("a", 3)].concat(), Sync::Kernel).unwrap();
    heads.push(is_whole(&first, 4));
    let again = [prompts("a", 3), prompts("b", 2), prompts("b", 2)].concat();
    first.append(&session, epoch, &again, Sync::Disk).unwrap();
    heads.push(is_whole(&first, 6));
    first.append(&session, epoch, &again, Sync::Disk).unwrap();
    assert_eq!(is_whole(&first, 6), heads[1], "what is there already changes nothing");
    first.rest(&session).unwrap();
    let epoch = first.own(&session).unwrap();
    first.append(&session, epoch, &prompts("c", 1), Sync::Blobs).unwrap();
    heads.push(is_whole(&first, 7));
    let second = take_over(folder.path(), &first);
    let epoch = second.own(&session).unwrap();
    second.append(&session, epoch, &prompts("d", 2), Sync::Kernel).unwrap();
    heads.push(is_whole(&second, 9));
    let checked = verified(&second);
    let places: Vec<_> = heads.iter().map(|head| checked.find(head).unwrap()).collect();
    assert_eq!(places, [Seq(4), Seq(6), Seq(7), Seq(9)]);
    assert_eq!(checked.find(&ChainHash::START), None);
    assert_eq!(second.sessions().unwrap(), [session]);
}

#[tokio::test]
async fn what_a_writer_commits_in_groups_is_one_chain_per_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::open(folder.path()).unwrap());
    let mut stage = Stage::on(store.clone()).await;
    let sessions = [id("s"), id("t"), id("u")];
    for n in 0..20 {
        for session in &sessions {
            stage.send(session, &prompts(&format!("{session}/{n}"), 3));
        }
    }
    for _ in 0..20 * sessions.len() {
        let report = stage.report().await;
        assert!(matches!(report, CommitReport::Committed { .. }), "{report:?}");
    }
    for session in &sessions {
        let checked = store.verify(session).unwrap();
        assert_eq!((checked.broken.clone(), checked.records()), (None, 60));
    }
}

#[test]
fn f30_the_chain_goes_on_after_an_append_that_failed() {
    for fault in [Fault::FullAtWrite(3), Fault::ShortAtWrite(3), Fault::FullAtBlob(1), Fault::ErrorAtFlush(1)] {
        let folder = tempfile::tempdir().unwrap();
        let store = store_on(folder.path(), &TestDisk::with(&[fault]));
        let session = id("s");
        let epoch = store.own(&session).unwrap();
        store.append(&session, epoch, &prompts("a", 2), Sync::Kernel).unwrap();
        let head = is_whole(&store, 2);
        let long = [prompt("b/0", "short"), prompt("b/1", &"x".repeat(70_000)), prompt("b/2", "short")];
        store.append(&session, epoch, &long, Sync::Disk).unwrap_err();
        let loaded = store.load(&session, Take::Own).unwrap();
        assert_eq!(store.append(&session, loaded.epoch, &long, Sync::Disk).unwrap(), [Seq(3), Seq(4), Seq(5)]);
        is_whole(&store, 5);
        assert_eq!(verified(&store).find(&head), Some(Seq(2)), "{fault:?}");
    }
}

#[test]
fn f28_a_journal_cut_at_any_byte_is_whole_after_it_is_resumed() {
    let all = [prompt("a", "ü"), prompt("b", "b")];
    let (_folder, store, path) = written(&all);
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        let left = &whole[..cut];
        let lines = left.iter().filter(|byte| **byte == b'\n').count();
        let torn = left.last().is_some_and(|last| *last != b'\n');
        let checked = Verification::read(&id("s"), left, &NoBlobs).unwrap();
        assert_eq!((checked.broken.clone(), checked.records()), (None, lines), "cut at {cut}");
        let noted = matches!(checked.notes.as_slice(), [note] if matches!(note.kind, DamageKind::Torn { .. }));
        assert_eq!((noted, checked.notes.len()), (torn, usize::from(torn)), "cut at {cut}");
        // Each resumption of a torn journal waits for the disk.
        if torn && cut % 9 != 0 {
            continue;
        }
        fs::write(&path, left).unwrap();
        let epoch = store.load(&id("s"), Take::Own).unwrap().epoch;
        store.append(&id("s"), epoch, &all, Sync::Kernel).unwrap();
        is_whole(&store, 2);
    }
}

#[test]
fn what_a_live_owner_is_writing_is_no_damage() {
    let (folder, store, path) = written(&prompts("a", 2));
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"seq\":3,");
    fs::write(&path, bytes).unwrap();
    is_whole(&FileStore::open(folder.path()).unwrap(), 2);
    drop(store);
    assert_eq!(verified(&FileStore::open(folder.path()).unwrap()).notes.len(), 1);
}

#[test]
fn an_edited_record_is_found_though_its_checksum_fits() {
    let (_folder, store, path) = written(&prompts("a", 4));
    let lines = read_lines(&path);
    for at in 0..4 {
        let mut edited = lines.clone();
        edited[at].entry = edited[at].entry.replace("ünï", "lie");
        write_lines(&path, &edited);
        let seq = Seq(at as u64 + 1);
        assert_eq!(broken(&store), (seq.0, DamageKind::Unlinked { seq }));
        let [Damage { kind, .. }] = &*store.load(&id("s"), Take::Peek).unwrap().damage else { panic!("one is wrong") };
        assert_eq!(*kind, DamageKind::Unlinked { seq }, "whoever goes on with it is told");
        let mut older = lines.clone();
        older[at].epoch += 1;
        write_lines(&path, &older);
        assert_eq!(broken(&store), (seq.0, DamageKind::Unlinked { seq }));
    }
}

#[test]
fn a_removed_record_is_found_though_those_after_it_are_numbered_anew() {
    let (_folder, store, path) = written(&prompts("a", 4));
    let lines = read_lines(&path);
    for at in 0..3 {
        let mut removed = lines.clone();
        removed.remove(at);
        write_lines(&path, &removed);
        let gone = Seq(at as u64 + 1);
        assert_eq!(broken(&store), (gone.0, DamageKind::Missing { from: gone, to: gone }));
        for (n, line) in (1..).zip(&mut removed) {
            line.seq = n;
        }
        write_lines(&path, &removed);
        assert_eq!(broken(&store), (gone.0, DamageKind::Unlinked { seq: gone }));
    }
}

#[test]
fn records_that_changed_places_are_found() {
    let (_folder, store, path) = written(&prompts("a", 4));
    let lines = read_lines(&path);
    for at in 0..3 {
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        write_lines(&path, &swapped);
        assert_eq!(broken(&store).0, at as u64 + 1);
        for (n, line) in (1..).zip(&mut swapped) {
            line.seq = n;
        }
        write_lines(&path, &swapped);
        let seq = Seq(at as u64 + 1);
        assert_eq!(broken(&store), (seq.0, DamageKind::Unlinked { seq }));
    }
}

#[test]
fn an_added_record_is_found_wherever_it_stands() {
    let (_folder, store, path) = written(&prompts("a", 3));
    let lines = read_lines(&path);
    for at in 0..=3 {
        let mut added = lines.clone();
        let mut forged = lines[at.min(2)].clone();
        forged.entry = forged.entry.replace("ünï", "lie");
        added.insert(at, forged);
        for (n, line) in (1..).zip(&mut added) {
            line.seq = n;
        }
        write_lines(&path, &added);
        let seq = Seq(at as u64 + 1);
        assert_eq!(broken(&store), (seq.0, DamageKind::Unlinked { seq }));
    }
    // As if an owner that had lost the journal had written it.
    let mut forged = lines[1].clone();
    forged.epoch = 0;
    forged.entry = forged.entry.replace("ünï", "lie");
    write_lines(&path, &[lines.clone(), vec![forged.clone()]].concat());
    assert_eq!(broken(&store), (4, DamageKind::Unlinked { seq: Seq(2) }));
    forged.chain = None;
    write_lines(&path, &[lines.clone(), vec![forged]].concat());
    assert_eq!(broken(&store), (4, DamageKind::NoHash { seq: Seq(2) }));
    write_lines(&path, &[lines.clone(), vec![lines[1].clone()]].concat());
    assert_eq!(broken(&store), (4, DamageKind::OutOfOrder { seq: Seq(2), after: Seq(3) }));
}

#[test]
fn f29_a_line_that_does_not_check_is_reported_wherever_it_stands() {
    let (_folder, store, path) = written(&prompts("a", 3));
    let whole = fs::read_to_string(&path).unwrap();
    for (n, line) in (1..).zip(whole.lines()) {
        fs::write(&path, whole.replace(line, &line.replace("ünï", "lie"))).unwrap();
        let (at, kind) = broken(&store);
        assert!(at == n && matches!(kind, DamageKind::BadLine(BadLine::Checksum { .. })), "{at} {kind:?}");
        fs::write(&path, whole.replace(line, "{}")).unwrap();
        let (at, kind) = broken(&store);
        assert!(at == n && matches!(kind, DamageKind::BadLine(BadLine::NotARecord { .. })), "{at} {kind:?}");
    }
}

#[test]
fn records_cut_off_the_end_are_found_by_a_head_that_was_noted() {
    let (_folder, store, path) = written(&prompts("a", 4));
    let head = is_whole(&store, 4);
    let lines = read_lines(&path);
    write_lines(&path, &lines[..3]);
    let shorter = is_whole(&store, 3);
    assert_eq!((verified(&store).find(&head), verified(&store).find(&shorter)), (None, Some(Seq(3))));
    // Going on gives other heads.
    let epoch = store.load(&id("s"), Take::Own).unwrap().epoch;
    store.append(&id("s"), epoch, &[prompt("other", "other")], Sync::Kernel).unwrap();
    is_whole(&store, 4);
    assert_eq!((verified(&store).find(&head), verified(&store).find(&shorter)), (None, Some(Seq(3))));
}

#[test]
fn a_chain_computed_anew_is_found_by_a_head_that_was_noted() {
    let (_folder, store, path) = written(&prompts("a", 3));
    let head = is_whole(&store, 3);
    let (mut bytes, mut after) = (Vec::new(), ChainHash::START);
    for (n, entry) in (1..).zip(prompts("lies", 3)) {
        after = encode(&after, Seq(n), 1, &entry, &mut bytes).unwrap();
    }
    fs::write(&path, bytes).unwrap();
    assert_eq!(is_whole(&store, 3), after);
    assert_eq!(verified(&store).find(&head), None);
}

#[test]
fn a_journal_without_hashes_is_covered_from_the_first_record_that_has_one() {
    let (_folder, store, path) = written(&prompts("a", 3));
    let session = id("s");
    let chained = read_lines(&path);
    let old: Vec<Line> = chained.iter().cloned().map(|line| Line { chain: None, ..line }).collect();
    write_lines(&path, &old);
    let checked = verified(&store);
    assert_eq!((checked.broken.clone(), checked.chained_from, checked.head()), (None, None, None));
    assert_eq!(checked.records(), 3);
    let epoch = store.load(&session, Take::Own).unwrap().epoch;
    store.append(&session, epoch, &prompts("b", 2), Sync::Kernel).unwrap();
    let checked = verified(&store);
    assert_eq!((checked.broken.clone(), checked.chained_from, checked.records()), (None, Some(4), 5));
    let lines = read_lines(&path);
    assert_eq!(lines[..3], old);
    for at in 0..3 {
        let mut edited = lines.clone();
        edited[at].entry = edited[at].entry.replace("ünï", "lie");
        write_lines(&path, &edited);
        assert_eq!(broken(&store), (4, DamageKind::Unlinked { seq: Seq(4) }));
    }
    let mut stripped = lines.clone();
    stripped[4].chain = None;
    write_lines(&path, &stripped);
    assert_eq!(broken(&store), (5, DamageKind::NoHash { seq: Seq(5) }));
}

#[test]
fn f33_what_a_stale_owner_wrote_is_noted_and_does_not_break_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(TestDisk::default());
    let old = Arc::new(store_on(folder.path(), &disk));
    let session = id("s");
    let epoch = old.own(&session).unwrap();
    old.append(&session, epoch, &prompts("a", 2), Sync::Kernel).unwrap();
    disk.close();
    let stale = std::thread::spawn({
        let (old, session) = (old.clone(), session.clone());
        move || old.append(&session, epoch, &prompts("stale", 2), Sync::Kernel)
    });
    disk.await_one_at_the_gate();
    let new = take_over(folder.path(), &old);
    let mine = new.own(&session).unwrap();
    new.append(&session, mine, &prompts("new", 1), Sync::Kernel).unwrap();
    disk.open();
    let by = Some(Holder { node: new.node().clone(), pid: std::process::id() });
    let cause = Box::new(StoreError::Fenced { session: session.clone(), epoch, by });
    assert_eq!(stale.join().unwrap(), Err(StoreError::InDoubt { cause }));
    let mine = new.load(&session, Take::Own).unwrap().epoch;
    new.append(&session, mine, &prompts("more", 1), Sync::Kernel).unwrap();
    let checked = verified(&new);
    assert_eq!((checked.broken.clone(), checked.records()), (None, 4));
    let notes: Vec<_> = checked.notes.iter().map(|note| (note.line, &note.kind)).collect();
    let of = |seq: u64| DamageKind::Stale { seq: Seq(seq), epoch };
    assert_eq!(notes, [(4, &of(3)), (5, &of(4))]);
    // The same with the old owner's lines before the new one's.
    let path = find(folder.path(), "s.journal");
    let mut lines = read_lines(&path);
    let first = lines.remove(2);
    lines.insert(4, first);
    write_lines(&path, &lines);
    let checked = verified(&new);
    assert_eq!((checked.broken.clone(), checked.records(), checked.notes.len()), (None, 4, 2));
    lines[3].entry = lines[3].entry.replace("ünï", "lie");
    write_lines(&path, &lines);
    assert_eq!(broken(&new), (4, DamageKind::Unlinked { seq: Seq(4) }));
}

#[test]
fn a_blob_is_in_the_chain_by_its_name_and_must_be_there() {
    let long = Arc::new(AgentMessage::user("x".repeat(70_000), 1));
    let (folder, store, path) =
        written(&[entry("long", 1, EntryBody::Restored { input_id: None, messages: vec![long] })]);
    is_whole(&store, 1);
    let lines = read_lines(&path);
    let name = lines[0].entry.split_once("$blob\":\"").unwrap().1[..64].to_owned();
    let blob = find(folder.path(), &name);
    let content = fs::read(&blob).unwrap();
    let lost = |store: &FileStore| match broken(store) {
        (1, DamageKind::LostBlob { seq: Seq(1), lost }) => lost.problem,
        other => panic!("{other:?}"),
    };
    fs::write(&blob, "y".repeat(70_000)).unwrap();
    assert_eq!(lost(&store), BlobProblem::Altered);
    fs::write(&blob, "y").unwrap();
    assert_eq!(lost(&store), BlobProblem::Length { expected: 70_000, found: 1 });
    fs::remove_file(&blob).unwrap();
    assert_eq!(lost(&store), BlobProblem::Missing);
    // Another content under a name of its own is another record.
    let other = playhouse_session::blob::BlobName::of(&[b'y'; 70_000]);
    fs::write(blob.with_file_name(other.as_str()), "y".repeat(70_000)).unwrap();
    fs::write(&blob, content).unwrap();
    let mut edited = lines.clone();
    edited[0].entry = edited[0].entry.replace(&name, other.as_str());
    write_lines(&path, &edited);
    assert_eq!(broken(&store), (1, DamageKind::Unlinked { seq: Seq(1) }));
}

#[test]
fn a_journal_in_another_s_place_is_found() {
    let (folder, store, path) = written(&[opened("s"), prompt("a", "a")]);
    is_whole(&store, 2);
    let epoch = store.own(&id("t")).unwrap();
    store.append(&id("t"), epoch, &[opened("t")], Sync::Kernel).unwrap();
    fs::copy(&path, find(folder.path(), "t.journal")).unwrap();
    let damage = store.verify(&id("t")).unwrap().broken.unwrap();
    assert_eq!((damage.line, damage.kind), (1, DamageKind::OtherSession { says: id("s") }));
}

#[test]
fn bytes_are_checked_without_a_store_and_an_unknown_session_is_an_error() {
    let (_folder, store, path) = written(&prompts("a", 2));
    let bytes = fs::read(&path).unwrap();
    let checked = Verification::read(&id("s"), bytes.as_slice(), &NoBlobs).unwrap();
    assert_eq!((checked.broken.clone(), checked.head()), (None, Some(is_whole(&store, 2))));
    let text = String::from_utf8(bytes).unwrap().replace("\"epoch\":1", "\"epoch\":2");
    assert!(Verification::read(&id("s"), text.as_bytes(), &NoBlobs).unwrap().broken.is_some());
    assert_eq!(store.verify(&id("x")).unwrap_err(), StoreError::Unknown { session: id("x") });
}
