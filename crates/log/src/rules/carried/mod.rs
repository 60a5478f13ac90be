//! Carried records: a follower in another cluster copies the records of its leader's partition into
//! its own log, unchanged, and its replicas apply them from there. Two nodes may carry at once, a
//! batch may come twice, late or after one that should have come behind it: a replica takes a
//! carried record only where it stands exactly before it in the leader's log, so that none of this
//! does anything twice or leaves anything out.
//!
//! A batch says: here is everything of the partition in (`after`, `to`] of the log of the leader's
//! group. Its links tie it to the log: position and chain hash ([`super::chain`]) where it begins,
//! after each record, and where it ends. Each record is taken for itself, so a replica that stops
//! in the middle of a batch goes on there.
//!
//! A position in the leader's log is never one in the follower's: it has a type of its own. How
//! batches are asked for, and what a record does, is not decided here.

mod assemble;
pub(crate) mod batch;

pub use assemble::{AssembleFault, Assembler};
pub use batch::{Batch, CarriedFault, LeaderPosition, Link, Verdict};
