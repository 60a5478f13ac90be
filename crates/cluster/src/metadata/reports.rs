//! What each node reports of its own copies of partitions. A node keeps its reports in the
//! metadata, so that every node judges a copy by the same word: placement, health, trimming and
//! the deletion of copies go by it. Pure: how a report is appended is `reconcile.rs`'s.
//!
//! The reports of a node are a hash of the metadata, from a partition's name to a report in JSON.
//! A node compares that hash with what is true and writes the difference, so a write that was lost
//! or came late is made good at the next look.

use std::collections::BTreeMap;

use plimsoll_log::PartitionId;
use serde::{Deserialize, Serialize};

use crate::metadata::table::partition_named;

/// The longest reason that a report carries, bytes.
const REASON_BYTES_MAX: usize = 400;
/// The most differences that one write of the metadata carries: they fit in a record many times.
pub(crate) const DIFFERENCES_MAX: usize = 2_000;

/// What a node says of its copy of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum CopyReport {
    /// It answers, and has held everything since this position of the log.
    Serving {
        /// The position at which it began to serve.
        from: u64,
    },
    /// Its rows answer; its index is being built anew from them, and searches go elsewhere.
    Reindexing {
        /// The position at which it began to serve.
        from: u64,
        /// What was wrong with the index.
        why: String,
    },
    /// It is being opened, replayed or copied.
    Making,
    /// It could not be made; the node tries again.
    Absent {
        /// Why not.
        why: String,
        /// Up to which position of the log the files that are there hold the partition; 0 where none
        /// are, or that is not known.
        #[serde(default)]
        held: u64,
    },
    /// Apply waits, most likely for disk space, and goes on by itself.
    Waiting {
        /// What it waits for.
        why: String,
    },
    /// Its log group or its node has stopped: another copy would be no better. It keeps its place.
    Halted {
        /// What was wrong.
        why: String,
    },
    /// It is damaged: only another copy can replace it.
    Stopped {
        /// What was wrong.
        why: String,
    },
}

impl CopyReport {
    /// Why it does not answer; `None` where it does, or is about to.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Self::Serving { .. } | Self::Reindexing { .. } | Self::Making => None,
            Self::Absent { why, .. }
            | Self::Waiting { why }
            | Self::Halted { why }
            | Self::Stopped { why } => Some(why),
        }
    }

    /// Whether its rows are whole and answer.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::Serving { .. } | Self::Reindexing { .. })
    }
}

/// A reason, as long as a report carries it.
pub(crate) fn reason(text: &str) -> String {
    let end = text.floor_char_boundary(REASON_BYTES_MAX.min(text.len()));
    text[..end].to_owned()
}

/// All that a node reports.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// The change of the metadata that they were read at; 0 where there are none.
    pub change: u64,
    of: BTreeMap<PartitionId, CopyReport>,
}

impl Reports {
    /// Reads a hash of the metadata. A report that this version does not know counts as none.
    pub(crate) fn read(change: u64, fields: &[(String, bytes::Bytes)]) -> Self {
        let report = |(name, value): &(String, bytes::Bytes)| {
            let report = serde_json::from_slice(value).ok()?;
            Some((partition_named(name)?, report))
        };
        Self { change, of: fields.iter().filter_map(report).collect() }
    }

    /// What the node reports of its copy of a partition; `None` where it has said nothing.
    pub(crate) fn of(&self, partition: PartitionId) -> Option<&CopyReport> {
        self.of.get(&partition)
    }

    /// What is to be written so that the reports become `current`: at most [`DIFFERENCES_MAX`]
    /// fields, `None` taking one away.
    pub(crate) fn differences(
        &self,
        current: &BTreeMap<PartitionId, CopyReport>,
    ) -> Vec<(String, Option<String>)> {
        let changed = current.iter().filter(|(id, report)| self.of.get(id) != Some(report));
        let text = |report| serde_json::to_string(report).expect("a report is plain data");
        let changed = changed.map(|(id, report)| (id.to_string(), Some(text(report))));
        let gone = self.of.keys().filter(|id| !current.contains_key(id));
        let gone = gone.map(|id| (id.to_string(), None));
        changed.chain(gone).take(DIFFERENCES_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ordinal: u32) -> PartitionId {
        PartitionId { table: 0xab, ordinal }
    }

    #[test]
    fn differences_make_what_is_written_what_is_true() {
        let stopped = CopyReport::Stopped { why: "a checksum is wrong".to_owned() };
        let current = BTreeMap::from([
            (id(0), CopyReport::Serving { from: 7 }),
            (id(1), stopped.clone()),
            (id(2), CopyReport::Making),
        ]);
        let none = Reports::default();
        let written: Vec<(String, bytes::Bytes)> = none
            .differences(&current)
            .into_iter()
            .map(|(name, value)| (name, value.unwrap().into()))
            .collect();
        let read = Reports::read(3, &written);
        assert_eq!(read.of(id(1)), Some(&stopped));
        assert_eq!(read.differences(&current), []);
        let fewer = BTreeMap::from([(id(0), CopyReport::Serving { from: 8 })]);
        let mut differences = read.differences(&fewer);
        differences.sort();
        let gone = [1, 2].map(|ordinal| (id(ordinal).to_string(), None));
        assert_eq!(differences[1..], gone);
        assert_eq!(
            differences[0],
            (id(0).to_string(), Some(r#"{"state":"serving","from":8}"#.to_owned()))
        );
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        let fields = [("ab-0", r#"{"state":"levitating"}"#), ("xyz", "{}"), ("00ab-0", "{}")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.into()));
        assert_eq!(Reports::read(1, &fields).of(id(0)), None);
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "é".repeat(REASON_BYTES_MAX);
        assert!(reason(&long).len() <= REASON_BYTES_MAX);
        assert_eq!(reason("short"), "short");
    }
}
