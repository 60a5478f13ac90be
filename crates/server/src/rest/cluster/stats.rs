//! `_cluster/stats`: the figures of all indices and of all nodes in one answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_cluster::{ClusterStatistics, CopyStatus, IndexMetadata, NodeStatistics};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::health;
use crate::node::unix_ms;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::nodes;
use crate::rest::nodes::all::{self, NodeView};
use crate::rest::nodes::machine::Memory;
use crate::rest::stats::figures::{Figures, Wanted};

/// Sections of indices that stand in this answer.
const SECTIONS: &str = "docs,store,fielddata,query_cache,completion,segments";

/// GET `/_cluster/stats[/nodes/{node}]`.
///
/// # Errors
/// None of its own.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let rest = &call.rest;
    let indices = call.coordinator().documents().indices();
    let told = nodes::statistics(rest).await;
    let views = all::there(rest);
    let meant: Vec<&NodeView> =
        views.iter().filter(|view| view.is_meant(call.part("node"))).collect();
    let counted: Vec<&NodeStatistics> =
        meant.iter().filter_map(|view| told.node(&view.member.id)).collect();
    let mut of_indices = json!({ "count": indices.len(), "shards": shards(&call, &indices) });
    let sections = first_figures(&call, &told).json(&Wanted::parse(Some(SECTIONS), &call.path)?);
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
    let now_ms = unix_ms();
    Ok(Answer::json(&json!({
        "_nodes": {
            "total": meant.len(),
            "successful": counted.len(),
            "failed": meant.len() - counted.len(),
        },
        "cluster_name": rest.node.settings.cluster_name,
        "cluster_uuid": rest.identity.cluster_uuid,
        "timestamp": now_ms,
        "status": health::of_cluster(rest).status().name(),
        "indices": of_indices,
        "nodes": of_nodes(&call, &views, &told),
    })))
}

/// The figures of all copies, with what searches of all nodes share.
fn first_figures(call: &Call, told: &ClusterStatistics) -> Figures {
    let mut sum = Figures::default();
    for node in &told.nodes {
        let figures = all::figures(node);
        sum.add(&figures);
        sum.contexts.0 += figures.contexts.0;
        sum.contexts.1 += figures.contexts.1;
        sum.cache.bytes += figures.cache.bytes;
        sum.cache.hits += figures.cache.hits;
        sum.cache.misses += figures.cache.misses;
    }
    // A document counts once, however many copies of it there are.
    (sum.docs, sum.deleted) = (0, 0);
    for partition in call.coordinator().copies_of_all() {
        let figures =
            |copy: &CopyStatus| told.copy(copy.node()?, &partition.table, partition.ordinal);
        if let Some(copy) = partition.copies.iter().find_map(figures) {
            sum.docs += copy.segments.docs;
            sum.deleted += copy.segments.deleted;
        }
    }
    sum
}

