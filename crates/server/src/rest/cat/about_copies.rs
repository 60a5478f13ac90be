//! Tables of the copies of partitions: where each is, what its index is made of, and how it came
//! to be.

use plimsoll_cluster::{CopyStatus, Missing, PartitionStatistics};
use plimsoll_index::Error;

use super::table::{Cell, Column, answer, number, text};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::cluster::state::{reason_name, state_name};
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::identity::LUCENE_VERSION;
use crate::rest::nodes;
use crate::rest::nodes::all::{self, NodeView};
use crate::rest::stats::figures::Figures;
use crate::rest::stats::recovery::{Recovered, all_of, percent};
use crate::rest::stats::segments::index_bytes;

fn found(call: &Call, options: Expand) -> Result<Vec<Target>, Error> {
    let options = options.with_query(&call.query)?;
    expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)
}

const SHARDS: &[Column] = &[
    text("index", "i,idx", "index name"),
    text("shard", "s,sh", "shard name"),
    text("prirep", "p,pr,primaryOrReplica", "primary or replica"),
    text("state", "st", "shard state"),
    number("docs", "d,dc", "number of docs in shard"),
    number("store", "sto", "store size of shard (how much disk it uses)"),
    text("ip", "", "ip of node where it lives"),
    text("id", "", "unique id of node where it lives").hidden(),
    text("node", "n", "name of node where it lives"),
    text("unassigned.reason", "ur", "reason shard became unassigned").hidden(),
    text("unassigned.details", "ud", "additional details as to why the shard became unassigned")
        .hidden(),
    number("segments.count", "sc,segmentsCount", "number of segments").hidden(),
    number("search.query_total", "sqto,searchQueryTotal", "total query phase ops").hidden(),
    number("refresh.total", "rto,refreshTotal", "total refreshes").hidden(),
    number("merges.total", "mt,mergesTotal", "number of completed merge ops").hidden(),
];

/// GET `/_cat/shards[/{index}]`: a row for each copy.
///
/// # Errors
/// 404 where an index is not there.
pub async fn shards(call: Call) -> Result<Answer, Error> {
    let row = |copy: &Shown<'_>| {
        let figures = copy.told.map(Figures::of_partition);
        let cell = |of: &dyn Fn(&Figures) -> Cell| figures.as_ref().map_or(Cell::None, of);
        let mut row = copy.names();
        row.push(state_name(copy.status).into());
        row.push(cell(&|it| it.docs.into()));
        row.push(cell(&|it| Cell::Bytes(it.store_bytes)));
        row.push(copy.view.map_or(Cell::None, |view| view.ip().into()));
        row.push(copy.view.map_or(Cell::None, |view| view.id.clone().into()));
        row.push(copy.view.map_or(Cell::None, |view| view.name().into()));
        row.push(match copy.status {
            CopyStatus::Unassigned(missing) => reason_name(missing).into(),
            _ => Cell::None,
        });
        row.push(match copy.status {
            CopyStatus::Unassigned(Missing::Stopped { reason, .. }) => reason.as_str().into(),
            _ => Cell::None,
        });
        row.push(cell(&|it| it.segments.into()));
        row.push(cell(&|it| it.queries.0.into()));
        row.push(cell(&|it| it.refreshes.0.into()));
        row.push(cell(&|it| it.merges.into()));
        Some(row)
    };
    let rows = rows(&call, Expand::any(), row).await?;
    answer(&call, SHARDS, rows)
}

/// A copy, where it is, and what its node says of it.
struct Shown<'a> {
    index: &'a str,
    ordinal: u32,
    is_first: bool,
    status: &'a CopyStatus,
    view: Option<&'a NodeView>,
    told: Option<&'a PartitionStatistics>,
}

impl Shown<'_> {
    /// The cells that every row begins with.
    fn names(&self) -> Vec<Cell> {
        let kind = if self.is_first { "p" } else { "r" };
        vec![self.index.into(), self.ordinal.to_string().into(), kind.into()]
    }
}

