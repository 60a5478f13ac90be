//! A search over partitions: one copy of each is asked, the answers are reduced to one, and the
//! documents of its hits fetched from the very views that were asked. How one copy is asked, here
//! or on another node, is in `parts.rs`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use plimsoll_index::Error;
use plimsoll_index::aggregation::MAX_BUCKETS_DEFAULT;
use plimsoll_index::search::{
    self as partition_search, Hit, PartitionResult, RESULT_WINDOW_MAX, SearchRequest,
};
use plimsoll_memory::ledger::Heir;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::contexts::{Scroll, missing};
use super::memory::{OfRequest, apart};
use super::options::{ContextId, Last, SearchOptions};
use super::parts::{Asked, Part};
use super::pool::{Cancel, is_hopeless};
use super::service::Documents;
use crate::metadata::index::{IndexMetadata, no_such_index};
use crate::wire::CIRCUIT_BREAKING;

/// What a search found.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// How long it took, ms.
    pub took_ms: u64,
    /// Whether partitions were left out because they took too long.
    pub timed_out: bool,
    /// Whether collecting ended early because that was asked for.
    pub terminated_early: Option<bool>,
    /// Partitions asked, that answered, passed over, that failed.
    pub shards: [u32; 4],
    /// Why partitions failed: `shard`, `index`, `node`, `reason` each.
    pub failures: Vec<Value>,
    /// How many documents match, and whether that is exact rather than at least; `None` where it
    /// was not asked for.
    pub total: Option<(u64, bool)>,
    /// The best score; `None` where there are no scores.
    pub max_score: Option<f32>,
    /// Each hit as it is answered.
    pub hits: Vec<Box<RawValue>>,
    /// The aggregations as they are answered.
    pub aggregations: Option<Value>,
    /// The scroll that goes on, or the point in time that was asked.
    pub context: Option<ContextId>,
}

/// Where hits have expired since the views that were asked, the page is looked for among so many hits more: in vain, at
/// last.
const EXPIRED_HITS: [usize; 2] = [1_000, 10_000];
/// Of those so many rows are read at once at most.
const FETCHED_AT_ONCE: usize = 1_000;
/// By how many times more hits a scroll looks for the next that has not expired, each time in vain.
const SCROLL_WIDENING: usize = 10;

/// A page of hits that have not expired.
struct Page {
    outcome: SearchOutcome,
    /// Where each part goes on.
    last: Last,
    /// How many hits were found, shown or not.
    found: usize,
    /// How many of those that were looked at have expired since the views that were asked.
    expired: usize,
}

/// What the partitions answered.
struct Answers {
    results: Vec<(usize, PartitionResult)>,
    failed: Vec<(usize, Error)>,
    timed_out: bool,
}

/// How all partitions of a search are asked.
#[derive(Clone, Copy)]
struct Ways<'a> {
    cancel: &'a Cancel,
    rank: u32,
    keep: Option<Duration>,
}

impl Documents {
    /// Searches indices.
    ///
    /// # Errors
    /// Where the request cannot be carried out on any partition, or, unless partial answers are
    /// allowed, on one.
    pub async fn search(
        &self,
        targets: &[Arc<IndexMetadata>],
        request: SearchRequest,
        options: SearchOptions,
    ) -> Result<SearchOutcome, Error> {
        let began = self.searching.time.now();
        let (parts, keep) = match &options.context {
            Some((id, keep_alive)) => {
                let open = self.searching.contexts.get(id, *keep_alive)?;
                (open.parts, Some(open.keep_alive))
            }
            None => (Arc::new(self.parts(targets, &options.routing)?), options.scroll),
        };
        let request = Arc::new(request);
        let (mut outcome, last) = match options.scroll {
            Some(_) => self.scrolled(&parts, &request, &options, (None, keep), |_| ()).await?,
            None => (self.search_filled(&parts, &request, &options, keep).await?, Last::new()),
        };
        if let Some(keep_alive) = options.scroll {
            let scroll = Scroll {
                request: Arc::clone(&request),
                filters: options.filters.clone(),
                last,
                total: outcome.total,
            };
            outlives_its_request();
            let contexts = &self.searching.contexts;
            outcome.context =
                Some(contexts.add(parts, Some(scroll), keep_alive, &options.owner)?);
        } else {
            outcome.context = options.context.map(|(id, _)| id);
        }
        outcome.took_ms = millis(self.searching.time.now() - began);
        Ok(outcome)
    }

