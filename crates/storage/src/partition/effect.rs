//! What applying a record comes to: what became of each operation, and why a replica stops.

use plimsoll_log::record::RecordError;
use plimsoll_log::rules::carried::{CarriedFault, LeaderPosition};
use plimsoll_log::rules::leads::LeadVerdict;
use plimsoll_log::rules::sessions::Verdict;

use super::overlay::Overlay;
use crate::reply::Reply;
use crate::rows::StoreError;

/// What became of one operation of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It ran and answers this.
    Ran(Reply),
    /// It did not run: the session knows it already, or refuses it. Of a fence: the answer.
    Settled(Verdict),
    /// Of carried records and differences: where the replica stands in its leader's log after them, or why it took
    /// nothing of them.
    Carried(Result<LeaderPosition, NotCarried>),
}

/// Why a replica takes nothing of carried records. It goes on with whatever comes after them: its
/// following may be ended, or begun anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCarried {
    /// It follows nobody.
    #[error("the partition follows nobody")]
    FollowsNobody,
    /// They are not of the leader's log that was followed so far.
    #[error("it cannot follow its leader: {0}")]
    Fault(#[from] CarriedFault),
}

/// Learns what each operation did, while later operations have not run yet.
pub trait Observer {
    /// The operation at (item, index; 0 of a fence) is through; `rows` is the state
    /// after it, and `keys` the number of keys in it.
    fn operation(&mut self, at: (usize, usize), effect: Effect, rows: &Overlay<'_>, keys: u64);
}

/// Nobody waits here for the answers.
impl Observer for () {
    fn operation(&mut self, _: (usize, usize), _: Effect, _: &Overlay<'_>, _: u64) {}
}

/// What apply did with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Its operations were applied.
    Taken,
    /// The replica contains it already.
    Contained,
    /// It was a no-op under the rule of leads.
    Passed(LeadVerdict),
}

/// Why a replica stops applying. Its rows stay as they were before the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The disk is full or failing: the same record may be tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Bytes that this version cannot read, in the log or in the replica's own rows.
    #[error("{0}: {1}")]
    Unreadable(&'static str, RecordError),
    /// The replica contains a state that the log never had.
    #[error("the replica has {held:016x} at {position}, the log has {expected:016x}")]
    Forked {
        /// Where they were compared.
        position: plimsoll_log::Lsn,
        /// The replica's chain hash.
        held: u64,
        /// The log's chain hash.
        expected: u64,
    },
    /// An operation takes more than a record may, and it is not known that every replica refuses
    /// it: the same record may be tried again.
    #[error("an operation exceeds what a record may take, and not all nodes know that limit: {0}")]
    OverBudget(String),
}

pub(super) fn unreadable(what: &'static str) -> impl Fn(RecordError) -> ApplyError {
    move |error| ApplyError::Unreadable(what, error)
}
