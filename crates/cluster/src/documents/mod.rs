//! Documents: rows of tables that have a mapping, as REST asks for them.
//!
//! - [`service`]: what clients ask of documents goes through it, and what searches share.
//! - [`catalog`]: which indices there are and what they are made of; [`aliases`]: their other names.
//! - [`write`], [`read`]: single documents.
//! - [`rows`]: what Redis clients write into an index.
//! - [`indexer`], [`refresher`]: the index of a partition, kept up with its rows; [`scrubber`]: its files
//!   checked.
//! - [`search`], [`options`], [`parts`], [`contexts`], [`pool`], [`costs`], [`cache`], [`memory`]: searches over
//!   partitions.
//! - [`remote`]: what other nodes ask of the copies here; [`views`]: what is held for them.
//!
//! The words of HTTP are not known here; errors are Elasticsearch's.

mod aliases;
mod cache;
mod catalog;
mod contexts;
mod costs;
mod indexer;
mod memory;
mod options;
mod parts;
mod pool;
mod read;
mod refresher;
mod remote;
mod requests;
mod rows;
mod scrubber;
mod search;
mod service;
mod statistics;
mod types;
mod views;
mod write;

pub use cache::CacheStatistics;
pub(crate) use catalog::{check_name, checked};
pub(crate) use indexer::Indexer;
#[cfg(test)]
pub(crate) use indexer::indexer_of;
pub use memory::{apart, aside, refused, stopped};
pub use options::{ContextId, SearchOptions};
pub use plimsoll_storage::operation::Condition;
pub use pool::PoolStatistics;
pub use refresher::LeftOut;
pub(crate) use refresher::Refresher;
pub(crate) use scrubber::start_scrubbing;
pub use search::SearchOutcome;
pub(crate) use service::Searching;
pub use service::{Documents, DocumentsOptions};
pub use statistics::{IndexStatistics, PartitionStatistics};
pub use types::{AliasAction, Document, IndexBody, WriteKind, WriteRequest, WriteResult, Written};
