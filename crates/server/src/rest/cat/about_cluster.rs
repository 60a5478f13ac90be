//! Tables of the cluster: its health, who leads it, what it does.

use plimsoll_index::Error;

use super::table::{Cell, Column, answer, number, text};
use crate::node::unix_time;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::cluster::health::of_cluster;
use crate::rest::nodes::all::{self, NodeView};
use crate::rest::tasks;

/// Seconds since 1970, and the time of the day in UTC.
#[must_use]
pub fn clock() -> (u64, String) {
    let seconds = unix_time().as_secs();
    let of_day = seconds % 86_400;
    let time = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    (seconds, time)
}

const HEALTH: &[Column] = &[
    text("epoch", "t,time", "seconds since 1970-01-01 00:00:00"),
    text("timestamp", "ts,hms,hhmmss", "time in HH:MM:SS"),
    text("cluster", "cl", "cluster name"),
    text("status", "st", "health status"),
    number("node.total", "nt,nodeTotal", "total number of nodes"),
    number("node.data", "nd,nodeData", "number of nodes that can store data"),
    number("discovered_cluster_manager", "dcm", "cluster manager is discovered or not").hidden(),
    number("shards", "t,sh,shards.total,shardsTotal", "total number of shards"),
    number("pri", "p,shards.primary,shardsPrimary", "number of primary shards"),
    number("relo", "r,shards.relocating,shardsRelocating", "number of relocating nodes"),
    number("init", "i,shards.initializing,shardsInitializing", "number of initializing nodes"),
    number("unassign", "u,shards.unassigned,shardsUnassigned", "number of unassigned shards"),
    number("pending_tasks", "pt,pendingTasks", "number of pending tasks"),
    number("max_task_wait_time", "mtwt,maxTaskWaitTime", "wait time of longest task pending"),
    number(
        "active_shards_percent",
        "asp,activeShardsPercent",
        "active number of shards in percent",
    ),
];

/// GET `/_cat/health`.
///
/// # Errors
/// None of its own.
pub async fn health(call: Call) -> Result<Answer, Error> {
    let health = of_cluster(&call.rest);
    let percent = health.percent();
    let nodes = all::there(&call.rest).len();
    let (epoch, time) = clock();
    let row = vec![
        epoch.to_string().into(),
        time.into(),
        call.rest.node.settings.cluster_name.clone().into(),
        health.status().name().into(),
        nodes.into(),
        nodes.into(),
        "true".into(),
        health.active.into(),
        health.primaries.into(),
        health.relocating.into(),
        health.initializing.into(),
        health.unassigned.into(),
        Cell::Number(0),
        "-".into(),
        Cell::Decimal(percent, format!("{percent:.1}%")),
    ];
    answer(&call, HEALTH, vec![row])
}

const MASTER: &[Column] = &[
    text("id", "", "node id"),
    text("host", "h", "host name"),
    text("ip", "", "ip address"),
    text("node", "n", "node name"),
];

/// GET `/_cat/master`.
///
/// # Errors
/// None of its own.
pub async fn master(call: Call) -> Result<Answer, Error> {
    let views = all::there(&call.rest);
    let row = |view: &NodeView| {
        vec![view.id.clone().into(), view.ip().into(), view.ip().into(), view.name().into()]
    };
    let rows = all::manager(&views).map(row).into_iter().collect();
    answer(&call, MASTER, rows)
}

const PENDING: &[Column] = &[
    number("insertOrder", "o", "task insertion order"),
    number("timeInQueue", "t", "how long task has been in queue"),
    text("priority", "p", "task priority"),
    text("source", "s", "task source"),
];

/// GET `/_cat/pending_tasks`: changes of metadata are made when they are asked for.
///
/// # Errors
/// None of its own.
pub async fn pending_tasks(call: Call) -> Result<Answer, Error> {
    answer(&call, PENDING, Vec::new())
}

const TASKS: &[Column] = &[
    text("action", "ac", "task action"),
    text("task_id", "ti", "unique task id"),
    text("parent_task_id", "pti", "parent task id"),
    text("type", "ty", "task type"),
    text("start_time", "start", "start time in ms"),
    text("timestamp", "ts,hms,hhmmss", "start time in HH:MM:SS"),
    number("running_time", "time", "running time"),
    text("ip", "i", "ip address"),
    text("node", "n", "node name"),
];

/// GET `/_cat/tasks`.
///
/// # Errors
/// None of its own.
pub async fn tasks(call: Call) -> Result<Answer, Error> {
    let row = |task: serde_json::Value| {
        let nanos = task["running_time_in_nanos"].as_u64().unwrap_or(0);
        let name = format!("{}:{}", task["node"].as_str().unwrap_or_default(), task["id"]);
        vec![
            task["action"].as_str().unwrap_or_default().into(),
            name.into(),
            "-".into(),
            "transport".into(),
            task["start_time_in_millis"].to_string().into(),
            clock().1.into(),
            Cell::Millis(nanos / 1_000_000),
            call.rest.address.ip().to_string().into(),
            call.rest.node.settings.node_name.clone().into(),
        ]
    };
    let rows = tasks::own(&call.rest).into_iter().map(row).collect();
    answer(&call, TASKS, rows)
}

const PLUGINS: &[Column] = &[
    text("name", "n", "node name"),
    text("component", "c", "component"),
    text("version", "v", "component version"),
];

/// GET `/_cat/plugins`: there are none.
///
/// # Errors
/// None of its own.
pub async fn plugins(call: Call) -> Result<Answer, Error> {
    answer(&call, PLUGINS, Vec::new())
}

const REPOSITORIES: &[Column] =
    &[text("id", "id,repoId", "unique repository id"), text("type", "t,type", "repository type")];

/// GET `/_cat/repositories`: there are none.
///
/// # Errors
/// None of its own.
pub async fn repositories(call: Call) -> Result<Answer, Error> {
    answer(&call, REPOSITORIES, Vec::new())
}
