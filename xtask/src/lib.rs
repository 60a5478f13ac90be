//! Checks of the tree itself: what the compiler and clippy do not see.
//! Each check is a function from the tree to a list of complaints; `tests/tidy.rs` runs them.
//! They read text and ask `cargo tree`; they change
//! none but their own lists, where those got shorter and that is asked for.

mod circles;
mod documents;
mod edges;
mod layers;
mod lists;
mod modules;
mod sources;
mod taken;
mod tree;
mod untyped;

pub use circles::circles;
pub use documents::{crates_in_architecture, documents_exist, private_words, titles};
pub use edges::{forbidden_edges, rocksdb_agreement};
pub use layers::upward;
pub use sources::{file_headers, file_sizes, leftovers, orphans};
pub use taken::taken;
pub use tree::{Tree, TreeError};
pub use untyped::untyped;
