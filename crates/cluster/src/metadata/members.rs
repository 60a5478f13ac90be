//! The nodes of the cluster: who they are, where they listen, which are there. What is known is
//! what the metadata says; that a node is slow or does not answer is selection's to notice.
//!
//! Every node appends a beat now and then. One whose last beat lies [`LEFT_AFTER_MS`] of log time
//! back is noted as having left, on the condition that it has not beaten since: log time is
//! moved by those who are there, so nobody is declared gone because the log stood still. A clock that steps
//! moves it too: so who notes it must have seen no beat for as long by its own time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_base::{Disk, Time};
use plimsoll_control::selection::NodeId;
use plimsoll_log::{Incarnation, PartitionId};
use serde::{Deserialize, Serialize};

use crate::metadata::placement::filter::{Filter, Named};
use crate::metadata::placement::{Known, PartitionDefinition, PlaceableNode, PlaceableNodes};
use crate::metadata::reports::{CopyReport, Reports};
use crate::wire::{Link, Peers};

/// How often a node says that it is there, ms.
pub(crate) const BEAT_INTERVAL_MS: u64 = 1_000;
/// After how much log time without a beat a node has left, ms.
pub(crate) const LEFT_AFTER_MS: u64 = 6_000;
/// The file that keeps a node's id.
const ID_FILE: &str = "node-id";

/// What a node says of itself, as the metadata keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name, for people.
    pub name: String,
    /// Where other nodes ask it, `host:port`; empty where it is alone.
    pub rpc: String,
    /// Where REST clients connect.
    pub http: String,
    /// Where Redis clients connect.
    pub resp: String,
    /// Where other clusters ask it, `host:port`; empty where they do not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remote: String,
    /// Where it stands: copies are spread over zones. Empty where not said.
    pub zone: String,
    /// Whether it takes requests and holds no copies.
    #[serde(default)]
    pub is_coordinating_only: bool,
    /// The version that it runs.
    pub version: String,
    /// The newest version of the cluster that it knows; the node sets it itself. 1 where it does
    /// not say.
    #[serde(default = "first_version")]
    pub version_known: u32,
    /// When it was started, ms since 1970.
    pub started_ms: u64,
}

fn first_version() -> u32 {
    1
}

/// What a node says again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    /// By its clock, ms since 1970.
    pub at_ms: u64,
    /// What of the metadata it had seen when it found the positions below.
    pub metadata: u64,
    /// What it needs no more of each log group that it reads: up to these positions.
    pub durable: BTreeMap<u16, u64>,
}

/// A node as the metadata has it.
pub(crate) struct FoundNode {
    pub id: String,
    pub record: NodeRecord,
    /// When it left, in log time; none while it is there.
    pub left_ms: Option<u64>,
    /// The change of the metadata that its last beat was; 0 before its first.
    pub beat: u64,
    /// What it reports of its copies.
    pub reports: Arc<Reports>,
}

impl FoundNode {
    /// One that is there and well.
    pub(crate) fn new(id: String, record: NodeRecord) -> Self {
        Self { id, record, left_ms: None, beat: 0, reports: Arc::default() }
    }
}

/// A node as this one knows it.
pub(crate) struct Member {
    pub id: String,
    pub record: NodeRecord,
    /// When it left, in log time; none while it is there.
    pub left_ms: Option<u64>,
    /// The change of the metadata that its last beat was, and when this node saw it, by its own time.
    pub beat: (u64, Instant),
    /// Its number in selection.
    pub number: NodeId,
    pub link: Link,
    /// What it reports of its copies.
    pub reports: Arc<Reports>,
}

impl Member {
    /// Whether its copy of a partition is known to serve: it is there, and has said so itself.
    pub(crate) fn serves(&self, partition: PartitionId) -> bool {
        self.is_alive() && self.reports.of(partition).is_some_and(CopyReport::serves)
    }

    /// Whether its copy may be asked: one that is being made too, as it may be there by now.
    pub(crate) fn may_serve(&self, partition: PartitionId) -> bool {
        let may = |report: &CopyReport| report.serves() || *report == CopyReport::Making;
        self.reports.of(partition).is_none_or(may)
    }

    /// Whether its copy answers, but not searches yet.
    pub(crate) fn is_reindexing(&self, partition: PartitionId) -> bool {
        matches!(self.reports.of(partition), Some(CopyReport::Reindexing { .. }))
    }

    /// What of that matters for where copies go.
    pub(crate) fn known(&self, partition: PartitionId) -> Known {
        match self.reports.of(partition) {
            Some(CopyReport::Stopped { .. }) => Known::Stopped,
            Some(report) if report.serves() => Known::Serves,
            _ => Known::Other,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.left_ms.is_none()
    }

    /// Whether this node has seen no beat of it for so long that it may have left.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        now - self.beat.1 >= Duration::from_millis(LEFT_AFTER_MS)
    }
}

/// The nodes as they are known now.
pub(crate) struct Members {
    /// The id of this node.
    pub own: String,
    /// Its number in selection.
    pub own_number: NodeId,
    pub record: NodeRecord,
    peers: Arc<dyn Peers>,
    time: Time,
    cluster: Incarnation,
    view: ArcSwap<BTreeMap<String, Arc<Member>>>,
    numbers: Mutex<BTreeMap<String, u32>>,
}

