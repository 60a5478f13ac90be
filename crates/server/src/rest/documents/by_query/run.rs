//! A run over the documents that a search finds: read batch by batch with a scroll, written
//! batch by batch, counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_cluster::{
    Condition, SearchOptions, SearchOutcome, WriteKind, WriteRequest, WriteResult,
};
use plimsoll_index::search::SearchRequest;
use plimsoll_index::{Error, ErrorClass};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::plan::{Destination, Plan};
use crate::rest::answer::Answer;
use crate::rest::documents::becomes::Becomes;
use crate::rest::documents::bulk::parser::VersionType;
use crate::rest::documents::refresh::{Refresh, Touched};
use crate::rest::documents::script::Script;
use crate::rest::documents::target::{self, WriteTarget, located};
use crate::rest::expressions::Target;
use crate::rest::http_status::HttpStatus;
use crate::rest::needs;
use crate::rest::shared::Rest;

/// How long a scroll is kept between two batches.
const KEEP_ALIVE: Duration = Duration::from_secs(300);
/// How many failures an answer shows.
const FAILURES_MAX: usize = 1000;

/// What is done with each document.
#[derive(Debug)]
pub enum Work {
    /// It goes.
    Delete,
    /// It is written again, as the script leaves it; and why whoever asks may not delete, where it may not.
    Update(Option<Script>, Option<String>),
    /// It is written elsewhere.
    Copy(Destination),
}

/// What was done.
#[derive(Debug, Default)]
struct Tally {
    total: u64,
    created: u64,
    updated: u64,
    deleted: u64,
    batches: u64,
    conflicts: u64,
    noops: u64,
    failures: Vec<Value>,
    status: u16,
    touched: Touched,
}

/// A hit, as far as it is needed.
#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_version", default)]
    version: u64,
    #[serde(rename = "_seq_no", default)]
    seq_no: u64,
    #[serde(rename = "_source", borrow)]
    source: Option<&'a RawValue>,
}

/// Carries a plan out and answers what was done.
///
/// # Errors
/// Where the search fails, or the destination is none.
pub async fn carry_out(rest: &Rest, plan: Plan, work: Work) -> Result<Answer, Error> {
    let start = Instant::now();
    let mut tally = Tally::default();
    for target in &plan.targets {
        if plan.max_docs.is_some_and(|max| tally.total >= max) {
            break;
        }
        over(rest, &plan, target, &work, &mut tally).await?;
        if !tally.failures.is_empty() {
            break;
        }
    }
    let coordinator = &rest.node.coordinator;
    // These requests know refresh as yes or no; waiting for the next is as good as one now.
    let refresh = if plan.refresh == Refresh::Later { Refresh::Later } else { Refresh::Now };
    std::mem::take(&mut tally.touched).make_visible(coordinator, refresh).await?;
    let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let status = if tally.failures.is_empty() { 200 } else { tally.status };
    Ok(Answer::json(&tally.shown(took, &work)).with_status(status))
}

impl Tally {
    fn shown(&self, took: u64, work: &Work) -> Value {
        let mut shown = serde_json::Map::new();
        let mut say = |key: &str, value: Value| shown.insert(key.to_owned(), value);
        say("took", json!(took));
        say("timed_out", json!(false));
        say("total", json!(self.total));
        if !matches!(work, Work::Delete) {
            say("updated", json!(self.updated));
        }
        if matches!(work, Work::Copy(_)) {
            say("created", json!(self.created));
        }
        say("deleted", json!(self.deleted));
        say("batches", json!(self.batches));
        say("version_conflicts", json!(self.conflicts));
        say("noops", json!(self.noops));
        say("retries", json!({ "bulk": 0, "search": 0 }));
        say("throttled_millis", json!(0));
        say("requests_per_second", json!(-1.0));
        say("throttled_until_millis", json!(0));
        say("failures", json!(self.failures));
        Value::Object(shown)
    }

    fn fail(&mut self, index: &str, id: &str, error: &Error) {
        self.status = self.status.max(error.status());
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(json!({
                "index": index,
                "id": id,
                "cause": error.cause_json(),
                "status": error.status(),
            }));
        }
    }
}

/// Runs over one index.
async fn over(
    rest: &Rest,
    plan: &Plan,
    target: &Target,
    work: &Work,
    tally: &mut Tally,
) -> Result<(), Error> {
    let coordinator = &rest.node.coordinator;
    let request = SearchRequest::parse(&body(plan, work))?;
    let routing = match plan.routing.as_slice() {
        [] => target.search_routing().into_iter().map(str::to_owned).collect(),
        given => given.to_vec(),
    };
    let filters = match target.filters().as_slice() {
        [] => BTreeMap::new(),
        filters => {
            let any = json!({ "bool": { "should": filters, "minimum_should_match": 1 } });
            BTreeMap::from([(target.index.name.clone(), any)])
        }
    };
    let scroll = Some(KEEP_ALIVE);
    let options = SearchOptions { routing, filters, scroll, ..SearchOptions::default() };
    let indices = [std::sync::Arc::clone(&target.index)];
    let outcome = coordinator.documents().search(&indices, request, options).await?;
    let found = outcome.total.map_or(0, |(total, _)| total);
    let left = plan.max_docs.map_or(u64::MAX, |max| max.saturating_sub(tally.total));
    let wanted = found.min(left);
    tally.total += wanted;
    let context = outcome.context.clone();
    let done = batches(rest, plan, target, work, tally, outcome, wanted).await;
    if let Some(context) = &context {
        // It may be gone already: then there is nothing to let go of.
        let _ = coordinator.documents().close_context(context);
    }
    done
}

