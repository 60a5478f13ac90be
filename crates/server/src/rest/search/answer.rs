//! What a search found, as JSON.

use plimsoll_cluster::SearchOutcome;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rest::types::Types;

/// The answer of a search, written without a tree in between.
pub struct Found<'a> {
    /// What was found.
    pub outcome: &'a SearchOutcome,
    /// `hits.total` is a number.
    pub total_as_int: bool,
    /// Whether the context is a point in time rather than a scroll.
    pub is_point: bool,
    /// Whether any index was searched: an answer about none has a best score of 0.
    pub is_empty: bool,
    /// Whether hits name their type.
    pub types: Types,
    /// In a `_msearch`, the status of this search alone.
    pub status: Option<u16>,
}

impl Serialize for Found<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome;
        let mut map = serializer.serialize_map(None)?;
        if let Some(context) = &outcome.context {
            let name = if self.is_point { "pit_id" } else { "_scroll_id" };
            map.serialize_entry(name, &context.to_string())?;
        }
        map.serialize_entry("took", &outcome.took_ms)?;
        map.serialize_entry("timed_out", &outcome.timed_out)?;
        if let Some(early) = outcome.terminated_early {
            map.serialize_entry("terminated_early", &early)?;
        }
        map.serialize_entry("_shards", &shards(outcome))?;
        map.serialize_entry("hits", &Hits(self))?;
        if let Some(aggregations) = &outcome.aggregations {
            map.serialize_entry("aggregations", aggregations)?;
        }
        if let Some(status) = self.status {
            map.serialize_entry("status", &status)?;
        }
        map.end()
    }
}

struct Hits<'a>(&'a Found<'a>);

impl Serialize for Hits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Found { outcome, total_as_int, is_empty, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        match outcome.total {
            Some((total, _)) if *total_as_int => map.serialize_entry("total", &total)?,
            Some((total, is_exact)) => {
                let relation = if is_exact { "eq" } else { "gte" };
                map.serialize_entry("total", &json!({ "value": total, "relation": relation }))?;
            }
            None if *total_as_int => map.serialize_entry("total", &-1)?,
            None => (),
        }
        let max_score = if *is_empty { Some(0.0) } else { outcome.max_score };
        map.serialize_entry("max_score", &max_score)?;
        match self.0.types {
            Types::Named => map.serialize_entry("hits", &Typed(&outcome.hits))?,
            Types::Left => map.serialize_entry("hits", &outcome.hits)?,
        }
        map.end()
    }
}

/// Hits as the nodes wrote them, each with its type.
struct Typed<'a>(&'a [Box<RawValue>]);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|hit| {
            // Every hit has an index, so that more comes after the bracket.
            let rest = hit.get().strip_prefix('{').unwrap_or_default();
            RawValue::from_string(format!("{{{}{rest}", Types::Named.field())).ok()
        }))
    }
}

/// How many partitions were asked, answered, were passed over and failed, and why.
#[must_use]
pub fn shards(outcome: &SearchOutcome) -> Value {
    let [total, successful, skipped, failed] = outcome.shards;
    let mut shards = json!({
        "total": total,
        "successful": successful,
        "skipped": skipped,
        "failed": failed,
    });
    if !outcome.failures.is_empty() {
        shards["failures"] = json!(outcome.failures);
    }
    shards
}
