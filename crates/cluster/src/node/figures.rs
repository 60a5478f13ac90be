//! Figures of all nodes: each tells what its own copies hold, what its front end says of its
//! process, and which copies it makes. A node that does not answer in time is left out, and named.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use plimsoll_index::Error;
use plimsoll_memory::Stop;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Coordinator;
use crate::documents::PartitionStatistics;
use crate::metadata::members::Member;
use crate::node::shared::{ProcessFigures, Shared};
use crate::recovery::RecoveryStatus;
use crate::wire::{CallError, Question, Reply};

/// How long another node has to tell its figures.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The figures of one copy of a partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyStatistics {
    /// The table that it is of, an index.
    pub table: String,
    /// Which of its partitions.
    pub ordinal: u32,
    /// What its node counted.
    pub statistics: PartitionStatistics,
}

/// A copy that a node makes or has made: Elasticsearch's recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryOverview {
    /// The table that it is of.
    pub table: String,
    /// Which of its partitions.
    pub ordinal: u32,
    /// The name of the node that is copied from.
    pub source: String,
    /// The name of the node that it is copied to.
    pub target: String,
    /// `INIT`, `INDEX`, `TRANSLOG`, `FINALIZE` or `DONE`; of one that failed, how far it came.
    pub stage: String,
    /// Why it ended before it was done.
    pub failure: Option<String>,
    /// Files: all, those that were there before, those that were copied.
    pub files: (u64, u64, u64),
    /// The same in bytes.
    pub bytes: (u64, u64, u64),
    /// Bytes of chunks as they came over the network; 0 from a node that does not tell.
    #[serde(default)]
    pub bytes_wire: u64,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// When it ended, ms since 1970; none while it goes on.
    pub stopped_ms: Option<u64>,
    /// How long it has gone on, or took, ms.
    pub took_ms: u64,
    /// Bytes per second that arrived of late.
    pub bytes_s: u64,
    /// How much longer files are copied, by that; none where nothing arrives.
    pub left_ms: Option<u64>,
    /// How long it held back for other work of the node, ms.
    pub throttled_ms: u64,
    /// How long its source held it back for its own work, ms; 0 from a node that does not tell.
    #[serde(default)]
    pub source_throttled_ms: u64,
    /// What has kept it from going faster of late: link, window, source, target, pace. None once it has
    /// ended, and from a node that does not say.
    #[serde(default)]
    pub limited_by: Option<String>,
}

impl RecoveryOverview {
    fn of(table: String, status: &RecoveryStatus) -> Self {
        Self {
            table,
            ordinal: status.partition.ordinal,
            source: status.source.to_string(),
            target: status.target.to_string(),
            stage: status.stage.to_string(),
            failure: status.failure.clone(),
            files: (status.files_total, status.files_reused, status.files_recovered),
            bytes: (status.bytes_total, status.bytes_reused, status.bytes_recovered),
            bytes_wire: status.bytes_wire,
            started_ms: status.started_ms,
            stopped_ms: status.stopped_ms,
            took_ms: status.took_ms,
            bytes_s: status.bytes_s,
            left_ms: status.left_ms,
            throttled_ms: status.throttled_ms,
            source_throttled_ms: status.source_throttled_ms,
            limited_by: status.limited_by.map(|bound| bound.word().to_owned()),
        }
    }
}

/// What one node says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatistics {
    /// The id of the node.
    pub node: String,
    /// What its front end says of its process; `null` while it has none.
    pub process: Value,
    /// Its copies of indices' partitions.
    pub copies: Vec<CopyStatistics>,
    /// The copies that it makes and has made.
    pub recoveries: Vec<RecoveryOverview>,
}

/// What all nodes say.
#[derive(Clone, Debug, Default)]
pub struct ClusterStatistics {
    /// This node first.
    pub nodes: Vec<NodeStatistics>,
    /// The ids of the nodes that are there and gave no answer, and why.
    pub silent: Vec<(String, String)>,
}

impl ClusterStatistics {
    /// What a node says.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&NodeStatistics> {
        self.nodes.iter().find(|node| node.node == id)
    }

    /// The figures of a copy.
    #[must_use]
    pub fn copy(&self, node: &str, table: &str, ordinal: u32) -> Option<&PartitionStatistics> {
        let copies = &self.node(node)?.copies;
        let copy = copies.iter().find(|it| it.ordinal == ordinal && it.table == table)?;
        Some(&copy.statistics)
    }
}

