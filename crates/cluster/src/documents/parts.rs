//! One partition of a search: the copy that is asked, on this node or another, and the view that
//! it was asked by, from which the hits are fetched. What is asked of all partitions together, and
//! what becomes of the answers, is in `search.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_control::Class;
use plimsoll_index::Error;
use plimsoll_index::aggregation::MAX_BUCKETS_DEFAULT;
use plimsoll_index::search::{
    self as partition_search, FetchedRow, Hit, PartitionResult, SearchRequest, Surroundings,
};
use serde_json::value::RawValue;

use super::indexer::{PartitionView, document_in};
use super::memory::{BROKEN, OfRequest};
use super::pool::Cancel;
use super::read::unavailable;
use super::search::SearchOptions;
use super::types::IndexMetadata;
use crate::lead::now_ms;
use crate::members::Member;
use crate::node::Shared;
use crate::partition::Partition;
use crate::routing::NoAnswer;
use crate::rpc::{Problem, Question, Reply, SearchPart, rest_error};
use crate::table::Copies;

/// How long a copy on another node has to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long another node holds the view of a query for the fetch that follows.
const FETCH_HOLD: Duration = Duration::from_secs(60);

/// A partition that is asked.
pub(crate) struct Part {
    pub index: Arc<IndexMetadata>,
    pub copies: Arc<Copies>,
    /// The copies that may be asked, best first.
    order: Vec<Place>,
    /// The view that was asked, once it was.
    held: Mutex<Option<Held>>,
}

/// Where a copy is.
#[derive(Clone)]
enum Place {
    Here(Arc<Partition>),
    There(Arc<Member>),
}

/// A view that was asked.
#[derive(Clone)]
enum Held {
    Here(Local),
    There(Arc<Member>, u64),
}

/// A copy on this node and a view of it.
#[derive(Clone)]
pub(crate) struct Local {
    pub index: Arc<IndexMetadata>,
    pub partition: Arc<Partition>,
    pub view: Arc<PartitionView>,
}

/// What is asked.
pub(super) struct Asked<'a> {
    pub request: &'a Arc<SearchRequest>,
    pub options: &'a SearchOptions,
    /// The hit that a scroll goes on after.
    pub after: Option<Hit>,
    pub cancel: &'a Cancel,
}

impl Part {
    pub(super) fn of(shared: &Shared, index: &Arc<IndexMetadata>, copies: &Arc<Copies>) -> Self {
        let local = copies.local().filter(|it| it.fault().is_none());
        let there =
            if shared.is_alone { Vec::new() } else { shared.others_with(copies, Class::Search) };
        let here = local.map(Place::Here).into_iter();
        let order = here.chain(there.into_iter().map(Place::There)).collect();
        let (index, copies) = (Arc::clone(index), Arc::clone(copies));
        Self { index, copies, order, held: Mutex::new(None) }
    }

    /// The node that was asked, where it was another.
    pub(super) fn node(&self) -> Option<String> {
        match &*self.held.lock() {
            Some(Held::There(member, _)) => Some(member.record.name.clone()),
            _ => None,
        }
    }

    /// Holds the view of a point in time.
    pub(super) async fn hold(&self, shared: &Shared, keep_alive: Duration) -> Result<(), Error> {
        let mut last = no_copy();
        for place in &self.order {
            match self.hold_at(shared, place, keep_alive).await {
                Ok(held) => {
                    *self.held.lock() = Some(held);
                    return Ok(());
                }
                Err(Failed::Here(error)) => return Err(error),
                Err(Failed::Elsewhere(error)) => last = error,
            }
        }
        Err(last)
    }

    async fn hold_at(
        &self,
        shared: &Shared,
        place: &Place,
        keep_alive: Duration,
    ) -> Result<Held, Failed> {
        match place {
            Place::Here(partition) => Ok(Held::Here(self.local(shared, partition).await?)),
            Place::There(member) => {
                let question = Question::Hold { part: self.part(0, keep_alive) };
                match self.ask(shared, member, question).await? {
                    Reply::Held { view } => Ok(Held::There(Arc::clone(member), view)),
                    _ => Err(Failed::Here(unreadable())),
                }
            }
        }
    }

