//! Tests of a partition's index: refreshes, crashes, growth.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use plimsoll_base::disk::SimulatedDisk;
use plimsoll_base::{Disk, Random};
use serde_json::{Value, json};
use tantivy::Term;
use tantivy::collector::{Count, DocSetCollector};
use tantivy::query::{AllQuery, Query, TermQuery};
use tantivy::schema::{IndexRecordOption, TantivyDocument, Value as _};
use tempfile::TempDir;

use super::*;
use crate::mapping::Mapping;

fn mapping(properties: &Value) -> Mapping {
    Mapping::parse(&json!({ "properties": properties })).unwrap()
}

fn open(dir: &Path, mapping: &Mapping) -> PartitionIndex {
    PartitionIndex::open(&Disk::of_the_machine(), dir, mapping, Options::default()).unwrap()
}

fn put(index: &mut PartitionIndex, id: &str, source: &Value) {
    index.put(id.as_bytes(), id, source.to_string().as_bytes(), false).unwrap();
}

fn find(view: &View, query: &dyn Query) -> BTreeSet<String> {
    let found = view.searcher().search(query, &DocSetCollector).unwrap();
    let id = view.layout().id_field();
    let ids = found.into_iter().map(|address| {
        let stored: TantivyDocument = view.searcher().doc(address).unwrap();
        stored.get_first(id).unwrap().as_str().unwrap().to_owned()
    });
    ids.collect()
}

fn ids(view: &View) -> BTreeSet<String> {
    find(view, &AllQuery)
}

fn by_text(view: &View, path: &str, text: &str) -> BTreeSet<String> {
    let term = Term::from_field_text(view.target(path).unwrap().field, text);
    find(view, &TermQuery::new(term, IndexRecordOption::Basic))
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn copy(from: &Path) -> TempDir {
    let to = TempDir::new().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // A file may go while the folder is copied, as it may while a machine dies.
        let _ = fs::copy(entry.path(), to.path().join(entry.file_name()));
    }
    to
}

#[test]
fn values_are_found_where_the_layout_says() {
    let dir = TempDir::new().unwrap();
    let mapping = mapping(&json!({
        "t": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "n": {"type": "long"}, "u": {"type": "unsigned_long"}, "f": {"type": "float"},
        "d": {"type": "date"}, "dn": {"type": "date_nanos"}, "b": {"type": "boolean"},
        "ip": {"type": "ip"}, "p": {"type": "geo_point"}, "o": {"properties": {"x": {"type": "byte"}}},
        "a": {"type": "alias", "path": "n"}, "no": {"type": "keyword", "index": false, "doc_values": false},
        "c": {"type": "constant_keyword", "value": "all"}, "bin": {"type": "binary"},
    }));
    let mut index = open(dir.path(), &mapping);
    put(
        &mut index,
        "1",
        &json!({
            "t": "Quick Fox", "n": [7, 8], "u": u64::MAX, "f": 1.1, "d": "2024-01-01", "dn": "2024-01-01T00:00:00.000000001Z",
            "b": true, "ip": "10.0.0.1", "p": [[2.0, 1.0], {"lat": 3.0, "lon": 4.0}], "o": [{"x": 1}, {"x": 2}], "no": "x", "bin": "AA==",
        }),
    );
    put(&mut index, "2", &json!({"t": "lazy dog"}));
    let view = index.refresh(5).unwrap();
    assert_eq!(view.position(), 5);
    assert_eq!(by_text(&view, "t", "fox"), set(&["1"]));
    assert_eq!(by_text(&view, "t.raw", "Quick Fox"), set(&["1"]));
    assert_eq!(by_text(&view, "c", "all"), set(&["1", "2"]));
    assert!(view.target("no").is_none());
    assert_eq!(view.target("a").unwrap().field, view.target("n").unwrap().field);
    let term = Term::from_field_i64(view.target("n").unwrap().field, 8);
    assert_eq!(find(&view, &TermQuery::new(term, IndexRecordOption::Basic)), set(&["1"]));
    let columns = view.searcher().segment_reader(0).fast_fields();
    let column = |path: &str| view.target(path).unwrap().column.clone().unwrap();
    let all: Vec<i64> = columns.i64(&column("o.x")).unwrap().values_for_doc(0).collect();
    assert_eq!(all, [1, 2]);
    assert_eq!(columns.i64(&column("d")).unwrap().first(0), Some(1_704_067_200_000));
    assert_eq!(columns.i64(&column("dn")).unwrap().first(0), Some(1_704_067_200_000_000_001));
    assert_eq!(columns.u64(&column("u")).unwrap().first(0), Some(u64::MAX));
    assert_eq!(columns.u64(&column("b")).unwrap().first(0), Some(1));
    assert_eq!(columns.f64(&column("f")).unwrap().first(0), Some(f64::from(1.1_f32)));
    assert_eq!(
        columns.ip_addr(&column("ip")).unwrap().first(0).unwrap().to_string(),
        "::ffff:10.0.0.1"
    );
    let Kind::GeoPoint { latitude, longitude } = &view.target("p").unwrap().kind else { panic!() };
    let all = |name: &str| columns.f64(name).unwrap().values_for_doc(0).collect::<Vec<f64>>();
    assert_eq!((all(latitude), all(longitude)), (vec![1.0, 3.0], vec![2.0, 4.0]));
    for path in ["t", "bin"] {
        let term = view.layout().exists_term(view.target(path).unwrap());
        assert!(
            find(&view, &TermQuery::new(term, IndexRecordOption::Basic)).contains("1"),
            "{path}"
        );
    }
}

