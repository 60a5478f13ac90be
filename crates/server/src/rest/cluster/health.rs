//! `_cluster/health`: green where every copy that is asked for is there, yellow where copies are
//! missing, red where a partition does not answer. A request may wait for something better.

use std::time::Duration;

use plimsoll_cluster::PartitionOverview;
use plimsoll_index::{Error, ErrorClass};
use plimsoll_memory::watch::breach as memory_breach;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};
use crate::rest::nodes::all;
use crate::rest::shared::Rest;

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

/// Counts of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Partitions of which a copy serves.
    pub primaries: u32,
    /// Copies that serve.
    pub active: u32,
    /// Copies that are made to take the place of others.
    pub relocating: u32,
    /// Copies that are made because there are too few.
    pub initializing: u32,
    /// Copies that there is no node for.
    pub unassigned: u32,
    /// Those of them that a node which left may bring back.
    pub delayed: u32,
    /// Partitions of which no copy serves, but for those whose first is being made.
    pub failed: u32,
}

impl Health {
    /// That of one partition.
    #[must_use]
    pub fn of(partition: &PartitionOverview) -> Self {
        let serving = partition.serving();
        Self {
            primaries: u32::from(serving > 0),
            active: serving,
            relocating: partition.relocating(),
            initializing: partition.initializing(),
            unassigned: partition.unassigned(),
            delayed: partition.delayed(),
            failed: u32::from(serving == 0 && !partition.is_bootstrapping),
        }
    }

    /// The sums of several.
    #[must_use]
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            primaries: sum.primaries + it.primaries,
            active: sum.active + it.active,
            relocating: sum.relocating + it.relocating,
            initializing: sum.initializing + it.initializing,
            unassigned: sum.unassigned + it.unassigned,
            delayed: sum.delayed + it.delayed,
            failed: sum.failed + it.failed,
        })
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.failed, self.unassigned + self.initializing) {
            (0, 0) => Status::Green,
            (0, _) => Status::Yellow,
            _ => Status::Red,
        }
    }

    /// How many of the copies that are asked for serve, in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let all = self.active + self.unassigned + self.initializing;
        if all == 0 { 100.0 } else { f64::from(self.active) * 100.0 / f64::from(all) }
    }
}

/// How an index is.
#[must_use]
pub fn of_index(rest: &Rest, index: &str) -> Health {
    Health::sum(rest.node.coordinator.copies_of(index).iter().map(Health::of))
}

/// How all indices are.
#[must_use]
pub fn of_cluster(rest: &Rest) -> Health {
    let partitions = rest.node.coordinator.copies_of_all();
    Health::sum(partitions.iter().filter(|partition| partition.is_index).map(Health::of))
}

