//! `_recovery`: how each copy came to be. One that was made from another node's files tells how
//! far that is; of one that began empty, or was opened from its own files, nothing is kept.

use std::collections::BTreeMap;

use plimsoll_cluster::following::REMOTE_SOURCE;
use plimsoll_cluster::{CopyStatus, IndexMetadata, RecoveryOverview};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::nodes::all::{self, NodeView};

/// How a copy came, or comes, to be.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The index.
    pub index: String,
    /// Which of its partitions.
    pub ordinal: u32,
    /// Whether it is named the primary.
    pub is_first: bool,
    /// The node that it is on; none where that is not there any more.
    pub target: Option<NodeView>,
    /// The node that it was copied from; none where it was not, or that is not there any more.
    pub source: Option<NodeView>,
    /// `EMPTY_STORE`, `EXISTING_STORE`, `PEER`, or `SNAPSHOT` of one that comes from another cluster.
    pub kind: &'static str,
    /// When it began, ms since 1970.
    pub since_ms: u64,
    /// What is told of the copying.
    pub copied: Option<RecoveryOverview>,
}

impl Recovered {
    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> &str {
        match &self.copied {
            Some(copied) => &copied.stage,
            None if self.is_copied() => "INIT",
            None => "DONE",
        }
    }

    /// Whether it goes on.
    #[must_use]
    pub fn is_active(&self) -> bool {
        match &self.copied {
            Some(copied) => copied.stopped_ms.is_none(),
            None => self.is_copied(),
        }
    }

    fn is_copied(&self) -> bool {
        matches!(self.kind, "PEER" | "SNAPSHOT")
    }

    /// The repository that it comes from, in Elasticsearch's words: another cluster.
    #[must_use]
    pub fn repository(&self) -> Option<&str> {
        let copied = self.copied.as_ref().filter(|_| self.kind == "SNAPSHOT");
        copied.map(|copied| copied.source.as_str())
    }
}

/// `12.3%`: how much of a whole is there; `0.0%` of nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    let tenths = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// How the copies of these indices came to be.
pub async fn all_of(call: &Call, found: &[Target], active_only: bool) -> Vec<Recovered> {
    let (recoveries, _) = call.coordinator().recoveries().await;
    // The last of each copy: earlier ones are over.
    let mut last: BTreeMap<(&str, u32, &str), &RecoveryOverview> = BTreeMap::new();
    for recovery in &recoveries {
        last.insert((&recovery.table, recovery.ordinal, &recovery.target), recovery);
    }
    let views = all::there(&call.rest);
    let mut all = Vec::new();
    for target in found {
        let index = &target.index;
        for partition in call.coordinator().copies_of(&index.name) {
            for (at, copy) in partition.copies.iter().enumerate() {
                let Some(view) = copy.node().and_then(|node| all::find(&views, node)) else {
                    continue;
                };
                let copied = last.get(&(index.name.as_str(), partition.ordinal, view.name()));
                let copied = copied.map(|it| (*it).clone());
                let (kind, since_ms) = origin(index, view, copy, copied.as_ref());
                let is_source = |view: &&NodeView| {
                    copied.as_ref().is_some_and(|copied| copied.source == view.name())
                };
                let recovered = Recovered {
                    index: index.name.clone(),
                    ordinal: partition.ordinal,
                    is_first: at == 0,
                    target: Some(view.clone()),
                    source: views.iter().find(is_source).cloned(),
                    kind,
                    since_ms,
                    copied,
                };
                if !active_only || recovered.is_active() {
                    all.push(recovered);
                }
            }
        }
    }
    all
}

fn origin(
    index: &IndexMetadata,
    node: &NodeView,
    copy: &CopyStatus,
    copied: Option<&RecoveryOverview>,
) -> (&'static str, u64) {
    // What is told in whole seconds on `GET /` too.
    let started_ms = node.member.record.started_ms / 1000 * 1000;
    let since_ms = index.created_ms.max(started_ms);
    match copied {
        Some(copied) if copied.source.starts_with(REMOTE_SOURCE) => ("SNAPSHOT", copied.started_ms),
        Some(copied) => ("PEER", copied.started_ms),
        None if !copy.is_serving() => ("PEER", since_ms),
        None if index.created_ms >= started_ms => ("EMPTY_STORE", since_ms),
        None => ("EXISTING_STORE", since_ms),
    }
}

