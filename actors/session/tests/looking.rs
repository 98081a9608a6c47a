//! Looking at a data directory that others use, that nobody may write to, or that dead processes left in disorder.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{find, id, opened, prompts, snapshot};
use playhouse_protocol::NodeId;
use playhouse_session::{FileStore, Store, StoreError, Sync, Take};

fn with_a_session(folder: &Path) -> FileStore {
    let store = FileStore::open(folder).unwrap();
    let epoch = store.own(&id("s")).unwrap();
    store.append(&id("s"), epoch, &[vec![opened("s")], prompts("s", 2)].concat(), Sync::Disk).unwrap();
    store
}

#[test]
fn lists_do_not_fail_while_others_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_a_session(folder.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    drop(FileStore::open(folder.path()).unwrap());
                }
            });
        }
        let lists: Vec<_> = (0..2_000).map(|_| store.list().map(|all| all.len())).collect();
        done.store(true, Ordering::SeqCst);
        assert!(lists.iter().all(|list| *list == Ok(1)), "{:?}", lists.iter().find(|list| **list != Ok(1)));
    });
    // What is no journal's folder is passed over, whatever it holds.
    fs::create_dir(folder.path().join("sessions/.writable-0815")).unwrap();
    fs::write(folder.path().join("sessions/.writable-0815/x.journal"), "").unwrap();
    assert_eq!(store.sessions().unwrap(), [id("s")]);
}

#[test]
fn f32_a_journal_without_a_record_is_not_broken() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_a_session(folder.path());
    fs::write(find(folder.path(), "s.journal"), "").unwrap();
    let checked = store.verify(&id("s")).unwrap();
    assert_eq!((checked.records(), checked.broken.clone(), checked.head()), (0, None, None));
}

#[test]
fn f34_a_data_directory_that_nobody_may_write_to_can_be_looked_at() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let folder = tempfile::tempdir().unwrap();
    drop(with_a_session(folder.path()));
    let before = snapshot(folder.path());
    let chmod = |mode| {
        let mut all = vec![folder.path().to_owned()];
        all.extend(["sessions", "owners"].map(|name| folder.path().join(name)));
        all.push(find(folder.path(), "s.journal").parent().unwrap().to_owned());
        all.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap());
    };
    chmod(0o500);
    let thread = std::thread::spawn({
        let folder = folder.path().to_owned();
        move || {
            // Root passes by permissions unless it gives that up.
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            set_capabilities(None, sets).unwrap();
            assert!(matches!(FileStore::open(&folder), Err(StoreError::Denied { .. })));
            let store = FileStore::look(&folder).unwrap();
            assert_eq!(store.list().unwrap().len(), 1);
            assert_eq!(store.load(&id("s"), Take::Peek).unwrap().entries.len(), 3);
            assert_eq!(store.verify(&id("s")).unwrap().records(), 3);
            let refused = Err(StoreError::OnlyLooks);
            assert_eq!(store.load(&id("s"), Take::Own).map(drop), refused);
            assert_eq!(store.load(&id("new"), Take::Own).map(drop), refused);
            assert_eq!(store.remove(&id("s")), refused);
        }
    });
    let looked = thread.join();
    chmod(0o700);
    looked.unwrap();
    assert_eq!(snapshot(folder.path()), before, "looking leaves nothing behind");
    let absent = FileStore::look(folder.path().join("nothing")).unwrap();
    assert_eq!((absent.list().unwrap(), absent.sessions().unwrap()), (vec![], vec![]));
}

#[test]
fn what_dead_processes_left_is_swept_and_what_a_live_one_works_on_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_a_session(folder.path());
    let journal = find(folder.path(), "s.journal");
    let shard = journal.parent().unwrap();
    let owners = folder.path().join("owners");
    // A process that is about to get its name holds its draft's lock.
    let coming = fs::File::create(owners.join("coming.lock.new")).unwrap();
    coming.lock().unwrap();
    for left in [owners.join("killed.lock.new"), owners.join("dead.lock"), shard.join("s.owner.new")] {
        fs::write(left, "{}").unwrap();
    }
    let gone = shard.join("gone.journal.new");
    fs::write(&gone, "half").unwrap();
    fs::write(shard.join("s.journal.new"), "half").unwrap();
    let names = || {
        let all = snapshot(folder.path()).into_iter().map(|(path, _)| path.file_name().unwrap().to_owned());
        let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
        all.retain(|name| name.ends_with(".new") || name == "dead.lock");
        all
    };
    let second = FileStore::open(folder.path()).unwrap();
    let dead = second.dead_nodes().unwrap();
    assert_eq!(dead, [NodeId::from("dead")]);
    second.bury(&dead).unwrap();
    assert_eq!(names(), ["coming.lock.new", "s.journal.new"], "`s` is held, and may be written anew right now");
    drop(store);
    fs::write(owners.join("dead.lock"), "{}").unwrap();
    second.bury(&second.dead_nodes().unwrap()).unwrap();
    assert_eq!(names(), ["coming.lock.new"]);
}