/// What a request waits for.
#[derive(Clone, Debug, Default)]
struct Wait {
    status: Option<Status>,
    nodes: Option<String>,
    /// Active copies; all there should be where it says so.
    active: Option<Result<u32, ()>>,
    /// No copies that only move.
    no_relocating: bool,
    /// No copies that are being made.
    no_initializing: bool,
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
        let (mut health, is_there) = read(&call, &level, &wait)?;
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
        no_relocating: query.flag_or("wait_for_no_relocating_shards", false)?,
        no_initializing: query.flag_or("wait_for_no_initializing_shards", false)?,
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

/// The databases of rows alone that a request means, all where it names nothing, and what else it names.
fn databases(call: &Call) -> (Vec<String>, Option<String>) {
    let all = call.coordinator().databases_of_rows();
    match call.part("index") {
        None | Some("_all" | "*") => (all, call.part("index").map(str::to_owned)),
        Some(names) => {
            let (databases, others): (Vec<&str>, Vec<&str>) =
                names.split(',').partition(|name| all.iter().any(|it| it == name));
            (databases.into_iter().map(str::to_owned).collect(), Some(others.join(",")))
        }
    }
}

/// The health now, and whether it is what is waited for.
fn read(call: &Call, level: &str, wait: &Wait) -> Result<(Value, bool), Error> {
    let options = Expand { hidden: true, ..Expand::any() }.with_query(&call.query)?;
    let (mut tables, others) = databases(call);
    let resolved = match &others {
        // All that is named are databases of rows alone.
        Some(others) if others.is_empty() => Ok(Vec::new()),
        others => {
            expressions::resolve(call.coordinator(), &call.grant, others.as_deref(), &options)
        }
    };
    let found = match resolved {
        Ok(found) => Some(found),
        // An index that is named and not there may come while the request waits.
        Err(error) if error.class == ErrorClass::NotFound && wait.named => None,
        Err(error) => return Err(error),
    };
    let rest = &call.rest;
    let mut sum = Health::default();
    let mut indices = Map::new();
    tables.extend(found.iter().flatten().map(|target| target.index.name.clone()));
    for name in tables {
        let partitions = call.coordinator().copies_of(&name);
        let health = Health::sum(partitions.iter().map(Health::of));
        sum = Health::sum([sum, health].into_iter());
        if level != "cluster" {
            let replicas = partitions.first().map_or(0, |it| it.wanted.saturating_sub(1));
            let mut shown = json!({
                "status": health.status().name(),
                "number_of_shards": partitions.len(),
                "number_of_replicas": replicas,
                "active_primary_shards": health.primaries,
                "active_shards": health.active,
                "relocating_shards": health.relocating,
                "initializing_shards": health.initializing,
                "unassigned_shards": health.unassigned,
            });
            if level == "shards" {
                shown["shards"] = partitions.iter().map(shard).collect();
            }
            indices.insert(name, shown);
        }
    }
    let mut status = if found.is_some() { sum.status() } else { Status::Red };
    if memory_breach().is_some() {
        // Every copy answers, but what the node says of its memory cannot be trusted.
        status = status.max(Status::Yellow);
    }
    let were_stopped = call.coordinator().stores_were_stopped();
    if were_stopped {
        status = status.max(Status::Yellow);
    }
    let views = all::there(rest);
    let nodes = views.len();
    let data_nodes = views.iter().filter(|view| !view.roles().is_empty()).count();
    let mut health = json!({
        "cluster_name": rest.node.settings.cluster_name,
        "status": status.name(),
        "timed_out": false,
        "number_of_nodes": nodes,
        "number_of_data_nodes": data_nodes,
        "discovered_master": true,
        "discovered_cluster_manager": true,
        "active_primary_shards": sum.primaries,
        "active_shards": sum.active,
        "relocating_shards": sum.relocating,
        "initializing_shards": sum.initializing,
        "unassigned_shards": sum.unassigned,
        "delayed_unassigned_shards": sum.delayed,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": sum.percent(),
    });
    if let Some(off) = memory_breach() {
        health["memory_accounts_off_bytes"] = json!(off);
    }
    if were_stopped {
        health["stores_were_stopped"] = json!(true);
    }
    if level == "indices" || level == "shards" {
        health["indices"] = Value::Object(indices);
    }
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
    let is_there = found.is_some()
        && wait.status.is_none_or(|wanted| status <= wanted)
        && wait.nodes.as_ref().is_none_or(|wanted| are_nodes(wanted, nodes) == Ok(true))
        && (!wait.no_relocating || sum.relocating == 0)
        && (!wait.no_initializing || sum.initializing == 0)
        && match wait.active {
            None => true,
            Some(Ok(wanted)) => sum.active >= wanted,
            Some(Err(())) => sum.unassigned + sum.initializing == 0,
        };
    Ok((health, is_there))
}

fn shard(partition: &PartitionOverview) -> (String, Value) {
    let health = Health::of(partition);
    let shown = json!({
        "status": health.status().name(),
        "primary_active": health.primaries > 0,
        "active_shards": health.active,
        "relocating_shards": health.relocating,
        "initializing_shards": health.initializing,
        "unassigned_shards": health.unassigned,
    });
    (partition.ordinal.to_string(), shown)
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
