//! The figures of partitions added up, and put into the sections that clients read. A figure
//! that has no meaning here (a cache that is not there) is 0, because clients add them up.

use std::collections::BTreeMap;

use plimsoll_cluster::{CacheStatistics, IndexStatistics, PartitionStatistics};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

/// The sections by the name that asks for each, and the name that it has in an answer.
pub const SECTIONS: [(&str, &str); 16] = [
    ("docs", "docs"),
    ("store", "store"),
    ("indexing", "indexing"),
    ("get", "get"),
    ("search", "search"),
    ("merge", "merges"),
    ("refresh", "refresh"),
    ("flush", "flush"),
    ("warmer", "warmer"),
    ("query_cache", "query_cache"),
    ("fielddata", "fielddata"),
    ("completion", "completion"),
    ("segments", "segments"),
    ("translog", "translog"),
    ("request_cache", "request_cache"),
    ("recovery", "recovery"),
];

/// Sums over partitions.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Documents that are visible.
    pub docs: u64,
    /// Documents that are deleted and still in a segment.
    pub deleted: u64,
    /// Bytes of rows and index in files.
    pub store_bytes: u64,
    /// Bytes of rows that only the log has in files.
    pub unflushed_bytes: u64,
    /// Changes that only the log has in files; none are counted where no bytes are.
    pub indexed: u64,
    /// Searches, and how long they took, ms.
    pub queries: (u64, u64),
    /// Searches whose hits were fetched, and how long that took, ms.
    pub fetches: (u64, u64),
    /// Refreshes, and how long they took, ms.
    pub refreshes: (u64, u64),
    /// Times that the index was made durable, and how long that took, ms.
    pub flushes: (u64, u64),
    /// Merges of segments.
    pub merges: u64,
    /// Partitions that merge or index now.
    pub writing: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of the index by the kind of its files.
    pub file_bytes: BTreeMap<String, u64>,
    /// Scrolls and points in time that are open; only where they were added.
    pub contexts: (u64, u64),
    /// Views that are held for searches of other nodes; only where they were added.
    pub views: u64,
    /// The request cache; only where it was added.
    pub cache: CacheStatistics,
}

fn add(to: &mut (u64, u64), more: (u64, u64)) {
    *to = (to.0 + more.0, to.1 + more.1);
}

impl Figures {
    /// The figures of one partition.
    #[must_use]
    pub fn of_partition(partition: &PartitionStatistics) -> Self {
        let mut figures = Self::default();
        figures.add_partition(partition);
        figures
    }

    /// The sums of an index.
    #[must_use]
    pub fn of_index(index: &IndexStatistics) -> Self {
        let mut figures = Self::default();
        for partition in &index.partitions {
            figures.add_partition(partition);
        }
        figures
    }

    fn add_partition(&mut self, partition: &PartitionStatistics) {
        self.docs += partition.segments.docs;
        self.deleted += partition.segments.deleted;
        self.store_bytes += partition.store_bytes;
        self.unflushed_bytes += partition.unflushed_bytes;
        self.indexed += partition.indexed;
        add(&mut self.queries, partition.queries);
        add(&mut self.fetches, partition.fetches);
        add(&mut self.refreshes, partition.refreshes);
        add(&mut self.flushes, partition.persists);
        self.merges += partition.segments.merges;
        self.writing += u64::from(partition.segments.writing);
        self.segments += partition.segments.segments;
        for (kind, bytes) in &partition.segments.bytes {
            *self.file_bytes.entry(kind.clone()).or_default() += bytes;
        }
    }

    /// Adds the figures of another index.
    pub fn add(&mut self, other: &Self) {
        self.docs += other.docs;
        self.deleted += other.deleted;
        self.store_bytes += other.store_bytes;
        self.unflushed_bytes += other.unflushed_bytes;
        self.indexed += other.indexed;
        add(&mut self.queries, other.queries);
        add(&mut self.fetches, other.fetches);
        add(&mut self.refreshes, other.refreshes);
        add(&mut self.flushes, other.flushes);
        self.merges += other.merges;
        self.writing += other.writing;
        self.segments += other.segments;
        for (kind, bytes) in &other.file_bytes {
            *self.file_bytes.entry(kind.clone()).or_default() += bytes;
        }
    }

