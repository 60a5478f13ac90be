//! Requests of one connection for different partitions, side by side: each partition's in their order, as
//! many partitions at once as there are. Who sends several requests without waiting for an answer cannot
//! know that one of them ran before another of a different partition is begun; who waits has that order.
//! What one request is and what it does is the coordinator's.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::Rows;
use super::plan::Plan;
use crate::replication::session::ClientSession;
use crate::rows::scatter;
use crate::wire::request::Request;

/// The most requests that are looked at together.
const REQUESTS_MAX: usize = 1_024;
/// Partitions that one command asks at once.
const ASKED_AT_ONCE: usize = 16;

/// Requests that run together.
pub(crate) enum Together {
    /// So many, one after the other.
    InOrder(usize),
    /// So many, by the partition of each: their places.
    Beside(usize, BTreeMap<usize, Vec<usize>>),
}

impl Rows {
    /// How the first of the requests run; at least one of them.
    pub(crate) fn together(&self, db: u32, requests: &[Request]) -> Together {
        if requests.len() < 2 || self.partition_count(db) < 2 {
            return Together::InOrder(requests.len());
        }
        let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let (mut count, mut writes) = (0, false);
        for request in requests.iter().take(REQUESTS_MAX) {
            let ordinal = match self.plan(db, request) {
                Plan::Write(ordinal, _) => {
                    writes = true;
                    ordinal
                }
                Plan::Read(Some(copies), command, _) if scatter::is_short_read(&command) => {
                    copies.id.ordinal as usize
                }
                _ => break,
            };
            places.entry(ordinal).or_default().push(count);
            count += 1;
        }
        // Reads of memory alone are over sooner than they could be handed out.
        if writes && places.len() > 1 {
            return Together::Beside(count, places);
        }
        Together::InOrder(count.max(1))
    }

    /// Runs requests of several partitions; `places` says which are of each. All are answered, in their
    /// order.
    pub(crate) async fn run_beside(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        places: BTreeMap<usize, Vec<usize>>,
    ) -> Vec<Reply> {
        let parts = places.into_values().map(|places| {
            let mut branch = session.branch();
            async move {
                let own: Vec<Request> = places.iter().map(|at| requests[*at].clone()).collect();
                let mut replies = Vec::with_capacity(own.len());
                // It stops where answers come to much; these are all held until the last is there.
                while replies.len() < own.len() {
                    let done = replies.len();
                    self.run_in_order(&mut branch, db, &own[done..], &mut replies).await;
                }
                (branch, places, replies)
            }
        });
        let mut all = vec![Reply::Nil; requests.len()];
        for (branch, places, replies) in join_all(parts).await {
            session.join(branch);
            for (at, reply) in places.into_iter().zip(replies) {
                all[at] = reply;
            }
        }
        all
    }

    /// Asks several partitions, each its own; their replies in the same order.
    ///
    /// # Errors
    /// The first of any.
    pub(crate) async fn ask_each(
        &self,
        session: &mut ClientSession,
        db: u32,
        asked: Vec<(usize, Argv)>,
    ) -> Result<Vec<Reply>, ErrorReply> {
        let asked = asked.into_iter().map(|(ordinal, argv)| {
            let mut branch = session.branch();
            async move {
                let reply = self.ask(&mut branch, db, ordinal, argv).await;
                (branch, reply)
            }
        });
        let answers: Vec<_> = stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await;
        let mut replies = Vec::with_capacity(answers.len());
        for (branch, reply) in answers {
            session.join(branch);
            replies.push(reply);
        }
        replies.into_iter().collect()
    }
}
