//! What the tests of this crate share.
#![allow(dead_code)]

pub mod stage;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use playhouse_protocol::entry::{FORMAT_VERSION, InputKind, QueuedInput};
use playhouse_protocol::{AgentMessage, Entry, EntryBody, ModelConfig, Seq, SessionId};
use playhouse_session::disk::{Disk, Kernel};
use playhouse_session::{FileOptions, FileStore};

/// Long enough for a slow, loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub fn entry(name: &str, at: u64, body: EntryBody) -> Arc<Entry> {
    Arc::new(Entry { id: name.into(), loop_id: None, parent: None, at, body })
}

/// A first entry, from its wire form, so that what is optional there is left out.
pub fn opened(session: &str) -> Arc<Entry> {
    opened_with(session, "flush")
}

pub fn opened_with(session: &str, durability: &str) -> Arc<Entry> {
    let body = serde_json::json!({
        "type": "opened",
        "version": FORMAT_VERSION,
        "agent_id": "agent-1",
        "session_id": session,
        "settings": {
            "kind": "cli",
            "model": ModelConfig::scripted("script.json"),
            "cwd": "/work",
            "durability": durability,
        },
    });
    entry(&format!("{session}/opened"), 1_000, serde_json::from_value(body).unwrap())
}

/// A prompt with this entry id.
pub fn prompt(name: &str, text: &str) -> Arc<Entry> {
    let messages = vec![Arc::new(AgentMessage::user(text, 2_000))];
    let input = QueuedInput { input_id: format!("in-{name}").into(), kind: InputKind::Prompt, messages, format: None };
    entry(name, 2_000, EntryBody::Input(input))
}

pub fn prompts(prefix: &str, count: usize) -> Vec<Arc<Entry>> {
    (0..count).map(|n| prompt(&format!("{prefix}/{n}"), &format!("text {n} – ünï"))).collect()
}

pub fn numbered(first: u64, entries: &[Arc<Entry>]) -> Vec<(Seq, Arc<Entry>)> {
    entries.iter().enumerate().map(|(n, entry)| (Seq(first + n as u64), entry.clone())).collect()
}

/// Every file below a folder, with its content.
pub fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => all.push((path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    all.sort();
    all
}

/// The one file whose name ends like this.
pub fn find(folder: &Path, ending: &str) -> PathBuf {
    let all: Vec<_> =
        snapshot(folder).into_iter().map(|(path, _)| path).filter(|p| p.to_str().unwrap().ends_with(ending)).collect();
    assert_eq!(all.len(), 1, "files that end in {ending}: {all:?}");
    all.into_iter().next().unwrap()
}

pub fn store_on(folder: &Path, disk: &Arc<TestDisk>) -> FileStore {
    FileStore::open_with(folder, FileOptions { disk: disk.clone(), ..FileOptions::default() }).unwrap()
}

/// What is to go wrong, and when; counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    FullAtWrite(usize),
    /// The disk is full before the first byte.
    NothingAtWrite(usize),
    ShortAtWrite(usize),
    PanicAtWrite(usize),
    ErrorAtFlush(usize),
    FullAtBlob(usize),
}

/// The kernel, counted, with faults, and with a gate in front of writes.
#[derive(Debug, Default)]
pub struct TestDisk {
    pub writes: AtomicUsize,
    pub flushes: AtomicUsize,
    pub folders: AtomicUsize,
    pub blobs: AtomicUsize,
    pub faults: Mutex<Vec<Fault>>,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    closed: bool,
    passes: usize,
    waiting: usize,
}

impl TestDisk {
    pub fn with(faults: &[Fault]) -> Arc<Self> {
        let disk = Self::default();
        *disk.faults.lock().unwrap() = faults.to_vec();
        Arc::new(disk)
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.lock().unwrap().contains(&fault)
    }

    /// Writes stop at the gate from now on.
    pub fn close(&self) {
        self.gate.lock().unwrap().closed = true;
    }

    /// Lets one write through a closed gate.
    pub fn let_one_through(&self) {
        self.gate.lock().unwrap().passes += 1;
        self.changed.notify_all();
    }

    pub fn open(&self) {
        self.gate.lock().unwrap().closed = false;
        self.changed.notify_all();
    }

    /// Waits until a write stands at the gate.
    pub fn await_one_at_the_gate(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut gate = self.gate.lock().unwrap();
        while gate.waiting == 0 {
            let left = deadline.checked_duration_since(Instant::now()).expect("nobody came to the gate");
            gate = self.changed.wait_timeout(gate, left).unwrap().0;
        }
    }
}

impl Disk for TestDisk {
    fn write(&self, file: &File, record: &[u8]) -> io::Result<usize> {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.changed.notify_all();
        while gate.closed && gate.passes == 0 {
            gate = self.changed.wait(gate).unwrap();
        }
        gate.passes = gate.passes.saturating_sub(1);
        gate.waiting -= 1;
        drop(gate);
        let n = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.has(Fault::PanicAtWrite(n)) {
            panic!("injected panic at write {n}");
        }
        if self.has(Fault::FullAtWrite(n)) {
            // A full disk often takes a part first.
            Kernel.write(file, &record[..record.len() / 3])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.has(Fault::NothingAtWrite(n)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.has(Fault::ShortAtWrite(n)) {
            return Kernel.write(file, &record[..record.len() / 2]);
        }
        Kernel.write(file, record)
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        let n = self.flushes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.has(Fault::ErrorAtFlush(n)) {
            return Err(io::Error::other("injected flush error"));
        }
        Kernel.flush(file)
    }

    fn flush_folder(&self, folder: &File) -> io::Result<()> {
        self.folders.fetch_add(1, Ordering::SeqCst);
        Kernel.flush_folder(folder)
    }

    fn write_blob(&self, file: &File, content: &[u8]) -> io::Result<()> {
        let n = self.blobs.fetch_add(1, Ordering::SeqCst) + 1;
        if self.has(Fault::FullAtBlob(n)) {
            Kernel.write_blob(file, &content[..content.len() / 3])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Kernel.write_blob(file, content)
    }
}
