//! Writes of documents: versions, sequence numbers, conditions, tombstones, and how they meet
//! Redis commands on the same rows.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::{Bench, check};
use crate::execute::{DocumentsCursor, document, document_count, documents, documents_of};
use crate::operation::{
    Action, Condition, DocumentOutcome, DocumentResult, DocumentWrite, Operation,
};

/// Runs `document KEY ID` (reads it), or `document KEY ID index|create SOURCE` or `document KEY
/// ID delete`, each with a condition where wanted: `if SEQ_NO TERM`, `external V`, `gte V`.
pub(super) fn run_line(bench: &mut Bench, words: &[&str]) -> String {
    let bytes = |word: &str| Bytes::copy_from_slice(word.as_bytes());
    let (action, rest) = match *words {
        [key, id] => return show_read(bench, key, id),
        [_, _, "index", source, ref rest @ ..] => (Action::Index(bytes(source)), rest),
        [_, _, "create", source, ref rest @ ..] => (Action::Create(bytes(source)), rest),
        [_, _, "delete", ref rest @ ..] => (Action::Delete, rest),
        _ => panic!("not a line of a script: {words:?}"),
    };
    let number = |word: &str| word.parse().unwrap();
    let condition = match *rest {
        [] => Condition::None,
        ["if", seq_no, term] => {
            Condition::IfSequence { seq_no: number(seq_no), primary_term: number(term) }
        }
        ["external", version] => Condition::External(number(version)),
        ["gte", version] => Condition::ExternalGte(number(version)),
        _ => panic!("not a condition: {rest:?}"),
    };
    let (key, id) = (bytes(words[0]), bytes(words[1]));
    show(&write(bench, DocumentWrite { key, id, action, condition, mapping_version: 3 }))
}

/// Writes a document; one that is done takes one number, one that is not takes none but for
/// what has expired.
pub(super) fn write(bench: &mut Bench, write: DocumentWrite) -> DocumentOutcome {
    let before = bench.context.sequence;
    let outcome = DocumentOutcome::from_reply(&bench.run(&Operation::Document(write))).unwrap();
    match outcome {
        DocumentOutcome::Done { seq_no, .. } => {
            assert_eq!(bench.context.sequence, before + 1);
            assert_eq!(seq_no, before);
        }
        DocumentOutcome::Conflict { .. } => assert!(bench.context.sequence <= before + 1),
    }
    outcome
}

fn show(outcome: &DocumentOutcome) -> String {
    match outcome {
        DocumentOutcome::Done { result, version, seq_no } => {
            let result = match result {
                DocumentResult::Created => "created",
                DocumentResult::Updated => "updated",
                DocumentResult::Deleted => "deleted",
                DocumentResult::NotFound => "not_found",
                DocumentResult::Noop => "noop",
            };
            format!("{result} v{version} #{seq_no}")
        }
        DocumentOutcome::Conflict { present: None } => "conflict".into(),
        DocumentOutcome::Conflict { present: Some(present) } => {
            let deleted = if present.is_deleted { " deleted" } else { "" };
            format!("conflict{deleted} v{} #{}", present.version, present.seq_no)
        }
    }
}

fn show_read(bench: &Bench, key: &str, id: &str) -> String {
    let (key, id) = (key.as_bytes(), id.as_bytes());
    let found = document(&bench.rows, key, id, bench.context.now_ms).unwrap();
    found.map_or("nil".into(), |found| {
        format!("{:?} v{} #{}", found.source, found.version, found.seq_no()).split_off(1)
    })
}

#[test]
fn versions_and_numbers_are_those_of_elasticsearch() {
    check(
        r#"
        document 1 1 index a => created v1 #0
        document 1 1 index b => updated v2 #1
        document a a index c => created v1 #2
        document 1 1 create d => conflict v2 #1
        document 1 1 index d if 99 1 => conflict v2 #1
        document 7 7 index d external 5 => created v5 #3
        document 7 7 index d external 5 => conflict v5 #3
        document 7 7 index e gte 5 => updated v5 #4
        document 7 7 index e gte 4 => conflict v5 #4
        document 1 1 index d if 1 1 => updated v3 #5
        document 1 1 index e if 5 2 => conflict v3 #5
        document 1 1 => "d" v3 #5
        document 7 7 delete => deleted v6 #6
        document 7 7 delete => not_found v7 #7
        document 7 7 index e if 7 1 => conflict deleted v7 #7
        document 7 7 index e external 7 => conflict deleted v7 #7
        document 7 7 create e => created v8 #8
        document none none delete => not_found v1 #9
        document none none index a => created v2 #10
        document other other delete if 0 1 => conflict
        document other other delete gte 9 => not_found v9 #11
        document 1 1 delete if 4 1 => conflict v3 #5
        document 1 1 delete external 3 => conflict v3 #5
        document 1 1 delete external 12 => deleted v12 #12
        "#,
    );
}

