//! `_tasks`: the requests that are under way on all nodes, what each holds and took, and telling
//! one to stop. What a request is called is in [`action`].

pub mod action;

use plimsoll_index::Error;
use plimsoll_memory::account::{Told, open_accounts};
use plimsoll_memory::{Account, Standing};
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::needs::{CLUSTER_MANAGE, CLUSTER_MONITOR};
use super::nodes::all;
use super::route::{Route, Verb, route};
use super::shared::Rest;
use crate::settings::ROLES;
use Verb::{Get, Post};
use plimsoll_stdx::wildcard_matches;

const LIST: &[&str] = &[
    "actions",
    "detailed",
    "group_by",
    "nodes",
    "parent_task_id",
    "timeout",
    "wait_for_completion",
];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_tasks", &[LIST], CLUSTER_MONITOR, |call| Box::pin(list(call))),
    route(&[Get], "/_tasks/{id}", &[LIST], CLUSTER_MONITOR, |call| Box::pin(one(call))),
    route(&[Post], "/_tasks/_cancel", &[LIST], CLUSTER_MANAGE, |call| Box::pin(cancel_all(call))),
    route(&[Post], "/_tasks/{id}/_cancel", &[LIST], CLUSTER_MANAGE, |call| Box::pin(cancel(call))),
];

/// The requests under way on this node, as JSON: everything that is told of them.
#[must_use]
pub fn own(rest: &Rest) -> Vec<Value> {
    let node_id = &rest.identity.node_id;
    open_accounts().iter().map(|account| task(node_id, &account.told())).collect()
}

fn task(node_id: &str, told: &Told) -> Value {
    let number = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut headers = Map::new();
    if let Some(id) = &told.opaque_id {
        headers.insert("X-Opaque-Id".to_owned(), json!(id));
    }
    json!({
        "node": node_id,
        "id": told.number,
        "type": "transport",
        "action": told.action,
        "description": told.description,
        "start_time_in_millis": told.began_ms,
        "running_time_in_nanos": number(told.running),
        "cancellable": told.standing != Standing::Control,
        "cancelled": told.is_stopped,
        "headers": headers,
        "resource_stats": { "total": {
            "cpu_time_in_nanos": number(told.cpu),
            "memory_in_bytes": told.bytes,
            "peak_memory_in_bytes": told.peak_bytes,
        } },
    })
}

/// A node and its requests that are asked for.
struct OfNode {
    id: String,
    member: String,
    header: Value,
    tasks: Vec<Value>,
}

/// The requests of all nodes, as far as they are wanted.
async fn of_all(call: &Call) -> Vec<OfNode> {
    let actions = call.query.list("actions");
    let is_wanted = |task: &Value| {
        let action = task["action"].as_str().unwrap_or_default();
        actions.is_empty() || actions.iter().any(|pattern| wildcard_matches(pattern, action))
    };
    let told = call.coordinator().cluster_statistics().await;
    let mut found = Vec::new();
    for view in all::there(&call.rest) {
        if !view.is_meant(call.query.get("nodes")) {
            continue;
        }
        let Some(node) = told.node(&view.member.id) else { continue };
        let all_tasks = node.process["tasks"].as_array().cloned().unwrap_or_default();
        let tasks: Vec<Value> = all_tasks.into_iter().filter(is_wanted).collect();
        let header = json!({
            "name": view.name(),
            "transport_address": view.transport(),
            "host": view.ip(),
            "ip": view.transport(),
            "roles": ROLES,
        });
        found.push(OfNode { id: view.id.clone(), member: view.member.id, header, tasks });
    }
    found
}

/// The full name of a request.
fn name(task: &Value) -> String {
    format!("{}:{}", task["node"].as_str().unwrap_or_default(), task["id"])
}

/// Without what is only told where `detailed` asks for it.
fn shown(mut task: Value, is_detailed: bool) -> Value {
    if let Some(task) = task.as_object_mut().filter(|_| !is_detailed) {
        task.remove("description");
    }
    task
}

async fn list(call: Call) -> Result<Answer, Error> {
    let is_detailed = call.query.flag_or("detailed", false)?;
    let group_by = call.query.get("group_by").unwrap_or("nodes");
    if !matches!(group_by, "nodes" | "none" | "parents") {
        return Err(Error::illegal_argument(format!(
            "group_by is [{group_by}], and can be [nodes], [parents] or [none]"
        )));
    }
    let found = of_all(&call).await;
    Ok(Answer::json(&grouped(found, group_by, is_detailed)))
}

