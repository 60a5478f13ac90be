//! Documents: rows of tables that have a mapping, as REST asks for them.
//!
//! - [`catalog`]: which indices there are and what they are made of; [`aliases`]: their other names.
//! - [`write`], [`read`]: single documents.
//! - [`rows`]: what Redis clients write into an index.
//! - [`indexer`], [`refresher`]: the index of a partition, kept up with its rows; [`scrubber`]: its files
//!   checked.
//! - [`search`], [`parts`], [`contexts`], [`pool`], [`costs`], [`cache`], [`memory`]: searches over
//!   partitions.
//! - [`remote`]: what other nodes ask of the copies here.
//!
//! The words of HTTP are not known here; errors are Elasticsearch's.

mod aliases;
mod aside;
mod cache;
mod catalog;
mod contexts;
mod costs;
mod indexer;
mod memory;
mod parts;
mod pool;
mod read;
mod refresher;
mod remote;
mod requests;
mod rows;
mod scrubber;
mod search;
mod statistics;
mod types;
mod write;

pub(crate) use aside::Aside;
pub use cache::CacheStatistics;
pub(crate) use catalog::{check_name, checked, no_such_index, replicas, uuid};
pub use contexts::ContextId;
pub(crate) use indexer::Indexer;
pub(crate) use memory::BROKEN;
pub use memory::{apart, aside, refused, stopped};
pub use plimsoll_storage::operation::Condition;
pub use pool::PoolStatistics;
pub(crate) use refresher::Refresher;
pub(crate) use scrubber::start_scrubbing;
pub use search::{SearchOptions, SearchOutcome};
pub use statistics::{IndexStatistics, PartitionStatistics};
pub use types::{
    Action, AliasAction, Document, DocumentWrite, IndexBody, IndexMetadata, WriteResult, Written,
};
pub(crate) use write::failed;
#[cfg(test)]
pub(crate) use write::failed_write;

use std::sync::Arc;

use cache::RequestCache;
use contexts::Contexts;
use costs::Costs;
use pool::SearchPool;
use remote::Views;
use requests::Requests;

use crate::settings::work::PoolSettings;

/// How documents are searched.
#[derive(Clone, Debug)]
pub struct DocumentsOptions {
    /// Bytes of the request cache. Default 64 MiB.
    pub request_cache_bytes: u64,
}

impl Default for DocumentsOptions {
    fn default() -> Self {
        Self { request_cache_bytes: 64 << 20 }
    }
}

/// What the searches of a node share.
pub(crate) struct Documents {
    pub pool: SearchPool,
    pub contexts: Contexts,
    pub costs: Arc<Costs>,
    pub cache: RequestCache,
    /// What is held for searches of other nodes.
    pub views: Views,
    /// What other nodes asked for lately.
    pub requests: Requests,
}

impl Documents {
    pub(crate) fn new(options: &DocumentsOptions, search: PoolSettings, boot: u64) -> Self {
        Self {
            pool: SearchPool::start(search, boot),
            contexts: Contexts::default(),
            costs: Arc::new(Costs::new()),
            cache: RequestCache::new(options.request_cache_bytes),
            views: Views::default(),
            requests: Requests::new(),
        }
    }
}
