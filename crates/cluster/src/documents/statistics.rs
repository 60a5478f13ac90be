//! What indices can say of themselves: numbers only, to be put into words by the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_index::partition::IndexStatistics as SegmentStatistics;
use serde::{Deserialize, Serialize};

use super::cache::CacheStatistics;
use super::indexer::indexer_of;
use super::pool::PoolStatistics;
use super::service::Documents;
use crate::replication::partition::Partition;

/// The figures of one index.
#[derive(Clone, Debug, Default)]
pub struct IndexStatistics {
    /// Those of each partition, in the order of their ordinals.
    pub partitions: Vec<PartitionStatistics>,
}

/// The figures of one partition of an index, since its node was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartitionStatistics {
    /// Keys in the rows: documents, or hashes of documents that share a routing.
    pub keys: u64,
    /// Bytes of rows and index in files.
    pub store_bytes: u64,
    /// Bytes of the index alone.
    pub index_bytes: u64,
    /// Bytes of rows that are in memory only; the log has them.
    pub unflushed_bytes: u64,
    /// The sequence number of the last change, from 0; `None` before the first.
    pub position: u64,
    /// Documents given to the index.
    pub indexed: u64,
    /// Refreshes, and how long they took, ms.
    pub refreshes: (u64, u64),
    /// Times the index was made durable, and how long that took, ms.
    pub persists: (u64, u64),
    /// Searches asked, and how long they took, ms.
    pub queries: (u64, u64),
    /// Searches whose hits were fetched, and how long that took, ms.
    pub fetches: (u64, u64),
    /// What the inverted index says.
    #[serde(with = "Segments")]
    pub segments: SegmentStatistics,
    /// Why it has stopped; `None` where it is well.
    pub fault: Option<String>,
}

/// How the figures of an inverted index go from node to node.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SegmentStatistics")]
struct Segments {
    docs: u64,
    deleted: u64,
    segments: u64,
    bytes: BTreeMap<String, u64>,
    merges: u64,
    writing: bool,
    refreshes: u64,
    refresh_time: Duration,
    puts: u64,
    unparsed: u64,
    has_writer: bool,
}

impl PartitionStatistics {
    /// Those of a copy on this node. Reads the sizes of files.
    pub(crate) fn of(partition: &Partition) -> Self {
        let mut found = Self {
            keys: partition.keys(),
            store_bytes: partition.store.files_bytes(),
            unflushed_bytes: partition.store.unflushed_bytes(),
            position: partition.applied().0,
            fault: partition.fault(),
            ..Self::default()
        };
        if let Some(indexer) = indexer_of(partition) {
            let counters = &indexer.counters;
            found.index_bytes = indexer.files_bytes();
            found.store_bytes += found.index_bytes;
            found.indexed = counters.documents.load(Ordering::Relaxed);
            found.refreshes = timed(&counters.refreshes, &counters.refresh_us);
            found.persists = timed(&counters.persists, &counters.persist_us);
            found.queries = timed(&counters.queries, &counters.query_us);
            found.fetches = timed(&counters.fetches, &counters.fetch_us);
            found.segments = indexer.statistics().unwrap_or_default();
        }
        found
    }
}

impl Documents {
    /// The figures of an index; `None` where there is none. Reads the sizes of files.
    #[must_use]
    pub fn index_statistics(&self, name: &str) -> Option<IndexStatistics> {
        let table = self.router.tables.by_name(name)?;
        table.index()?;
        let partitions = table.local().map(|(_, partition)| PartitionStatistics::of(&partition));
        Some(IndexStatistics { partitions: partitions.collect() })
    }

    /// The figures of the threads that searches run on.
    #[must_use]
    pub fn search_pool(&self) -> PoolStatistics {
        self.searching.pool.statistics()
    }

    /// Views that are held for searches of other nodes.
    #[must_use]
    pub fn held_views(&self) -> usize {
        self.searching.views.count()
    }

    /// The figures of the request cache.
    #[must_use]
    pub fn request_cache(&self) -> CacheStatistics {
        self.searching.cache.statistics()
    }

    /// Empties the request cache.
    pub fn clear_request_cache(&self) {
        self.searching.cache.clear();
    }
}

fn timed(number: &AtomicU64, micros: &AtomicU64) -> (u64, u64) {
    (number.load(Ordering::Relaxed), micros.load(Ordering::Relaxed) / 1000)
}