#[test]
fn the_texts_of_a_list_lie_apart() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &mapping(&json!({"t": {"type": "text"}})));
    put(&mut index, "1", &json!({"t": ["a b", "c d"]}));
    let view = index.refresh(1).unwrap();
    let slot = view.target("t").unwrap().field;
    let within = |slop: u32| {
        let terms = ["b", "c"].map(|text| Term::from_field_text(slot, text));
        let mut phrase = tantivy::query::PhraseQuery::new(terms.to_vec());
        phrase.set_slop(slop);
        view.searcher().search(&phrase, &Count).unwrap()
    };
    assert_eq!((within(0), within(99), within(100)), (0, 0, 1));
}

#[test]
fn a_document_is_replaced_and_deleted() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &mapping(&json!({"k": {"type": "keyword"}})));
    put(&mut index, "1", &json!({"k": "a"}));
    put(&mut index, "1", &json!({"k": "b"}));
    put(&mut index, "2", &json!({"k": "b"}));
    let first = index.refresh(1).unwrap();
    assert_eq!(ids(&first), set(&["1", "2"]));
    assert_eq!(by_text(&first, "k", "a"), set(&[]));
    put(&mut index, "2", &json!({"k": "c"}));
    index.delete(b"1", "1").unwrap();
    index.delete(b"absent", "absent").unwrap();
    let second = index.refresh(2).unwrap();
    assert_eq!(ids(&second), set(&["2"]));
    assert_eq!(by_text(&second, "k", "c"), set(&["2"]));
    assert_eq!(by_text(&first, "k", "b"), set(&["1", "2"]), "a view does not change");
    index.delete_all().unwrap();
    put(&mut index, "3", &json!({}));
    assert_eq!(ids(&index.refresh(3).unwrap()), set(&["3"]));
}

#[test]
fn documents_of_one_id_and_other_keys_are_others() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &Mapping::empty());
    for key in ["1", "k", "l"] {
        index.put(key.as_bytes(), "1", b"{}", false).unwrap();
    }
    index.put(b"k", "2", b"{}", false).unwrap();
    index.put(b"\xff", "3", b"{}", false).unwrap();
    let count = |view: &View| view.searcher().search(&AllQuery, &Count).unwrap();
    assert_eq!(count(&index.refresh(1).unwrap()), 5);
    index.put(b"k", "1", b"{}", false).unwrap();
    index.put(b"1", "1", b"{}", false).unwrap();
    assert_eq!(count(&index.refresh(2).unwrap()), 5);
    index.delete(b"1", "1").unwrap();
    assert_eq!(count(&index.refresh(3).unwrap()), 4);
    index.delete_key(b"k").unwrap();
    assert_eq!(count(&index.refresh(4).unwrap()), 2);
    index.delete(b"\xff", "3").unwrap();
    let view = index.refresh(5).unwrap();
    let address =
        view.searcher().search(&AllQuery, &DocSetCollector).unwrap().into_iter().next().unwrap();
    let stored: TantivyDocument = view.searcher().doc(address).unwrap();
    assert_eq!(stored.get_first(view.layout().key_field()).unwrap().as_bytes(), Some(&b"l"[..]));
    // The index knows after it is opened again that there are such documents.
    index.persist().unwrap();
    drop(index);
    let mut index = open(dir.path(), &Mapping::empty());
    index.delete(b"1", "1").unwrap();
    assert_eq!(count(&index.refresh(6).unwrap()), 1);
}

