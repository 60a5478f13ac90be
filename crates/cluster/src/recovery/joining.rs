//! A node that the log went on without: what it lacks was trimmed away, because it is new, or was
//! gone for long. It finds the others by their beats in the metadata's log, copies the metadata
//! from one of them, and learns where each log group stands. Its copies of partitions are made
//! later, as any other's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::World;
use plimsoll_log::record::{Item, Record};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Incarnation, Log, LogError, Lsn};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::partition::Resources;

use crate::metadata;
use crate::metadata::members::NodeRecord;
use crate::recovery::{self, CopyError, CopyOptions, Folders, InstallError, Recoveries, Stage};
use crate::replication::reading;
use crate::wire::{CallError, Link, Peers, Question, Reply};

/// Bytes read from the log at once.
const READ_BYTES_MAX: usize = 8 << 20;
/// After how long without a record the log's end is reached.
const QUIET: Duration = Duration::from_secs(3);
/// How long another node has to say where it stands.
const POSITIONS_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the log groups stand.
pub(crate) type Positions = BTreeMap<GroupId, Position>;

/// Why no other node gave what a node lacks that joins.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// There is none that could be copied from.
    #[error("the log holds no beat of another node")]
    NoBeat,
    /// Another copy of the metadata has not ended yet.
    #[error("the metadata is being copied")]
    BeingCopied,
    /// The last that was tried does not give its metadata.
    #[error("{node}: {source}")]
    NotCopied {
        /// Its name.
        node: String,
        /// Why.
        source: CopyError,
    },
    /// What the last gave cannot be used.
    #[error("{node}: {source}")]
    NotInstalled {
        /// Its name.
        node: String,
        /// Why.
        source: InstallError,
    },
    /// There is none to ask where the log is.
    #[error("no other node is known")]
    NoOther,
    /// The last that was asked gave no answer.
    #[error("{node}: {source}")]
    Unanswered {
        /// Its name.
        node: String,
        /// Why.
        source: CallError,
    },
    /// It answered something else.
    #[error("{0} does not say where it stands")]
    NoPositions(String),
}

/// A node on its way into a cluster.
pub(crate) struct Joining<'a> {
    pub log: &'a Arc<dyn Log>,
    pub peers: &'a Arc<dyn Peers>,
    pub record: &'a NodeRecord,
    pub incarnation: Incarnation,
    pub world: &'a World,
}

impl Joining<'_> {
    /// The nodes whose beats the metadata's log still holds, the one that beat last first.
    pub(crate) async fn found_in_log(&self) -> Result<Vec<NodeRecord>, LogError> {
        let first = self.log.bounds(metadata::GROUP)?.first;
        let mut reader = self.log.read(&[(metadata::GROUP, first)])?;
        let mut found: BTreeMap<String, (Lsn, NodeRecord)> = BTreeMap::new();
        let mut entries = Vec::new();
        loop {
            let time = &self.world.time;
            reading::next(time, &mut *reader, &mut entries, READ_BYTES_MAX, QUIET).await?;
            if entries.is_empty() {
                break;
            }
            let last = self.log.bounds(metadata::GROUP)?.last;
            let read = entries.last().map_or(Lsn(0), |entry| entry.lsn);
            for entry in entries.drain(..) {
                let Ok(record) = Record::decode(&entry.record) else { continue };
                for item in record.items {
                    let Item::Operations { payloads, .. } = item else { continue };
                    let operations = payloads.iter().filter_map(|it| Operation::decode(it).ok());
                    let beats = operations.filter_map(|it| metadata::beaten(&it));
                    found.extend(beats.map(|(id, record)| (id, (entry.lsn, record))));
                }
            }
            if read >= last {
                break;
            }
        }
        let mut found: Vec<(Lsn, NodeRecord)> = found.into_values().collect();
        found.sort_by_key(|(lsn, _)| std::cmp::Reverse(*lsn));
        let others = found.into_iter().map(|(_, record)| record);
        Ok(others.filter(|record| record.rpc != self.record.rpc).collect())
    }

    /// Copies the metadata of one of `others` into `partitions_dir`. Takes its thread between its waits.
    pub(crate) async fn copy_metadata(
        &self,
        others: &[NodeRecord],
        partitions_dir: &Path,
        resources: &Resources,
    ) -> Result<(), JoinError> {
        let folders = Folders::of(&self.world.disk, partitions_dir, metadata::PARTITION);
        let recoveries = Recoveries::new(&self.record.name, self.world);
        let mut why = JoinError::NoBeat;
        for other in others {
            let recovery = recoveries.begin(metadata::PARTITION, &other.name);
            let recovery = recovery.map_err(|_| JoinError::BeingCopied)?;
            let link = self.link(other);
            let options = CopyOptions {
                seed: self.world.random.of("metadata's copy").next_u64(),
                ..CopyOptions::default()
            };
            let copied =
                recovery::copy(&link, metadata::PARTITION, &folders, &options, &recovery).await;
            let node = other.name.clone();
            why = match copied.map(|it| it.install(resources, self.incarnation, false)) {
                Ok(Ok(_)) => {
                    recovery.enter(Stage::Done);
                    tracing::info!(node, "the metadata was copied");
                    return Ok(());
                }
                Ok(Err(source)) => {
                    recovery.fail(&source.to_string());
                    JoinError::NotInstalled { node, source }
                }
                Err(source) => {
                    recovery.fail(&source.to_string());
                    JoinError::NotCopied { node, source }
                }
            };
        }
        Err(why)
    }

    /// Where one of `others` stands in each group.
    pub(crate) async fn positions(&self, others: &[NodeRecord]) -> Result<Positions, JoinError> {
        let mut why = JoinError::NoOther;
        for other in others {
            let link = self.link(other);
            match link.ask(Question::Positions, POSITIONS_TIMEOUT, 0).await {
                Ok(Reply::Positions(positions)) => {
                    let position = |(group, lsn, hash, log_time_ms)| {
                        (GroupId(group), Position { lsn: Lsn(lsn), hash, log_time_ms })
                    };
                    return Ok(positions.into_iter().map(position).collect());
                }
                Ok(_) => why = JoinError::NoPositions(other.name.clone()),
                Err(source) => why = JoinError::Unanswered { node: other.name.clone(), source },
            }
        }
        Err(why)
    }

    fn link(&self, other: &NodeRecord) -> Link {
        let way = (self.record.name.as_str(), other.rpc.as_str());
        Link::new(Arc::clone(self.peers), way, self.incarnation, self.world.time.clone())
    }
}
