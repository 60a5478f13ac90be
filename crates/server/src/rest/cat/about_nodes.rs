//! Tables of nodes: how they do, and what is on them.

use plimsoll_cluster::{CopyStatus, NodeStatistics};
use plimsoll_index::Error;
use serde_json::Value;

use super::table::{Cell, Column, answer, number, text};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::nodes::all::{self, NodeView};
use crate::rest::nodes::machine;
use crate::rest::nodes::statistics;
use crate::rest::nodes::stats::POOLS;
use plimsoll_stdx::wildcard_matches;

const NODES: &[Column] = &[
    text("id", "id,nodeId", "unique node id").hidden(),
    text("pid", "p", "process id").hidden(),
    text("ip", "i", "ip address"),
    text("port", "po", "bound transport port").hidden(),
    text("http_address", "http", "bound http address").hidden(),
    text("version", "v", "es version").hidden(),
    text("build", "b", "es build hash").hidden(),
    number("disk.total", "dt,diskTotal", "total disk space").hidden(),
    number("disk.used", "du,diskUsed", "used disk space").hidden(),
    number("disk.avail", "d,da,disk,diskAvail", "available disk space").hidden(),
    number("disk.used_percent", "dup,diskUsedPercent", "used disk space percentage").hidden(),
    number("heap.current", "hc,heapCurrent", "used heap").hidden(),
    number("heap.percent", "hp,heapPercent", "used heap ratio"),
    number("heap.max", "hm,heapMax", "max configured heap").hidden(),
    number("ram.current", "rc,ramCurrent", "used machine memory").hidden(),
    number("ram.percent", "rp,ramPercent", "used machine memory ratio"),
    number("ram.max", "rm,ramMax", "total machine memory").hidden(),
    number("file_desc.current", "fdc,fileDescriptorCurrent", "used file descriptors").hidden(),
    number("file_desc.max", "fdm,fileDescriptorMax", "max file descriptors").hidden(),
    number("cpu", "cpu", "recent cpu usage"),
    number("load_1m", "l", "1m load avg"),
    number("load_5m", "l", "5m load avg"),
    number("load_15m", "l", "15m load avg"),
    text("uptime", "u", "node uptime").hidden(),
    text("node.role", "r,role,nodeRole", "m:master eligible node, d:data node, i:ingest node"),
    text("node.roles", "rs,all roles", "comma separated roles of the node"),
    text("cluster_manager", "cm,m,master", "*:current cluster manager"),
    text("name", "n", "node name"),
    number("search.query_total", "sqto,searchQueryTotal", "total query phase ops").hidden(),
    number("segments.count", "sc,segmentsCount", "number of segments").hidden(),
];

/// GET `/_cat/nodes`.
///
/// # Errors
/// None of its own.
pub async fn nodes(call: Call) -> Result<Answer, Error> {
    let told = statistics(&call.rest).await;
    let is_full = call.query.flag_or("full_id", false)?;
    let row = |view: &NodeView| node_row(view, told.node(&view.member.id), is_full);
    let rows = all::there(&call.rest).iter().map(row).collect();
    answer(&call, NODES, rows)
}