/// GET `[/{index}]/_recovery`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn recovery(call: Call) -> Result<Answer, Error> {
    let options = Expand::any().with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let active_only = call.query.flag_or("active_only", false)?;
    let mut indices: Map<String, Value> = Map::new();
    if !active_only {
        for target in &found {
            indices.insert(target.index.name.clone(), json!({ "shards": [] }));
        }
    }
    for recovered in all_of(&call, &found, active_only).await {
        let entry = indices.entry(recovered.index.clone());
        let index = entry.or_insert_with(|| json!({ "shards": [] }));
        if let Some(shards) = index["shards"].as_array_mut() {
            shards.push(shown(&recovered));
        }
    }
    Ok(Answer::json(&indices))
}

fn node(view: Option<&NodeView>) -> Value {
    view.map_or_else(
        || json!({}),
        |view| {
            json!({
                "id": view.id,
                "host": view.ip(),
                "transport_address": view.transport(),
                "ip": view.ip(),
                "name": view.name(),
            })
        },
    )
}

fn source(recovered: &Recovered) -> Value {
    match recovered.repository() {
        Some(repository) => json!({
            "repository": repository,
            "snapshot": "_latest_",
            "version": env!("CARGO_PKG_VERSION"),
            "index": recovered.index,
            "restoreUUID": format!("{:x}", recovered.since_ms),
        }),
        None => node(recovered.source.as_ref()),
    }
}

fn shown(recovered: &Recovered) -> Value {
    let copied = recovered.copied.as_ref();
    let of = |amounts: fn(&RecoveryOverview) -> (u64, u64, u64)| copied.map_or((0, 0, 0), amounts);
    let (bytes, bytes_reused, bytes_recovered) = of(|it| it.bytes);
    let (files, files_reused, files_recovered) = of(|it| it.files);
    let since_ms = recovered.since_ms;
    let took_ms = copied.map_or(0, |it| it.took_ms);
    let mut shown = json!({
        "id": recovered.ordinal,
        "type": recovered.kind,
        "stage": recovered.stage(),
        "primary": recovered.is_first,
        "start_time_in_millis": since_ms,
        "stop_time_in_millis": since_ms + took_ms,
        "total_time_in_millis": took_ms,
        "source": source(recovered),
        "target": node(recovered.target.as_ref()),
        "index": {
            "size": {
                "total_in_bytes": bytes,
                "reused_in_bytes": bytes_reused,
                "recovered_in_bytes": bytes_recovered,
                "percent": percent(bytes_recovered, bytes.saturating_sub(bytes_reused)),
            },
            "files": {
                "total": files,
                "reused": files_reused,
                "recovered": files_recovered,
                "percent": percent(files_recovered, files.saturating_sub(files_reused)),
            },
            "total_time_in_millis": took_ms,
            "source_throttle_time_in_millis": copied.map_or(0, |it| it.source_throttled_ms),
            "target_throttle_time_in_millis": copied.map_or(0, |it| it.throttled_ms),
        },
        "translog": {
            "recovered": 0,
            "total": 0,
            "percent": "100.0%",
            "total_on_start": 0,
            "total_time_in_millis": 0,
        },
        "verify_index": { "check_index_time_in_millis": 0, "total_time_in_millis": 0 },
    });
    if recovered.is_active()
        && let Some(shown) = shown.as_object_mut()
    {
        shown.remove("stop_time_in_millis");
    }
    // Beyond what Elasticsearch tells.
    if let Some(copied) = copied {
        shown["index"]["size"]["wire_in_bytes"] = json!(copied.bytes_wire);
        shown["index"]["size"]["bytes_per_second"] = json!(copied.bytes_s);
        shown["index"]["time_left_in_millis"] = json!(copied.left_ms);
        shown["index"]["limited_by"] = json!(copied.limited_by);
        if let Some(failure) = &copied.failure {
            shown["failure"] = json!(failure);
        }
    }
    shown
}
