//! Documents: one at a time ([`write`], [`read`], [`update`]), many at a time ([`bulk`],
//! [`read`]), and those that a search finds ([`by_query`]).

pub mod becomes;
pub mod bulk;
pub mod by_query;
pub mod ids;
pub mod merge;
pub mod read;
pub mod refresh;
pub mod script;
pub mod source_filter;
pub mod target;
pub mod update;
pub mod write;
pub mod written;

use super::needs::{
    INDEX_DELETE, INDEX_DELETE_FOUND, INDEX_PUT, INDEX_READ, INDEX_UPDATE_FOUND, ITEMS_READ,
    ITEMS_WRITE,
};
use super::route::{Route, Verb, WAITS, route};
use Verb::{Delete, Get, Post, Put};

const WRITE: &[&str] = &[
    "refresh",
    "routing",
    "op_type",
    "if_seq_no",
    "if_primary_term",
    "version",
    "version_type",
    "require_alias",
    "pipeline",
];
const READ: &[&str] =
    &["preference", "realtime", "refresh", "routing", "version", "version_type", "stored_fields"];
/// Which parts of a document are answered.
pub const SOURCE: &[&str] =
    &["_source", "_source_includes", "_source_excludes", "_source_include", "_source_exclude"];
const UPDATE: &[&str] = &[
    "refresh",
    "routing",
    "if_seq_no",
    "if_primary_term",
    "retry_on_conflict",
    "require_alias",
    "lang",
];
const BULK: &[&str] = &["refresh", "routing", "pipeline", "require_alias", "type"];
const BY_QUERY: &[&str] = &[
    "ignore_unavailable",
    "allow_no_indices",
    "expand_wildcards",
    "conflicts",
    "refresh",
    "routing",
    "preference",
    "scroll",
    "scroll_size",
    "size",
    "max_docs",
    "slices",
    "wait_for_completion",
    "requests_per_second",
    "search_type",
    "request_cache",
    "version",
    "q",
    "df",
    "default_operator",
    "analyzer",
    "analyze_wildcard",
    "lenient",
    "pipeline",
    "sort",
    "stats",
    "require_alias",
];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Post, Put], "/{index}/_doc/{id}", &[WRITE, WAITS], INDEX_PUT, |call| {
        Box::pin(write::index(call))
    }),
    route(&[Post], "/{index}/_doc", &[WRITE, WAITS], INDEX_PUT, |call| {
        Box::pin(write::index(call))
    }),
    route(&[Post, Put], "/{index}/_create/{id}", &[WRITE, WAITS], INDEX_PUT, |call| {
        Box::pin(write::create(call))
    }),
    route(&[Delete], "/{index}/_doc/{id}", &[WRITE, WAITS], INDEX_DELETE, |call| {
        Box::pin(write::delete(call))
    }),
    route(&[Get], "/{index}/_doc/{id}", &[READ, SOURCE], INDEX_READ, |call| {
        Box::pin(read::document(call))
    }),
    route(&[Get], "/{index}/_source/{id}", &[READ, SOURCE], INDEX_READ, |call| {
        Box::pin(read::source(call))
    }),
    route(&[Post], "/{index}/_update/{id}", &[UPDATE, SOURCE, WAITS], INDEX_PUT, |call| {
        Box::pin(update::update(call))
    }),
    route(&[Get, Post], "/_mget", &[READ, SOURCE], ITEMS_READ, |call| Box::pin(read::many(call))),
    route(&[Get, Post], "/{index}/_mget", &[READ, SOURCE], ITEMS_READ, |call| {
        Box::pin(read::many(call))
    }),
    route(&[Post, Put], "/_bulk", &[BULK, SOURCE, WAITS], ITEMS_WRITE, |call| {
        Box::pin(bulk::bulk(call))
    }),
    route(&[Post, Put], "/{index}/_bulk", &[BULK, SOURCE, WAITS], ITEMS_WRITE, |call| {
        Box::pin(bulk::bulk(call))
    }),
    route(
        &[Post],
        "/{index}/_delete_by_query",
        &[BY_QUERY, SOURCE, WAITS],
        INDEX_DELETE_FOUND,
        |call| Box::pin(by_query::delete(call)),
    ),
    route(
        &[Post],
        "/{index}/_update_by_query",
        &[BY_QUERY, SOURCE, WAITS],
        INDEX_UPDATE_FOUND,
        |call| Box::pin(by_query::update(call)),
    ),
    route(&[Post], "/_reindex", &[BY_QUERY, WAITS], ITEMS_READ, |call| {
        Box::pin(by_query::reindex(call))
    }),
];
