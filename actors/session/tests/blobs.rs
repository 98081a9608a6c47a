//! Long strings as files beside the journal: where they are, when they are flushed, and what happens when they are
//! damaged or the disk fails.

mod common;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::stage::{Stage, committed};
use common::{Fault, TestDisk, entry, find, id, numbered, opened, prompt, snapshot, store_on};
use playhouse_protocol::{AgentMessage, Class, Content, Durability, Entry, EntryBody, Message, Seq};
use playhouse_session::blob::{BlobName, BlobProblem, INLINE_LIMIT, LostBlob};
use playhouse_session::disk::{Disk, Kernel};
use playhouse_session::{Damage, DamageKind, FileOptions, FileStore, Store, StoreError, Sync, Take};

/// Just long enough to be a blob.
fn long(fill: char) -> String {
    fill.to_string().repeat(INLINE_LIMIT + 1)
}

fn one(entry: &Arc<Entry>) -> &[Arc<Entry>] {
    std::slice::from_ref(entry)
}

fn said(name: &str, content: Vec<Content>) -> Arc<Entry> {
    entry(
        name,
        2_000,
        EntryBody::Restored {
            input_id: None,
            messages: vec![Arc::new(Message::User { content, timestamp: 1 }.into())],
        },
    )
}

fn extension(name: &str, data: serde_json::Value) -> Arc<Entry> {
    entry(
        name,
        2_000,
        EntryBody::Restored { input_id: None, messages: vec![Arc::new(AgentMessage::extension("note", data))] },
    )
}

fn blob_path(folder: &Path, content: &str) -> PathBuf {
    find(folder, &format!("s.blobs/{}", BlobName::of(content.as_bytes()).as_str()))
}

/// The names of the blobs of session `s`, drafts and markers included.
fn in_folder(folder: &Path) -> Vec<String> {
    let all = snapshot(folder).into_iter().map(|(path, _)| path);
    let blobs = all.filter(|path| path.parent().unwrap().to_str().unwrap().ends_with("s.blobs"));
    blobs.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn lost(content: &str, problem: BlobProblem) -> LostBlob {
    LostBlob { blob: BlobName::of(content.as_bytes()), problem }
}

#[test]
fn a_long_string_is_a_private_file_by_its_hash_and_short_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let just_fits = "x".repeat(INLINE_LIMIT);
    let all = [prompt("fits", &just_fits), prompt("long", &long('x')), prompt("again", &long('x'))];
    store.append(&session, epoch, &all[..1], Sync::Disk).unwrap();
    assert_eq!(in_folder(folder.path()), [""; 0], "no blob, no folder");
    store.append(&session, epoch, &all[1..], Sync::Disk).unwrap();
    let path = blob_path(folder.path(), &long('x'));
    assert_eq!(fs::read_to_string(&path).unwrap(), long('x'));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(in_folder(folder.path()), [path.file_name().unwrap().to_str().unwrap()], "one file, nothing else");
    let journal = fs::read_to_string(find(folder.path(), "s.journal")).unwrap();
    let lines: Vec<_> = journal.lines().collect();
    assert!(lines[0].len() > INLINE_LIMIT && !lines[0].contains("\"blobs\""));
    for line in &lines[1..] {
        assert!(line.len() < 1_000 && line.contains("\"blobs\":true,\"entry\":{"), "{line}");
        assert!(
            line.contains(&format!(
                "{{\"$blob\":\"{}\",\"bytes\":65537}}",
                BlobName::of(long('x').as_bytes()).as_str()
            ))
        );
    }
    assert_eq!(store.load(&session, Take::Own).unwrap().entries, numbered(1, &all));
}

#[test]
fn data_that_looks_like_a_reference_comes_back_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let name = BlobName::of(long('x').as_bytes());
    let impostor = serde_json::json!({
        "$blob": name, "bytes": 65_537,
        "deep": [{"$blob": name, "bytes": 1}, {"$$blob": null, "$blob": {"$blob": 1}}, "{\"$blob\":\"text\"}"],
    });
    let with_a_blob = serde_json::json!({"$blob": {"$blob": long('x')}, "data": impostor, "$$$blob": long('y')});
    let all = [extension("plain", impostor), extension("mixed", with_a_blob)];
    store.append(&session, epoch, &all, Sync::Kernel).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, &all), vec![]));
    let journal = fs::read_to_string(find(folder.path(), "s.journal")).unwrap();
    let marked: Vec<_> = journal.lines().map(|line| line.contains("\"blobs\":true")).collect();
    assert_eq!(marked, [false, true], "an entry without a blob is not marked");
}

