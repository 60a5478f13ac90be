//! Tables of nodes: how they do, and what is on them.

use plimsoll_index::Error;

use super::table::{Cell, Column, answer, number, text};
use crate::process;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::filter_path::wildcard_matches;
use crate::rest::nodes::machine::{self, Disk, Memory};
use crate::rest::nodes::stats::{POOLS, all_figures, pool};
use crate::rest::nodes::{ROLES, is_meant};

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
    let rest = &call.rest;
    let settings = &rest.node.settings;
    let (memory, disk) = (Memory::read(), Disk::of(&settings.data));
    let (resident, figures) = (process::resident_bytes(), all_figures(rest));
    let (open_files, files_max) = machine::file_descriptors();
    let is_full = call.query.flag_or("full_id", false)?;
    let id = &rest.identity.node_id;
    let load = machine::load_averages().map(|load| Cell::Decimal(load, format!("{load:.2}")));
    let [load_1m, load_5m, load_15m] = load;
    let uptime_ms = u64::try_from(rest.node.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let row = vec![
        if is_full { id.as_str() } else { id.get(..4).unwrap_or(id) }.into(),
        std::process::id().to_string().into(),
        rest.address.ip().to_string().into(),
        rest.address.port().to_string().into(),
        rest.address.to_string().into(),
        settings.rest_version.clone().into(),
        crate::rest::identity::BUILD_HASH.into(),
        Cell::Bytes(disk.total),
        Cell::Bytes(disk.used()),
        Cell::Bytes(disk.available),
        machine::percent(disk.used(), disk.total).into(),
        Cell::Bytes(resident),
        machine::percent(resident, memory.total).into(),
        Cell::Bytes(memory.total),
        Cell::Bytes(memory.used()),
        machine::percent(memory.used(), memory.total).into(),
        Cell::Bytes(memory.total),
        open_files.into(),
        files_max.into(),
        machine::processors_percent()[0].into(),
        load_1m,
        load_5m,
        load_15m,
        Cell::Millis(uptime_ms),
        "dimr".into(),
        ROLES.join(",").into(),
        "*".into(),
        settings.node_name.clone().into(),
        figures.queries.0.into(),
        figures.segments.into(),
    ];
    answer(&call, NODES, vec![row])
}

const ATTRIBUTES: &[Column] = &[
    text("node", "name", "node name"),
    text("id", "id,nodeId", "unique node id").hidden(),
    text("host", "h", "host name"),
    text("ip", "i", "ip address"),
    text("attr", "attr.name", "attribute description"),
    text("value", "attr.value", "attribute value"),
];

/// GET `/_cat/nodeattrs`: the node has none.
///
/// # Errors
/// None of its own.
pub async fn attributes(call: Call) -> Result<Answer, Error> {
    answer(&call, ATTRIBUTES, Vec::new())
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
    let rest = &call.rest;
    let indices = call.coordinator().indices();
    let here: u64 = indices.iter().map(|index| u64::from(index.partitions)).sum();
    let nowhere: u64 =
        indices.iter().map(|index| u64::from(index.partitions) * u64::from(index.replicas)).sum();
    let disk = Disk::of(&rest.node.settings.data);
    let ip = rest.address.ip().to_string();
    let mut rows = Vec::new();
    if is_meant(rest, call.part("node")) {
        rows.push(vec![
            here.into(),
            Cell::Bytes(all_figures(rest).store_bytes),
            Cell::Bytes(disk.used()),
            Cell::Bytes(disk.available),
            Cell::Bytes(disk.total),
            machine::percent(disk.used(), disk.total).into(),
            ip.clone().into(),
            ip.into(),
            rest.node.settings.node_name.clone().into(),
        ]);
    }
    if nowhere > 0 && call.part("node").is_none() {
        let mut row = vec![Cell::Number(nowhere)];
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
];

/// GET `/_cat/thread_pool[/{pools}]`.
///
/// # Errors
/// None of its own.
pub async fn thread_pool(call: Call) -> Result<Answer, Error> {
    let rest = &call.rest;
    let patterns: Vec<&str> = call.part("pools").unwrap_or("*").split(',').collect();
    let is_wanted = |name: &&str| {
        patterns.iter().any(|pattern| *pattern == "_all" || wildcard_matches(pattern, name))
    };
    let row = |name: &str| {
        let figures = pool(rest, name);
        let figure = |key: &str| Cell::Number(figures[key].as_u64().unwrap_or(0));
        vec![
            rest.node.settings.node_name.clone().into(),
            rest.identity.node_id.clone().into(),
            std::process::id().to_string().into(),
            rest.address.ip().to_string().into(),
            rest.address.ip().to_string().into(),
            name.into(),
            figure("threads"),
            figure("active"),
            figure("queue"),
            figure("rejected"),
            figure("largest"),
            figure("completed"),
        ]
    };
    let rows = POOLS.iter().copied().filter(is_wanted).map(row).collect();
    answer(&call, THREAD_POOL, rows)
}
