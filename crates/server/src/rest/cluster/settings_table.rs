//! The settings that the cluster takes while it runs.

use crate::remote::clusters::settings as remote;

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Toggle,
    /// A whole number from here on.
    Count(i64),
    /// A time such as `30s`.
    Time,
    /// Bytes such as `40mb`, or a part such as `85%`.
    Amount,
    /// A number with a fraction, from 0.
    Factor,
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// What the controllers take ([`plimsoll_cluster::WorkSettings`]).
    Work,
    /// What the cluster takes ([`plimsoll_cluster::check_cluster_setting`]).
    Cluster,
    /// What a remote cluster takes ([`crate::remote::clusters::settings`]).
    Remote,
}

/// One setting: name (a `*` at the end stands for more names), values, default.
pub type Definition = (&'static str, Kind, &'static str);

/// Settings by name. Those of the controllers and breakers are taken on by all nodes at once, and so
/// are `cluster.default_number_of_replicas` and `cluster.routing.allocation.(exclude|include|require)`.
/// What takes one word only says what holds anyway; a setting that nobody reads is not here.
pub const SETTINGS: &[Definition] = &[
    ("action.auto_create_index", Kind::Text, "true"),
    ("action.destructive_requires_name", Kind::Toggle, "false"),
    ("ccr.indices.recovery.chunk_size", Kind::Cluster, ""),
    ("ccr.indices.recovery.max_bytes_per_sec", Kind::Cluster, ""),
    ("ccr.indices.recovery.max_concurrent_chunks_per_file", Kind::Cluster, ""),
    ("ccr.indices.recovery.max_concurrent_file_chunks", Kind::Cluster, ""),
    ("ccr.pacing", Kind::Cluster, "on"),
    ("ccr.retention.max_bytes", Kind::Cluster, "4gb"),
    ("cluster.default_node_left_delayed_timeout", Kind::Cluster, "60s"),
    ("cluster.default_number_of_replicas", Kind::Count(0), "1"),
    ("cluster.max_shards_per_node", Kind::Cluster, "1000"),
    ("cluster.remote.*", Kind::Remote, ""),
    ("cluster.routing.allocation.awareness.attributes", Kind::Word(&["zone"]), "zone"),
    ("cluster.routing.allocation.disk.threshold_enabled", Kind::Word(&["false"]), "false"),
    ("cluster.routing.allocation.enable", Kind::Word(&["all"]), "all"),
    ("cluster.routing.allocation.exclude._host", Kind::Text, ""),
    ("cluster.routing.allocation.exclude._ip", Kind::Text, ""),
    ("cluster.routing.allocation.exclude._name", Kind::Text, ""),
    ("cluster.routing.allocation.exclude.zone", Kind::Text, ""),
    ("cluster.routing.allocation.include._host", Kind::Text, ""),
    ("cluster.routing.allocation.include._ip", Kind::Text, ""),
    ("cluster.routing.allocation.include._name", Kind::Text, ""),
    ("cluster.routing.allocation.include.zone", Kind::Text, ""),
    ("cluster.routing.allocation.require._host", Kind::Text, ""),
    ("cluster.routing.allocation.require._ip", Kind::Text, ""),
    ("cluster.routing.allocation.require._name", Kind::Text, ""),
    ("cluster.routing.allocation.require.zone", Kind::Text, ""),
    ("cluster.routing.allocation.same_shard.host", Kind::Word(&["false"]), "false"),
    ("cluster.routing.allocation.total_shards_per_node", Kind::Word(&["-1"]), "-1"),
    ("cluster.routing.hedging", Kind::Work, "off"),
    ("cluster.routing.rebalance.enable", Kind::Word(&["all"]), "all"),
    ("cluster.routing.replica_selection", Kind::Work, "load_aware"),
    ("cluster.routing.replica_selection_shadow", Kind::Work, ""),
    ("cluster.routing.use_adaptive_replica_selection", Kind::Toggle, "true"),
    ("cluster.version.raise", Kind::Cluster, "auto"),
    ("compaction.pacing", Kind::Cluster, "load_aware"),
    ("indices.breaker.accounting.limit", Kind::Amount, "100%"),
    ("indices.breaker.accounting.overhead", Kind::Factor, "1.0"),
    ("indices.breaker.fielddata.limit", Kind::Amount, "40%"),
    ("indices.breaker.fielddata.overhead", Kind::Factor, "1.03"),
    ("indices.breaker.request.limit", Kind::Amount, "60%"),
    ("indices.breaker.request.overhead", Kind::Factor, "1.0"),
    ("indices.breaker.request.type", Kind::Word(&["memory", "noop", "drawn"]), "memory"),
    ("indices.breaker.total.limit", Kind::Amount, "95%"),
    ("indices.check.interval", Kind::Cluster, "10m"),
    ("log.flush_interval", Kind::Cluster, "60s"),
    ("log.retention.max_bytes", Kind::Cluster, "4gb"),
    ("network.breaker.inflight_requests.limit", Kind::Amount, "1gb"),
    ("network.breaker.inflight_requests.overhead", Kind::Factor, "2.0"),
    ("search.default_allow_partial_results", Kind::Word(&["true"]), "true"),
    ("search.default_keep_alive", Kind::Word(&["5m"]), "5m"),
    ("search.max_keep_alive", Kind::Word(&["24h"]), "24h"),
    ("search.max_open_scroll_context", Kind::Word(&["500"]), "500"),
    ("thread_pool.search.admission", Kind::Work, "load_aware"),
    ("thread_pool.search.admission_shadow", Kind::Work, ""),
    ("thread_pool.search.auto_queue_frame_size", Kind::Work, "2000"),
    ("thread_pool.search.max_queue_size", Kind::Work, "1000"),
    ("thread_pool.search.min_queue_size", Kind::Work, "10"),
    ("thread_pool.search.queue_size", Kind::Work, "1000"),
    ("thread_pool.search.size", Kind::Work, "0"),
    ("thread_pool.search.target_response_time", Kind::Work, "1s"),
];

