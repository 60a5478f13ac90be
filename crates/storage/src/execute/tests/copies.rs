//! Tests of a hash copied in slices: nobody sees it half, and nothing of it stays where it does not end.

use crate::execute::{DocumentsCursor, documents, large_hash};
use crate::operation::{COPY_GENERATIONS_FROM, CopyEnd, CopyStep, HashCopy};

use super::*;

const FIELDS: usize = 5000;
const COPY: CopyEnd = CopyEnd { renames: false, absent: false, number: true };
const RENAME: CopyEnd = CopyEnd { renames: true, absent: false, number: false };

fn bench() -> Bench {
    let mut bench = Bench::new();
    for from in (0..FIELDS).step_by(500) {
        let fields: Vec<String> = (from..from + 500).map(|n| format!("f{n}")).collect();
        let mut words = vec!["HSET", "h"];
        words.extend(fields.iter().flat_map(|field| [field.as_str(), "v"]));
        bench.write(&words);
    }
    bench
}

fn copy(bench: &Bench, to: &'static str) -> HashCopy {
    let now_ms = bench.context.now_ms;
    HashCopy {
        from: "h".into(),
        to: to.into(),
        generation: COPY_GENERATIONS_FROM | 7,
        last_change: large_hash(&bench.rows, b"h", now_ms).unwrap().unwrap(),
        until_ms: now_ms + 1000,
        step: CopyStep::Slice { after: None, fields: 700 },
    }
}

/// Runs a step without a look at the rows: those of a copy that has not ended are nobody's.
fn step(bench: &mut Bench, copy: &HashCopy) -> Reply {
    let operation = Operation::CopyHash(copy.clone());
    let decoded = Operation::decode(&operation.encode()).unwrap();
    let Operation::CopyHash(decoded) = decoded else { panic!("{decoded:?}") };
    assert_eq!(decoded, *copy);
    operation::run(&operation, &mut bench.rows, &mut bench.context).unwrap()
}

/// All slices, and `look` after each.
fn slices(bench: &mut Bench, copy: &mut HashCopy, look: impl Fn(&Bench)) -> usize {
    let mut count = 0;
    loop {
        count += 1;
        let reply = step(bench, copy);
        look(bench);
        match reply {
            Reply::Bulk(last) => copy.step = CopyStep::Slice { after: Some(last), fields: 700 },
            reply => {
                assert_eq!(reply, Reply::OK);
                return count;
            }
        }
    }
}

fn content(bench: &Bench, key: &str) -> String {
    show(&bench.read(&["HGETALL", key]))
}