#[test]
fn a_deleted_document_is_forgotten_after_a_minute() {
    check(
        r#"
        document k k index a => created v1 #0
        document k k delete => deleted v2 #1
        rows => 2
        +59999
        document k k index a => created v3 #2
        rows => 2
        document k k delete => deleted v4 #3
        +60000
        document k k index a => created v1 #4
        rows => 2
        document k k delete => deleted v2 #5
        +60000
        sweep 9 => 0
        rows => 0
        document k k delete => not_found v1 #6
        +60000
        document k k delete => not_found v1 #7
        rows => 2
        FLUSHDB => OK
        rows => 0
        "#,
    );
}

#[test]
fn documents_are_fields_and_strings() {
    check(
        r#"
        document k a index 1 => created v1 #0
        document k b index 2 => created v1 #1
        HGETALL k => {"a": "1", "b": "2"}
        HSET k a 3 c 4 => 1
        document k a => "3" v2 #2
        document k c => "4" v1 #3
        TTL k => -1
        EXPIRE k 100 => 1
        HPEXPIRE k 50 FIELDS 1 c => [1]
        document k c index 5 => updated v2 #8
        HPTTL k FIELDS 1 c => [-1]
        TTL k => 100
        SET s x => OK
        SET s y => OK
        document s s => "y" v2 #10
        document s other => nil
        EXPIRE s 100 => 1
        document s s => "y" v2 #11
        document s other delete => not_found v1 #12
        TYPE s => string
        document s s create z => conflict v2 #11
        document s other index z => created v2 #13
        HGETALL s => {"other": "z", "s": "y"}
        document s s => "y" v2 #11
        TTL s => 100
        SET t x PX 500 => OK
        document t t index z => updated v2 #15
        PTTL t => 500
        TYPE t => hash
        document t t delete => deleted v3 #16
        EXISTS t => 0
        SET t x => OK
        document t t => "x" v1 #17
        document t t delete => deleted v2 #18
        document t t index x => created v3 #19
        DEL t => 1
        document t t index x => created v1 #21
        "#,
    );
}

#[test]
fn what_has_expired_is_absent_and_goes() {
    check(
        r#"
        document k a index 1 => created v1 #0
        document k b index 2 => created v1 #1
        HPEXPIRE k 50 FIELDS 1 a => [1]
        +50
        document k a => nil
        document k a index 3 if 0 1 => conflict
        document k a index 3 => created v1 #5
        document k a => "3" v1 #5
        PEXPIRE k 50 => 1
        +50
        document k b => nil
        document k b delete => not_found v1 #7
        rows => 2
        SET s 1 PX 50 => OK
        +50
        document s s create 2 => created v1 #9
        "#,
    );
}

#[test]
fn a_walk_shows_every_document_in_pages() {
    let mut bench = Bench::new();
    let mut expected = Vec::new();
    for at in 0..40u32 {
        let key = format!("k{}", at % 7);
        bench.write(&["HSET", &key, &format!("f{at}"), &at.to_string()]);
        expected.push((key, format!("f{at}"), at.to_string()));
    }
    for at in 0..5u32 {
        bench.write(&["SET", &format!("s{at}"), "value"]);
        expected.push((format!("s{at}"), format!("s{at}"), "value".into()));
    }
    bench.write(&["HPEXPIRE", "k1", "5", "FIELDS", "1", "f1"]);
    bench.write(&["PEXPIRE", "k2", "5"]);
    bench.write(&["SET", "gone", "x", "PX", "5"]);
    bench.pass(5);
    expected.retain(|(key, id, _)| key != "k2" && id != "f1");
    expected.sort();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let now_ms = bench.context.now_ms;
    for (limit, bytes_max) in [(1, 1000), (0, 1000), (7, 1000), (1000, 1), (1000, 11), (1000, 1000)]
    {
        let (mut found, mut cursor) = (Vec::new(), Some(DocumentsCursor::default()));
        while let Some(from) = cursor {
            let (mut count, mut bytes) = (0, 0);
            let mut visit = |key: &[u8], id: &[u8], document: crate::execute::DocumentRow<'_>| {
                assert!(count == 0 || (count < limit && bytes < bytes_max));
                (count, bytes) = (count + 1, bytes + document.source.len());
                found.push((text(key), text(id), text(document.source)));
                ControlFlow::Continue(())
            };
            let rows = &bench.rows;
            cursor = documents(rows, &from, limit, bytes_max, now_ms, &mut visit).unwrap();
        }
        found.sort();
        assert_eq!(found, expected, "{limit} {bytes_max}");
    }
    assert_eq!(document_count(&bench.rows, now_ms).unwrap(), expected.len() as u64);
    let mut first = None;
    documents_of(&bench.rows, b"k1", now_ms, &mut |key, id, _| {
        first = Some((text(key), text(id)));
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(first, Some(("k1".into(), "f15".into())));
    let mut stopped = 0;
    let cursor =
        documents(&bench.rows, &DocumentsCursor::default(), 9, 999, now_ms, &mut |_, _, _| {
            stopped += 1;
            if stopped == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    let cursor = cursor.unwrap().unwrap();
    let mut rest = 0;
    documents(&bench.rows, &cursor, 999, 999, now_ms, &mut |_, _, _| {
        rest += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(rest + 3, expected.len());
}