    /// The next page of a scroll.
    ///
    /// # Errors
    /// Where nobody holds it any more.
    pub async fn scroll(
        &self,
        id: &ContextId,
        keep_alive: Option<Duration>,
    ) -> Result<SearchOutcome, Error> {
        let began = self.searching.time.now();
        let contexts = &self.searching.contexts;
        let open = contexts.get(id, keep_alive)?;
        let (parts, keep) = (open.parts, Some(open.keep_alive));
        let scroll = open.scroll.ok_or_else(|| missing(id))?;
        let options = SearchOptions {
            filters: scroll.filters,
            request_cache: Some(false),
            ..SearchOptions::default()
        };
        // Aggregations come with the first page alone; the total is that of the first.
        let request = hits_alone(&scroll.request, scroll.request.size())?;
        let moved = |last: &Last| {
            contexts.moved(id, last.clone());
            // Its time begins anew; one that was let go meanwhile is found to be so by who asks next.
            let _ = contexts.get(id, None);
        };
        let from = (Some(&scroll.last), keep);
        let (mut outcome, last) = self.scrolled(&parts, &request, &options, from, moved).await?;
        outlives_its_request();
        contexts.moved(id, last);
        outcome.aggregations = None;
        outcome.total = scroll.total;
        outcome.context = Some(id.clone());
        outcome.took_ms = millis(self.searching.time.now() - began);
        Ok(outcome)
    }

    /// Holds the views of indices as they are now: a point in time of this owner.
    ///
    /// # Errors
    /// Where there are too many, or an index is closed.
    pub async fn open_context(
        &self,
        targets: &[Arc<IndexMetadata>],
        keep_alive: Duration,
        owner: &str,
    ) -> Result<ContextId, Error> {
        let parts = Arc::new(self.parts(targets, &[])?);
        let held = join_all(parts.iter().map(|part| part.hold(self, keep_alive))).await;
        held.into_iter().collect::<Result<(), Error>>()?;
        outlives_its_request();
        self.searching.contexts.add(parts, None, keep_alive, owner)
    }

    /// Lets go of a scroll or a point in time; false where nobody held it.
    #[must_use]
    pub fn close_context(&self, id: &ContextId) -> bool {
        self.searching.contexts.remove(id)
    }

    /// The scrolls, or points in time, that are held: name, creation (ms since 1970), keep-alive.
    #[must_use]
    pub fn contexts(&self, scrolls: bool) -> Vec<(ContextId, u64, Duration)> {
        self.searching.contexts.list(scrolls)
    }

    /// How many documents match, and [`SearchOutcome::shards`].
    ///
    /// # Errors
    /// As those of [`Self::search`].
    pub async fn count(
        &self,
        targets: &[Arc<IndexMetadata>],
        request: SearchRequest,
        options: SearchOptions,
    ) -> Result<SearchOutcome, Error> {
        let counting = request.with("size", json!(0))?.with("track_total_hits", json!(true))?;
        self.search(targets, counting, options).await
    }

