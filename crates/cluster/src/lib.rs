//! What stands between clients and partitions: tables, the lead that batches writes into
//! records, the applier that brings replicas forward, and the coordinator that takes requests.
//!
//! This version is one node. It knows neither RESP nor HTTP.

mod applier;
mod coordinator;
mod creation;
mod documents;
mod gather;
mod lead;
mod maintenance;
mod metadata;
mod node;
mod partition;
#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "nodes do not copy replicas from each other yet")
)]
mod recovery;
mod request;
mod rpc;
mod scatter;
mod session;
mod statistics;
mod table;

pub use coordinator::Coordinator;
pub use documents::{
    Action, AliasAction, CacheStatistics, Condition, ContextId, Document, DocumentWrite,
    DocumentsOptions, IndexBody, IndexMetadata, IndexStatistics, PartitionStatistics,
    PoolStatistics, SearchOptions, SearchOutcome, WriteResult, Written,
};
pub use node::{Node, NodeSettings, OpenError};
pub use plimsoll_index::Error;
pub use request::{Request, Watched};
pub use rpc::{Call, CallError, MESSAGE_BYTES_MAX, NoPeers, Peers};
pub use session::ClientSession;
pub use statistics::{DatabaseStatistics, Statistics};

/// How many databases `SELECT` reaches.
pub const DATABASES: u32 = 16;
