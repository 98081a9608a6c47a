//! What every store does, checked on each.

mod common;

use std::sync::Arc;

use common::{entry, id, numbered, opened, prompt, prompts};
use playhouse_protocol::entry::{Opened, Settings};
use playhouse_protocol::{Content, Durability, Entry, EntryBody, Message, Seq, SessionId};
use playhouse_session::{
    FileStore, Group, Loaded, MemoryStore, SessionStatus, Store, StoreError, Sync, Take, Whereabouts,
};

fn conforms<S: Store>(make: impl Fn() -> S) {
    unknown_sessions(make());
    appends_are_numbered_and_read_back(make());
    repeated_entries_are_written_once(make());
    f53_a_known_id_with_other_content_is_refused(&make);
    only_the_owner_of_the_epoch_appends(make());
    sessions_are_independent(make());
    rest_and_release_keep_the_journal(make());
    lists_are_newest_first(make());
    heads_tell_whom_to_read(make());
    removed_is_gone(make());
    many_threads_append_at_once(make());
    long_content_comes_back(make());
    records_are_read_from_any_place(make());
    groups_get_one_answer_each_and_a_failure_stays_in_its_session(make());
}

fn unknown_sessions(store: impl Store) {
    let session = id("nobody");
    let unknown = StoreError::Unknown { session: session.clone() };
    assert_eq!(store.load(&session, Take::Peek), Err(unknown.clone()));
    assert_eq!(store.remove(&session), Err(unknown.clone()));
    assert_eq!(
        store.append(&session, 1, &prompts("a", 1), Sync::Kernel),
        Err(StoreError::NotLoaded { session: session.clone() })
    );
    assert_eq!(store.flush(&session, 1), Err(StoreError::NotLoaded { session: session.clone() }));
    store.rest(&session).unwrap();
    store.release(&session).unwrap();
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(loaded, Loaded { entries: vec![], epoch: 1, damage: vec![] });
    assert_eq!(store.load(&session, Take::Peek), Err(unknown));
    assert_eq!(store.list().unwrap(), vec![]);
}

fn appends_are_numbered_and_read_back(store: impl Store) {
    let session = id("s");
    let epoch = store.load(&session, Take::Own).unwrap().epoch;
    let mut all = vec![opened("s")];
    assert_eq!(store.append(&session, epoch, &all, Sync::Disk).unwrap(), [Seq(1)]);
    let more = prompts("s", 3);
    assert_eq!(store.append(&session, epoch, &more, Sync::Kernel).unwrap(), [Seq(2), Seq(3), Seq(4)]);
    store.flush(&session, epoch).unwrap();
    assert_eq!(store.append(&session, epoch, &[], Sync::Disk).unwrap(), []);
    all.extend(more);
    let expected = Loaded { entries: numbered(1, &all), epoch, damage: vec![] };
    assert_eq!(store.load(&session, Take::Peek).unwrap(), expected);
    assert_eq!(store.load(&session, Take::Own).unwrap(), expected);
    assert_eq!(store.append(&session, epoch, &[prompt("s/last", "x")], Sync::Kernel).unwrap(), [Seq(5)]);
}

fn repeated_entries_are_written_once(store: impl Store) {
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let all = prompts("s", 4);
    store.append(&session, epoch, &all[..2], Sync::Kernel).unwrap();
    let twice = [all[0].clone(), all[2].clone(), all[2].clone(), all[1].clone(), all[3].clone()];
    assert_eq!(store.append(&session, epoch, &twice, Sync::Disk).unwrap(), [1, 3, 3, 2, 4].map(Seq));
    let loaded = store.load(&session, Take::Own).unwrap();
    assert_eq!(loaded.entries, numbered(1, &all));
    assert_eq!(store.append(&session, epoch, &all, Sync::Disk).unwrap(), [1, 2, 3, 4].map(Seq));
    assert_eq!(store.load(&session, Take::Peek).unwrap().entries.len(), 4);
}