    /// The partitions of indices.
    fn parts(
        &self,
        targets: &[Arc<IndexMetadata>],
        routing: &[String],
    ) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::new();
        for index in targets {
            if !index.is_open {
                return Err(closed(index));
            }
            let table = self.router.tables.by_name(&index.name);
            let table = table.ok_or_else(|| no_such_index(&index.name))?;
            let index = table.index().ok_or_else(|| no_such_index(&index.name))?;
            let wanted: Vec<usize> =
                routing.iter().map(|routing| table.ordinal_of(routing.as_bytes())).collect();
            for (ordinal, copies) in table.copies().iter().enumerate() {
                if wanted.is_empty() || wanted.contains(&ordinal) {
                    parts.push(Part::of(&index, copies));
                }
            }
        }
        Ok(parts)
    }

    /// Asks parts, and for more where hits have expired since their views: documents after them fill the page. All but
    /// the hits is as it was found at first, and so is the page where others cannot be had.
    async fn search_filled(
        &self,
        parts: &Arc<Vec<Part>>,
        request: &Arc<SearchRequest>,
        options: &SearchOptions,
        keep: Option<Duration>,
    ) -> Result<SearchOutcome, Error> {
        let (began, wanted) = (self.searching.time.now(), request.size());
        let first = self.search_parts(parts, request, options, (None, keep), wanted).await?;
        let Page { mut outcome, found, expired, .. } = first;
        if expired == 0 || found < request.size() || outcome.timed_out {
            return Ok(outcome);
        }
        for extra in EXPIRED_HITS {
            let timeout = match options.timeout {
                None => None,
                Some(timeout) => match timeout.checked_sub(self.searching.time.now() - began) {
                    None => break,
                    left => left,
                },
            };
            let options = SearchOptions { timeout, request_cache: Some(false), ..options.clone() };
            let wider = hits_alone(request, request.size().saturating_add(extra))?;
            let page = self.search_parts(parts, &wider, &options, (None, keep), wanted).await;
            let is_worse =
                |it: &SearchOutcome| it.timed_out || it.failures.len() > outcome.failures.len();
            let Some(page) = page.ok().filter(|page| !is_worse(&page.outcome)) else { break };
            if page.outcome.hits.len() > outcome.hits.len() {
                outcome.hits = page.outcome.hits;
            }
            if outcome.hits.len() >= request.size() || page.found < wider.size() {
                break;
            }
        }
        Ok(outcome)
    }

    /// The next page of a scroll: not an empty one before its end, also where all of its hits have expired. Where it
    /// looks further, `moved` is told each time.
    async fn scrolled(
        &self,
        parts: &Arc<Vec<Part>>,
        request: &Arc<SearchRequest>,
        options: &SearchOptions,
        (after, keep): (Option<&Last>, Option<Duration>),
        moved: impl Fn(&Last) + Send + Sync,
    ) -> Result<(SearchOutcome, Last), Error> {
        let wanted = request.size();
        let first = self.search_parts(parts, request, options, (after, keep), wanted).await?;
        let Page { mut outcome, mut last, mut expired, .. } = first;
        let mut size = request.size();
        while outcome.hits.is_empty() && expired > 0 && !outcome.timed_out {
            moved(&last);
            size = size.saturating_mul(SCROLL_WIDENING).min(RESULT_WINDOW_MAX.max(request.size()));
            let wider = hits_alone(request, size)?;
            let from = (Some(&last), keep);
            let page = self.search_parts(parts, &wider, options, from, wanted).await?;
            outcome.hits = page.outcome.hits;
            outcome.timed_out = page.outcome.timed_out;
            if !page.outcome.failures.is_empty() {
                (outcome.failures, outcome.shards) = (page.outcome.failures, page.outcome.shards);
            }
            (last, expired) = (page.last, page.expired);
        }
        Ok((outcome, last))
    }

    /// Asks parts; `after` is the hit that a scroll goes on after, and `keep` for how long the
    /// views are held, where somebody comes back to them.
    async fn search_parts(
        &self,
        parts: &Arc<Vec<Part>>,
        request: &Arc<SearchRequest>,
        options: &SearchOptions,
        (after, keep): (Option<&Last>, Option<Duration>),
        wanted: usize,
    ) -> Result<Page, Error> {
        let cancel = Cancel::default();
        let _guard = cancel.guard();
        let ways = Ways { cancel: &cancel, rank: self.searching.draws.next_u32(), keep };
        let mut answers = self.ask_parts(parts, request, options, after, ways).await;
        // A breaker stops a search, not a part of it.
        if let Some((_, error)) =
            answers.failed.iter().find(|(_, error)| error.kind == CIRCUIT_BREAKING)
        {
            return Err(error.clone());
        }
        let asked = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        if !answers.failed.is_empty() && (answers.results.is_empty() || !options.allow_partial) {
            return Err(all_failed(parts, &answers.failed));
        }
        for (at, result) in &mut answers.results {
            for hit in &mut result.hits {
                partition_search::among_all(request, *at, hit);
            }
        }
        let (positions, results): (Vec<usize>, Vec<PartitionResult>) =
            answers.results.into_iter().unzip();
        let account = OfRequest(plimsoll_memory::current());
        let (of, typed_keys) = (Arc::clone(request), options.typed_keys);
        let reduced = apart(move || {
            let max = MAX_BUCKETS_DEFAULT;
            partition_search::reduce_with(&of, results, max, typed_keys, &account)
        })
        .await?;
        let hits: Vec<(usize, Hit)> = reduced
            .hits
            .into_iter()
            .filter_map(|(at, hit)| positions.get(at).map(|part| (*part, hit)))
            .collect();
        let mut last = after.cloned().unwrap_or_else(|| vec![None; parts.len()]);
        let (mut shown, mut unfetched) = (Vec::new(), Vec::new());
        let (mut looked, mut expired) = (0, 0);
        while looked < hits.len() && shown.len() < wanted && unfetched.is_empty() {
            let count = (wanted - shown.len()).max(expired.min(FETCHED_AT_ONCE));
            let piece: Vec<(usize, Hit)> = hits.iter().skip(looked).take(count).cloned().collect();
            let asked = piece.len();
            let is_last = keep.is_none() && looked + asked == hits.len();
            let (fetched, failed) = self.fetch(parts, request, piece, (&cancel, is_last)).await?;
            if failed.is_empty() {
                expired += asked - fetched.len();
            }
            shown.extend(fetched.into_iter().map(|(at, hit)| (looked + at, hit)));
            looked += asked;
            unfetched = failed;
        }
        shown.truncate(wanted);
        // The next page goes on after what is shown.
        let passed = match shown.last() {
            Some((at, _)) if shown.len() == wanted => at + 1,
            _ => looked,
        };
        for (part, hit) in hits.iter().take(passed) {
            if let Some(slot) = last.get_mut(*part) {
                *slot = Some(hit.clone());
            }
        }
        answers.failed.extend(unfetched);
        if !answers.failed.is_empty()
            && (!options.allow_partial || (shown.is_empty() && !hits.is_empty()))
        {
            return Err(all_failed(parts, &answers.failed));
        }
        let failed = u32::try_from(answers.failed.len()).unwrap_or(u32::MAX);
        let terminates = request.terminate_after() > 0;
        let outcome = SearchOutcome {
            took_ms: 0,
            timed_out: answers.timed_out || reduced.timed_out,
            terminated_early: terminates.then_some(reduced.terminated_early),
            shards: [asked, asked - failed, 0, failed],
            failures: answers
                .failed
                .iter()
                .map(|(at, error)| failure(&parts[*at], error))
                .collect(),
            total: reduced.total.map(|total| (total, !reduced.total_is_at_least)),
            max_score: reduced.max_score,
            hits: shown.into_iter().map(|(_, hit)| hit).collect(),
            aggregations: reduced.aggregations,
            context: None,
        };
        Ok(Page { outcome, last, found: hits.len(), expired })
    }

    async fn ask_parts(
        &self,
        parts: &Arc<Vec<Part>>,
        request: &Arc<SearchRequest>,
        options: &SearchOptions,
        after: Option<&Last>,
        ways: Ways<'_>,
    ) -> Answers {
        let asked = (0..parts.len()).map(|at| {
            let after = after.and_then(|last| last.get(at).cloned().flatten());
            self.ask_part(parts, at, request, options, (after, ways))
        });
        let answers = all_unless_broken(asked);
        let mut gathered = Answers { results: Vec::new(), failed: Vec::new(), timed_out: false };
        let answers = match options.timeout {
            None => answers.await,
            Some(timeout) => {
                // Each stops by itself at the time that was set; what they have then counts.
                let answers = self.searching.time.timeout(timeout, answers).await;
                gathered.timed_out = answers.is_err();
                answers.unwrap_or_default()
            }
        };
        for (at, answer) in answers {
            match answer {
                Ok(result) => gathered.results.push((at, result)),
                // It would have come too late, which is what was asked for.
                Err(error) if options.timeout.is_some() && is_hopeless(&error) => {
                    gathered.timed_out = true;
                }
                Err(error) => gathered.failed.push((at, error)),
            }
        }
        gathered
    }

    async fn ask_part(
        &self,
        parts: &Arc<Vec<Part>>,
        at: usize,
        request: &Arc<SearchRequest>,
        options: &SearchOptions,
        (after, ways): (Option<Hit>, Ways<'_>),
    ) -> Result<PartitionResult, Error> {
        let part = &parts[at];
        let request = match options.filters.get(&part.index.name) {
            Some(filter) => Arc::new(filtered(request, filter)?),
            None => Arc::clone(request),
        };
        let Ways { cancel, rank, keep } = ways;
        let request = match partition_search::asked_of(&request, at)? {
            Some(own) => Arc::new(own),
            None => request,
        };
        let after = after.map(|mut hit| {
            partition_search::in_its_own(&request, at, &mut hit);
            hit
        });
        let asked = Asked { request: &request, options, after, cancel, rank, keep };
        let answer = part.query(self, asked).await;
        answer.map_err(|error| of_index(error, &part.index))
    }

    /// The JSON of each hit and its place, from the views that were asked; one whose row has expired is left out.
    /// Beside it the parts whose hits could not be fetched, and why.
    async fn fetch(
        &self,
        parts: &Arc<Vec<Part>>,
        request: &Arc<SearchRequest>,
        hits: Vec<(usize, Hit)>,
        (cancel, is_last): (&Cancel, bool),
    ) -> Result<(Vec<(usize, Box<RawValue>)>, Vec<(usize, Error)>), Error> {
        let mut wanted: BTreeMap<usize, Vec<(usize, Hit)>> = BTreeMap::new();
        let count = hits.len();
        for (at, (part, hit)) in hits.into_iter().enumerate() {
            wanted.entry(part).or_default().push((at, hit));
        }
        let fetched = wanted.into_iter().map(|(part, hits)| async move {
            let way = (cancel, is_last);
            (part, parts[part].fetch(self, request, hits, way).await)
        });
        let mut ordered: Vec<Option<Box<RawValue>>> = vec![None; count];
        let mut failed = Vec::new();
        for (part, fetched) in join_all(fetched).await {
            match fetched {
                Ok(hits) => {
                    for (at, hit) in hits {
                        if let Some(slot) = ordered.get_mut(at) {
                            *slot = Some(hit);
                        }
                    }
                }
                // The request is wrong, or a breaker stopped it: no part of it would go on.
                Err(error) if !error.class.is_the_nodes() => return Err(error),
                Err(error) => failed.push((part, of_index(error, &parts[part].index))),
            }
        }
        let placed = ordered.into_iter().enumerate();
        Ok((placed.filter_map(|(at, hit)| Some((at, hit?))).collect(), failed))
    }
}