fn grouped(found: Vec<OfNode>, group_by: &str, is_detailed: bool) -> Value {
    if group_by == "nodes" {
        let mut all = Map::new();
        for node in found.into_iter().filter(|node| !node.tasks.is_empty()) {
            let tasks = node.tasks.into_iter();
            let tasks: Map<String, Value> =
                tasks.map(|task| (name(&task), shown(task, is_detailed))).collect();
            let mut entry = node.header;
            entry["tasks"] = Value::Object(tasks);
            all.insert(node.id, entry);
        }
        return json!({ "nodes": all });
    }
    let tasks = found.into_iter().flat_map(|node| node.tasks);
    if group_by == "none" {
        let tasks: Vec<Value> = tasks.map(|task| shown(task, is_detailed)).collect();
        return json!({ "tasks": tasks });
    }
    let tasks: Map<String, Value> =
        tasks.map(|task| (name(&task), shown(task, is_detailed))).collect();
    json!({ "tasks": tasks })
}

/// The node and number of a request's name, as the call says it.
fn named(call: &Call) -> Result<(&str, u64), Error> {
    let id = call.part("id").unwrap_or_default();
    let malformed = || Error::illegal_argument(format!("malformed task id {id}"));
    let (node, number) = id.split_once(':').ok_or_else(malformed)?;
    let number: i64 = number.parse().map_err(|_| malformed())?;
    // No request has a number below 1.
    Ok((node, u64::try_from(number).unwrap_or(0)))
}

fn not_found(call: &Call, node: &str) -> Error {
    let id = call.part("id").unwrap_or_default();
    let is_known = all::there(&call.rest).iter().any(|view| view.id == node);
    let reason = if is_known {
        format!("task [{id}] isn't running and hasn't stored its results")
    } else {
        format!(
            "task [{id}] belongs to the node [{node}] which isn't part of the cluster and there is \
             no record of the task"
        )
    };
    Error::not_found("resource_not_found_exception", reason)
}

async fn one(call: Call) -> Result<Answer, Error> {
    let (node, number) = named(&call)?;
    let found = of_all(&call).await;
    let tasks = found.into_iter().filter(|it| it.id == node).flat_map(|it| it.tasks);
    let task = tasks.into_iter().find(|task| task["id"] == number);
    let task = task.ok_or_else(|| not_found(&call, node))?;
    Ok(Answer::json(&json!({ "completed": false, "task": task })))
}

async fn cancel(call: Call) -> Result<Answer, Error> {
    let (node, number) = named(&call)?;
    let own = (node == call.rest.identity.node_id).then(|| plimsoll_memory::account::find(number));
    if let Some(Some(account)) = &own
        && account.standing() == Standing::Control
    {
        let id = call.part("id").unwrap_or_default();
        let reason = format!("task [{id}] doesn't support cancellation");
        return Err(Error::illegal_argument(reason));
    }
    let mut found = of_all(&call).await;
    found.retain(|it| it.id == node);
    for node in &mut found {
        node.tasks.retain(|task| task["id"] == number);
    }
    let is_there = found.iter().any(|node| !node.tasks.is_empty());
    if !is_there || !stop(&call, &mut found).await {
        return Err(not_found(&call, node));
    }
    Ok(Answer::json(&grouped(found, "nodes", false)))
}

async fn cancel_all(call: Call) -> Result<Answer, Error> {
    let own = plimsoll_memory::current().as_ref().map_or(0, Account::number);
    let mut found = of_all(&call).await;
    for node in &mut found {
        let is_own = node.id == call.rest.identity.node_id;
        node.tasks.retain(|task| task["cancellable"] == true && !(is_own && task["id"] == own));
    }
    stop(&call, &mut found).await;
    Ok(Answer::json(&grouped(found, "nodes", false)))
}

/// Tells requests to stop, and leaves those in the list that were told; false where none was.
async fn stop(call: &Call, found: &mut [OfNode]) -> bool {
    let mut any = false;
    for node in found {
        let mut told = Vec::new();
        for mut task in std::mem::take(&mut node.tasks) {
            let number = task["id"].as_u64().unwrap_or(0);
            if call.coordinator().cancel(&node.member, number).await {
                task["cancelled"] = json!(true);
                told.push(task);
            }
        }
        any |= !told.is_empty();
        node.tasks = told;
    }
    any
}