#[test]
fn an_entry_as_deep_as_can_be_may_hold_a_blob_at_its_bottom() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let mut value = serde_json::json!(long('x'));
    // The entry, its body, its messages and the message are four more levels.
    for _ in 0..playhouse_session::record::MAX_DEPTH - 4 {
        value = serde_json::json!([value]);
    }
    let deepest = extension("deepest", value.clone());
    store.append(&session, epoch, one(&deepest), Sync::Kernel).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, one(&deepest)), vec![]));
    let deeper = extension("deeper", serde_json::json!([value]));
    assert!(matches!(store.append(&session, epoch, &[deeper], Sync::Kernel), Err(StoreError::Unencodable { .. })));
}

#[test]
fn f28_a_record_with_a_blob_torn_anywhere_is_cut_and_can_be_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let all = [prompt("short", "eins"), prompt("long", &long('x'))];
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    let path = find(folder.path(), "s.journal");
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let blob = blob_path(folder.path(), &long('x'));
    let inode = fs::metadata(&blob).unwrap().ino();
    for cut in second..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        // Cutting the tail costs flushes, so not every time.
        let take = if cut % 8 == 0 || cut == whole.len() - 1 { Take::Own } else { Take::Peek };
        let loaded = store.load(&session, take).unwrap();
        assert_eq!(loaded.entries, numbered(1, &all[..1]), "cut at {cut}");
        assert_eq!(loaded.damage.len(), usize::from(cut > second && take == Take::Own), "cut at {cut}");
    }
    // The blob that no record names any more is used again.
    assert_eq!(store.append(&session, epoch, &all, Sync::Disk).unwrap(), [Seq(1), Seq(2)]);
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(fs::metadata(&blob).unwrap().ino(), inode);
    assert_eq!(store.load(&session, Take::Own).unwrap().entries, numbered(1, &all));
}

#[test]
fn f29_a_damaged_blob_is_reported_and_a_note_stands_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let good = Content::text(long('g'));
    let entry = said("e", vec![Content::text(long('x')), good.clone()]);
    store.append(&session, epoch, &[opened("s"), entry.clone()], Sync::Disk).unwrap();
    let path = blob_path(folder.path(), &long('x'));
    let length = |found| BlobProblem::Length { expected: 65_537, found };
    let altered = long('x').replacen('x', "y", 1);
    for (content, problem, note) in [
        (None, BlobProblem::Missing, "is missing"),
        (Some(""), length(0), "has 0 bytes instead of 65537"),
        (Some(&long('x')[1..]), length(65_536), "has 65536 bytes instead of 65537"),
        (Some(altered.as_str()), BlobProblem::Altered, "was altered"),
    ] {
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let before = snapshot(folder.path());
        let lost = lost(&long('x'), problem.clone());
        let text = format!("[content lost: blob {} {note}]", lost.blob.short());
        let noted = said("e", vec![Content::text(text), good.clone()]);
        let journal = fs::read(find(folder.path(), "s.journal")).unwrap();
        let offset = journal.iter().position(|byte| *byte == b'\n').unwrap() as u64 + 1;
        let damage = vec![Damage { line: 2, offset, kind: DamageKind::LostBlob { seq: Seq(2), lost } }];
        let peeked = store.load(&session, Take::Peek).unwrap();
        assert_eq!((&peeked.entries, &peeked.damage), (&numbered(1, &[opened("s"), noted]), &damage), "{problem}");
        assert_eq!(snapshot(folder.path()), before, "a look changes nothing");
        assert_eq!(store.load(&session, Take::Own).unwrap(), peeked);
        let shown = peeked.damage[0].to_string();
        assert!(shown.starts_with("line 2: a part of entry 2 is lost") && shown.ends_with(note), "{shown}");
        let listed = store.list().unwrap().remove(0);
        let expected = if problem == BlobProblem::Altered { vec![] } else { damage };
        assert_eq!((listed.entries, listed.damage), (2, expected), "a list does not read all of a blob");
    }
    // The same content comes again: the damaged blob is replaced, and both entries are whole.
    store.append(&session, epoch, &[said("e2", vec![Content::text(long('x'))])], Sync::Disk).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((&loaded.entries[1].1, loaded.entries.len(), loaded.damage), (&entry, 3, vec![]));
}

