//! The power is cut at every single thing that a store asks of the disk: nothing that was acknowledged is lost.
//!
//! The disk here is a folder in which everything happens as usual, and beside it what would be left after a power cut: of
//! a file the bytes that were last flushed, of a folder the names that were last flushed.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{id, opened, prompt, prompts};
use playhouse_protocol::{Entry, SessionId};
use playhouse_session::disk::{Disk, Kernel};
use playhouse_session::{Appended, FileOptions, FileStore, Group, Store, StoreError, Sync, Take};

/// A file or folder: its inode, and how often that number was given away.
type Node = (u64, usize);

#[derive(Debug, Default)]
struct Flushed {
    asked: usize,
    generations: HashMap<u64, usize>,
    data: HashMap<Node, Vec<u8>>,
    names: HashMap<PathBuf, BTreeMap<OsString, Node>>,
}

impl Flushed {
    fn node(&self, inode: u64) -> Node {
        (inode, self.generations.get(&inode).copied().unwrap_or_default())
    }

    /// What stands in a folder as everybody sees it.
    fn seen(&self, folder: &Path) -> BTreeMap<OsString, Node> {
        let listed = fs::read_dir(folder).unwrap().map(Result::unwrap);
        listed.map(|entry| (entry.file_name(), self.node(entry.metadata().unwrap().ino()))).collect()
    }
}

/// A disk whose power is cut before it does the `cut`th thing.
#[derive(Debug)]
struct Power {
    cut: usize,
    flushed: Mutex<Flushed>,
}

/// What a power cut takes of names.
#[derive(Clone, Copy, Debug)]
enum Names {
    /// All that were not flushed.
    Unflushed,
    /// None: the disk had them already. It may not have had what stands in the files.
    None,
}

impl Power {
    fn cut_at(cut: usize) -> Arc<Self> {
        Arc::new(Self { cut, flushed: Mutex::default() })
    }

    /// Does the next thing, unless the power is gone.
    fn does<T>(&self, work: impl FnOnce(&mut Flushed) -> io::Result<T>) -> io::Result<T> {
        let mut flushed = self.flushed.lock().unwrap();
        flushed.asked += 1;
        match flushed.asked < self.cut {
            true => work(&mut flushed),
            false => Err(io::Error::other("the power is gone")),
        }
    }

    fn keep(&self, file: &File) -> io::Result<()> {
        self.does(|flushed| {
            let (path, meta) = (fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?, file.metadata()?);
            match meta.is_dir() {
                true => drop(flushed.names.insert(path.clone(), flushed.seen(&path))),
                // By its descriptor: the name may be another's by now.
                false => {
                    let content = fs::read(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
                    flushed.data.insert(flushed.node(meta.ino()), content);
                }
            }
            Ok(())
        })
    }

    /// Makes a folder of what is left of another.
    fn left(&self, of: &Path, names: Names, to: &Path) {
        let flushed = self.flushed.lock().unwrap();
        let listed = match names {
            Names::Unflushed => flushed.names.get(of).cloned().unwrap_or_default(),
            Names::None => flushed.seen(of),
        };
        drop(flushed);
        for (name, node) in listed {
            let (from, to) = (of.join(&name), to.join(&name));
            // Locks bind while their processes live, and after a power cut none does.
            if from.extension().is_some_and(|ending| ending == "lock") {
                continue;
            }
            let is_folder = self.flushed.lock().unwrap().names.contains_key(&from) || from.is_dir();
            if is_folder {
                fs::create_dir(&to).unwrap();
                if from.is_dir() {
                    self.left(&from, names, &to);
                }
            } else {
                let data = self.flushed.lock().unwrap().data.get(&node).cloned().unwrap_or_default();
                fs::write(&to, data).unwrap();
            }
        }
    }
}

impl Disk for Power {
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
        self.does(|_| Kernel.write(file, record))
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        self.keep(file)
    }

    fn write_blob(&self, file: &File, content: &[u8]) -> io::Result<()> {
        self.does(|_| Kernel.write_blob(file, content))
    }

    fn flush_folder(&self, folder: &File) -> io::Result<()> {
        self.keep(folder)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.keep(file)
    }

