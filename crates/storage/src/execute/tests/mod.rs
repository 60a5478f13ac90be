//! Commands run on rows in memory by short scripts; after every line the rows, the expiry index
//! and the counters agree with each other.

mod basics;
mod checks;
mod copies;
mod documents;
mod documents_model;
mod expiry;
mod ranges;
mod scans;

use std::ops::ControlFlow;

use super::{ReadContext, ScanCursors, Seed, WriteContext};
use crate::operation::{self, Operation};
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KIND_EXPIRY, KIND_REMOVAL, KIND_TOMBSTONE, RowKey};
use crate::rows::memory::MemoryRows;
use crate::rows::meta::{Kind, Meta};
use crate::rows::tombstone::Tombstone;
use crate::rows::touch::{Touch, TouchLog};
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit};
use crate::rows::{removal, swept};
use crate::{Argv, Reply};

/// Rows in memory, and which documents changed.
#[derive(Default)]
struct NotedRows {
    rows: MemoryRows,
    touches: TouchLog,
}

impl RowsRead for NotedRows {
    fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, StoreError> {
        self.rows.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.rows.scan(from, to, visit)
    }
}

impl RowsWrite for NotedRows {
    fn put_parts(&mut self, key: &[u8], parts: &[&[u8]]) {
        self.rows.put_parts(key, parts);
    }

    fn delete(&mut self, key: &[u8]) {
        self.rows.delete(key);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.rows.delete_range(from, to);
    }

    fn touch(&mut self, touch: Touch<'_>) {
        self.touches.push(touch);
    }

    fn touch_written(&mut self, touch: Touch<'_>, source: &bytes::Bytes) {
        self.touches.push_with(touch, Some(source.clone()));
    }

    fn note_mapping(&mut self, version: u64) {
        self.touches.note_mapping(version);
    }
}

/// A partition in memory and its clock.
struct Bench {
    rows: NotedRows,
    context: WriteContext,
    cursors: ScanCursors,
}

impl Bench {
    fn new() -> Self {
        let (now_ms, stamp_ms) = (1_000_000, 1_000_000);
        let context = WriteContext {
            now_ms,
            stamp_ms,
            seed: 7,
            sequence: 0,
            keys: 0,
            expires: 0,
            is_bounded: true,
            default_expiry_ms: None,
        };
        Self { rows: NotedRows::default(), context, cursors: ScanCursors::default() }
    }

    fn write(&mut self, parts: &[&str]) -> Reply {
        self.run(&Operation::Command(Argv::of(parts)))
    }

    fn run(&mut self, operation: &Operation) -> Reply {
        let reply = operation::run(operation, &mut self.rows, &mut self.context).unwrap();
        self.check_rows();
        reply
    }

    /// As a client's read runs: outside the log, with cursors.
    fn read(&self, parts: &[&str]) -> Reply {
        let argv = Argv::of(parts);
        let command = crate::command::parse(&argv).unwrap();
        assert!(!command.is_write());
        let context = ReadContext {
            now_ms: self.context.now_ms,
            seed: Seed::Given(self.context.sequence),
            keys: self.context.keys,
            cursors: Some(&self.cursors),
        };
        super::read(&command, &self.rows, &context).unwrap()
    }

    /// Lets time pass.
    fn pass(&mut self, ms: u64) {
        self.context.now_ms += ms;
        self.context.stamp_ms = self.context.now_ms;
    }