#[test]
fn f29_a_lost_image_is_a_text_that_every_provider_takes() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let image = Content::Image { data: long('A'), mime_type: "image/png".into() };
    let hello = Content::text("hello");
    store.append(&session, epoch, &[said("e", vec![hello.clone(), image])], Sync::Disk).unwrap();
    fs::remove_file(blob_path(folder.path(), &long('A'))).unwrap();
    let note = Content::text(lost(&long('A'), BlobProblem::Missing).note());
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(loaded.entries, numbered(1, &[said("e", vec![hello, note])]));
}

#[test]
fn f34_linked_blobs_are_refused_and_what_is_no_loss_is_not_reported_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &[prompt("p", &long('x'))], Sync::Disk).unwrap();
    let path = blob_path(folder.path(), &long('x'));
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let refused = || [Take::Peek, Take::Own].map(|take| store.load(&session, take).unwrap_err());
    let linked = StoreError::Symlink { place: path.clone().into() };
    assert_eq!(refused(), [linked.clone(), linked]);
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    for error in refused() {
        assert!(error.to_string().contains("could not read a blob: it is not a file"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(store.load(&session, Take::Own).unwrap().damage, []);
    let blobs = path.parent().unwrap();
    fs::rename(blobs, &elsewhere).unwrap();
    symlink(&elsewhere, blobs).unwrap();
    let linked = StoreError::Symlink { place: blobs.to_owned().into() };
    assert_eq!(refused(), [linked.clone(), linked.clone()]);
    fs::remove_file(blobs).unwrap();
    let epoch = store.load(&session, Take::Own).unwrap().epoch;
    symlink(&elsewhere, blobs).unwrap();
    assert_eq!(store.append(&session, epoch, &[prompt("q", &long('y'))], Sync::Kernel), Err(linked));
}

#[test]
fn removing_a_session_removes_its_blobs_and_what_crashes_left_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let (session, other) = (id("s"), id("other"));
    for session in [&session, &other] {
        let epoch = store.own(session).unwrap();
        store.append(session, epoch, &[prompt("p", &long('x'))], Sync::Kernel).unwrap();
    }
    let blobs = blob_path(folder.path(), &long('x')).parent().unwrap().to_owned();
    fs::write(blobs.join(format!("{}.1.new", "0".repeat(64))), "a draft").unwrap();
    fs::write(blobs.join("0".repeat(64)), "named by no record").unwrap();
    store.remove(&session).unwrap();
    assert!(!blobs.exists());
    assert_eq!(store.load(&other, Take::Own).unwrap().damage, [], "another session has its own");
}

/// What a store asked of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    WriteRecord,
    WriteBlob(char),
    FlushJournal,
    FlushBlob(char),
    FlushFolder(&'static str),
}

/// The kernel, with a record of what was asked of it.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Did>>);

impl Recorder {
    fn note(&self, did: Did) {
        self.0.lock().unwrap().push(did);
    }

    /// What was done since this was asked last.
    fn since(&self) -> Vec<Did> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn name(file: &File) -> String {
        fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap().to_str().unwrap().to_owned()
    }

    /// Tests' blobs are one character repeated.
    fn first_char(file: &File) -> char {
        use std::os::unix::fs::FileExt;
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).unwrap();
        byte[0].into()
    }
}

impl Disk for Recorder {
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
        self.note(Did::WriteRecord);
        Kernel.write(file, record)
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        self.note(match Self::name(file).ends_with(".journal") {
            true => Did::FlushJournal,
            false => Did::FlushBlob(Self::first_char(file)),
        });
        Kernel.flush(file)
    }

    fn write_blob(&self, file: &File, content: &[u8]) -> io::Result<()> {
        self.note(Did::WriteBlob(content[0].into()));
        Kernel.write_blob(file, content)
    }

    fn flush_folder(&self, folder: &File) -> io::Result<()> {
        self.note(Did::FlushFolder(if Self::name(folder).ends_with(".blobs") { "blobs" } else { "shard" }));
        Kernel.flush_folder(folder)
    }
}

fn recorded(folder: &Path) -> (FileStore, Arc<Recorder>) {
    let disk = Arc::new(Recorder::default());
    let options = FileOptions { disk: disk.clone(), ..FileOptions::default() };
    (FileStore::open_with(folder, options).unwrap(), disk)
}

