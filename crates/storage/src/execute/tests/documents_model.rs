//! Random writes of documents and Redis commands against a simple model; and an index that only
//! follows what was touched, at random moments, against the documents that are there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Bench, documents::write};
use crate::execute::{DocumentsCursor, document, document_count, documents, documents_of};
use crate::operation::{
    Action, Condition, DocumentOutcome, DocumentResult, DocumentWrite, Operation, Present,
};
use crate::rows::touch::{Touched, TouchedDocument, Touches};
use crate::{Argv, Reply};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KEPT_MS: u64 = 60_000;

/// A step; names are positions in [`NAMES`].
#[derive(Clone, Debug)]
enum Step {
    Document { key: usize, id: usize, action: u8, condition: Wish },
    Set { key: usize, ttl_ms: Option<u64> },
    Append { key: usize },
    HashSet { key: usize, id: usize },
    HashDelete { key: usize, id: usize },
    Delete { key: usize },
    Expire { key: usize, ttl_ms: u64 },
    ExpireField { key: usize, id: usize, ttl_ms: u64 },
    Persist { key: usize },
    Move { from: usize, to: usize, is_copy: bool },
    Flush,
    Sweep { limit: u64 },
    Pass { ms: u64 },
    EndRecord,
    Refresh,
}

/// A condition, most often near what it is about.
#[derive(Clone, Copy, Debug)]
enum Wish {
    None,
    Sequence { is_right: bool },
    External { ahead: i64, or_equal: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..NAMES.len();
    let ttl = || prop_oneof![Just(0u64), 1..200u64];
    let wish = prop_oneof![
        4 => Just(Wish::None),
        2 => any::<bool>().prop_map(|is_right| Wish::Sequence { is_right }),
        2 => (-2..4i64, any::<bool>()).prop_map(|(ahead, or_equal)| Wish::External { ahead, or_equal }),
    ];
    let step = prop_oneof![
        40 => (name(), name(), 0u8..3, wish).prop_map(|(key, id, action, condition)| {
            Step::Document { key, id, action, condition }
        }),
        6 => (name(), prop::option::of(1..200u64)).prop_map(|(key, ttl_ms)| Step::Set { key, ttl_ms }),
        2 => name().prop_map(|key| Step::Append { key }),
        8 => (name(), name()).prop_map(|(key, id)| Step::HashSet { key, id }),
        6 => (name(), name()).prop_map(|(key, id)| Step::HashDelete { key, id }),
        3 => name().prop_map(|key| Step::Delete { key }),
        3 => (name(), ttl()).prop_map(|(key, ttl_ms)| Step::Expire { key, ttl_ms }),
        4 => (name(), name(), ttl()).prop_map(|(key, id, ttl_ms)| Step::ExpireField { key, id, ttl_ms }),
        2 => name().prop_map(|key| Step::Persist { key }),
        4 => (name(), name(), any::<bool>()).prop_map(|(from, to, is_copy)| Step::Move { from, to, is_copy }),
        1 => Just(Step::Flush),
        3 => (0..9u64).prop_map(|limit| Step::Sweep { limit }),
        4 => prop_oneof![1..100u64, Just(KEPT_MS - 1), Just(KEPT_MS)].prop_map(|ms| Step::Pass { ms }),
        8 => Just(Step::EndRecord),
        6 => Just(Step::Refresh),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    source: String,
    version: u64,
    sequence: u64,
    expiry_ms: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Key {
    is_string: bool,
    expiry_ms: Option<u64>,
    rows: BTreeMap<&'static str, Row>,
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<&'static str, Key>,
    /// Version, sequence number and when it is forgotten.
    tombstones: BTreeMap<(&'static str, &'static str), (u64, u64, u64)>,
}

impl Model {
    fn expire(&mut self, now_ms: u64) {
        let is_live = |expiry_ms: Option<u64>| expiry_ms.is_none_or(|at| at > now_ms);
        for key in self.keys.values_mut() {
            key.rows.retain(|_, row| is_live(row.expiry_ms));
        }
        self.keys.retain(|_, key| is_live(key.expiry_ms) && !key.rows.is_empty());
        self.tombstones.retain(|_, (_, _, until_ms)| *until_ms > now_ms);
    }

    fn row(&self, key: &str, id: &str) -> Option<&Row> {
        self.keys.get(key)?.rows.get(id)
    }

    /// What the write comes to; `sequence` is its number.
    fn document(&mut self, write: &DocumentWrite, sequence: u64, now_ms: u64) -> DocumentOutcome {
        let name = |bytes: &Bytes| *NAMES.iter().find(|name| name.as_bytes() == *bytes).unwrap();
        let (key, id) = (name(&write.key), name(&write.id));
        let live = self.row(key, id).map(|row| (row.version, row.sequence));
        let dead = self.tombstones.get(&(key, id)).filter(|_| live.is_none());
        let known = live.or(dead.map(|(version, sequence, _)| (*version, *sequence)));
        let is_right = match write.condition {
            Condition::None => true,
            Condition::IfSequence { seq_no, primary_term } => {
                primary_term == 1 && live.is_some_and(|(_, sequence)| sequence == seq_no + 1)
            }
            Condition::External(version) => known.is_none_or(|(present, _)| version > present),
            Condition::ExternalGte(version) => known.is_none_or(|(present, _)| version >= present),
        };
        if !is_right || (live.is_some() && matches!(write.action, Action::Create(_))) {
            let present = known.map(|(version, sequence)| Present {
                is_deleted: live.is_none(),
                version,
                seq_no: sequence - 1,
            });
            return DocumentOutcome::Conflict { present };
        }
        let version = match write.condition {
            Condition::External(version) | Condition::ExternalGte(version) => version,
            _ => known.map_or(1, |(version, _)| version + 1),
        };
        let result = match (&write.action, live) {
            (Action::Delete, _) => {
                if let Some(held) = self.keys.get_mut(key) {
                    held.rows.remove(id);
                }
                self.tombstones.insert((key, id), (version, sequence, now_ms + KEPT_MS));
                if live.is_some() { DocumentResult::Deleted } else { DocumentResult::NotFound }
            }
            (Action::Index(source) | Action::Create(source), _) => {
                let held = self.keys.entry(key).or_default();
                held.is_string = false;
                let source = String::from_utf8(source.to_vec()).unwrap();
                held.rows.insert(id, Row { source, version, sequence, expiry_ms: None });
                if live.is_none() {
                    self.tombstones.remove(&(key, id));
                }
                if live.is_some() { DocumentResult::Updated } else { DocumentResult::Created }
            }
        };
        self.expire(now_ms);
        DocumentOutcome::Done { result, version, seq_no: sequence - 1 }
    }

    /// Sets a row by a command; its number is not known yet.
    fn set(&mut self, key: &'static str, id: &'static str, source: String, is_string: bool) {
        let held = self.keys.entry(key).or_default();
        if held.is_string != is_string {
            *held = Key { is_string, ..Key::default() };
        }
        let version = held.rows.get(id).map_or(1, |row| row.version + 1);
        held.rows.insert(id, Row { source, version, sequence: 0, expiry_ms: None });
    }

    fn is_string(&self, key: &str) -> Option<bool> {
        self.keys.get(key).map(|held| held.is_string)
    }
}

/// What an index would hold: the sources of documents.
type Index = BTreeMap<(Bytes, Bytes), Bytes>;

struct Run {
    bench: Bench,
    model: Model,
    touched: Touched,
    index: Index,
    count: u32,
}

impl Run {
    fn step(&mut self, step: Step) {
        let (now_ms, name) = (self.bench.context.now_ms, |at: usize| NAMES[at]);
        self.model.expire(now_ms);
        self.count += 1;
        let is_command = !matches!(step, Step::Document { .. });
        let source = format!("source {}", self.count);
        match step {
            Step::Document { key, id, action, condition } => {
                self.document(name(key), name(id), action, condition, source);
            }
            Step::Set { key, ttl_ms } => {
                let key = name(key);
                match ttl_ms {
                    Some(ms) => self.command(&["SET", key, &source, "PX", &ms.to_string()]),
                    None => self.command(&["SET", key, &source]),
                };
                self.model.set(key, key, source, true);
                if let Some(held) = self.model.keys.get_mut(key) {
                    held.expiry_ms = ttl_ms.map(|ms| now_ms + ms);
                }
            }
            Step::Append { key } => {
                let key = name(key);
                self.command(&["APPEND", key, "."]);
                if self.model.is_string(key) != Some(false) {
                    let old = self.model.row(key, key).map(|row| row.source.clone());
                    self.model.set(key, key, old.unwrap_or_default() + ".", true);
                }
            }
            Step::HashSet { key, id } => {
                let (key, id) = (name(key), name(id));
                self.command(&["HSET", key, id, &source]);
                if self.model.is_string(key) != Some(true) {
                    self.model.set(key, id, source, false);
                }
            }
            Step::HashDelete { key, id } => {
                let (key, id) = (name(key), name(id));
                self.command(&["HDEL", key, id]);
                if let Some(held) = self.model.keys.get_mut(key).filter(|held| !held.is_string) {
                    held.rows.remove(id);
                }
            }
            Step::Delete { key } => {
                self.command(&["DEL", name(key)]);
                self.model.keys.remove(name(key));
            }
            Step::Expire { key, ttl_ms } => {
                self.command(&["PEXPIRE", name(key), &ttl_ms.to_string()]);
                if let Some(held) = self.model.keys.get_mut(name(key)) {
                    held.expiry_ms = Some(now_ms + ttl_ms);
                }
            }
            Step::ExpireField { key, id, ttl_ms } => {
                let (key, id) = (name(key), name(id));
                self.command(&["HPEXPIRE", key, &ttl_ms.to_string(), "FIELDS", "1", id]);
                let held = self.model.keys.get_mut(key).filter(|held| !held.is_string);
                if let Some(row) = held.and_then(|held| held.rows.get_mut(id)) {
                    row.expiry_ms = Some(now_ms + ttl_ms);
                }
            }
            Step::Persist { key } => {
                self.command(&["PERSIST", name(key)]);
                if let Some(held) = self.model.keys.get_mut(name(key)) {
                    held.expiry_ms = None;
                }
            }
            Step::Move { from, to, is_copy } => self.move_key(name(from), name(to), is_copy),
            Step::Flush => {
                self.command(&["FLUSHDB"]);
                self.model = Model::default();
            }
            Step::Sweep { limit } => {
                self.bench.run(&Operation::Sweep { limit });
            }
            Step::Pass { ms } => self.bench.pass(ms),
            Step::EndRecord => self.end_record(),
            Step::Refresh => self.refresh(),
        }
        self.check(is_command);
    }

    fn command(&mut self, parts: &[&str]) -> Reply {
        self.bench.run(&Operation::Command(Argv::of(parts)))
    }

    fn document(&mut self, key: &str, id: &str, action: u8, wish: Wish, source: String) {
        let action = match action {
            0 => Action::Index(source.into()),
            1 => Action::Create(source.into()),
            _ => Action::Delete,
        };
        let known = self.model.row(key, id).map(|row| (row.version, row.sequence));
        let condition = match wish {
            Wish::None => Condition::None,
            Wish::Sequence { is_right } => {
                let seq_no = known.map_or(0, |(_, sequence)| sequence - 1);
                let seq_no = if is_right { seq_no } else { seq_no + 1 };
                Condition::IfSequence { seq_no, primary_term: 1 }
            }
            Wish::External { ahead, or_equal } => {
                let version = known.map_or(3, |(version, _)| version);
                let version = version.saturating_add_signed(ahead);
                if or_equal {
                    Condition::ExternalGte(version)
                } else {
                    Condition::External(version)
                }
            }
        };
        let (key, id) = (Bytes::from(key.to_owned()), Bytes::from(id.to_owned()));
        let wanted = DocumentWrite { key, id, action, condition, mapping_version: 1 };
        let (sequence, now_ms) = (self.bench.context.sequence + 1, self.bench.context.now_ms);
        let expected = self.model.document(&wanted, sequence, now_ms);
        assert_eq!(write(&mut self.bench, wanted.clone()), expected, "{wanted:?}");
    }

    fn move_key(&mut self, from: &'static str, to: &'static str, is_copy: bool) {
        if is_copy {
            self.command(&["COPY", from, to, "REPLACE"]);
        } else {
            self.command(&["RENAME", from, to]);
        }
        let Some(held) = self.model.keys.get(from).cloned().filter(|_| from != to) else { return };
        if !is_copy {
            self.model.keys.remove(from);
        }
        if held.is_string {
            self.model.set(to, to, held.rows[from].source.clone(), true);
        } else {
            self.model.keys.remove(to);
            for (id, row) in &held.rows {
                self.model.set(to, id, row.source.clone(), false);
                let rows = &mut self.model.keys.get_mut(to).unwrap().rows;
                rows.get_mut(id).unwrap().expiry_ms = row.expiry_ms;
            }
        }
        self.model.keys.get_mut(to).unwrap().expiry_ms = held.expiry_ms;
    }

    /// All that is read is what the model has. Numbers that a command drew are taken over.
    fn check(&mut self, is_command: bool) {
        let (rows, now_ms) = (&self.bench.rows, self.bench.context.now_ms);
        self.model.expire(now_ms);
        let mut walked = 0;
        for (key, held) in &mut self.model.keys {
            for (id, row) in &mut held.rows {
                let found = document(rows, key.as_bytes(), id.as_bytes(), now_ms).unwrap();
                let found = found.unwrap_or_else(|| panic!("{id} of {key} is not there"));
                if is_command && row.sequence <= found.sequence {
                    row.sequence = found.sequence;
                }
                assert_eq!(
                    (found.source.as_ref(), found.version, found.sequence),
                    (row.source.as_bytes(), row.version, row.sequence)
                );
                walked += 1;
            }
        }
        assert_eq!(all(&self.bench).len(), walked);
        assert_eq!(document_count(rows, now_ms).unwrap(), walked as u64);
    }

    fn end_record(&mut self) {
        let log = std::mem::take(&mut self.bench.rows.touches);
        if let Some((touches, sources)) = log.finish_with() {
            assert_eq!(touches.iter().count(), sources.len());
            let touches = Touches::decode(touches.as_bytes().clone()).unwrap();
            self.touched.add_with(&touches, &sources);
        }
    }

    /// The index follows what was touched; only documents that have expired and were not swept
    /// may then be in it beside those that are there.
    fn refresh(&mut self) {
        self.end_record();
        let touched = std::mem::take(&mut self.touched);
        let (rows, now_ms) = (&self.bench.rows, self.bench.context.now_ms);
        if touched.is_all() {
            self.index = all(&self.bench);
        }
        for touched_key in touched.keys() {
            self.index.retain(|(key, _), _| key != touched_key);
            documents_of(rows, touched_key, now_ms, &mut |_, id, found| {
                let id = Bytes::copy_from_slice(id);
                let source = Bytes::copy_from_slice(found.source);
                self.index.insert((touched_key.clone(), id), source);
                ControlFlow::Continue(())
            })
            .unwrap();
        }
        for TouchedDocument { key, id, is_new, source } in touched.documents() {
            let old = self.index.remove(&(key.clone(), id.clone()));
            assert!(!is_new || old.is_none(), "{id:?} of {key:?} is not new");
            let found = document(rows, key, id, now_ms).unwrap().map(|found| found.source);
            // One that was written may have expired with its key since.
            assert!(found.is_none() || source.is_none() || found == *source, "{id:?} of {key:?}");
            if let Some(found) = found.or(source.clone()) {
                self.index.insert((key.clone(), id.clone()), found);
            }
        }
        let live = all(&self.bench);
        for (at, source) in &live {
            assert_eq!(self.index.get(at), Some(source), "{at:?}");
        }
        for at @ (key, id) in self.index.keys() {
            let is_stored = document(rows, key, id, 0).unwrap().is_some();
            assert!(live.contains_key(at) || is_stored, "{at:?} is gone");
        }
    }
}

/// All documents that are there.
fn all(bench: &Bench) -> Index {
    let mut found = Index::new();
    let mut cursor = Some(DocumentsCursor::default());
    while let Some(from) = cursor {
        let visit = &mut |key: &[u8], id: &[u8], row: crate::execute::DocumentRow<'_>| {
            let copy = Bytes::copy_from_slice;
            found.insert((copy(key), copy(id)), copy(row.source));
            ControlFlow::Continue(())
        };
        cursor = documents(&bench.rows, &from, 3, 1000, bench.context.now_ms, visit).unwrap();
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn documents_and_commands_are_as_the_model_says(steps in steps()) {
        let mut run = Run {
            bench: Bench::new(),
            model: Model::default(),
            touched: Touched::default(),
            index: Index::new(),
            count: 0,
        };
        for step in steps {
            run.step(step);
        }
        run.refresh();
        // Once all that has expired is swept, the index holds the documents and no other.
        run.bench.pass(1_000_000);
        run.step(Step::Sweep { limit: 1_000_000 });
        run.refresh();
        prop_assert_eq!(run.index, all(&run.bench));
    }
}
