//! COPY and RENAME of a large hash, in slices: other clients' writes go between them, and readers see
//! nothing of it until its end. What the steps do is the storage's ([`HashCopy`]).

use bytes::Bytes;
use plimsoll_storage::command::{Body, Command, Write};
use plimsoll_storage::execute;
use plimsoll_storage::operation::{COPY_GENERATIONS_FROM, CopyEnd, CopyStep, HashCopy, Operation};
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::{Rows, store_failed};
use crate::metadata::version;
use crate::replication::lead::Step;
use crate::replication::session::ClientSession;
use crate::routing::file_reads::Extent;

/// How many fields go at once.
const SLICE_FIELDS: u64 = 2048;
/// After how long what was copied is swept, if the copy has not ended, ms.
const KEPT_MS: u64 = 600_000;
/// How often a copy begins anew because its source changed.
const ATTEMPTS: u32 = 3;

/// A COPY or RENAME of what may be a large hash.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    from: Bytes,
    to: Bytes,
    end: CopyEnd,
}

impl Rows {
    /// The command as one that goes in slices; `None` where it is another, or goes at once.
    pub(crate) fn slices(&self, db: u32, ordinal: usize, command: &Command<'_>) -> Option<Slices> {
        let (from, to, end) = match command.body {
            Body::Write(Write::Copy { from, to, replace }) => {
                (from, to, CopyEnd { renames: false, absent: !replace, number: true })
            }
            Body::Write(Write::Rename { from, to, absent }) => {
                (from, to, CopyEnd { renames: true, absent, number: absent })
            }
            _ => return None,
        };
        // All members have to know the steps.
        if !self.router.replication.version.allows(version::SLICES) || from == to {
            return None;
        }
        let partition = self.table(db)?.copies().get(ordinal)?.local()?;
        let found =
            execute::large_hash(&partition.store.cached_row(), from, partition.read_time_ms());
        match found {
            Ok(Some(_)) | Err(StoreError::NotCached) => Some(Slices {
                from: Bytes::copy_from_slice(from),
                to: Bytes::copy_from_slice(to),
                end,
            }),
            _ => None,
        }
    }

    /// Carries it out, in slices where the hash is large.
    pub(crate) async fn copy_in_slices(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        slices: &Slices,
        argv: &Argv,
    ) -> Reply {
        for _ in 0..ATTEMPTS {
            let outcome = match self.source(db, ordinal, slices).await {
                Ok(Some(last_change)) => {
                    self.copy_once(session, db, ordinal, slices, last_change).await
                }
                // Small, not there, or in the way of one that is.
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Some(reply)) => return reply,
                Ok(None) => {}
                Err(error) => return error.into(),
            }
        }
        // As any command, also where the hash changed each time: in one piece, within the budget of
        // its record, it cannot.
        let operation = Operation::Command(argv.clone());
        self.step(session, db, ordinal, &operation).await.unwrap_or_else(Into::into)
    }

    /// The last change of a large source whose target may take it.
    async fn source(
        &self,
        db: u32,
        ordinal: usize,
        slices: &Slices,
    ) -> Result<Option<u64>, ErrorReply> {
        let copies = self.table(db).and_then(|table| table.copies().get(ordinal));
        let Some(partition) = copies.and_then(|copies| copies.local()) else { return Ok(None) };
        let Slices { from, to, end } = slices.clone();
        let look = move || {
            let (rows, now_ms) = (&partition.store, partition.read_time_ms());
            if end.absent && execute::is_there(rows, &to, now_ms)? {
                return Ok(None);
            }
            execute::large_hash(rows, &from, now_ms)
        };
        self.router.file_reads.run(Extent::Many, look).await.map_err(store_failed)
    }

    /// Copies once; `None` where the source changed meanwhile.
    async fn copy_once(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        slices: &Slices,
        last_change: u64,
    ) -> Result<Option<Reply>, ErrorReply> {
        let Slices { from, to, end } = slices.clone();
        let generation = COPY_GENERATIONS_FROM | (self.router.names.next_u64() >> 2);
        // Log time may be ahead of this node's clock.
        let local = self.table(db).and_then(|table| table.copies().get(ordinal)?.local());
        let until_ms = local
            .map_or_else(|| self.router.world.time.wall_ms(), |it| it.read_time_ms())
            + KEPT_MS;
        let step = CopyStep::Slice { after: None, fields: SLICE_FIELDS };
        let mut copy = HashCopy { from, to, generation, last_change, until_ms, step };
        let outcome = loop {
            match self.step(session, db, ordinal, &Operation::CopyHash(copy.clone())).await {
                Ok(Reply::Bulk(last)) => {
                    copy.step = CopyStep::Slice { after: Some(last), fields: SLICE_FIELDS };
                }
                Ok(Reply::Status(_)) if copy.step != CopyStep::End(end) => {
                    copy.step = CopyStep::End(end);
                }
                Ok(Reply::Nil) => break Ok(None),
                Ok(Reply::Error(error)) => break Err(error),
                Ok(done) => break Ok(Some(done)),
                Err(error) => break Err(error),
            }
        };
        let is_kept = matches!(outcome, Ok(Some(Reply::Status(_) | Reply::Integer(1))));
        if !is_kept {
            copy.step = CopyStep::Drop;
            // Where that fails too, it is swept later.
            let _ = self.step(session, db, ordinal, &Operation::CopyHash(copy)).await;
        }
        outcome
    }

    async fn step(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        operation: &Operation,
    ) -> Result<Reply, ErrorReply> {
        let steps = vec![Step::Write(operation.encode())];
        let replies = self.submit(session, db, ordinal, steps).await?;
        Ok(replies.into_iter().next().unwrap_or(Reply::Nil))
    }
}
