//! The rules of the log: what makes an ordered, durable append enough for a store that loses
//! nothing acknowledged and runs nothing twice. Pure: no clock, no disk, no thread. A replica
//! keeps the states below with its rows and asks them, record by record, what to do.
//!
//! - [`carried`]: a follower in another cluster takes its leader's records once and in their order.
//! - [`chain`]: every replica hashes what it applied; a hole, a fork or a rewind is seen.
//! - [`difference`]: a follower that lost that order is levelled with a snapshot, range by range.
//! - [`leads`]: a lead's records are taken once and in its order.
//! - [`sessions`]: a client's operations run once; fences settle those in doubt.
//!
//! Log time, the only clock of apply, is the maximum of the stamps in the group's log, kept by
//! the chain.

pub mod carried;
pub mod chain;
pub mod difference;
pub mod leads;
pub mod sessions;

/// For how much log time a duplicate is recognised, ms. What is stamped longer ago is refused,
/// so that whatever a replica has forgotten can no longer come back.
pub const WINDOW_MS: u64 = 600_000;

/// Whether a stamp is so old, in log time, that its session or lead may have been forgotten.
#[must_use]
pub fn is_too_old(stamp_ms: u64, log_time_ms: u64) -> bool {
    stamp_ms.saturating_add(WINDOW_MS) < log_time_ms
}
