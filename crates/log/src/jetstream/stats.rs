//! What a JetStream log counts and measures, of one group.

use std::time::Duration;

use crate::{GroupId, Lsn, Stats};

/// The weight of a new sample in an average: the last ten or so matter.
const AVERAGE_WEIGHT: f64 = 0.1;

/// Figures of one group since the log was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStats {
    /// The group.
    pub group: GroupId,
    /// Appends that were acknowledged.
    pub appends: u64,
    /// Their records' bytes.
    pub append_bytes: u64,
    /// Appends that were refused.
    pub appends_refused: u64,
    /// Appends whose outcome stayed unknown.
    pub appends_unknown: u64,
    /// How long an append takes from the queue to its answer, the last ten or so.
    pub append_average: Duration,
    /// The longest of all.
    pub append_max: Duration,
    /// How long appends took in the last second or so, each weighed by its own length: what one
    /// sent at any moment has to expect. A server that stands still now and then answers many
    /// fast ones in between, which hide it in the average.
    pub append_expected: Duration,
    /// Appends that wait for their outcome now.
    pub queue_length: usize,
    /// Bytes that they take.
    pub queue_bytes: usize,
    /// How long the oldest of them has waited.
    pub queue_age: Duration,
    /// The last position known to be given away: acknowledged or read here.
    pub last_seen: Lsn,
    /// Bytes of records that readers here took.
    pub read_bytes: u64,
    /// How often a reader had to begin anew: a server died or hung, or something was lost.
    pub reader_restarts: u64,
    /// The server that leads the group, as last heard; empty before.
    pub leader: String,
    /// How often its leader stepped down because it was asked to from here.
    pub leader_moves: u64,
    /// Why the group takes no appends and gives no records, if so.
    pub fault: Option<String>,
}

/// How long appends took since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub appends: u64,
    seconds: f64,
    squares: f64,
}

impl Interval {
    pub fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.appends += 1;
        self.seconds += seconds;
        self.squares += seconds * seconds;
    }

    /// The mean of what was added, each weighed by its own length.
    pub fn expected(&self) -> Duration {
        let mean = if self.seconds > 0.0 { self.squares / self.seconds } else { 0.0 };
        Duration::try_from_secs_f64(mean).unwrap_or_default()
    }
}

impl GroupStats {
    pub(super) fn appended(&mut self, bytes: usize, took: Duration) {
        self.appends += 1;
        self.append_bytes += bytes as u64;
        self.append_max = self.append_max.max(took);
        self.append_average = if self.append_average.is_zero() {
            took
        } else {
            self.append_average.mul_f64(1.0 - AVERAGE_WEIGHT) + took.mul_f64(AVERAGE_WEIGHT)
        };
    }
}

/// The figures of all groups as those of one log.
pub(super) fn summed(groups: Vec<GroupStats>) -> Stats {
    let mut sum = Stats::default();
    let (mut append_s, mut appends) = (0.0, 0.0);
    for group in groups {
        sum.appends += group.appends;
        sum.append_bytes += group.append_bytes;
        sum.appends_failed += group.appends_refused + group.appends_unknown;
        sum.queue_length += group.queue_length;
        sum.queue_bytes += group.queue_bytes;
        sum.queue_age = sum.queue_age.max(group.queue_age);
        sum.stopped = sum.stopped.or(group.fault);
        append_s += group.append_average.as_secs_f64() * group.appends as f64;
        appends += group.appends as f64;
    }
    sum.append_average =
        Duration::try_from_secs_f64(append_s / f64::max(appends, 1.0)).unwrap_or_default();
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_still_now_and_then_is_what_an_append_has_to_expect() {
        let mut interval = Interval::default();
        assert_eq!(interval.expected(), Duration::ZERO);
        (0..400).for_each(|_| interval.add(Duration::from_millis(1)));
        assert_eq!(interval.expected().as_millis(), 1);
        (0..4).for_each(|_| interval.add(Duration::from_millis(400)));
        assert!(interval.expected() > Duration::from_millis(300));
        assert_eq!(interval.appends, 404);
    }
}
