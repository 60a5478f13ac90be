//! What a node answers to the questions of others.

mod senders;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use plimsoll_control::Class;
use plimsoll_log::{PartitionId, SessionId};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::{Argv, ErrorKind, ErrorReply, Reply as RowReply, command};

use crate::Coordinator;
use crate::metadata;
use crate::node::figures::cancel_here;
use crate::recovery::Subject;
use crate::replication::digest::Digest;
use crate::replication::lead::{Step, Submission};
use crate::replication::partition::Partition;
use crate::replication::submit::{fences, lead_for, write_bytes};
use crate::replication::tail::GroupTail;
use crate::routing::serving::Waits;
use crate::routing::submit::reply_bytes;
use crate::rows::scatter::class_of;
use crate::wire::write_error::WriteError;
use crate::wire::{
    Envelope, FORMAT, PartitionName, Problem, Question, Reply, StepBytes, Told, decode,
    encode_answer,
};

impl Coordinator {
    /// Answers another node's question. `sender` is the name of the node that asks where it showed that: what its
    /// place in the metadata does not allow is refused. Dropping the future stops the work on it.
    pub async fn answer(&self, question: Bytes, sender: Option<&str>) -> Bytes {
        let time = &self.shared().world.time;
        let began = time.now();
        let waits = Waits::default();
        let reply = match decode::<Envelope>(&question) {
            Ok(envelope) if envelope.cluster != self.shared().replication.log.incarnation().0 => {
                Reply::Problem(Problem::OtherCluster)
            }
            Ok(envelope) => {
                let checked =
                    sender.map_or(Ok(()), |it| senders::check(self.shared(), it, &envelope));
                let answered = async { checked.map(|()| self.answer_to(envelope, &waits))?.await };
                answered.await.unwrap_or_else(Reply::Problem)
            }
            Err(Problem::Format(_)) => Reply::Problem(Problem::Format(FORMAT)),
            Err(problem) => Reply::Problem(problem),
        };
        let had_ns = time.now().0 - began.0;
        let server_ns = had_ns.saturating_sub(waits.ns());
        encode_answer(
            reply,
            Told { server_ns: Some(server_ns), line: Some(self.shared().router.line()) },
        )
    }

