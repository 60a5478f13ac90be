//! How far followers are, as this node knows it from what it pulls. It is told by those who pull and
//! read by those who are asked; it decides nothing.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use plimsoll_log::PartitionId;

use super::remote::PartitionLevel;

/// How many of the leader's levels that are not reached yet are remembered: one a second.
const AHEAD_MAX: usize = 600;

/// What is known of one partition that follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionProgress {
    /// How far the leader said that it was, last.
    pub level: Option<PartitionLevel>,
    /// The position in the leader's log that was taken here.
    pub taken: u64,
    /// What comes after this is needed of the leader's log, where that is not what was taken.
    pub needed: Option<u64>,
    /// Batches that came, and their records and bytes.
    pub batches: u64,
    pub records: u64,
    pub bytes: u64,
    /// Batches that were appended here.
    pub appended: u64,
    pub appended_records: u64,
    /// Batches that the log here did not take.
    pub failed_appends: u64,
    /// Times that the leader could not be asked.
    pub failed_reads: u64,
    /// Bytes that wait for the log here.
    pub waiting_bytes: u64,
    pub waiting_records: u64,
    /// When anything was heard.
    pub heard_at: Option<Instant>,
    /// Why it does not go on, while it does not.
    pub trouble: Option<Trouble>,
    /// Levels that are not reached yet, and when each was heard.
    ahead: std::collections::VecDeque<(u64, Instant)>,
}

/// Why a follower does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub why: String,
    /// It will not mend by itself.
    pub is_fatal: bool,
}

impl PartitionProgress {
    /// For how long it has lacked what the leader had, ms; 0 where it is level.
    pub(crate) fn lag_ms(&self, now: Instant) -> u64 {
        let oldest = self.ahead.front().map(|(_, at)| now.saturating_duration_since(*at));
        oldest.map_or(0, |lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX))
    }

    /// The position after which the leader's log is needed.
    pub(crate) fn needed(&self) -> u64 {
        self.needed.unwrap_or(self.taken)
    }

    fn reach(&mut self) {
        while self.ahead.front().is_some_and(|(lsn, _)| *lsn <= self.taken) {
            self.ahead.pop_front();
        }
    }
}

/// What is known of all of them, by their names here.
#[derive(Default)]
pub(crate) struct Progress(Mutex<HashMap<PartitionId, PartitionProgress>>);

impl Progress {
    /// Tells something of a partition.
    pub(crate) fn tell(&self, id: PartitionId, change: impl FnOnce(&mut PartitionProgress)) {
        change(self.0.lock().entry(id).or_default());
    }

    /// The leader said how far it is.
    pub(crate) fn level(&self, id: PartitionId, level: PartitionLevel, now: Instant) {
        self.tell(id, |it| {
            it.heard_at = Some(now);
            if level.lsn > it.taken && it.ahead.len() < AHEAD_MAX {
                it.ahead.push_back((level.lsn, now));
            }
            it.level = Some(level);
            it.reach();
        });
    }

    /// The copy here stands at a position in the leader's log.
    pub(crate) fn stands_at(&self, id: PartitionId, lsn: u64) {
        self.tell(id, |it| {
            it.taken = it.taken.max(lsn);
            it.reach();
        });
    }

    /// What is known of a partition.
    pub(crate) fn of(&self, id: PartitionId) -> PartitionProgress {
        self.0.lock().get(&id).cloned().unwrap_or_default()
    }

    /// Forgets those for which it is not so.
    pub(crate) fn retain(&self, is_kept: impl Fn(PartitionId) -> bool) {
        self.0.lock().retain(|id, _| is_kept(*id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lag_is_the_age_of_what_is_not_reached() {
        let (progress, id) = (Progress::default(), PartitionId { table: 1, ordinal: 0 });
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let level = |lsn| PartitionLevel { lsn, ..PartitionLevel::default() };
        progress.level(id, level(10), at(0));
        progress.level(id, level(20), at(1));
        assert_eq!(progress.of(id).lag_ms(at(3)), 3000);
        progress.stands_at(id, 10);
        assert_eq!(progress.of(id).lag_ms(at(3)), 2000);
        progress.stands_at(id, 20);
        assert_eq!(progress.of(id).lag_ms(at(3)), 0);
        progress.level(id, level(20), at(4));
        assert_eq!(progress.of(id).lag_ms(at(5)), 0);
    }
}
