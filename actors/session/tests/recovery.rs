//! Loading what crashes, power cuts and other people left.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use common::{find, id, numbered, opened, prompt, prompts, snapshot};
use playhouse_protocol::Seq;
use playhouse_session::record::{BadLine, encode};
use playhouse_session::scan::Scan;
use playhouse_session::{
    ChainHash, Damage, DamageKind, FileStore, LastRun, SessionStatus, Store, StoreError, Sync, Take,
};

/// A line that follows from the record with this hash, and its own hash.
fn line(after: &ChainHash, seq: u64, epoch: u64, name: &str) -> (Vec<u8>, ChainHash) {
    let mut out = Vec::new();
    let hash = encode(after, Seq(seq), epoch, &prompt(name, name), &mut out).unwrap();
    (out, hash)
}

fn names(scan: &[(Seq, std::sync::Arc<playhouse_protocol::Entry>)]) -> Vec<String> {
    scan.iter().map(|(seq, entry)| format!("{} {}", seq.0, entry.id)).collect()
}

#[test]
fn f28_torn_tail_is_cut_and_kept_aside() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let all = vec![prompt("p1", "eins"), prompt("p2", "zwei – ü"), prompt("p3", "drei")];
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &all, Sync::Disk).unwrap();
    store.rest(&session).unwrap();
    let path = find(folder.path(), "s.journal");
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
    assert_eq!(ends.len(), 3);
    let mut torn = 0;
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let kept = ends.iter().filter(|end| **end <= cut).count();
        let good = if kept == 0 { 0 } else { ends[kept - 1] };
        let peeked = store.load(&session, Take::Peek).unwrap();
        assert_eq!(peeked.entries, numbered(1, &all[..kept]), "cut at {cut}");
        assert_eq!(fs::read(&path).unwrap(), &whole[..cut], "a look changes nothing");
        let loaded = store.load(&session, Take::Own).unwrap();
        assert_eq!(loaded.entries, numbered(1, &all[..kept]), "cut at {cut}");
        assert_eq!(fs::read(&path).unwrap(), &whole[..good]);
        if good < cut {
            torn += 1;
            let aside = path.with_extension(format!("journal.torn-{torn}"));
            assert_eq!(fs::read(&aside).unwrap(), &whole[good..cut]);
            assert_eq!(fs::metadata(&aside).unwrap().permissions().mode() & 0o777, 0o600);
            let kind = DamageKind::Torn { bytes: (cut - good) as u64, kept_aside: Some(aside), lost: 0 };
            assert_eq!(loaded.damage, [Damage { line: kept as u64 + 1, offset: good as u64, kind }]);
        } else {
            assert_eq!(loaded.damage, []);
        }
        let next = prompt("next", "after the crash");
        assert_eq!(
            store.append(&session, epoch, std::slice::from_ref(&next), Sync::Kernel).unwrap(),
            [Seq(kept as u64 + 1)]
        );
        let mut expected = all[..kept].to_vec();
        expected.push(next);
        let again = store.load(&session, Take::Own).unwrap();
        assert_eq!((again.entries, again.damage), (numbered(1, &expected), vec![]));
    }
    store.remove(&session).unwrap();
    assert_eq!(snapshot(&folder.path().join("sessions")), []);
}

#[test]
fn f28_a_last_line_that_does_not_check_is_part_of_the_tail() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("s", 2), Sync::Kernel).unwrap();
    let path = find(folder.path(), "s.journal");
    let whole = fs::read(&path).unwrap();
    let mut asides = 0;
    for tail in [&b"garbage\n"[..], b"garbage\nmore\n", b"\0\0\0\0\0\0\0", b"\n", b"{\"seq\":3}\n\xff\xfe"] {
        fs::write(&path, [&whole, tail].concat()).unwrap();
        let is_loss = tail.contains(&b'\n');
        for _ in 0..2 {
            let loaded = store.load(&session, Take::Own).unwrap();
            assert_eq!((loaded.entries.len(), loaded.damage.len()), (2, 1), "{tail:?}");
            assert_eq!(loaded.damage[0].kind.is_loss(), is_loss, "{tail:?}");
            if !is_loss {
                assert_eq!(fs::read(&path).unwrap(), whole);
                break;
            }
            assert_eq!(fs::read(&path).unwrap(), [&whole, tail].concat(), "a loss is not forgotten by a load");
        }
        asides += 1;
        let seqs = store.append(&session, epoch, &[prompt("next", "after the loss")], Sync::Disk).unwrap();
        assert_eq!(seqs, [Seq(3)], "{tail:?}");
        let aside = path.with_extension(format!("journal.torn-{asides}"));
        assert_eq!(fs::read(aside).unwrap(), tail);
        let again = store.load(&session, Take::Own).unwrap();
        assert_eq!((again.entries.len(), again.damage), (3, vec![]), "{tail:?}");
    }
}

