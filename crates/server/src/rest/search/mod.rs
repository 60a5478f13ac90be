//! Searches over HTTP: one ([`one`]), many at a time ([`many`]), those that go on ([`scroll`],
//! [`point`]), and what may be asked of a query without its hits ([`look`], [`field_caps`]).
//! Every one of them is a [`request::Asked`], however it came.

pub mod answer;
pub mod field_caps;
pub mod look;
pub mod many;
pub mod one;
pub mod point;
pub mod refused;
pub mod request;
pub mod scroll;

use super::needs::{CLUSTER_MANAGE, INDEX_READ, INDEX_VIEW, ITEMS_READ, KNOWN};
use super::route::{INDICES, Route, Verb, route};
use Verb::{Delete, Get, Post};

/// A query in the URI.
const TEXT: &[&str] = &["q", "df", "analyzer", "analyze_wildcard", "default_operator", "lenient"];
/// Where a search is carried out, and how far.
const PLACE: &[&str] = &["routing", "preference", "terminate_after", "min_score"];
/// What a search answers.
const SEARCH: &[&str] = &[
    "from",
    "size",
    "sort",
    "scroll",
    "search_type",
    "track_total_hits",
    "track_scores",
    "_source",
    "_source_includes",
    "_source_excludes",
    "stored_fields",
    "docvalue_fields",
    "explain",
    "version",
    "seq_no_primary_term",
    "timeout",
    "request_cache",
    "allow_partial_search_results",
    "stats",
    "search_pipeline",
    "suggest_field",
    "suggest_mode",
    "suggest_size",
    "suggest_text",
];
/// How an answer is written.
const SHAPE: &[&str] = &["rest_total_hits_as_int", "typed_keys"];
/// How the work is spread over nodes. With all partitions on one node there is nothing to spread.
const SPREAD: &[&str] = &[
    "batched_reduce_size",
    "pre_filter_shard_size",
    "max_concurrent_shard_requests",
    "max_concurrent_searches",
    "ccs_minimize_roundtrips",
    "cancel_after_time_interval",
    "phase_took",
    "include_named_queries_score",
];
const SCROLL: &[&str] = &["scroll", "scroll_id", "rest_total_hits_as_int"];
const POINT: &[&str] = &["keep_alive", "routing", "preference", "allow_partial_pit_creation"];
const VALIDATE: &[&str] = &["explain", "rewrite", "all_shards"];
const CAPS: &[&str] = &["fields", "include_unmapped", "filters", "types"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(
        &[Get, Post],
        "/_search",
        &[SEARCH, TEXT, PLACE, SHAPE, SPREAD, INDICES],
        INDEX_READ,
        |call| Box::pin(one::search(call)),
    ),
    route(
        &[Get, Post],
        "/{index}/_search",
        &[SEARCH, TEXT, PLACE, SHAPE, SPREAD, INDICES],
        INDEX_READ,
        |call| Box::pin(one::search(call)),
    ),
    route(&[Get, Post], "/_count", &[TEXT, PLACE, INDICES], INDEX_READ, |call| {
        Box::pin(one::count(call))
    }),
    route(&[Get, Post], "/{index}/_count", &[TEXT, PLACE, INDICES], INDEX_READ, |call| {
        Box::pin(one::count(call))
    }),
    route(
        &[Get, Post],
        "/_msearch",
        &[&["search_type"], SHAPE, SPREAD, INDICES],
        ITEMS_READ,
        |call| Box::pin(many::search(call)),
    ),
    route(
        &[Get, Post],
        "/{index}/_msearch",
        &[&["search_type"], SHAPE, SPREAD, INDICES],
        ITEMS_READ,
        |call| Box::pin(many::search(call)),
    ),
    route(&[Get, Post], "/_search/scroll", &[SCROLL], KNOWN, |call| Box::pin(scroll::next(call))),
    route(&[Get, Post], "/_search/scroll/{scroll_id}", &[SCROLL], KNOWN, |call| {
        Box::pin(scroll::next(call))
    }),
    route(&[Delete], "/_search/scroll", &[SCROLL], KNOWN, |call| Box::pin(scroll::clear(call))),
    route(&[Delete], "/_search/scroll/{scroll_id}", &[SCROLL], KNOWN, |call| {
        Box::pin(scroll::clear(call))
    }),
    route(&[Post], "/{index}/_search/point_in_time", &[POINT, INDICES], INDEX_READ, |call| {
        Box::pin(point::open(call))
    }),
    route(&[Delete], "/_search/point_in_time", &[], KNOWN, |call| Box::pin(point::close(call))),
    route(&[Get], "/_search/point_in_time/_all", &[], CLUSTER_MANAGE, |call| {
        Box::pin(point::list(call))
    }),
    route(&[Delete], "/_search/point_in_time/_all", &[], CLUSTER_MANAGE, |call| {
        Box::pin(point::close_all(call))
    }),
    route(&[Post], "/{index}/_pit", &[POINT, INDICES], INDEX_READ, |call| {
        Box::pin(point::open_pit(call))
    }),
    route(&[Delete], "/_pit", &[], KNOWN, |call| Box::pin(point::close_pit(call))),
    route(&[Get, Post], "/_validate/query", &[VALIDATE, TEXT, INDICES], INDEX_READ, |call| {
        Box::pin(look::validate(call))
    }),
    route(
        &[Get, Post],
        "/{index}/_validate/query",
        &[VALIDATE, TEXT, INDICES],
        INDEX_VIEW,
        |call| Box::pin(look::validate(call)),
    ),
    route(&[Get, Post], "/{index}/_explain/{id}", &[TEXT, PLACE, SEARCH], INDEX_READ, |call| {
        Box::pin(look::explain(call))
    }),
    route(&[Get, Post], "/_search_shards", &[PLACE, INDICES, &["local"]], INDEX_VIEW, |call| {
        Box::pin(look::shards(call))
    }),
    route(
        &[Get, Post],
        "/{index}/_search_shards",
        &[PLACE, INDICES, &["local"]],
        INDEX_VIEW,
        |call| Box::pin(look::shards(call)),
    ),
    route(&[Get, Post], "/_field_caps", &[CAPS, INDICES], INDEX_READ, |call| {
        Box::pin(field_caps::get(call))
    }),
    route(&[Get, Post], "/{index}/_field_caps", &[CAPS, INDICES], INDEX_READ, |call| {
        Box::pin(field_caps::get(call))
    }),
    route(
        &[Get, Post],
        "/_search/template",
        &[SEARCH, SHAPE, SPREAD, PLACE, INDICES],
        INDEX_READ,
        |call| Box::pin(refused::templates(call)),
    ),
    route(
        &[Get, Post],
        "/{index}/_search/template",
        &[SEARCH, SHAPE, SPREAD, PLACE, INDICES],
        INDEX_READ,
        |call| Box::pin(refused::templates(call)),
    ),
    route(&[Get, Post], "/_msearch/template", &[SHAPE, SPREAD, INDICES], INDEX_READ, |call| {
        Box::pin(refused::templates(call))
    }),
    route(
        &[Get, Post],
        "/{index}/_msearch/template",
        &[SHAPE, SPREAD, INDICES],
        INDEX_READ,
        |call| Box::pin(refused::templates(call)),
    ),
    route(&[Get, Post], "/_render/template", &[], KNOWN, |call| Box::pin(refused::templates(call))),
    route(&[Get, Post], "/_rank_eval", &[INDICES], INDEX_READ, |call| {
        Box::pin(refused::rank_eval(call))
    }),
    route(&[Get, Post], "/{index}/_rank_eval", &[INDICES], INDEX_READ, |call| {
        Box::pin(refused::rank_eval(call))
    }),
];
