//! The service: what clients ask of documents goes through it, and what the searches of a node share.

use std::sync::Arc;

use plimsoll_base::random::Draws;
use plimsoll_base::{Time, World};

use super::cache::RequestCache;
use super::contexts::Contexts;
use super::costs::Costs;
use super::pool::SearchPool;
use super::requests::Requests;
use super::views::Views;
use crate::routing::Router;
use crate::routing::changes::TableChanges;
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

/// What clients ask of documents.
pub struct Documents {
    pub(crate) router: Arc<Router>,
    pub(crate) changes: Arc<TableChanges>,
    pub(crate) searching: Arc<Searching>,
}

/// What the searches of a node share.
pub(crate) struct Searching {
    pub time: Time,
    /// Names of views, and ranks of requests.
    pub draws: Draws,
    pub pool: Arc<SearchPool>,
    pub contexts: Contexts,
    pub costs: Arc<Costs>,
    pub cache: RequestCache,
    /// What is held for searches of other nodes.
    pub views: Views,
    /// What other nodes asked for lately.
    pub requests: Requests,
}

impl Searching {
    pub(crate) fn new(
        options: &DocumentsOptions,
        search: PoolSettings,
        boot: u64,
        world: &World,
    ) -> Self {
        Self {
            time: world.time.clone(),
            draws: world.random.draws("searches"),
            pool: Arc::new(SearchPool::start(search, boot, world)),
            contexts: Contexts::new(&world.time),
            costs: Arc::new(Costs::new()),
            cache: RequestCache::new(options.request_cache_bytes),
            views: Views::new(&world.time),
            requests: Requests::new(),
        }
    }
}