/// What all futures answer, with their places; once one was stopped by a breaker the others are
/// dropped, and with them their work here and on other nodes.
async fn all_unless_broken<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Vec<(usize, Result<T, Error>)> {
    let numbered = futures.enumerate().map(|(at, it)| it.map(move |done| (at, done)));
    let mut running: FuturesUnordered<_> = numbered.collect();
    let mut answers = Vec::with_capacity(running.len());
    while let Some((at, answer)) = running.next().await {
        let is_broken = matches!(&answer, Err(error) if error.kind == CIRCUIT_BREAKING);
        answers.push((at, answer));
        if is_broken {
            break;
        }
    }
    // In the order of the partitions, so that equal searches are answered equally.
    answers.sort_by_key(|(at, _)| *at);
    answers
}

/// The same request for so many hits, and for nothing else.
fn hits_alone(request: &SearchRequest, size: usize) -> Result<Arc<SearchRequest>, Error> {
    let mut body = request.body().clone();
    if let Some(body) = body.as_object_mut() {
        body.retain(|key, _| key != "aggs" && key != "aggregations");
        body.insert("track_total_hits".to_owned(), json!(false));
        body.insert("size".to_owned(), json!(size));
    }
    let mut request = SearchRequest::parse(&body)?;
    // What a client asked for at once was looked at before.
    request.set_window_max(usize::MAX);
    Ok(Arc::new(request))
}

