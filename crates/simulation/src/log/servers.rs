//! The records of each group, as a majority of the log's servers has them.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::time::Instant;
use plimsoll_base::{Random, Tasks, Time};
use plimsoll_log::{Bounds, Entry, GroupId, Incarnation, Lsn};

use super::seen::Watchers;

/// How long the ways take, each drawn evenly between its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// From a process to the servers.
    pub there: (Duration, Duration),
    /// Until what stands is seen by a process that reads.
    pub seen: (Duration, Duration),
    /// Until an append is answered for, once its record stands.
    pub back: (Duration, Duration),
}

impl Delays {
    /// Of servers that are far away: what is appended meanwhile by others is seen before an append is answered for,
    /// or after.
    #[must_use]
    pub fn far() -> Self {
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        Self { there: (us(50), ms(20)), seen: (us(50), ms(150)), back: (us(200), ms(300)) }
    }
}

impl Default for Delays {
    fn default() -> Self {
        let us = Duration::from_micros;
        Self { there: (us(50), us(500)), seen: (us(50), us(1_500)), back: (us(200), us(2_000)) }
    }
}

/// How often an append goes wrong: once in so many, each by itself; 0 is never. Whoever appended what is not
/// answered for is told after [`UNKNOWN_AFTER`] that nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// The record stands.
    pub unanswered: u64,
    /// The record never does.
    pub lost: u64,
    /// The record comes to stand later, after what was appended since, whatever became of who appended it.
    pub late: u64,
    /// The record stands and is answered for, and comes to stand a second time later.
    pub twice: u64,
}

/// After how long without an answer an append's outcome is unknown: as the engine over JetStream has it.
pub(super) const UNKNOWN_AFTER: Duration = Duration::from_secs(5);
/// By how much a late record is later, at most.
const LATE_MAX: Duration = Duration::from_secs(30);

/// What a record takes beside its bytes: much, so that a run comes to limits on what a log holds.
const RECORD_BYTES: u64 = 4_096;

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stands, and is answered for.
    Stands,
    /// It stands, is answered for, and stands again so much later.
    Twice(Duration),
    /// It stands, and is not.
    Unanswered,
    /// It never stands, and nobody is told.
    Lost,
    /// It stands so much later, and nobody is told.
    Late(Duration),
    /// It is refused: there is no leader.
    Refused,
}

/// The log's servers. They outlive the processes that use them.
pub struct Servers {
    incarnation: Incarnation,
    pub(super) time: Time,
    pub(super) tasks: Tasks,
    pub(super) delays: Delays,
    pub(super) watchers: Watchers,
    state: Mutex<ServersState>,
}

struct ServersState {
    groups: Vec<Group>,
    chance: Stream,
    troubles: Troubles,
    /// Until when there is no leader.
    headless_until: Instant,
}

struct Group {
    first: Lsn,
    records: VecDeque<Bytes>,
}

impl Group {
    fn last(&self) -> Lsn {
        Lsn(self.first.0 + self.records.len() as u64 - 1)
    }
}

impl Servers {
    /// Empty groups; `tasks` are the servers' own.
    #[must_use]
    pub fn new(groups: u16, delays: Delays, time: Time, tasks: Tasks, random: &Random) -> Self {
        let mut chance = random.of("log");
        let incarnation = Incarnation(chance.next_u64());
        let group = |_| Group { first: Lsn(1), records: VecDeque::new() };
        let groups = (0..groups).map(group).collect();
        let (troubles, headless_until) = (Troubles::default(), Instant::default());
        let state = Mutex::new(ServersState { groups, chance, troubles, headless_until });
        Self { incarnation, time, tasks, delays, watchers: Watchers::default(), state }
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// A duration between the bounds, and less than a microsecond more: no two are quite the same.
    pub(super) fn draw(&self, (least, most): (Duration, Duration)) -> Duration {
        let mut state = self.state.lock();
        let span = u64::try_from((most - least).as_nanos()).unwrap_or(u64::MAX);
        least + Duration::from_nanos(state.chance.below(span.saturating_add(1_000)))
    }

    /// How the log misbehaves from now on.
    pub fn trouble(&self, troubles: Troubles) {
        self.state.lock().troubles = troubles;
    }

    /// There is no leader for so long.
    pub fn behead(&self, lasts: Duration) {
        self.state.lock().headless_until = self.time.now() + lasts;
    }

    /// What becomes of an append that comes to the servers now.
    pub(super) fn fate(&self) -> Fate {
        let mut held = self.state.lock();
        let ServersState { chance, troubles, headless_until, .. } = &mut *held;
        let headless = *headless_until - self.time.now();
        if !headless.is_zero() {
            return match chance.below(4) {
                0 => Fate::Late(headless),
                1 => Fate::Lost,
                _ => Fate::Refused,
            };
        }
        if chance.once_in(troubles.unanswered) {
            return Fate::Unanswered;
        }
        if chance.once_in(troubles.lost) {
            return Fate::Lost;
        }
        let most = u64::try_from(LATE_MAX.as_nanos()).unwrap_or(u64::MAX);
        if chance.once_in(troubles.late) {
            return Fate::Late(Duration::from_nanos(chance.below(most)));
        }
        if chance.once_in(troubles.twice) {
            return Fate::Twice(Duration::from_nanos(chance.below(most)));
        }
        Fate::Stands
    }

    pub(super) fn has(&self, group: GroupId) -> bool {
        usize::from(group.0) < self.state.lock().groups.len()
    }

    /// A record comes to stand in a group.
    pub(super) fn stand(&self, group: GroupId, record: Bytes) -> Lsn {
        let mut state = self.state.lock();
        let group = &mut state.groups[usize::from(group.0)];
        group.records.push_back(record);
        group.last()
    }

    /// What a group holds.
    #[must_use]
    pub fn bounds(&self, group: GroupId) -> Bounds {
        let state = self.state.lock();
        let group = &state.groups[usize::from(group.0)];
        Bounds { first: group.first, last: group.last() }
    }

    /// Adds the records of a group from `from` to `to`; says where it begins where that is later.
    pub(super) fn fetch(
        &self,
        group: GroupId,
        (from, to): (Lsn, Lsn),
        bytes_max: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Lsn> {
        let state = self.state.lock();
        let held = &state.groups[usize::from(group.0)];
        if from < held.first {
            return Err(held.first);
        }
        let mut bytes = 0;
        let skip = usize::try_from(from.0 - held.first.0).unwrap_or(usize::MAX);
        for (lsn, record) in (from.0..=to.0).zip(held.records.iter().skip(skip)) {
            if bytes > bytes_max {
                break;
            }
            bytes += record.len();
            entries.push(Entry { group, lsn: Lsn(lsn), record: record.clone() });
        }
        Ok(())
    }

    /// What the records after a position take of the servers' files.
    pub(super) fn bytes_after(&self, group: GroupId, lsn: Lsn) -> u64 {
        let state = self.state.lock();
        let held = &state.groups[usize::from(group.0)];
        let skip = usize::try_from((lsn.0 + 1).saturating_sub(held.first.0)).unwrap_or(usize::MAX);
        held.records.iter().skip(skip).map(|record| RECORD_BYTES + record.len() as u64).sum()
    }

    /// Forgets what is before a position; the record there is kept, for readers to know the group by.
    pub(super) fn trim(&self, group: GroupId, up_to: Lsn) {
        let mut state = self.state.lock();
        let group = &mut state.groups[usize::from(group.0)];
        while group.first < up_to && group.records.len() > 1 {
            group.records.pop_front();
            group.first = group.first.next();
        }
    }
}
