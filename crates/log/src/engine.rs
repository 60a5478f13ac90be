//! What Plimsoll asks of a log engine: an ordered, durable append and an ordered read.
//! Nothing else is relied on (the rules of the log say why).

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::tasks::parked::Patience;

use crate::{GroupId, Incarnation, Lsn, Stats};

/// A record as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The stream it stands in.
    pub group: GroupId,
    /// Its position there.
    pub lsn: Lsn,
    /// Its bytes, as they were appended.
    pub record: Bytes,
}

/// What a group's log holds now. A hint: by the time it is read it may be old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first position still held; `last.next()` where nothing is.
    pub first: Lsn,
    /// The last position that is durable; 0 before the first record.
    pub last: Lsn,
}

/// Why an append has no position. The outcome decides what its sender may do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It was not appended and never will be: send it again when there is room.
    #[error("the log refuses appends for now: {0}")]
    Refused(String),
    /// It may or may not stand in the log, or may come to stand there at any later time, after
    /// what was appended since: only reading the log tells.
    #[error("the outcome of the append is unknown: {0}")]
    Unknown(String),
}

/// Why the log cannot be opened, read or trimmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Bytes that were durable are damaged; says which file and position.
    #[error("the log is damaged: {0}")]
    Damaged(String),
    /// The position asked for was trimmed away: recover from a checkpoint instead.
    #[error("group {group}: the log begins at {first}, after the position asked for, {asked}")]
    Trimmed {
        /// The group asked for.
        group: GroupId,
        /// The first position it holds.
        first: Lsn,
        /// The position asked for.
        asked: Lsn,
    },
    /// The disk or the server failed.
    #[error("{0}")]
    Failed(String),
}

/// Called once, on one of the engine's threads, when the outcome of an append is known;
/// must not block.
pub type AppendDone = Box<dyn FnOnce(Result<Lsn, AppendError>) + Send>;

/// An ordered, durable log of several groups.
pub trait Log: Send + Sync + 'static {
    /// Tells this log from an earlier one under the same name.
    fn incarnation(&self) -> Incarnation;

    /// Queues a record of at most [`crate::RECORD_BYTES_MAX`] bytes; `done` learns the outcome.
    /// Records queued by one thread for one group keep their order.
    fn append(&self, group: GroupId, record: Bytes, done: AppendDone);

    /// Reads each group in order from its position on (inclusive), durable records only
    /// (those of an `async` log as soon as they are written).
    ///
    /// # Errors
    /// [`LogError::Trimmed`] where a position is no longer held; an engine that has to ask a
    /// server tells it at the reader's first call instead.
    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError>;

    /// What the group's log holds: a hint.
    ///
    /// # Errors
    /// [`LogError::Failed`] where the engine does not answer.
    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError>;

    /// Bytes of records that the group's log holds, headers included: a hint. `None` where the
    /// engine does not count them by group.
    ///
    /// # Errors
    /// [`LogError::Failed`] where the engine does not answer.
    fn held_bytes(&self, _group: GroupId) -> Result<Option<u64>, LogError> {
        Ok(None)
    }

    /// Bytes of the records after a position, about: a hint. `None` where the engine does not count them
    /// so.
    ///
    /// # Errors
    /// [`LogError::Failed`] where the engine does not answer.
    fn bytes_after(&self, _group: GroupId, _lsn: Lsn) -> Result<Option<u64>, LogError> {
        Ok(None)
    }

    /// Allows the engine to forget the group's records up to and including `up_to`.
    ///
    /// # Errors
    /// [`LogError::Failed`]; nothing is lost then, only space.
    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError>;

    /// Makes everything that readers here were given durable, where it may not be yet.
    ///
    /// # Errors
    /// [`LogError::Failed`] where the disk fails.
    fn sync(&self) -> Result<(), LogError>;

    /// Whether the log can be written and read.
    ///
    /// # Errors
    /// [`LogError::Failed`]: why not, as far as known.
    fn health(&self) -> Result<(), LogError>;

    /// The figures of this moment.
    fn stats(&self) -> Stats;
}

/// An ordered read of one or more groups. It never waits by itself: whoever reads takes what is there, and
/// polls until there is more.
pub trait Reader: Send {
    /// Adds to `entries` what is there, in order within each group, at most about `bytes_max` bytes; may add
    /// nothing.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] where the reader fell behind a trim, [`LogError::Damaged`].
    fn take(&mut self, entries: &mut Vec<Entry>, bytes_max: usize) -> Result<(), LogError>;

    /// Ready once [`Self::take`] has something to give, or an error to tell; it may turn out to have neither.
    /// Who polled last is woken.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

impl dyn Reader + '_ {
    /// Takes what is there; where that is nothing, waits for something up to `timeout`, and may add nothing.
    /// Blocks.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn next(
        &mut self,
        entries: &mut Vec<Entry>,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<(), LogError> {
        let (before, patience) = (entries.len(), Patience::of(timeout));
        loop {
            self.take(entries, bytes_max)?;
            if entries.len() > before {
                return Ok(());
            }
            if patience.wait(|context| self.poll_ready(context)).is_none() {
                return Ok(());
            }
        }
    }
}
