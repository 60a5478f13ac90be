//! Tests of a replica that notes changes of documents: restarts, what is forgotten, and that the
//! rest of its state does not depend on it.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::ops::ControlFlow;

use bytes::Bytes;
use plimsoll_log::Lsn;
use plimsoll_log::record::{Item, Record};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{LeadId, SessionId};
use proptest::prelude::*;

use super::tests::{ID, TestLog, open};
use super::*;
use crate::Argv;
use crate::execute::document;
use crate::operation::{
    Action, Condition, DocumentOutcome, DocumentResult, DocumentWrite, Operation,
};
use crate::rows::touch::{Touch, Touches};

fn write(id: &str, action: Action, mapping_version: u64) -> Operation {
    let id = Bytes::copy_from_slice(id.as_bytes());
    let condition = Condition::None;
    Operation::Document(DocumentWrite { key: id.clone(), id, action, condition, mapping_version })
}

fn index(id: &str, mapping_version: u64) -> Operation {
    write(id, Action::Index(Bytes::from_static(b"{}")), mapping_version)
}

fn command(text: &str) -> Operation {
    Operation::Command(Argv::of(&text.split(' ').collect::<Vec<_>>()))
}

/// The operations of one record, by a session of their own.
fn append(log: &mut TestLog, operations: &[Operation]) {
    log.append_items(vec![Item::Operations {
        session: SessionId(log.entries.len() as u64),
        first: 1,
        acked: 0,
        stamp_ms: log.stamp_ms,
        payloads: operations.iter().map(Operation::encode).collect(),
    }]);
}

fn touches(store: &Store, after: u64) -> Vec<(u64, Touches)> {
    let mut found = Vec::new();
    store
        .touches(Lsn(after), &mut |lsn, touches| {
            found.push((lsn.0, touches));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// Touches in words: a `+` is a new document.
fn words(touches: &Touches) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let word = |touch| match touch {
        Touch::All => "all".to_owned(),
        Touch::Key(key) => format!("key {}", text(key)),
        Touch::Document { key, id, is_new } => {
            format!("{}{}/{}", if is_new { "+" } else { "" }, text(key), text(id))
        }
    };
    let words: Vec<String> = touches.iter().map(word).collect();
    format!("{} @{}", words.join(" "), touches.mapping_version())
}

fn last_words(replica: &mut Replica, log: &mut TestLog, operations: &[Operation]) -> String {
    append(log, operations);
    let (position, record) = log.entries.last().unwrap();
    replica.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
    let taken = replica.take_touches();
    assert_eq!(replica.take_touches(), None, "taken");
    let kept = touches(replica.store(), position.lsn.0 - 1).pop().map(|(_, touches)| touches);
    assert_eq!(taken, kept);
    taken.map_or("nothing".into(), |touches| words(&touches))
}

#[test]
fn a_record_notes_what_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut log) = (open(dir.path()), TestLog::new());
    replica.set_documents(true).unwrap();
    let mut check = |operations: &[Operation], expected: &str| {
        assert_eq!(last_words(&mut replica, &mut log, operations), expected);
    };
    check(&[index("a", 4), index("b", 6), index("a", 5)], "+a/a +b/b a/a @6");
    check(&[write("a", Action::Delete, 6), index("a", 6)], "a/a @6");
    check(&[write("x", Action::Delete, 6), index("x", 6)], "x/x @6");
    check(&[write("b", Action::Create(Bytes::new()), 7)], "nothing");
    check(&[write("none", Action::Delete, 7)], "nothing");
    check(&[command("HSET h f 1 g 2"), command("HSET h f 3")], "+h/f +h/g h/f @0");
    check(&[command("HDEL h f g"), command("SET s 1")], "h/f h/g +s/s @0");
    check(&[command("APPEND s 1"), command("INCR s"), command("PEXPIRE s 900")], "s/s @0");
    check(&[command("HSET h f 1"), command("RENAME h i")], "+h/f key i key h @0");
    check(&[command("SET i 1"), command("DEL i none")], "key i i/i @0");
    check(&[command("GET i"), command("HSET s f 1"), command("EXPIRE none 9")], "nothing");
    check(&[index("z", 1), command("FLUSHDB"), index("z", 0)], "all +z/z @1");
}