/// Two agents that go on from the same entry give the same ids to what they say.
fn f53_a_known_id_with_other_content_is_refused<S: Store>(make: &impl Fn() -> S) {
    let long = |fill: &str| prompt("s/1", &fill.repeat(70_000));
    for (first, other) in [(prompt("s/1", "one"), prompt("s/1", "two")), (long("a"), long("b"))] {
        // Also when the ids come from the journal.
        for reload in [None, Some(Take::Own)] {
            let store = make();
            let session = id("s");
            let epoch = store.own(&session).unwrap();
            let said = [prompt("s/0", "hello"), first.clone()];
            store.append(&session, epoch, &said, Sync::Kernel).unwrap();
            if let Some(take) = reload {
                store.load(&session, take).unwrap();
            }
            assert_eq!(store.append(&session, epoch, &said, Sync::Kernel).unwrap(), [Seq(1), Seq(2)]);
            let made_later = [Arc::new(Entry { at: 9_000, ..first.as_ref().clone() })];
            assert_eq!(store.append(&session, epoch, &made_later, Sync::Kernel).unwrap(), [Seq(2)]);
            let batch = [other.clone(), prompt("s/2", "goes on")];
            let error = store.append(&session, epoch, &batch, Sync::Kernel).unwrap_err();
            assert_eq!(error, StoreError::Conflict { session: session.clone(), entry: "s/1".into() });
            assert!(error.to_string().contains("two writers"), "{error}");
            assert_eq!(store.append(&session, epoch, &said, Sync::Kernel), Err(error), "it takes nothing more");
            store.flush(&session, epoch).expect("what was written before can still be flushed");
            assert!(store.load(&session, Take::Own).unwrap().entries == numbered(1, &said));
            let next = [prompt("s/2", "goes on"), prompt("s/2", "goes on")];
            assert_eq!(store.append(&session, epoch, &next, Sync::Kernel).unwrap(), [Seq(3), Seq(3)]);
            let twice = [prompt("s/3", "one"), prompt("s/3", "two")];
            let conflict = StoreError::Conflict { session: session.clone(), entry: "s/3".into() };
            assert_eq!(store.append(&session, epoch, &twice, Sync::Kernel), Err(conflict));
            assert_eq!(store.load(&session, Take::Own).unwrap().entries.len(), 3);
        }
    }
}

fn only_the_owner_of_the_epoch_appends(store: impl Store) {
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let fenced = |epoch| StoreError::Fenced { session: session.clone(), epoch, by: None };
    store.append(&session, epoch, &prompts("a", 1), Sync::Kernel).unwrap();
    assert_eq!(store.append(&session, epoch + 1, &prompts("b", 1), Sync::Kernel), Err(fenced(epoch + 1)));
    assert_eq!(store.flush(&session, epoch + 1), Err(fenced(epoch + 1)));
    assert_eq!(store.append(&session, epoch, &prompts("c", 1), Sync::Kernel).unwrap(), [Seq(2)]);
}

fn sessions_are_independent(store: impl Store) {
    for name in ["a", "b"] {
        let epoch = store.own(&id(name)).unwrap();
        let seqs = store.append(&id(name), epoch, &prompts("same-ids", 2), Sync::Kernel).unwrap();
        assert_eq!(seqs, [Seq(1), Seq(2)]);
    }
}

fn rest_and_release_keep_the_journal(store: impl Store) {
    let session = id("s");
    let all = prompts("s", 6);
    for (n, pair) in all.chunks(2).enumerate() {
        let epoch = store.own(&session).unwrap();
        assert_eq!(epoch, 1, "waking in the same process bumps nothing");
        store.append(&session, epoch, pair, Sync::Kernel).unwrap();
        match n {
            0 => store.rest(&session).unwrap(),
            _ => store.release(&session).unwrap(),
        }
        let not_loaded = StoreError::NotLoaded { session: session.clone() };
        assert_eq!(store.append(&session, epoch, pair, Sync::Kernel), Err(not_loaded));
    }
    assert_eq!(store.load(&session, Take::Peek).unwrap().entries, numbered(1, &all));
}

