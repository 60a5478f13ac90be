//! One node's replica of a partition: its rows in RocksDB, stamped with the position of the log
//! that they contain, and the apply that carries the log's rules out on them.
//!
//! Rows, sessions, leads, counters and the stamp go into one atomic batch, one for several
//! records (until then they are seen from memory, see `pending.rs`); RocksDB's own WAL is off,
//! because the log is the WAL: after a crash the replica stands at its last flush and is brought
//! forward from the log. Reading the log, placing replicas and answering clients are not done
//! here.

mod application;
mod apply;
mod budget;
mod cached_key;
mod changes;
mod checkpoint;
pub mod difference;
mod effect;
mod engine;
mod field_names;
mod following;
mod format;
mod journal;
mod layer;
mod merge;
mod overlay;
mod owned;
mod pace;
mod packed;
mod pending;
mod recent;
mod resources;
mod row_cache;
mod store;
mod system;
mod touches;
mod unflushed;

pub use apply::{Digests, Replica, ToIndex};
pub use budget::{
    BUDGETED_SINCE, OPERATION_BYTES_MAX, OPERATION_STEPS_MAX, OverBudget, RECORD_BYTES_MAX,
    RECORD_STEPS_MAX, own_bytes, too_many_bytes,
};
pub use cached_key::CachedKey;
pub use checkpoint::Checksum;
pub use effect::{Applied, ApplyError, Effect, NotCarried, Observer};
pub use format::STORE_FORMAT;
pub use overlay::Overlay;
pub use owned::OwnedSnapshot;
pub use pace::CompactionPace;
pub use recent::{Recent, RecentTouches};
pub use resources::{
    BeforeFlush, RateLimiter, Resources, StoreOptions, StoreStatistics, rocksdb_options,
};
pub use store::{CachedRow, CachedStore, Store, StoreSnapshot};
pub use system::{Leader, Stamp};
pub use touches::{VisitTouches, leader_of, position_of, stamp_of, touches_of};
pub use unflushed::Stops;

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod cached_key_tests;
#[cfg(test)]
mod checkpoint_tests;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod expiry_tests;
#[cfg(test)]
mod following_budget_tests;
#[cfg(test)]
mod following_tests;
#[cfg(test)]
mod layer_tests;
#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unfollow_tests;
