//! Pacing: how fast background work may go beside the foreground. One law for each scarce thing:
//!
//! - [`disk`]: compaction, recovery and following on one disk, by what the foreground writes, how late it
//!   is, and how much debt has grown.
//! - [`compactions`]: that law for a node's compactions, asked once a second from counters; [`ahead`]: the
//!   rates that come of it, kept.
//! - [`debt`]: how far a store is towards the point where it can take no more.
//! - [`copies`]: what a node copies and follows across clusters, by how late the node's own clients are
//!   answered, which [`felt`] measures.
//! - [`sweeps`]: how expired rows are taken away, by how long they have waited.

pub mod ahead;
pub mod compactions;
pub mod copies;
pub mod debt;
pub mod disk;
pub mod felt;
pub mod sweeps;

pub use ahead::{Admitted, Passed};
pub use compactions::{CompactionPacer, Counted};
pub use copies::{CopyPacer, Second};
pub use disk::{DiskState, Pace, Pacer};
pub use felt::{Felt, Foreground, Latencies};
pub use sweeps::Sweeping;