fn lists_are_newest_first(store: impl Store) {
    for (name, entries) in [("old", vec![opened("old")]), ("new", vec![opened("new"), prompt("p", "do it")])] {
        let epoch = store.own(&id(name)).unwrap();
        store.append(&id(name), epoch, &entries, Sync::Kernel).unwrap();
    }
    let list = store.list().unwrap();
    let names: Vec<_> = list.iter().map(|summary| summary.session_id.as_str()).collect();
    assert_eq!(names, ["new", "old"]);
    let newest = &list[0];
    assert_eq!(newest.model.as_deref(), Some("scripted/script"));
    assert_eq!((newest.started_at, newest.last_active_at, newest.entries), (Some(1_000), Some(2_000), 2));
    assert_eq!((newest.first_prompt.as_deref(), newest.durability), (Some("do it"), Some(Durability::Flush)));
    assert_eq!(
        (&newest.status, &list[1].status),
        (&SessionStatus::Unfinished { unreachable: None }, &SessionStatus::Done)
    );
}

fn heads_tell_whom_to_read(store: impl Store) {
    let begun = |name: &str, cwd: &str| match &opened(name).body {
        EntryBody::Opened(begun) => {
            let settings = Settings { cwd: cwd.into(), ..Settings::clone(&begun.settings) };
            entry(name, 1_000, EntryBody::Opened(Opened { settings: settings.into(), ..Opened::clone(begun) }.into()))
        }
        other => panic!("{other:?}"),
    };
    let moved = |cwd: &str| match &begun("x", cwd).body {
        EntryBody::Opened(begun) => {
            let settings = begun.settings.clone();
            entry("moved", 2_000, EntryBody::Configured { input_id: None, settings })
        }
        other => panic!("{other:?}"),
    };
    let kept = [
        ("here", vec![begun("here", "/a \"b\"")]),
        ("there", vec![begun("there", "/c"), prompt("p", "\"cwd\":\"/a \\\"b\\\"\"")]),
        ("came", vec![begun("came", "/c"), moved("/a \"b\"")]),
        ("deeper", vec![begun("deeper", "/a \"b\"/d")]),
    ];
    for (name, entries) in &kept {
        let epoch = store.own(&id(name)).unwrap();
        store.append(&id(name), epoch, entries, Sync::Kernel).unwrap();
    }
    let heads = store.heads("/a \"b\"".as_ref()).unwrap();
    let of = |name: &str| heads.iter().find(|head| head.session_id == id(name)).unwrap().whereabouts;
    assert_eq!(heads.len(), 4);
    assert_eq!(["here", "came"].map(of), [Whereabouts::MaybeHere; 2]);
    assert_eq!(["there", "deeper"].map(of), [Whereabouts::Elsewhere; 2]);
    let summaries = store.summaries(&[id("here"), id("came"), id("nobody")]).unwrap();
    let names: Vec<_> = summaries.iter().map(|summary| summary.session_id.as_str()).collect();
    assert_eq!(names, ["came", "here"]);
}

fn removed_is_gone(store: impl Store) {
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    store.append(&session, epoch, &prompts("s", 2), Sync::Disk).unwrap();
    store.remove(&session).unwrap();
    assert_eq!(store.load(&session, Take::Peek), Err(StoreError::Unknown { session: session.clone() }));
    assert_eq!(store.list().unwrap(), vec![]);
    let epoch = store.own(&session).unwrap();
    assert_eq!(store.append(&session, epoch, &prompts("s", 1), Sync::Disk).unwrap(), [Seq(1)]);
}

fn many_threads_append_at_once(store: impl Store) {
    let session = id("shared");
    let epoch = store.own(&session).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, session) = (&store, &session);
            scope.spawn(move || {
                for entry in prompts(&format!("t{thread}"), 25) {
                    store.append(session, epoch, &[entry], Sync::Kernel).unwrap();
                    let own = id(&format!("own-{thread}"));
                    let epoch = store.own(&own).unwrap();
                    store.append(&own, epoch, &prompts("x", 1), Sync::Kernel).unwrap();
                }
            });
        }
    });
    let loaded = store.load(&session, Take::Own).unwrap();
    let seqs: Vec<_> = loaded.entries.iter().map(|(seq, _)| seq.0).collect();
    assert_eq!((seqs, loaded.damage), ((1..=100).collect(), vec![]));
}

