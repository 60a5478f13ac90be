//! `_cluster/stats`: the figures of all indices and of the node in one answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::health;
use crate::node::unix_time;
use crate::process;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::nodes::machine::{self, Disk, Memory};
use crate::rest::nodes::stats::all_figures;
use crate::rest::stats::figures::Wanted;

/// Sections of indices that stand in this answer.
const SECTIONS: &str = "docs,store,fielddata,query_cache,completion,segments";

/// GET `/_cluster/stats[/nodes/{node}]`.
///
/// # Errors
/// None of its own.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let rest = &call.rest;
    let indices = call.coordinator().indices();
    let mut of_indices = json!({ "count": indices.len(), "shards": shards(&indices) });
    let sections = all_figures(rest).json(&Wanted::parse(Some(SECTIONS), &call.path)?);
    if let Some(object) = of_indices.as_object_mut() {
        object.extend(sections);
    }
    of_indices["mappings"] = json!({ "field_types": field_types(&indices) });
    of_indices["analysis"] = json!({
        "char_filter_types": [],
        "tokenizer_types": [],
        "filter_types": [],
        "analyzer_types": [],
        "built_in_char_filters": [],
        "built_in_tokenizers": [],
        "built_in_filters": [],
        "built_in_analyzers": [],
    });
    let count = u8::from(crate::rest::nodes::is_meant(rest, call.part("node")));
    let now_ms = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
    Ok(Answer::json(&json!({
        "_nodes": { "total": count, "successful": count, "failed": 0 },
        "cluster_name": rest.node.settings.cluster_name,
        "cluster_uuid": rest.identity.cluster_uuid,
        "timestamp": now_ms,
        "status": health::of_cluster(rest).name(),
        "indices": of_indices,
        "nodes": nodes(&call),
    })))
}

fn shards(indices: &[Arc<IndexMetadata>]) -> Value {
    let counts: Vec<u32> = indices.iter().map(|index| index.partitions).collect();
    let total: u32 = counts.iter().sum();
    if counts.is_empty() {
        return json!({});
    }
    let (min, max) = (counts.iter().min(), counts.iter().max());
    let average = f64::from(total) / f64::from(u32::try_from(counts.len()).unwrap_or(u32::MAX));
    let spread = json!({ "min": min, "max": max, "avg": average });
    json!({
        "total": total,
        "primaries": total,
        "replication": 0.0,
        "index": {
            "shards": spread,
            "primaries": spread,
            "replication": { "min": 0.0, "max": 0.0, "avg": 0.0 },
        },
    })
}

fn field_types(indices: &[Arc<IndexMetadata>]) -> Vec<Value> {
    let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for index in indices {
        let mut here: BTreeMap<&str, usize> = BTreeMap::new();
        for field in index.mapping.fields() {
            *here.entry(field.field_type().name()).or_default() += 1;
        }
        for (name, count) in here {
            let (all, of_indices) = types.entry(name).or_default();
            *all += count;
            *of_indices += 1;
        }
    }
    types
        .into_iter()
        .map(|(name, (count, indices))| {
            json!({ "name": name, "count": count, "index_count": indices })
        })
        .collect()
}

fn nodes(call: &Call) -> Value {
    let rest = &call.rest;
    let memory = Memory::read();
    let disk = Disk::of(&rest.node.settings.data);
    let (open_files, _) = machine::file_descriptors();
    let uptime_ms = u64::try_from(rest.node.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    json!({
        "count": {
            "total": 1,
            "cluster_manager": 1,
            "coordinating_only": 0,
            "data": 1,
            "ingest": 1,
            "master": 1,
            "remote_cluster_client": 1,
            "search": 0,
        },
        "versions": [rest.node.settings.rest_version],
        "os": {
            "available_processors": machine::processors(),
            "allocated_processors": machine::processors(),
            "names": [{ "name": "Linux", "count": 1 }],
            "pretty_names": [{ "pretty_name": machine::pretty_name(), "count": 1 }],
            "mem": memory.json(),
        },
        "process": {
            "cpu": { "percent": machine::processors_percent()[1] },
            "open_file_descriptors": { "min": open_files, "max": open_files, "avg": open_files },
        },
        "jvm": {
            "max_uptime_in_millis": uptime_ms,
            "versions": [],
            "mem": {
                "heap_used_in_bytes": process::resident_bytes(),
                "heap_max_in_bytes": memory.total,
            },
            "threads": machine::status("Threads"),
        },
        "fs": {
            "total_in_bytes": disk.total,
            "free_in_bytes": disk.free,
            "available_in_bytes": disk.available,
        },
        "plugins": [],
        "network_types": { "transport_types": {}, "http_types": {} },
        "discovery_types": { "single-node": 1 },
        "packaging_types": [{ "type": "tar", "count": 1 }],
        "ingest": { "number_of_pipelines": 0, "processor_stats": {} },
    })
}
