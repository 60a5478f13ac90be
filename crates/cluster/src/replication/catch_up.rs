//! Bringing one replica forward by itself, up to where its group's applier stands: one that is
//! new on this node, or was copied from another. It applies between its waits, which takes its thread; the
//! applier takes the replica over at the end.

use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_log::rules::chain::Chain;
use plimsoll_log::{GroupId, Log, LogError, Lsn, Reader};
use plimsoll_storage::partition::{ApplyError, OverBudget, Replica};

use crate::replication::advance::{AdvanceError, advance};
use crate::replication::reading;

/// Bytes read from the log at once.
const READ_BYTES_MAX: usize = 8 << 20;
/// How long one read of the log may wait.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// Why a replica does not come forward.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatchUpError {
    /// The log no longer holds what it lacks: it is to be copied from another.
    #[error("the log no longer holds what the replica lacks: {0}")]
    Trimmed(LogError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// The log is not the one that the replica was brought forward by.
    #[error(transparent)]
    Forked(#[from] AdvanceError),
    /// The replica does not take a record.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// It was told to stop.
    #[error("the node is stopping")]
    Stopped,
}

impl From<LogError> for CatchUpError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Trimmed { .. } => Self::Trimmed(error),
            other => Self::Log(other),
        }
    }
}

/// A replica's own way through its group's log.
pub(crate) struct CatchUp {
    chain: Chain,
    reader: Box<dyn Reader>,
}

impl CatchUp {
    /// Begins where the replica stands.
    pub(crate) fn begin(
        log: &dyn Log,
        group: GroupId,
        replica: &Replica,
    ) -> Result<Self, CatchUpError> {
        let stamp = replica.stamp();
        let chain = Chain::resume(stamp.incarnation, stamp.position);
        let reader = log.read(&[(group, stamp.position.lsn.next())])?;
        Ok(Self { chain, reader })
    }

    /// Applies what is the replica's own until `target` is reached.
    pub(crate) async fn run(
        &mut self,
        time: &Time,
        replica: &mut Replica,
        target: Lsn,
        over: OverBudget,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), CatchUpError> {
        let mut entries = Vec::new();
        while self.chain.position().lsn < target {
            if stop() {
                return Err(CatchUpError::Stopped);
            }
            let reader = &mut *self.reader;
            reading::next(time, reader, &mut entries, READ_BYTES_MAX, READ_TIMEOUT).await?;
            for entry in entries.drain(..) {
                let (record, position) = advance(&mut self.chain, &entry)?;
                if record.partition == replica.id() {
                    replica.apply(position, &record, over, &mut ())?;
                }
            }
        }
        replica.pass(self.chain.position());
        Ok(())
    }
}
