//! Documents: rows of tables that have a mapping, as REST asks for them.
//!
//! - [`catalog`]: which indices there are and what they are made of.
//! - [`write`], [`read`]: single documents.
//! - [`rows`]: what Redis clients write into an index.
//! - [`indexer`], [`refresher`]: the index of a partition, kept up with its rows.
//! - [`search`], [`parts`], [`contexts`], [`pool`], [`cache`], [`memory`]: searches over partitions.
//! - [`remote`]: what other nodes ask of the copies here.
//!
//! The words of HTTP are not known here; errors are Elasticsearch's.

mod cache;
mod catalog;
mod contexts;
mod indexer;
mod memory;
mod parts;
mod pool;
mod read;
mod refresher;
mod remote;
mod rows;
mod search;
mod statistics;
mod types;
mod write;

pub use cache::CacheStatistics;
pub(crate) use catalog::{no_such_index, replicas};
pub use contexts::ContextId;
pub(crate) use indexer::Indexer;
pub use memory::{apart, refused, stopped};
pub use pool::PoolStatistics;
pub(crate) use refresher::Refresher;
pub use search::{SearchOptions, SearchOutcome};
pub use statistics::{IndexStatistics, PartitionStatistics};
pub use types::{
    Action, AliasAction, Condition, Document, DocumentWrite, IndexBody, IndexMetadata, WriteResult,
    Written,
};
pub(crate) use write::failed;

use cache::RequestCache;
use contexts::Contexts;
use pool::SearchPool;
use remote::Views;

/// How documents are searched.
#[derive(Clone, Debug)]
pub struct DocumentsOptions {
    /// Threads that searches run on; at least 1. Default: three for every two processors, and
    /// one more, as in Elasticsearch.
    pub search_threads: usize,
    /// Searches of single partitions that may wait for a thread. Default 1,000.
    pub search_queue: usize,
    /// Bytes of the request cache. Default 64 MiB.
    pub request_cache_bytes: u64,
}

impl Default for DocumentsOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            search_threads: processors * 3 / 2 + 1,
            search_queue: 1000,
            request_cache_bytes: 64 << 20,
        }
    }
}

/// What the searches of a node share.
pub(crate) struct Documents {
    pub pool: SearchPool,
    pub contexts: Contexts,
    pub cache: RequestCache,
    /// What is held for searches of other nodes.
    pub views: Views,
}

impl Documents {
    pub(crate) fn new(options: &DocumentsOptions) -> Self {
        Self {
            pool: SearchPool::start(options.search_threads.max(1), options.search_queue),
            contexts: Contexts::default(),
            cache: RequestCache::new(options.request_cache_bytes),
            views: Views::default(),
        }
    }
}