#[test]
fn f29_bad_lines_are_skipped_and_reported_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let all = prompts("s", 6);
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &all, Sync::Kernel).unwrap();
    let path = find(folder.path(), "s.journal");
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    let flipped = {
        let mut bytes = lines[2].to_vec();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        bytes
    };
    let corpus: Vec<Vec<u8>> = vec![
        b"\n".to_vec(),
        b"{}\n".to_vec(),
        b"\0\0\0\0\n".to_vec(),
        b"\xff\xfe\xfd\n".to_vec(),
        lines[2][..lines[2].len() / 2].iter().copied().chain(*b"\n").collect(),
        flipped,
        [b"[".repeat(200_000), b"\n".to_vec()].concat(),
        vec![b'x'; 3_000_000].into_iter().chain(*b"\n").collect(),
    ];
    for bad in &corpus {
        let bytes = [lines[0], lines[1], bad, lines[3], lines[4], lines[5]].concat();
        fs::write(&path, &bytes).unwrap();
        let loaded = store.load(&session, Take::Own).unwrap();
        let mut expected = numbered(1, &all);
        expected.remove(2);
        assert_eq!(loaded.entries, expected);
        let [Damage { line: 3, kind: DamageKind::BadLine(_), .. }] = loaded.damage.as_slice() else {
            panic!("{:?}", loaded.damage)
        };
        assert_eq!(fs::read(&path).unwrap(), bytes, "a bad line in the middle stays where it is");
        let summary = store.list().unwrap().remove(0);
        assert_eq!(
            (summary.entries, summary.damage, summary.status),
            (5, loaded.damage, SessionStatus::Damaged { last_run: LastRun::Unknown })
        );
        assert_eq!(store.append(&session, epoch, &[prompt("next", "x")], Sync::Kernel).unwrap(), [Seq(7)]);
        assert_eq!(store.load(&session, Take::Own).unwrap().entries.len(), 6);
    }
    fs::write(&path, [lines[0], lines[1], &corpus[0], &corpus[1], lines[4]].concat()).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(names(&loaded.entries), ["1 s/0", "2 s/1", "5 s/4"]);
    assert_eq!(loaded.damage.len(), 2);
}

#[test]
fn a_missing_or_repeated_line_is_reported() {
    let (first, after_first) = line(&ChainHash::START, 1, 1, "a");
    let (second, after_second) = line(&after_first, 2, 1, "b");
    let (fifth, _) = line(&after_second, 5, 1, "e");
    let bytes = [&*first, &second, &second, &fifth].concat();
    let scan = Scan::read(bytes.as_slice()).unwrap();
    assert_eq!(names(&scan.entries), ["1 a", "2 b", "5 e"]);
    let kinds: Vec<_> = scan.damage.into_iter().map(|damage| (damage.line, damage.kind)).collect();
    assert_eq!(
        kinds,
        [
            (3, DamageKind::OutOfOrder { seq: Seq(2), after: Seq(2) }),
            (4, DamageKind::Missing { from: Seq(3), to: Seq(4) })
        ]
    );
}

