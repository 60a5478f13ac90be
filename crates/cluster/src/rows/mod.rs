//! What clients ask of rows: which partitions a request concerns, its reads from a copy, its writes through a
//! lead, and one answer to each. Which copy is read and which lead writes is routing's; what a command does to
//! rows is `plimsoll_storage`'s.
//!
//! | | |
//! |---|---|
//! | [`plan`] | what is to be done with a request |
//! | [`run`] | the requests of one connection, in their order |
//! | [`read`], [`write`] | its part of one partition |
//! | [`scatter`], [`slices`], [`beside`] | commands that concern several, large hashes in slices, the requests of one connection side by side |

pub(crate) mod beside;
mod plan;
mod read;
mod run;
pub(crate) mod scatter;
pub(crate) mod slices;
mod write;

use std::sync::Arc;

use plimsoll_storage::ErrorReply;
use plimsoll_storage::execute::{ReadContext, ScanCursors, Seed};
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::rows::key::partition_of;

use crate::replication::partition::Partition;
use crate::replication::tables::Table;
use crate::routing::Router;
use crate::routing::changes::TableChanges;

/// What clients ask of rows.
pub(crate) struct Rows {
    pub router: Arc<Router>,
    pub changes: Arc<TableChanges>,
    pub cursors: Arc<ScanCursors>,
}

impl Rows {
    pub(crate) fn table(&self, db: u32) -> Option<&Table> {
        self.router.tables.get(db).map(AsRef::as_ref)
    }

    /// How many partitions a database's table has, or will have.
    pub(crate) fn partition_count(&self, db: u32) -> usize {
        self.table(db)
            .map_or(self.changes.database_partitions as usize, |table| table.copies().len())
    }

    /// The ordinal of the partition that holds a key, or will.
    pub(crate) fn ordinal_of(&self, db: u32, key: &[u8]) -> usize {
        match self.table(db) {
            Some(table) => table.ordinal_of(key),
            None => partition_of(key, self.changes.database_partitions) as usize,
        }
    }

    /// What a read that begins now knows of a partition; none is an empty one.
    fn read_context(&self, partition: Option<&Partition>) -> ReadContext<'_> {
        context(&self.router, &self.cursors, partition)
    }
}

/// What a read that begins now knows of a partition; none is an empty one.
fn context<'a>(
    router: &'a Router,
    cursors: &'a ScanCursors,
    partition: Option<&Partition>,
) -> ReadContext<'a> {
    ReadContext {
        now_ms: partition.map_or_else(|| router.world.time.wall_ms(), Partition::read_time_ms),
        seed: Seed::Drawn(&router.chance),
        keys: partition.map_or(0, Partition::keys),
        cursors: Some(cursors),
    }
}

fn store_failed(error: StoreError) -> ErrorReply {
    ErrorReply::err(error.to_string())
}

#[cfg(test)]
mod tests;