/// A node's row; one that did not answer in time has its names alone.
fn node_row(view: &NodeView, told: Option<&NodeStatistics>, is_full: bool) -> Vec<Cell> {
    let value = |path: &str| told.and_then(|told| told.process.pointer(path));
    let number = |path: &str| value(path).and_then(Value::as_u64);
    let count = |path: &str| number(path).map_or(Cell::None, Cell::Number);
    let bytes = |path: &str| number(path).map_or(Cell::None, Cell::Bytes);
    let text = |path: &str| match value(path) {
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(Value::Number(number)) => Cell::Text(number.to_string()),
        _ => Cell::None,
    };
    let load = |path: &str| {
        let load = value(path).and_then(Value::as_f64);
        load.map_or(Cell::None, |load| Cell::Decimal(load, format!("{load:.2}")))
    };
    let figures = told.map(all::figures);
    let total = number("/stats/fs/total/total_in_bytes");
    let free = number("/stats/fs/total/free_in_bytes");
    let used = total.zip(free).map(|(total, free)| total.saturating_sub(free));
    let disk_percent = used.zip(total).map(|(used, total)| machine::percent(used, total));
    let uptime_ms = number("/stats/jvm/uptime_in_millis");
    let id = &view.id;
    vec![
        if is_full { id.as_str() } else { id.get(..4).unwrap_or(id) }.into(),
        text("/info/process/id"),
        view.ip().into(),
        view.port().into(),
        view.http().into(),
        text("/info/version"),
        crate::rest::identity::BUILD_HASH.into(),
        bytes("/stats/fs/total/total_in_bytes"),
        used.map_or(Cell::None, Cell::Bytes),
        bytes("/stats/fs/total/available_in_bytes"),
        disk_percent.map_or(Cell::None, Cell::Number),
        bytes("/stats/jvm/mem/heap_used_in_bytes"),
        count("/stats/jvm/mem/heap_used_percent"),
        bytes("/stats/jvm/mem/heap_max_in_bytes"),
        bytes("/stats/os/mem/used_in_bytes"),
        count("/stats/os/mem/used_percent"),
        bytes("/stats/os/mem/total_in_bytes"),
        count("/stats/process/open_file_descriptors"),
        count("/stats/process/max_file_descriptors"),
        count("/stats/os/cpu/percent"),
        load("/stats/os/cpu/load_average/1m"),
        load("/stats/os/cpu/load_average/5m"),
        load("/stats/os/cpu/load_average/15m"),
        uptime_ms.map_or(Cell::None, Cell::Millis),
        if view.roles().is_empty() { "-" } else { "dimr" }.into(),
        if view.roles().is_empty() { "-".to_owned() } else { view.roles().join(",") }.into(),
        if view.member.is_manager { "*" } else { "-" }.into(),
        view.name().into(),
        figures.as_ref().map_or(Cell::None, |it| it.queries.0.into()),
        figures.as_ref().map_or(Cell::None, |it| it.segments.into()),
    ]
}

const ATTRIBUTES: &[Column] = &[
    text("node", "name", "node name"),
    text("id", "id,nodeId", "unique node id").hidden(),
    text("host", "h", "host name"),
    text("ip", "i", "ip address"),
    text("attr", "attr.name", "attribute description"),
    text("value", "attr.value", "attribute value"),
];

/// GET `/_cat/nodeattrs`: where each node stands, where that was said.
///
/// # Errors
/// None of its own.
pub async fn attributes(call: Call) -> Result<Answer, Error> {
    let views = all::there(&call.rest);
    let said = views.iter().filter(|view| !view.member.record.zone.is_empty());
    let row = |view: &NodeView| {
        let zone = view.member.record.zone.as_str();
        vec![
            view.name().into(),
            view.id.clone().into(),
            view.ip().into(),
            view.ip().into(),
            "zone".into(),
            zone.into(),
        ]
    };
    answer(&call, ATTRIBUTES, said.map(row).collect())
}

const ALLOCATION: &[Column] = &[
    number("shards", "s", "number of shards on node"),
    number("disk.indices", "di,diskIndices", "disk used by indices"),
    number("disk.used", "du,diskUsed", "disk used (total, not just by indices)"),
    number("disk.avail", "da,diskAvail", "disk available"),
    number("disk.total", "dt,diskTotal", "total capacity of all volumes"),
    number("disk.percent", "dp,diskPercent", "percent disk used"),
    text("host", "h", "host of node"),
    text("ip", "", "ip of node"),
    text("node", "n", "name of node"),
];

