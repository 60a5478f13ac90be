//! Where records stand in a leader's log, and whether a replica takes a batch of them. How batches are made of a
//! log is `assemble.rs`'s.

use crate::{Incarnation, Lsn};

/// A position in the log of a leader's group, and the chain's hash there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The position; 0 before the first record.
    pub lsn: Lsn,
    /// The hash of everything up to it.
    pub hash: u64,
    /// Log time there, ms since 1970: what a record does goes by it, and it is the group's, so that a
    /// partition's records alone do not tell it.
    pub log_time_ms: u64,
}

/// How far a follower's replica has come in the log of its leader's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaderPosition {
    /// The leader's log.
    pub incarnation: Incarnation,
    /// What was taken last, or the end of a batch that said that nothing else came before it.
    pub link: Link,
}

/// The links of one batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// The leader's log.
    pub incarnation: Incarnation,
    /// Where it begins: what comes first is behind this.
    pub after: Link,
    /// Where each of its records stands.
    pub records: Vec<Link>,
    /// Where it ends: at its last record, or further on where nothing of the partition follows.
    pub to: Link,
}

/// What apply does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Takes its records from this one on; where there are none left, its end.
    Take {
        /// The first to take.
        from: usize,
    },
    /// All of it was taken before: a no-op.
    Duplicate,
    /// Something before it is missing: a no-op; whoever carries asks again from where the replica
    /// stands.
    Gap,
    /// It begins before where the replica stands and says nothing of that position: a no-op, and
    /// asked for again as with a gap.
    Astride,
}

/// Why a batch is not of the log that was followed. Nothing of it is taken; whoever carries is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarriedFault {
    /// The leader's group has another log than the one that was followed.
    #[error("the leader's log is {found}, what was taken before is of log {expected}")]
    OtherLog {
        /// The one that was followed.
        expected: Incarnation,
        /// The one that the batch is of.
        found: Incarnation,
    },
    /// The leader's log is not what it was when it was carried here.
    #[error("at {lsn} the leader's log has {found:016x}, here it had {expected:016x}: it forked")]
    Forked {
        /// The position compared.
        lsn: Lsn,
        /// The hash here.
        expected: u64,
        /// The hash in the batch.
        found: u64,
    },
}

impl Batch {
    /// Whether its positions increase and lie within it, and log time does not go back. One that is
    /// not so is refused before it is appended.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        let mut before = self.after;
        let in_order = self.records.iter().all(|link| {
            let follows = link.lsn > before.lsn && link.log_time_ms >= before.log_time_ms;
            before = *link;
            follows
        });
        let ends_behind = self.to.lsn > before.lsn && self.to.log_time_ms >= before.log_time_ms;
        in_order && (ends_behind || Some(&self.to) == self.records.last())
    }

    /// Where a replica stands that took so many of its records: all of them brings it to the end.
    #[must_use]
    pub fn position(&self, taken: usize) -> LeaderPosition {
        let link = match taken {
            taken if taken >= self.records.len() => self.to,
            0 => self.after,
            taken => self.records[taken - 1],
        };
        LeaderPosition { incarnation: self.incarnation, link }
    }

    /// Decides on the batch for a replica that stands at `held`.
    ///
    /// # Errors
    /// A fault: a no-op that is told. Whether the leader's log forked, it says itself where it is asked
    /// from where the replica stands.
    pub fn admit(&self, held: &LeaderPosition) -> Result<Verdict, CarriedFault> {
        if held.incarnation != self.incarnation {
            let (expected, found) = (held.incarnation, self.incarnation);
            return Err(CarriedFault::OtherLog { expected, found });
        }
        let Link { lsn, hash: expected, .. } = held.link;
        let mut links = std::iter::once(&self.after).chain(&self.records).chain([&self.to]);
        if let Some(link) = links.find(|link| link.lsn == lsn)
            && link.hash != expected
        {
            return Err(CarriedFault::Forked { lsn, expected, found: link.hash });
        }
        if lsn >= self.to.lsn {
            return Ok(Verdict::Duplicate);
        }
        if lsn < self.after.lsn {
            return Ok(Verdict::Gap);
        }
        if lsn == self.after.lsn {
            return Ok(Verdict::Take { from: 0 });
        }
        match self.records.binary_search_by_key(&lsn, |link| link.lsn) {
            Ok(at) => Ok(Verdict::Take { from: at + 1 }),
            Err(_) => Ok(Verdict::Astride),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Incarnation = Incarnation(7);

    fn link(lsn: u64) -> Link {
        Link { lsn: Lsn(lsn), hash: lsn * 10, log_time_ms: lsn * 100 }
    }

    fn batch() -> Batch {
        let records = vec![link(12), link(15), link(16)];
        Batch { incarnation: LOG, after: link(10), records, to: link(20) }
    }

    fn at(lsn: u64) -> LeaderPosition {
        LeaderPosition { incarnation: LOG, link: link(lsn) }
    }

    #[test]
    fn a_batch_is_taken_from_where_the_replica_stands() {
        let verdicts = [
            (9, Verdict::Gap),
            (10, Verdict::Take { from: 0 }),
            (12, Verdict::Take { from: 1 }),
            (16, Verdict::Take { from: 3 }),
            (20, Verdict::Duplicate),
            (21, Verdict::Duplicate),
            // An empty batch brought it there: nothing tells that both are of one log.
            (11, Verdict::Astride),
            (18, Verdict::Astride),
        ];
        for (lsn, verdict) in verdicts {
            assert_eq!(batch().admit(&at(lsn)), Ok(verdict), "{lsn}");
        }
        for (taken, lsn) in [(0, 10), (1, 12), (2, 15), (3, 20)] {
            assert_eq!(batch().position(taken), at(lsn));
        }
    }

    #[test]
    fn a_fork_and_another_log_are_faults_wherever_they_show() {
        for lsn in [10, 12, 15, 16, 20] {
            let mut held = at(lsn);
            held.link.hash += 1;
            let fault =
                CarriedFault::Forked { lsn: Lsn(lsn), expected: lsn * 10 + 1, found: lsn * 10 };
            assert_eq!(batch().admit(&held), Err(fault));
        }
        let held = LeaderPosition { incarnation: Incarnation(8), ..at(10) };
        let fault = CarriedFault::OtherLog { expected: Incarnation(8), found: LOG };
        assert_eq!(batch().admit(&held), Err(fault));
    }

    #[test]
    fn positions_must_increase_within_the_batch() {
        assert!(batch().is_ordered());
        let ends_at_its_last = Batch { to: link(16), ..batch() };
        let empty = Batch { records: vec![], ..batch() };
        assert!(ends_at_its_last.is_ordered() && empty.is_ordered());
        let backwards = Batch { records: vec![link(15), link(12)], ..batch() };
        let before = Batch { records: vec![link(10)], ..batch() };
        let beyond = Batch { records: vec![link(21)], ..batch() };
        let nothing = Batch { records: vec![], to: link(10), ..batch() };
        let other_end = Batch { to: Link { hash: 1, ..link(16) }, ..batch() };
        let earlier = Link { log_time_ms: 1, ..link(12) };
        let back_in_time = Batch { records: vec![earlier], ..batch() };
        let ends_earlier = Batch { to: Link { log_time_ms: 1, ..link(20) }, ..batch() };
        for wrong in [backwards, before, beyond, nothing, other_end, back_in_time, ends_earlier] {
            assert!(!wrong.is_ordered(), "{wrong:?}");
        }
    }
}
