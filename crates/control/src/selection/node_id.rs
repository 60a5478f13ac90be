//! The small numbers of nodes. Who gives them out is the caller's.

/// A node, by a small number that the caller gives out densely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The largest node number accepted.
pub const NODE_ID_MAX: u32 = 65_535;

impl NodeId {
    pub(crate) fn slot(self) -> usize {
        assert!(self.0 <= NODE_ID_MAX, "node numbers are dense");
        usize::try_from(self.0).unwrap_or(0)
    }
}