impl Coordinator {
    /// The time, ms since 1970, as far as this node's clock is believed: after a step that other nodes do not
    /// confirm, what it would say without that.
    #[must_use]
    pub fn believed_ms(&self) -> u64 {
        self.shared().replication.clock.read_ms()
    }

    /// Has this node tell others what its front end says of its process; asked for once.
    pub fn tell_process_figures(&self, figures: ProcessFigures) {
        // A second front end says the same.
        let _ = self.shared().process_figures.set(figures);
    }

    /// What all nodes that are there say of themselves, within a second.
    pub async fn cluster_statistics(&self) -> ClusterStatistics {
        let mut found =
            ClusterStatistics { nodes: vec![self.own_statistics()], silent: Vec::new() };
        let others = self.shared().members.others();
        let asked = others.iter().map(ask);
        for (member, answer) in others.iter().zip(join_all(asked).await) {
            match answer {
                Ok(statistics) => found.nodes.push(statistics),
                Err(why) => found.silent.push((member.id.clone(), why.to_string())),
            }
        }
        found
    }

    /// The copies that nodes make and have made, and the nodes that were not heard.
    pub async fn recoveries(&self) -> (Vec<RecoveryOverview>, Vec<(String, String)>) {
        let found = self.cluster_statistics().await;
        let recoveries = found.nodes.into_iter().flat_map(|node| node.recoveries).collect();
        (recoveries, found.silent)
    }

    /// Tells a request on a node to stop; false where it has ended, cannot be stopped, or the
    /// node does not answer.
    pub async fn cancel(&self, node: &str, number: u64) -> bool {
        if node == self.shared().members.own {
            return cancel_here(number);
        }
        let others = self.shared().members.others();
        let Some(member) = others.iter().find(|member| member.id == node) else { return false };
        matches!(member.link.ask(Question::Cancel { number }, TIMEOUT, 0).await, Ok(Reply::Done))
    }

    /// What this node says of itself. Reads the sizes of files.
    #[must_use]
    pub fn own_statistics(&self) -> NodeStatistics {
        let shared = self.shared();
        let mut copies = Vec::new();
        for table in shared.tables.all().iter().filter(|table| table.is_index()) {
            for (ordinal, partition) in table.local() {
                copies.push(CopyStatistics {
                    table: table.name().to_owned(),
                    ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
                    statistics: PartitionStatistics::of(&partition),
                });
            }
        }
        NodeStatistics {
            node: shared.members.own.clone(),
            process: shared.process_figures.get().map_or(Value::Null, |figures| figures()),
            copies,
            recoveries: shared.recovery_overviews(),
        }
    }

    /// The answer to another node that asks for this one's figures.
    pub(crate) fn statistics_answer(&self) -> Result<Reply, Error> {
        let json = serde_json::to_string(&self.own_statistics());
        json.map(Reply::Json).map_err(|error| Error::internal(error.to_string()))
    }
}

impl Shared {
    fn recovery_overviews(&self) -> Vec<RecoveryOverview> {
        let tables = self.tables.all();
        let overview = |status: RecoveryStatus| {
            let table = tables.iter().find(|it| it.incarnation() == status.partition.table)?;
            Some(RecoveryOverview::of(table.name().to_owned(), &status))
        };
        self.copies.recoveries.all().into_iter().filter_map(overview).collect()
    }
}

/// Tells a request on this node to stop.
pub(crate) fn cancel_here(number: u64) -> bool {
    let account = plimsoll_memory::account::find(number);
    account.is_some_and(|it| it.stop(Stop::Cancelled("by user request".to_owned())))
}

/// Why a node's figures are not known.
#[derive(Debug, thiserror::Error)]
enum NoFigures {
    /// It gave no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its answer is not what this version reads.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// It answered something else.
    #[error("the node gave no figures")]
    OtherReply,
}

async fn ask(member: &Arc<Member>) -> Result<NodeStatistics, NoFigures> {
    // Selection is not told: reading the sizes of files says nothing of how a node serves.
    match member.link.ask(Question::Statistics, TIMEOUT, 0).await? {
        Reply::Json(json) => Ok(serde_json::from_str(&json)?),
        _ => Err(NoFigures::OtherReply),
    }
}
