//! Disks that fail, and folders that cannot be a store.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::Ordering;

use common::{Fault, TestDisk, find, id, numbered, opened_with, prompt, prompts, snapshot, store_on};
use playhouse_protocol::{Fate, Seq};
use playhouse_session::{Damage, DamageKind, FileOptions, FileStore, Store, StoreError, Sync, Take};

#[test]
fn f30_a_full_disk_loses_nothing_acknowledged_and_its_tail_is_left_to_the_loader() {
    for fault in [Fault::FullAtWrite(4), Fault::ShortAtWrite(4)] {
        let folder = tempfile::tempdir().unwrap();
        let disk = TestDisk::with(&[fault]);
        let store = store_on(folder.path(), &disk);
        let session = id("s");
        let epoch = store.own(&session).unwrap();
        let safe = prompts("safe", 2);
        store.append(&session, epoch, &safe, Sync::Disk).unwrap();
        let path = find(folder.path(), "s.journal");
        // The batch's second record does not fit: the first one is there, and nobody can say whether it will stay.
        let cut = prompts("cut", 3);
        let error = store.append(&session, epoch, &cut, Sync::Disk).unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown, "{error}");
        let says = match fault {
            Fault::FullAtWrite(_) => "the disk is full; free some space, then resume",
            _ => "bytes were written; see that there is space",
        };
        assert!(error.to_string().contains(says) && error.to_string().contains(path.to_str().unwrap()), "{error}");
        let left = fs::read(&path).unwrap();
        // There is room again, but what follows the failed batch must not stand without it.
        let writes = disk.writes.load(Ordering::SeqCst);
        assert_eq!(store.append(&session, epoch, &prompts("next", 1), Sync::Kernel), Err(error.clone()));
        assert_eq!(store.own(&session), Err(error));
        assert_eq!(disk.writes.load(Ordering::SeqCst), writes);
        assert_eq!(fs::read(&path).unwrap(), left, "only a load, which makes sure of ownership, cuts the tail");
        let loaded = store.load(&session, Take::Own).unwrap();
        assert_eq!((loaded.entries, loaded.epoch), (numbered(1, &[&safe[..], &cut[..1]].concat()), epoch));
        assert!(matches!(loaded.damage[..], [Damage { kind: DamageKind::Torn { .. }, .. }]), "{:?}", loaded.damage);
        // Whoever says it again is heard once.
        assert_eq!(store.append(&session, epoch, &cut, Sync::Disk).unwrap(), [3, 4, 5].map(Seq));
        assert_eq!(store.verify(&session).unwrap().broken, None);
    }
}

#[test]
fn f30_what_was_not_written_at_all_is_known_not_to_be_there() {
    for fault in [Fault::NothingAtWrite(2), Fault::FullAtBlob(1)] {
        let folder = tempfile::tempdir().unwrap();
        let store = store_on(folder.path(), &TestDisk::with(&[fault]));
        let session = id("s");
        let epoch = store.own(&session).unwrap();
        store.append(&session, epoch, &prompts("a", 1), Sync::Disk).unwrap();
        let long = prompt("long", &"x".repeat(70_000));
        let error = store.append(&session, epoch, std::slice::from_ref(&long), Sync::Disk).unwrap_err();
        assert_eq!((error.fate(), matches!(error, StoreError::DiskFull { .. })), (Fate::NotWritten, true), "{error}");
        let left = snapshot(folder.path()).into_iter().filter(|(_, content)| content.len() == 70_000).count();
        assert_eq!(left, 0, "the room of a blob that nothing names may be needed");
        let loaded = store.load(&session, Take::Own).unwrap();
        assert_eq!((loaded.entries, loaded.damage), (numbered(1, &prompts("a", 1)), vec![]));
        assert_eq!(store.append(&session, epoch, &[long], Sync::Disk).unwrap(), [Seq(2)]);
    }
}

#[test]
fn f30_blobs_of_records_that_may_remain_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_on(folder.path(), &TestDisk::with(&[Fault::FullAtWrite(2)]));
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let all = [prompt("whole", &"x".repeat(70_000)), prompt("torn", &"y".repeat(70_000))];
    assert_eq!(store.append(&session, epoch, &all, Sync::Kernel).unwrap_err().fate(), Fate::Unknown);
    assert_eq!(store.load(&session, Take::Own).unwrap().entries, numbered(1, &all[..1]));
}

