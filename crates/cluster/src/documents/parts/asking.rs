//! A partition is asked: the query phase, and the fetch of its hits from the same view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_control::Class;
use plimsoll_control::admission::Tier;
use plimsoll_index::Error;
use plimsoll_index::aggregation::MAX_BUCKETS_DEFAULT;
use plimsoll_index::search::{
    self as partition_search, Cancelled, FetchedRow, Hit, PartitionResult, SearchRequest,
    Surroundings,
};
use plimsoll_memory::Account;
use serde_json::value::RawValue;

use super::{Asked, Held, HeldThere, Local, Part, QUERY_TIMEOUT};
use crate::documents::costs::Costs;
use crate::documents::indexer::{Indexer, PartitionView, document_in, indexer_of, refresh_in_time};
use crate::documents::memory::OfRequest;
use crate::documents::pool::{Cancel, Order};
use crate::documents::service::Documents;
use crate::documents::types::Document;
use crate::metadata::index::IndexMetadata;
use crate::metadata::members::Member;
use crate::replication::index::DocumentsIndex;
use crate::replication::partition::Partition;
use crate::replication::tables::Copies;
use crate::routing::serving::Waits;
use crate::routing::{CopyLocation, Errand, Failed, NoAnswer, no_shard};
use crate::wire::request::Preference;
use crate::wire::{Freshness, Problem, Question, Reply, SearchPart, Terms, rest_error};

/// How long another node holds the view of a query for the fetch that follows, if it is not let
/// go before.
const FETCH_HOLD: Duration = Duration::from_secs(60);
/// How long a search waits for what its view may lack, and for how long nobody waits once that was in vain.
const COMPLETE_TIMEOUT: Duration = Duration::from_secs(1);
const COMPLETE_PAUSE: Duration = Duration::from_secs(5);

impl Part {
    pub(in crate::documents) fn of(index: &Arc<IndexMetadata>, copies: &Arc<Copies>) -> Self {
        let (index, copies) = (Arc::clone(index), Arc::clone(copies));
        Self { index, copies, held: Mutex::new(None) }
    }

    /// The node that was asked, where it was another.
    pub(in crate::documents) fn node(&self) -> Option<String> {
        match &*self.held.lock() {
            Some(Held::There(there)) => Some(there.member.record.name.clone()),
            _ => None,
        }
    }

    /// Holds the view of a point in time.
    pub(in crate::documents) async fn hold(
        &self,
        documents: &Documents,
        keep_alive: Duration,
    ) -> Result<(), Error> {
        let visit = |place: CopyLocation, terms: Terms| async move {
            match place {
                CopyLocation::Here(partition) => {
                    let ask = self.copies.ask(Class::Search);
                    let local =
                        async { Ok((self.local(documents, &partition, terms).await?, None)) };
                    Ok(Held::Here(documents.router.visit_here(ask, terms, local).await?))
                }
                CopyLocation::There(member) => {
                    let there = HeldThere::under_a_new_name(documents, member);
                    let question = Question::Hold { part: self.part(&there, keep_alive) };
                    match self.ask(documents, &there, question, (Class::Search, terms)).await? {
                        Reply::Held { .. } => Ok(Held::There(there)),
                        _ => Err(Failed::Here(unreadable())),
                    }
                }
            }
        };
        let held =
            documents.router.visit(self.errand(QUERY_TIMEOUT, 0, Preference::Best), visit).await?;
        *self.held.lock() = Some(held);
        Ok(())
    }

