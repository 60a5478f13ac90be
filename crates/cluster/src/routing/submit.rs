//! Writes on their way to a lead. Any replica that serves may lead; this node's own where it has
//! one. Where a lead gives no answer, a fence through another settles what became of the write
//! (rule 4): it is answered if it ran, and sent again if it never will. What cannot be settled in
//! time is unknown, and said so.

use std::pin::pin;
use std::time::Duration;

use plimsoll_base::time::Instant;
use plimsoll_control::Class;
use plimsoll_control::selection::{TOO_LATE_NS, gives_way};
use plimsoll_log::Lsn;
use plimsoll_storage::Reply;
use plimsoll_storage::operation::{self, decode_reply, encode_reply};

use crate::metadata::members::Member;
use crate::metadata::version::{self, ClusterVersion};
use crate::replication::lead::{Answer, Step};
use crate::replication::partition::Partition;
use crate::replication::session::ClientSession;
use crate::replication::settle::{Settled, settled};
use crate::replication::submit::{
    Numbered, SETTLE_TIMEOUT, WRITE_TIMEOUT, settle_here, submit_numbered, submit_to, write_bytes,
};
use crate::replication::tables::Copies;
use crate::routing::{NoAnswer, Router};
use crate::wire::write_error::{Next, WriteError};
use crate::wire::{self, Problem, Question, StepBytes, Terms};

/// How long a lead on another node has to answer before the write is settled through another.
const LEAD_TIMEOUT: Duration = Duration::from_millis(1_000);
/// After how long without an answer of this node's own lead the next writes go to another.
const TOO_LATE: Duration = Duration::from_nanos(TOO_LATE_NS);
/// How soon leads are looked for again where none takes the write.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of one attempt: the replies, and a position of the group after all that they show.
type Attempt = Result<(Vec<Reply>, Lsn), WriteError>;

impl Router {
    /// Has a lead of the partition carry the steps out; the first is a write.
    pub(crate) async fn submit(
        &self,
        copies: &Copies,
        session: &mut ClientSession,
        steps: Vec<Step>,
    ) -> Answer {
        if copies.is_follower() {
            return Err(WriteError::read_only());
        }
        let steps = with_default_expiry(&self.replication.version, copies, steps);
        let began_ns = self.now_ns();
        let answer = self.submit_own(copies, session, steps).await;
        if answer.is_ok() {
            let now_ns = self.now_ns();
            self.load.feel(now_ns, Class::Write, now_ns.saturating_sub(began_ns));
        }
        answer
    }

    /// The same of the cluster's own operations, which a table that follows takes too.
    pub(crate) async fn submit_own(
        &self,
        copies: &Copies,
        session: &mut ClientSession,
        steps: Vec<Step>,
    ) -> Answer {
        if self.replication.is_alone {
            let Some(partition) = copies.local() else {
                return Err(WriteError::NotTaken(copies.why_not_local()));
            };
            self.admit(write_bytes(&steps)).await?;
            return submit_to(&partition, session, steps).await;
        }
        let end = self.world.time.now() + WRITE_TIMEOUT;
        let writes = steps.iter().filter(|step| matches!(step, Step::Write(_))).count() as u64;
        let mut last = WriteError::not_taken("no copy of the partition takes writes");
        while self.world.time.now() < end {
            for lead in self.leads_by_cost(copies) {
                // A clock that is behind log time would make it too old at once.
                let stamp_ms =
                    self.world.time.wall_ms().max(self.replication.log_time_ms(copies.group));
                let first = session.take(writes);
                match self.attempt(&lead, copies, session, first, stamp_ms, &steps).await {
                    Ok((replies, seen)) => {
                        session.all_answered();
                        session.reads().saw(copies.group, seen);
                        return Ok(replies);
                    }
                    Err(error) => match error.next() {
                        Next::GiveUp => {
                            session.all_answered();
                            return Err(error);
                        }
                        Next::Elsewhere => {
                            session.all_answered();
                            last = error;
                        }
                        Next::Settle => {
                            let numbers: Vec<u64> = (first..first + writes).rev().collect();
                            let id = session.id();
                            let found = self.settle(&lead, copies, id, &numbers, stamp_ms, end);
                            let (found, seen) = found.await.unzip();
                            match outcome(found, &steps) {
                                Some(Some(replies)) => {
                                    session.all_answered();
                                    session.reads().saw(copies.group, seen.unwrap_or(Lsn(0)));
                                    return Ok(replies);
                                }
                                // It never runs: another lead may take it.
                                Some(None) => session.all_answered(),
                                None => {
                                    session.renew();
                                    return Err(WriteError::Unknown);
                                }
                            }
                        }
                    },
                }
                if self.world.time.now() >= end {
                    return Err(last);
                }
            }
            if self.is_gone(copies) {
                return Err(WriteError::not_taken("the table was deleted"));
            }
            self.world.time.sleep(PAUSE).await;
        }
        Err(last)
    }