#[test]
fn a_sweep_notes_what_it_took_away() {
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut log) = (open(dir.path()), TestLog::new());
    replica.set_documents(true).unwrap();
    let setup = ["SET s 1 PX 5", "HSET h f 1 g 2", "HPEXPIRE h 5 FIELDS 1 f", "HSET i f 1"];
    let setup: Vec<Operation> = setup.map(command).into();
    last_words(&mut replica, &mut log, &setup);
    last_words(&mut replica, &mut log, &[command("PEXPIRE i 6")]);
    log.stamp_ms += 10;
    let swept = last_words(&mut replica, &mut log, &[Operation::Sweep { limit: 9 }]);
    let mut swept: Vec<&str> = swept.trim_end_matches(" @0").split(' ').collect();
    swept.sort_unstable();
    assert_eq!(swept, ["h/f", "i", "key", "s/s"]);
    assert_eq!(replica.stamp().keys, 1);
}

#[test]
fn noting_begins_with_what_is_there_and_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut log) = (open(dir.path()), TestLog::new());
    replica.set_documents(true).unwrap();
    assert_eq!(touches(replica.store(), 0), [], "nothing was there");
    replica.set_documents(false).unwrap();
    assert_eq!(last_words(&mut replica, &mut log, &[command("SET a 1")]), "nothing");
    replica.set_documents(true).unwrap();
    last_words(&mut replica, &mut log, &[command("SET b 1")]);
    replica.set_documents(true).unwrap();
    let shown = |replica: &Replica| {
        let found = touches(replica.store(), 0);
        found.iter().map(|(lsn, touches)| format!("{lsn}: {}", words(touches))).collect::<Vec<_>>()
    };
    assert_eq!(shown(&replica), ["1: all @0", "2: +b/b @0"]);
    replica.store().flush().unwrap();
    drop(replica);
    let mut replica = open(dir.path());
    assert!(replica.notes_documents());
    assert_eq!(shown(&replica), ["1: all @0", "2: +b/b @0"]);
    replica.store().forget_touches(Lsn(1)).unwrap();
    assert_eq!(shown(&replica), ["2: +b/b @0"]);
    let snapshot = std::thread::spawn({
        let store = replica.store().clone();
        move || store.owned_snapshot().unwrap()
    });
    let snapshot = snapshot.join().unwrap();
    assert_eq!(position_of(&snapshot).unwrap(), Some(log.entries[1].0));
    replica.store().forget_touches(Lsn(u64::MAX)).unwrap();
    let mut held = 0;
    touches_of(&snapshot, Lsn(0), &mut |_, _| {
        held += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((held, shown(&replica)), (1, vec![]));
    drop(snapshot);
    last_words(&mut replica, &mut log, &[command("SET c 1")]);
    replica.set_documents(false).unwrap();
    assert!(shown(&replica).is_empty() && !replica.notes_documents());
}

#[test]
fn an_abandoned_store_writes_no_more_files() {
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut log) = (open(dir.path()), TestLog::new());
    replica.set_documents(true).unwrap();
    last_words(&mut replica, &mut log, &[index("a", 1)]);
    replica.store().abandon();
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert!(replica.store().flush().is_err());
    assert!(!dir.path().exists());
}

#[test]
fn a_document_is_written_once_and_read_by_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let (mut replica, mut log) = (open(dir.path()), TestLog::new());
    append(&mut log, &[index("a", 1), command("SET s 1")]);
    let mut repeated = log.entries[0].1.items.clone();
    repeated.truncate(1);
    log.append_items(repeated);
    let mut effects = Vec::new();
    struct Keep<'a>(&'a mut Vec<Effect>);
    impl Observer for Keep<'_> {
        fn operation(&mut self, _: (usize, usize), effect: Effect, _: &Overlay<'_>, _: u64) {
            self.0.push(effect);
        }
    }
    for (position, record) in &log.entries {
        replica.apply(*position, record, OverBudget::Refuse, &mut Keep(&mut effects)).unwrap();
    }
    let Effect::Ran(reply) = &effects[0] else { panic!("{effects:?}") };
    let done = DocumentOutcome::Done { result: DocumentResult::Created, version: 1, seq_no: 0 };
    assert_eq!(DocumentOutcome::from_reply(reply), Some(done));
    assert!(matches!(effects[2], Effect::Settled(_)), "{effects:?}");
    let store = replica.store();
    let (snapshot, cached, row) =
        (store.snapshot().unwrap(), store.cached().unwrap(), store.cached_row());
    for (name, version, sequence) in [(b"a", 1, 1), (b"s", 1, 2)] {
        let expected = document(store, name, name, 0).unwrap().unwrap();
        assert_eq!((expected.version, expected.sequence), (version, sequence));
        assert_eq!(document(&snapshot, name, name, 0).unwrap().as_ref(), Some(&expected));
        assert_eq!(document(&cached, name, name, 0).unwrap().as_ref(), Some(&expected));
        assert_eq!(document(&row, name, name, 0).unwrap().as_ref(), Some(&expected));
        assert_eq!(document(&row, name, b"none", 0).unwrap(), None);
    }
}

