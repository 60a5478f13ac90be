//! Tables of indices and what belongs to them.

use plimsoll_cluster::ClusterStatistics;
use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use plimsoll_stdx::civil::Date;
use plimsoll_stdx::wildcard_matches;
use serde_json::{Value, json};

use super::about_cluster::clock;
use super::table::{Cell, Column, answer, number, text};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::cluster::health::of_index;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::nodes;
use crate::rest::search::request::{self, Around};
use crate::rest::stats::figures::Figures;

fn found(call: &Call, options: Expand) -> Result<Vec<Target>, Error> {
    let options = options.with_query(&call.query)?;
    expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)
}

/// The sums over the first copies of an index, and over all.
fn figures_of(call: &Call, told: &ClusterStatistics, index: &str) -> (Figures, Figures) {
    let (mut first, mut total) = (Figures::default(), Figures::default());
    for partition in call.coordinator().copies_of(index) {
        let mut has_first = false;
        for copy in &partition.copies {
            let copy = copy.node().and_then(|node| told.copy(node, index, partition.ordinal));
            let Some(copy) = copy.map(Figures::of_partition) else { continue };
            // Of a first copy that is not heard, another says the same.
            if !has_first {
                first.add(&copy);
                has_first = true;
            }
            total.add(&copy);
        }
    }
    (first, total)
}

const INDICES: &[Column] = &[
    text("health", "h", "current health status"),
    text("status", "s", "open/close status"),
    text("index", "i,idx", "index name"),
    text("uuid", "id,uuid", "index uuid"),
    number("pri", "p,shards.primary,shardsPrimary", "number of primary shards"),
    number("rep", "r,shards.replica,shardsReplica", "number of replica shards"),
    number("docs.count", "dc,docsCount", "available docs"),
    number("docs.deleted", "dd,docsDeleted", "deleted docs"),
    number("creation.date", "cd", "index creation date (millisecond value)").hidden(),
    text("creation.date.string", "cds", "index creation date (as string)").hidden(),
    number("store.size", "ss,storeSize", "store size of primaries & replicas"),
    number("pri.store.size", "", "store size of primaries"),
    number("indexing.index_total", "iito,indexingIndexTotal", "number of indexing ops").hidden(),
    number("search.query_total", "sqto,searchQueryTotal", "total query phase ops").hidden(),
    number("search.query_time", "sqti,searchQueryTime", "time spent in query phase").hidden(),
    number("search.fetch_total", "sfto,searchFetchTotal", "total fetch ops").hidden(),
    number("search.fetch_time", "sfti,searchFetchTime", "time spent in fetch phase").hidden(),
    number("refresh.total", "rto,refreshTotal", "total refreshes").hidden(),
    number("refresh.time", "rti,refreshTime", "time spent in refreshes").hidden(),
    number("flush.total", "ft,flushTotal", "number of flushes").hidden(),
    number("merges.total", "mt,mergesTotal", "number of completed merge ops").hidden(),
    number("segments.count", "sc,segmentsCount", "number of segments").hidden(),
];

/// GET `/_cat/indices[/{index}]`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn indices(call: Call) -> Result<Answer, Error> {
    let wanted = call.query.get("health");
    let told = nodes::statistics(&call.rest).await;
    let mut rows = Vec::new();
    for target in found(&call, Expand::any())? {
        let index = &target.index;
        let health = of_index(&call.rest, &index.name).status().name();
        if wanted.is_some_and(|wanted| wanted != health) {
            continue;
        }
        let (figures, total) = figures_of(&call, &told, &index.name);
        // A closed index answers nothing, so nothing is told of what is in it.
        let open = |cell: Cell| if index.is_open { cell } else { Cell::None };
        rows.push(vec![
            health.into(),
            if index.is_open { "open" } else { "close" }.into(),
            index.name.clone().into(),
            index.uuid.clone().into(),
            index.partitions.into(),
            call.coordinator().wanted_replicas(index).into(),
            open(figures.docs.into()),
            open(figures.deleted.into()),
            index.created_ms.into(),
            date(index.created_ms).into(),
            Cell::Bytes(total.store_bytes),
            Cell::Bytes(figures.store_bytes),
            total.indexed.into(),
            total.queries.0.into(),
            Cell::Millis(total.queries.1),
            total.fetches.0.into(),
            Cell::Millis(total.fetches.1),
            total.refreshes.0.into(),
            Cell::Millis(total.refreshes.1),
            total.flushes.0.into(),
            total.merges.into(),
            total.segments.into(),
        ]);
    }
    answer(&call, INDICES, rows)
}