    /// The sections that are wanted.
    #[must_use]
    pub fn json(&self, wanted: &Wanted) -> Map<String, Value> {
        let mut all = Map::new();
        for (metric, name) in SECTIONS {
            if wanted.has(metric) {
                all.insert(name.to_owned(), self.section(metric, wanted.has_file_sizes));
            }
        }
        all
    }

    fn section(&self, metric: &str, has_file_sizes: bool) -> Value {
        match metric {
            "docs" => json!({ "count": self.docs, "deleted": self.deleted }),
            "store" => json!({ "size_in_bytes": self.store_bytes, "reserved_in_bytes": 0 }),
            "indexing" => self.indexing(),
            "get" => get(),
            "search" => self.search(),
            "merge" => self.merge(),
            "refresh" => json!({
                "total": self.refreshes.0,
                "total_time_in_millis": self.refreshes.1,
                "external_total": self.refreshes.0,
                "external_total_time_in_millis": self.refreshes.1,
                "listeners": 0,
            }),
            "flush" => json!({
                "total": self.flushes.0,
                "periodic": 0,
                "total_time_in_millis": self.flushes.1,
            }),
            "warmer" => json!({ "current": 0, "total": 0, "total_time_in_millis": 0 }),
            "query_cache" => json!({
                "memory_size_in_bytes": 0,
                "total_count": 0,
                "hit_count": 0,
                "miss_count": 0,
                "cache_size": 0,
                "cache_count": 0,
                "evictions": 0,
            }),
            "fielddata" => json!({ "memory_size_in_bytes": 0, "evictions": 0 }),
            "completion" => json!({ "size_in_bytes": 0 }),
            "segments" => self.segments(has_file_sizes),
            "translog" => json!({
                "operations": 0,
                "size_in_bytes": self.unflushed_bytes,
                "uncommitted_operations": 0,
                "uncommitted_size_in_bytes": self.unflushed_bytes,
                "earliest_last_modified_age": 0,
            }),
            "request_cache" => json!({
                "memory_size_in_bytes": self.cache.bytes,
                "evictions": 0,
                "hit_count": self.cache.hits,
                "miss_count": self.cache.misses,
            }),
            _ => json!({
                "current_as_source": 0,
                "current_as_target": 0,
                "throttle_time_in_millis": 0,
            }),
        }
    }

    fn indexing(&self) -> Value {
        json!({
            "index_total": self.indexed,
            "index_time_in_millis": self.refreshes.1,
            "index_current": 0,
            "index_failed": 0,
            "delete_total": 0,
            "delete_time_in_millis": 0,
            "delete_current": 0,
            "noop_update_total": 0,
            "is_throttled": false,
            "throttle_time_in_millis": 0,
        })
    }

    fn search(&self) -> Value {
        let (scrolls, points) = self.contexts;
        json!({
            "open_contexts": scrolls + points + self.views,
            "query_total": self.queries.0,
            "query_time_in_millis": self.queries.1,
            "query_current": 0,
            "concurrent_query_total": 0,
            "concurrent_query_time_in_millis": 0,
            "concurrent_query_current": 0,
            "concurrent_avg_slice_count": 0.0,
            "fetch_total": self.fetches.0,
            "fetch_time_in_millis": self.fetches.1,
            "fetch_current": 0,
            "scroll_total": 0,
            "scroll_time_in_millis": 0,
            "scroll_current": scrolls,
            "point_in_time_total": 0,
            "point_in_time_time_in_millis": 0,
            "point_in_time_current": points,
            "suggest_total": 0,
            "suggest_time_in_millis": 0,
            "suggest_current": 0,
        })
    }