/// GET `/_cat/allocation[/{node}]`.
///
/// # Errors
/// None of its own.
pub async fn allocation(call: Call) -> Result<Answer, Error> {
    let told = statistics(&call.rest).await;
    let partitions = call.coordinator().copies_of_all();
    let copies: Vec<&CopyStatus> =
        partitions.iter().filter(|it| it.is_index).flat_map(|it| &it.copies).collect();
    let nowhere = copies.iter().filter(|copy| copy.node().is_none()).count();
    let mut rows = Vec::new();
    for view in all::there(&call.rest).iter().filter(|it| it.is_meant(call.part("node"))) {
        let id = view.member.id.as_str();
        let here = copies.iter().filter(|copy| copy.node() == Some(id)).count();
        let mut row: Vec<Cell> = vec![here.into()];
        match told.node(id) {
            Some(told) => {
                let disk = |name: &str| told.process["stats"]["fs"]["total"][name].as_u64();
                let disk = |name: &str| disk(name).unwrap_or(0);
                let total = disk("total_in_bytes");
                let used = total.saturating_sub(disk("free_in_bytes"));
                row.push(Cell::Bytes(all::figures(told).store_bytes));
                row.push(Cell::Bytes(used));
                row.push(Cell::Bytes(disk("available_in_bytes")));
                row.push(Cell::Bytes(total));
                row.push(machine::percent(used, total).into());
            }
            None => row.resize(6, Cell::None),
        }
        row.extend([view.ip().into(), view.ip().into(), view.name().into()]);
        rows.push(row);
    }
    if nowhere > 0 && call.part("node").is_none() {
        let mut row: Vec<Cell> = vec![nowhere.into()];
        row.resize(ALLOCATION.len() - 1, Cell::None);
        row.push("UNASSIGNED".into());
        rows.push(row);
    }
    answer(&call, ALLOCATION, rows)
}

const THREAD_POOL: &[Column] = &[
    text("node_name", "nn", "node name"),
    text("node_id", "id", "persistent node id").hidden(),
    text("pid", "p", "process id").hidden(),
    text("host", "h", "host name").hidden(),
    text("ip", "i", "ip address").hidden(),
    text("name", "n", "thread pool name"),
    number("pool_size", "psz", "number of threads").hidden(),
    number("active", "a", "number of active threads"),
    number("queue", "q", "number of tasks currently in queue"),
    number("rejected", "r", "number of rejected tasks"),
    number("largest", "l", "highest number of seen active threads").hidden(),
    number("completed", "c", "number of completed tasks").hidden(),
    number("queue_size", "qs", "number of tasks that may wait").hidden(),
    text("admission", "ad", "rule by which tasks wait").hidden(),
];

/// GET `/_cat/thread_pool[/{pools}]`.
///
/// # Errors
/// None of its own.
pub async fn thread_pool(call: Call) -> Result<Answer, Error> {
    let nodes = all::there(&call.rest);
    let found = statistics(&call.rest).await;
    let patterns: Vec<&str> = call.part("pools").unwrap_or("*").split(',').collect();
    let is_wanted = |name: &&str| {
        patterns.iter().any(|pattern| *pattern == "_all" || wildcard_matches(pattern, name))
    };
    let mut rows = Vec::new();
    for view in &nodes {
        let told = found.node(&view.member.id);
        let value = |path: String| told.and_then(|told| told.process.pointer(&path));
        for name in POOLS.iter().copied().filter(is_wanted) {
            let figure = |key: &str| {
                let number = value(format!("/stats/thread_pool/{name}/{key}"));
                number.and_then(Value::as_u64).map_or(Cell::None, Cell::Number)
            };
            let word = |key: &str| {
                let word = value(format!("/stats/thread_pool/{name}/admission/{key}"));
                match word {
                    Some(Value::String(word)) => Cell::Text(word.clone()),
                    Some(Value::Number(number)) => number.as_u64().map_or(Cell::None, Cell::Number),
                    _ => Cell::None,
                }
            };
            let pid = value("/info/process/id".to_owned()).map(ToString::to_string);
            rows.push(vec![
                view.name().into(),
                view.id.clone().into(),
                pid.map_or(Cell::None, Cell::Text),
                view.ip().into(),
                view.ip().into(),
                name.into(),
                figure("threads"),
                figure("active"),
                figure("queue"),
                figure("rejected"),
                figure("largest"),
                figure("completed"),
                word("queue_capacity"),
                word("rule"),
            ]);
        }
    }
    answer(&call, THREAD_POOL, rows)
}