    /// All that may lead, this node's own copy first.
    fn leads(&self, copies: &Copies) -> Vec<LeadLocation> {
        let local = copies.local().filter(|partition| partition.fault().is_none());
        let others = self.others_with(copies, Class::Write);
        local
            .map(LeadLocation::Here)
            .into_iter()
            .chain(others.into_iter().map(LeadLocation::There))
            .collect()
    }

    /// The same in the order in which a write is given to them: this node's own copy costs least, unless
    /// it is late, or the stores here have put off much more than there.
    fn leads_by_cost(&self, copies: &Copies) -> Vec<LeadLocation> {
        let mut leads = self.leads(copies);
        if let [LeadLocation::Here(_), LeadLocation::There(next), ..] = leads.as_slice() {
            let now_ns = self.now_ns();
            let other_debt = || self.selection.write_debt(now_ns, next.number).unwrap_or(1.0);
            if gives_way(self.write_debt(), other_debt) || !copies.own_lead.lock().leads(now_ns) {
                leads.rotate_left(1);
            }
        }
        leads
    }

    async fn attempt(
        &self,
        lead: &LeadLocation,
        copies: &Copies,
        session: &mut ClientSession,
        first: u64,
        stamp_ms: u64,
        steps: &[Step],
    ) -> Attempt {
        match lead {
            LeadLocation::Here(partition) => {
                self.admit(write_bytes(steps)).await?;
                let numbered = Numbered { first, stamp_ms, steps: steps.to_vec() };
                let began_ns = self.now_ns();
                let mut answer = pin!(submit_numbered(partition, session, numbered, LEAD_TIMEOUT));
                let answer = match self.world.time.timeout(TOO_LATE, &mut answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        copies.own_lead.lock().on_late(self.now_ns());
                        answer.await
                    }
                };
                let now_ns = self.now_ns();
                if answer.is_ok() {
                    copies.own_lead.lock().on_answer(now_ns, now_ns.saturating_sub(began_ns));
                }
                answer.map(|replies| (replies, self.replication.seen(copies.group)))
            }
            LeadLocation::There(member) => {
                let question = Question::Write {
                    partition: copies.id.into(),
                    session: session.id().0,
                    first,
                    acked: session.acked(),
                    stamp_ms,
                    steps: steps.iter().filter_map(step_bytes).collect(),
                };
                let (ask, terms) = (copies.ask(Class::Write), Terms::within(LEAD_TIMEOUT));
                attempted(self.ask(member, ask, question, terms).await)
            }
        }
    }

    /// Finds out what became of operations, by fences through one lead after the other, `avoid`
    /// being asked last, and a position of the group after that; `None` where it cannot be found
    /// out in time.
    async fn settle(
        &self,
        avoid: &LeadLocation,
        copies: &Copies,
        session: plimsoll_log::SessionId,
        numbers: &[u64],
        stamp_ms: u64,
        end: Instant,
    ) -> Option<(Vec<Settled>, Lsn)> {
        // Twice round: a lead may be about to be elected, or a log.
        while self.world.time.now() < end {
            let mut leads = self.leads(copies);
            leads.sort_by_key(|lead| lead.is(avoid));
            for lead in leads {
                let found = match &lead {
                    LeadLocation::Here(partition) => {
                        let found = settle_here(partition, session, numbers, stamp_ms).await;
                        found.map(|found| (found, self.replication.seen(copies.group)))
                    }
                    LeadLocation::There(member) => {
                        self.settle_there(member, copies, session, numbers, stamp_ms).await
                    }
                };
                if found.is_some() || self.world.time.now() >= end {
                    return found;
                }
            }
            // Nobody has it any more who could tell.
            if self.is_gone(copies) {
                return None;
            }
            self.world.time.sleep(PAUSE).await;
        }
        None
    }

    /// Whether the table of these copies was deleted.
    pub(crate) fn is_gone(&self, copies: &Copies) -> bool {
        self.tables.copies(copies.id).is_none()
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
            Ok(wire::Reply::Replies { replies, seen }) => {
                let decoded = replies.into_iter().map(|it| decode_reply(&it.into()).ok());
                let found = decoded.map(|reply| reply.map(|reply| settled(&reply)));
                Some((found.collect::<Option<_>>()?, Lsn(seen)))
            }
            _ => None,
        }
    }
}

/// Who is to make the record.
enum LeadLocation {
    Here(std::sync::Arc<Partition>),
    There(std::sync::Arc<Member>),
}

impl LeadLocation {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here(_), Self::Here(_)) => true,
            (Self::There(a), Self::There(b)) => a.id == b.id,
            _ => false,
        }
    }
}

/// Steps whose writes give the keys that they make the default expiry of their table.
fn with_default_expiry(
    version: &ClusterVersion,
    copies: &Copies,
    mut steps: Vec<Step>,
) -> Vec<Step> {
    let Some(after_ms) = copies.default_expiry_ms() else { return steps };
    if version.allows(version::DEFAULT_EXPIRY) {
        for step in &mut steps {
            if let Step::Write(payload) = step {
                *payload = operation::with_default_expiry(payload, after_ms);
            }
        }
    }
    steps
}