#[test]
fn f32_blobs_are_on_the_disk_before_their_record_is_written() {
    use Did::*;
    let folder = tempfile::tempdir().unwrap();
    let (store, disk) = recorded(folder.path());
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let two = said("two", vec![Content::text(long('a')), Content::text(long('b')), Content::text(long('a'))]);
    store.append(&session, epoch, &[prompt("p", "short"), two], Sync::Disk).unwrap();
    let (flushed_a, flushed_b) = match BlobName::of(long('a').as_bytes()) < BlobName::of(long('b').as_bytes()) {
        true => (FlushBlob('a'), FlushBlob('b')),
        false => (FlushBlob('b'), FlushBlob('a')),
    };
    let [blobs, shard] = ["blobs", "shard"].map(FlushFolder);
    assert_eq!(
        disk.since(),
        [
            WriteBlob('a'),
            WriteBlob('b'),
            flushed_a,
            flushed_b,
            blobs.clone(),
            shard.clone(),
            WriteRecord,
            WriteRecord,
            FlushJournal,
            shard
        ]
    );
    assert_eq!(in_folder(folder.path()).len(), 2, "no marker is left");
    // What is on the disk already is neither written nor flushed again; the folder's name is there too by now.
    store.append(&session, epoch, &[prompt("q", &long('a'))], Sync::Disk).unwrap();
    assert_eq!(disk.since(), [WriteRecord, FlushJournal]);
    store.append(&session, epoch, &[prompt("r", &long('c'))], Sync::Disk).unwrap();
    assert_eq!(disk.since(), [WriteBlob('c'), FlushBlob('c'), blobs, WriteRecord, FlushJournal]);
}

#[test]
fn f32_a_later_flush_of_the_journal_flushes_the_blobs_first() {
    use Did::*;
    let folder = tempfile::tempdir().unwrap();
    let (store, disk) = recorded(folder.path());
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &[prompt("p", &long('a'))], Sync::Kernel).unwrap();
    assert_eq!(disk.since(), [WriteBlob('a'), WriteRecord]);
    assert_eq!(in_folder(folder.path()).iter().filter(|name| *name == "unflushed-1").count(), 1);
    let [blobs, shard] = ["blobs", "shard"].map(FlushFolder);
    store.flush(&session, epoch).unwrap();
    assert_eq!(disk.since(), [FlushBlob('a'), blobs.clone(), shard.clone(), FlushJournal, shard.clone()]);
    assert_eq!(in_folder(folder.path()).len(), 1, "no marker is left");
    // The flush that a short entry asks for covers the long one before it.
    store.append(&session, epoch, &[prompt("q", &long('b'))], Sync::Kernel).unwrap();
    store.append(&session, epoch, &[prompt("r", "short")], Sync::Disk).unwrap();
    let expected = [WriteBlob('b'), WriteRecord, FlushBlob('b'), blobs.clone(), WriteRecord, FlushJournal];
    assert_eq!(disk.since(), expected);
    // Whoever loads the journal next does not know the blobs that were left unflushed, but that there are some.
    store.append(&session, epoch, &[prompt("s", &long('c'))], Sync::Kernel).unwrap();
    drop(store);
    let (store, disk) = recorded(folder.path());
    let epoch = store.own(&session).unwrap();
    assert_eq!(epoch, 2);
    store.flush(&session, epoch).unwrap();
    let did = disk.since();
    assert_eq!(did.iter().filter(|did| matches!(did, FlushBlob(_))).count(), 3);
    assert_eq!(did[3..], [blobs, shard.clone(), FlushJournal, shard.clone()]);
    store.load(&session, Take::Own).unwrap();
    store.flush(&session, epoch).unwrap();
    assert_eq!(disk.since(), [FlushJournal, shard], "nobody left any");
}

#[tokio::test]
async fn f32_the_writer_flushes_blobs_before_the_records_that_it_will_flush() {
    use Did::*;
    let folder = tempfile::tempdir().unwrap();
    let (store, disk) = recorded(folder.path());
    let mut stage = Stage::on(Arc::new(store)).await;
    let session = id("s");
    let [blobs, shard] = ["blobs", "shard"].map(FlushFolder);
    let batch = stage.send(&session, &[prompt("p", &long('a'))]);
    assert_eq!(stage.report().await, committed(&session, batch, [1]));
    assert_eq!(disk.since(), [WriteBlob('a'), FlushBlob('a'), blobs, shard.clone(), WriteRecord, FlushJournal, shard]);
    for (class, durability, fill) in [(Class::P, Durability::Flush, 'b'), (Class::D, Durability::Os, 'c')] {
        stage.send_as(&session, &[prompt(&fill.to_string(), &long(fill))], class, durability);
        stage.report().await;
        assert_eq!(disk.since(), [WriteBlob(fill), WriteRecord]);
    }
}

