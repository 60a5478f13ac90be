//! The two small languages inside a query's text: Lucene's ([`lucene`], which refuses what it does
//! not understand) and the simple one ([`simple`], which takes everything for something). Both
//! give the same tree.

pub(crate) mod flags;
pub(crate) mod lucene;
pub(crate) mod simple;
#[cfg(test)]
mod tests;

/// A query text taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Clauses side by side.
    Bool(Vec<(Occur, Node)>),
    /// A node whose score is multiplied.
    Boosted(Box<Node>, f32),
    /// Everything: `*:*`.
    All,
    /// One condition on a field; no field: the query's own.
    Leaf(Option<String>, Leaf),
}

/// How a clause counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occur {
    Must,
    Should,
    MustNot,
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf {
    Text(String),
    Phrase { text: String, slop: Option<u32> },
    Prefix(String),
    Wildcard(String),
    Regexp(String),
    Fuzzy { text: String, edits: Option<u8> },
    Range { from: Option<(String, bool)>, to: Option<(String, bool)> },
    Exists,
}

/// How deep brackets may go.
pub(crate) const DEPTH_MAX: usize = 50;
