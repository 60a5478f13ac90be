//! Where one reader stands in one group, and what it makes of the next message that a server
//! delivers. Pure. It checks the order itself: of the deliveries, so that nothing is lost on the
//! way, and of the positions, so that nothing is missing in the stream. What was read before is
//! recognised when it comes again, so that a stream with another past is.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;

use crate::Lsn;

/// How many of the latest records are remembered.
const RING_LEN: usize = 4096;

/// What to do with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the next record.
    Take,
    /// It was read before.
    Skip,
    /// A delivery was lost on its way here: begin anew.
    Lost,
    /// The stream goes on here, and does not hold what should come before it.
    Gap(Lsn),
    /// Another record stood at this position when it was read before.
    OtherPast(Lsn),
}

/// A reader's place in a group.
pub(super) struct Tail {
    expected: Lsn,
    /// The number of the next delivery of this consumer, from 1.
    delivery: u64,
    /// (position, hash) of the latest records.
    ring: VecDeque<(Lsn, u64)>,
}

impl Tail {
    /// A reader that wants the record at `from` next.
    pub fn new(from: Lsn) -> Self {
        // 0 is before the first record there can be, and so the same as 1.
        Self { expected: Lsn(from.0.max(1)), delivery: 1, ring: VecDeque::new() }
    }

    /// The position wanted next.
    pub fn expected(&self) -> Lsn {
        self.expected
    }

    /// The last record read, where there is one.
    pub fn last_read(&self) -> Option<Lsn> {
        self.ring.back().map(|(lsn, _)| *lsn)
    }

    /// Begins with a new consumer; where it is to start: at the last record read, where there
    /// is one, to see whether it still is the same.
    pub fn begin(&mut self) -> Lsn {
        self.delivery = 1;
        self.last_read().unwrap_or(self.expected)
    }

    /// Judges the message that the consumer delivered as its `delivery`th.
    pub fn offer(&mut self, delivery: u64, lsn: Lsn, record: &[u8]) -> Step {
        if delivery != self.delivery {
            return Step::Lost;
        }
        self.delivery += 1;
        if lsn > self.expected {
            return Step::Gap(lsn);
        }
        let hash = xxh3_64(record);
        if lsn < self.expected {
            // A server that is behind begins with what it has. What is too old to be remembered
            // is passed over.
            let found = self.ring.binary_search_by_key(&lsn, |(at, _)| *at);
            return match found {
                Ok(at) if self.ring[at].1 != hash => Step::OtherPast(lsn),
                _ => Step::Skip,
            };
        }
        if self.ring.len() == RING_LEN {
            self.ring.pop_front();
        }
        self.ring.push_back((lsn, hash));
        self.expected = lsn.next();
        Step::Take
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lsn: u64) -> Vec<u8> {
        lsn.to_le_bytes().to_vec()
    }

    #[test]
    fn records_are_taken_in_order_from_the_position_asked_for() {
        let mut tail = Tail::new(Lsn(7));
        assert_eq!(tail.begin(), Lsn(7));
        assert_eq!(tail.offer(1, Lsn(5), &at(5)), Step::Skip);
        assert_eq!(tail.offer(2, Lsn(6), &at(6)), Step::Skip);
        assert_eq!(tail.offer(3, Lsn(7), &at(7)), Step::Take);
        assert_eq!(tail.offer(5, Lsn(9), &at(9)), Step::Lost);
        assert_eq!(tail.expected(), Lsn(8));
        assert_eq!(Tail::new(Lsn(0)).expected(), Lsn(1));
    }

    #[test]
    fn what_is_missing_is_never_passed_over() {
        let mut tail = Tail::new(Lsn(1));
        assert_eq!(tail.offer(1, Lsn(3), &at(3)), Step::Gap(Lsn(3)));
        assert_eq!(tail.begin(), Lsn(1));
        assert_eq!(tail.offer(1, Lsn(1), &at(1)), Step::Take);
        assert_eq!(tail.offer(2, Lsn(3), &at(3)), Step::Gap(Lsn(3)));
        assert_eq!(tail.expected(), Lsn(2));
    }

    #[test]
    fn a_new_consumer_begins_with_the_last_record_and_sees_whether_it_is_the_same() {
        let mut tail = Tail::new(Lsn(1));
        for lsn in 1..=RING_LEN as u64 + 2 {
            assert_eq!(tail.offer(lsn, Lsn(lsn), &at(lsn)), Step::Take);
        }
        let last = RING_LEN as u64 + 2;
        assert_eq!(tail.begin(), Lsn(last));
        assert_eq!(tail.offer(1, Lsn(last), &at(last)), Step::Skip);
        assert_eq!(tail.begin(), Lsn(last));
        assert_eq!(tail.offer(1, Lsn(1), b"other"), Step::Skip, "too long ago to tell");
        assert_eq!(tail.offer(2, Lsn(3), &at(3)), Step::Skip);
        assert_eq!(tail.offer(3, Lsn(4), b"other"), Step::OtherPast(Lsn(4)));
    }
}
