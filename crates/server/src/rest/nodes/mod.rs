//! Nodes: what they are (`_nodes`), how they do (`_nodes/stats`), and what keeps this one's
//! processors busy (`_nodes/hot_threads`).

pub mod all;
pub mod answer;
pub mod breakers;
pub mod hot_threads;
pub mod info;
pub mod machine;
pub mod process;
pub mod stats;

use plimsoll_cluster::NodeStatistics;
use plimsoll_index::Error;
use serde_json::json;

pub use crate::settings::ROLES;
pub use all::{attributes, brief, header, own, statistics};
pub use answer::answer;

use super::answer::Answer;
use super::call::Call;
use super::needs::CLUSTER_MONITOR;
use super::route::{Route, Verb, route};
use Verb::Get;
use all::NodeView;

const INFO: &[&str] = &["flat_settings", "timeout"];
const STATS: &[&str] = &[
    "level",
    "timeout",
    "fields",
    "completion_fields",
    "fielddata_fields",
    "groups",
    "types",
    "include_segment_file_sizes",
    "include_unloaded_segments",
];
const THREADS: &[&str] =
    &["threads", "interval", "snapshots", "ignore_idle_threads", "type", "doc_type", "timeout"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_nodes", &[INFO], CLUSTER_MONITOR, |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/{node}", &[INFO], CLUSTER_MONITOR, |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/{node}/{metric}", &[INFO], CLUSTER_MONITOR, |call| {
        Box::pin(info::get(call))
    }),
    route(&[Get], "/_nodes/{node}/info/{metric}", &[INFO], CLUSTER_MONITOR, |call| {
        Box::pin(info::get(call))
    }),
    route(&[Get], "/_nodes/stats", &[STATS], CLUSTER_MONITOR, |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/stats/{metric}", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/stats/{metric}/{section}", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/{node}/stats", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/{node}/stats/{metric}", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/{node}/stats/{metric}/{section}", &[STATS], CLUSTER_MONITOR, |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/hot_threads", &[THREADS], CLUSTER_MONITOR, |call| {
        Box::pin(hot_threads::get(call))
    }),
    route(&[Get], "/_nodes/{node}/hot_threads", &[THREADS], CLUSTER_MONITOR, |call| {
        Box::pin(hot_threads::get(call))
    }),
    route(&[Get], "/_nodes/usage", &[INFO], CLUSTER_MONITOR, |call| Box::pin(usage(call))),
    route(&[Get], "/_nodes/{node}/usage", &[INFO], CLUSTER_MONITOR, |call| Box::pin(usage(call))),
];

async fn usage(call: Call) -> Result<Answer, Error> {
    let usage = |node: &NodeView, _: Option<&NodeStatistics>| {
        let since_ms = if node.member.is_own {
            call.rest.node.started_s * 1000
        } else {
            node.member.record.started_ms
        };
        Some(json!({
            "timestamp": since_ms,
            "since": since_ms,
            "rest_actions": {},
            "aggregations": {},
        }))
    };
    Ok(answer(&call, call.part("node"), usage).await)
}