#[test]
fn only_what_was_persisted_is_there_after_a_crash() {
    let dir = TempDir::new().unwrap();
    let mapping = mapping(&json!({"k": {"type": "keyword"}}));
    let mut index = open(dir.path(), &mapping);
    assert_eq!(index.position(), 0);
    put(&mut index, "1", &json!({"k": "a"}));
    index.refresh(10).unwrap();
    {
        let crashed = copy(dir.path());
        let after = open(crashed.path(), &mapping);
        assert_eq!((after.position(), ids(&after.view())), (0, set(&[])));
    }
    assert_eq!(index.persist().unwrap(), 10);
    put(&mut index, "2", &json!({"k": "b"}));
    index.delete(b"1", "1").unwrap();
    index.refresh(20).unwrap();
    put(&mut index, "3", &json!({"k": "c"}));
    let crashed = copy(dir.path());
    let after = open(crashed.path(), &mapping);
    assert_eq!((after.position(), ids(&after.view())), (10, set(&["1"])));
    // Persisting while documents wait for a refresh keeps those out.
    assert_eq!(index.persist().unwrap(), 20);
    let crashed = copy(dir.path());
    let after = open(crashed.path(), &mapping);
    assert_eq!((after.position(), ids(&after.view())), (20, set(&["2"])));
    // A refresh that shows nothing new moves the position all the same.
    index.refresh(30).unwrap();
    index.refresh(40).unwrap();
    assert_eq!(index.persist().unwrap(), 40);
    drop(index);
    let mut after = open(dir.path(), &mapping);
    assert_eq!((after.position(), ids(&after.view())), (40, set(&["2", "3"])));
    put(&mut after, "4", &json!({}));
    assert_eq!(ids(&after.refresh(50).unwrap()), set(&["2", "3", "4"]));
}

#[test]
fn a_mapping_that_grows_does_not_make_waiting_documents_durable() {
    let dir = TempDir::new().unwrap();
    let old = mapping(&json!({"k": {"type": "keyword"}}));
    let new = old.merge(&json!({"properties": {"t": {"type": "text"}}})).unwrap();
    let mut index = open(dir.path(), &old);
    put(&mut index, "1", &json!({}));
    index.refresh(1).unwrap();
    put(&mut index, "2", &json!({}));
    assert_eq!(index.set_mapping(&new).unwrap(), Grown::Extended);
    assert_eq!(index.persist().unwrap(), 1);
    let crashed = copy(dir.path());
    let after = open(crashed.path(), &new);
    assert_eq!((after.position(), ids(&after.view())), (1, set(&["1"])));
    let after = index.refresh(2).unwrap();
    assert_eq!(ids(&after), set(&["1", "2"]));
    index.persist().unwrap();
    drop(index);
    assert_eq!(ids(&open(dir.path(), &new).view()), set(&["1", "2"]));
}

