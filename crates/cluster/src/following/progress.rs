//! How far followers are, as this node knows it from what it pulls. It is told by those who pull and
//! read by those who are asked; it decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use serde::{Deserialize, Serialize};

use plimsoll_control::average::whole;
use plimsoll_control::pacing::copies::urgency;

use super::remote::PartitionLevel;
use crate::recovery::Bound;

/// How many of the leader's levels that are not reached yet are remembered: one a second.
const AHEAD_MAX: usize = 600;

/// Where so many bytes wait for the log here, it is what bounds.
const WAITING_FULL_BYTES: u64 = 8 << 20;

/// Over how many of the leader's levels it is measured how fast it is approached.
const BEHIND_MAX: usize = 15;

/// Trips vary by less than this, ms: what is no later is not late.
const LATE_MS_MIN: u64 = 100;
/// Records that are later than this by the link go before files, ms.
const URGENT_MS: u64 = 500;
/// The same of those that the leader could not send yet.
const URGENT_LAG_MS: u64 = 1_000;

/// How long a leader's word about how far it is holds: it says that once a second.
const LEVEL_HOLDS: Duration = Duration::from_secs(3);

/// What became of a partition's records on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Batches that came.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Batches that were appended here.
    pub appended: u64,
    /// Their records.
    pub appended_records: u64,
    /// How long the log here and apply took for them, ms, one beside the other.
    pub append_time_ms: u64,
    /// Batches that the log here did not take.
    pub failed_appends: u64,
    /// Times that the leader could not be asked, or gave nothing.
    pub failed_reads: u64,
    /// Bytes that wait for the log here.
    pub waiting_bytes: u64,
    /// Their records.
    pub waiting_records: u64,
}

impl Counters {
    /// What waited waits no more.
    pub(crate) fn leave(&mut self, bytes: usize, records: usize) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes as u64);
        self.waiting_records = self.waiting_records.saturating_sub(records as u64);
    }
}

/// What is known of one partition that follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionProgress {
    /// How far the leader said that it was, last.
    pub level: Option<PartitionLevel>,
    /// When it did.
    level_at: Option<Instant>,
    /// By how much that was late, ms: what is on the link already.
    late_ms: u64,
    /// The position in the leader's log that was taken here.
    pub taken: u64,
    /// What comes after this is needed of the leader's log, where that is not what was taken.
    pub needed: Option<u64>,
    pub counters: Counters,
    /// When anything was heard.
    pub heard_at: Option<Instant>,
    /// Why it does not go on, while it does not.
    pub trouble: Option<Trouble>,
    /// Levels that are not reached yet, and when each was heard.
    ahead: VecDeque<(u64, Instant)>,
    /// How far it was behind, in the leader's positions, each time that the leader said its level.
    behind: VecDeque<(u64, Instant)>,
}

/// Why a follower does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub why: String,
    /// It will not mend by itself.
    pub is_fatal: bool,
}

impl PartitionProgress {
    /// For how long it has lacked what the leader had, or may have where that is silent, ms; 0 where it
    /// is level. None where the leader never said how far it is.
    pub(crate) fn lag_ms(&self, now: Instant) -> Option<u64> {
        let since = |at: Instant| now - at;
        let lag = match self.ahead.front() {
            Some((_, at)) => since(*at),
            None => match since(self.level_at?) {
                silent if silent <= LEVEL_HOLDS => Duration::ZERO,
                silent => silent,
            },
        };
        let late_ms = if self.late_ms >= LATE_MS_MIN { self.late_ms } else { 0 };
        Some(u64::try_from(lag.as_millis()).unwrap_or(u64::MAX).saturating_add(late_ms))
    }

    /// See [`Progress::is_urgent`].
    fn is_urgent(&self, now: Instant) -> bool {
        let is_behind = self.lag_ms(now).is_some_and(|lag| lag >= URGENT_LAG_MS);
        (self.late_ms >= URGENT_MS || is_behind) && self.limited_by(false, now) == Some(Bound::Link)
    }

    /// How long until it is level, as it has come nearer of late, ms; 0 where it is. None where it comes
    /// no nearer, or nothing is heard.
    pub(crate) fn left_ms(&self, now: Instant) -> Option<u64> {
        let silent = now - self.level_at?;
        if silent > LEVEL_HOLDS {
            return None;
        }
        let level = self.level.as_ref()?.lsn;
        let behind = level.saturating_sub(self.taken);
        if behind == 0 {
            return Some(0);
        }
        let (before, at) = *self.behind.front()?;
        let took = now - at;
        let nearer = before.checked_sub(behind).filter(|nearer| *nearer > 0)?;
        // Of whole seconds alone something can be said.
        (took >= Duration::from_secs(1))
            .then(|| whole(behind as f64 * took.as_secs_f64() * 1e3 / nearer as f64))
    }

