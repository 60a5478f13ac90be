//! `_stats`: the figures of indices, of all together, and of their partitions.

use plimsoll_cluster::PartitionStatistics;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::figures::{Figures, Wanted};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};

/// The copies of partitions that are asked for, and those that there are.
#[must_use]
pub fn shards(found: &[Target]) -> Value {
    let total: u32 = found.iter().map(|it| it.index.partitions * (it.index.replicas + 1)).sum();
    let there: u32 = found.iter().map(|it| it.index.partitions).sum();
    json!({ "total": total, "successful": there, "failed": 0 })
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
    let found = expressions::resolve(call.coordinator(), call.part("index"), &options)?;
    let mut all = Figures::default();
    let mut indices = Map::new();
    for target in &found {
        let index = &target.index;
        // An index that was deleted meanwhile has no figures.
        let Some(statistics) = call.coordinator().index_statistics(&index.name) else { continue };
        let figures = Figures::of_index(&statistics);
        all.add(&figures);
        let mut entry = json!({ "uuid": index.uuid });
        entry["primaries"] = Value::Object(figures.json(&wanted));
        entry["total"] = entry["primaries"].clone();
        if level == "shards" {
            let shards: Map<String, Value> = statistics
                .partitions
                .iter()
                .enumerate()
                .map(|(at, partition)| (at.to_string(), json!([shard(&call, partition, &wanted)])))
                .collect();
            entry["shards"] = Value::Object(shards);
        }
        indices.insert(index.name.clone(), entry);
    }
    all.cache = call.coordinator().request_cache();
    let sums = Value::Object(all.json(&wanted));
    let mut answer = json!({
        "_shards": shards(&found),
        "_all": { "primaries": sums, "total": sums },
    });
    if level != "cluster" {
        answer["indices"] = Value::Object(indices);
    }
    Ok(Answer::json(&answer))
}

/// One partition: its figures and where it is.
#[must_use]
pub fn shard(call: &Call, partition: &PartitionStatistics, wanted: &Wanted) -> Value {
    let figures = Figures::of_partition(partition);
    let mut shard = json!({
        "routing": {
            "state": "STARTED",
            "primary": true,
            "node": call.rest.identity.node_id,
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
        let data = call.rest.node.settings.data.display().to_string();
        let path = json!({ "state_path": data, "data_path": data, "is_custom_data_path": false });
        shard.insert("shard_path".to_owned(), path);
    }
    shard
}