    async fn answer_to(&self, envelope: Envelope, waits: &Waits) -> Result<Reply, Problem> {
        let terms = envelope.terms();
        let timeout = terms.timeout;
        let shared = self.shared();
        let subject = |id: PartitionId| {
            let of = |partition: &Partition| Subject {
                store: partition.store.clone(),
                index: partition.index().cloned(),
            };
            match id {
                metadata::PARTITION => Some(of(&shared.metadata)),
                id => self.shared().router.serving_here(id).ok().map(|partition| of(&partition)),
            }
        };
        let checkpoints = &shared.copies.checkpoints;
        if let Some(reply) = checkpoints.answer(&envelope.from, &envelope.question, subject).await {
            return Ok(reply);
        }
        match envelope.question {
            Question::Probe => Ok(Reply::Done),
            Question::Clock => Ok(match shared.replication.clock.told() {
                (now_ms, false) => Reply::Clock { now_ms },
                (now_ms, true) => Reply::DoubtfulClock { now_ms },
            }),
            Question::Positions => {
                // Of a group that is not read here nothing is known that is worth saying.
                let read = shared
                    .replication
                    .tails
                    .iter()
                    .filter(|(group, _)| shared.replication.groups.reads(**group));
                let position = |(group, tail): (&plimsoll_log::GroupId, &Arc<GroupTail>)| {
                    let position = tail.get().position();
                    (group.0, position.lsn.0, position.hash, position.log_time_ms)
                };
                Ok(Reply::Positions(read.map(position).collect()))
            }
            Question::Await { metadata: position } => {
                let there = async {
                    let tail = shared.replication.tails.get(&metadata::GROUP);
                    if let Some(tail) = tail {
                        tail.reached(plimsoll_log::Lsn(position)).await;
                    }
                    shared
                        .router
                        .reconciled_to(position.min(shared.metadata.applied().0), timeout)
                        .await
                };
                match shared.world.time.timeout(timeout, there).await {
                    Ok(true) => Ok(Reply::Done),
                    _ => Err(Problem::NotHere("the metadata is behind".to_owned())),
                }
            }
            Question::Write { partition, session, first, acked, stamp_ms, steps } => {
                let local = self.shared().router.serving_here(partition.into())?;
                // The node that asks may not know yet that the table follows.
                if self.shared().router.copies_named(partition.into())?.is_follower()
                    && !is_own(&steps)
                {
                    return Err(Problem::Write(WriteError::read_only()));
                }
                if let Some(why) = local.takes_no_writes() {
                    return Err(Problem::Write(WriteError::NotTaken(why)));
                }
                let working = shared.router.work(Class::Write);
                let steps = steps.into_iter().map(step).collect::<Result<Vec<_>, _>>()?;
                shared.router.admit(write_bytes(&steps)).await.map_err(Problem::Write)?;
                // The lead counts on one item of the record at least, and on a reply to it.
                if !steps.iter().any(|step| matches!(step, Step::Write(_))) {
                    return Err(Problem::Write(WriteError::Refused {
                        kind: ErrorKind::General,
                        message: "there is no operation to write".to_owned(),
                    }));
                }
                let session = SessionId(session);
                let submission = |done| Submission { session, first, acked, stamp_ms, steps, done };
                let answer = lead_for(&local, submission, timeout).await.map_err(Problem::Write)?;
                working.done();
                Ok(self.replies(partition, &answer))
            }
            Question::Settle { partition, session, numbers, stamp_ms } => {
                let local = self.shared().router.serving_here(partition.into())?;
                let submission = fences(SessionId(session), &numbers, stamp_ms);
                let answer = lead_for(&local, submission, timeout).await;
                Ok(self.replies(partition, &answer.map_err(Problem::Write)?))
            }
            Question::Read { partition, argv, freshness } => {
                let local =
                    self.shared().router.fresh(partition.into(), freshness, timeout, waits).await?;
                let argv = Argv::of(&argv);
                let command = command::parse(&argv).map_err(row)?;
                let working = shared.router.work(class_of(&command));
                let is_large = AtomicBool::new(false);
                let (reply, _held) =
                    self.rows().read_local(&local, &command, &argv, &is_large).await;
                if local.is_damaged() {
                    return Err(Problem::NotHere("the copy is damaged".to_owned()));
                }
                working.done();
                Ok(self.replies(partition, &[reply]))
            }
            Question::LastChange { partition, key, freshness } => {
                let local =
                    self.shared().router.fresh(partition.into(), freshness, timeout, waits).await?;
                let working = shared.router.work(Class::Get);
                let change = self.rows().last_change(&local, key.into()).await.map_err(row)?;
                working.done();
                Ok(Reply::LastChange(change))
            }
            Question::Statistics => Ok(self.statistics_answer()?),
            Question::Cancel { number } => match cancel_here(number) {
                true => Ok(Reply::Done),
                false => Err(Problem::NotHere("the request has ended".to_owned())),
            },
            Question::Digest { partition } => {
                self.shared().router.serving_here(partition.into())?;
                let copies = self.shared().router.copies_named(partition.into())?;
                let digest = self.digest_here(&copies).await;
                let digest = digest.map_err(|error| Problem::NotHere(error.to_string()))?;
                let Digest { lsn, hash, digest, .. } = digest;
                Ok(Reply::Digest { lsn, hash, digest })
            }
            other => self.documents().answer(other, terms, waits).await,
        }
    }

    /// Replies as they go to another node, with what they may show.
    fn replies(&self, partition: PartitionName, replies: &[RowReply]) -> Reply {
        let group = self.shared().tables.copies(partition.into()).map(|copies| copies.group);
        let seen = group.map_or(0, |group| self.shared().replication.seen(group).0);
        Reply::Replies { replies: reply_bytes(replies), seen }
    }
}

/// Whether it is what the cluster itself does to a table that follows.
fn is_own(steps: &[StepBytes]) -> bool {
    matches!(steps, [StepBytes::Write(payload)] if Operation::is_unfollow(payload))
}

/// A step as it came. What cannot be read is not appended: every replica would stop at it.
fn step(step: StepBytes) -> Result<Step, Problem> {
    match step {
        StepBytes::Write(payload) => {
            let payload = Bytes::from(payload);
            // Who asks has looked whether all nodes know it.
            match Operation::check(&payload, |_| true) {
                Ok(()) => Ok(Step::Write(payload)),
                Err(error) => Err(Problem::Write(WriteError::Refused {
                    kind: ErrorKind::General,
                    message: format!("the operation cannot be read: {error}"),
                })),
            }
        }
        StepBytes::Read(argv) => Ok(Step::Read(Argv::of(&argv))),
    }
}

fn row(error: ErrorReply) -> Problem {
    Problem::Row { kind: error.kind, message: error.message.into_owned() }
}

#[cfg(test)]
mod tests;
