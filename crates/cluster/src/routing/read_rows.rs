//! Reads of rows from one copy of a partition, on this node or another, as fresh as was asked for.
//! Which copy is in `mod.rs`; what is read is not looked at.

use std::sync::Arc;

use plimsoll_control::Class;
use plimsoll_control::selection::FailureKind;
use plimsoll_index::Error;

use crate::replication::partition::Partition;
use crate::replication::tables::Copies;
use crate::routing::{CopyLocation, Errand, Failed, READ_DEADLINE, READ_TIMEOUT, Router, no_shard};
use crate::wire::request::Preference;
use crate::wire::{Freshness, Question, Reply, Terms};

/// What is to be read.
pub(crate) struct RowsRead<'a> {
    pub copies: &'a Copies,
    pub class: Class,
    pub freshness: Freshness,
    /// Which copy is asked.
    pub preference: Preference,
    /// What another node is asked; it says how fresh as well.
    pub question: Question,
}

/// What was found, where.
pub(crate) enum Found<T> {
    Here(T),
    There(Reply),
}

impl Router {
    /// Reads the best copy, and the next where that does not answer; `here` reads one on this node.
    ///
    /// # Errors
    /// 503 where no copy answers within [`READ_DEADLINE`].
    pub(crate) async fn read_rows<T, F>(
        &self,
        read: &RowsRead<'_>,
        here: impl Fn(Arc<Partition>) -> F,
    ) -> Result<Found<T>, Error>
    where
        F: Future<Output = T>,
    {
        let RowsRead { copies, class, freshness, preference, question } = read;
        let ask = copies.ask(*class);
        let here = &here;
        let visit = |place: CopyLocation, terms: Terms| async move {
            match place {
                CopyLocation::Here(partition) => {
                    let work = async {
                        self.freshen(&partition, copies, *freshness, terms).await?;
                        let working = self.work(*class);
                        let found = here(Arc::clone(&partition)).await;
                        if partition.is_damaged() && !self.replication.is_alone {
                            let error = no_shard("the copy is damaged".to_owned());
                            return Err(Failed::Elsewhere(FailureKind::Error, error));
                        }
                        Ok((Found::Here(found), Some(working.done())))
                    };
                    self.visit_here(ask, terms, work).await
                }
                CopyLocation::There(member) => {
                    let answer = self.ask(&member, ask, question.clone(), terms).await;
                    answer.map(Found::There).map_err(|why| Failed::there(&member, why))
                }
            }
        };
        let (timeout, patience) = (READ_TIMEOUT, READ_DEADLINE);
        let (rank, preference) = (self.chance.next_u32(), *preference);
        let errand = Errand { copies, class: *class, timeout, patience, rank, preference };
        self.visit(errand, visit).await
    }

    /// Waits until this node's copy is as fresh as asked for.
    async fn freshen(
        &self,
        partition: &Partition,
        copies: &Copies,
        freshness: Freshness,
        terms: Terms,
    ) -> Result<(), Failed> {
        if self.replication.is_alone || freshness == Freshness::Eventual {
            return Ok(());
        }
        // The fault is looked at after: where apply stopped meanwhile, the group goes on without
        // the partition.
        let is_fresh = self.replication.comes_to_be(freshness, copies.group, terms.timeout).await;
        if is_fresh && partition.fault().is_none() {
            return Ok(());
        }
        let error = no_shard("the copy is behind its log".to_owned());
        Err(Failed::Elsewhere(FailureKind::Timeout, error))
    }
}
