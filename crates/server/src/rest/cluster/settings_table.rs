//! The settings that the cluster takes while it runs.

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
}

/// One setting: name (a `*` at the end stands for more names), values, default.
pub type Definition = (&'static str, Kind, &'static str);

/// Settings by name. Those of the controllers and breakers are taken on by all nodes at once, and so
/// are `cluster.default_number_of_replicas` and `cluster.routing.allocation.(exclude|include|require)`.
/// What takes one word only says what holds anyway; a setting that nobody reads is not here.
pub const SETTINGS: &[Definition] = &[
    ("action.auto_create_index", Kind::Text, "true"),
    ("action.destructive_requires_name", Kind::Toggle, "false"),
    ("cluster.default_node_left_delayed_timeout", Kind::Cluster, "60s"),
    ("cluster.default_number_of_replicas", Kind::Count(0), "1"),
    ("cluster.max_shards_per_node", Kind::Cluster, "1000"),
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
    ("cluster.routing.replica_selection", Kind::Work, "ours"),
    ("cluster.routing.replica_selection_shadow", Kind::Work, ""),
    ("cluster.routing.use_adaptive_replica_selection", Kind::Toggle, "true"),
    ("cluster.version.raise", Kind::Cluster, "auto"),
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
    ("thread_pool.search.admission", Kind::Work, "ours"),
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
    SETTINGS.iter().find(|(known, ..)| match known.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => *known == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who reads settings, by how their names begin.
    const READERS: [(&str, &str); 16] = [
        ("action.auto_create_index", "server/src/rest/admin/create.rs"),
        ("action.destructive_requires_name", "server/src/rest/admin/delete.rs"),
        ("cluster.default_number_of_replicas", "cluster/src/creation.rs"),
        ("cluster.default_node_left_delayed_timeout", "cluster/src/cluster_settings.rs"),
        ("cluster.max_shards_per_node", "cluster/src/cluster_settings.rs"),
        ("cluster.version.raise", "cluster/src/cluster_settings.rs"),
        ("indices.check.interval", "cluster/src/cluster_settings.rs"),
        ("log.flush_interval", "cluster/src/cluster_settings.rs"),
        ("log.retention.max_bytes", "cluster/src/cluster_settings.rs"),
        ("cluster.routing.allocation.", "cluster/src/placement/filter.rs"),
        ("cluster.routing.hedging", "cluster/src/work_settings.rs"),
        ("cluster.routing.replica_selection", "cluster/src/work_settings.rs"),
        ("cluster.routing.use_adaptive_replica_selection", "cluster/src/work_settings.rs"),
        ("indices.breaker.", "server/src/rest/cluster/breakers.rs"),
        ("network.breaker.", "server/src/rest/cluster/breakers.rs"),
        ("thread_pool.search.", "cluster/src/work_settings.rs"),
    ];

    #[test]
    fn those_of_the_cluster_are_all_here_with_their_defaults() {
        let mut own: Vec<_> = plimsoll_cluster::CLUSTER_SETTINGS.to_vec();
        own.sort_unstable();
        let here = SETTINGS.iter().filter(|(_, kind, _)| *kind == Kind::Cluster);
        assert_eq!(here.map(|(name, _, default)| (*name, *default)).collect::<Vec<_>>(), own);
    }

    #[test]
    fn every_setting_that_is_taken_has_a_reader() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, kind, default) in SETTINGS {
            if let Kind::Word([only]) = kind {
                assert_eq!(only, default, "{name}");
                continue;
            }
            let reader = READERS.iter().find(|(begins, _)| name.starts_with(begins));
            let (begins, path) = reader.unwrap_or_else(|| panic!("nobody reads {name}"));
            let text = std::fs::read_to_string(crates.join(path));
            let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(text.contains(&format!("\"{begins}")), "{path} does not read {name}");
        }
    }
}
