//! Idempotent leads: a record carries (lead, epoch, n), and apply takes n = last + 1 only.
//! Anything else is a deterministic no-op, and the lead sends again from the gap.

use super::is_too_old;
use crate::record::LeadStamp;

/// What a replica remembers of one lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeadState {
    /// The epoch of the last record taken.
    pub epoch: u32,
    /// The n of the last record taken.
    pub last: u64,
    /// Log time of the last record taken, ms: forgotten a window after it.
    pub seen_ms: u64,
}

/// What apply does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadVerdict {
    /// Apply it; this is the lead's new state.
    Take(LeadState),
    /// It was applied before: a no-op.
    Duplicate,
    /// Records before it are missing: a no-op; the lead sends again from `expected`, or in a
    /// higher epoch where it no longer has that (the lead was forgotten while it was idle).
    Gap {
        /// The n that would be taken.
        expected: u64,
    },
    /// The lead gave this sequence up: a no-op.
    StaleEpoch,
    /// The lead may have been forgotten since it was made: a no-op.
    TooOld,
}

/// Decides on a record of a lead. `stamp_ms` is the record's, `log_time_ms` includes it;
/// `state` is `None` for a lead unknown or forgotten.
#[must_use]
pub fn admit(
    state: Option<&LeadState>,
    stamp: &LeadStamp,
    stamp_ms: u64,
    log_time_ms: u64,
) -> LeadVerdict {
    if is_too_old(stamp_ms, log_time_ms) {
        return LeadVerdict::TooOld;
    }
    let state = state.filter(|state| !is_too_old(state.seen_ms, log_time_ms));
    let expected = match state {
        Some(state) if stamp.epoch < state.epoch => return LeadVerdict::StaleEpoch,
        Some(state) if stamp.epoch == state.epoch => state.last + 1,
        _ => 1,
    };
    if stamp.n < expected {
        LeadVerdict::Duplicate
    } else if stamp.n > expected {
        LeadVerdict::Gap { expected }
    } else {
        LeadVerdict::Take(LeadState { epoch: stamp.epoch, last: stamp.n, seen_ms: log_time_ms })
    }
}
