//! `_cat`: what people want to know, as tables. [`table`] prints them; the other modules say
//! what stands in them.

pub mod about_cluster;
pub mod about_copies;
pub mod about_indices;
pub mod about_nodes;
pub mod list;
pub mod table;
pub mod units;

use super::needs::{CLUSTER_MONITOR, INDEX_MONITOR, INDEX_READ, INDEX_VIEW};
use super::route::{INDICES, Route, Verb, WAITS, route};
use Verb::Get;

/// How a table is printed.
const TABLE: &[&str] = &["h", "s", "v", "help", "bytes", "time", "ts", "local", "size"];
const INDICES_TABLE: &[&str] =
    &["health", "pri", "include_unloaded_segments", "active_only", "detailed", "level"];
const NODES: &[&str] = &["full_id"];
const TASKS: &[&str] = &["actions", "detailed", "nodes", "parent_task_id", "group_by"];
const FIELDS: &[&str] = &["fields"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_cat", &[TABLE], CLUSTER_MONITOR, |call| Box::pin(list::list(call))),
    route(
        &[Get],
        "/_cat/indices",
        &[TABLE, INDICES_TABLE, INDICES, WAITS],
        INDEX_MONITOR,
        |call| Box::pin(about_indices::indices(call)),
    ),
    route(
        &[Get],
        "/_cat/indices/{index}",
        &[TABLE, INDICES_TABLE, INDICES, WAITS],
        INDEX_MONITOR,
        |call| Box::pin(about_indices::indices(call)),
    ),
    route(&[Get], "/_cat/count", &[TABLE, INDICES], INDEX_READ, |call| {
        Box::pin(about_indices::count(call))
    }),
    route(&[Get], "/_cat/count/{index}", &[TABLE, INDICES], INDEX_READ, |call| {
        Box::pin(about_indices::count(call))
    }),
    route(&[Get], "/_cat/shards", &[TABLE, INDICES, WAITS], INDEX_MONITOR, |call| {
        Box::pin(about_copies::shards(call))
    }),
    route(&[Get], "/_cat/shards/{index}", &[TABLE, INDICES, WAITS], INDEX_MONITOR, |call| {
        Box::pin(about_copies::shards(call))
    }),
    route(&[Get], "/_cat/segments", &[TABLE, INDICES, WAITS], INDEX_MONITOR, |call| {
        Box::pin(about_copies::segments(call))
    }),
    route(&[Get], "/_cat/segments/{index}", &[TABLE, INDICES, WAITS], INDEX_MONITOR, |call| {
        Box::pin(about_copies::segments(call))
    }),
    route(&[Get], "/_cat/recovery", &[TABLE, INDICES_TABLE, INDICES], INDEX_MONITOR, |call| {
        Box::pin(about_copies::recovery(call))
    }),
    route(
        &[Get],
        "/_cat/recovery/{index}",
        &[TABLE, INDICES_TABLE, INDICES],
        INDEX_MONITOR,
        |call| Box::pin(about_copies::recovery(call)),
    ),
    route(&[Get], "/_cat/aliases", &[TABLE, INDICES], INDEX_VIEW, |call| {
        Box::pin(about_indices::aliases(call))
    }),
    route(&[Get], "/_cat/aliases/{name}", &[TABLE, INDICES], INDEX_VIEW, |call| {
        Box::pin(about_indices::aliases(call))
    }),
    route(&[Get], "/_cat/templates", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_indices::templates(call))
    }),
    route(&[Get], "/_cat/templates/{name}", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_indices::templates(call))
    }),
    route(&[Get], "/_cat/fielddata", &[TABLE, FIELDS], CLUSTER_MONITOR, |call| {
        Box::pin(about_indices::fielddata(call))
    }),
    route(&[Get], "/_cat/fielddata/{fields}", &[TABLE, FIELDS], CLUSTER_MONITOR, |call| {
        Box::pin(about_indices::fielddata(call))
    }),
    route(&[Get], "/_cat/health", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::health(call))
    }),
    route(&[Get], "/_cat/master", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::master(call))
    }),
    route(&[Get], "/_cat/cluster_manager", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::master(call))
    }),
    route(&[Get], "/_cat/pending_tasks", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::pending_tasks(call))
    }),
    route(&[Get], "/_cat/tasks", &[TABLE, TASKS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::tasks(call))
    }),
    route(&[Get], "/_cat/plugins", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::plugins(call))
    }),
    route(&[Get], "/_cat/repositories", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_cluster::repositories(call))
    }),
    route(&[Get], "/_cat/nodes", &[TABLE, NODES, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::nodes(call))
    }),
    route(&[Get], "/_cat/nodeattrs", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::attributes(call))
    }),
    route(&[Get], "/_cat/allocation", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::allocation(call))
    }),
    route(&[Get], "/_cat/allocation/{node}", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::allocation(call))
    }),
    route(&[Get], "/_cat/thread_pool", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::thread_pool(call))
    }),
    route(&[Get], "/_cat/thread_pool/{pools}", &[TABLE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(about_nodes::thread_pool(call))
    }),
];