#[test]
fn f30_what_was_written_before_the_disk_was_full_can_still_be_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_on(folder.path(), &TestDisk::with(&[Fault::FullAtWrite(2)]));
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("a", 1), Sync::Kernel).unwrap();
    store.append(&session, epoch, &prompts("b", 1), Sync::Kernel).unwrap_err();
    store.flush(&session, epoch).unwrap();
}

#[test]
fn f31_a_failed_flush_is_final_until_the_journal_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[Fault::ErrorAtFlush(2)]);
    let store = store_on(folder.path(), &disk);
    let (session, other) = (id("s"), id("other"));
    let epoch = store.own(&session).unwrap();
    let all = prompts("s", 2);
    store.append(&session, epoch, &all[..1], Sync::Disk).unwrap();
    let path = find(folder.path(), "s.journal");
    let error = store.append(&session, epoch, &all[1..], Sync::Disk).unwrap_err();
    let cause = Box::new(StoreError::FlushFailed { place: path.clone().into(), reason: "injected flush error".into() });
    let expected = StoreError::InDoubt { cause };
    assert_eq!((&error, error.fate()), (&expected, Fate::Unknown));
    let (writes, flushes) = (disk.writes.load(Ordering::SeqCst), disk.flushes.load(Ordering::SeqCst));
    for _ in 0..3 {
        assert_eq!(store.append(&session, epoch, &all[1..], Sync::Disk), Err(expected.clone()));
        assert_eq!(store.append(&session, epoch, &prompts("more", 1), Sync::Kernel), Err(expected.clone()));
        assert_eq!(store.flush(&session, epoch), Err(expected.clone()));
        assert_eq!(store.own(&session), Err(expected.clone()));
    }
    assert_eq!(disk.writes.load(Ordering::SeqCst), writes, "nothing is written to a journal in doubt");
    assert_eq!(disk.flushes.load(Ordering::SeqCst), flushes, "and no flush is tried again as if it were clean");
    let epoch_of_other = store.own(&other).unwrap();
    store.append(&other, epoch_of_other, &prompts("o", 1), Sync::Disk).unwrap();
    // Even when it was put to rest in between, its bytes are written again before anyone builds on them.
    store.rest(&session).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
    assert_eq!((loaded.entries, loaded.damage), (numbered(1, &all), vec![]));
    assert_eq!(store.append(&session, epoch, &[prompt("next", "x")], Sync::Disk).unwrap(), [Seq(3)]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn flushing_what_is_clean_costs_nothing_and_what_was_found_is_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::with(&[]);
    let store = store_on(folder.path(), &disk);
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let all = prompts("s", 2);
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    store.flush(&session, epoch).unwrap();
    assert_eq!(disk.flushes.load(Ordering::SeqCst), 1);
    // Nobody knows whether the bytes that a load finds are on the disk: it flushes them, once.
    store.load(&session, Take::Own).unwrap();
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    assert_eq!((disk.writes.load(Ordering::SeqCst), disk.flushes.load(Ordering::SeqCst)), (2, 2));
}

/// A journal whose owner died after the write and before the flush.
fn left_unflushed(folder: &Path, durability: &str) -> Vec<std::sync::Arc<playhouse_protocol::Entry>> {
    let old = FileStore::open(folder).unwrap();
    let epoch = old.own(&id("s")).unwrap();
    let all = vec![opened_with("s", durability), prompt("p", &"x".repeat(70_000))];
    old.append(&id("s"), epoch, &all, Sync::Kernel).unwrap();
    all
}

#[test]
fn f54_a_journal_that_is_taken_over_is_flushed_before_anyone_acts_on_it() {
    for (durability, flushes, folders) in [("flush", 2, 3), ("os", 0, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let all = left_unflushed(folder.path(), durability);
        let disk = TestDisk::with(&[]);
        let store = store_on(folder.path(), &disk);
        let counted = || (disk.flushes.load(Ordering::SeqCst), disk.folders.load(Ordering::SeqCst));
        assert_eq!(store.load(&id("s"), Take::Own).unwrap().entries, numbered(1, &all));
        assert_eq!(counted(), (flushes, folders), "{durability}: blob and journal, and the folders of both");
    }
}

#[test]
fn f54_a_journal_that_cannot_be_flushed_is_not_taken_over() {
    for at in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let all = left_unflushed(folder.path(), "flush");
        // The flush of the blob, then that of the journal; the next load writes both anew, and that fails once more.
        let disk = TestDisk::with(&[Fault::ErrorAtFlush(at), Fault::ErrorAtFlush(at + 1)]);
        let store = store_on(folder.path(), &disk);
        for _ in 0..2 {
            let error = store.load(&id("s"), Take::Own).unwrap_err();
            assert!(matches!(error, StoreError::FlushFailed { .. }), "{error}");
        }
        let loaded = store.load(&id("s"), Take::Own).unwrap();
        assert_eq!((loaded.entries, loaded.damage), (numbered(1, &all), vec![]));
    }
}

