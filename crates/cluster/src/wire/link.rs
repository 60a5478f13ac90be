//! The way to one node: a question becomes bytes, and the answer's bytes an answer.
//! Whom to ask, and what to do when no answer comes, is decided by whoever asks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_log::Incarnation;

use super::messages::{Envelope, Question, Reply, Terms, Told, decode_answer, encode_question};
use super::peers::{CallError, Peers};

/// The way to one node, cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    pub peers: Arc<dyn Peers>,
    /// `host:port` of the node that is asked.
    pub address: Arc<str>,
    /// The name of the node that asks.
    pub from: Arc<str>,
    pub cluster: Incarnation,
    pub time: Time,
    pub heard: Arc<Heard>,
}

/// When a node answered last, whatever it was asked.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Option<Instant>>);

impl Link {
    /// From the node named `from` to the one at `address`, from which nothing was heard yet.
    pub(crate) fn new(
        peers: Arc<dyn Peers>,
        (from, address): (&str, &str),
        cluster: Incarnation,
        time: Time,
    ) -> Self {
        let (from, address, heard) = (from.into(), address.into(), Arc::default());
        Self { peers, address, from, cluster, time, heard }
    }

    /// Whether the node answered anybody here no longer ago than so.
    pub(crate) fn was_heard_within(&self, duration: Duration) -> bool {
        self.heard.0.lock().is_some_and(|at| self.time.now() - at <= duration)
    }

    /// Asks, and waits for the answer up to `timeout`. Dropping the future gives the call up.
    ///
    /// # Errors
    /// Where no answer came. An answer that says why there is none other is a [`Reply::Problem`].
    pub(crate) async fn ask(
        &self,
        question: Question,
        timeout: Duration,
        trace: u64,
    ) -> Result<Reply, CallError> {
        let answer = self.ask_on(question, Terms::within(timeout), trace).await;
        answer.map(|(reply, _)| reply)
    }

    /// The same on any terms, with what the answer says of the node.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn ask_on(
        &self,
        question: Question,
        terms: Terms,
        trace: u64,
    ) -> Result<(Reply, Told), CallError> {
        let Terms { timeout, alternatives, rank } = terms;
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let (from, cluster) = (self.from.to_string(), self.cluster.0);
        let envelope = Envelope { from, cluster, timeout_ms, trace, alternatives, rank, question };
        let answer = self.peers.call(&self.address, encode_question(&envelope), timeout).await?;
        *self.heard.0.lock() = Some(self.time.now());
        Ok(decode_answer(&answer))
    }
}
