//! `_cluster/health`: green where every copy that is asked for is there, yellow where copies are
//! missing, red where a partition does not answer. A request may wait for something better.

use std::time::Duration;

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::rest::Rest;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};

/// How long is waited by default.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether what is waited for is there.
const PAUSE: Duration = Duration::from_millis(100);

/// How an index or the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All copies are there.
    Green,
    /// Every partition answers, but has not all its copies.
    Yellow,
    /// A partition does not answer.
    Red,
}

impl Status {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        [Self::Green, Self::Yellow, Self::Red]
            .into_iter()
            .find(|status| status.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Error::illegal_argument(format!("unknown cluster health status [{text}]"))
            })
    }
}

/// The partitions of one index.
#[derive(Clone, Copy, Debug)]
pub struct IndexHealth {
    /// How the index is.
    pub status: Status,
    /// Partitions that answer, and so copies that are there.
    pub active: u32,
    /// Partitions that do not.
    pub failed: u32,
    /// Copies that there is no node for.
    pub unassigned: u32,
}

/// How an index is; `faults` says whether any partition of the node has stopped.
#[must_use]
pub fn of_index(rest: &Rest, index: &IndexMetadata, has_faults: bool) -> IndexHealth {
    let mut failed = 0;
    if has_faults {
        let statistics = rest.node.coordinator.index_statistics(&index.name).unwrap_or_default();
        let stopped = statistics.partitions.iter().filter(|it| it.fault.is_some()).count();
        failed = u32::try_from(stopped).unwrap_or(u32::MAX).min(index.partitions);
    }
    let copies = index.partitions.saturating_mul(index.replicas);
    let status = match (failed, copies) {
        (0, 0) => Status::Green,
        (0, _) => Status::Yellow,
        _ => Status::Red,
    };
    IndexHealth { status, active: index.partitions - failed, failed, unassigned: copies + failed }
}

/// The worst status of all indices.
#[must_use]
pub fn of_cluster(rest: &Rest) -> Status {
    let has_faults = !rest.node.coordinator.faults().is_empty();
    let indices = rest.node.coordinator.indices();
    let each = indices.iter().map(|index| of_index(rest, index, has_faults).status);
    each.max().unwrap_or(Status::Green)
}

/// What a request waits for.
#[derive(Clone, Debug, Default)]
struct Wait {
    status: Option<Status>,
    nodes: Option<String>,
    /// Active copies; all there should be where it says so.
    active: Option<Result<u32, ()>>,
    /// Whether indices were named, which have to be there.
    named: bool,
}

/// GET `/_cluster/health[/{index}]`.
///
/// # Errors
/// 400 for what cannot be waited for; 408, as an answer, where it did not come in time.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let level = call.query.get("level").unwrap_or("cluster").to_owned();
    if !matches!(level.as_str(), "cluster" | "indices" | "shards" | "awareness_attributes") {
        return Err(Error::illegal_argument(format!("unknown level [{level}]")));
    }
    let wait = wait(&call)?;
    let end = Instant::now() + call.query.duration("timeout")?.unwrap_or(TIMEOUT);
    loop {
        let (mut health, is_there) = look(&call, &level, &wait)?;
        if is_there {
            return Ok(Answer::json(&health));
        }
        if Instant::now() >= end || call.rest.node.is_draining() {
            health["timed_out"] = json!(true);
            return Ok(Answer::json(&health).with_status(408));
        }
        sleep(PAUSE.min(end - Instant::now())).await;
    }
}

fn wait(call: &Call) -> Result<Wait, Error> {
    let query = &call.query;
    for name in ["wait_for_no_relocating_shards", "wait_for_no_initializing_shards"] {
        // Nothing ever moves or begins, so this has come already.
        query.flag(name)?;
    }
    if let Some(events) = query.get("wait_for_events") {
        let known = ["immediate", "urgent", "high", "normal", "low", "languid"];
        if !known.iter().any(|name| name.eq_ignore_ascii_case(events)) {
            return Err(Error::illegal_argument(format!(
                "No enum constant Priority.{}",
                events.to_uppercase()
            )));
        }
    }
    let active = match query.get("wait_for_active_shards") {
        None => None,
        Some("all") => Some(Err(())),
        Some(_) => query.number("wait_for_active_shards")?.map(Ok),
    };
    let nodes = query.get("wait_for_nodes").map(str::to_owned);
    if let Some(nodes) = &nodes {
        are_nodes(nodes, 1)?;
    }
    Ok(Wait {
        status: query.get("wait_for_status").map(Status::parse).transpose()?,
        nodes,
        active,
        named: call.part("index").is_some(),
    })
}

/// A comparison.
type Holds = fn(&i64, &i64) -> bool;

