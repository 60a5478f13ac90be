//! The request cache: what a partition answered to a request, for as long as its view is the
//! same. Bounded in bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_index::search::{PartitionResult, SearchRequest};
use plimsoll_memory::{ledger::REQUEST_CACHE, local::enter};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::{Map, Value};

use super::options::SearchOptions;
use super::parts::Local;

/// What an entry takes beside its answer, bytes, about.
const ENTRY_OVERHEAD_BYTES: u64 = 200;

/// What an answer belongs to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    table: u64,
    ordinal: u32,
    position: u64,
    mapping_version: u64,
    request: Box<[u8]>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, (PartitionResult, u64)> for ByBytes {
    fn weight(&self, key: &Key, (_, bytes): &(PartitionResult, u64)) -> u64 {
        ENTRY_OVERHEAD_BYTES + key.request.len() as u64 + bytes
    }
}

/// The cache of a node.
pub(crate) struct RequestCache {
    entries: Cache<Key, (PartitionResult, u64), ByBytes>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Whether an index' searches are cached where they do not say.
fn is_on(settings: &Map<String, Value>) -> bool {
    match settings.get("index.requests.cache.enable") {
        Some(Value::Bool(is_on)) => *is_on,
        Some(Value::String(text)) => text != "false",
        _ => true,
    }
}

/// What the request cache holds and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Bytes held, about.
    pub bytes: u64,
    /// Requests answered from it.
    pub hits: u64,
    /// Requests that it could have answered and did not.
    pub misses: u64,
}

impl RequestCache {
    /// Holds at most `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Self {
        // Answers without hits take some kilobytes.
        let expected = usize::try_from(bytes_max / 4096).unwrap_or(usize::MAX).max(16);
        let entries = Cache::with_weighter(expected, bytes_max, ByBytes);
        Self { entries, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// What an answer is kept under; `None` where it must not be: it would have hits, or it
    /// depends on the time or on chance, or the request or the index said so.
    pub(crate) fn key(
        &self,
        part: &Local,
        request: &SearchRequest,
        options: &SearchOptions,
    ) -> Option<Key> {
        let is_on = options.request_cache.unwrap_or_else(|| is_on(&part.index.settings));
        if !is_on || request.size() > 0 || options.context.is_some() || options.scroll.is_some() {
            return None;
        }
        let body = request.text();
        if body.contains("now") || body.contains("random") {
            return None;
        }
        Some(Key {
            table: part.partition.id.table,
            ordinal: part.partition.id.ordinal,
            position: part.view.position.0,
            mapping_version: part.index.mapping_version,
            request: body.as_bytes().into(),
        })
    }

    pub(crate) fn get(&self, key: &Key) -> Option<PartitionResult> {
        let found = self.entries.get(key).map(|(answer, _)| answer);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub(crate) fn put(&self, key: &Key, answer: &PartitionResult) {
        // Its size as JSON is near enough to its size in memory, and is the same everywhere.
        let bytes = serde_json::to_vec(answer).map_or(0, |json| json.len() as u64);
        // What is kept is the cache's own, down to the key.
        let _kept = enter(&REQUEST_CACHE);
        self.entries.insert(key.clone(), (answer.clone(), bytes));
    }

    pub(crate) fn clear(&self) {
        self.entries.clear();
    }

    pub(crate) fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            bytes: self.entries.weight(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}