    /// The query phase, on the view that is held, or the present one of the best copy.
    pub(super) async fn query(
        &self,
        shared: &Shared,
        asked: Asked<'_>,
    ) -> Result<PartitionResult, Error> {
        let held = self.held.lock().clone();
        match held {
            Some(Held::Here(local)) => local.query(shared, &asked).await,
            Some(Held::There(member, view)) => {
                let (result, _) = self.query_there(shared, &member, view, &asked).await?;
                Ok(result)
            }
            None => {
                let mut last = no_copy();
                for place in &self.order {
                    match self.query_at(shared, place, &asked).await {
                        Ok((result, held)) => {
                            *self.held.lock() = Some(held);
                            return Ok(result);
                        }
                        Err(Failed::Here(error)) => return Err(error),
                        Err(Failed::Elsewhere(error)) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    async fn query_at(
        &self,
        shared: &Shared,
        place: &Place,
        asked: &Asked<'_>,
    ) -> Result<(PartitionResult, Held), Failed> {
        match place {
            Place::Here(partition) => {
                let local = self.local(shared, partition).await?;
                let result = local.query(shared, asked).await?;
                Ok((result, Held::Here(local)))
            }
            Place::There(member) => {
                let (result, view) = self.query_there(shared, member, 0, asked).await?;
                Ok((result, Held::There(Arc::clone(member), view)))
            }
        }
    }

    async fn query_there(
        &self,
        shared: &Shared,
        member: &Arc<Member>,
        view: u64,
        asked: &Asked<'_>,
    ) -> Result<(PartitionResult, u64), Failed> {
        let hold = match (asked.options.scroll, asked.request.size()) {
            (Some(scroll), _) => scroll,
            (None, 0) => Duration::ZERO,
            (None, _) => FETCH_HOLD,
        };
        let question = Question::Query {
            part: self.part(view, hold),
            body: asked.request.body().to_string(),
            after: asked.after.clone(),
            request_cache: asked.options.request_cache,
        };
        match self.ask(shared, member, question).await? {
            Reply::Queried { result, view } => Ok((*result, view)),
            _ => Err(Failed::Here(unreadable())),
        }
    }

    /// The JSON of hits with their places, from the view that was asked.
    pub(super) async fn fetch(
        &self,
        shared: &Shared,
        request: &Arc<SearchRequest>,
        hits: Vec<(usize, Hit)>,
        cancel: &Cancel,
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let held = self.held.lock().clone();
        match held {
            Some(Held::Here(local)) => local.fetch(shared, request, hits, cancel).await,
            Some(Held::There(member, view)) => {
                let (places, hits): (Vec<usize>, Vec<Hit>) = hits.into_iter().unzip();
                let part = self.part(view, Duration::ZERO);
                let body = request.body().to_string();
                let question = Question::Fetch { part, body, hits };
                let Reply::Fetched(found) = self.ask(shared, &member, question).await? else {
                    return Err(unreadable());
                };
                let hit = |(at, json): (u64, String)| {
                    let place = places.get(usize::try_from(at).unwrap_or(usize::MAX)).copied();
                    Some((place?, RawValue::from_string(json).ok()?))
                };
                found.into_iter().map(|it| hit(it).ok_or_else(unreadable)).collect()
            }
            None => Err(Error::internal("nothing was asked")),
        }
    }

    /// A copy on this node with its present view; one not indexed yet is refreshed first.
    async fn local(&self, shared: &Shared, partition: &Arc<Partition>) -> Result<Local, Failed> {
        let local = Local::of(shared, &self.index, partition).await;
        local.map_err(Failed::of)
    }

    async fn ask(
        &self,
        shared: &Shared,
        member: &Member,
        question: Question,
    ) -> Result<Reply, Failed> {
        match shared.ask(member, self.copies.ask(Class::Search), question, QUERY_TIMEOUT).await {
            Ok(Reply::Problem(Problem::Rest(error))) => Err(Failed::of(rest_error(&error))),
            Ok(reply) => Ok(reply),
            Err(NoAnswer::Elsewhere(why) | NoAnswer::Unknown(why)) => {
                let why = format!("node [{}]: {why}", member.record.name);
                Err(Failed::Elsewhere(unavailable(why)))
            }
        }
    }

    fn part(&self, view: u64, hold: Duration) -> SearchPart {
        let hold_ms = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        SearchPart { partition: self.copies.id.into(), view, hold_ms }
    }
}

/// Why a copy did not answer.
enum Failed {
    /// Another would not either.
    Here(Error),
    /// Another may.
    Elsewhere(Error),
}

impl Failed {
    /// What the request deserves is the same everywhere; what the node lacks is not. A search
    /// that a breaker stopped is not to take another node's memory next.
    fn of(error: Error) -> Self {
        if error.kind == BROKEN {
            Self::Here(error)
        } else if error.status == 429 || error.status >= 500 {
            Self::Elsewhere(error)
        } else {
            Self::Here(error)
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Here(error) | Failed::Elsewhere(error) => error,
        }
    }
}

fn no_copy() -> Error {
    unavailable("no copy of the partition can be asked".to_owned())
}

fn unreadable() -> Error {
    Error::internal("another node's answer cannot be read")
}

impl Local {
    /// The present view of a copy; one not indexed yet is refreshed first.
    pub(crate) async fn of(
        shared: &Shared,
        index: &Arc<IndexMetadata>,
        partition: &Arc<Partition>,
    ) -> Result<Self, Error> {
        let indexer = partition.indexer().ok_or_else(|| unavailable("no index".to_owned()))?;
        let view = match indexer.view() {
            Some(view) => view,
            None => {
                let indexer = Arc::clone(indexer);
                shared.documents.pool.run(move || indexer.refresh()).await??
            }
        };
        let (index, partition) = (Arc::clone(index), Arc::clone(partition));
        Ok(Self { index, partition, view })
    }

    /// The query phase on the search threads, or its answer from the request cache.
    pub(super) async fn query(
        &self,
        shared: &Shared,
        asked: &Asked<'_>,
    ) -> Result<PartitionResult, Error> {
        let documents = &shared.documents;
        let key = documents.cache.key(self, asked.request, asked.options);
        if let Some(found) = key.as_ref().and_then(|key| documents.cache.get(key)) {
            return Ok(found);
        }
        let (local, cancel) = (self.clone(), asked.cancel.clone());
        let (request, after) = (Arc::clone(asked.request), asked.after.clone());
        let work = move || {
            let began = Instant::now();
            let answer = local.query_now(&request, after.as_ref(), &|| cancel.is_set());
            local.count_query(began);
            answer
        };
        let answer = documents.pool.run(work).await??;
        if let Some(key) = key.filter(|_| !answer.timed_out) {
            documents.cache.put(&key, &answer);
        }
        Ok(answer)
    }

    fn query_now(
        &self,
        request: &SearchRequest,
        after: Option<&Hit>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<PartitionResult, Error> {
        let now_ms = now_ms();
        let row = |key: &[u8], id: &str| self.row(key, id, now_ms);
        let account = OfRequest(plimsoll_memory::current());
        let around = Surroundings {
            now_ms,
            cancelled: &|| cancelled() || account.is_stopped(),
            memory: &account,
            max_buckets: MAX_BUCKETS_DEFAULT,
            after,
            rows: Some((&self.index.name, &row)),
        };
        let answer = partition_search::query_phase_in(&self.view.searcher, request, &around);
        // What a search that had to stop found so far is no answer.
        account.check()?;
        answer
    }

    /// The JSON of hits with their places; one whose row is gone is left out.
    pub(super) async fn fetch(
        &self,
        shared: &Shared,
        request: &Arc<SearchRequest>,
        hits: Vec<(usize, Hit)>,
        cancel: &Cancel,
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let (local, request, cancel) = (self.clone(), Arc::clone(request), cancel.clone());
        let work = move || {
            if cancel.is_set() {
                return Ok(Vec::new());
            }
            OfRequest(plimsoll_memory::current()).check()?;
            local.fetch_now(&request, hits)
        };
        shared.documents.pool.run(work).await?
    }

    fn fetch_now(
        &self,
        request: &SearchRequest,
        hits: Vec<(usize, Hit)>,
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let began = Instant::now();
        let now_ms = now_ms();
        let row = |key: &[u8], id: &str| self.row(key, id, now_ms);
        let (positions, hits): (Vec<usize>, Vec<Hit>) = hits.into_iter().unzip();
        let searcher = &self.view.searcher;
        let found =
            partition_search::fetch_phase(searcher, request, &self.index.name, &hits, &row)?;
        self.count_fetch(began);
        Ok(positions.into_iter().zip(found).collect())
    }

    /// A document's row as of the view; one that cannot be read is said and not shown.
    fn row(&self, key: &[u8], id: &str, now_ms: u64) -> Option<FetchedRow> {
        let found = document_in(&self.view.rows, key, id, now_ms);
        let found = found.unwrap_or_else(|error| {
            tracing::error!(partition = %self.partition.id, id, %error, "a row cannot be read");
            None
        });
        found.map(|it| FetchedRow { source: it.source, version: it.version, seq_no: it.seq_no })
    }

    fn count_query(&self, began: Instant) {
        if let Some(indexer) = self.partition.indexer() {
            let counters = &indexer.counters;
            counters.queries.fetch_add(1, Ordering::Relaxed);
            counters.query_us.fetch_add(micros(began), Ordering::Relaxed);
        }
    }

    fn count_fetch(&self, began: Instant) {
        if let Some(indexer) = self.partition.indexer() {
            let counters = &indexer.counters;
            counters.fetches.fetch_add(1, Ordering::Relaxed);
            counters.fetch_us.fetch_add(micros(began), Ordering::Relaxed);
        }
    }
}

fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}
