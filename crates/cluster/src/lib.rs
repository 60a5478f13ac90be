//! What stands between clients and partitions: tables, the lead that batches writes into
//! records, the applier that brings replicas forward, and the coordinator that takes requests.
//!
//! It knows neither RESP nor HTTP, nor how bytes get from node to node.

mod copies;
mod documents;
pub mod following;
mod machine;
mod metadata;
mod node;
mod pacing;
mod recovery;
mod replication;
mod routing;
mod rows;
mod settings;
mod wire;

pub use documents::{
    AliasAction, CacheStatistics, Condition, ContextId, Document, Documents, DocumentsOptions,
    IndexBody, IndexStatistics, LeftOut, PartitionStatistics, PoolStatistics, SearchOptions,
    SearchOutcome, WriteKind, WriteRequest, WriteResult, Written, apart, aside, refused, stopped,
};
pub use machine::capacity::{FILES_SHARES, SHARES_OF_COPIES, files_max};
pub use metadata::error::MetadataError;
pub use metadata::index::IndexMetadata;
pub use metadata::members::NodeRecord;
pub use metadata::version::SECURITY as SECURITY_SINCE;
pub use metadata::{default_expiry, is_database};
pub use node::Node;
pub use node::acceptance::AcceptError;
pub use node::coordinator::Coordinator;
pub use node::digest::CopyDigest;
pub use node::figures::{ClusterStatistics, CopyStatistics, NodeStatistics, RecoveryOverview};
pub use node::overview::{CopyStatus, Missing, NodeOverview, PartitionOverview};
pub use node::settings::{NodeSettings, OpenError};
pub use node::shared::ProcessFigures;
pub use node::statistics::{DatabaseStatistics, Statistics};
pub use plimsoll_control::LoadLine;
pub use plimsoll_control::admission::Frame;
pub use plimsoll_index::Error;
pub use recovery::{RecoveryStatus, Stage};
pub use replication::advance::AdvanceError;
pub use replication::digest::{Digest, DigestError};
pub use replication::log_engine::{LogSettings, OpenedLog};
pub use replication::session::ClientSession;
pub use routing::selection::{NodeSelection, SelectionStatistics};
pub use settings::cluster::{CLUSTER_SETTINGS, check_cluster_setting};
pub use settings::error::SettingError;
pub use settings::work::{
    AdmissionKind, PoolSettings, SelectionSettings, SettingsFollower, WORK_SETTINGS, WorkSettings,
};
pub use wire::request::{Preference, ReadLevel, Request, Watched};
pub use wire::{Call, CallError, MESSAGE_BYTES_MAX, NoPeers, Peers};

/// Log groups that a node uses: the metadata's, and those of partitions.
pub const LOG_GROUPS: u16 = metadata::GROUPS + 1;
/// How many databases `SELECT` reaches.
pub const DATABASES: u32 = 16;

/// Tests see what is held as the binary does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: plimsoll_memory::Counted<std::alloc::System> =
    plimsoll_memory::Counted::new(std::alloc::System);