#[test]
fn segments_from_before_a_field_merge_with_those_after() {
    let dir = TempDir::new().unwrap();
    let mut mapping = mapping(&json!({"t0": {"type": "text"}}));
    let mut index = open(dir.path(), &mapping);
    let kinds = [
        "text",
        "keyword",
        "long",
        "double",
        "ip",
        "geo_point",
        "boolean",
        "date",
        "match_only_text",
        "text",
    ];
    let value = |kind: &str| match kind {
        "text" | "keyword" | "match_only_text" => json!("quick"),
        "ip" => json!("::1"),
        "geo_point" => json!([1, 2]),
        "boolean" => json!(true),
        _ => json!(3),
    };
    put(&mut index, "0", &json!({"t0": "quick brown"}));
    index.refresh(0).unwrap();
    for (at, kind) in kinds.iter().enumerate() {
        let name = format!("t{}", at + 1);
        mapping = mapping.merge(&json!({"properties": {&name: {"type": kind}}})).unwrap();
        assert_eq!(index.set_mapping(&mapping).unwrap(), Grown::Extended);
        assert_eq!(index.set_mapping(&mapping).unwrap(), Grown::Same);
        put(&mut index, &name, &json!({&name: value(kind), "t0": "brown"}));
        index.refresh(at as u64 + 1).unwrap();
        if at == 4 {
            index.persist().unwrap();
            drop(index);
            index = open(dir.path(), &mapping);
        }
    }
    for round in 0..2 {
        let view = index.refresh(100).unwrap();
        assert_eq!(ids(&view).len(), kinds.len() + 1);
        assert_eq!(by_text(&view, "t0", "quick"), set(&["0"]));
        assert_eq!(by_text(&view, "t0", "brown").len(), kinds.len() + 1);
        for at in [1, 2, 9, 10] {
            let name = format!("t{at}");
            assert_eq!(by_text(&view, &name, "quick"), set(&[&name]));
        }
        let scored = TermQuery::new(
            Term::from_field_text(view.target("t10").unwrap().field, "quick"),
            IndexRecordOption::WithFreqs,
        );
        let top = tantivy::collector::TopDocs::with_limit(1).order_by_score();
        assert!(view.searcher().search(&scored, &top).unwrap()[0].0 > 0.0);
        assert_eq!(view.searcher().segment_readers().len() == 1, round == 1);
        index.force_merge(1).unwrap();
    }
    index.persist().unwrap();
    drop(index);
    assert_eq!(ids(&open(dir.path(), &mapping).view()).len(), kinds.len() + 1);
}

#[test]
fn a_field_indexed_otherwise_needs_a_rebuild() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &mapping(&json!({"a": {"type": "keyword"}})));
    let other = mapping(&json!({"a": {"type": "long"}}));
    assert_eq!(index.set_mapping(&other).unwrap(), Grown::NeedsRebuild);
    put(&mut index, "1", &json!({"a": "x"}));
    index.refresh(1).unwrap();
    index.persist().unwrap();
    drop(index);
    assert!(matches!(
        PartitionIndex::open(&Disk::of_the_machine(), dir.path(), &other, Options::default()),
        Err(IndexError::NeedsRebuild)
    ));
    PartitionIndex::destroy(&Disk::of_the_machine(), dir.path()).unwrap();
    assert_eq!(open(dir.path(), &other).position(), 0);
}

#[test]
fn damaged_files_are_noticed() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &Mapping::empty());
    put(&mut index, "1", &json!({}));
    index.refresh(1).unwrap();
    index.persist().unwrap();
    drop(index);
    let damaged = copy(dir.path());
    fs::write(damaged.path().join("meta.json"), b"{").unwrap();
    let opened = PartitionIndex::open(
        &Disk::of_the_machine(),
        damaged.path(),
        &Mapping::empty(),
        Options::default(),
    );
    assert!(matches!(opened, Err(IndexError::Corrupt(_))));
    let damaged = copy(dir.path());
    let term = fs::read_dir(damaged.path()).unwrap().map(|entry| entry.unwrap().path());
    fs::remove_file(
        term.into_iter().find(|path| path.extension().is_some_and(|e| e == "term")).unwrap(),
    )
    .unwrap();
    let opened = PartitionIndex::open(
        &Disk::of_the_machine(),
        damaged.path(),
        &Mapping::empty(),
        Options::default(),
    );
    assert!(matches!(opened, Err(IndexError::Corrupt(_))));
}

#[test]
fn only_what_files_hold_is_damage() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &Mapping::empty());
    put(&mut index, "1", &json!({}));
    index.refresh(1).unwrap();
    index.persist().unwrap();
    let checker = index.checker();
    let file = checker.files().remove(0);
    let path = dir.path().join(&file);
    let all = || true;
    let check = |goes_on: &dyn Fn() -> bool| {
        let mut seen = 0;
        let checked = checker.check(&file, &mut |bytes| {
            seen += bytes;
            goes_on()
        });
        (checked, seen)
    };
    let written = fs::read(&path).unwrap();
    let (checked, seen) = check(&all);
    assert!(checked.unwrap() && seen > 0 && seen < written.len() as u64, "{seen}");
    assert!(!check(&|| false).0.unwrap());
    for damage in [&written[..written.len() - 1], &written[..5], &[], &flipped(&written, 0)[..]] {
        fs::write(&path, damage).unwrap();
        assert!(matches!(check(&all).0, Err(IndexError::Corrupt(_))), "{}", damage.len());
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(check(&all).0, Err(IndexError::Corrupt(_))));
    // What cannot be read, as where there are too many open files.
    fs::create_dir(&path).unwrap();
    let error = check(&all).0.unwrap_err();
    assert!(matches!(error, IndexError::Io(_)) && !error.is_damage(), "{error}");
    let of_system = |number| IndexError::Io(std::io::Error::from_raw_os_error(number)).is_damage();
    // EIO; EMFILE and ENOSPC say nothing of the file.
    assert_eq!([5, 24, 28].map(of_system), [true, false, false]);
    drop(index);
    let error = PartitionIndex::open(
        &Disk::of_the_machine(),
        dir.path(),
        &Mapping::empty(),
        Options::default(),
    )
    .err();
    assert!(!error.unwrap().is_damage(), "to be tried again");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, &written).unwrap();
    assert_eq!(open(dir.path(), &Mapping::empty()).position(), 1);
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[at] ^= 1;
    flipped
}