    fn merge(&self) -> Value {
        json!({
            "current": self.writing,
            "current_docs": 0,
            "current_size_in_bytes": 0,
            "total": self.merges,
            "total_time_in_millis": 0,
            "total_docs": 0,
            "total_size_in_bytes": 0,
            "total_stopped_time_in_millis": 0,
            "total_throttled_time_in_millis": 0,
            "total_auto_throttle_in_bytes": 0,
        })
    }

    /// Files are mapped, so segments hold no memory of their own.
    fn segments(&self, has_file_sizes: bool) -> Value {
        let mut file_sizes = Map::new();
        if has_file_sizes {
            for (kind, bytes) in &self.file_bytes {
                let entry = json!({ "size_in_bytes": bytes, "description": kind });
                file_sizes.insert(kind.clone(), entry);
            }
        }
        json!({
            "count": self.segments,
            "memory_in_bytes": 0,
            "terms_memory_in_bytes": 0,
            "stored_fields_memory_in_bytes": 0,
            "term_vectors_memory_in_bytes": 0,
            "norms_memory_in_bytes": 0,
            "points_memory_in_bytes": 0,
            "doc_values_memory_in_bytes": 0,
            "index_writer_memory_in_bytes": 0,
            "version_map_memory_in_bytes": 0,
            "fixed_bit_set_memory_in_bytes": 0,
            "max_unsafe_auto_id_timestamp": -1,
            "file_sizes": file_sizes,
        })
    }
}

/// Reads of documents go by their key to rows, which count no index.
fn get() -> Value {
    json!({
        "total": 0,
        "getTime": "0s",
        "time_in_millis": 0,
        "exists_total": 0,
        "exists_time_in_millis": 0,
        "missing_total": 0,
        "missing_time_in_millis": 0,
        "current": 0,
    })
}

/// Which sections a request wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// By the names that ask for them; none for all.
    metrics: Option<Vec<String>>,
    /// Whether segments tell the sizes of their files.
    pub has_file_sizes: bool,
}

impl Wanted {
    /// All sections.
    #[must_use]
    pub fn all() -> Self {
        Self { metrics: None, has_file_sizes: false }
    }

    /// The sections that a list between commas names.
    ///
    /// # Errors
    /// 400 for a name that none has; `path` is the request's.
    pub fn parse(list: Option<&str>, path: &str) -> Result<Self, Error> {
        let Some(list) = list else { return Ok(Self::all()) };
        let names: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
        let is_all = |name: &String| name == "_all" || name == "*";
        if names.iter().any(is_all) {
            if names.len() > 1 {
                return Err(Error::illegal_argument(format!(
                    "request [{path}] contains _all and individual metrics [{list}]"
                )));
            }
            return Ok(Self::all());
        }
        let known =
            |name: &str| name == "suggest" || SECTIONS.iter().any(|(known, _)| *known == name);
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            return Err(Error::illegal_argument(format!(
                "request [{path}] contains unrecognized metric: [{unknown}]"
            )));
        }
        Ok(Self { metrics: Some(names), has_file_sizes: false })
    }

    /// Whether this section is wanted. What once was `suggest` is part of `search`.
    #[must_use]
    pub fn has(&self, metric: &str) -> bool {
        let is = |name: &String| name == metric || (name == "suggest" && metric == "search");
        self.metrics.as_ref().is_none_or(|metrics| metrics.iter().any(is))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_those_that_were_asked_for() {
        let figures = Figures { docs: 3, ..Figures::default() };
        let names = |list: Option<&str>| {
            let wanted = Wanted::parse(list, "/_stats").unwrap();
            figures.json(&wanted).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(",")
        };
        assert_eq!(names(Some("docs,merge")), "docs,merges");
        assert_eq!(names(Some("suggest")), "search");
        assert_eq!(names(None), names(Some("_all")));
        let refused = Wanted::parse(Some("bogus"), "/_stats/bogus").unwrap_err();
        assert_eq!(refused.reason, "request [/_stats/bogus] contains unrecognized metric: [bogus]");
        assert_eq!(figures.json(&Wanted::all())["docs"]["count"], 3);
    }
}
