//! The questions of recovery, of a node of another cluster: a checkpoint of a partition, its files in
//! chunks, their checksums, its end. They are answered for the tables that the asker may follow, and
//! a checkpoint to the one alone who had it made.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::PartitionId;

use super::Leading;
use crate::recovery::Subject;
use crate::wire::{Envelope, FORMAT, Problem, Question, Reply, Told, decode, encode_answer};

/// The longest name that an asker gives itself, bytes.
const NAME_BYTES_MAX: usize = 255;

/// How long a chunk is held back at the most: a follower waits for one half a minute.
const HELD_MAX: Duration = Duration::from_secs(10);
/// What is said of the processors where a chunk was held back: none is free to compress.
const ALL_WANTED: u32 = u32::MAX;

/// Says of a table's name whether its files may be given.
pub type May<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

impl Leading {
    /// Answers a question of recovery, for the tables that `may` allows. `asker` tells those apart
    /// whose nodes may have the same names.
    pub async fn files(&self, asker: &str, question: Bytes, may: May<'_>) -> Bytes {
        let mut held = Duration::ZERO;
        let reply = match decode::<Envelope>(&question) {
            Ok(envelope) if envelope.cluster != self.here.replication.log.incarnation().0 => {
                Reply::Problem(Problem::OtherCluster)
            }
            Ok(envelope) if envelope.from.len() > NAME_BYTES_MAX => {
                Reply::Problem(Problem::NotHere("no node has so long a name".to_owned()))
            }
            Ok(envelope) => {
                let from = format!("{asker}:{}", envelope.from);
                let reply = self.file_reply(&from, &envelope.question, may, &mut held).await;
                reply.unwrap_or_else(Reply::Problem)
            }
            Err(Problem::Format(_)) => Reply::Problem(Problem::Format(FORMAT)),
            Err(problem) => Reply::Problem(problem),
        };
        // What this node's load is, is not for other clusters; that a chunk was late for it is.
        let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        encode_answer(reply, Told { server_ns: Some(held_ns).filter(|ns| *ns > 0), line: None })
    }

    async fn file_reply(
        &self,
        from: &str,
        question: &Question,
        may: May<'_>,
        held: &mut Duration,
    ) -> Result<Reply, Problem> {
        let checkpoints = &self.here.checkpoints;
        match question {
            Question::OpenCopy { partition } => {
                let partition = PartitionId::from(*partition);
                if !self.may_copy(partition, may) {
                    let words = format!("partition {partition} is not served here");
                    return Err(Problem::NotHere(words));
                }
            }
            Question::CopyChunk { checkpoint, .. }
            | Question::PackedChunk { checkpoint, .. }
            | Question::FileChecksums { checkpoint, .. }
            | Question::CloseCheckpoint { checkpoint } => {
                let opened = checkpoints.opened_by_follower(from, *checkpoint);
                opened.filter(|it| self.may_copy(*it, may)).ok_or(Problem::CheckpointGone)?;
            }
            _ => {
                let words = "another cluster is asked for files alone".to_owned();
                return Err(Problem::NotHere(words));
            }
        }
        if let Question::CopyChunk { bytes_max, .. } | Question::PackedChunk { bytes_max, .. } =
            question
        {
            *held = self.pacing.files.pass(u64::from(*bytes_max), HELD_MAX).await;
        }
        let demand_permille = match held.is_zero() {
            true => self.here.router.line().cpu_demand_permille,
            false => ALL_WANTED,
        };
        let find = |id| self.subject(id);
        let answer = checkpoints.answer_follower(from, question, demand_permille, find).await;
        answer.ok_or_else(|| Problem::NotHere("no question of files".to_owned()))
    }

    /// Whether a partition is of a table that is there and may be followed.
    pub(super) fn may_copy(&self, partition: PartitionId, may: May<'_>) -> bool {
        let tables = self.here.tables.all();
        let table = tables.iter().find(|table| table.incarnation() == partition.table);
        table.is_some_and(|table| may(table.name()))
    }

    fn subject(&self, id: PartitionId) -> Option<Subject> {
        let local = self.here.tables.copies(id)?.local()?;
        let is_well = local.fault().is_none();
        let subject = Subject { store: local.store.clone(), index: local.index().cloned() };
        is_well.then_some(subject)
    }
}