#[test]
fn files_that_are_not_needed_go_and_an_idle_writer_too() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &Mapping::empty());
    for round in 0..30 {
        for at in 0..20 {
            put(&mut index, &at.to_string(), &json!({"round": round}));
        }
        index.refresh(round).unwrap();
        index.persist().unwrap();
    }
    assert!(index.statistics().has_writer);
    index.force_merge(1).unwrap();
    for _ in 0..4 {
        index.refresh(40).unwrap();
    }
    index.persist().unwrap();
    let statistics = index.statistics();
    assert!(!statistics.has_writer);
    assert_eq!((statistics.docs, statistics.deleted, statistics.segments), (20, 0, 1));
    assert_eq!((statistics.puts, statistics.unparsed), (600, 0));
    let files: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 7, "{files:?}");
    put(&mut index, "a", &json!({}));
    assert_eq!(index.refresh(41).unwrap().searcher().num_docs(), 21);
}

#[test]
fn an_index_and_its_views_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &Mapping::empty());
    is_send(&index);
    put(&mut index, "1", &json!({}));
    let view = index.refresh(1).unwrap();
    is_shared(&view);
    let found = std::thread::spawn(move || ids(&view)).join().unwrap();
    assert_eq!(found, set(&["1"]));
}

#[test]
fn a_source_that_does_not_fit_is_found_by_id() {
    let dir = TempDir::new().unwrap();
    let mut index = open(dir.path(), &mapping(&json!({"n": {"type": "long"}})));
    put(&mut index, "1", &json!({"n": "x"}));
    index.put(b"2", "2", b"{", false).unwrap();
    assert_eq!(ids(&index.refresh(1).unwrap()), set(&["1", "2"]));
    assert_eq!(index.statistics().unparsed, 2);
}

