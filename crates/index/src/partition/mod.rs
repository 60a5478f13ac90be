//! The inverted index of one partition: [`PartitionIndex`] takes documents in, a refresh gives a
//! [`View`] of them, persisting makes the last refresh durable.
//!
//! What a refresh shows is in memory and in files that the disk need not have yet. After a crash
//! the index is exactly as it was persisted last, with the position that was given to the refresh
//! persisted then; the owner puts in again what came after.

mod bounds;
mod checksum;
mod error;
mod files;
mod index;
mod layout;
mod merges;
mod meta;
mod names;
mod norms;
mod opening;
mod options;
mod order;
mod record;
mod sink;
mod view;

#[cfg(test)]
mod tests;

pub use bounds::Bounds;
pub use error::IndexError;
pub use index::{Checker, PartitionIndex};
pub use layout::{Kind, Layout, Target};
pub use options::{Grown, IndexStatistics, Options};
pub use view::View;
