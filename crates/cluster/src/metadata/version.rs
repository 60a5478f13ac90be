//! The version of the cluster: which forms of records, messages and metadata may be used. It is a row
//! of the metadata. A node appends nothing of a newer form before the version allows it, so a node
//! that does not know it never meets it.
//!
//! | version | since then |
//! |---|---|
//! | 1 | clusters that were made before there was a version; its nodes and newer ones do not carry out all operations alike, so it is upgraded whole |
//! | 2 | records say under which version they were made; an operation that exceeds the budget of its record is refused by all replicas; COPY and RENAME of a large hash go in slices; BITOP and BITFIELD |
//! | 3 | tables follow those of another cluster: records carry a leader's |
//! | 4 | ranges of a hash's fields (`PLIMSOLL.HRANGE`, `PLIMSOLL.HREMRANGE`) and checks before fields are set (`PLIMSOLL.HCHECKSET`); conditions on what a string is (`SET … IFEQ`, DELEX), DIGEST; SCAN of a part of the keys |
//! | 5 | a write carries its table's default expiry |
//! | 6 | users and roles are made |
//! | 7 | a node packs the rows of a hash of one short field: its files are read by no older version |
//! | 8 | sweeps carry a form number (the feature `next-version` alone: what tests upgrade to) |
//!
//! The first of the nodes raises it to what all members know, unless `cluster.version.raise` is
//! `hold`. A node whose version is older than the cluster's refuses to start, by name.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll_storage::operation::DEFAULT_EXPIRY_SINCE;
use plimsoll_storage::partition::{BUDGETED_SINCE, OverBudget};

/// The newest version that this binary knows.
pub(crate) const KNOWN: u32 = if cfg!(feature = "next-version") { 8 } else { 7 };
/// From this one on, operations beyond the budget of a record are refused.
pub(crate) const BUDGETS: u32 = BUDGETED_SINCE;

/// From this one on, large hashes are copied in slices.
pub(crate) const SLICES: u32 = 2;
/// From this one on, tables may follow those of another cluster.
pub(crate) const FOLLOWING: u32 = plimsoll_log::record::CARRIED_SINCE;
/// From this one on, tables may have a default expiry.
pub(crate) const DEFAULT_EXPIRY: u32 = DEFAULT_EXPIRY_SINCE;

/// From this one on, nodes pack rows in their stores.
pub(crate) const PACKED_ROWS: u32 = 7;

/// From this one on, all nodes ask who somebody is.
pub const SECURITY: u32 = 6;

/// The version as this node knows it.
#[derive(Default)]
pub(crate) struct ClusterVersion {
    version: AtomicU32,
    /// A partition stopped at what a newer version decides.
    has_stopped: AtomicBool,
}

impl ClusterVersion {
    /// Whether what came with `version` may be used.
    pub(crate) fn allows(&self, version: u32) -> bool {
        self.version.load(Ordering::Relaxed) >= version
    }

    /// What records are made under.
    pub(crate) fn get(&self) -> u32 {
        self.version.load(Ordering::Relaxed).max(1)
    }

    /// It is at least so much; it never goes back.
    pub(crate) fn raise(&self, version: u32) {
        self.version.fetch_max(version, Ordering::Relaxed);
    }

    /// What becomes of an operation beyond the budget of a record of version 1: all replicas refuse
    /// it, or this one stops there, because an older replica would carry it out.
    pub(crate) fn over_budget(&self) -> OverBudget {
        if self.allows(BUDGETS) { OverBudget::Refuse } else { OverBudget::Stop }
    }

    /// Whether one has since this was asked last.
    pub(crate) fn take_stopped(&self) -> bool {
        self.has_stopped.swap(false, Ordering::Relaxed)
    }

    /// A partition has stopped at an operation beyond its budget.
    pub(crate) fn stopped_a_partition(&self) {
        self.has_stopped.store(true, Ordering::Relaxed);
    }
}

/// Why this binary cannot be a member of a cluster of this version, if so.
pub(crate) fn refusal(version: u32) -> Option<String> {
    (version > KNOWN).then(|| {
        format!(
            "the cluster's version is {version}, and this binary knows versions up to {KNOWN}: \
             start the node with a newer one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_budget_stops_apply_until_all_know_it() {
        let version = ClusterVersion::default();
        for (raised, over) in [
            (0, OverBudget::Stop),
            (BUDGETS - 1, OverBudget::Stop),
            (BUDGETS, OverBudget::Refuse),
            // It never goes back.
            (1, OverBudget::Refuse),
        ] {
            version.raise(raised);
            assert_eq!(version.over_budget(), over, "{raised}");
        }
    }

    #[test]
    fn a_newer_cluster_is_refused_by_name() {
        assert_eq!(refusal(KNOWN), None);
        assert_eq!(refusal(1), None);
        assert!(refusal(KNOWN + 1).unwrap().contains(&format!("version is {}", KNOWN + 1)));
    }
}
