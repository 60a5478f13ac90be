//! `_nodes/stats`: how the node does. Figures of the machine and the process are measured; what
//! only a Java program or a larger cluster has is there, because clients read it without asking
//! whether it is, and says 0.

use std::collections::BTreeMap;

use plimsoll_cluster::{
    CopyStatistics, NodeSelection, NodeStatistics, PartitionOverview, PoolStatistics,
};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::all::{self, NodeView};
use super::machine::{self, Disk, Memory};
use crate::node::unix_ms;
use crate::process;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::shared::Rest;
use crate::rest::stats::figures::{Figures, Wanted};
use crate::rest::stats::indices::{ShardCopy, shard};

/// The parts of an answer: the name that asks for each and the name that it has.
const PARTS: [(&str, &str); 14] = [
    ("indices", "indices"),
    ("os", "os"),
    ("process", "process"),
    ("jvm", "jvm"),
    ("thread_pool", "thread_pool"),
    ("fs", "fs"),
    ("transport", "transport"),
    ("http", "http"),
    ("breaker", "breakers"),
    ("script", "script"),
    ("ingest", "ingest"),
    ("adaptive_selection", "adaptive_selection"),
    // Elasticsearch's part has nodes alone in it.
    ("adaptive_selection", "replica_selection"),
    ("indexing_pressure", "indexing_pressure"),
];
/// Parts of one version or another that there is nothing to say of.
const EMPTY_PARTS: [&str; 14] = [
    "discovery",
    "script_cache",
    "shard_indexing_pressure",
    "search_backpressure",
    "cluster_manager_throttling",
    "weighted_routing",
    "file_cache",
    "task_cancellation",
    "search_pipeline",
    "resource_usage_stats",
    "segment_replication_backpressure",
    "repositories",
    "admission_control",
    "caches",
];
/// Pools that clients look for. `search` has threads of its own, `write` is what waits for the log
/// at the node's leads; the others share the threads of HTTP and RESP, which have no queues.
pub const POOLS: [&str; 14] = [
    "analyze",
    "fetch_shard_started",
    "fetch_shard_store",
    "flush",
    "force_merge",
    "generic",
    "get",
    "management",
    "refresh",
    "search",
    "search_throttled",
    "snapshot",
    "warmer",
    "write",
];

