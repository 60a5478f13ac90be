//! Partitions of a leader that go no further now: they are left out for a while, so that the others go on.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;

/// How long a partition is left out at first, doubled each time.
const LEFT_OUT_MIN: Duration = Duration::from_secs(5);
/// The longest; each return begins the stream of all anew.
const LEFT_OUT_MAX: Duration = Duration::from_secs(60);

/// The partitions of one pull that are left out, or were, by their names at the leader.
#[derive(Default)]
pub(super) struct LeftOut(BTreeMap<PartitionId, Rest>);

struct Rest {
    /// Not once it is asked for again.
    is_out: bool,
    until: Instant,
    /// How long it is left out the next time, unless something comes of it meanwhile.
    next: Duration,
}

impl LeftOut {
    /// Leaves one out for a while.
    pub(super) fn add(&mut self, partition: PartitionId, now: Instant) {
        let last = self.0.get(&partition).map_or(LEFT_OUT_MIN, |it| it.next);
        let next = (2 * last).min(LEFT_OUT_MAX);
        self.0.insert(partition, Rest { is_out: true, until: now + last, next });
    }

    /// Something came of one: it is left out no longer the next time than at first.
    pub(super) fn forget(&mut self, partition: PartitionId) {
        self.0.remove(&partition);
    }

    /// Whether one is left out.
    pub(super) fn has(&self, partition: PartitionId) -> bool {
        self.0.get(&partition).is_some_and(|it| it.is_out)
    }

    /// When the first of them may come again.
    pub(super) fn until(&self) -> Option<Instant> {
        self.0.values().filter(|it| it.is_out).map(|it| it.until).min()
    }

    /// Has those come again whose time is over.
    pub(super) fn end(&mut self, now: Instant) {
        for it in self.0.values_mut().filter(|it| it.until <= now) {
            it.is_out = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_no_further_again_and_again_is_left_out_ever_longer() {
        let (mut left_out, id) = (LeftOut::default(), PartitionId { table: 1, ordinal: 0 });
        let mut now = Instant::default();
        let mut for_s = Vec::new();
        for _ in 0..6 {
            left_out.add(id, now);
            let until = left_out.until().unwrap();
            left_out.end(now);
            assert!(left_out.has(id));
            for_s.push((until - now).as_secs());
            now = until;
            left_out.end(now);
            assert!(!left_out.has(id) && left_out.until().is_none());
        }
        assert_eq!(for_s, [5, 10, 20, 40, 60, 60]);
        left_out.forget(id);
        left_out.add(id, now);
        assert_eq!(left_out.until(), Some(now + LEFT_OUT_MIN));
    }
}
