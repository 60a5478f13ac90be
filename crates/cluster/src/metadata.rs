//! The metadata: which tables there are. It is rows like any other (one partition, in a log group
//! of its own), so that creating a table is a conditional write evaluated at apply: of several
//! creations of one name the first in the log wins.

use std::sync::Arc;

use plimsoll_log::{GroupId, PartitionId};
use plimsoll_storage::execute::{self, ReadContext};
use plimsoll_storage::{Argv, Reply, command};

use crate::partition::Partition;
use crate::table::TableDefinition;

/// The metadata's partition.
pub(crate) const PARTITION: PartitionId = PartitionId { table: 0, ordinal: 0 };
/// The metadata's log group; partitions of tables are in those after it.
pub(crate) const GROUP: GroupId = GroupId(0);
/// The hash that holds the tables: name to definition.
const TABLES_KEY: &[u8] = b"tables";

/// The name of a database's table.
pub(crate) fn table_name(db: u32) -> String {
    format!("db{db}")
}

/// The database whose table has this name.
pub(crate) fn database_of(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name.strip_prefix(b"db")?).ok()?.parse().ok()
}

/// The write that creates a table where there is none of its name.
///
/// # Panics
/// Never: a definition is plain data.
pub(crate) fn create_table(name: &str, definition: &TableDefinition) -> Argv {
    let definition = serde_json::to_vec(definition).expect("a definition is plain data");
    Argv::of(&[b"HSETNX", TABLES_KEY, name.as_bytes(), &definition])
}

/// The tables as they are now, by name.
///
/// # Errors
/// Says what cannot be read.
pub(crate) fn tables(
    metadata: &Arc<Partition>,
    now_ms: u64,
) -> Result<Vec<(Vec<u8>, TableDefinition)>, String> {
    let argv = Argv::of(&[b"HGETALL".as_slice(), TABLES_KEY]);
    let command = command::parse(&argv).map_err(|error| error.to_string())?;
    let context = ReadContext { now_ms, seed: 0, keys: 0, cursors: None };
    let reply = execute::read(&command, &metadata.store.snapshot(), &context);
    let Reply::Map(pairs) = reply.map_err(|error| error.to_string())? else {
        return Err("the metadata's tables are no hash".to_owned());
    };
    let table = |(name, definition): (Reply, Reply)| match (name, definition) {
        (Reply::Bulk(name), Reply::Bulk(definition)) => {
            let definition = serde_json::from_slice(&definition);
            let shown = String::from_utf8_lossy(&name);
            let definition = definition.map_err(|error| format!("table `{shown}`: {error}"))?;
            Ok((name.to_vec(), definition))
        }
        _ => Err("the metadata's tables are no pairs".to_owned()),
    };
    pairs.into_iter().map(table).collect()
}
