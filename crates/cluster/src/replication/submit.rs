//! Steps that this node's own lead of a partition carries out, and the wait for its answer. Which lead is
//! asked, and what is done where it gives no answer, is routing's.

use std::time::Duration;

use plimsoll_log::SessionId;
use tokio::sync::oneshot;

use super::lead::{Answer, SUBMISSION_BYTES_MAX, Step, Submission};
use super::partition::Partition;
use super::session::ClientSession;
use super::settle::{Settled, settled};
use crate::wire::write_error::WriteError;

/// How long a write waits for the log and its apply before its outcome is called unknown.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one that settles has to answer.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_millis(3_000);

/// Has this node's lead of a partition carry the steps out, and waits for the answers.
pub(crate) async fn submit_to(
    partition: &Partition,
    session: &mut ClientSession,
    steps: Vec<Step>,
) -> Answer {
    let writes = steps.iter().filter(|step| matches!(step, Step::Write(_))).count();
    let first = session.take(writes as u64);
    let stamp_ms = partition.time().wall_ms().max(partition.lead.log_time_ms());
    let numbered = Numbered { first, stamp_ms, steps };
    let outcome = submit_numbered(partition, session, numbered, WRITE_TIMEOUT).await;
    if matches!(outcome, Err(WriteError::Unknown)) {
        // Too late, or the lead is gone because the node is stopping.
        session.renew();
    } else {
        session.all_answered();
    }
    outcome
}

/// Steps with the numbers and the stamp that their session gives them.
pub(crate) struct Numbered {
    pub first: u64,
    pub stamp_ms: u64,
    pub steps: Vec<Step>,
}

/// What the writes among the steps take in a record, bytes, about.
pub(crate) fn write_bytes(steps: &[Step]) -> usize {
    let bytes = |step: &Step| if let Step::Write(payload) = step { payload.len() } else { 0 };
    steps.iter().map(bytes).sum()
}

/// As [`submit_to`], where the sender counts, and is told what is unknown.
pub(crate) async fn submit_numbered(
    partition: &Partition,
    session: &mut ClientSession,
    numbered: Numbered,
    timeout: Duration,
) -> Answer {
    if let Some(why) = partition.takes_no_writes() {
        return Err(WriteError::NotTaken(why));
    }
    let (done, answered) = oneshot::channel();
    let (id, acked) = (session.id(), session.acked());
    let Numbered { first, stamp_ms, steps } = numbered;
    let submission = Submission { session: id, first, acked, stamp_ms, steps, done };
    if submission.bytes() > SUBMISSION_BYTES_MAX {
        return Err(WriteError::TooLarge(SUBMISSION_BYTES_MAX as u64));
    }
    partition.lead.submit(submission);
    session.wait(answered, timeout).await.unwrap_or(Err(WriteError::Unknown))
}

/// Carries out what another node's coordinator sent.
pub(crate) async fn lead_for(
    partition: &Partition,
    submission: impl FnOnce(oneshot::Sender<Answer>) -> Submission,
    timeout: Duration,
) -> Answer {
    if let Some(fault) = partition.fault() {
        return Err(WriteError::NotTaken(fault));
    }
    let (done, answered) = oneshot::channel();
    partition.lead.submit(submission(done));
    match partition.time().timeout(timeout, answered).await {
        Ok(Ok(answer)) => answer,
        _ => Err(WriteError::Unknown),
    }
}

/// What became of operations, by fences through this node's own lead; none where it does not answer.
pub(crate) async fn settle_here(
    partition: &Partition,
    session: SessionId,
    numbers: &[u64],
    stamp_ms: u64,
) -> Option<Vec<Settled>> {
    let fences = fences(session, numbers, stamp_ms);
    let answer = lead_for(partition, fences, SETTLE_TIMEOUT).await.ok()?;
    Some(answer.iter().map(settled).collect())
}

/// A submission that settles operations.
pub(crate) fn fences(
    session: SessionId,
    numbers: &[u64],
    stamp_ms: u64,
) -> impl FnOnce(oneshot::Sender<Answer>) -> Submission {
    let steps = numbers.iter().map(|number| Step::Fence { number: *number, stamp_ms }).collect();
    let first = numbers.first().copied().unwrap_or(0);
    move |done| Submission { session, first, acked: 0, stamp_ms, steps, done }
}
