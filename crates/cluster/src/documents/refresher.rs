//! The threads that keep views fresh: each partition of an index is refreshed after its refresh
//! interval where its documents changed, or at once where somebody waits. Search contexts that
//! nobody asked for in time are let go here too.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_index::Error;
use plimsoll_log::PartitionId;
use serde_json::Value;

use super::types::IndexMetadata;
use crate::Coordinator;
use crate::documents::catalog::no_such_index;
use crate::node::Shared;
use crate::partition::Partition;

/// How often partitions are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// The refresh interval where an index sets none. Elasticsearch's.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// After how long without a wish for it documents are indexed anyway, so that little is left to
/// do when somebody asks, and what notes them does not grow.
const INDEX_INTERVAL: Duration = Duration::from_secs(10);

/// The handles of the threads.
pub(crate) struct Refresher {
    threads: Vec<(SyncSender<()>, JoinHandle<()>)>,
}

impl Refresher {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let count = thread_count();
        let mut threads = Vec::new();
        for number in 0..count {
            let (stop, stopped) = sync_channel(1);
            let shared = Arc::downgrade(shared);
            let run = move || run(&shared, &stopped, number, count);
            let thread = std::thread::Builder::new().name("refresh".to_owned()).spawn(run)?;
            threads.push((stop, thread));
        }
        Ok(Self { threads })
    }

    /// Ends the threads after what they are doing. Blocks.
    pub(crate) fn stop(self) {
        for (stop, thread) in self.threads {
            // A thread that is gone has stopped.
            let _ = stop.send(());
            if thread.join().is_err() {
                tracing::error!("a refresh thread panicked");
            }
        }
    }
}

/// One for every two processors: searches need the rest.
fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8))
}

fn run(shared: &Weak<Shared>, stopped: &Receiver<()>, number: usize, count: usize) {
    let mut due: HashMap<PartitionId, Instant> = HashMap::new();
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else { return };
        if number == 0 {
            shared.documents.contexts.expire();
        }
        let mut seen = HashSet::new();
        for table in shared.tables.all() {
            let Some(index) = table.index().filter(|index| index.is_open) else { continue };
            let interval = refresh_interval(&index).unwrap_or(INDEX_INTERVAL);
            for (ordinal, partition) in table.partitions().iter().enumerate() {
                if ordinal % count == number {
                    seen.insert(partition.id);
                    let at = due.entry(partition.id).or_insert_with(|| Instant::now() + interval);
                    if Instant::now() >= *at {
                        *at = Instant::now() + interval;
                        refresh(partition);
                    }
                }
            }
        }
        due.retain(|id, _| seen.contains(id));
    }
}

fn refresh(partition: &Partition) {
    let Some(indexer) = partition.indexer() else { return };
    if !indexer.is_behind(partition.applied()) {
        indexer.rest();
    } else if let Err(error) = indexer.refresh() {
        tracing::error!(partition = %partition.id, %error, "documents cannot be indexed");
    }
}

/// An index' refresh interval; `None` where it is refreshed only when asked to (`-1`).
pub(crate) fn refresh_interval(index: &IndexMetadata) -> Option<Duration> {
    let setting = match index.settings.get("index.refresh_interval") {
        None | Some(Value::Null) => return Some(REFRESH_INTERVAL),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if setting.trim_start().starts_with('-') {
        return None;
    }
    let unit_at = setting.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(setting.len());
    let (number, unit) = setting.split_at(unit_at);
    let number: u64 = number.trim().parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => number,
        "s" => number.saturating_mul(1_000),
        "m" => number.saturating_mul(60_000),
        "h" => number.saturating_mul(3_600_000),
        "d" => number.saturating_mul(86_400_000),
        _ => return Some(REFRESH_INTERVAL),
    };
    Some(Duration::from_millis(millis).max(INTERVAL))
}

impl Coordinator {
    /// Makes what was written before visible to the searches after, in one partition or all.
    ///
    /// # Errors
    /// Where there is no such index, or it cannot be indexed.
    pub async fn refresh(
        &self,
        index: &Arc<IndexMetadata>,
        partition: Option<u32>,
    ) -> Result<(), Error> {
        self.on_partitions(index, partition, |partition| match partition.indexer() {
            Some(indexer) if indexer.is_behind(partition.applied()) => indexer.refresh().map(drop),
            _ => Ok(()),
        })
        .await
    }

    /// Waits until what was written to a partition before is visible to searches.
    ///
    /// # Errors
    /// Where there is no such index.
    pub async fn wait_for_refresh(
        &self,
        index: &Arc<IndexMetadata>,
        partition: u32,
    ) -> Result<(), Error> {
        if refresh_interval(index).is_none() {
            return self.refresh(index, Some(partition)).await;
        }
        let table = self.shared().tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let Some(partition) = table.partitions().get(partition as usize) else { return Ok(()) };
        let Some(indexer) = partition.indexer() else { return Ok(()) };
        let applied = partition.applied();
        let mut refreshed = indexer.refreshed();
        let waited = refreshed.wait_for(|position| *position >= applied.0).await;
        waited.map(drop).map_err(|_| no_such_index(&index.name))
    }

    /// Makes what is indexed durable.
    ///
    /// # Errors
    /// Where there is no such index, or the disk fails.
    pub async fn flush(&self, index: &Arc<IndexMetadata>) -> Result<(), Error> {
        self.on_partitions(index, None, |partition| {
            partition.store.flush().map_err(|error| Error::internal(error.to_string()))?;
            match partition.indexer() {
                Some(indexer) => indexer.refresh().map(drop).and_then(|()| indexer.persist()),
                None => Ok(()),
            }
        })
        .await
    }

    /// Merges the segments of each partition's index, and the files of its rows.
    ///
    /// # Errors
    /// Where there is no such index, or the disk fails.
    pub async fn force_merge(
        &self,
        index: &Arc<IndexMetadata>,
        segments_max: Option<usize>,
    ) -> Result<(), Error> {
        self.on_partitions(index, None, move |partition| match partition.indexer() {
            Some(indexer) => {
                indexer.force_merge(segments_max.unwrap_or(1).max(1))?;
                partition.store.compact().map_err(|error| Error::internal(error.to_string()))
            }
            None => Ok(()),
        })
        .await
    }

    /// Does the same with each partition, one after the other, where blocking is allowed.
    async fn on_partitions(
        &self,
        index: &Arc<IndexMetadata>,
        only: Option<u32>,
        work: impl Fn(&Partition) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let table = self.shared().tables.by_name(&index.name);
        let table = table.ok_or_else(|| no_such_index(&index.name))?;
        let run = move || {
            let partitions = table.partitions().iter().enumerate();
            partitions
                .filter(|(ordinal, _)| only.is_none_or(|only| only as usize == *ordinal))
                .try_for_each(|(_, partition)| work(partition))
        };
        let done = tokio::task::spawn_blocking(run).await;
        done.map_err(|error| Error::internal(error.to_string()))?
    }
}