/// What an attempt came to that a lead on another node was asked for.
fn attempted(answer: Result<wire::Reply, NoAnswer>) -> Attempt {
    match answer {
        Ok(wire::Reply::Replies { replies, seen }) => {
            let decoded = replies.into_iter().map(|it| decode_reply(&it.into()));
            let replies = decoded.collect::<Result<_, _>>();
            replies.map(|it| (it, Lsn(seen))).map_err(|_| WriteError::Unknown)
        }
        Ok(wire::Reply::Problem(Problem::Write(error))) => Err(error),
        Ok(_) | Err(NoAnswer::Unknown(_)) => Err(WriteError::Unknown),
        Err(NoAnswer::Elsewhere(why)) => Err(WriteError::NotTaken(why)),
        Err(NoAnswer::Refused(error)) => Err(WriteError::NotTaken(error.reason)),
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
        Step::Read(_) | Step::Fence { .. } | Step::Carry(_) => None,
    };
    steps.iter().map(reply).collect::<Option<Vec<Reply>>>().map(Some)
}

fn step_bytes(step: &Step) -> Option<StepBytes> {
    match step {
        Step::Write(payload) => Some(StepBytes::Write(payload.to_vec())),
        Step::Read(argv) => Some(StepBytes::Read(argv.iter().map(<[u8]>::to_vec).collect())),
        Step::Fence { .. } | Step::Carry(_) => None,
    }
}

impl Router {
    /// Waits until this node lets in so many bytes of writes.
    ///
    /// # Errors
    /// That would be too late: its stores have put off too much.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<(), WriteError> {
        let taken = self.admission.take(bytes as u64, self.world.time.now());
        let wait = taken.ok_or_else(|| {
            WriteError::not_taken("more writes wait than the node's files can take in time")
        })?;
        if !wait.is_zero() {
            self.world.time.sleep(wait).await;
        }
        Ok(())
    }
}

/// Replies as they go to another node.
pub(crate) fn reply_bytes(replies: &[Reply]) -> Vec<Vec<u8>> {
    replies.iter().map(|reply| encode_reply(reply).to_vec()).collect()
}

#[cfg(test)]
mod tests {
    //! Tests of what a sender makes of answers.

    use bytes::Bytes;
    use plimsoll_index::Error;
    use plimsoll_storage::ErrorKind;

    use super::*;

    #[test]
    fn only_what_surely_did_not_run_goes_elsewhere() {
        let problem = |problem| Ok(wire::Reply::Problem(problem));
        let ok = reply_bytes(&[Reply::OK]);
        let good = attempted(Ok(wire::Reply::Replies { replies: ok.clone(), seen: 7 }));
        assert_eq!(good, Ok((vec![Reply::OK], Lsn(7))));
        let refused = WriteError::Refused { kind: ErrorKind::General, message: "no".to_owned() };
        let row = Problem::Row { kind: ErrorKind::General, message: "no".to_owned() };
        let unread = wire::Reply::Replies { replies: vec![ok[0].clone(), vec![0xff]], seen: 7 };
        for (answer, error) in [
            (problem(Problem::Write(WriteError::TooLarge(9))), WriteError::TooLarge(9)),
            (problem(Problem::Write(refused.clone())), refused),
            (problem(Problem::Write(WriteError::not_taken("a"))), WriteError::not_taken("a")),
            (problem(Problem::Write(WriteError::Unknown)), WriteError::Unknown),
            (Err(NoAnswer::Elsewhere("b".to_owned())), WriteError::not_taken("b")),
            (Err(NoAnswer::Refused(Error::overloaded("k", "c"))), WriteError::not_taken("c")),
            // It came there, or may have.
            (Err(NoAnswer::Unknown("d".to_owned())), WriteError::Unknown),
            (problem(row), WriteError::Unknown),
            (Ok(wire::Reply::Done), WriteError::Unknown),
            (Ok(unread), WriteError::Unknown),
        ] {
            let shown = format!("{answer:?}");
            assert_eq!(attempted(answer), Err(error), "{shown}");
        }
    }

    #[test]
    fn a_submission_goes_again_only_where_all_of_it_never_runs() {
        let write = Step::Write(Bytes::from_static(b"w"));
        let steps = [write.clone(), write.clone()];
        let ran = |n| Settled::Ran(Reply::Integer(n));
        // The last comes first.
        let both = outcome(Some(vec![ran(2), ran(1)]), &steps);
        assert_eq!(both, Some(Some(vec![Reply::Integer(1), Reply::Integer(2)])));
        let never = || Settled::NeverRuns;
        assert_eq!(outcome(Some(vec![never(), never()]), &steps), Some(None));
        for found in [
            None,
            Some(vec![never(), ran(1)]),
            Some(vec![ran(2), never()]),
            Some(vec![Settled::RanUnkept, ran(1)]),
            Some(vec![Settled::Unknown, Settled::Unknown]),
            Some(vec![never(), Settled::Unknown]),
        ] {
            let shown = format!("{found:?}");
            assert_eq!(outcome(found, &steps), None, "{shown}");
        }
        // A read's answer was not kept.
        let read = Step::Read(plimsoll_storage::Argv::of(&["GET", "k"]));
        assert_eq!(outcome(Some(vec![ran(1)]), &[write, read]), None);
    }
}