/// GET `/_nodes[/{node}]/stats[/{metric}[/{section}]]`.
///
/// # Errors
/// 400 for a part, a section or a level that there is none of.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let wanted: Option<Vec<&str>> = match call.part("metric") {
        None | Some("_all") => None,
        Some(list) => Some(list.split(',').map(str::trim).collect()),
    };
    let is_part =
        |name: &str| PARTS.iter().any(|(known, _)| *known == name) || EMPTY_PARTS.contains(&name);
    if let Some(unknown) = wanted.iter().flatten().find(|name| !is_part(name)) {
        return Err(Error::illegal_argument(format!(
            "request [{}] contains unrecognized metric: [{unknown}]",
            call.path
        )));
    }
    let mut sections = Wanted::parse(call.part("section"), &call.path)?;
    sections.has_file_sizes = call.query.flag_or("include_segment_file_sizes", false)?;
    let level = call.query.get("level").unwrap_or("node");
    if !matches!(level, "node" | "indices" | "shards" | "cluster") {
        return Err(Error::illegal_argument(format!(
            "level parameter must be one of [indices] or [node] or [shards] but was [{level}]"
        )));
    }
    let (wanted, copies) = (wanted.as_deref(), call.coordinator().copies_of_all());
    let node = |view: &NodeView, told: Option<&NodeStatistics>| {
        let told = told?;
        let stats = told.process.get("stats")?.as_object()?;
        let is_header = |name: &str| !PARTS.iter().any(|(_, known)| *known == name);
        let mut node: Map<String, Value> = stats
            .iter()
            .filter(|(name, _)| is_header(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (metric, name) in PARTS {
            if wanted.is_some_and(|wanted| !wanted.contains(&metric)) {
                continue;
            }
            if metric == "indices" {
                node.insert(name.to_owned(), indices(view, told, &copies, &sections, level));
            } else if let Some(part) = stats.get(name) {
                node.insert(name.to_owned(), part.clone());
            }
        }
        Some(Value::Object(node))
    };
    Ok(super::answer::answer(&call, call.part("node"), node).await)
}

/// This node, but for the figures of its copies.
#[must_use]
pub fn own(rest: &Rest) -> Value {
    let mut node = json!({ "timestamp": unix_ms() });
    if let (Some(node), Value::Object(header)) = (node.as_object_mut(), all::header(rest)) {
        node.extend(header);
    }
    for (metric, name) in PARTS {
        if metric != "indices" {
            node[name] = part(rest, name);
        }
    }
    node
}

/// The sums of this node's copies of all indices.
#[must_use]
pub fn all_figures(rest: &Rest) -> Figures {
    let coordinator = &rest.node.coordinator;
    let mut all = Figures::default();
    for index in coordinator.documents().indices() {
        if let Some(statistics) = coordinator.documents().index_statistics(&index.name) {
            all.add(&Figures::of_index(&statistics));
        }
    }
    all.cache = coordinator.documents().request_cache();
    let count = |scrolls: bool| coordinator.documents().contexts(scrolls).len() as u64;
    all.contexts = (count(true), count(false));
    all.views = coordinator.documents().held_views() as u64;
    all
}

fn indices(
    view: &NodeView,
    told: &NodeStatistics,
    partitions: &[PartitionOverview],
    sections: &Wanted,
    level: &str,
) -> Value {
    let mut answer = all::figures(told).json(sections);
    if matches!(level, "indices" | "shards") {
        let mut by_index: BTreeMap<&str, Vec<&CopyStatistics>> = BTreeMap::new();
        for copy in &told.copies {
            by_index.entry(copy.table.as_str()).or_default().push(copy);
        }
        let entry = |(name, copies): (&str, Vec<&CopyStatistics>)| {
            let entry = if level == "indices" {
                let mut sum = Figures::default();
                copies.iter().for_each(|it| sum.add(&Figures::of_partition(&it.statistics)));
                Value::Object(sum.json(sections))
            } else {
                let shard = |copy: &&CopyStatistics| {
                    let is = |it: &&PartitionOverview| {
                        it.table == copy.table && it.ordinal == copy.ordinal
                    };
                    let partition = partitions.iter().find(is);
                    let first = partition.and_then(|it| it.copies.first()?.node());
                    let place = ShardCopy {
                        node: &view.id,
                        is_first: first == Some(&view.member.id),
                        is_serving: true,
                        data: all::data_path(told),
                    };
                    json!({ copy.ordinal.to_string(): shard(&place, &copy.statistics, sections) })
                };
                copies.iter().map(shard).collect()
            };
            (name.to_owned(), entry)
        };
        let by_index: Map<String, Value> = by_index.into_iter().map(entry).collect();
        let key = if level == "indices" { "indices" } else { "shards" };
        answer.insert(key.to_owned(), Value::Object(by_index));
    }
    Value::Object(answer)
}

fn part(rest: &Rest, name: &str) -> Value {
    match name {
        "os" => os(),
        "process" => process_part(),
        "jvm" => jvm(rest),
        "thread_pool" => {
            let pools = POOLS.iter().map(|name| ((*name).to_owned(), pool(rest, name)));
            Value::Object(pools.collect())
        }
        "fs" => fs(rest),
        "transport" => json!({
            "server_open": 0,
            "total_outbound_connections": 0,
            "rx_count": 0,
            "rx_size_in_bytes": 0,
            "tx_count": 0,
            "tx_size_in_bytes": 0,
        }),
        "http" => json!({
            "current_open": rest.connections(),
            "total_opened": rest.connections_total.load(std::sync::atomic::Ordering::Relaxed),
        }),
        "breakers" => super::breakers::breakers(rest),
        "script" => {
            json!({ "compilations": 0, "cache_evictions": 0, "compilation_limit_triggered": 0 })
        }
        "ingest" => json!({
            "total": { "count": 0, "time_in_millis": 0, "current": 0, "failed": 0 },
            "pipelines": {},
        }),
        "adaptive_selection" => adaptive_selection(rest),
        "replica_selection" => replica_selection(rest),
        _ => indexing_pressure(rest),
    }
}

fn os() -> Value {
    let memory = Memory::read();
    let [one, five, fifteen] = machine::load_averages();
    json!({
        "timestamp": unix_ms(),
        "cpu": {
            "percent": machine::processors_percent()[0],
            "load_average": { "1m": one, "5m": five, "15m": fifteen },
        },
        "mem": memory.json(),
        "swap": {
            "total_in_bytes": memory.swap_total,
            "free_in_bytes": memory.swap_free,
            "used_in_bytes": memory.swap_total.saturating_sub(memory.swap_free),
        },
    })
}

fn process_part() -> Value {
    let (open, most) = machine::file_descriptors();
    json!({
        "timestamp": unix_ms(),
        "open_file_descriptors": open,
        "max_file_descriptors": most,
        "cpu": {
            "percent": machine::processors_percent()[1],
            "total_in_millis": machine::process_ms(),
        },
        "mem": { "total_virtual_in_bytes": machine::status("VmSize") },
    })
}

/// Memory is that of the process. Nothing collects garbage, so the collectors have never run.
fn jvm(rest: &Rest) -> Value {
    let (used, peak) = (process::resident_bytes(), process::resident_bytes_peak());
    let most = Memory::read().total;
    let pool = |used: u64, peak: u64| {
        json!({
            "used_in_bytes": used,
            "max_in_bytes": 0,
            "peak_used_in_bytes": peak,
            "peak_max_in_bytes": 0,
        })
    };
    let collector = json!({ "collection_count": 0, "collection_time_in_millis": 0 });
    let threads = machine::status("Threads");
    let uptime_ms = u64::try_from(rest.node.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    json!({
        "timestamp": unix_ms(),
        "uptime_in_millis": uptime_ms,
        "mem": {
            "heap_used_in_bytes": used,
            "heap_used_percent": machine::percent(used, most),
            "heap_committed_in_bytes": used,
            "heap_max_in_bytes": most,
            "non_heap_used_in_bytes": 0,
            "non_heap_committed_in_bytes": 0,
            "pools": {
                "young": pool(0, 0),
                "old": pool(used, peak),
                "survivor": pool(0, 0),
            },
        },
        "threads": { "count": threads, "peak_count": threads },
        "gc": { "collectors": { "young": collector, "old": collector } },
        "buffer_pools": {
            "mapped": { "count": 0, "used_in_bytes": 0, "total_capacity_in_bytes": 0 },
            "direct": { "count": 0, "used_in_bytes": 0, "total_capacity_in_bytes": 0 },
        },
        "classes": {
            "current_loaded_count": 0,
            "total_loaded_count": 0,
            "total_unloaded_count": 0,
        },
    })
}

/// The figures of one pool of threads.
#[must_use]
pub fn pool(rest: &Rest, name: &str) -> Value {
    let figures = match name {
        "search" => rest.node.coordinator.documents().search_pool(),
        "write" => rest.node.coordinator.write_pool(),
        _ => PoolStatistics::default(),
    };
    let mut pool = json!({
        "threads": figures.threads,
        "queue": figures.queue,
        "active": figures.active,
        "rejected": figures.rejected,
        "largest": figures.largest,
        "completed": figures.completed,
    });
    if name == "search" {
        pool["admission"] = admission(&figures);
    }
    pool
}

/// What Elasticsearch does not say of a pool: by which rule searches wait, and what it did.
fn admission(figures: &PoolStatistics) -> Value {
    let mut admission = json!({
        "rule": figures.rule,
        "queue_capacity": figures.queue_capacity,
        "oldest_wait_ns": figures.oldest_wait_ns,
        "sent_elsewhere": figures.sent_elsewhere,
    });
    if let Some((rule, would)) = figures.shadow {
        admission["shadow"] = json!({
            "rule": rule,
            "would_refuse": {
                "full": would.full,
                "hopeless": would.hopeless,
                "overload": would.overload,
                "elsewhere": would.elsewhere,
            },
        });
    }
    if figures.rule == "littles_law" {
        let frame = |frame: &plimsoll_cluster::Frame| {
            json!({
                "seconds": frame.seconds,
                "avg_task_ms": frame.avg_task_ms,
                "tasks_s": frame.tasks_s,
                "optimal": frame.optimal,
                "capacity": frame.capacity,
            })
        };
        admission["frames"] = figures.frames.iter().map(frame).collect();
    }
    admission
}

fn fs(rest: &Rest) -> Value {
    let data = &rest.node.settings.data;
    let disk = Disk::of(data);
    let sizes = json!({
        "total_in_bytes": disk.total,
        "free_in_bytes": disk.free,
        "available_in_bytes": disk.available,
    });
    let mut entry = json!({
        "path": data.display().to_string(),
        "mount": disk.mount,
        "type": disk.kind,
    });
    if let (Some(entry), Value::Object(sizes)) = (entry.as_object_mut(), &sizes) {
        entry.extend(sizes.clone());
    }
    let mut io = json!({});
    if let Some(done) = disk.io() {
        let mut device = json!({ "device_name": disk.device });
        if let (Some(device), Value::Object(done)) = (device.as_object_mut(), &done) {
            device.extend(done.clone());
        }
        io = json!({ "devices": [device], "total": done });
    }
    json!({ "timestamp": unix_ms(), "total": sizes, "data": [entry], "io_stats": io })
}

/// What this node, as a coordinator, believes about each that it asks.
fn adaptive_selection(rest: &Rest) -> Value {
    if rest.node.coordinator.is_alone() {
        return alone(rest);
    }
    let nodes = all::there(rest);
    let found = rest.node.coordinator.selection_of_nodes();
    let entry = |(id, node): (String, NodeSelection)| {
        let view = all::find(&nodes, &id)?;
        let mut entry = json!({
            "outgoing_searches": node.outstanding,
            "avg_queue_size": node.queued,
            "avg_service_time_ns": node.service_ns,
            "avg_response_time_ns": node.response_ns,
            "rank": format!("{:.1}", node.rank),
            "picks": node.picks,
            "failures": node.failures,
        });
        if let Some((line, age_ns)) = &node.line {
            entry["load_line"] = load_line(line, *age_ns);
        }
        Some((view.id.clone(), entry))
    };
    Value::Object(found.into_iter().filter_map(entry).collect())
}

/// One node answers all, so it is the only choice.
fn alone(rest: &Rest) -> Value {
    let pool = rest.node.coordinator.documents().search_pool();
    let figures = all_figures(rest);
    let (queries, query_ms) = figures.queries;
    let service_ns = (query_ms * 1_000_000).checked_div(queries).unwrap_or(0);
    let mut nodes = Map::new();
    if queries > 0 {
        let entry = json!({
            "outgoing_searches": pool.active + pool.queue,
            "avg_queue_size": pool.queue,
            "avg_service_time_ns": service_ns,
            "avg_response_time_ns": service_ns,
            "rank": "1.0",
        });
        nodes.insert(rest.identity.node_id.clone(), entry);
    }
    Value::Object(nodes)
}

fn load_line(line: &plimsoll_cluster::LoadLine, age_ns: u64) -> Value {
    // Taken apart, so that no field is left out.
    let plimsoll_cluster::LoadLine {
        boot: _,
        workers,
        cpus,
        in_flight,
        queued,
        work_ns,
        queue_wait_ns,
        oldest_wait_ns,
        run_ns: [get, scan, search, fetch, write],
        runs,
        latency_ns,
        cpu_demand_permille,
        memory_debt_permille,
        write_debt_permille,
    } = *line;
    json!({
        "age_ns": age_ns,
        "workers": workers,
        "cpus": cpus,
        "in_flight": in_flight,
        "queued": queued,
        "work_ns": work_ns,
        "queue_wait_ns": queue_wait_ns,
        "oldest_wait_ns": oldest_wait_ns,
        "run_ns": {
            "get": get, "scan": scan, "search": search, "fetch": fetch, "write": write,
        },
        "runs": runs,
        "latency_ns": latency_ns,
        "cpu_demand_permille": cpu_demand_permille,
        "memory_debt_permille": memory_debt_permille,
        "write_debt_permille": write_debt_permille,
    })
}

/// How this node chooses, and what became of its second thoughts.
fn replica_selection(rest: &Rest) -> Value {
    let found = rest.node.coordinator.selection();
    let mut answer = json!({
        "rule": found.rule,
        "hedging": found.hedging,
        "hedges": { "wanted": found.hedges.0, "sent": found.hedges.1 },
        "retries": { "sent": found.retries.0, "over_budget": found.retries.1 },
    });
    if let Some((rule, picks)) = found.shadow {
        answer["shadow"] =
            json!({ "rule": rule, "picks": picks.picks, "differed": picks.differed });
    }
    answer
}

fn indexing_pressure(rest: &Rest) -> Value {
    let held = rest.in_flight.bytes();
    json!({ "memory": {
        "current": {
            "combined_coordinating_and_primary_in_bytes": held,
            "coordinating_in_bytes": held,
            "primary_in_bytes": 0,
            "replica_in_bytes": 0,
            "all_in_bytes": held,
        },
        "total": {
            "combined_coordinating_and_primary_in_bytes": 0,
            "coordinating_in_bytes": 0,
            "primary_in_bytes": 0,
            "replica_in_bytes": 0,
            "all_in_bytes": 0,
            "coordinating_rejections": 0,
            "primary_rejections": 0,
            "replica_rejections": 0,
        },
        "limit_in_bytes": rest.in_flight.bytes_max(),
    } })
}
