//! Kinds of work that are told apart. How long each takes is measured elsewhere.

/// A kind of work, told apart because its run time is of another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A read of one row or a few by key.
    Get,
    /// A range or multi-key read.
    Scan,
    /// The query phase of a search on one partition.
    Search,
    /// The fetch phase of a search.
    Fetch,
    /// A write, as its lead sees it.
    Write,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 5;
    /// All of them, in slot order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Get, Self::Scan, Self::Search, Self::Fetch, Self::Write];

    /// The class's slot in arrays.
    #[must_use]
    pub const fn slot(self) -> usize {
        self as usize
    }
}