/// The setting of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Definition> {
    SETTINGS.iter().find(|(known, kind, _)| match known.strip_suffix('*') {
        Some(_) if *kind == Kind::Remote => remote::is_known(name),
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => *known == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who reads settings by their names.
    const READERS: [&str; 7] = [
        "cluster/src/settings/cluster.rs",
        "cluster/src/routing/changes.rs",
        "cluster/src/settings/work.rs",
        "server/src/remote/clusters/settings.rs",
        "server/src/rest/admin/create.rs",
        "server/src/rest/admin/delete.rs",
        "server/src/rest/cluster/breakers.rs",
    ];
    /// Who reads those that begin so, by kind and attribute.
    const FILTER: (&str, &str) =
        ("cluster/src/metadata/placement/filter.rs", "cluster.routing.allocation.");

    /// A file of the crates, without its tests.
    fn code(path: &str) -> String {
        let crates =
            std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("..");
        let text = std::fs::read_to_string(crates.join(path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
    }

    /// Whether someone reads the setting of this name, and no other that begins alike.
    fn is_read(name: &str) -> bool {
        let has = |path: &str, word: &str| code(path).contains(&format!("\"{word}\""));
        let (filter, prefix) = FILTER;
        match name.strip_prefix(prefix).and_then(|rest| rest.split_once('.')) {
            Some((kind, attribute)) => [prefix, kind, attribute].iter().all(|it| has(filter, it)),
            None => READERS.iter().any(|path| has(path, name)),
        }
    }

    #[test]
    fn those_of_the_cluster_are_all_here_with_their_defaults() {
        let mut own: Vec<_> = plimsoll_cluster::CLUSTER_SETTINGS.to_vec();
        own.sort_unstable();
        let here = SETTINGS.iter().filter(|(_, kind, _)| *kind == Kind::Cluster);
        assert_eq!(here.map(|(name, _, default)| (*name, *default)).collect::<Vec<_>>(), own);
    }

    #[test]
    fn every_setting_that_is_taken_has_a_reader() {
        for (name, kind, default) in SETTINGS {
            if let Kind::Word([only]) = kind {
                assert_eq!(only, default, "{name}");
            } else {
                assert!(is_read(name), "nobody reads {name}");
            }
        }
    }

    #[test]
    fn a_name_that_only_begins_alike_has_no_reader() {
        for name in [
            "cluster.routing.allocation.x",
            "cluster.routing.allocation.exclude",
            "cluster.routing.allocation.exclude.rack",
            "cluster.routing.allocation.prefer._name",
            "cluster.routing.replica_selection_x",
            "indices.breaker.x",
            "indices.breaker.request",
            "network.breaker.inflight_requests.x",
            "thread_pool.search.x",
            "thread_pool.write.size",
        ] {
            assert!(!is_read(name), "{name}");
        }
    }
}
