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
}

/// One setting: name (a `*` at the end stands for more names), values, default.
pub type Definition = (&'static str, Kind, &'static str);

/// Settings by name. Those of the controllers and breakers are taken on by all nodes at once, and so
/// are `cluster.default_number_of_replicas` and `cluster.routing.allocation.(exclude|include|require)`;
/// others of allocation and recovery are kept and shown.
pub const SETTINGS: [Definition; 69] = [
    ("action.auto_create_index", Kind::Text, "true"),
    ("action.destructive_requires_name", Kind::Toggle, "false"),
    ("cluster.default_number_of_replicas", Kind::Count(0), "1"),
    ("cluster.info.update.interval", Kind::Time, "30s"),
    ("cluster.max_shards_per_node", Kind::Count(1), "1000"),
    ("cluster.no_master_block", Kind::Text, "write"),
    ("cluster.persistent_tasks.allocation.enable", Kind::Text, "all"),
    ("cluster.routing.allocation.allow_rebalance", Kind::Text, "indices_all_active"),
    ("cluster.routing.allocation.awareness.attributes", Kind::Text, ""),
    ("cluster.routing.allocation.awareness.force.*", Kind::Text, ""),
    ("cluster.routing.allocation.balance.index", Kind::Factor, "0.55"),
    ("cluster.routing.allocation.balance.shard", Kind::Factor, "0.45"),
    ("cluster.routing.allocation.balance.threshold", Kind::Factor, "1.0"),
    ("cluster.routing.allocation.cluster_concurrent_rebalance", Kind::Count(-1), "2"),
    ("cluster.routing.allocation.disk.threshold_enabled", Kind::Toggle, "true"),
    ("cluster.routing.allocation.disk.watermark.flood_stage", Kind::Amount, "95%"),
    ("cluster.routing.allocation.disk.watermark.high", Kind::Amount, "90%"),
    ("cluster.routing.allocation.disk.watermark.low", Kind::Amount, "85%"),
    ("cluster.routing.allocation.enable", Kind::Text, "all"),
    ("cluster.routing.allocation.exclude._host", Kind::Text, ""),
    ("cluster.routing.allocation.exclude._ip", Kind::Text, ""),
    ("cluster.routing.allocation.exclude._name", Kind::Text, ""),
    ("cluster.routing.allocation.exclude.zone", Kind::Text, ""),
    ("cluster.routing.allocation.include._host", Kind::Text, ""),
    ("cluster.routing.allocation.include._ip", Kind::Text, ""),
    ("cluster.routing.allocation.include._name", Kind::Text, ""),
    ("cluster.routing.allocation.include.zone", Kind::Text, ""),
    ("cluster.routing.allocation.node_concurrent_incoming_recoveries", Kind::Count(0), "2"),
    ("cluster.routing.allocation.node_concurrent_outgoing_recoveries", Kind::Count(0), "2"),
    ("cluster.routing.allocation.node_concurrent_recoveries", Kind::Count(0), "2"),
    ("cluster.routing.allocation.node_initial_primaries_recoveries", Kind::Count(0), "4"),
    ("cluster.routing.allocation.require._host", Kind::Text, ""),
    ("cluster.routing.allocation.require._ip", Kind::Text, ""),
    ("cluster.routing.allocation.require._name", Kind::Text, ""),
    ("cluster.routing.allocation.require.zone", Kind::Text, ""),
    ("cluster.routing.allocation.same_shard.host", Kind::Toggle, "false"),
    ("cluster.routing.allocation.total_shards_per_node", Kind::Count(-1), "-1"),
    ("cluster.routing.hedging", Kind::Work, "off"),
    ("cluster.routing.rebalance.enable", Kind::Text, "all"),
    ("cluster.routing.replica_selection", Kind::Work, "ours"),
    ("cluster.routing.replica_selection_shadow", Kind::Work, ""),
    ("cluster.routing.use_adaptive_replica_selection", Kind::Toggle, "true"),
    ("indices.breaker.accounting.limit", Kind::Amount, "100%"),
    ("indices.breaker.accounting.overhead", Kind::Factor, "1.0"),
    ("indices.breaker.fielddata.limit", Kind::Amount, "40%"),
    ("indices.breaker.fielddata.overhead", Kind::Factor, "1.03"),
    ("indices.breaker.request.limit", Kind::Amount, "60%"),
    ("indices.breaker.request.overhead", Kind::Factor, "1.0"),
    ("indices.breaker.request.type", Kind::Word(&["memory", "noop", "drawn"]), "memory"),
    ("indices.breaker.total.limit", Kind::Amount, "95%"),
    ("indices.mapping.dynamic_timeout", Kind::Time, "30s"),
    ("indices.recovery.max_bytes_per_sec", Kind::Amount, "40mb"),
    ("indices.recovery.max_concurrent_file_chunks", Kind::Count(1), "2"),
    ("indices.recovery.retry_delay_network", Kind::Time, "5s"),
    ("logger.*", Kind::Text, ""),
    ("network.breaker.inflight_requests.limit", Kind::Amount, "1gb"),
    ("network.breaker.inflight_requests.overhead", Kind::Factor, "2.0"),
    ("search.default_allow_partial_results", Kind::Toggle, "true"),
    ("search.default_keep_alive", Kind::Time, "5m"),
    ("search.max_keep_alive", Kind::Time, "24h"),
    ("search.max_open_scroll_context", Kind::Count(0), "500"),
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