#[test]
fn nobody_sees_a_copy_before_its_end() {
    let mut bench = bench();
    let mut copy = copy(&bench, "t");
    let count = slices(&mut bench, &mut copy, |bench| {
        for (words, answer) in [
            (&["EXISTS", "t"][..], "0"),
            (&["HLEN", "t"], "0"),
            (&["DBSIZE"], "1"),
            (&["KEYS", "*"], "[\"h\"]"),
            (&["TYPE", "t"], "none"),
        ] {
            assert_eq!(show(&bench.read(words)), answer);
        }
        let mut shown = 0;
        let from = DocumentsCursor::default();
        let now_ms = bench.context.now_ms;
        documents(&bench.rows, &from, usize::MAX, usize::MAX, now_ms, &mut |key, _, _| {
            assert_eq!(key, b"h");
            shown += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(shown, FIELDS);
    });
    assert_eq!(count, FIELDS.div_ceil(700));
    copy.step = CopyStep::End(COPY);
    assert_eq!(step(&mut bench, &copy), Reply::Integer(1));
    bench.check_rows();
    assert_eq!(content(&bench, "t"), content(&bench, "h"));
    // It is a hash like any other.
    bench.write(&["HSET", "t", "g", "v"]);
    assert_eq!(show(&bench.read(&["HLEN", "t"])), "5001");
    bench.write(&["DEL", "t"]);
    assert_eq!(bench.row_count(), FIELDS + 1);
}

#[test]
fn a_rename_takes_the_place_of_what_was_there() {
    for before in [&["SET", "t", "old"][..], &["HSET", "t", "old", "v"], &["GET", "t"]] {
        let mut bench = bench();
        bench.write(before);
        let held = content(&bench, "h");
        let mut copy = copy(&bench, "t");
        slices(&mut bench, &mut copy, |_| ());
        copy.step = CopyStep::End(RENAME);
        assert_eq!(step(&mut bench, &copy), Reply::OK);
        bench.check_rows();
        assert_eq!(content(&bench, "t"), held);
        assert_eq!(show(&bench.read(&["DBSIZE"])), "1");
        assert_eq!(bench.row_count(), FIELDS + 1);
    }
}

#[test]
fn a_source_that_changes_is_not_copied_and_nothing_is_left() {
    let changes: [&[&str]; 5] = [
        &["HSET", "h", "f1", "new"],
        &["HDEL", "h", "f1"],
        &["DEL", "h"],
        &["FLUSHDB"],
        &["HEXPIRE", "h", "100", "FIELDS", "1", "f1"],
    ];
    for change in changes {
        let mut bench = bench();
        let mut copy = copy(&bench, "t");
        slices(&mut bench, &mut copy, |_| ());
        let argv = Argv::of(change);
        operation::run(&Operation::Command(argv), &mut bench.rows, &mut bench.context).unwrap();
        for step_of in [CopyStep::End(COPY), CopyStep::Slice { after: None, fields: 1 }] {
            copy.step = step_of;
            assert_eq!(step(&mut bench, &copy), Reply::Nil, "{change:?}");
        }
        copy.step = CopyStep::Drop;
        assert_eq!(step(&mut bench, &copy), Reply::OK);
        bench.check_rows();
        assert_eq!(show(&bench.read(&["EXISTS", "t"])), "0");
    }
}

#[test]
fn a_copy_that_nobody_ends_is_swept() {
    let mut bench = bench();
    let mut copy = copy(&bench, "t");
    slices(&mut bench, &mut copy, |_| ());
    bench.pass(1000);
    copy.step = CopyStep::End(COPY);
    assert_eq!(step(&mut bench, &copy), Reply::Nil, "too late");
    assert_eq!(bench.run(&Operation::Sweep { limit: 10 }), Reply::Integer(0));
    assert_eq!(bench.row_count(), FIELDS + 1);

    // One that has ended is none.
    let mut copy = HashCopy { until_ms: bench.context.now_ms + 10, ..copy };
    copy.step = CopyStep::Slice { after: None, fields: 700 };
    slices(&mut bench, &mut copy, |_| ());
    copy.step = CopyStep::End(COPY);
    assert_eq!(step(&mut bench, &copy), Reply::Integer(1));
    copy.step = CopyStep::Drop;
    assert_eq!(step(&mut bench, &copy), Reply::OK);
    bench.pass(1000);
    bench.run(&Operation::Sweep { limit: 10 });
    assert_eq!(content(&bench, "t"), content(&bench, "h"));
}

#[test]
fn only_what_is_not_there_is_taken_where_that_is_asked() {
    let mut bench = bench();
    bench.write(&["SET", "t", "old"]);
    let mut copy = copy(&bench, "t");
    slices(&mut bench, &mut copy, |_| ());
    copy.step = CopyStep::End(CopyEnd { absent: true, ..COPY });
    assert_eq!(step(&mut bench, &copy), Reply::Integer(0));
    copy.step = CopyStep::Drop;
    step(&mut bench, &copy);
    bench.check_rows();
    assert_eq!(show(&bench.read(&["GET", "t"])), "\"old\"");
}

#[test]
fn steps_that_come_after_a_copy_was_given_up_do_nothing() {
    let mut bench = bench();
    let held = content(&bench, "h");
    let mut copy = copy(&bench, "t");
    slices(&mut bench, &mut copy, |_| ());
    copy.step = CopyStep::Drop;
    step(&mut bench, &copy);
    let late = CopyStep::Slice { after: Some("f1".into()), fields: 700 };
    for late in [late, CopyStep::End(RENAME), CopyStep::End(COPY)] {
        copy.step = late;
        assert_eq!(step(&mut bench, &copy), Reply::Nil);
    }
    bench.check_rows();
    assert_eq!(content(&bench, "h"), held);
    assert_eq!(show(&bench.read(&["EXISTS", "t"])), "0");
}
