//! Another cluster, as a node asks it whose tables follow that one's. How a question gets there is not
//! known here: the front end gives a [`Remotes`].

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_log::record::Item;
use plimsoll_log::rules::carried::LeaderPosition;
use plimsoll_log::{Incarnation, PartitionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::difference::messages::{DifferenceAnswer, DifferenceAsk};
use crate::recovery::CopyCompression;
use crate::wire::Peers;

/// An answer that is on its way.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, RemoteError>> + Send + 'a>>;

/// Why another cluster gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// It is not reached now: wait.
    #[error("{0}")]
    Unreachable(String),
    /// It does not let this one in: the key is to be mended.
    #[error("{0}")]
    Denied(String),
    /// There is no such table, or it is another one by now.
    #[error("{0}")]
    NoTable(String),
    /// Its log no longer has what comes after the position that was named.
    #[error("{0}")]
    Trimmed(String),
    /// Its log is another than the one that was followed, or forked since.
    #[error("{0}")]
    Forked(String),
    /// It refuses, for another reason.
    #[error("{0}")]
    Refused(String),
}

impl RemoteError {
    /// Whether it stays so until somebody does something about it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::NoTable(_) | Self::Trimmed(_) | Self::Forked(_))
    }
}

/// The clusters that this one knows, by their names in `cluster.remote.*`.
pub trait Remotes: Send + Sync + 'static {
    /// The one of this name; `None` where none is set.
    fn get(&self, name: &str) -> Option<Arc<dyn Remote>>;
}

/// One of them.
pub trait Remote: Send + Sync + 'static {
    /// A table as it is there.
    fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable>;

    /// A table as it is there, whose log is kept for a follower from now on: a hold that begins.
    fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable>;

    /// The tables there that may be followed: names and uuids.
    fn tables(&self) -> Asked<'_, Vec<(String, String)>>;

    /// Says how far a follower has come: what comes after is kept in the leader's log.
    fn hold(&self, hold: Hold) -> Asked<'_, Held>;

    /// The way to its nodes for the questions of recovery: an address is the id of a node.
    fn files(&self) -> Arc<dyn Peers>;

    /// Has files come over so many connections to a node, from now on.
    fn set_connections(&self, count: u32);

    /// Whether files are compressed on the way.
    fn compression(&self) -> CopyCompression;

    /// Asks the node of this id what differs from a partition there.
    fn difference<'a>(&'a self, node: &'a str, ask: DifferenceAsk) -> Asked<'a, DifferenceAnswer>;

    /// The records of partitions from where their followers stand; a partition of which there are none
    /// to give is refused on the stream. Dropping them ends it.
    fn records(&self, places: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>>;
}

/// Records as they come.
pub trait Records: Send {
    /// The next, once there is one; nothing is lost where the future is dropped.
    fn next(&mut self) -> Asked<'_, Told>;
}

/// A partition that is followed, and where its follower stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerPosition {
    /// Its name in the leader's cluster.
    pub partition: PartitionId,
    /// Where the follower's copy stands in the leader's log.
    pub position: LeaderPosition,
}

/// What a leader tells those who follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Records of a partition: an [`Item::Carried`], to be appended as it is.
    Carried {
        /// Its name in the leader's cluster.
        partition: PartitionId,
        /// The records with where they stand.
        item: Item,
    },
    /// No more records of a partition are given on this stream, and why; the others go on.
    Refused {
        /// Its name in the leader's cluster.
        partition: PartitionId,
        /// Why.
        error: RemoteError,
    },
    /// How far the leader is; about once a second.
    Level(Level),
}

/// How far a leader is, where followed partitions are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Each followed partition.
    pub partitions: Vec<PartitionLevel>,
    /// Of each followed table that has a mapping, its version.
    pub mappings: BTreeMap<u64, u64>,
    /// The leader's clock, ms since 1970; clocks of clusters are compared by nobody.
    pub clock_ms: u64,
}

/// How far a leader's partition is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionLevel {
    /// The incarnation of its table there.
    pub table: u64,
    /// Its ordinal.
    pub ordinal: u32,
    /// The position of its group's log.
    pub lsn: u64,
    /// Log time there, ms since 1970.
    pub log_time_ms: u64,
    /// The sequence of its last change; `None` where the node that tells has no copy of it.
    pub sequence: Option<u64>,
    /// What its group's log holds after what was given, of what it holds for followers at the most, in
    /// thousandths; 0 of a leader that does not say.
    #[serde(default)]
    pub held_permille: u32,
}

/// A table as its leader has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaderTable {
    /// Its name there.
    pub name: String,
    /// Tells it from an earlier table of the same name.
    pub incarnation: u64,
    /// The leader's log.
    pub log: u64,
    /// In the order of their ordinals.
    pub partitions: Vec<LeaderPartition>,
    /// What makes it an index; none for rows alone.
    pub documents: Option<LeaderDocuments>,
    /// Whether it follows another table itself.
    pub is_follower: bool,
}

impl LeaderTable {
    /// The leader's log.
    #[must_use]
    pub fn log(&self) -> Incarnation {
        Incarnation(self.log)
    }
}

/// A partition as its leader has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderPartition {
    /// The ids of the nodes that serve a copy and have their port open, the best to ask first.
    pub nodes: Vec<String>,
}

/// What a leader's table has that is an index as well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaderDocuments {
    /// Settings by their full names.
    pub settings: Map<String, Value>,
    /// The mapping's body.
    pub mapping: Value,
    /// One more at each change of the mapping.
    pub mapping_version: u64,
    /// Other names, each with what it was given.
    pub aliases: BTreeMap<String, Map<String, Value>>,
    /// Whether it is closed.
    pub is_closed: bool,
}

/// The incarnation of a leader's table that is not known.
pub(super) const ANY_TABLE: u64 = 0;

/// Who follows, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The leader's table, by name and incarnation.
    pub name: String,
    /// The incarnation; [`ANY_TABLE`] where an end is told of a try whose answer was lost.
    pub table: u64,
    /// The follower's cluster.
    pub cluster_uuid: String,
    /// Its table there.
    pub follower: String,
    /// The incarnation of that.
    pub follower_incarnation: u64,
    /// What is to become of what is held.
    pub change: HoldChange,
    /// The key that was shown for it: for the leader to say, whom nobody tells.
    #[serde(skip)]
    pub key: String,
}

/// What is to become of what is held for a follower.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldChange {
    /// Everything that the log still has is kept from now on, if nothing is held yet.
    #[default]
    Begin,
    /// What comes after these positions is kept, by ordinal; a position never goes back.
    Positions(Vec<u64>),
    /// Nothing more is kept.
    End,
}

/// What is held for a follower.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What comes after these positions is kept, by ordinal; empty where nothing is.
    pub positions: Vec<u64>,
    /// Whether it was too much, so that nothing is kept any more.
    #[serde(default)]
    pub is_dropped: bool,
}

/// What REST says where a remote cluster gave no answer.
pub(super) fn failed_remote(name: &str, error: &RemoteError) -> Error {
    let words = format!("[{name}] {error}");
    match error {
        RemoteError::Unreachable(_) => Error::unavailable("connect_transport_exception", words),
        RemoteError::Denied(_) => Error::forbidden("security_exception", words),
        _ => Error::illegal_argument(words),
    }
}