    /// What keeps it from being level sooner; none where it is level. `is_paced` is whether the node has held
    /// back what it carries.
    pub(crate) fn limited_by(&self, is_paced: bool, now: Instant) -> Option<Bound> {
        if self.lag_ms(now)? == 0 {
            return None;
        }
        let is_silent = now - self.level_at? > LEVEL_HOLDS;
        let is_full = self.counters.waiting_bytes >= WAITING_FULL_BYTES;
        Some(match () {
            () if self.trouble.is_some() => Bound::Source,
            // What the leader says waits too then.
            () if is_paced => Bound::Pace,
            () if is_silent => Bound::Source,
            () if is_full => Bound::Target,
            () => Bound::Link,
        })
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
pub(crate) struct Progress(Mutex<BTreeMap<PartitionId, PartitionProgress>>);

impl Progress {
    /// Tells something of a partition.
    pub(crate) fn tell(&self, id: PartitionId, change: impl FnOnce(&mut PartitionProgress)) {
        change(self.0.lock().entry(id).or_default());
    }

    /// The leader said how far it is, in a message that came late by so many ms.
    pub(crate) fn level(&self, id: PartitionId, level: PartitionLevel, late_ms: u64, now: Instant) {
        self.tell(id, |it| {
            it.heard_at = Some(now);
            it.late_ms = late_ms;
            if level.lsn > it.taken && it.ahead.len() < AHEAD_MAX {
                it.ahead.push_back((level.lsn, now));
            }
            if it.behind.len() == BEHIND_MAX {
                it.behind.pop_front();
            }
            it.behind.push_back((level.lsn.saturating_sub(it.taken), now));
            it.level = Some(level);
            it.level_at = Some(now);
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

    /// How urgent it is that what is behind goes on, from 0 to 1.
    pub(crate) fn urgency(&self, now: Instant) -> f64 {
        let of = |it: &PartitionProgress| {
            let held_permille = it.level.as_ref().map_or(0, |level| level.held_permille);
            urgency(it.lag_ms(now).unwrap_or(0), f64::from(held_permille) / 1e3)
        };
        self.0.lock().values().map(of).fold(0.0, f64::max)
    }

    /// What is known of a partition.
    pub(crate) fn of(&self, id: PartitionId) -> PartitionProgress {
        self.0.lock().get(&id).cloned().unwrap_or_default()
    }

    /// Whether a partition's records come so late over the link that files on the same link are to give way.
    pub(crate) fn is_urgent(&self, id: PartitionId, now: Instant) -> bool {
        self.0.lock().get(&id).is_some_and(|it| it.is_urgent(now))
    }

    /// Forgets those for which it is not so.
    pub(crate) fn retain(&self, is_kept: impl Fn(PartitionId) -> bool) {
        self.0.lock().retain(|id, _| is_kept(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_the_age_of_what_is_not_reached() {
        let (progress, id) = (Progress::default(), PartitionId { table: 1, ordinal: 0 });
        let begin = Instant::default();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let level = |lsn| PartitionLevel { lsn, ..PartitionLevel::default() };
        progress.level(id, level(10), 0, at(0));
        progress.level(id, level(20), 0, at(1));
        assert_eq!(progress.of(id).lag_ms(at(3)), Some(3000));
        progress.stands_at(id, 10);
        assert_eq!(progress.of(id).lag_ms(at(3)), Some(2000));
        progress.stands_at(id, 20);
        assert_eq!(progress.of(id).lag_ms(at(3)), Some(0));
        progress.level(id, level(20), 0, at(4));
        assert_eq!(progress.of(id).lag_ms(at(5)), Some(0));
        assert_eq!(
            progress.of(id).lag_ms(at(64)),
            Some(60_000),
            "it may lack what was written since"
        );
        assert_eq!(PartitionProgress::default().lag_ms(at(5)), None);
    }

    #[test]
    fn what_is_on_the_link_counts_as_a_lag_and_is_urgent() {
        let (progress, id) = (Progress::default(), PartitionId { table: 1, ordinal: 0 });
        let now = Instant::default();
        let level = || PartitionLevel { lsn: 10, ..PartitionLevel::default() };
        progress.stands_at(id, 10);
        for (late_ms, lag_ms, is_urgent) in [(30, 0, false), (150, 150, false), (600, 600, true)] {
            progress.level(id, level(), late_ms, now);
            let known = progress.of(id);
            assert_eq!((known.lag_ms(now), known.is_urgent(now)), (Some(lag_ms), is_urgent));
        }
        // What the leader has and could not send yet.
        progress.level(id, PartitionLevel { lsn: 20, ..level() }, 0, now);
        assert!(!progress.of(id).is_urgent(now));
        assert!(progress.of(id).is_urgent(now + Duration::from_secs(2)));
    }

    #[test]
    fn what_is_left_is_told_by_how_fast_the_leader_is_approached() {
        let (progress, id) = (Progress::default(), PartitionId { table: 1, ordinal: 0 });
        let begin = Instant::default();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(progress.of(id).left_ms(begin), None);
        // The leader writes 70 a second, 100 are taken; 3,000 were missing.
        for second in 0..=20 {
            progress.stands_at(id, second * 100);
            let lsn = 3000 + second * 70;
            let level = PartitionLevel { lsn, ..PartitionLevel::default() };
            progress.level(id, level, 0, at(second));
        }
        let known = progress.of(id);
        assert_eq!(known.left_ms(at(20)), Some(80_000));
        assert_eq!(known.limited_by(false, at(20)), Some(Bound::Link));
        assert_eq!(known.limited_by(true, at(20)), Some(Bound::Pace));
        assert_eq!(known.left_ms(at(30)), None, "the leader is silent");
        assert_eq!(known.limited_by(false, at(30)), Some(Bound::Source));
        progress.stands_at(id, 3000 + 20 * 70);
        assert_eq!(progress.of(id).left_ms(at(20)), Some(0));
        assert_eq!(progress.of(id).limited_by(true, at(20)), None);
    }
}
