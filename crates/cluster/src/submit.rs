//! Writes on their way to a lead. Any replica that serves may lead; this node's own where it has
//! one. Where a lead gives no answer, a fence through another settles what became of the write
//! (rule 4): it is answered if it ran, and sent again if it never will. What cannot be settled in
//! time is unknown, and said so.

use std::time::Duration;

use plimsoll_control::Class;
use plimsoll_log::Lsn;
use plimsoll_storage::operation::{decode_reply, encode_reply};
use plimsoll_storage::{ErrorReply, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::lead::{Answer, SUBMISSION_BYTES_MAX, Step, Submission, now_ms, outcome_unknown};
use crate::members::Member;
use crate::node::Shared;
use crate::partition::Partition;
use crate::routing::{NoAnswer, unavailable};
use crate::rpc::{self, Problem, Question, StepBytes, Terms};
use crate::session::ClientSession;
use crate::settle::{Settled, settled};
use crate::table::Copies;

/// How long a write waits for the log and its apply before its outcome is called unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a lead on another node has to answer before the write is settled through another.
const LEAD_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How long one that settles has to answer.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(3_000);
/// How soon leads are looked for again where none takes the write.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of one attempt.
enum Attempt {
    /// The replies, and a position of the group after all that they show.
    Answered {
        replies: Vec<Reply>,
        seen: Lsn,
    },
    /// It did not run, and another lead may take it.
    NotTaken(ErrorReply),
    /// It did not run, and no other lead would take it.
    Refused(ErrorReply),
    Unknown,
}

impl Shared {
    /// Has a lead of the partition carry the steps out; the first is a write.
    pub(crate) async fn submit(
        &self,
        copies: &Copies,
        session: &mut ClientSession,
        steps: Vec<Step>,
    ) -> Answer {
        if self.is_alone {
            let Some(partition) = copies.local() else {
                return Err(unavailable("the partition is being opened".to_owned()));
            };
            return submit_to(&partition, session, steps).await;
        }
        let end = Instant::now() + WRITE_TIMEOUT;
        let writes = steps.iter().filter(|step| matches!(step, Step::Write(_))).count() as u64;
        let mut last = unavailable("no copy of the partition takes writes".to_owned());
        while Instant::now() < end {
            let local = copies.local().filter(|partition| partition.fault().is_none());
            let others = self.others_with(copies, Class::Write);
            let leads =
                local.map(Lead::Here).into_iter().chain(others.into_iter().map(Lead::There));
            for lead in leads {
                let stamp_ms = now_ms();
                let first = session.take(writes);
                match self.attempt(&lead, copies, session, first, &steps).await {
                    Attempt::Answered { replies, seen } => {
                        session.settle();
                        session.reads().saw(copies.group, seen);
                        return Ok(replies);
                    }
                    Attempt::Refused(error) => {
                        session.settle();
                        return Err(error);
                    }
                    Attempt::NotTaken(error) => {
                        session.settle();
                        last = error;
                    }
                    Attempt::Unknown => {
                        let numbers: Vec<u64> = (first..first + writes).rev().collect();
                        let found =
                            self.settle(&lead, copies, session.id(), &numbers, stamp_ms, end).await;
                        let (found, seen) = found.unzip();
                        match outcome(found, &steps) {
                            Some(Some(replies)) => {
                                session.settle();
                                session.reads().saw(copies.group, seen.unwrap_or(Lsn(0)));
                                return Ok(replies);
                            }
                            // It never runs: another lead may take it.
                            Some(None) => session.settle(),
                            None => {
                                session.renew();
                                return Err(outcome_unknown());
                            }
                        }
                    }
                }
                if Instant::now() >= end {
                    return Err(last);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(last)
    }

    async fn attempt(
        &self,
        lead: &Lead,
        copies: &Copies,
        session: &mut ClientSession,
        first: u64,
        steps: &[Step],
    ) -> Attempt {
        let answer = match lead {
            Lead::Here(partition) => {
                submit_numbered(partition, session, first, steps.to_vec(), SETTLE_TIMEOUT).await
            }
            Lead::There(member) => {
                let question = Question::Write {
                    partition: copies.id.into(),
                    session: session.id().0,
                    first,
                    acked: session.acked(),
                    steps: steps.iter().filter_map(step_bytes).collect(),
                };
                let (ask, terms) = (copies.ask(Class::Write), Terms::within(LEAD_TIMEOUT));
                match self.ask(member, ask, question, terms).await {
                    Ok(rpc::Reply::Replies { replies, seen }) => {
                        let decoded = replies.into_iter().map(|it| decode_reply(&it.into()));
                        return match decoded.collect() {
                            Ok(replies) => Attempt::Answered { replies, seen: Lsn(seen) },
                            Err(_) => Attempt::Unknown,
                        };
                    }
                    Ok(rpc::Reply::Problem(Problem::Row { code, message })) => {
                        Err(ErrorReply { code: code.into(), message: message.into() })
                    }
                    Ok(_) => return Attempt::Unknown,
                    Err(NoAnswer::Elsewhere(why)) => return Attempt::NotTaken(unavailable(why)),
                    Err(NoAnswer::Refused(error)) => {
                        return Attempt::NotTaken(unavailable(error.reason));
                    }
                    Err(NoAnswer::Unknown(_)) => return Attempt::Unknown,
                }
            }
        };
        match answer {
            Ok(replies) => Attempt::Answered { replies, seen: self.seen(copies.group) },
            Err(error) if error == outcome_unknown() => Attempt::Unknown,
            Err(error) if error.code == "TRYAGAIN" => Attempt::NotTaken(error),
            Err(error) => Attempt::Refused(error),
        }
    }

    /// Finds out what became of operations, by fences through one lead after the other, `avoid`
    /// being asked last, and a position of the group after that; `None` where it cannot be found
    /// out in time.
    async fn settle(
        &self,
        avoid: &Lead,
        copies: &Copies,
        session: plimsoll_log::SessionId,
        numbers: &[u64],
        stamp_ms: u64,
        end: Instant,
    ) -> Option<(Vec<Settled>, Lsn)> {
        // Twice round: a lead may be about to be elected, or a log.
        while Instant::now() < end {
            let local = copies.local().filter(|partition| partition.fault().is_none());
            let others = self.others_with(copies, Class::Write);
            let mut leads: Vec<Lead> = local
                .map(Lead::Here)
                .into_iter()
                .chain(others.into_iter().map(Lead::There))
                .collect();
            leads.sort_by_key(|lead| lead.is(avoid));
            for lead in leads {
                let found = match &lead {
                    Lead::Here(partition) => {
                        let found = settle_here(partition, session, numbers, stamp_ms).await;
                        found.map(|found| (found, self.seen(copies.group)))
                    }
                    Lead::There(member) => {
                        self.settle_there(member, copies, session, numbers, stamp_ms).await
                    }
                };
                if found.is_some() || Instant::now() >= end {
                    return found;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    async fn settle_there(
        &self,
        member: &Member,
        copies: &Copies,
        session: plimsoll_log::SessionId,
        numbers: &[u64],
        stamp_ms: u64,
    ) -> Option<(Vec<Settled>, Lsn)> {
        let question = Question::Settle {
            partition: copies.id.into(),
            session: session.0,
            numbers: numbers.to_vec(),
            stamp_ms,
        };
        let (ask, terms) = (copies.ask(Class::Write), Terms::within(SETTLE_TIMEOUT));
        match self.ask(member, ask, question, terms).await {
            Ok(rpc::Reply::Replies { replies, seen }) => {
                let decoded = replies.into_iter().map(|it| decode_reply(&it.into()).ok());
                let found = decoded.map(|reply| reply.map(|reply| settled(&reply)));
                Some((found.collect::<Option<_>>()?, Lsn(seen)))
            }
            _ => None,
        }
    }
}

/// Who is to make the record.
enum Lead {
    Here(std::sync::Arc<Partition>),
    There(std::sync::Arc<Member>),
}

impl Lead {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here(_), Self::Here(_)) => true,
            (Self::There(a), Self::There(b)) => a.id == b.id,
            _ => false,
        }
    }
}

/// What operations that were settled, the last first, mean for the whole submission: its replies,
/// `Some(None)` where it never runs, `None` where that is unknown.
fn outcome(found: Option<Vec<Settled>>, steps: &[Step]) -> Option<Option<Vec<Reply>>> {
    let mut found = found?;
    found.reverse();
    // All operations of a submission are in one record: they ran together or not at all.
    if found.iter().all(|it| *it == Settled::NeverRuns) {
        return Some(None);
    }
    let mut replies = found.into_iter();
    let reply = |step: &Step| match step {
        Step::Write(_) => match replies.next() {
            Some(Settled::Ran(reply)) => Some(reply),
            _ => None,
        },
        // What it saw was not kept.
        Step::Read(_) | Step::Fence { .. } => None,
    };
    steps.iter().map(reply).collect::<Option<Vec<Reply>>>().map(Some)
}

fn step_bytes(step: &Step) -> Option<StepBytes> {
    match step {
        Step::Write(payload) => Some(StepBytes::Write(payload.to_vec())),
        Step::Read(argv) => Some(StepBytes::Read(argv.iter().map(<[u8]>::to_vec).collect())),
        Step::Fence { .. } => None,
    }
}

/// Has this node's lead of a partition carry the steps out, and waits for the answers.
pub(crate) async fn submit_to(
    partition: &Partition,
    session: &mut ClientSession,
    steps: Vec<Step>,
) -> Answer {
    let writes = steps.iter().filter(|step| matches!(step, Step::Write(_))).count();
    let first = session.take(writes as u64);
    let outcome = submit_numbered(partition, session, first, steps, WRITE_TIMEOUT).await;
    if outcome.as_ref().is_err_and(|error| *error == outcome_unknown()) {
        // Too late, or the lead is gone because the node is stopping.
        session.renew();
    } else {
        session.settle();
    }
    outcome
}

async fn submit_numbered(
    partition: &Partition,
    session: &mut ClientSession,
    first: u64,
    steps: Vec<Step>,
    timeout: Duration,
) -> Answer {
    if let Some(fault) = partition.fault() {
        return Err(ErrorReply::err(fault));
    }
    let (done, answered) = oneshot::channel();
    let (id, acked) = (session.id(), session.acked());
    let submission = Submission { session: id, first, acked, steps, done };
    if submission.bytes() > SUBMISSION_BYTES_MAX {
        return Err(ErrorReply::err(format!(
            "the write takes over {SUBMISSION_BYTES_MAX} bytes in the log"
        )));
    }
    partition.lead.submit(submission);
    session.wait(answered, timeout).await.unwrap_or_else(|| Err(outcome_unknown()))
}

/// Carries out what another node's coordinator sent.
pub(crate) async fn lead_for(
    partition: &Partition,
    submission: impl FnOnce(oneshot::Sender<Answer>) -> Submission,
    timeout: Duration,
) -> Answer {
    if let Some(fault) = partition.fault() {
        return Err(unavailable(fault));
    }
    let (done, answered) = oneshot::channel();
    partition.lead.submit(submission(done));
    match tokio::time::timeout(timeout, answered).await {
        Ok(Ok(answer)) => answer,
        _ => Err(outcome_unknown()),
    }
}

async fn settle_here(
    partition: &Partition,
    session: plimsoll_log::SessionId,
    numbers: &[u64],
    stamp_ms: u64,
) -> Option<Vec<Settled>> {
    let fences = fences(session, numbers, stamp_ms);
    let answer = lead_for(partition, fences, SETTLE_TIMEOUT).await.ok()?;
    Some(answer.iter().map(settled).collect())
}

/// A submission that settles operations.
pub(crate) fn fences(
    session: plimsoll_log::SessionId,
    numbers: &[u64],
    stamp_ms: u64,
) -> impl FnOnce(oneshot::Sender<Answer>) -> Submission {
    let steps = numbers.iter().map(|number| Step::Fence { number: *number, stamp_ms }).collect();
    let first = numbers.first().copied().unwrap_or(0);
    move |done| Submission { session, first, acked: 0, steps, done }
}

/// Replies as they go to another node.
pub(crate) fn reply_bytes(replies: &[Reply]) -> Vec<Vec<u8>> {
    replies.iter().map(|reply| encode_reply(reply).to_vec()).collect()
}