/// Whether so many nodes are what `>=1`, `le(3)` or `2` asks for.
fn are_nodes(wanted: &str, nodes: i64) -> Result<bool, Error> {
    let forms: [(&str, &str, Holds); 4] = [
        (">=", "ge(", i64::ge),
        ("<=", "le(", i64::le),
        (">", "gt(", i64::gt),
        ("<", "lt(", i64::lt),
    ];
    let wanted = wanted.trim();
    let form = forms.iter().find_map(|(sign, word, holds)| {
        let number = wanted
            .strip_prefix(sign)
            .or_else(|| wanted.strip_prefix(word).and_then(|rest| rest.strip_suffix(')')))?;
        Some((number, *holds))
    });
    let (number, holds) = form.unwrap_or((wanted, i64::eq));
    match number.trim().parse::<i64>() {
        Ok(number) => Ok(holds(&nodes, &number)),
        Err(_) => Err(Error::illegal_argument(format!("For input string: \"{number}\""))),
    }
}

/// The health now, and whether it is what is waited for.
fn look(call: &Call, level: &str, wait: &Wait) -> Result<(Value, bool), Error> {
    let options = Expand { hidden: true, ..Expand::any() }.with_query(&call.query)?;
    let found = match expressions::resolve(call.coordinator(), call.part("index"), &options) {
        Ok(found) => Some(found),
        // An index that is named and not there may come while the request waits.
        Err(error) if error.status == 404 && wait.named => None,
        Err(error) => return Err(error),
    };
    let rest = &call.rest;
    let has_faults = !call.coordinator().faults().is_empty();
    let mut status = if found.is_some() { Status::Green } else { Status::Red };
    let (mut active, mut unassigned) = (0, 0);
    let mut indices = Map::new();
    for target in found.iter().flatten() {
        let index = &target.index;
        let health = of_index(rest, index, has_faults);
        status = status.max(health.status);
        active += health.active;
        unassigned += health.unassigned;
        if level != "cluster" {
            indices.insert(index.name.clone(), shown(index, health, level == "shards"));
        }
    }
    let all = active + unassigned;
    let percent = if all == 0 { 100.0 } else { f64::from(active) * 100.0 / f64::from(all) };
    let mut health = json!({
        "cluster_name": rest.node.settings.cluster_name,
        "status": status.name(),
        "timed_out": false,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "discovered_master": true,
        "discovered_cluster_manager": true,
        "active_primary_shards": active,
        "active_shards": active,
        "relocating_shards": 0,
        "initializing_shards": 0,
        "unassigned_shards": unassigned,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": percent,
    });
    if level == "indices" || level == "shards" {
        health["indices"] = Value::Object(indices);
    }
    let is_there = found.is_some()
        && wait.status.is_none_or(|wanted| status <= wanted)
        && wait.nodes.as_ref().is_none_or(|wanted| are_nodes(wanted, 1) == Ok(true))
        && match wait.active {
            None => true,
            Some(Ok(wanted)) => active >= wanted,
            Some(Err(())) => unassigned == 0,
        };
    Ok((health, is_there))
}

fn shown(index: &IndexMetadata, health: IndexHealth, has_shards: bool) -> Value {
    let mut shown = json!({
        "status": health.status.name(),
        "number_of_shards": index.partitions,
        "number_of_replicas": index.replicas,
        "active_primary_shards": health.active,
        "active_shards": health.active,
        "relocating_shards": 0,
        "initializing_shards": 0,
        "unassigned_shards": health.unassigned,
    });
    if has_shards {
        // Which partition has stopped, its own figures say; here the first ones stand for them.
        let shards = (0..index.partitions).map(|ordinal| {
            let is_active = ordinal >= health.failed;
            let status = match (is_active, index.replicas) {
                (false, _) => Status::Red,
                (true, 0) => Status::Green,
                (true, _) => Status::Yellow,
            };
            let shard = json!({
                "status": status.name(),
                "primary_active": is_active,
                "active_shards": u8::from(is_active),
                "relocating_shards": 0,
                "initializing_shards": 0,
                "unassigned_shards": index.replicas + u32::from(!is_active),
            });
            (ordinal.to_string(), shard)
        });
        shown["shards"] = Value::Object(shards.collect());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nodes() {
        for (wanted, expected) in [
            (">=1", true),
            (">1", false),
            ("<=1", true),
            ("<1", false),
            ("ge(1)", true),
            ("gt(1)", false),
            ("1", true),
            ("2", false),
        ] {
            assert_eq!(are_nodes(wanted, 1).unwrap(), expected, "{wanted}");
        }
        assert!(are_nodes("many", 1).is_err());
    }

    #[test]
    fn the_worst_status_counts() {
        assert_eq!(
            [Status::Green, Status::Red, Status::Yellow].into_iter().max(),
            Some(Status::Red)
        );
        assert_eq!(Status::parse("GREEN").unwrap(), Status::Green);
        assert!(Status::parse("blue").is_err());
    }
}
