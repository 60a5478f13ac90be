//! What indices say of themselves in figures: `_stats`, `_segments`, `_recovery`.

pub mod figures;
pub mod indices;
pub mod recovery;
pub mod segments;

use super::needs::INDEX_MONITOR;
use super::route::{INDICES, Route, Verb, route};
use Verb::Get;

const STATS: &[&str] = &[
    "level",
    "fields",
    "completion_fields",
    "fielddata_fields",
    "groups",
    "types",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "forbid_closed_indices",
];
const SEGMENTS: &[&str] = &["verbose"];
const RECOVERY: &[&str] = &["active_only", "detailed"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_stats", &[STATS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(indices::stats(call))
    }),
    route(&[Get], "/_stats/{metric}", &[STATS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(indices::stats(call))
    }),
    route(&[Get], "/{index}/_stats", &[STATS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(indices::stats(call))
    }),
    route(&[Get], "/{index}/_stats/{metric}", &[STATS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(indices::stats(call))
    }),
    route(&[Get], "/_segments", &[SEGMENTS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(segments::segments(call))
    }),
    route(&[Get], "/{index}/_segments", &[SEGMENTS, INDICES], INDEX_MONITOR, |call| {
        Box::pin(segments::segments(call))
    }),
    route(&[Get], "/_recovery", &[RECOVERY, INDICES], INDEX_MONITOR, |call| {
        Box::pin(recovery::recovery(call))
    }),
    route(&[Get], "/{index}/_recovery", &[RECOVERY, INDICES], INDEX_MONITOR, |call| {
        Box::pin(recovery::recovery(call))
    }),
];