async fn batches(
    rest: &Rest,
    plan: &Plan,
    target: &Target,
    work: &Work,
    tally: &mut Tally,
    mut outcome: SearchOutcome,
    mut left: u64,
) -> Result<(), Error> {
    let coordinator = &rest.node.coordinator;
    while left > 0 && !outcome.hits.is_empty() {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(outcome.hits.len());
        left -= take as u64;
        tally.batches += 1;
        batch(rest, plan, target, work, tally, &outcome.hits[..take]).await?;
        let Some(context) = outcome.context.clone().filter(|_| left > 0) else { break };
        if !tally.failures.is_empty() {
            break;
        }
        outcome = coordinator.documents().scroll(&context, Some(KEEP_ALIVE)).await?;
        outcome.context.get_or_insert(context);
    }
    Ok(())
}

/// The search that finds the documents.
fn body(plan: &Plan, work: &Work) -> Value {
    let needs_source = !matches!(work, Work::Delete);
    let source = plan.source.clone().unwrap_or_else(|| json!(needs_source));
    json!({
        "query": plan.query,
        "size": plan.batch,
        "sort": plan.sort.clone().unwrap_or_else(|| json!(["_doc"])),
        "track_total_hits": true,
        "version": true,
        "seq_no_primary_term": true,
        "_source": source,
    })
}

async fn batch(
    rest: &Rest,
    plan: &Plan,
    target: &Target,
    work: &Work,
    tally: &mut Tally,
    hits: &[Box<RawValue>],
) -> Result<(), Error> {
    let place = match work {
        Work::Copy(to) => Some(target::for_write(rest, &to.grant, &to.index, false, true).await?),
        _ => None,
    };
    let index = place.as_ref().map_or(&target.index, |place| &place.index);
    let mut writes = Vec::with_capacity(hits.len());
    for hit in hits {
        let hit: Hit<'_> = serde_json::from_str(hit.get())
            .map_err(|error| Error::internal(format!("a hit cannot be read: {error}")))?;
        let id = hit.id.clone();
        match write(hit, work, place.as_ref()) {
            Ok(Some(write)) => writes.push(write),
            Ok(None) => tally.noops += 1,
            Err(error) => tally.fail(&index.name, &id, &error),
        }
    }
    let named: Vec<(String, Option<String>)> =
        writes.iter().map(|write| (write.id.clone(), write.routing.clone())).collect();
    let results = rest.node.coordinator.documents().write_documents(index, writes).await;
    for ((id, routing), result) in named.into_iter().zip(results) {
        match result {
            Ok(written) => {
                tally.touched.add(index, written.partition);
                match written.result {
                    WriteResult::Created => tally.created += 1,
                    WriteResult::Updated => tally.updated += 1,
                    WriteResult::Deleted => tally.deleted += 1,
                    WriteResult::NotFound => tally.conflicts += 1,
                }
            }
            Err(error) => {
                let is_conflict = error.class == ErrorClass::Conflict;
                tally.conflicts += u64::from(is_conflict);
                if !is_conflict || !plan.proceeds {
                    tally.fail(&index.name, &id, &located(error, index, &id, routing.as_deref()));
                }
            }
        }
    }
    Ok(())
}

/// What is written for a hit; none where its script leaves it as it is.
fn write(
    hit: Hit<'_>,
    work: &Work,
    place: Option<&WriteTarget>,
) -> Result<Option<WriteRequest>, Error> {
    let unchanged = Condition::IfSequence { seq_no: hit.seq_no, primary_term: 1 };
    let script = match work {
        Work::Delete => None,
        Work::Update(script, _) => script.as_ref(),
        Work::Copy(to) => to.script.as_ref(),
    };
    let source = hit.source.map(|source| Bytes::copy_from_slice(source.get().as_bytes()));
    let (mut action, mut source) = (WriteKind::Index, source.unwrap_or_default());
    match script.map(|script| script.run(Some(&source))).transpose()? {
        None => (),
        Some(Becomes::Same) => return Ok(None),
        Some(Becomes::Document(changed)) => source = changed,
        Some(Becomes::Nothing) => {
            match (work, place) {
                (Work::Update(_, Some(words)), _) => return Err(needs::denied(words.clone())),
                (_, Some(place)) => place.check_delete()?,
                _ => {}
            }
            action = WriteKind::Delete;
        }
    }
    let mut routing = hit.routing;
    let mut condition = unchanged;
    match work {
        Work::Delete => action = WriteKind::Delete,
        Work::Update(..) => (),
        Work::Copy(to) => {
            if let Some(given) = &to.routing {
                routing.clone_from(given);
            }
            if let Some(place) = place {
                routing = place.routing(&hit.id, routing)?;
            }
            if to.creates_only && action == WriteKind::Index {
                action = WriteKind::Create;
            }
            condition = match to.version_type {
                VersionType::Internal => Condition::None,
                VersionType::External => Condition::External(hit.version),
                VersionType::ExternalGte => Condition::ExternalGte(hit.version),
            };
        }
    }
    if action == WriteKind::Delete {
        source = Bytes::new();
    }
    Ok(Some(WriteRequest { id: hit.id, routing, action, source, condition }))
}