/// Operations on few names, so that they meet.
fn operations() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let operation = prop_oneof![
        4 => (name(), name()).prop_map(|(key, id)| {
            let (key, id) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(id.as_bytes()));
            let action = Action::Index(Bytes::from_static(b"{}"));
            let condition = Condition::None;
            Operation::Document(DocumentWrite { key, id, action, condition, mapping_version: 1 })
        }),
        2 => name().prop_map(|id| write(id, Action::Delete, 1)),
        1 => name().prop_map(|key| command(&format!("SET {key} v PX 30000"))),
        1 => (name(), name()).prop_map(|(key, id)| command(&format!("HSET {key} {id} v"))),
        1 => (name(), name()).prop_map(|(from, to)| command(&format!("RENAME {from} {to}"))),
        1 => name().prop_map(|key| command(&format!("DEL {key}"))),
        1 => Just(command("FLUSHDB")),
        1 => Just(Operation::Sweep { limit: 3 }),
    ];
    prop::collection::vec(prop::collection::vec(operation, 1..6), 1..12)
}

fn apply_one(replica: &mut Replica, entry: &(Position, Record)) {
    replica.apply(entry.0, &entry.1, OverBudget::Refuse, &mut ()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// One replica notes documents, one does not, one notes them and is stopped after a flush and
    /// before the end: all are the same but for what is noted, which those that note have alike.
    #[test]
    fn noting_is_not_part_of_the_state_and_survives(
        records in operations(), flush_after in 0..12usize, stop_after in 0..12usize,
    ) {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let mut log = TestLog::new();
        for operations in &records {
            log.stamp_ms += 20_000;
            append(&mut log, operations);
        }
        let mut replicas = [open(dirs[0].path()), open(dirs[1].path())];
        replicas[0].set_documents(true).unwrap();
        for replica in &mut replicas {
            log.entries.iter().for_each(|entry| apply_one(replica, entry));
        }
        let mut stopped = open(dirs[2].path());
        stopped.set_documents(true).unwrap();
        for (at, entry) in log.entries.iter().enumerate().take(stop_after) {
            apply_one(&mut stopped, entry);
            if at == flush_after {
                stopped.store().flush().unwrap();
            }
        }
        drop(stopped);
        let mut stopped = open(dirs[2].path());
        stopped.set_documents(true).unwrap();
        log.entries.iter().for_each(|entry| apply_one(&mut stopped, entry));
        let digest = replicas[0].digest().unwrap();
        prop_assert_eq!(replicas[1].digest().unwrap(), digest);
        prop_assert_eq!(stopped.digest().unwrap(), digest);
        let noted = touches(replicas[0].store(), 0);
        prop_assert_eq!(touches(stopped.store(), 0), noted);
        prop_assert_eq!(touches(replicas[1].store(), 0), []);
    }
}

#[test]
fn the_digest_covers_versions_and_tombstones() {
    let digest = |operations: &[Operation]| {
        let dir = tempfile::tempdir().unwrap();
        let (mut replica, mut log) = (open(dir.path()), TestLog::new());
        append(&mut log, operations);
        let (_, record) = &log.entries[0];
        // At one position with one chain, so that only rows can differ.
        let position = Position { lsn: Lsn(1), hash: 7, log_time_ms: log.stamp_ms };
        assert_eq!((record.partition, record.lead.lead), (ID, LeadId(5)));
        replica.apply(position, record, OverBudget::Refuse, &mut ()).unwrap();
        let store = replica.store().clone();
        (replica.digest().unwrap(), document(&store, b"a", b"a", 0).unwrap())
    };
    let delete = || write("a", Action::Delete, 1);
    let external = |version| {
        let mut index = index("a", 1);
        if let Operation::Document(write) = &mut index {
            write.condition = Condition::External(version);
        }
        index
    };
    assert_eq!(digest(&[index("a", 1), delete()]), digest(&[index("a", 1), delete()]));
    assert_ne!(digest(&[index("a", 1), delete()]).0, digest(&[delete(), delete()]).0);
    assert_ne!(digest(&[external(8)]).0, digest(&[external(9)]).0);
    assert_eq!(digest(&[external(8)]).1.unwrap().version, 8);
}