#[test]
fn f33_what_a_stale_owner_wrote_does_not_count_wherever_it_stands() {
    // The old owner wrote 3 before the new one wrote its own 3, and once more after it.
    let (first, after_first) = line(&ChainHash::START, 1, 1, "a");
    let (second, after_second) = line(&after_first, 2, 1, "b");
    let (old, after_old) = line(&after_second, 3, 1, "old");
    let (new, after_new) = line(&after_second, 3, 2, "new");
    let ((older, _), (last, _)) = (line(&after_old, 4, 1, "old2"), line(&after_new, 4, 2, "d"));
    let scan = Scan::read([first, second, old, new, older, last].concat().as_slice()).unwrap();
    assert_eq!(names(&scan.entries), ["1 a", "2 b", "3 new", "4 d"]);
    assert_eq!((scan.epoch, scan.last_seq), (2, 4));
    let stale: Vec<_> = scan.damage.iter().map(|damage| (damage.line, &damage.kind)).collect();
    assert_eq!(
        stale,
        [(4, &DamageKind::Stale { seq: Seq(3), epoch: 1 }), (5, &DamageKind::Stale { seq: Seq(4), epoch: 1 })]
    );
}

/// Seals any JSON as a record.
fn sealed(seq: u64, epoch: u64, json: &str) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(&epoch.to_le_bytes());
    hasher.update(json.as_bytes());
    let sum = hasher.finalize();
    format!("{{\"seq\":{seq},\"epoch\":{epoch},\"sum\":\"{sum:08x}\",\"entry\":{json}}}\n").into_bytes()
}

#[test]
fn an_entry_of_a_newer_version_is_skipped_reported_and_never_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("s", 1), Sync::Kernel).unwrap();
    let path = find(folder.path(), "s.journal");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(sealed(2, epoch, r#"{"id":"n","at":1,"body":{"type":"teleported","to":"mars"}}"#));
    fs::write(&path, &bytes).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(names(&loaded.entries), ["1 s/0"]);
    assert!(matches!(
        loaded.damage.as_slice(),
        [
            Damage { line: 2, kind: DamageKind::NoHash { seq: Seq(2) }, .. },
            Damage { line: 2, kind: DamageKind::BadLine(BadLine::UnknownEntry { seq: Seq(2), .. }), .. }
        ]
    ));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(store.append(&session, epoch, &[prompt("next", "x")], Sync::Kernel).unwrap(), [Seq(3)]);
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &[opened("s")], Sync::Kernel).unwrap();
    store.release(&session).unwrap();
    let path = find(folder.path(), "s.journal");
    fs::write(&path, sealed(1, 1, r#"{"id":"n","body":{"type":"opened","version":3,"new":"shape"}}"#)).unwrap();
    let other = FileStore::open(folder.path()).unwrap();
    let before = snapshot(&folder.path().join("sessions"));
    let refused = StoreError::NewerFormat { place: path.into(), version: 3, supported: 2 };
    assert_eq!(other.load(&session, Take::Own), Err(refused.clone()));
    assert_eq!(other.load(&session, Take::Peek), Err(refused.clone()));
    assert_eq!(snapshot(&folder.path().join("sessions")), before);
    assert!(refused.to_string().contains("use a newer version"), "{refused}");
    let listed = other.list().unwrap().remove(0);
    assert!(matches!(listed.damage[0].kind, DamageKind::BadLine(BadLine::Newer { version: 3 })));
}

#[test]
fn a_journal_from_elsewhere_without_an_owner_record_gets_a_higher_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("s", 1), Sync::Kernel).unwrap();
    store.rest(&session).unwrap();
    let path = find(folder.path(), "s.journal");
    let head = Scan::read(fs::read(&path).unwrap().as_slice()).unwrap().head();
    let (next, _) = line(&head, 2, 6, "b");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&next).unwrap();
    fs::remove_file(find(folder.path(), "s.owner")).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(names(&loaded.entries), ["1 s/0", "2 b"]);
    assert_eq!(loaded.epoch, 7);
    assert_eq!(store.append(&session, 7, &[prompt("c", "c")], Sync::Kernel).unwrap(), [Seq(3)]);
    assert_eq!(store.load(&session, Take::Own).unwrap().damage, []);
}

#[test]
fn an_unknown_session_makes_no_file_until_its_first_entry() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let before = snapshot(folder.path()).len();
    store.load(&id("s"), Take::Own).unwrap();
    store.release(&id("s")).unwrap();
    assert_eq!(snapshot(&folder.path().join("sessions")), []);
    assert!(snapshot(folder.path()).len() <= before + 1, "only the takeover lock");
}
