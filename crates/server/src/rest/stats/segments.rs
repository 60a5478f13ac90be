//! `_segments`: what the index of a copy is made of. Its segments are answered as one, under the
//! name `_all`.

use plimsoll_cluster::PartitionStatistics;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::indices::shards;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};
use crate::rest::identity::LUCENE_VERSION;
use crate::rest::nodes::all;

/// Bytes of a partition's index.
#[must_use]
pub fn index_bytes(partition: &PartitionStatistics) -> u64 {
    partition.segments.bytes.values().sum()
}

/// GET `[/{index}]/_segments`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn segments(call: Call) -> Result<Answer, Error> {
    let options = Expand::search().with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let told = all::statistics(&call.rest).await;
    let views = all::there(&call.rest);
    let mut indices = Map::new();
    for target in &found {
        let name = &target.index.name;
        let mut by_shard = Map::new();
        for partition in call.coordinator().copies_of(name) {
            let copies = partition.copies.iter().enumerate().filter_map(|(at, copy)| {
                let node = copy.node()?;
                let figures = told.copy(node, name, partition.ordinal)?;
                let node = all::find(&views, node).map_or(node, |view| view.id.as_str());
                Some(shard(node, at == 0, figures))
            });
            by_shard.insert(partition.ordinal.to_string(), copies.collect());
        }
        indices.insert(name.clone(), json!({ "shards": by_shard }));
    }
    Ok(Answer::json(&json!({ "_shards": shards(&call, &found), "indices": indices })))
}

fn shard(node: &str, is_first: bool, partition: &PartitionStatistics) -> Value {
    let segments = &partition.segments;
    let mut all = Map::new();
    if segments.segments > 0 {
        let entry = json!({
            "generation": segments.refreshes,
            "num_docs": segments.docs,
            "deleted_docs": segments.deleted,
            "size_in_bytes": index_bytes(partition),
            "memory_in_bytes": 0,
            "committed": true,
            "search": true,
            "version": LUCENE_VERSION,
            "compound": false,
        });
        all.insert("_all".to_owned(), entry);
    }
    json!({
        "routing": {
            "state": "STARTED",
            "primary": is_first,
            "node": node,
        },
        "num_committed_segments": segments.segments,
        "num_search_segments": segments.segments,
        "segments": all,
    })
}