#[test]
fn a_journal_that_someone_else_changed_or_deleted_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("a", 1), Sync::Kernel).unwrap();
    let path = find(folder.path(), "s.journal");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"edited by hand\n"].concat()).unwrap();
    let error = store.append(&session, epoch, &prompts("b", 1), Sync::Kernel).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert_eq!(store.load(&session, Take::Own).unwrap().entries.len(), 1);
    store.append(&session, epoch, &prompts("b", 1), Sync::Kernel).unwrap();
    fs::remove_file(&path).unwrap();
    let error = store.append(&session, epoch, &prompts("c", 1), Sync::Kernel).unwrap_err();
    assert!(matches!(error, StoreError::Changed { found: 0, .. }), "{error}");
}

#[test]
fn many_journals_need_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open_with(folder.path(), FileOptions { open_files: 4, ..FileOptions::default() }).unwrap();
    let sessions: Vec<_> = (0..20).map(|n| id(&format!("s{n}"))).collect();
    for round in 0..3 {
        for session in &sessions {
            let epoch = store.own(session).unwrap();
            let seqs = store.append(session, epoch, &prompts(&format!("r{round}"), 1), Sync::Kernel).unwrap();
            assert_eq!(seqs, [Seq(round + 1)]);
            assert!(store.open_files() <= 4);
        }
    }
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    let journals = open.filter(|path| path.starts_with(folder.path()) && path.to_str().unwrap().ends_with(".journal"));
    assert_eq!(journals.count(), 4);
    for session in &sessions {
        store.flush(session, 1).unwrap();
        assert_eq!(store.load(session, Take::Peek).unwrap().entries.len(), 3);
    }
}

#[test]
fn files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let store = FileStore::open(&data).unwrap();
    let epoch = store.own(&id("s")).unwrap();
    store.append(&id("s"), epoch, &prompts("s", 1), Sync::Disk).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, _) in snapshot(&data) {
        assert_eq!(mode(&path), 0o600, "{path:?}");
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{path:?}");
    }
    assert_eq!(mode(&data), 0o700);
    let journal = find(&data, "s.journal");
    assert_eq!(journal.parent().unwrap().file_name().unwrap().len(), 2);
}

#[test]
fn f34_linked_folders_and_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let refused = |data: &Path, link: &Path| {
        let error = FileStore::open(data).unwrap_err();
        assert_eq!(error, StoreError::Symlink { place: link.to_owned().into() });
        assert!(error.to_string().contains("give the real path"), "{error}");
    };
    let data = folder.path().join("data");
    symlink(&real, &data).unwrap();
    refused(&data, &data);
    fs::remove_file(&data).unwrap();
    for below in ["sessions", "owners"] {
        fs::create_dir_all(&data).unwrap();
        symlink(&real, data.join(below)).unwrap();
        refused(&data, &data.join(below));
        fs::remove_dir_all(&data).unwrap();
    }
    symlink(folder.path().join("nowhere"), &data).unwrap();
    refused(&data, &data);
    fs::remove_file(&data).unwrap();

    let store = FileStore::open(&data).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("s", 1), Sync::Kernel).unwrap();
    let path = find(&data, "s.journal");
    fs::rename(&path, real.join("elsewhere")).unwrap();
    symlink(real.join("elsewhere"), &path).unwrap();
    for take in [Take::Own, Take::Peek] {
        assert_eq!(store.load(&session, take), Err(StoreError::Symlink { place: path.clone().into() }));
    }
    let shard = path.parent().unwrap();
    fs::rename(shard, real.join("shard")).unwrap();
    symlink(real.join("shard"), shard).unwrap();
    store.rest(&session).unwrap();
    assert_eq!(store.load(&session, Take::Own), Err(StoreError::Symlink { place: shard.to_owned().into() }));
}