/// The rows of all copies of the indices that are asked for.
async fn rows(
    call: &Call,
    options: Expand,
    row: impl Fn(&Shown<'_>) -> Option<Vec<Cell>>,
) -> Result<Vec<Vec<Cell>>, Error> {
    let found = found(call, options)?;
    let told = nodes::statistics(&call.rest).await;
    let views = all::there(&call.rest);
    let mut rows = Vec::new();
    for target in &found {
        let index = target.index.name.as_str();
        for partition in call.coordinator().copies_of(index) {
            let ordinal = partition.ordinal;
            for (at, status) in partition.copies.iter().enumerate() {
                let view = status.node().and_then(|node| all::find(&views, node));
                let told = status.node().and_then(|node| told.copy(node, index, ordinal));
                let is_first = at == 0;
                rows.extend(row(&Shown { index, ordinal, is_first, status, view, told }));
            }
        }
    }
    Ok(rows)
}

const SEGMENTS: &[Column] = &[
    text("index", "i,idx", "index name"),
    text("shard", "s,sh", "shard name"),
    text("prirep", "p,pr,primaryOrReplica", "primary or replica"),
    text("ip", "", "ip of node where it lives"),
    text("id", "", "unique id of node where it lives").hidden(),
    text("segment", "seg", "segment name; _all for all of a shard together"),
    number("generation", "g,gen", "segment generation"),
    number("docs.count", "dc,docsCount", "number of docs in segment"),
    number("docs.deleted", "dd,docsDeleted", "number of deleted docs in segment"),
    number("size", "si", "segment size in bytes"),
    number("size.memory", "sm,sizeMemory", "segment memory in bytes"),
    text("committed", "ic,isCommitted", "is segment committed"),
    text("searchable", "is,isSearchable", "is segment searched"),
    text("version", "v,ver", "version"),
    text("compound", "ico,isCompound", "is segment compound"),
];

/// GET `/_cat/segments[/{index}]`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn segments(call: Call) -> Result<Answer, Error> {
    let row = |copy: &Shown<'_>| {
        let (view, figures) = (copy.view?, copy.told.filter(|it| it.segments.segments > 0)?);
        let mut row = copy.names();
        let more: [Cell; 12] = [
            view.ip().into(),
            view.id.clone().into(),
            "_all".into(),
            figures.segments.refreshes.into(),
            figures.segments.docs.into(),
            figures.segments.deleted.into(),
            Cell::Bytes(index_bytes(figures)),
            Cell::Number(0),
            "true".into(),
            "true".into(),
            LUCENE_VERSION.into(),
            "false".into(),
        ];
        row.extend(more);
        Some(row)
    };
    let rows = rows(&call, Expand::search(), row).await?;
    answer(&call, SEGMENTS, rows)
}

const RECOVERY: &[Column] = &[
    text("index", "i,idx", "index name"),
    text("shard", "s,sh", "shard name"),
    text("time", "t,ti", "recovery time"),
    text("type", "ty", "recovery type"),
    text("stage", "st", "recovery stage"),
    text("source_host", "shost", "source host"),
    text("source_node", "snode", "source node name"),
    text("target_host", "thost", "target host"),
    text("target_node", "tnode", "target node name"),
    text("repository", "rep", "repository"),
    text("snapshot", "snap", "snapshot"),
    text("files", "f", "number of files to recover"),
    text("files_recovered", "fr", "files recovered"),
    text("files_percent", "fp", "percent of files recovered"),
    text("files_total", "tf", "total number of files"),
    text("bytes", "b", "number of bytes to recover"),
    text("bytes_recovered", "br", "bytes recovered"),
    text("bytes_percent", "bp", "percent of bytes recovered"),
    text("bytes_total", "tb", "total number of bytes"),
    text("translog_ops", "to", "number of translog ops to recover"),
    text("translog_ops_recovered", "tor", "translog ops recovered"),
    text("translog_ops_percent", "top", "percent of translog ops recovered"),
    number("bytes_per_second", "bps", "bytes copied per second of late").hidden(),
    number("time_left", "tl", "time until all bytes are copied").hidden(),
    text("limited_by", "lb", "what bounds it of late: link, window, source, target, pace").hidden(),
];

/// GET `/_cat/recovery[/{index}]`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn recovery(call: Call) -> Result<Answer, Error> {
    let active_only = call.query.flag_or("active_only", false)?;
    let found = found(&call, Expand::any())?;
    let rows = all_of(&call, &found, active_only).await.iter().map(recovery_row).collect();
    answer(&call, RECOVERY, rows)
}

fn recovery_row(recovered: &Recovered) -> Vec<Cell> {
    let copied = recovered.copied.as_ref();
    let mut row: Vec<Cell> = vec![
        recovered.index.clone().into(),
        recovered.ordinal.to_string().into(),
        Cell::Millis(copied.map_or(0, |it| it.took_ms)),
        recovered.kind.to_lowercase().into(),
        recovered.stage().to_lowercase().into(),
    ];
    for view in [&recovered.source, &recovered.target] {
        let named = |name: fn(&NodeView) -> String| view.as_ref().map_or("n/a".to_owned(), name);
        row.push(named(NodeView::ip).into());
        row.push(named(|view| view.name().to_owned()).into());
    }
    let repository = recovered.repository();
    row.push(repository.unwrap_or("n/a").to_owned().into());
    row.push(repository.map_or("n/a", |_| "_latest_").into());
    let amounts =
        [copied.map_or((0, 0, 0), |it| it.files), copied.map_or((0, 0, 0), |it| it.bytes)];
    for (total, reused, arrived) in amounts {
        let wanted = total.saturating_sub(reused);
        row.push(wanted.to_string().into());
        row.push(arrived.to_string().into());
        row.push(percent(arrived, wanted).into());
        row.push(total.to_string().into());
    }
    row.extend(["0", "0", "100.0%"].map(Cell::from));
    row.push(copied.map_or(Cell::None, |it| Cell::Bytes(it.bytes_s)));
    row.push(copied.and_then(|it| it.left_ms).map_or(Cell::None, Cell::Millis));
    row.push(copied.and_then(|it| it.limited_by.clone()).map_or(Cell::None, Cell::from));
    row
}