#[test]
fn f30_a_blob_that_finds_no_room_is_as_a_record_that_finds_none() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::FullAtBlob(5)]);
    let store = store_on(folder.path(), &disk);
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let safe = [prompt("safe", &long('s')), prompt("unflushed", &long('u'))];
    store.append(&session, epoch, &safe[..1], Sync::Disk).unwrap();
    store.append(&session, epoch, &safe[1..], Sync::Kernel).unwrap();
    let before = snapshot(folder.path());
    // The batch's second entry names a blob that is there, one that fits and one that does not.
    let second = said("two", ['s', 'b', 'c'].map(|fill| Content::text(long(fill))).to_vec());
    let batch = [prompt("one", &long('a')), second];
    let error = store.append(&session, epoch, &batch, Sync::Kernel).unwrap_err();
    let blobs = blob_path(folder.path(), &long('s')).parent().unwrap().to_owned();
    let full = StoreError::DiskFull { place: blobs.join(BlobName::of(long('c').as_bytes()).as_str()).into() };
    assert_eq!(error, full);
    assert!(error.to_string().ends_with("the disk is full; free some space, then resume"), "{error}");
    assert!(snapshot(folder.path()) == before, "nothing of the batch takes room");
    assert_eq!(store.append(&session, epoch, &[prompt("next", "x")], Sync::Kernel), Err(full.clone()));
    assert_eq!(store.own(&session), Err(full));
    store.flush(&session, epoch).expect("what was written before can still be flushed");
    assert_eq!(in_folder(folder.path()).len(), 2, "the two safe ones, and no marker");
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, &safe), vec![]));
    assert_eq!(store.append(&session, epoch, &batch, Sync::Disk).unwrap(), [Seq(3), Seq(4)]);
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, &[&safe[..], &batch].concat()), vec![]));
}

#[test]
fn f31_after_a_failed_flush_of_a_blob_nothing_is_trusted_until_it_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::ErrorAtFlush(1)]);
    let store = store_on(folder.path(), &disk);
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let entry = prompt("p", &long('a'));
    store.append(&session, epoch, one(&entry), Sync::Kernel).unwrap();
    let path = blob_path(folder.path(), &long('a'));
    let cause = StoreError::FlushFailed { place: path.clone().into(), reason: "injected flush error".into() };
    let failed = StoreError::InDoubt { cause: Box::new(cause) };
    for _ in 0..2 {
        assert_eq!(store.flush(&session, epoch), Err(failed.clone()));
        assert_eq!(store.append(&session, epoch, &[prompt("q", "x")], Sync::Disk), Err(failed.clone()));
    }
    let inode = fs::metadata(&path).unwrap().ino();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, one(&entry)), vec![]));
    let meta = fs::metadata(&path).unwrap();
    assert_ne!(meta.ino(), inode);
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(in_folder(folder.path()).len(), 1, "neither draft nor marker is left");
    store.append(&session, epoch, &[prompt("q", "x")], Sync::Disk).unwrap();
}

#[test]
fn a_blob_that_someone_deleted_before_its_flush_is_not_flushed_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &[prompt("p", &long('a'))], Sync::Kernel).unwrap();
    let path = blob_path(folder.path(), &long('a'));
    fs::remove_file(&path).unwrap();
    let Err(StoreError::InDoubt { cause }) = store.flush(&session, epoch) else { panic!() };
    assert!(matches!(*cause, StoreError::FlushFailed { place, .. } if place == path.as_path().into()));
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(loaded.damage.len(), 1);
    store.flush(&session, loaded.epoch).unwrap();
}

#[test]
fn records_are_read_when_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let all = [prompt("a", &long('a')), prompt("b", &long('b'))];
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    let mut records = store.read(&session, Seq(1)).unwrap();
    assert_eq!(records.next().unwrap().unwrap(), (Seq(1), all[0].clone()));
    // The second one is on the disk and nowhere else.
    fs::remove_file(blob_path(folder.path(), &long('b'))).unwrap();
    let (seq, entry) = records.next().unwrap().unwrap();
    assert!(seq == Seq(2) && entry != all[1]);
    assert!(records.next().is_none());
    let damage = records.damage();
    assert!(
        matches!(damage[..], [Damage { line: 2, kind: DamageKind::LostBlob { seq: Seq(2), .. }, .. }]),
        "{damage:?}"
    );
}
