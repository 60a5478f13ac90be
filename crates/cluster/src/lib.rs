//! What stands between clients and partitions: tables, the lead that batches writes into
//! records, the applier that brings replicas forward, and the coordinator that takes requests.
//!
//! It knows neither RESP nor HTTP, nor how bytes get from node to node.

mod acceptance;
mod applier;
mod background;
mod barrier;
mod beside;
mod capacity;
mod catch_up;
mod clock;
mod cluster_settings;
mod coordinator;
mod creation;
pub mod default_expiry;
mod digest;
mod documents;
mod fell_behind;
mod figures;
mod flushing;
pub mod following;
mod gather;
mod groups;
mod joining;
mod lead;
mod load;
mod log_engine;
mod maintenance;
mod making;
mod members;
mod metadata;
mod node;
mod opening;
mod overview;
mod pacing;
mod partition;
mod placement;
mod read_rows;
mod reads;
mod reconcile;
mod recovery;
mod reports;
mod request;
mod room;
mod routing;
mod rpc;
mod scatter;
mod selection;
mod session;
mod settle;
mod slices;
mod statistics;
mod submit;
mod table;
mod tail;
mod trimming;
mod version;
mod work_settings;
mod write_error;

pub use acceptance::AcceptError;
pub use cluster_settings::{CLUSTER_SETTINGS, check_cluster_setting};
pub use coordinator::Coordinator;
pub use digest::{CopyDigest, Digest};
pub use documents::{
    Action, AliasAction, CacheStatistics, Condition, ContextId, Document, DocumentWrite,
    DocumentsOptions, IndexBody, IndexMetadata, IndexStatistics, PartitionStatistics,
    PoolStatistics, SearchOptions, SearchOutcome, WriteResult, Written, apart, aside, refused,
    stopped,
};
pub use figures::{
    ClusterStatistics, CopyStatistics, NodeStatistics, ProcessFigures, RecoveryOverview,
};
pub use log_engine::LogSettings;
pub use members::NodeRecord;
pub use metadata::is_database;
pub use node::{Node, NodeSettings, OpenError};
pub use overview::{CopyStatus, Missing, NodeOverview, PartitionOverview};
pub use plimsoll_control::LoadLine;
pub use plimsoll_control::admission::Frame;
pub use plimsoll_index::Error;
pub use recovery::{RecoveryStatus, Stage};
pub use request::{Preference, ReadLevel, Request, Watched};
pub use rpc::{Call, CallError, MESSAGE_BYTES_MAX, NoPeers, Peers};
pub use selection::{NodeSelection, SelectionStatistics};
pub use session::ClientSession;
pub use statistics::{DatabaseStatistics, Statistics};
pub use work_settings::{
    AdmissionKind, PoolSettings, SelectionSettings, SettingsFollower, WORK_SETTINGS, WorkSettings,
};

/// How many databases `SELECT` reaches.
pub const DATABASES: u32 = 16;

/// Tests see what is held as the binary does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: plimsoll_memory::Counted<std::alloc::System> =
    plimsoll_memory::Counted::new(std::alloc::System);
