//! Which copy is asked: this node's own where it serves one, else another that selection picks;
//! and the next one where that gives no answer. What is asked is not looked at.

use std::time::Duration;

use futures_util::future::join_all;
use plimsoll_control::Class;
use plimsoll_control::selection::{Ask, Candidate, Failure, FailureKind};
use plimsoll_storage::ErrorReply;
use std::sync::Arc;

use crate::members::Member;
use crate::node::Shared;
use crate::rpc::{CallError, Problem, Question, Reply};
use crate::table::Copies;

/// How long one copy has to answer a read before the next is asked.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How long copies that are about to serve are waited for.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a change of the metadata waits for other nodes to serve it.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How soon they are asked again.
const OPENING_PAUSE: Duration = Duration::from_millis(20);

/// Why a node gave no answer of use.
#[derive(Clone, Debug)]
pub(crate) enum NoAnswer {
    /// It was not carried out there.
    Elsewhere(String),
    /// It may have been carried out there.
    Unknown(String),
}

impl Shared {
    /// The nodes that serve a copy, this one excepted, in the order in which they should be
    /// asked.
    pub(crate) fn others_with(&self, copies: &Copies, class: Class) -> Vec<Arc<Member>> {
        let definition = copies.definition();
        let mut others: Vec<Arc<Member>> = definition
            .serving()
            .filter(|node| **node != *self.members.own)
            .filter_map(|node| self.members.get(node))
            .collect();
        // Those that left are asked last: they may be back.
        let there = others.iter().filter(|it| it.is_alive());
        let candidates: Vec<Candidate> = there.map(|it| Candidate::near(it.number)).collect();
        let mut order = Vec::new();
        let ask = copies.ask(class);
        self.selector.lock().rank(self.now_ns(), ask, &candidates, &mut order);
        let rank = |member: &Member| {
            let at = candidates.iter().position(|it| it.node == member.number);
            at.and_then(|at| order.iter().position(|it| *it == at)).unwrap_or(usize::MAX)
        };
        others.sort_by_key(|member| rank(member));
        others
    }

    /// Asks one node, and tells selection how it went.
    pub(crate) async fn ask(
        &self,
        member: &Member,
        ask: Ask,
        question: Question,
        timeout: Duration,
    ) -> Result<Reply, NoAnswer> {
        let flight = self.selector.lock().on_send(self.now_ns(), ask, member.number);
        let flight = Flying { shared: self, flight: Some(flight), deadline: timeout };
        let answer = member.link.ask(question, timeout, 0).await;
        match answer {
            Ok(Reply::Problem(Problem::NotHere(why))) => {
                flight.failed(FailureKind::Refused);
                Err(NoAnswer::Elsewhere(why))
            }
            Ok(Reply::Problem(Problem::OtherCluster)) => {
                flight.failed(FailureKind::Error);
                Err(NoAnswer::Elsewhere("the node belongs to another cluster".to_owned()))
            }
            Ok(Reply::Problem(Problem::Format(format))) => {
                flight.failed(FailureKind::Error);
                let why = format!("the node speaks format {format} of the nodes' messages");
                Err(NoAnswer::Elsewhere(why))
            }
            Ok(reply) => {
                flight.answered();
                Ok(reply)
            }
            Err(CallError::Unreachable(why)) => {
                flight.failed(FailureKind::Unreachable);
                Err(NoAnswer::Elsewhere(why))
            }
            Err(CallError::Lost(why)) => {
                flight.failed(FailureKind::Unreachable);
                Err(NoAnswer::Unknown(why))
            }
            Err(CallError::TimedOut) => {
                flight.failed(FailureKind::Timeout);
                Err(NoAnswer::Unknown("the node did not answer in time".to_owned()))
            }
        }
    }

    /// Asks the copies on other nodes one after the other until one answers; for what may be
    /// carried out more than once. Copies that are being opened are waited for.
    pub(crate) async fn ask_copies(
        &self,
        copies: &Copies,
        class: Class,
        question: &Question,
        timeout: Duration,
    ) -> Result<Reply, String> {
        let end = tokio::time::Instant::now() + OPENING_TIMEOUT.max(timeout);
        loop {
            let mut why = "no copy of the partition can be asked".to_owned();
            for member in self.others_with(copies, class) {
                match self.ask(&member, copies.ask(class), question.clone(), timeout).await {
                    Ok(reply) => return Ok(reply),
                    Err(NoAnswer::Elsewhere(reason) | NoAnswer::Unknown(reason)) => {
                        why = format!("{}: {reason}", member.record.name);
                    }
                }
            }
            if tokio::time::Instant::now() >= end {
                return Err(why);
            }
            tokio::time::sleep(OPENING_PAUSE).await;
        }
    }

    /// Waits until this node serves what the metadata says now: a table that it does not know may
    /// have been created elsewhere.
    pub(crate) async fn pass_metadata(&self, timeout: Duration) -> bool {
        if self.is_alone {
            return true;
        }
        if !self.pass_barrier(crate::metadata::GROUP, timeout).await {
            return false;
        }
        self.reconciled_to(self.metadata.applied().0, timeout).await
    }

    /// Waits for a while until the other nodes that are there serve what the metadata says now, so
    /// that who changed it finds it so wherever he asks next. The lock of changes must be free:
    /// what others change at the same time needs it here.
    pub(crate) async fn tell_others(&self) {
        if self.is_alone {
            return;
        }
        let metadata = self.metadata.applied().0;
        let others = self.members.others();
        let asked = others.iter().map(|member| async move {
            let question = Question::Await { metadata };
            match member.link.ask(question, ACKNOWLEDGE_TIMEOUT, 0).await {
                Ok(Reply::Done) => {}
                // It follows by itself.
                other => tracing::debug!(node = member.record.name, ?other, "it is behind"),
            }
        });
        join_all(asked).await;
    }

    /// Waits until this node serves what the metadata said at a position of its log.
    pub(crate) async fn reconciled_to(&self, position: u64, timeout: Duration) -> bool {
        let mut reconciled = self.reconciled.subscribe();
        self.look.notify_one();
        let waited = reconciled.wait_for(|at| *at >= position);
        matches!(tokio::time::timeout(timeout, waited).await, Ok(Ok(_)))
    }
}

/// A question on its way: selection learns of its end, whatever that is.
struct Flying<'a> {
    shared: &'a Shared,
    flight: Option<plimsoll_control::selection::Flight>,
    deadline: Duration,
}

impl Flying<'_> {
    fn answered(mut self) {
        if let Some(flight) = self.flight.take() {
            self.shared.selector.lock().on_reply(self.shared.now_ns(), flight, None, None);
        }
    }

    fn failed(mut self, kind: FailureKind) {
        if let Some(flight) = self.flight.take() {
            let deadline_ns = u64::try_from(self.deadline.as_nanos()).unwrap_or(u64::MAX);
            let failure = Failure { kind, deadline_ns, line: None };
            self.shared.selector.lock().on_failure(self.shared.now_ns(), flight, &failure);
        }
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.shared.selector.lock().on_cancel(self.shared.now_ns(), flight);
        }
    }
}

/// Nothing was done, and may be tried again.
pub(crate) fn unavailable(why: String) -> ErrorReply {
    ErrorReply::new("TRYAGAIN", why)
}
