//! Tables: what each is made of, and which exist on this node.

use std::sync::{Arc, OnceLock};

use plimsoll_log::{GroupId, PartitionId};
use plimsoll_storage::rows::key::partition_of;
use serde::{Deserialize, Serialize};

use crate::DATABASES;
use crate::partition::Partition;

/// A table as the metadata keeps it; fixed for the table's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDefinition {
    /// Tells it from an earlier table of the same name.
    pub incarnation: u64,
    /// The log group of each partition, in the order of their ordinals.
    pub groups: Vec<u16>,
}

impl TableDefinition {
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionId, GroupId)> {
        let table = self.incarnation;
        (0u32..)
            .zip(&self.groups)
            .map(move |(ordinal, group)| (PartitionId { table, ordinal }, GroupId(*group)))
    }
}

/// A table on this node.
pub(crate) struct Table {
    partitions: Vec<Arc<Partition>>,
    count: u32,
}

impl Table {
    /// # Panics
    /// Where there is no partition: a definition has at least one.
    pub(crate) fn new(partitions: Vec<Arc<Partition>>) -> Self {
        assert!(!partitions.is_empty(), "a table has a partition");
        let count = u32::try_from(partitions.len()).expect("partitions are counted in 32 bits");
        Self { partitions, count }
    }

    pub(crate) fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// The ordinal of the partition that holds `key`.
    pub(crate) fn ordinal_of(&self, key: &[u8]) -> usize {
        if self.count == 1 { 0 } else { partition_of(key, self.count) as usize }
    }
}

/// The tables that exist, found without a lock.
#[derive(Default)]
pub(crate) struct Tables {
    databases: [OnceLock<Table>; DATABASES as usize],
}

impl Tables {
    pub(crate) fn get(&self, db: u32) -> Option<&Table> {
        self.databases.get(db as usize)?.get()
    }

    /// Adds the table of a database, once.
    pub(crate) fn insert(&self, db: u32, table: Table) {
        if let Some(database) = self.databases.get(db as usize) {
            let is_new = database.set(table).is_ok();
            assert!(is_new, "a database's table is opened once");
        }
    }

    /// The number and table of each database that exists.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Table)> {
        (0..).zip(&self.databases).filter_map(|(db, table)| Some((db, table.get()?)))
    }
}