impl Members {
    pub(crate) fn new(
        own: String,
        record: NodeRecord,
        peers: Arc<dyn Peers>,
        cluster: Incarnation,
        time: Time,
    ) -> Self {
        let view = ArcSwap::default();
        let numbers = Mutex::new(BTreeMap::from([(own.clone(), 0)]));
        let own_number = NodeId(0);
        let members = Self { own, own_number, record, peers, time, cluster, view, numbers };
        members.set(Vec::new());
        members
    }

    /// All nodes, by their ids.
    pub(crate) fn all(&self) -> Arc<BTreeMap<String, Arc<Member>>> {
        self.view.load_full()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Member>> {
        self.view.load().get(id).cloned()
    }

    /// The nodes that are there, this one excepted.
    pub(crate) fn others(&self) -> Vec<Arc<Member>> {
        let view = self.view.load();
        let others = view.values().filter(|it| it.id != self.own && it.is_alive());
        others.cloned().collect()
    }

    /// How many nodes that hold copies are known, also those that are away.
    pub(crate) fn data_nodes_known(&self) -> usize {
        self.view.load().values().filter(|it| !it.record.is_coordinating_only).count()
    }

    /// How many nodes that hold copies are there.
    pub(crate) fn data_nodes(&self) -> usize {
        let view = self.view.load();
        view.values().filter(|it| it.is_alive() && !it.record.is_coordinating_only).count()
    }

    /// Whether this node is the one that acts for all: the first of those that are there.
    pub(crate) fn acts(&self) -> bool {
        let view = self.view.load();
        view.values().find(|it| it.is_alive()).is_some_and(|it| it.id == self.own)
    }

    /// Whether this node is the first of those that are there and serve a copy.
    pub(crate) fn speaks_for(&self, id: PartitionId, partition: &PartitionDefinition) -> bool {
        let view = self.view.load();
        let answers =
            |node: &&str| view.get(*node).is_some_and(|it| it.is_alive() && it.may_serve(id));
        partition.serving().find(answers).is_some_and(|node| node == self.own)
    }

    /// Takes over what the metadata says: id, record, and when each left.
    pub(crate) fn set(&self, mut found: Vec<FoundNode>) {
        // The metadata does not have this node before its first beat.
        if !found.iter().any(|it| it.id == self.own) {
            found.push(FoundNode::new(self.own.clone(), self.record.clone()));
        }
        let (before, now) = (self.view.load(), self.time.now());
        let view = found.into_iter().map(|FoundNode { id, record, left_ms, beat, reports }| {
            let number = self.number(&id);
            let way = (self.record.name.as_str(), record.rpc.as_str());
            let peers = Arc::clone(&self.peers);
            let mut link = Link::new(peers, way, self.cluster, self.time.clone());
            let mut beat = (beat, now);
            if let Some(known) = before.get(&id) {
                link.heard = Arc::clone(&known.link.heard);
                beat.1 = if known.beat.0 == beat.0 { known.beat.1 } else { now };
            }
            // This node is there, whatever is said of it.
            let left_ms = left_ms.filter(|_| id != self.own);
            (id.clone(), Arc::new(Member { id, record, left_ms, beat, number, link, reports }))
        });
        self.view.store(Arc::new(view.collect()));
    }

    fn number(&self, id: &str) -> NodeId {
        let mut numbers = self.numbers.lock();
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        NodeId(*numbers.entry(id.to_owned()).or_insert(next))
    }

    /// What of the nodes matters for where copies go, at `log_time_ms`, if one that left is
    /// waited for so long, and copies go only where `wanted` allows it.
    pub(crate) fn places(&self, log_time_ms: u64, wait_ms: u64, wanted: &Filter) -> PlaceableNodes {
        let place = |member: &Arc<Member>| {
            let is_counted =
                member.left_ms.is_none_or(|left_ms| log_time_ms < left_ms.saturating_add(wait_ms));
            let zone = member.record.zone.clone();
            let record = &member.record;
            let named = Named {
                name: &record.name,
                addresses: [&record.rpc, &record.http],
                zone: &record.zone,
            };
            let is_data = !record.is_coordinating_only && wanted.allows(named);
            (
                member.id.clone(),
                PlaceableNode { zone, is_counted, is_alive: member.is_alive(), is_data },
            )
        };
        self.view.load().values().map(place).collect()
    }
}

/// The id of the node whose folder this is, drawn when it is first opened.
pub(crate) fn own_id(disk: &Disk, data_dir: &Path, chance: &Draws) -> std::io::Result<String> {
    let path = data_dir.join(ID_FILE);
    let found = match disk.read(&path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(std::io::Error::other)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if !found.trim().is_empty() {
        return Ok(found.trim().to_owned());
    }
    let id = format!("{:016x}", chance.next_u64());
    // Whole or not there: a torn id would be another node's.
    let fresh = data_dir.join(format!("{ID_FILE}.new"));
    match disk.remove(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => disk.write_new(&fresh, id.as_bytes())?,
    }
    disk.sync(&fresh)?;
    disk.rename(&fresh, &path)?;
    disk.sync_dir(data_dir)?;
    Ok(id)
}
