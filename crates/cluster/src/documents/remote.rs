//! Documents as other nodes ask for them: one copy on this node at a time. The views that were
//! asked are held for the fetch, scroll or point in time that goes on with them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use plimsoll_log::PartitionId;
use plimsoll_memory::{Account, Action, Charged, Standing};
use serde_json::Value;

use super::memory::stopped;
use super::parts::{Asked, Local};
use super::pool::Cancel;
use super::read::document_of;
use super::refresher::on_local;
use super::search::SearchOptions;
use crate::Coordinator;
use crate::rpc::{Freshness, Problem, Question, Reply, SearchPart, WireDocument};

/// The most views that are held for others.
const VIEWS_MAX: usize = 10_000;

/// The views that are held for other nodes.
#[derive(Default)]
pub(crate) struct Views {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    last: u64,
    views: HashMap<u64, (Local, Instant)>,
}

impl Views {
    /// Holds a view for a while; 0 where that is not wanted.
    fn hold(&self, local: Local, hold: Duration) -> Result<u64, Error> {
        if hold.is_zero() {
            return Ok(0);
        }
        let mut held = self.held.lock();
        if held.views.len() >= VIEWS_MAX {
            let reason = format!("{VIEWS_MAX} views are held for other nodes already");
            return Err(Error::new(429, "rejected_execution_exception", reason));
        }
        held.last += 1;
        let number = held.last;
        held.views.insert(number, (local, Instant::now() + hold));
        Ok(number)
    }

    /// A view that is held, for longer where that is wanted.
    fn get(&self, number: u64, hold: Duration) -> Result<Local, Error> {
        let mut held = self.held.lock();
        let found = held.views.get_mut(&number).ok_or_else(|| {
            let reason = format!("No search context found for id [{number}]");
            Error::new(404, "search_context_missing_exception", reason)
        })?;
        found.1 = found.1.max(Instant::now() + hold);
        Ok(found.0.clone())
    }

    fn release(&self, number: u64) {
        self.held.lock().views.remove(&number);
    }

    /// Lets go of those whose time is over.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        self.held.lock().views.retain(|_, (_, until)| *until > now);
    }
}

impl Coordinator {
    /// Answers a question about documents. A part of another node's search has an account here too.
    pub(crate) async fn answer_about_documents(
        &self,
        question: Question,
        timeout: Duration,
    ) -> Result<Reply, Problem> {
        let (name, part) = match &question {
            Question::Query { part, .. } => ("indices:data/read/search[phase/query]", part),
            Question::Fetch { part, .. } => ("indices:data/read/search[phase/fetch/id]", part),
            _ => return self.answer_now(question, timeout).await,
        };
        let account = Account::open(Action {
            name,
            description: format!("shard[{}]", PartitionId::from(part.partition)),
            standing: Standing::Read,
            opaque_id: None,
        });
        let answered = Charged::new(account, || self.answer_now(question, timeout)).await;
        answered.unwrap_or_else(|stop| Err(stopped(&stop).into()))
    }

    async fn answer_now(&self, question: Question, timeout: Duration) -> Result<Reply, Problem> {
        match question {
            Question::Document { partition, key, id, freshness } => {
                let local = self.fresh(partition.into(), freshness, timeout).await?;
                let found = document_of(&local, &key, &id).await?;
                Ok(Reply::Document(found.map(|it| WireDocument {
                    source: it.source.to_vec(),
                    version: it.version,
                    seq_no: it.seq_no,
                })))
            }
            Question::Hold { part } => {
                let local = self.view_of(&part).await?;
                let hold = Duration::from_millis(part.hold_ms);
                Ok(Reply::Held { view: self.shared().documents.views.hold(local, hold)? })
            }
            Question::Query { part, body, after, request_cache } => {
                let local = self.view_of(&part).await?;
                let request = Arc::new(parsed(&body)?);
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let options = SearchOptions { request_cache, ..SearchOptions::default() };
                let asked = Asked { request: &request, options: &options, after, cancel: &cancel };
                let result = local.query(self.shared(), &asked).await?;
                let view = match part.view {
                    0 => {
                        let hold = Duration::from_millis(part.hold_ms);
                        self.shared().documents.views.hold(local, hold)?
                    }
                    view => view,
                };
                Ok(Reply::Queried { result: Box::new(result), view })
            }
            Question::Fetch { part, body, hits } => {
                let local = self.view_of(&part).await?;
                let request = Arc::new(parsed(&body)?);
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let hits = hits.into_iter().enumerate().collect();
                let found = local.fetch(self.shared(), &request, hits, &cancel).await?;
                let found = found.into_iter();
                let hits = found.map(|(at, hit)| (at as u64, hit.get().to_owned()));
                Ok(Reply::Fetched(hits.collect()))
            }
            Question::Release { views } => {
                views.into_iter().for_each(|view| self.shared().documents.views.release(view));
                Ok(Reply::Done)
            }
            Question::Chore { partition, at_least, chore } => {
                let freshness = Freshness::AtLeast(at_least);
                let local = self.fresh(partition.into(), freshness, timeout).await?;
                on_local(local, chore).await?;
                Ok(Reply::Done)
            }
            _ => Err(Problem::NotHere("this version does not know the question".to_owned())),
        }
    }

    /// The view that is asked: one that is held, or the present one.
    async fn view_of(&self, part: &SearchPart) -> Result<Local, Problem> {
        if part.view != 0 {
            let hold = Duration::from_millis(part.hold_ms);
            return Ok(self.shared().documents.views.get(part.view, hold)?);
        }
        let partition = self.local(part.partition.into())?;
        let index = self.shared().tables.index_of(part.partition.table);
        let index = index.ok_or_else(|| Problem::NotHere("the table is no index".to_owned()))?;
        Ok(Local::of(self.shared(), &index, &partition).await?)
    }
}

fn parsed(body: &str) -> Result<SearchRequest, Error> {
    let body: Value =
        serde_json::from_str(body).map_err(|error| Error::internal(error.to_string()))?;
    SearchRequest::parse(&body)
}
