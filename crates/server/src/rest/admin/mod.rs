//! Indices as a whole: created, looked at, changed and deleted; their aliases and templates; and
//! what is done to them now and then.

pub mod aliases;
pub mod analyze;
pub mod change;
pub mod create;
pub mod delete;
pub mod look;
pub mod maintain;
pub mod mappings;
pub mod settings;
pub mod settings_table;
pub mod templates;

use super::needs::{
    CLUSTER_MONITOR, CLUSTER_TEMPLATES, INDEX_CREATE, INDEX_DROP, INDEX_MAINTAIN, INDEX_MANAGE,
    INDEX_VIEW, KNOWN,
};
use super::route::{INDICES, Route, Verb, WAITS, route};
use Verb::{Delete, Get, Head, Post, Put};

const LOOK: &[&str] = &[
    "flat_settings",
    "include_defaults",
    "include_type_name",
    "local",
    "master_timeout",
    "cluster_manager_timeout",
    "features",
];
const CREATE: &[&str] = &["include_type_name"];
const MAPPING: &[&str] = &["include_type_name", "write_index_only"];
const SETTINGS: &[&str] = &["flat_settings", "preserve_existing"];
const TEMPLATE: &[&str] =
    &["create", "cause", "order", "flat_settings", "local", "include_type_name"];
const FORCE_MERGE: &[&str] =
    &["max_num_segments", "only_expunge_deletes", "flush", "wait_for_completion", "primary_only"];