    /// The index has an entry for each expiry and no other, a hash's counts are those of its
    /// rows, and the partition's are those of its keys.
    fn check_rows(&self) {
        let (mut entries, mut expected) = (Vec::new(), Vec::new());
        let (mut keys, mut expires) = (0, 0);
        let mut open: Option<crate::rows::meta::Fields> = None;
        let mut counted = crate::rows::meta::Fields::default();
        let done = |open: &Option<crate::rows::meta::Fields>, counted: &_| {
            if let Some(fields) = open {
                assert_eq!((fields.total, fields.expiring), *counted, "a hash's counts");
                assert!(fields.total > 0, "an empty hash is stored");
            }
        };
        for (row, value) in self.rows.rows.iter() {
            if *row == *key::SWEPT {
                continue;
            }
            if row[0] == KIND_EXPIRY {
                entries.push(row.to_vec());
                continue;
            }
            if row[0] == KIND_TOMBSTONE {
                let tombstone = Tombstone::decode(value).unwrap();
                expected.push(key::expiry_entry(tombstone.expiry_ms, row).to_vec());
                continue;
            }
            if row[0] == KIND_REMOVAL {
                assert!(removal::decode(value).unwrap() <= self.context.sequence);
                continue;
            }
            let parsed = RowKey::parse(row).unwrap();
            let expiry_ms = if let Some((generation, _)) = parsed.field {
                let (head, _) = FieldHead::decode(value).unwrap();
                let fields = open.as_ref().expect("a field row follows its meta row");
                assert_eq!(fields.generation, generation, "a row of an old generation");
                counted.total += 1;
                if let Some(expiry_ms) = head.expiry_ms {
                    counted.expiring += 1;
                    assert!(expiry_ms >= fields.expiring_from_ms);
                }
                head.expiry_ms
            } else {
                done(&open, &(counted.total, counted.expiring));
                counted = Default::default();
                let (meta, _) = Meta::decode(value).unwrap();
                open = match meta.kind {
                    Kind::Hash(fields) => Some(fields),
                    Kind::String => None,
                };
                keys += 1;
                expires += u64::from(meta.expiry_ms.is_some());
                assert!(meta.last_change <= self.context.sequence);
                meta.expiry_ms
            };
            expected.extend(expiry_ms.map(|at| key::expiry_entry(at, row).to_vec()));
        }
        done(&open, &(counted.total, counted.expiring));
        expected.sort();
        assert_eq!(entries, expected, "the expiry index");
        let due_from = swept::due_from(&self.rows.rows).unwrap();
        assert!(entries.iter().all(|entry| **entry >= *due_from), "an entry where nobody looks");
        assert_eq!((self.context.keys, self.context.expires), (keys, expires), "the counters");
    }

    /// The rows, those left out that say when keys were taken away and how far was swept.
    fn row_count(&self) -> usize {
        let mut count = 0;
        self.rows
            .scan(&[], key::REMOVALS_FROM, &mut |row, _| {
                count += usize::from(row != key::SWEPT);
                ControlFlow::Continue(())
            })
            .unwrap();
        count
    }
}

/// A reply in one line.
fn show(reply: &Reply) -> String {
    let list = |items: &[Reply]| items.iter().map(show).collect::<Vec<_>>().join(" ");
    match reply {
        Reply::Status(word) => (*word).into(),
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Nil => "nil".into(),
        Reply::NilArray => "nil array".into(),
        Reply::Array(items) | Reply::Set(items) => format!("[{}]", list(items)),
        Reply::Map(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}: {}", show(name), show(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Reply::Verbatim(text) => text.clone(),
        Reply::Error(error) => format!("-{} {}", error.kind.stored_name(), error.message),
    }
}

/// Runs a script on empty rows. A line is a command and, after `=>`, its answer; `+n` lets n
/// milliseconds pass; `sweep n` sweeps, the answer being how many went; `rows` counts all rows;
/// `document` is [`documents::run_line`]'s.
/// Words are parted by spaces; `''` is an empty one.
#[track_caller]
fn check(script: &str) {
    let mut bench = Bench::new();
    for line in script.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" => ").unwrap_or((line, ""));
        let words: Vec<&str> =
            command.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let answer = match words.as_slice() {
            [word] if word.starts_with('+') => {
                bench.pass(word[1..].parse().unwrap());
                String::new()
            }
            ["sweep", limit] => {
                let limit = limit.parse().unwrap();
                show(&bench.run(&Operation::Sweep { limit }))
            }
            ["document", rest @ ..] => documents::run_line(&mut bench, rest),
            ["rows"] => bench.row_count().to_string(),
            words => show(&bench.write(words)),
        };
        assert_eq!(answer, expected, "in `{line}` of:\n{script}");
    }
}
