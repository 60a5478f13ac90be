//! `_nodes`: what nodes are and what they were started with.

use plimsoll_cluster::NodeStatistics;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::all::{self, NodeView};
use super::machine;
use crate::rest::admin::settings::shown;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::identity::BUILD_HASH;
use crate::rest::shared::Rest;

/// The parts of an answer by the name that asks for each.
const PARTS: [&str; 10] = [
    "settings",
    "os",
    "process",
    "jvm",
    "thread_pool",
    "transport",
    "http",
    "plugins",
    "ingest",
    "aggregations",
];
/// Parts of other versions, which are nothing here.
const EMPTY_PARTS: [&str; 3] = ["indices", "search_pipelines", "remote_cluster_server"];

/// GET `/_nodes[/{node}][/{metric}]`. A lone segment names parts where all of it are names of
/// parts, and nodes otherwise.
///
/// # Errors
/// 400 for a part that there is none of.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let (node, metric) = (call.part("node"), call.part("metric"));
    let is_part = |name: &str| PARTS.contains(&name) || EMPTY_PARTS.contains(&name);
    let (node, metric) = match (node, metric) {
        (Some(lone), None) if lone.split(',').all(is_part) => (None, Some(lone)),
        other => other,
    };
    let wanted: Option<Vec<&str>> = match metric {
        None | Some("_all") => None,
        Some(list) => Some(list.split(',').collect()),
    };
    if let Some(unknown) = wanted.iter().flatten().find(|name| !is_part(name) && **name != "_all") {
        return Err(Error::illegal_argument(format!(
            "request [{}] contains unrecognized metric: [{unknown}]",
            call.path
        )));
    }
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let wanted = wanted.as_deref();
    let entry = |node: &NodeView, told: Option<&NodeStatistics>| {
        if node.member.is_own {
            Some(one(&call.rest, wanted, is_flat))
        } else {
            other(told?, wanted, is_flat)
        }
    };
    Ok(super::answer::answer(&call, node, entry).await)
}

/// Another node, from what it told.
fn other(told: &NodeStatistics, wanted: Option<&[&str]>, is_flat: bool) -> Option<Value> {
    let mut node = told.process.get("info")?.as_object()?.clone();
    node.retain(|name, _| !PARTS.contains(&name.as_str()) || is_wanted(wanted, name));
    if is_flat && let Some(settings) = node.get_mut("settings") {
        *settings = told.process["flat_settings"].clone();
    }
    Some(Value::Object(node))
}

fn is_wanted(wanted: Option<&[&str]>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.iter().any(|it| *it == name || *it == "_all"))
}

/// This node.
#[must_use]
pub fn one(rest: &Rest, wanted: Option<&[&str]>, is_flat: bool) -> Value {
    let address = rest.address;
    let own = all::own(rest);
    let mut node = json!({
        "name": rest.node.settings.node_name,
        "transport_address": own.as_ref().map(NodeView::transport),
        "host": address.ip().to_string(),
        "ip": address.ip().to_string(),
        "version": rest.node.settings.rest_version,
        "build_flavor": "default",
        "build_type": "tar",
        "build_hash": BUILD_HASH,
        "total_indexing_buffer": rest.in_flight.bytes_max(),
        "roles": own.as_ref().map_or(&[][..], NodeView::roles),
        "attributes": own.as_ref().map_or_else(|| json!({}), all::attributes),
    });
    for name in PARTS {
        if is_wanted(wanted, name) {
            node[name] = part(rest, name, is_flat);
        }
    }
    node
}

fn part(rest: &Rest, name: &str, is_flat: bool) -> Value {
    let address = rest.address.to_string();
    match name {
        "settings" => settings(rest, is_flat),
        "os" => json!({
            "refresh_interval_in_millis": 1000,
            "name": "Linux",
            "pretty_name": machine::pretty_name(),
            "arch": std::env::consts::ARCH,
            "version": machine::kernel(),
            "available_processors": machine::processors(),
            "allocated_processors": machine::processors(),
        }),
        "process" => json!({
            "refresh_interval_in_millis": 1000,
            "id": std::process::id(),
            "mlockall": false,
        }),
        "jvm" => jvm(rest),
        "thread_pool" => threads(rest),
        "transport" => json!({
            "bound_address": [address],
            "publish_address": address,
            "profiles": {},
        }),
        "http" => json!({
            "bound_address": [address],
            "publish_address": address,
            "max_content_length_in_bytes": rest.node.settings.http_max_content_bytes,
        }),
        "plugins" => json!([]),
        "ingest" => json!({ "processors": [] }),
        _ => json!({}),
    }
}

/// What this node was started with, as far as clients look for it.
#[must_use]
pub fn settings(rest: &Rest, is_flat: bool) -> Value {
    let settings = &rest.node.settings;
    let mut all = Map::new();
    for (name, value) in [
        ("cluster.name", settings.cluster_name.clone()),
        ("http.port", rest.address.port().to_string()),
        ("network.host", rest.address.ip().to_string()),
        ("node.name", settings.node_name.clone()),
        ("path.data", settings.data.display().to_string()),
    ] {
        all.insert(name.to_owned(), json!(value));
    }
    shown(all, is_flat)
}

/// There is no virtual machine; clients look for one, and print what they find.
fn jvm(rest: &Rest) -> Value {
    let memory = machine::Memory::read().total;
    json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "vm_name": "none: a native process",
        "vm_version": env!("CARGO_PKG_VERSION"),
        "vm_vendor": "Plimsoll",
        "bundled_jdk": false,
        "using_bundled_jdk": null,
        "start_time_in_millis": rest.node.started_s * 1000,
        "mem": {
            "heap_init_in_bytes": 0,
            "heap_max_in_bytes": memory,
            "non_heap_init_in_bytes": 0,
            "non_heap_max_in_bytes": 0,
            "direct_max_in_bytes": 0,
        },
        "gc_collectors": [],
        "memory_pools": [],
        "using_compressed_ordinary_object_pointers": "false",
        "input_arguments": [],
    })
}

fn threads(rest: &Rest) -> Value {
    let search = rest.node.coordinator.documents().search_pool();
    let mut pools = Map::new();
    pools.insert(
        "search".to_owned(),
        json!({
            "type": "fixed",
            "size": search.threads,
            "queue_size": search.queue_capacity,
        }),
    );
    Value::Object(pools)
}