const FLUSH: &[&str] = &["wait_if_ongoing", "force"];
const CACHE: &[&str] = &["fielddata", "fields", "query", "request", "index", "file"];
const ALIAS: &[&str] = &["local"];
const ANALYZE: &[&str] = &["index", "prefer_local"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Put], "/{index}", &[CREATE, WAITS], INDEX_CREATE, |call| {
        Box::pin(create::create(call))
    }),
    route(&[Get], "/{index}", &[LOOK, INDICES], INDEX_VIEW, |call| Box::pin(look::index(call))),
    route(&[Head], "/{index}", &[LOOK, INDICES], INDEX_VIEW, |call| Box::pin(look::exists(call))),
    route(&[Delete], "/{index}", &[INDICES, WAITS], INDEX_DROP, |call| {
        Box::pin(delete::delete(call))
    }),
    route(&[Get], "/_mapping", &[LOOK, INDICES], INDEX_VIEW, |call| Box::pin(look::mapping(call))),
    route(&[Get], "/{index}/_mapping", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::mapping(call))
    }),
    route(&[Put, Post], "/{index}/_mapping", &[MAPPING, INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(change::mapping(call))
    }),
    route(
        &[Put, Post],
        "/{index}/_mapping/{type}",
        &[MAPPING, INDICES, WAITS],
        INDEX_MANAGE,
        |call| Box::pin(change::mapping(call)),
    ),
    route(&[Get], "/_mapping/field/{fields}", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::mapping_fields(call))
    }),
    route(&[Get], "/{index}/_mapping/field/{fields}", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::mapping_fields(call))
    }),
    route(&[Get], "/_settings", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::settings(call))
    }),
    route(&[Get], "/_settings/{name}", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::settings(call))
    }),
    route(&[Get], "/{index}/_settings", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::settings(call))
    }),
    route(&[Get], "/{index}/_settings/{name}", &[LOOK, INDICES], INDEX_VIEW, |call| {
        Box::pin(look::settings(call))
    }),
    route(&[Put], "/_settings", &[SETTINGS, INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(change::settings(call))
    }),
    route(&[Put], "/{index}/_settings", &[SETTINGS, INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(change::settings(call))
    }),
    route(&[Post], "/{index}/_open", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(maintain::open(call))
    }),
    route(&[Post], "/{index}/_close", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(maintain::close(call))
    }),
    route(&[Post, Get], "/_refresh", &[INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::refresh(call))
    }),
    route(&[Post, Get], "/{index}/_refresh", &[INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::refresh(call))
    }),
    route(&[Post, Get], "/_flush", &[FLUSH, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::flush(call))
    }),
    route(&[Post, Get], "/{index}/_flush", &[FLUSH, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::flush(call))
    }),
    route(&[Post], "/_forcemerge", &[FORCE_MERGE, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::force_merge(call))
    }),
    route(&[Post], "/{index}/_forcemerge", &[FORCE_MERGE, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::force_merge(call))
    }),
    route(&[Post], "/_cache/clear", &[CACHE, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::clear_cache(call))
    }),
    route(&[Post], "/{index}/_cache/clear", &[CACHE, INDICES], INDEX_MAINTAIN, |call| {
        Box::pin(maintain::clear_cache(call))
    }),
    route(&[Get], "/_resolve/index/{name}", &[INDICES], INDEX_VIEW, |call| {
        Box::pin(look::resolve(call))
    }),
    route(&[Get, Post], "/_analyze", &[ANALYZE], KNOWN, |call| Box::pin(analyze::analyze(call))),
    route(&[Get, Post], "/{index}/_analyze", &[ANALYZE], INDEX_VIEW, |call| {
        Box::pin(analyze::analyze(call))
    }),
    route(&[Post], "/_aliases", &[WAITS], INDEX_MANAGE, |call| Box::pin(aliases::actions(call))),
    route(&[Get], "/_aliases", &[ALIAS, INDICES], INDEX_VIEW, |call| Box::pin(aliases::list(call))),
    route(&[Get], "/_alias", &[ALIAS, INDICES], INDEX_VIEW, |call| Box::pin(aliases::list(call))),
    route(&[Get], "/_alias/{name}", &[ALIAS, INDICES], INDEX_VIEW, |call| {
        Box::pin(aliases::list(call))
    }),
    route(&[Get], "/{index}/_alias", &[ALIAS, INDICES], INDEX_VIEW, |call| {
        Box::pin(aliases::list(call))
    }),
    route(&[Get], "/{index}/_alias/{name}", &[ALIAS, INDICES], INDEX_VIEW, |call| {
        Box::pin(aliases::list(call))
    }),
    route(&[Put, Post], "/{index}/_alias/{name}", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(aliases::put(call))
    }),
    route(&[Put, Post], "/{index}/_aliases/{name}", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(aliases::put(call))
    }),
    route(&[Delete], "/{index}/_alias/{name}", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(aliases::delete(call))
    }),
    route(&[Delete], "/{index}/_aliases/{name}", &[INDICES, WAITS], INDEX_MANAGE, |call| {
        Box::pin(aliases::delete(call))
    }),
    route(&[Get], "/_template", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::legacy_get(call))
    }),
    route(&[Get], "/_template/{name}", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::legacy_get(call))
    }),
    route(&[Put, Post], "/_template/{name}", &[TEMPLATE, WAITS], CLUSTER_TEMPLATES, |call| {
        Box::pin(templates::legacy_put(call))
    }),
    route(&[Delete], "/_template/{name}", &[TEMPLATE, WAITS], CLUSTER_TEMPLATES, |call| {
        Box::pin(templates::legacy_delete(call))
    }),
    route(&[Get], "/_index_template", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::index_get(call))
    }),
    route(&[Get], "/_index_template/{name}", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::index_get(call))
    }),
    route(&[Put, Post], "/_index_template/{name}", &[TEMPLATE, WAITS], CLUSTER_TEMPLATES, |call| {
        Box::pin(templates::index_put(call))
    }),
    route(&[Delete], "/_index_template/{name}", &[TEMPLATE, WAITS], CLUSTER_TEMPLATES, |call| {
        Box::pin(templates::index_delete(call))
    }),
    route(
        &[Post],
        "/_index_template/_simulate_index/{name}",
        &[TEMPLATE, WAITS],
        CLUSTER_TEMPLATES,
        |call| Box::pin(templates::simulate(call)),
    ),
    route(&[Get], "/_component_template", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::component_get(call))
    }),
    route(&[Get], "/_component_template/{name}", &[TEMPLATE, WAITS], CLUSTER_MONITOR, |call| {
        Box::pin(templates::component_get(call))
    }),
    route(
        &[Put, Post],
        "/_component_template/{name}",
        &[TEMPLATE, WAITS],
        CLUSTER_TEMPLATES,
        |call| Box::pin(templates::component_put(call)),
    ),
    route(
        &[Delete],
        "/_component_template/{name}",
        &[TEMPLATE, WAITS],
        CLUSTER_TEMPLATES,
        |call| Box::pin(templates::component_delete(call)),
    ),
];