/// Random operations, crashes at any moment: what is opened is always what was persisted last.
#[test]
fn random_operations_and_crashes_agree_with_a_model() {
    for seed in 0..3_u64 {
        let dir = TempDir::new().unwrap();
        let mut mapping = mapping(&json!({"n": {"type": "long"}}));
        let mut index = open(dir.path(), &mapping);
        let mut random = seed + 1;
        let mut draw = |below: u64| {
            // Marsaglia's xorshift.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut now: BTreeMap<String, u64> = BTreeMap::new();
        let mut refreshed = now.clone();
        let mut persisted = (0, now.clone());
        let mut position = 0;
        for step in 0..400_u64 {
            let id = draw(30).to_string();
            match draw(20) {
                0..=9 => {
                    let is_new =
                        !now.contains_key(&id) && !refreshed.contains_key(&id) && step < 30;
                    let source = json!({"n": step}).to_string();
                    index.put(id.as_bytes(), &id, source.as_bytes(), is_new && step == 0).unwrap();
                    now.insert(id, step);
                }
                10..=12 => {
                    index.delete(id.as_bytes(), &id).unwrap();
                    now.remove(&id);
                }
                13..=15 => {
                    position += 1;
                    let view = index.refresh(position).unwrap();
                    refreshed = now.clone();
                    assert_eq!(contents(&view), refreshed, "seed {seed} step {step}");
                }
                16 => {
                    index.persist().unwrap();
                    persisted = (position, refreshed.clone());
                }
                17 => {
                    let name = format!("t{step}");
                    mapping =
                        mapping.merge(&json!({"properties": {name: {"type": "text"}}})).unwrap();
                    index.set_mapping(&mapping).unwrap();
                }
                18 if draw(4) == 0 => index.force_merge(1).unwrap(),
                _ => {
                    let crashed = copy(dir.path());
                    let after = open(crashed.path(), &mapping);
                    assert_eq!(
                        (after.position(), contents(&after.view())),
                        persisted,
                        "seed {seed} step {step}"
                    );
                    if draw(3) == 0 {
                        drop(index);
                        index = open(dir.path(), &mapping);
                        (position, now) = persisted.clone();
                        refreshed = now.clone();
                    }
                }
            }
        }
    }
}

fn contents(view: &View) -> BTreeMap<String, u64> {
    let column = view.target("n").unwrap().column.clone().unwrap();
    let found = view.searcher().search(&AllQuery, &DocSetCollector).unwrap();
    let contents = found.iter().map(|address| {
        let segment = view.searcher().segment_reader(address.segment_ord);
        let value = segment.fast_fields().i64(&column).unwrap().first(address.doc_id).unwrap();
        let stored: TantivyDocument = view.searcher().doc(*address).unwrap();
        let id = stored.get_first(view.layout().id_field()).unwrap().as_str().unwrap().to_owned();
        (id, u64::try_from(value).unwrap())
    });
    let contents: Vec<_> = contents.collect();
    let map: BTreeMap<_, _> = contents.iter().cloned().collect();
    assert_eq!(map.len(), contents.len(), "a document is there twice");
    map
}

/// The ids in the order in which searches walk over them.
fn walked(view: &View) -> Vec<String> {
    let searcher = view.searcher();
    let id = view.layout().id_field();
    let mut walked = Vec::new();
    for (segment, reader) in (0u32..).zip(searcher.segment_readers()) {
        for doc in reader.doc_ids_alive() {
            let stored: TantivyDocument =
                searcher.doc(tantivy::DocAddress::new(segment, doc)).unwrap();
            walked.push(stored.get_first(id).unwrap().as_str().unwrap().to_owned());
        }
    }
    walked
}

#[test]
fn documents_keep_their_order_through_refreshes_merges_and_openings() {
    let dir = TempDir::new().unwrap();
    let mapping = mapping(&json!({ "n": { "type": "long" } }));
    let mut index = open(dir.path(), &mapping);
    let mut expected = Vec::new();
    for number in 0..30u64 {
        let id = format!("{number:02}");
        put(&mut index, &id, &json!({ "n": 1 }));
        expected.push(id);
        let view = index.refresh(number).unwrap();
        assert_eq!(walked(&view), expected);
        if number % 10 == 9 {
            index.persist().unwrap();
            drop(index);
            index = open(dir.path(), &mapping);
            assert_eq!(walked(&index.view()), expected);
        }
    }
    for most in [5, 2, 1] {
        index.force_merge(most).unwrap();
        let view = index.refresh(100 + most as u64).unwrap();
        assert_eq!(walked(&view), expected, "at most {most}");
    }
}

#[test]
fn linked_files_are_the_index_as_it_was_persisted_whatever_becomes_of_it() {
    let dir = TempDir::new().unwrap();
    let (home, linked) = (dir.path().join("home"), dir.path().join("linked"));
    let mapping = mapping(&json!({ "n": { "type": "keyword" } }));
    let mut index = open(&home, &mapping);
    assert!(index.link(&linked).is_err(), "nothing is durable yet");
    fs::remove_dir_all(&linked).unwrap();
    for id in ["1", "2", "3"] {
        put(&mut index, id, &json!({ "n": id }));
    }
    index.refresh(5).unwrap();
    index.persist().unwrap();
    // Neither this nor what is persisted and merged later is in the linked files.
    put(&mut index, "4", &json!({}));
    index.delete(b"1", "1").unwrap();
    index.refresh(6).unwrap();
    index.link(&linked).unwrap();
    index.persist().unwrap();
    index.force_merge(1).unwrap();
    index.refresh(7).unwrap();
    index.persist().unwrap();
    drop(index);
    fs::remove_dir_all(&home).unwrap();
    let index = open(&linked, &mapping);
    assert_eq!((index.position(), ids(&index.view())), (5, set(&["1", "2", "3"])));
}

#[test]
fn an_index_from_elsewhere_is_given_a_position_of_its_new_place() {
    let dir = TempDir::new().unwrap();
    let linked = dir.path().join("linked");
    let own = dir.path().join("own");
    let mapping = mapping(&json!({"s": {"type": "keyword"}}));
    let mut index = open(&own, &mapping);
    put(&mut index, "1", &json!({"s": "x"}));
    index.persist().unwrap();
    PartitionIndex::set_position(&Disk::of_the_machine(), &own, 9).unwrap();
    drop(index);
    let mut index = open(&own, &mapping);
    assert_eq!(index.position(), 0, "what is to be filled anew still is");
    put(&mut index, "1", &json!({"s": "x"}));
    index.refresh(70).unwrap();
    index.persist().unwrap();
    index.link(&linked).unwrap();
    for position in [9, 9, 3] {
        PartitionIndex::set_position(&Disk::of_the_machine(), &linked, position).unwrap();
        let mut moved = open(&linked, &mapping);
        assert_eq!(moved.position(), position);
        assert_eq!(ids(&moved.refresh(position).unwrap()), set(&["1"]));
    }
    drop(index);
    assert_eq!(open(&own, &mapping).position(), 70, "that it was linked from is as it was");
    PartitionIndex::set_position(&Disk::of_the_machine(), &dir.path().join("none"), 9).unwrap();
    assert!(!dir.path().join("none").exists());
}

#[test]
fn a_linked_index_is_opened_by_an_older_mapping_and_grows_into_that_of_its_documents() {
    let dir = TempDir::new().unwrap();
    let (home, linked) = (dir.path().join("home"), dir.path().join("linked"));
    let older = mapping(&json!({ "n": { "type": "keyword" } }));
    let newer = mapping(&json!({ "n": { "type": "keyword" }, "t": { "type": "text" } }));
    let mut index = open(&home, &newer);
    put(&mut index, "1", &json!({ "n": "a", "t": "some words" }));
    index.refresh(5).unwrap();
    index.persist().unwrap();
    index.link(&linked).unwrap();
    let mut copy = open(&linked, &older);
    assert_eq!(by_text(&copy.view(), "n", "a"), set(&["1"]));
    assert!(copy.view().target("t").is_none(), "nobody knows the field here yet");
    assert_ne!(copy.set_mapping(&newer).unwrap(), Grown::NeedsRebuild);
    let view = copy.refresh(6).unwrap();
    assert_eq!(by_text(&view, "t", "words"), set(&["1"]));
}

/// Puts, refreshes, persists and loses power on a disk that is simulated; the files with what they hold, at each
/// step.
fn history(seed: u64) -> Vec<String> {
    let random = Random::seeded(seed);
    let (machine, mut chance) = (SimulatedDisk::new(&random), random.of("steps"));
    let mapping = mapping(&json!({"t": {"type": "text"}, "n": {"type": "long"}}));
    let (dir, options) =
        (Path::new("/index"), Options { merges_in_step: true, ..Options::default() });
    let mut seen = Vec::new();
    for _ in 0..4 {
        let disk = machine.started();
        disk.create_dir(dir).unwrap();
        let open = || PartitionIndex::open(&disk, dir, &mapping, options.clone());
        let mut index = open().or_else(|error| {
            assert!(error.is_damage(), "{error}");
            PartitionIndex::destroy(&disk, dir).and_then(|()| open())
        });
        let index = index.as_mut().unwrap();
        let mut documents = index.view().searcher().num_docs();
        seen.push(format!("opened at {} with {documents}", index.position()));
        for step in 1..30 {
            for _ in 0..chance.below(5) {
                let id = format!("{}", chance.below(40));
                put(index, &id, &json!({"t": "a b", "n": chance.below(9)}));
            }
            let view = index.refresh(index.position() + step).unwrap();
            documents = view.searcher().num_docs();
            if chance.once_in(4) {
                index.persist().unwrap();
            }
            let files: Vec<String> = machine
                .files()
                .iter()
                .map(|file| format!("{}: {}", file.display(), disk.find(file).unwrap().bytes))
                .collect();
            seen.push(format!("{documents} in {files:?}"));
        }
        machine.lose_power();
    }
    seen
}

#[test]
fn the_same_writes_make_the_same_files_on_a_simulated_disk() {
    for seed in 1..4 {
        let (first, again) = (history(seed), history(seed));
        assert_eq!(first, again, "seed {seed}");
        assert!(first.iter().any(|seen| seen.contains(&format!("{:032x}.store", 2))), "{first:?}");
    }
}