fn shards(call: &Call, indices: &[Arc<IndexMetadata>]) -> Value {
    if indices.is_empty() {
        return json!({});
    }
    // Of each index its copies that serve, and its partitions of which one does.
    let count = |index: &Arc<IndexMetadata>| {
        let health = health::of_index(&call.rest, &index.name);
        (health.active, health.primaries)
    };
    let counts: Vec<(u32, u32)> = indices.iter().map(count).collect();
    let beyond = |(all, first): &(u32, u32)| {
        if *first == 0 { 0.0 } else { f64::from(*all) / f64::from(*first) - 1.0 }
    };
    let total: (u32, u32) = counts.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let number = f64::from(u32::try_from(counts.len()).unwrap_or(u32::MAX));
    let spread = |of: fn(&(u32, u32)) -> u32| {
        let values: Vec<u32> = counts.iter().map(of).collect();
        let average = f64::from(values.iter().sum::<u32>()) / number;
        json!({ "min": values.iter().min(), "max": values.iter().max(), "avg": average })
    };
    let replications: Vec<f64> = counts.iter().map(beyond).collect();
    json!({
        "total": total.0,
        "primaries": total.1,
        "replication": beyond(&total),
        "index": {
            "shards": spread(|count| count.0),
            "primaries": spread(|count| count.1),
            "replication": {
                "min": replications.iter().copied().fold(f64::INFINITY, f64::min),
                "max": replications.iter().copied().fold(0.0, f64::max),
                "avg": replications.iter().sum::<f64>() / number,
            },
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

fn of_nodes(call: &Call, views: &[NodeView], told: &ClusterStatistics) -> Value {
    let meant: Vec<&NodeView> =
        views.iter().filter(|view| view.is_meant(call.part("node"))).collect();
    let counted: Vec<&NodeStatistics> =
        meant.iter().filter_map(|view| told.node(&view.member.id)).collect();
    // One that is not meant counts where no other does: clients divide by what stands here.
    let counted = if counted.is_empty() { told.nodes.iter().take(1).collect() } else { counted };
    let number = |node: &NodeStatistics, path: &str| {
        node.process.pointer(path).and_then(Value::as_u64).unwrap_or(0)
    };
    let values = |path: &str| counted.iter().map(|it| number(it, path)).collect::<Vec<u64>>();
    let sum = |path: &str| values(path).iter().sum::<u64>();
    let most = |path: &str| values(path).into_iter().max().unwrap_or(0);
    let count = counted.len() as u64;
    let average = |path: &str| sum(path) / count.max(1);
    let texts = |path: &str| {
        let mut texts: BTreeMap<String, u64> = BTreeMap::new();
        for node in &counted {
            let text = node.process.pointer(path).and_then(Value::as_str).unwrap_or_default();
            *texts.entry(text.to_owned()).or_default() += 1;
        }
        texts
    };
    let pretty = texts("/info/os/pretty_name").into_iter();
    let pretty: Vec<Value> =
        pretty.map(|(name, count)| json!({ "pretty_name": name, "count": count })).collect();
    let versions: Vec<String> = texts("/info/version").into_keys().collect();
    let (memory, free) = (sum("/stats/os/mem/total_in_bytes"), sum("/stats/os/mem/free_in_bytes"));
    let memory = Memory { total: memory, free, ..Memory::default() };
    let files = "/stats/process/open_file_descriptors";
    let discovery = if views.len() > 1 { "log" } else { "single-node" };
    let mut discovery_types = Map::new();
    discovery_types.insert(discovery.to_owned(), json!(count));
    let data = views.iter().filter(|view| !view.roles().is_empty()).count() as u64;
    json!({
        "count": {
            "total": count,
            "cluster_manager": data,
            "coordinating_only": count - data,
            "data": data,
            "ingest": data,
            "master": data,
            "remote_cluster_client": data,
            "search": 0,
        },
        "versions": versions,
        "os": {
            "available_processors": sum("/info/os/available_processors"),
            "allocated_processors": sum("/info/os/allocated_processors"),
            "names": [{ "name": "Linux", "count": count }],
            "pretty_names": pretty,
            "mem": memory.json(),
        },
        "process": {
            "cpu": { "percent": sum("/stats/process/cpu/percent") },
            "open_file_descriptors": {
                "min": values(files).into_iter().min(),
                "max": most(files),
                "avg": average(files),
            },
        },
        "jvm": {
            "max_uptime_in_millis": most("/stats/jvm/uptime_in_millis"),
            "versions": [],
            "mem": {
                "heap_used_in_bytes": sum("/stats/jvm/mem/heap_used_in_bytes"),
                "heap_max_in_bytes": sum("/stats/jvm/mem/heap_max_in_bytes"),
            },
            "threads": sum("/stats/jvm/threads/count"),
        },
        "fs": {
            "total_in_bytes": sum("/stats/fs/total/total_in_bytes"),
            "free_in_bytes": sum("/stats/fs/total/free_in_bytes"),
            "available_in_bytes": sum("/stats/fs/total/available_in_bytes"),
        },
        "plugins": [],
        "network_types": { "transport_types": {}, "http_types": {} },
        "discovery_types": discovery_types,
        "packaging_types": [{ "type": "tar", "count": count }],
        "ingest": { "number_of_pipelines": 0, "processor_stats": {} },
    })
}
