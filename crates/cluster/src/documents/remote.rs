//! Documents as other nodes ask for them: one copy on this node at a time. The views that were
//! asked are held for the fetch, scroll or point in time that goes on with them.

use std::time::Duration;

use plimsoll_control::Class;
use plimsoll_log::PartitionId;
use plimsoll_memory::{Account, Charged, Standing, TaskAction};

use super::memory::stopped;
use super::options::SearchOptions;
use super::parts::{Asked, Local};
use super::pool::Cancel;
use super::read::document_of;
use super::refresher::on_local;
use super::service::Documents;
use crate::routing::serving::Waits;
use crate::wire::{Freshness, Problem, Question, Reply, SearchPart, Terms, WireDocument};

impl Documents {
    /// Answers a question about documents. A part of another node's search has an account here too.
    pub(crate) async fn answer(
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
        let account = Account::open(TaskAction {
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
        let timeout = terms.timeout;
        match question {
            Question::Document { partition, key, id, freshness } => {
                let local = self.router.fresh(partition.into(), freshness, timeout, waits).await?;
                let working = self.router.work(Class::Get);
                let found = document_of(&self.router.file_reads, &local, &key, &id).await?;
                working.done();
                Ok(Reply::Document(found.map(|it| WireDocument {
                    source: it.source.to_vec(),
                    version: it.version,
                    seq_no: it.seq_no,
                })))
            }
            Question::Hold { part } => {
                let local = self.view_of(&part, terms).await?;
                Ok(Reply::Held { view: self.searching.views.hold(local, &part)? })
            }
            Question::Query { part, body, after, request_cache, for_fetch } => {
                let local = self.view_of(&part, terms).await?;
                let request = self.searching.requests.read(&body)?;
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let options = SearchOptions { request_cache, ..SearchOptions::default() };
                let (request, options, cancel) = (&request, &options, &cancel);
                let rank = terms.rank;
                let keep = (!for_fetch).then(|| Duration::from_millis(part.hold_ms));
                let asked = Asked { request, options, after, cancel, rank, keep };
                let result = local.query(self, &asked, terms).await?;
                let view = match part.view {
                    0 if for_fetch && result.hits.is_empty() => 0,
                    0 => self.searching.views.hold(local, &part)?,
                    view => view,
                };
                Ok(Reply::Queried { result: Box::new(result), view })
            }
            Question::Fetch { part, body, hits, releases } => {
                let local = self.view_of(&part, terms).await?;
                let request = self.searching.requests.read(&body)?;
                let cancel = Cancel::default();
                let _guard = cancel.guard();
                let hits = hits.into_iter().enumerate().collect();
                let found = local.fetch(self, &request, hits, (&cancel, terms)).await?;
                if releases {
                    self.searching.views.release(part.view);
                }
                let found = found.into_iter();
                let hits = found.map(|(at, hit)| (at as u64, hit.get().to_owned()));
                Ok(Reply::Fetched(hits.collect()))
            }
            Question::Release { views } => {
                views.into_iter().for_each(|view| self.searching.views.release(view));
                Ok(Reply::Done)
            }
            Question::Chore { partition, at_least, chore } => {
                let freshness = Freshness::AtLeast(at_least);
                let local = self.router.fresh(partition.into(), freshness, timeout, waits).await?;
                on_local(&self.router.replication, local, chore).await?;
                Ok(Reply::Done)
            }
            _ => Err(Problem::NotHere("this version does not know the question".to_owned())),
        }
    }

    /// The view that is asked: one that is held, or the present one.
    async fn view_of(&self, part: &SearchPart, terms: Terms) -> Result<Local, Problem> {
        if part.view != 0 {
            let hold = Duration::from_millis(part.hold_ms);
            return Ok(self.searching.views.get(part.view, hold)?);
        }
        let partition = self.router.serving_here(part.partition.into())?;
        let index = self.router.tables.index_of(part.partition.table);
        let index = index.ok_or_else(|| Problem::NotHere("the table is no index".to_owned()))?;
        Ok(Local::of(self, &index, &partition, terms).await?)
    }
}