    fn create(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        self.does(|flushed| {
            let is_new = !path.exists();
            let file = Kernel.create(options, path)?;
            if is_new {
                *flushed.generations.entry(file.metadata()?.ino()).or_default() += 1;
            }
            Ok(file)
        })
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.does(|flushed| {
            Kernel.make_folder(path)?;
            flushed.names.insert(path.to_owned(), BTreeMap::new());
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.does(|_| Kernel.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.does(|_| Kernel.remove(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.does(|_| Kernel.remove_folder(path))
    }
}

/// What the stores said that they have done.
#[derive(Debug, Default)]
struct Acknowledged {
    entries: HashMap<SessionId, Vec<Arc<Entry>>>,
    removed: Vec<SessionId>,
}

impl Acknowledged {
    fn append(
        &mut self,
        store: &FileStore,
        session: &SessionId,
        epoch: u64,
        entries: Vec<Arc<Entry>>,
    ) -> Result<(), StoreError> {
        store.append(session, epoch, &entries, Sync::Disk)?;
        self.entries.entry(session.clone()).or_default().extend(entries);
        Ok(())
    }
}

/// A long string, which is a file of its own.
fn long(name: &str) -> Arc<Entry> {
    prompt(name, &name.repeat(70_000 / name.len() + 1))
}

/// A life of two processes with one data directory, until something fails.
fn live(data: &Path, disk: &Arc<Power>, done: &mut Acknowledged) -> Result<(), StoreError> {
    let open = || FileStore::open_with(data, FileOptions { disk: disk.clone(), ..FileOptions::default() });
    let (a, b, c) = (id("a"), id("b"), id("c"));
    let store = open()?;
    let [of_a, of_c] = [store.own(&a)?, store.own(&c)?];
    done.append(&store, &a, of_a, vec![opened("a")])?;
    done.append(&store, &c, of_c, vec![opened("c"), long("c/1")])?;
    done.append(&store, &a, of_a, vec![long("a/1"), prompt("a/2", "two")])?;
    // What is in nobody's words safe, before what is.
    store.append(&a, of_a, &[long("a/3")], Sync::Kernel)?;
    let of_b = store.own(&b)?;
    let group = |session: &SessionId, epoch, entries: &[Arc<Entry>]| Group {
        session: session.clone(),
        epoch,
        entries: entries.into(),
        sync: Sync::Disk,
    };
    let (to_a, to_b) = (prompts("a/more", 2), vec![opened("b"), prompt("b/1", "one")]);
    let mut answers = Vec::new();
    let mut groups = [group(&a, of_a, &to_a), group(&b, of_b, &to_b)].into_iter();
    store.append_all(&mut groups, &mut |some| answers.extend(some));
    for Appended { group: place, seqs: answer } in answers {
        answer?;
        let (session, entries) =
            if place == 0 { (&a, [vec![long("a/3")], to_a.clone()].concat()) } else { (&b, to_b.clone()) };
        done.entries.entry(session.clone()).or_default().extend(entries);
    }
    // Being removed: nobody expects anything of it.
    done.entries.remove(&c);
    store.remove(&c)?;
    done.removed.push(c);
    store.release(&b)?;
    // Dies without order: the next one takes over.
    fs::remove_file(data.join(format!("owners/{}.lock", store.node()))).unwrap();
    let next = open()?;
    let of_a = next.load(&a, Take::Own)?.epoch;
    done.append(&next, &a, of_a, prompts("a/next", 2))?;
    let of_b = next.load(&b, Take::Own)?.epoch;
    done.append(&next, &b, of_b, vec![prompt("b/2", "two")])
}

/// What is left has everything that was acknowledged, and can be gone on with.
fn check(left: &Path, done: &Acknowledged, what: &str) {
    // Nothing is cut any more, and nothing is worth waiting for.
    let options = FileOptions { disk: Power::cut_at(usize::MAX), ..FileOptions::default() };
    let store = FileStore::open_with(left, options).unwrap();
    for (session, entries) in &done.entries {
        let loaded = store.load(session, Take::Own).unwrap();
        let lost = loaded.damage.iter().find(|damage| damage.kind.is_loss());
        assert_eq!(lost, None, "{what}: session {session}");
        let found: Vec<&Arc<Entry>> = loaded.entries.iter().map(|(_, entry)| entry).collect();
        for entry in entries {
            assert!(found.contains(&entry), "{what}: entry {} is lost", entry.id);
        }
        store.append(session, loaded.epoch, &[prompt("after", "goes on")], Sync::Kernel).unwrap();
    }
    for session in &done.removed {
        assert!(!store.exists(session).unwrap(), "{what}: session {session} is back");
    }
}

#[test]
fn f32_nothing_acknowledged_is_lost_wherever_the_power_is_cut() {
    let mut cuts = 0;
    for cut in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let before = folder.path().join("before");
        fs::create_dir(&before).unwrap();
        let (disk, mut done) = (Power::cut_at(cut), Acknowledged::default());
        let ended = live(&before.join("data"), &disk, &mut done);
        for names in [Names::Unflushed, Names::None] {
            let after = folder.path().join(format!("{names:?}"));
            fs::create_dir(&after).unwrap();
            disk.left(&before, names, &after);
            check(&after.join("data"), &done, &format!("cut {cut}, {names:?}"));
        }
        if ended.is_ok() {
            cuts = cut;
            assert_eq!(done.entries.values().map(Vec::len).sum::<usize>(), 11);
            break;
        }
    }
    assert!(cuts > 60, "only {cuts} things were asked of the disk");
}