    fn errand(&self, timeout: Duration, rank: u32, preference: Preference) -> Errand<'_> {
        let (copies, class, patience) = (&*self.copies, Class::Search, Duration::ZERO);
        Errand { copies, class, timeout, patience, rank, preference }
    }

    /// The query phase, on the view that is held, or the present one of the best copy.
    pub(in crate::documents) async fn query(
        &self,
        documents: &Documents,
        asked: Asked<'_>,
    ) -> Result<PartitionResult, Error> {
        let held = self.held.lock().clone();
        let terms = Terms { rank: asked.rank, ..Terms::within(asked.timeout()) };
        match held {
            Some(Held::Here(local)) => {
                Ok(self.query_here(documents, &local, &asked, terms).await?)
            }
            Some(Held::There(there)) => {
                Ok(self.query_there(documents, &there, &asked, terms).await?)
            }
            None => {
                let asked = &asked;
                let visit = |place: CopyLocation, terms: Terms| async move {
                    match place {
                        CopyLocation::Here(partition) => {
                            let local = self.local(documents, &partition, terms).await?;
                            let result = self.query_here(documents, &local, asked, terms).await?;
                            Ok((result, Held::Here(local)))
                        }
                        CopyLocation::There(member) => {
                            let there = HeldThere::under_a_new_name(documents, member);
                            let result = self.query_there(documents, &there, asked, terms).await?;
                            Ok((result, Held::There(there)))
                        }
                    }
                };
                let errand = self.errand(asked.timeout(), asked.rank, asked.options.preference);
                let (result, held) = documents.router.visit(errand, visit).await?;
                *self.held.lock() = Some(held);
                Ok(result)
            }
        }
    }

    async fn query_here(
        &self,
        documents: &Documents,
        local: &Local,
        asked: &Asked<'_>,
        terms: Terms,
    ) -> Result<PartitionResult, Failed> {
        let work = async { Ok((local.query(documents, asked, terms).await?, None)) };
        documents.router.visit_here(self.copies.ask(Class::Search), terms, work).await
    }

    async fn query_there(
        &self,
        documents: &Documents,
        there: &Arc<HeldThere>,
        asked: &Asked<'_>,
        terms: Terms,
    ) -> Result<PartitionResult, Failed> {
        // Who asks knows the index' settings; the text that is sent does not say them.
        asked.request.window()?;
        let (hold, for_fetch) = match (asked.keep, asked.request.size()) {
            (Some(keep), _) => (keep.max(FETCH_HOLD), false),
            (None, 0) => (Duration::ZERO, true),
            (None, _) => (FETCH_HOLD, true),
        };
        let question = Question::Query {
            part: self.part(there, hold),
            body: asked.request.text().to_owned(),
            after: asked.after.clone(),
            request_cache: asked.options.request_cache,
            for_fetch,
        };
        match self.ask(documents, there, question, (Class::Search, terms)).await? {
            Reply::Queried { result, view } => {
                there.is_held.store(view != 0, Ordering::Relaxed);
                Ok(*result)
            }
            _ => Err(Failed::Here(unreadable())),
        }
    }

    /// The JSON of hits with their places, from the view that was asked, which is let go after
    /// that where it is the last that is wanted of it.
    pub(in crate::documents) async fn fetch(
        &self,
        documents: &Documents,
        request: &Arc<SearchRequest>,
        hits: Vec<(usize, Hit)>,
        (cancel, is_last): (&Cancel, bool),
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let held = self.held.lock().clone();
        let terms = Terms::within(QUERY_TIMEOUT);
        match held {
            Some(Held::Here(local)) => {
                let work = async {
                    Ok((local.fetch(documents, request, hits, (cancel, terms)).await?, None))
                };
                Ok(documents.router.visit_here(self.copies.ask(Class::Fetch), terms, work).await?)
            }
            Some(Held::There(there)) => {
                let (places, hits): (Vec<usize>, Vec<Hit>) = hits.into_iter().unzip();
                let part = self.part(&there, Duration::ZERO);
                let body = request.text().to_owned();
                let question = Question::Fetch { part, body, hits, releases: is_last };
                let asked = self.ask(documents, &there, question, (Class::Fetch, terms)).await?;
                let Reply::Fetched(found) = asked else { return Err(unreadable()) };
                there.is_held.store(!is_last, Ordering::Relaxed);
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
    async fn local(
        &self,
        documents: &Documents,
        partition: &Arc<Partition>,
        terms: Terms,
    ) -> Result<Local, Failed> {
        Ok(Local::of(documents, &self.index, partition, terms).await?)
    }

    async fn ask(
        &self,
        documents: &Documents,
        there: &HeldThere,
        question: Question,
        (class, terms): (Class, Terms),
    ) -> Result<Reply, Failed> {
        // Whether it holds the view is not known until it says so.
        let was_held = there.is_held.swap(true, Ordering::Relaxed);
        match documents.router.ask(&there.member, self.copies.ask(class), question, terms).await {
            Ok(Reply::Problem(Problem::Rest(error))) => Err(Failed::of(rest_error(&error))),
            Ok(reply) => Ok(reply),
            Err(why) => {
                if !matches!(why, NoAnswer::Unknown(_)) {
                    there.is_held.store(was_held, Ordering::Relaxed);
                }
                Err(Failed::there(&there.member, why))
            }
        }
    }

    fn part(&self, there: &HeldThere, hold: Duration) -> SearchPart {
        let hold_ms = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        let is_held = there.is_held.load(Ordering::Relaxed);
        let view = if is_held { there.view } else { 0 };
        SearchPart { partition: self.copies.id.into(), view, hold_ms, hold_as: there.view }
    }
}

impl HeldThere {
    fn under_a_new_name(documents: &Documents, member: Arc<Member>) -> Arc<Self> {
        let tasks = documents.router.world.tasks.clone();
        // No other node may draw the same for a view on the same node, or it would be shown that one's.
        let view = documents.searching.draws.next_u64().max(1);
        Arc::new(Self { tasks, member, view, is_held: AtomicBool::new(false) })
    }
}

fn unreadable() -> Error {
    Error::internal("another node's answer cannot be read")
}

impl Local {
    /// The present view of a copy; one not indexed yet is refreshed first.
    pub(crate) async fn of(
        documents: &Documents,
        index: &Arc<IndexMetadata>,
        partition: &Arc<Partition>,
        terms: Terms,
    ) -> Result<Self, Error> {
        let no_index = || no_shard("no index".to_owned());
        let indexer = indexer_of(partition).ok_or_else(no_index)?;
        if terms.alternatives > 0
            && let Some(why) = indexer.rebuilding()
        {
            return Err(no_shard(format!("the index is being built anew: {why}")));
        }
        let view = match indexer.view() {
            Some(view) if documents.router.is_heard_since(indexer.complete_as_of()) => view,
            present => match Self::completed(documents, partition, indexer).await.or(present) {
                Some(view) => view,
                None => {
                    let (indexed, order) = (Arc::clone(partition), order(Class::Scan, terms));
                    let refresh = move || indexer_of(&indexed).ok_or_else(no_index)?.refresh();
                    documents.searching.pool.run(order, refresh).await??
                }
            },
        };
        let (index, partition) = (Arc::clone(index), Arc::clone(partition));
        Ok(Self { index, partition, view })
    }

    /// A view after all refreshes that were acknowledged: others may have left this copy out while they did
    /// not hear of this node. None where that cannot be had soon: searches go on without the log, and beside a
    /// merge that holds the index.
    async fn completed(
        documents: &Documents,
        partition: &Arc<Partition>,
        indexer: &Indexer,
    ) -> Option<Arc<PartitionView>> {
        let (router, time) = (&documents.router, &documents.router.world.time);
        let came = time.now();
        let completing = async {
            // One does it for all.
            let mut in_vain = indexer.completing.lock().await;
            let as_of = indexer.complete_as_of();
            if as_of > came || router.is_heard_since(as_of) {
                return indexer.view();
            }
            let began = time.now();
            if in_vain.is_some_and(|at| began - at < COMPLETE_PAUSE) {
                return None;
            }
            // Also where who asks goes away meanwhile.
            *in_vain = Some(began);
            let waits = Waits::default();
            let fresh = router.fresh(partition.id, Freshness::Strong, COMPLETE_TIMEOUT, &waits);
            fresh.await.ok()?;
            if indexer.is_behind(partition.applied()) {
                refresh_in_time(&router.world, partition).await.ok()?;
            }
            indexer.note_complete_as_of(began);
            *in_vain = None;
            indexer.view()
        };
        time.timeout(COMPLETE_TIMEOUT, completing).await.ok()?
    }

    /// The query phase on the search threads, or its answer from the request cache.
    pub(in crate::documents) async fn query(
        &self,
        documents: &Documents,
        asked: &Asked<'_>,
        terms: Terms,
    ) -> Result<PartitionResult, Error> {
        let searching = &documents.searching;
        let key = searching.cache.key(self, asked.request, asked.options);
        if let Some(found) = key.as_ref().and_then(|key| searching.cache.get(key)) {
            return Ok(found);
        }
        let (local, cancel) = (self.clone(), asked.cancel.clone());
        let (request, after) = (Arc::clone(asked.request), asked.after.clone());
        let goes_on = asked.keep.is_some();
        let known = Costs::known(self.partition.id, asked.request);
        let cost_ns = searching.costs.expected_ns(known);
        let (costs, time) = (Arc::clone(&searching.costs), searching.time.clone());
        let work = move || {
            let began = time.now();
            let from = (after.as_ref(), goes_on);
            let answer = local.query_now(&request, from, (cancel, time.wall_ms()));
            let ran = time.now() - began;
            local.count_query(ran);
            // One that was cut short says nothing of what it costs.
            if answer.as_ref().is_ok_and(|it| !it.timed_out) {
                costs.ran(known, u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX));
            }
            answer
        };
        let order = Order { cost_ns, ..order(Class::Search, terms) };
        let answer = searching.pool.run(order, work).await;
        let answer = self.suspected(answer.and_then(|answer| answer))?;
        if let Some(key) = key.filter(|_| !answer.timed_out) {
            searching.cache.put(&key, &answer);
        }
        Ok(answer)
    }

    fn query_now(
        &self,
        request: &SearchRequest,
        (after, goes_on): (Option<&Hit>, bool),
        (cancel, now_ms): (Cancel, u64),
    ) -> Result<PartitionResult, Error> {
        let row = |key: &[u8], id: &str| self.row(key, id, now_ms);
        let account = OfRequest(plimsoll_memory::current());
        let around = Surroundings {
            now_ms,
            cancelled: &cancelled(cancel, &account),
            memory: &account,
            max_buckets: MAX_BUCKETS_DEFAULT,
            after,
            goes_on,
            rows: Some((&self.index.name, &row)),
        };
        let answer = partition_search::query_phase_in(&self.view.searcher, request, &around);
        // What a search that had to stop found so far is no answer.
        account.check()?;
        answer
    }

    /// The JSON of hits with their places; one whose row is gone is left out.
    pub(in crate::documents) async fn fetch(
        &self,
        documents: &Documents,
        request: &Arc<SearchRequest>,
        hits: Vec<(usize, Hit)>,
        (cancel, terms): (&Cancel, Terms),
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let (local, request, cancel) = (self.clone(), Arc::clone(request), cancel.clone());
        let time = documents.searching.time.clone();
        let work = move || {
            if cancel.is_set() {
                return Ok(Vec::new());
            }
            OfRequest(plimsoll_memory::current()).check()?;
            local.fetch_now(&request, hits, (cancel, &time))
        };
        let fetched = documents.searching.pool.run(order(Class::Fetch, terms), work).await;
        self.suspected(fetched.and_then(|fetched| fetched))
    }

    /// Has the index' files checked where a search failed for a reason that should not be.
    fn suspected<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer
            && error.class == plimsoll_index::ErrorClass::Internal
            && let Some(indexer) = indexer_of(&self.partition)
        {
            indexer.suspect();
        }
        answer
    }

    fn fetch_now(
        &self,
        request: &SearchRequest,
        hits: Vec<(usize, Hit)>,
        (cancel, time): (Cancel, &Time),
    ) -> Result<Vec<(usize, Box<RawValue>)>, Error> {
        let (began, now_ms) = (time.now(), time.wall_ms());
        let row = |key: &[u8], id: &str| self.row(key, id, now_ms);
        let (positions, hits): (Vec<usize>, Vec<Hit>) = hits.into_iter().unzip();
        let searcher = &self.view.searcher;
        let (name, memory) = (&self.index.name, OfRequest(plimsoll_memory::current()));
        let cancelled = cancelled(cancel, &memory);
        let found = partition_search::fetch_phase(
            searcher, request, name, &hits, &row, &memory, &cancelled,
        );
        memory.check()?;
        let found = found?;
        self.count_fetch(time.now() - began);
        let found = positions.into_iter().zip(found);
        Ok(found.filter_map(|(at, hit)| Some((at, hit?))).collect())
    }

    /// A document's row as of the view; none where it has expired since.
    fn row(&self, key: &[u8], id: &str, now_ms: u64) -> Result<Option<FetchedRow>, Error> {
        let found = document_in(&self.view.rows, key, id, now_ms).map_err(|error| {
            self.partition.note(&error);
            Error::internal(format!("the document [{id}] cannot be read: {error}"))
        })?;
        let row =
            |it: Document| FetchedRow { source: it.source, version: it.version, seq_no: it.seq_no };
        Ok(found.map(row))
    }

    fn count_query(&self, ran: Duration) {
        if let Some(indexer) = indexer_of(&self.partition) {
            let counters = &indexer.counters;
            counters.queries.fetch_add(1, Ordering::Relaxed);
            counters.query_us.fetch_add(micros(ran), Ordering::Relaxed);
        }
    }

    fn count_fetch(&self, ran: Duration) {
        if let Some(indexer) = indexer_of(&self.partition) {
            let counters = &indexer.counters;
            counters.fetches.fetch_add(1, Ordering::Relaxed);
            counters.fetch_us.fetch_add(micros(ran), Ordering::Relaxed);
        }
    }
}

/// Whether a search has to end: nobody waits, or its request has to stop.
fn cancelled(cancel: Cancel, account: &OfRequest) -> Cancelled {
    let account = account.0.clone();
    Cancelled::by(move || cancel.is_set() || account.as_ref().is_some_and(Account::is_stopped))
}

/// How the search threads are to treat work that was asked for on these terms.
fn order(class: Class, terms: Terms) -> Order {
    let Terms { timeout, alternatives, rank } = terms;
    let tier = Tier::Interactive;
    Order { class, tier, worth: timeout, cost_ns: None, alternatives, rank }
}

fn micros(ran: Duration) -> u64 {
    u64::try_from(ran.as_micros()).unwrap_or(u64::MAX)
}
