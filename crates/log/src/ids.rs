//! Names and positions of the log, each a type of its own so that none is taken for another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $show:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $show, self.0)
            }
        }
    };
}

id!(
    /// A position in one group's log: increasing, gaps allowed, 0 before the first record.
    Lsn(u64),
    "{}"
);
id!(
    /// One stream of the log.
    GroupId(u16),
    "{}"
);
id!(
    /// Tells this log from an earlier one under the same name; drawn at random when it is made.
    Incarnation(u64),
    "{:016x}"
);
id!(
    /// One run of a client's operations; drawn at random by the coordinator.
    SessionId(u64),
    "{:016x}"
);
id!(
    /// One run of a lead, from the start of its process to its end; drawn at random.
    LeadId(u64),
    "{:016x}"
);

/// A partition: the incarnation of its table and its ordinal in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// The table's incarnation.
    pub table: u64,
    /// The ordinal of the partition in its table, from 0.
    pub ordinal: u32,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.table, self.ordinal)
    }
}

impl Lsn {
    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
