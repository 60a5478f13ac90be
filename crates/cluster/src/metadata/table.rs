//! What the metadata keeps of a table: what it is made of, and where the copies of its partitions are.

use std::collections::BTreeMap;

use plimsoll_log::PartitionId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::metadata::default_expiry::{self, DEFAULT_TTL};
use crate::metadata::follows::Follows;
use crate::metadata::placement::PartitionDefinition;

/// A table as the metadata keeps it. Groups are fixed for the table's life. Fields that only a newer
/// version knows are kept as they are, those of partitions and documents too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableDefinition {
    /// Tells it from an earlier table of the same name.
    pub incarnation: u64,
    /// In the order of their ordinals.
    pub partitions: Vec<PartitionDefinition>,
    /// What makes it an index as well; none for rows alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<DocumentsDefinition>,
    /// What it follows in another cluster; none for a table of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// How long after it is made a key expires that nobody gives another expiry, ms, where the table is no
    /// index; that of an index is among its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_expiry_ms: Option<u64>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What a table has that is an index as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DocumentsDefinition {
    /// When it became one, ms since 1970.
    pub created_ms: u64,
    /// Settings by their full names.
    pub settings: Map<String, Value>,
    /// The mapping's body.
    pub mapping: Value,
    /// One more at each change of the mapping.
    pub mapping_version: u64,
    /// Other names, each with what it was given.
    pub aliases: BTreeMap<String, Map<String, Value>>,
    /// Whether it was closed.
    pub is_closed: bool,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl TableDefinition {
    /// How long after it is made a key expires that nobody gives another expiry, ms; 0 is never.
    pub(crate) fn default_expiry_ms(&self) -> u64 {
        let of_index = |documents: &DocumentsDefinition| {
            documents.settings.get(DEFAULT_TTL).and_then(|it| default_expiry::parse(it).ok())
        };
        match &self.documents {
            Some(documents) => of_index(documents).unwrap_or(0),
            None => self.default_expiry_ms.unwrap_or(0),
        }
    }

    /// Has a database's own default expiry be its index' once it is one, unless the index says otherwise.
    pub(crate) fn attach_default_expiry(&mut self) {
        let Some(after_ms) = self.default_expiry_ms.take() else { return };
        if let Some(documents) = &mut self.documents {
            let setting = documents.settings.entry(DEFAULT_TTL);
            setting.or_insert_with(|| Value::String(format!("{after_ms}ms")));
        }
    }

    /// Name and definition of each partition.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionId, &PartitionDefinition)> {
        let table = self.incarnation;
        (0u32..)
            .zip(&self.partitions)
            .map(move |(ordinal, partition)| (PartitionId { table, ordinal }, partition))
    }
}

/// The partition whose folder has this name.
pub(crate) fn partition_named(name: &str) -> Option<PartitionId> {
    let (table, ordinal) = name.split_once('-')?;
    let table = u64::from_str_radix(table, 16).ok()?;
    let id = PartitionId { table, ordinal: ordinal.parse().ok()? };
    (id.to_string() == name).then_some(id)
}