/// `2024-01-01T00:00:00.000Z`.
fn date(millis: u64) -> String {
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    let Date { year, month, day } = Date::of_day(days.cast_signed());
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (seconds, millis) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

const COUNT: &[Column] = &[
    text("epoch", "t,time", "seconds since 1970-01-01 00:00:00"),
    text("timestamp", "ts,hms,hhmmss", "time in HH:MM:SS"),
    text("count", "dc,docs.count,docsCount", "the document count"),
];

/// GET `/_cat/count[/{index}]`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn count(call: Call) -> Result<Answer, Error> {
    let around = Around::of_query(call.part("index"), &call.query)?;
    let (targets, options) = request::placed(call.coordinator(), &call.grant, &around)?;
    let request = SearchRequest::parse(&json!({ "size": 0, "track_total_hits": true }))?;
    let outcome = call.coordinator().documents().count(&targets, request, options).await?;
    let (epoch, time) = clock();
    let count = outcome.total.map_or(0, |(total, _)| total);
    // Numbers of this table stand to the left.
    let row = vec![epoch.to_string().into(), time.into(), count.to_string().into()];
    answer(&call, COUNT, vec![row])
}

const ALIASES: &[Column] = &[
    text("alias", "a", "alias name"),
    text("index", "i,idx", "index alias points to"),
    text("filter", "f,fi", "filter"),
    text("routing.index", "ri,routingIndex", "index routing"),
    text("routing.search", "rs,routingSearch", "search routing"),
    text("is_write_index", "w,isWriteIndex", "write index"),
];

/// GET `/_cat/aliases[/{name}]`.
///
/// # Errors
/// None of its own.
pub async fn aliases(call: Call) -> Result<Answer, Error> {
    let patterns: Vec<&str> = call.part("name").unwrap_or("*").split(',').collect();
    let mut rows = Vec::new();
    for index in call.coordinator().documents().indices() {
        for (alias, body) in &index.aliases {
            let is = |pattern: &&str| *pattern == "_all" || wildcard_matches(pattern, alias);
            if !patterns.iter().any(is) || !call.grant.holds_for(alias) {
                continue;
            }
            let given = |name: &str| match body.get(name) {
                None => "-".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            rows.push(vec![
                alias.clone().into(),
                index.name.clone().into(),
                if body.contains_key("filter") { "*" } else { "-" }.into(),
                given("index_routing").into(),
                given("search_routing").into(),
                given("is_write_index").into(),
            ]);
        }
    }
    rows.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
    answer(&call, ALIASES, rows)
}

const TEMPLATES: &[Column] = &[
    text("name", "n", "template name"),
    text("index_patterns", "t", "template index patterns"),
    text("order", "o,p", "template application order/priority number"),
    text("version", "v", "version"),
    text("composed_of", "c", "component templates comprising index template"),
];

/// GET `/_cat/templates[/{name}]`.
///
/// # Errors
/// None of its own.
pub async fn templates(call: Call) -> Result<Answer, Error> {
    let pattern = call.part("name").unwrap_or("*");
    let mut rows = Vec::new();
    for (kind, order) in [("template", "order"), ("index_template", "priority")] {
        for (name, body) in call.coordinator().stored_all(kind) {
            if !wildcard_matches(pattern, &name) {
                continue;
            }
            let list = |key: &str| {
                let items = body.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                format!("[{}]", items.join(", "))
            };
            let number = |key: &str| body.get(key).map_or_else(String::new, Value::to_string);
            let order = match number(order) {
                text if text.is_empty() => "0".to_owned(),
                text => text,
            };
            let composed = if kind == "template" { String::new() } else { list("composed_of") };
            rows.push(vec![
                name.into(),
                list("index_patterns").into(),
                order.into(),
                number("version").into(),
                composed.into(),
            ]);
        }
    }
    answer(&call, TEMPLATES, rows)
}

const FIELDDATA: &[Column] = &[
    text("id", "", "node id"),
    text("host", "h", "host name"),
    text("ip", "", "ip address"),
    text("node", "n", "node name"),
    text("field", "f", "field name"),
    number("size", "", "field data usage"),
];

/// GET `/_cat/fielddata[/{fields}]`: columns are mapped from files, so no field is held in memory.
///
/// # Errors
/// None of its own.
pub async fn fielddata(call: Call) -> Result<Answer, Error> {
    answer(&call, FIELDDATA, Vec::new())
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_704_067_199_999, "2023-12-31T23:59:59.999Z"),
            (1_795_291_206_510, "2026-11-21T20:00:06.510Z"),
        ] {
            assert_eq!(super::date(millis), expected);
        }
    }
}
