//! Every setting that an index may have: its name, what it takes and when it may change.
//!
//! Those that tune Lucene's or Elasticsearch's own machinery are kept and answered, because
//! templates and tracks carry them; there is nothing here that they would tune.

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number in a range, both ends included.
    Count(i64, i64),
    /// `true` or `false`
    Toggle,
    /// `30s`, or -1 for never.
    Time,
    /// Anything.
    Any,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// When a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At any time.
    Dynamic,
    /// When the index is created, or while it is closed.
    Static,
    /// When the index is created.
    Final,
    /// Never: the node sets it.
    Private,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name; `*` at its end stands for anything.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// When it may change.
    pub scope: Scope,
}

const fn define(name: &'static str, kind: Kind, scope: Scope) -> Definition {
    Definition { name, kind, scope }
}

use Kind::{Any, Choice, Count, Time, Toggle};
use Scope::{Dynamic, Final, Private, Static};

const LARGE: i64 = i32::MAX as i64;

/// All of them.
pub const INDEX_SETTINGS: &[Definition] = &[
    define("index.number_of_shards", Count(1, 1024), Final),
    define("index.number_of_routing_shards", Count(1, LARGE), Final),
    define("index.routing_partition_size", Count(1, 1), Final),
    define("index.number_of_replicas", Count(0, 1000), Dynamic),
    define("index.auto_expand_replicas", Any, Dynamic),
    define("index.refresh_interval", Time, Dynamic),
    define("index.hidden", Toggle, Dynamic),
    define("index.max_result_window", Count(1, LARGE), Dynamic),
    define("index.max_inner_result_window", Count(1, LARGE), Dynamic),
    define("index.max_rescore_window", Count(1, LARGE), Dynamic),
    define("index.max_docvalue_fields_search", Count(0, LARGE), Dynamic),
    define("index.max_script_fields", Count(0, LARGE), Dynamic),
    define("index.max_terms_count", Count(1, LARGE), Dynamic),
    define("index.max_ngram_diff", Count(0, LARGE), Dynamic),
    define("index.max_shingle_diff", Count(0, LARGE), Dynamic),
    define("index.max_regex_length", Count(1, LARGE), Dynamic),
    define("index.max_slices_per_scroll", Count(1, LARGE), Dynamic),
    define("index.max_refresh_listeners", Count(0, LARGE), Dynamic),
    define("index.max_adjacency_matrix_filters", Count(1, LARGE), Dynamic),
    define("index.highlight.max_analyzed_offset", Count(1, LARGE), Dynamic),
    define("index.analyze.max_token_count", Count(1, LARGE), Dynamic),
    define("index.query.default_field", Any, Dynamic),
    define("index.query.parse.allow_unmapped_fields", Toggle, Static),
    define("index.query_string.lenient", Toggle, Static),
    define("index.blocks.read_only", Toggle, Dynamic),
    define("index.blocks.read_only_allow_delete", Toggle, Dynamic),
    define("index.blocks.read", Toggle, Dynamic),
    define("index.blocks.write", Toggle, Dynamic),
    define("index.blocks.metadata", Toggle, Dynamic),
    define("index.mapping.total_fields.limit", Count(0, LARGE), Dynamic),
    define("index.mapping.depth.limit", Count(1, LARGE), Dynamic),
    define("index.mapping.nested_fields.limit", Count(0, LARGE), Dynamic),
    define("index.mapping.nested_objects.limit", Count(0, LARGE), Dynamic),
    define("index.mapping.field_name_length.limit", Count(1, LARGE), Dynamic),
    define("index.mapping.dimension_fields.limit", Count(0, LARGE), Dynamic),
    define("index.analysis.*", Any, Static),
    define("index.requests.cache.enable", Toggle, Dynamic),
    define("index.queries.cache.enabled", Toggle, Static),
    define("index.queries.cache.everything", Toggle, Static),
    define("index.codec", Any, Static),
    define("index.codec.*", Any, Static),
    define("index.store.*", Any, Static),
    define("index.replication.type", Choice(&["DOCUMENT", "document"]), Static),
    define("index.shard.check_on_startup", Any, Static),
    define("index.translog.durability", Choice(&["request", "REQUEST", "async", "ASYNC"]), Dynamic),
    define("index.translog.sync_interval", Time, Dynamic),
    define("index.translog.*", Any, Dynamic),
    define("index.flush_after_merge", Any, Dynamic),
    define("index.merge.*", Any, Dynamic),
    define("index.gc_deletes", Time, Dynamic),
    define("index.soft_deletes.*", Any, Static),
    define("index.warmer.enabled", Toggle, Dynamic),
    define("index.priority", Count(0, LARGE), Dynamic),
    define("index.routing.allocation.*", Any, Dynamic),
    define("index.routing.rebalance.*", Any, Dynamic),
    define("index.allocation.*", Any, Dynamic),
    define("index.unassigned.node_left.delayed_timeout", Time, Dynamic),
    define("index.write.wait_for_active_shards", Any, Dynamic),
    define("index.search.idle.after", Time, Dynamic),
    define("index.search.slowlog.*", Any, Dynamic),
    define("index.search.throttled", Choice(&["false"]), Dynamic),
    define("index.indexing.slowlog.*", Any, Dynamic),
    define("index.default_pipeline", Choice(&["_none"]), Dynamic),
    define("index.final_pipeline", Choice(&["_none"]), Dynamic),
    define("index.uuid", Any, Private),
    define("index.creation_date", Any, Private),
    define("index.provided_name", Any, Private),
    define("index.version.*", Any, Private),
];

/// The setting of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Definition> {
    INDEX_SETTINGS.iter().find(|definition| match definition.name.strip_suffix('*') {
        Some(group) => name.len() > group.len() && name.starts_with(group),
        None => definition.name == name,
    })
}