fn long_content_comes_back(store: impl Store) {
    let session = id("s");
    let epoch = store.own(&session).unwrap();
    let said = |name: &str, content: Vec<Content>| {
        let message = Arc::new(Message::User { content, timestamp: 1 }.into());
        entry(name, 2_000, EntryBody::Restored { input_id: None, messages: vec![message] })
    };
    let text = Content::text("A line of a \"long\" output – ünï\n".repeat(30_000));
    let image = Content::Image { data: "iVBORw0KGgoAAAANSUhEUg==".repeat(218_500), mime_type: "image/png".into() };
    let short = Content::text("short");
    let several = vec![text.clone(), short.clone(), Content::text("z".repeat(70_000)), text.clone()];
    let mut all = vec![
        prompt("prompt", &"p".repeat(100_000)),
        said("text", vec![text]),
        said("image", vec![image, short]),
        said("several", several),
    ];
    store.append(&session, epoch, &all[..2], Sync::Kernel).unwrap();
    store.append(&session, epoch, &all[2..], Sync::Disk).unwrap();
    let again = store.append(&session, epoch, &all, Sync::Disk).unwrap();
    assert_eq!(again, [1, 2, 3, 4].map(Seq));
    let expected = Loaded { entries: numbered(1, &all), epoch, damage: vec![] };
    assert!(store.load(&session, Take::Own).unwrap() == expected);
    let listed = store.list().unwrap().remove(0);
    assert_eq!((listed.entries, listed.first_prompt, listed.damage), (4, Some("p".repeat(200)), vec![]));
    all.push(prompt("next", "goes on"));
    assert_eq!(store.append(&session, epoch, &all[4..], Sync::Disk).unwrap(), [Seq(5)]);
    store.remove(&session).unwrap();
    assert_eq!(store.load(&session, Take::Own).unwrap().entries, vec![]);
}

fn groups_get_one_answer_each_and_a_failure_stays_in_its_session(store: impl Store) {
    let (good, bad) = (id("good"), id("bad"));
    let epochs = [&good, &bad].map(|session| store.own(session).unwrap());
    store.append(&bad, epochs[1], &[prompt("s/1", "one")], Sync::Kernel).unwrap();
    let group = |session: &SessionId, epoch, entries: Vec<Arc<Entry>>, sync| Group {
        session: session.clone(),
        epoch,
        entries: entries.into(),
        sync,
    };
    let groups = [
        group(&good, epochs[0], prompts("a", 2), Sync::Disk),
        group(&bad, epochs[1], vec![prompt("s/1", "another")], Sync::Disk),
        group(&good, epochs[0], prompts("b", 1), Sync::Kernel),
        group(&bad, epochs[1], prompts("c", 1), Sync::Kernel),
    ];
    let mut answers = Vec::new();
    store.append_all(&mut groups.into_iter(), &mut |some| answers.extend(some));
    let places = |of: [usize; 2]| answers.iter().map(|done| done.group).filter(move |n| of.contains(n));
    assert_eq!((places([0, 2]).collect(), places([1, 3]).collect()), (vec![0, 2], vec![1, 3]), "in a session's order");
    answers.sort_by_key(|done| done.group);
    let conflict = StoreError::Conflict { session: bad.clone(), entry: "s/1".into() };
    let expected = [Ok(vec![Seq(1), Seq(2)]), Err(conflict.clone()), Ok(vec![Seq(3)]), Err(conflict)];
    assert_eq!(answers.into_iter().map(|done| done.seqs).collect::<Vec<_>>(), expected);
    assert_eq!(store.load(&bad, Take::Own).unwrap().entries.len(), 1);
}

fn records_are_read_from_any_place(store: impl Store) {
    let session = id("s");
    assert!(matches!(store.read(&session, Seq(1)), Err(StoreError::Unknown { .. })));
    let epoch = store.own(&session).unwrap();
    let all = prompts("a", 5);
    store.append(&session, epoch, &all, Sync::Kernel).unwrap();
    let all = numbered(1, &all);
    for from in 0..8 {
        let mut records = store.read(&session, Seq(from)).unwrap();
        let read: Vec<_> = records.by_ref().map(Result::unwrap).collect();
        assert_eq!(read, all[usize::try_from(from.saturating_sub(1)).unwrap().min(5)..], "from {from}");
        assert_eq!(records.damage(), []);
    }
}

#[test]
fn memory_conforms() {
    conforms(MemoryStore::default);
}

#[test]
fn files_conform() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    conforms(|| {
        count.set(count.get() + 1);
        FileStore::open(folder.path().join(count.get().to_string())).unwrap()
    });
}
