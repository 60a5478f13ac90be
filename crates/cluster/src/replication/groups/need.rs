//! Which log groups a node reads. Pure.
//!
//! - The metadata's, always.
//! - Those of its copies, as the metadata names them or as it still has them, and those that somebody
//!   here asked for ([`super::Lease`]).
//! - Those in which nobody has copies: by every node that began with them, so that the first table there
//!   finds its place at once, and by the node that acts for all, which trims them.
//!
//! A group that others have copies in is given up once one of these copies serves, and not before it
//! was of no use here for a while: copies come and go together with tables.

use std::time::Duration;

use crate::metadata::placement::PartitionDefinition;

/// How long a group is read that is of no use any more.
pub(super) const KEEP: Duration = Duration::from_secs(10);

/// What a group is to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The node has, or is to have, a copy in it; or it asked for it.
    pub is_used: bool,
    /// Any node is named for a copy in it.
    pub has_copies: bool,
    /// A copy on another node is known to serve.
    pub is_served_elsewhere: bool,
}

impl Demand {
    /// Takes in a partition of the group, as the metadata has it, for the node `own`.
    pub(crate) fn add(&mut self, partition: &PartitionDefinition, own: &str) {
        self.is_used |= partition.copy_on(own).is_some();
        self.has_copies |= !partition.copies.is_empty();
    }

    /// Whether a node reads the group from now on that reads it so far, or does not.
    pub(crate) fn wants(self, reads: bool, acts: bool) -> bool {
        if self.is_used {
            return true;
        }
        if self.has_copies { reads && !self.is_served_elsewhere } else { reads || acts }
    }

    /// Whether a node begins with the group as it opens: nothing is known of other nodes yet.
    pub(crate) fn wants_at_first(self) -> bool {
        self.is_used || !self.has_copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Demand = Demand { is_used: false, has_copies: false, is_served_elsewhere: false };

    #[test]
    fn a_node_reads_the_groups_of_its_copies() {
        let used = Demand { is_used: true, has_copies: true, is_served_elsewhere: true };
        assert!(used.wants(false, false) && used.wants(true, false) && used.wants_at_first());
    }

    #[test]
    fn a_group_of_others_is_given_up_once_a_copy_of_theirs_serves() {
        let others = Demand { has_copies: true, ..IDLE };
        assert!(others.wants(true, false), "their copies are being made");
        assert!(!others.wants(false, true), "it is not taken up for that");
        let serving = Demand { is_served_elsewhere: true, ..others };
        assert!(!serving.wants(true, true) && !serving.wants(false, true));
        assert!(!serving.wants_at_first() && !others.wants_at_first());
    }

    #[test]
    fn a_group_without_copies_is_read_by_whoever_does_and_by_the_node_that_acts() {
        assert!(IDLE.wants_at_first());
        assert!(IDLE.wants(true, false) && IDLE.wants(false, true));
        assert!(!IDLE.wants(false, false));
    }
}