/// Says that what the request leaves behind is a scroll's or a point in time's.
fn outlives_its_request() {
    if let Some(account) = plimsoll_memory::current() {
        account.leave_to(Heir::Contexts);
    }
}

/// The request that only finds what an alias' filter lets through.
fn filtered(request: &SearchRequest, filter: &Value) -> Result<SearchRequest, Error> {
    let query = request.body().get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} }));
    request.with("query", json!({ "bool": { "must": [query], "filter": [filter] } }))
}

/// An error of a partition's own, saying of which index.
fn of_index(error: Error, index: &IndexMetadata) -> Error {
    match &*error.kind {
        "query_shard_exception" => {
            error.with("index", index.name.clone()).with("index_uuid", index.uuid.clone())
        }
        _ => error,
    }
}

fn failure(part: &Part, error: &Error) -> Value {
    json!({
        "shard": part.copies.id.ordinal,
        "index": part.index.name,
        "node": part.node(),
        "reason": error.cause_json(),
    })
}

/// The error of a search that no partition could carry out, or one that must be whole.
fn all_failed(parts: &[Part], failed: &[(usize, Error)]) -> Error {
    let Some((_, first)) = failed.first() else { return Error::internal("no partition answered") };
    // The same failure of every partition is said once.
    let mut shown: Vec<Value> = Vec::new();
    let mut reasons: Vec<(&str, &str)> = Vec::new();
    for (at, error) in failed {
        let reason = (&*error.kind, error.reason.as_str());
        if !reasons.contains(&reason) {
            reasons.push(reason);
            shown.push(failure(&parts[*at], error));
        }
    }
    let is_whole = failed.len() == parts.len();
    let reason = if is_whole { "all shards failed" } else { "Partial shards failure" };
    let mut root = first.clone();
    root.caused_by = None;
    let error = Error::new(first.class, "search_phase_execution_exception", reason)
        .with("phase", "query")
        .with("grouped", true)
        .with("failed_shards", shown)
        .rooted_in(root);
    // Faults that are not Elasticsearch's own are shown as a cause besides.
    match &*first.kind {
        "illegal_argument_exception" => {
            let cause = first.clone();
            error.caused_by(cause.clone().caused_by(cause))
        }
        _ => error,
    }
}

fn closed(index: &IndexMetadata) -> Error {
    Error::invalid("index_closed_exception", "closed")
        .with("index", index.name.clone())
        .with("index_uuid", index.uuid.clone())
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