#[test]
fn f34_something_else_in_place_of_a_folder_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "a file").unwrap();
    assert_eq!(FileStore::open(&data).unwrap_err(), StoreError::NotAFolder { place: data.clone().into() });
    assert!(matches!(FileStore::open(data.join("below")).unwrap_err(), StoreError::NotAFolder { .. }));
    fs::remove_file(&data).unwrap();
    fs::create_dir(&data).unwrap();
    fs::write(data.join("sessions"), "a file").unwrap();
    assert_eq!(FileStore::open(&data).unwrap_err(), StoreError::NotAFolder { place: data.join("sessions").into() });
}

#[test]
fn f64_a_data_directory_that_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(FileStore::open(&data).unwrap());
    for (place, mode) in [(data.clone(), 0o770), (data.join("sessions"), 0o702), (data.join("owners"), 0o720)] {
        fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        let refused = FileStore::open(&data).unwrap_err();
        assert_eq!(refused, StoreError::Shared { place: place.clone().into(), owner: None });
        assert!(refused.to_string().contains(&format!("chmod go-w {}", place.display())), "{refused}");
        // Whoever only looks does not act on it.
        drop(FileStore::look(&data).unwrap());
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        drop(FileStore::open(&data).unwrap());
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, Some(12_345), None).unwrap();
        assert_eq!(
            FileStore::open(&data).unwrap_err(),
            StoreError::Shared { place: data.clone().into(), owner: Some(12_345) }
        );
    }
}

#[test]
fn f64_a_journal_that_others_can_write_is_not_acted_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let session = id("s");
    let store = FileStore::open(&data).unwrap();
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("a", 1), Sync::Disk).unwrap();
    drop(store);
    let journal = find(&data, "s.journal");
    for (place, mode, usual) in [(journal.as_path(), 0o666, 0o600), (journal.parent().unwrap(), 0o777, 0o700)] {
        fs::set_permissions(place, Permissions::from_mode(mode)).unwrap();
        let refused = FileStore::open(&data).unwrap().load(&session, Take::Own).unwrap_err();
        assert_eq!(refused, StoreError::Shared { place: place.into(), owner: None });
        fs::set_permissions(place, Permissions::from_mode(usual)).unwrap();
        assert_eq!(FileStore::open(&data).unwrap().load(&session, Take::Own).unwrap().entries.len(), 1);
    }
}

/// Takes this thread's right to pass by file permissions, which root has.
fn become_ordinary() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, sets).unwrap();
}

#[test]
fn f34_a_folder_without_permission_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(FileStore::open(&data).unwrap());
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_ordinary();
            for (locked, mode) in [("", 0o000), ("", 0o600), ("sessions", 0o500), ("owners", 0o500), ("owners", 0o000)]
            {
                let path = data.join(locked);
                chmod(&path, mode);
                let opened = FileStore::open(&data);
                chmod(&path, 0o700);
                let error = opened.unwrap_err();
                assert!(matches!(error, StoreError::Denied { .. }), "{locked} {mode:o}: {error}");
                assert!(error.to_string().contains(data.to_str().unwrap()), "{error}");
            }
            chmod(&data, 0o500);
            assert!(matches!(FileStore::open(data.join("new")).unwrap_err(), StoreError::Denied { .. }));
            chmod(&data, 0o700);
            FileStore::open(&data).unwrap();
        });
        thread.join().unwrap();
    });
}

#[test]
fn f34_a_journal_that_cannot_be_read_is_listed_as_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    for name in ["good", "locked"] {
        let epoch = store.own(&id(name)).unwrap();
        store.append(&id(name), epoch, &prompts(name, 1), Sync::Kernel).unwrap();
    }
    let path = find(folder.path(), "locked.journal");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_ordinary();
            let list = store.list().unwrap();
            let seen: Vec<_> = list.iter().map(|s| (s.session_id.as_str(), s.entries, s.damage.len())).collect();
            assert_eq!(seen, [("good", 1, 0), ("locked", 0, 1)]);
            assert_eq!(store.load(&id("locked"), Take::Peek), Err(StoreError::Denied { place: path.clone().into() }));
        });
        thread.join().unwrap();
    });
}
