//! The cluster: its health, settings and state, and where copies of partitions are.

pub mod allocation;
pub mod breakers;
pub mod health;
pub mod settings;
pub mod settings_table;
pub mod state;
pub mod stats;

use std::sync::Arc;

use super::needs::{CLUSTER_MANAGE, CLUSTER_MONITOR};
use super::route::{INDICES, Route, Verb, WAITS, route};
use super::shared::Rest;
use Verb::{Get, Post, Put};

const HEALTH: &[&str] = &[
    "level",
    "local",
    "timeout",
    "master_timeout",
    "cluster_manager_timeout",
    "wait_for_status",
    "wait_for_nodes",
    "wait_for_active_shards",
    "wait_for_no_relocating_shards",
    "wait_for_no_initializing_shards",
    "wait_for_events",
    "awareness_attribute",
    "ensure_node_weighed_in",
    "weights_by_location",
];
const SETTINGS: &[&str] = &["flat_settings", "include_defaults"];
const STATE: &[&str] = &["local", "flat_settings", "wait_for_metadata_version", "wait_for_timeout"];
const STATS: &[&str] = &["flat_settings", "timeout", "include_remotes"];
const REROUTE: &[&str] = &["dry_run", "explain", "retry_failed", "metric"];
const EXPLAIN: &[&str] = &["include_yes_decisions", "include_disk_info"];
const PENDING: &[&str] = &["local"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_cluster/health", &[HEALTH, INDICES], CLUSTER_MONITOR, |call| {
        Box::pin(health::get(call))
    }),
    route(&[Get], "/_cluster/health/{index}", &[HEALTH, INDICES], CLUSTER_MONITOR, |call| {
        Box::pin(health::get(call))
    }),
    route(&[Get], "/_cluster/settings", &[SETTINGS, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(settings::get(call))
    }),
    route(&[Put], "/_cluster/settings", &[SETTINGS, WAITS], CLUSTER_MANAGE, |call| {
        Box::pin(settings::put(call))
    }),
    route(&[Get], "/_cluster/state", &[STATE, WAITS, INDICES], CLUSTER_MONITOR, |call| {
        Box::pin(state::get(call))
    }),
    route(&[Get], "/_cluster/state/{metric}", &[STATE, WAITS, INDICES], CLUSTER_MONITOR, |call| {
        Box::pin(state::get(call))
    }),
    route(
        &[Get],
        "/_cluster/state/{metric}/{index}",
        &[STATE, WAITS, INDICES],
        CLUSTER_MONITOR,
        |call| Box::pin(state::get(call)),
    ),
    route(&[Get], "/_cluster/stats", &[STATS], CLUSTER_MONITOR, |call| Box::pin(stats::get(call))),
    route(&[Get], "/_cluster/stats/nodes/{node}", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_cluster/pending_tasks", &[PENDING, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(allocation::pending_tasks(call))
    }),
    route(&[Get, Post], "/_cluster/allocation/explain", &[EXPLAIN], CLUSTER_MONITOR, |call| {
        Box::pin(allocation::explain(call))
    }),
    route(&[Post], "/_cluster/reroute", &[REROUTE, WAITS], CLUSTER_MANAGE, |call| {
        Box::pin(allocation::reroute(call))
    }),
];

/// Has this process take over what the cluster has set, now and whenever that changes.
pub fn follow_settings(rest: &Arc<Rest>) {
    let weak = Arc::downgrade(rest);
    rest.node.coordinator.follow_settings(Box::new(move |set| {
        if let Some(rest) = weak.upgrade() {
            breakers::take_settings(&rest, set);
            rest.remote.clusters.take_settings(set);
        }
    }));
}
