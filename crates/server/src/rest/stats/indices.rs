//! `_stats`: the figures of indices, of all together, and of their partitions.

use plimsoll_cluster::PartitionStatistics;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::figures::{Figures, Wanted};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::nodes::all;

/// The copies of partitions that are asked for, and those that serve.
#[must_use]
pub fn shards(call: &Call, found: &[Target]) -> Value {
    let (mut total, mut there) = (0, 0);
    for target in found {
        for partition in call.coordinator().copies_of(&target.index.name) {
            total += partition.copies.len();
            there += partition.serving();
        }
    }
    json!({ "total": total, "successful": there, "failed": 0 })
}

/// Where a copy is.
#[derive(Clone, Copy, Debug)]
pub struct ShardCopy<'a> {
    /// The id of its node.
    pub node: &'a str,
    /// Whether it is named the primary.
    pub is_first: bool,
    /// Whether it can be asked.
    pub is_serving: bool,
    /// The folder of its node's data.
    pub data: &'a str,
}

/// GET `[/{index}]/_stats[/{metric}]`.
///
/// # Errors
/// 400 for a section or level that there is none of, 404 where an index is not there.
pub async fn stats(call: Call) -> Result<Answer, Error> {
    let mut wanted = Wanted::parse(call.part("metric"), &call.path)?;
    wanted.has_file_sizes = call.query.flag_or("include_segment_file_sizes", false)?;
    let level = call.query.get("level").unwrap_or("indices");
    if !matches!(level, "cluster" | "indices" | "shards") {
        return Err(Error::illegal_argument(format!(
            "level parameter must be one of [cluster] or [indices] or [shards] but was [{level}]"
        )));
    }
    let options = Expand::search().with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let told = all::statistics(&call.rest).await;
    let views = all::there(&call.rest);
    let mut sum = Sums::default();
    let mut indices = Map::new();
    let mut missing = 0;
    for target in &found {
        let index = &target.index;
        let mut sums = Sums::default();
        let mut by_shard = Map::new();
        for partition in call.coordinator().copies_of(&index.name) {
            let mut entries = Vec::new();
            let mut has_first = false;
            for (at, copy) in partition.copies.iter().enumerate() {
                let Some(node) = copy.node() else { continue };
                let Some(figures) = told.copy(node, &index.name, partition.ordinal) else {
                    missing += u64::from(copy.is_serving());
                    continue;
                };
                // Of a first copy that is not heard, another says the same.
                sums.add(&Figures::of_partition(figures), !has_first);
                has_first = true;
                let data = told.node(node).map(all::data_path).unwrap_or_default();
                let node = all::find(&views, node).map_or(node, |view| view.id.as_str());
                let is_serving = copy.is_serving();
                let place = ShardCopy { node, is_first: at == 0, is_serving, data };
                entries.push(shard(&place, figures, &wanted));
            }
            by_shard.insert(partition.ordinal.to_string(), Value::Array(entries));
        }
        sum.primaries.add(&sums.primaries);
        sum.total.add(&sums.total);
        let mut entry = json!({ "uuid": index.uuid });
        entry["primaries"] = Value::Object(sums.primaries.json(&wanted));
        entry["total"] = Value::Object(sums.total.json(&wanted));
        if level == "shards" {
            entry["shards"] = Value::Object(by_shard);
        }
        indices.insert(index.name.clone(), entry);
    }
    for node in &told.nodes {
        let cache = all::cache(node);
        for to in [&mut sum.primaries.cache, &mut sum.total.cache] {
            to.bytes += cache.bytes;
            to.hits += cache.hits;
            to.misses += cache.misses;
        }
    }
    let mut counts = shards(&call, &found);
    if missing > 0 {
        let serving = counts["successful"].as_u64().unwrap_or(0);
        counts["successful"] = json!(serving.saturating_sub(missing));
        counts["failed"] = json!(missing);
    }
    let mut answer = json!({
        "_shards": counts,
        "_all": {
            "primaries": sum.primaries.json(&wanted),
            "total": sum.total.json(&wanted),
        },
    });
    if level != "cluster" {
        answer["indices"] = Value::Object(indices);
    }
    Ok(Answer::json(&answer))
}

/// Sums over the first copies, and over all.
#[derive(Default)]
struct Sums {
    primaries: Figures,
    total: Figures,
}

impl Sums {
    fn add(&mut self, copy: &Figures, is_first: bool) {
        self.total.add(copy);
        if is_first {
            self.primaries.add(copy);
        }
    }
}

/// One copy: its figures and where it is.
#[must_use]
pub fn shard(place: &ShardCopy<'_>, partition: &PartitionStatistics, wanted: &Wanted) -> Value {
    let figures = Figures::of_partition(partition);
    let mut shard = json!({
        "routing": {
            "state": if place.is_serving { "STARTED" } else { "INITIALIZING" },
            "primary": place.is_first,
            "node": place.node,
            "relocating_node": null,
        },
    });
    if let Some(shard) = shard.as_object_mut() {
        shard.extend(figures.json(wanted));
        // Numbers of changes begin at 0; -1 is before the first.
        let last = i64::try_from(partition.position).unwrap_or(i64::MAX) - 1;
        let position = json!({
            "max_seq_no": last,
            "local_checkpoint": last,
            "global_checkpoint": last,
        });
        shard.insert("seq_no".to_owned(), position);
        let data = place.data;
        let path = json!({ "state_path": data, "data_path": data, "is_custom_data_path": false });
        shard.insert("shard_path".to_owned(), path);
    }
    shard
}
