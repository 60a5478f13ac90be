//! Documents as other nodes ask for them: one copy on this node at a time. The views that were
//! asked are held for the fetch, scroll or point in time that goes on with them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_control::Class;
use plimsoll_index::Error;
use plimsoll_log::PartitionId;
use plimsoll_memory::{Account, Action, Charged, Standing, ledger::NODE, local::enter};

use super::memory::stopped;
use super::parts::{Asked, Local};
use super::pool::Cancel;
use super::read::document_of;
use super::refresher::on_local;
use super::search::SearchOptions;
use crate::Coordinator;
use crate::node::answer::Waits;
use crate::wire::{Freshness, Problem, Question, Reply, SearchPart, Terms, WireDocument};

/// The most views that are held for others.
const VIEWS_MAX: usize = 10_000;

/// The views that are held for other nodes.
#[derive(Default)]
pub(crate) struct Views {
    /// By what they are held under, each with the end of its time.
    held: Mutex<HashMap<u64, (Local, Instant)>>,
}

impl Views {
    /// Holds a view for a while; 0 where that is not wanted.
    fn hold(&self, local: Local, part: &SearchPart) -> Result<u64, Error> {
        if part.hold_ms == 0 {
            return Ok(0);
        }
        let hold = Duration::from_millis(part.hold_ms);
        let mut held = self.held.lock();
        if held.len() >= VIEWS_MAX {
            let reason = format!("{VIEWS_MAX} views are held for other nodes already");
            return Err(Error::new(429, "rejected_execution_exception", reason));
        }
        let _node = enter(&NODE);
        held.insert(part.hold_as, (local, Instant::now() + hold));
        Ok(part.hold_as)
    }

    /// A view that is held, for longer where that is wanted.
    fn get(&self, number: u64, hold: Duration) -> Result<Local, Error> {
        let mut held = self.held.lock();
        let found = held.get_mut(&number).ok_or_else(|| {
            let reason = format!("No search context found for id [{number}]");
            Error::new(404, "search_context_missing_exception", reason)
        })?;
        found.1 = found.1.max(Instant::now() + hold);
        Ok(found.0.clone())
    }

    fn release(&self, number: u64) {
        // Outside the lock: the last owner of a view closes files.
        let released = self.held.lock().remove(&number);
        drop(released);
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// Lets go of those whose time is over.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        self.held.lock().retain(|_, (_, until)| *until > now);
    }
}

impl Coordinator {
    /// Answers a question about documents. A part of another node's search has an account here too.
    pub(crate) async fn answer_about_documents(
        &self,
        question: Question,
        terms: Terms,
        waits: &Waits,
    ) -> Result<Reply, Problem> {
        let (name, part) = match &question {
            Question::Query { part, .. } => ("indices:data/read/search[phase/query]", part),
            Question::Fetch { part, .. } => ("indices:data/read/search[phase/fetch/id]", part),
            _ => return self.answer_now(question, terms, waits).await,
        };
        let account = Account::open(Action {
            name,
            description: format!("shard[{}]", PartitionId::from(part.partition)),
            standing: Standing::Read,
            opaque_id: None,
        });
        let answered = Charged::new(account, || self.answer_now(question, terms, waits)).await;
        answered.unwrap_or_else(|stop| Err(stopped(&stop).into()))
    }

    async fn answer_now(
        &self,
        question: Question,
        terms: Terms,
        waits: &Waits,
    ) -> Result<Reply, Problem> {
        let (shared, timeout) = (self.shared(), terms.timeout);
        match question {
            Question::Document { partition, key, id, freshness } => {
                let local = self.fresh(partition.into(), freshness, timeout, waits).await?;
                let working = shared.work(Class::Get);
                let found = document_of(&local, &key, &id).await?;
                working.done();
                Ok(Reply::Document(found.map(|it| WireDocument {
                    source: it.source.to_vec(),
                    version: it.version,
                    seq_no: it.seq_no,
                })))
            }
            Question::Hold { part } => {
                let local = self.view_of(&part, terms).await?;
                Ok(Reply::Held { view: shared.documents.views.hold(local, &part)? })
            }
            Question::Query { part, body, after, request_cache, for_fetch } => {
                let local = self.view_of(&part, terms).await?;
                let request = shared.documents.requests.read(&body)?;
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let options = SearchOptions { request_cache, ..SearchOptions::default() };
                let (request, options, cancel) = (&request, &options, &cancel);
                let rank = terms.rank;
                let asked = Asked { request, options, after, cancel, rank, keep: None };
                let result = local.query(shared, &asked, terms).await?;
                let view = match part.view {
                    0 if for_fetch && result.hits.is_empty() => 0,
                    0 => shared.documents.views.hold(local, &part)?,
                    view => view,
                };
                Ok(Reply::Queried { result: Box::new(result), view })
            }
            Question::Fetch { part, body, hits, releases } => {
                let local = self.view_of(&part, terms).await?;
                let request = shared.documents.requests.read(&body)?;
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let hits = hits.into_iter().enumerate().collect();
                let found = local.fetch(shared, &request, hits, (&cancel, terms)).await?;
                if releases {
                    shared.documents.views.release(part.view);
                }
                let found = found.into_iter();
                let hits = found.map(|(at, hit)| (at as u64, hit.get().to_owned()));
                Ok(Reply::Fetched(hits.collect()))
            }
            Question::Release { views } => {
                views.into_iter().for_each(|view| shared.documents.views.release(view));
                Ok(Reply::Done)
            }
            Question::Chore { partition, at_least, chore } => {
                let freshness = Freshness::AtLeast(at_least);
                let local = self.fresh(partition.into(), freshness, timeout, waits).await?;
                on_local(local, chore).await?;
                Ok(Reply::Done)
            }
            _ => Err(Problem::NotHere("this version does not know the question".to_owned())),
        }
    }

    /// The view that is asked: one that is held, or the present one.
    async fn view_of(&self, part: &SearchPart, terms: Terms) -> Result<Local, Problem> {
        if part.view != 0 {
            let hold = Duration::from_millis(part.hold_ms);
            return Ok(self.shared().documents.views.get(part.view, hold)?);
        }
        let partition = self.local(part.partition.into())?;
        let index = self.shared().tables.index_of(part.partition.table);
        let index = index.ok_or_else(|| Problem::NotHere("the table is no index".to_owned()))?;
        Ok(Local::of(self.shared(), &index, &partition, terms).await?)
    }
}
