//! The way to one node: a question becomes bytes, and the answer's bytes an answer.
//! Whom to ask, and what to do when no answer comes, is decided by whoever asks.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_log::Incarnation;

use super::messages::{Envelope, Problem, Question, Reply, decode, encode_question};
use super::{CallError, Peers};

/// The way to one node, cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    pub peers: Arc<dyn Peers>,
    /// `host:port` of the node that is asked.
    pub address: Arc<str>,
    /// The name of the node that asks.
    pub from: Arc<str>,
    pub cluster: Incarnation,
}

impl Link {
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
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let from = self.from.to_string();
        let envelope = Envelope { from, cluster: self.cluster.0, timeout_ms, trace, question };
        let answer = self.peers.call(&self.address, encode_question(&envelope), timeout).await?;
        Ok(decode(&answer).unwrap_or_else(|problem: Problem| Reply::Problem(problem)))
    }
}
