//! What a command knows beside the rows: the only clock and the only chance that it has.

use plimsoll_base::random::Draws;

use super::cursors::ScanCursors;

/// What a command that reads knows beside the rows.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext<'a> {
    /// The time, ms since 1970: what expired up to now is absent.
    pub now_ms: u64,
    /// What is drawn at random is drawn from this.
    pub seed: Seed<'a>,
    /// Keys that the partition stores, those included that have expired and were not swept.
    pub keys: u64,
    /// Where scans of large hashes go on; without it such a hash is shown whole.
    pub cursors: Option<&'a ScanCursors>,
}

/// Where what a command draws at random begins.
#[derive(Clone, Copy, Debug)]
pub enum Seed<'a> {
    /// Here: the same each time.
    Given(u64),
    /// Somewhere else each time; nothing is drawn for a command that does not ask.
    Drawn(&'a Draws),
}

impl Seed<'_> {
    pub(super) fn get(self) -> u64 {
        match self {
            Self::Given(seed) => seed,
            Self::Drawn(draws) => draws.next_u64(),
        }
    }
}

/// What a command that writes knows beside the rows, and the partition's counters that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteContext {
    /// Log time, ms since 1970: what expired up to now is absent.
    pub now_ms: u64,
    /// The operation's stamp, ms since 1970: a relative expiry counts from it.
    pub stamp_ms: u64,
    /// What is drawn at random is drawn from this.
    pub seed: u64,
    /// The partition's sequence number: one more for each row changed.
    pub sequence: u64,
    /// Keys that the partition stores, those included that have expired and were not swept.
    pub keys: u64,
    /// How many of them have an expiry.
    pub expires: u64,
    /// Whether every replica keeps the budget of records: large removals then leave their entries
    /// of the expiry index to sweeps, which note how far they came.
    pub is_bounded: bool,
    /// When a key expires that is made now and that nobody gives another expiry, ms since 1970; none is never.
    pub default_expiry_ms: Option<u64>,
}
