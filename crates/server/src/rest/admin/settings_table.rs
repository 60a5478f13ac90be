//! Every setting that an index may have: its name, what it takes, when it may change, and who
//! reads it.
//!
//! A setting is here for one of three reasons. Code reads it ([`Reader::At`]; a test looks there).
//! Or it takes only what holds anyway ([`Reader::Holds`]): a client that says so is right, and any
//! other value than Elasticsearch's default is refused. Or it tunes machinery of Lucene's that does
//! not exist here ([`Reader::Tunes`]), so that no answer and no promise depends on it, and templates
//! of Logstash, Kibana, Rally and others carry it by habit. Anything else is refused by name: a
//! setting that is taken and does nothing is worse than none.

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

/// Who reads a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// This file of the repository.
    At(&'static str),
    /// Nobody: it takes only what is so.
    Holds,
    /// Nobody: what it would tune is not there.
    Tunes,
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
    /// Who reads it.
    pub reader: Reader,
}

const fn read(name: &'static str, kind: Kind, scope: Scope, path: &'static str) -> Definition {
    Definition { name, kind, scope, reader: Reader::At(path) }
}

const fn holds(name: &'static str, values: &'static [&'static str], scope: Scope) -> Definition {
    Definition { name, kind: Choice(values), scope, reader: Reader::Holds }
}

const fn tunes(name: &'static str, kind: Kind, scope: Scope) -> Definition {
    Definition { name, kind, scope, reader: Reader::Tunes }
}

/// What the node says of an index and nobody may set.
const fn private(name: &'static str) -> Definition {
    Definition { name, kind: Any, scope: Private, reader: Reader::Holds }
}

use Kind::{Any, Choice, Count, Time, Toggle};
use Scope::{Dynamic, Final, Private, Static};

const LARGE: i64 = i32::MAX as i64;

const CACHE: &str = "crates/cluster/src/documents/cache.rs";
const DEFAULT_EXPIRY: &str = "crates/cluster/src/metadata/default_expiry.rs";
const CATALOG: &str = "crates/cluster/src/documents/catalog.rs";
const INDEX: &str = "crates/cluster/src/metadata/index.rs";
const REFRESHER: &str = "crates/cluster/src/documents/refresher.rs";
const REGISTRY: &str = "crates/index/src/analysis/registry.rs";
const MAPPING: &str = "crates/index/src/mapping/mod.rs";
const ANALYZE: &str = "crates/server/src/rest/admin/analyze.rs";
const PLACE: &str = "crates/server/src/rest/documents/target.rs";
const EXPAND: &str = "crates/server/src/rest/expressions/expand.rs";
const REQUEST: &str = "crates/server/src/rest/search/request.rs";

/// All of them.
pub const INDEX_SETTINGS: &[Definition] = &[
    read("index.number_of_shards", Count(1, 1024), Final, CATALOG),
    // An index cannot be split, which is what this prepares.
    tunes("index.number_of_routing_shards", Count(1, LARGE), Final),
    holds("index.routing_partition_size", &["1"], Final),
    read("index.number_of_replicas", Count(0, 1000), Dynamic, INDEX),
    // The default number of copies is one beyond the first as soon as there are two nodes.
    holds("index.auto_expand_replicas", &["false", "0-1"], Dynamic),
    read("index.default_ttl", Time, Dynamic, DEFAULT_EXPIRY),
    read("index.refresh_interval", Time, Dynamic, REFRESHER),
    read("index.hidden", Toggle, Dynamic, EXPAND),
    read("index.max_result_window", Count(1, LARGE), Dynamic, REQUEST),
    read("index.analyze.max_token_count", Count(1, 1_000_000), Dynamic, ANALYZE),
    read("index.blocks.read_only", Toggle, Dynamic, PLACE),
    read("index.blocks.read_only_allow_delete", Toggle, Dynamic, PLACE),
    read("index.blocks.write", Toggle, Dynamic, PLACE),
    read("index.mapping.total_fields.limit", Count(1, 10_000), Dynamic, MAPPING),
    read("index.analysis.*", Any, Static, REGISTRY),
    read("index.requests.cache.enable", Toggle, Dynamic, CACHE),
    read("index.unassigned.node_left.delayed_timeout", Time, Dynamic, INDEX),
    // Limits that are those of Elasticsearch, and cannot be others.
    holds("index.max_inner_result_window", &["100"], Dynamic),
    holds("index.max_rescore_window", &["10000"], Dynamic),
    holds("index.max_docvalue_fields_search", &["100"], Dynamic),
    holds("index.max_script_fields", &["32"], Dynamic),
    holds("index.max_terms_count", &["65536"], Dynamic),
    holds("index.max_ngram_diff", &["1"], Dynamic),
    holds("index.max_shingle_diff", &["3"], Dynamic),
    holds("index.max_regex_length", &["1000"], Dynamic),
    holds("index.highlight.max_analyzed_offset", &["1000000"], Dynamic),
    holds("index.mapping.depth.limit", &["20"], Dynamic),
    holds("index.mapping.nested_fields.limit", &["50"], Dynamic),
    holds("index.mapping.nested_objects.limit", &["10000"], Dynamic),
    // What a query looks at that names no field.
    holds("index.query.default_field", &["*", "[\"*\"]"], Dynamic),
    holds("index.query.parse.allow_unmapped_fields", &["true"], Static),
    holds("index.query_string.lenient", &["false"], Static),
    holds("index.blocks.read", &["false"], Dynamic),
    holds("index.blocks.metadata", &["false"], Dynamic),
    holds("index.replication.type", &["DOCUMENT", "document"], Static),
    holds("index.shard.check_on_startup", &["false"], Static),
    holds("index.routing.allocation.enable", &["all"], Dynamic),
    holds("index.routing.rebalance.enable", &["all"], Dynamic),
    holds("index.routing.allocation.total_shards_per_node", &["-1"], Dynamic),
    holds("index.write.wait_for_active_shards", &["1"], Dynamic),
    holds("index.search.throttled", &["false"], Dynamic),
    holds("index.default_pipeline", &["_none"], Dynamic),
    holds("index.final_pipeline", &["_none"], Dynamic),
    holds("index.search.slowlog.*", &["-1"], Dynamic),
    holds("index.indexing.slowlog.*", &["-1"], Dynamic),
    // There are no tiers of nodes: all data is content.
    holds("index.routing.allocation.include._tier_preference", &["data_content"], Dynamic),
    // Lucene's caches, files and merges.
    tunes("index.queries.cache.enabled", Toggle, Static),
    tunes("index.queries.cache.everything", Toggle, Static),
    tunes("index.codec", Any, Static),
    tunes("index.codec.*", Any, Static),
    tunes("index.store.type", Any, Static),
    tunes("index.store.preload", Any, Static),
    tunes("index.merge.*", Any, Dynamic),
    tunes("index.flush_after_merge", Any, Dynamic),
    tunes("index.soft_deletes.*", Any, Static),
    tunes("index.warmer.enabled", Toggle, Dynamic),
    // How durable writes are is the log's, for all indices: `log.durability`, by default as durable
    // as the stronger of these.
    tunes("index.translog.durability", Choice(&["request", "REQUEST", "async", "ASYNC"]), Dynamic),
    tunes("index.translog.sync_interval", Time, Dynamic),
    tunes("index.translog.*", Any, Dynamic),
    // Life-cycle policies give every index one; copies are made as they come.
    tunes("index.priority", Count(0, LARGE), Dynamic),
    // How long deletions are remembered, how often a copy is tried, when an idle index may be stale:
    // Elasticsearch's defaults, and nothing is bounded by others.
    holds("index.gc_deletes", &["60s"], Dynamic),
    holds("index.allocation.max_retries", &["5"], Dynamic),
    holds("index.search.idle.after", &["30s"], Dynamic),
    holds("index.max_refresh_listeners", &["1000"], Dynamic),
    private("index.uuid"),
    private("index.creation_date"),
    private("index.provided_name"),
    private("index.version.*"),
];

/// The setting of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Definition> {
    INDEX_SETTINGS.iter().find(|definition| match definition.name.strip_suffix('*') {
        Some(group) => name.len() > group.len() && name.starts_with(group),
        None => definition.name == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that are taken and that nobody reads. One more is a promise that nobody keeps, unless it
    /// is of how Lucene stores, caches and merges, or asks for less durable writes than are given.
    const TUNES: [&str; 15] = [
        "index.number_of_routing_shards",
        "index.queries.cache.enabled",
        "index.queries.cache.everything",
        "index.codec",
        "index.codec.*",
        "index.store.type",
        "index.store.preload",
        "index.merge.*",
        "index.flush_after_merge",
        "index.soft_deletes.*",
        "index.warmer.enabled",
        "index.translog.durability",
        "index.translog.sync_interval",
        "index.translog.*",
        "index.priority",
    ];

    #[test]
    fn nothing_else_is_taken_that_nobody_reads() {
        let tunes = INDEX_SETTINGS.iter().filter(|it| it.reader == Reader::Tunes);
        assert_eq!(tunes.map(|it| it.name).collect::<Vec<_>>(), TUNES);
    }

    /// Whether a file of the repository names a setting, or the group that it belongs to.
    #[test]
    fn every_setting_that_is_taken_has_a_reader() {
        let root =
            std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
        for definition in INDEX_SETTINGS {
            match definition.reader {
                Reader::At(path) => {
                    let text = std::fs::read_to_string(root.join(path)).unwrap();
                    let (code, _) =
                        text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
                    let quoted = match definition.name.strip_suffix(".*") {
                        Some(group) => format!("\"{group}"),
                        None => format!("\"{}\"", definition.name),
                    };
                    assert!(code.contains(&quoted), "{path} does not read {}", definition.name);
                }
                Reader::Holds => {
                    let is_one = matches!(definition.kind, Choice(values) if !values.is_empty());
                    assert!(is_one || definition.scope == Private, "{}", definition.name);
                }
                Reader::Tunes => {}
            }
        }
    }

    #[test]
    fn what_would_do_nothing_is_not_there() {
        for name in [
            "index.routing.allocation.exclude._name",
            "index.max_slices_per_scroll",
            "index.store.snapshot.cache",
            "index.mapping.dimension_fields.limit",
        ] {
            assert!(find(name).is_none(), "{name}");
        }
    }
}
