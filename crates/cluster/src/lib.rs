//! What stands between clients and partitions: tables, the lead that batches writes into
//! records, the applier that brings replicas forward, and the coordinator that takes requests.
//!
//! This version is one node. It knows neither RESP nor HTTP.

mod applier;
mod coordinator;
mod lead;
mod maintenance;
mod metadata;
mod node;
mod partition;
mod request;
mod scatter;
mod session;
mod statistics;
mod table;

pub use coordinator::Coordinator;
pub use node::{Node, NodeSettings, OpenError};
pub use request::{Request, Watched};
pub use session::ClientSession;
pub use statistics::{DatabaseStatistics, Statistics};

/// How many databases `SELECT` reaches.
pub const DATABASES: u32 = 16;
