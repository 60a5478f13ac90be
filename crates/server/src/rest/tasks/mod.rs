//! `_tasks`: what a node is doing. Requests are answered where they arrive and have no entry of
//! their own; a list of tasks has the task that lists them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::Rest;
use super::answer::Answer;
use super::call::Call;
use super::filter_path::wildcard_matches;
use super::nodes;
use super::routes::{Route, Verb, route};
use crate::node::unix_time;
use Verb::{Get, Post};

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
    route(&[Get], "/_tasks", &[LIST], |call| Box::pin(list(call))),
    route(&[Get], "/_tasks/{id}", &[LIST], |call| Box::pin(one(call))),
    route(&[Post], "/_tasks/_cancel", &[LIST], |call| Box::pin(cancel_all(call))),
    route(&[Post], "/_tasks/{id}/_cancel", &[LIST], |call| Box::pin(cancel(call))),
];

/// Numbers of tasks, from 1.
static LAST: AtomicU64 = AtomicU64::new(0);
const ACTION: &str = "cluster:monitor/tasks/lists";

/// The task that lists tasks: its full name and what is told of it.
#[must_use]
pub fn listing(rest: &Rest) -> (String, Value) {
    let id = LAST.fetch_add(1, Relaxed) + 1;
    let node_id = &rest.identity.node_id;
    let now_ms = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
    let task = json!({
        "node": node_id,
        "id": id,
        "type": "transport",
        "action": ACTION,
        "start_time_in_millis": now_ms,
        "running_time_in_nanos": 0,
        "cancellable": false,
        "cancelled": false,
        "headers": {},
    });
    (format!("{node_id}:{id}"), task)
}

async fn list(call: Call) -> Result<Answer, Error> {
    let actions = call.query.list("actions");
    let is_wanted =
        actions.is_empty() || actions.iter().any(|pattern| wildcard_matches(pattern, ACTION));
    let (name, task) = listing(&call.rest);
    let tasks: Map<String, Value> = is_wanted.then_some((name, task)).into_iter().collect();
    match call.query.get("group_by").unwrap_or("nodes") {
        "nodes" => Ok(Answer::json(&by_node(&call, tasks))),
        "none" => {
            let tasks: Vec<Value> = tasks.into_iter().map(|(_, task)| task).collect();
            Ok(Answer::json(&json!({ "tasks": tasks })))
        }
        "parents" => Ok(Answer::json(&json!({ "tasks": tasks }))),
        other => Err(Error::illegal_argument(format!(
            "group_by is [{other}], and can be [nodes], [parents] or [none]"
        ))),
    }
}

fn by_node(call: &Call, tasks: Map<String, Value>) -> Value {
    if tasks.is_empty() {
        return json!({ "nodes": {} });
    }
    let mut node = nodes::header(&call.rest);
    node["tasks"] = Value::Object(tasks);
    let mut all = Map::new();
    all.insert(call.rest.identity.node_id.clone(), node);
    json!({ "nodes": all })
}

/// No task outlives its request, so none is found by its name.
fn not_found(call: &Call) -> Error {
    let id = call.part("id").unwrap_or_default();
    let Some((node, number)) = id.split_once(':') else {
        return Error::illegal_argument(format!("malformed task id {id}"));
    };
    if number.parse::<i64>().is_err() {
        return Error::illegal_argument(format!("malformed task id {id}"));
    }
    let reason = if node == call.rest.identity.node_id {
        format!("task [{id}] isn't running and hasn't stored its results")
    } else {
        format!(
            "task [{id}] belongs to the node [{node}] which isn't part of the cluster and there is \
             no record of the task"
        )
    };
    Error::new(404, "resource_not_found_exception", reason)
}

async fn one(call: Call) -> Result<Answer, Error> {
    Err(not_found(&call))
}

async fn cancel(call: Call) -> Result<Answer, Error> {
    Err(not_found(&call))
}

async fn cancel_all(call: Call) -> Result<Answer, Error> {
    Ok(Answer::json(&by_node(&call, Map::new())))
}
