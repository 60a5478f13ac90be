//! What is noted of a log group before it is trimmed: a position of its chain, and where each
//! partition has its last record up to there. A copy that was away past the trim goes on by that
//! note where what it lacks cannot concern its partition. Pure.

use std::collections::BTreeMap;

use plimsoll_log::rules::chain::Position;
use plimsoll_log::{Lsn, PartitionId};
use plimsoll_storage::partition::Replica;
use serde::{Deserialize, Serialize};

use crate::metadata::table::partition_named;

/// How many partitions that are not known are kept: a table may be so new that only its records
/// have been seen.
const UNKNOWN_MAX: usize = 1_000;

/// Where the last record of each partition of a group stands, as far as the group was seen. What
/// it says is never too early: a partition has no record after [`Self::bound`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Encoded", try_from = "Encoded")]
pub(crate) struct LastRecords {
    /// Every record after this position was seen, of all partitions that `last` does not name.
    seen_from: Lsn,
    last: BTreeMap<PartitionId, Lsn>,
}

/// As JSON: the position, and the names of partitions.
#[derive(Serialize, Deserialize)]
struct Encoded {
    from: u64,
    last: BTreeMap<String, u64>,
}

impl LastRecords {
    /// Of an applier that begins after `position`.
    pub(crate) fn seen_from(position: Lsn) -> Self {
        Self { seen_from: position, last: BTreeMap::new() }
    }

    /// A record of `partition` stands at `lsn`.
    pub(crate) fn saw(&mut self, partition: PartitionId, lsn: Lsn) {
        self.last.insert(partition, lsn);
    }

    /// Forgets partitions that are not there any more, so that what is kept does not grow with all
    /// tables that ever were.
    pub(crate) fn prune(&mut self, is_there: impl Fn(PartitionId) -> bool) {
        let unknown = self.last.iter().filter(|(id, _)| !is_there(**id));
        let mut unknown: Vec<(Lsn, PartitionId)> = unknown.map(|(id, lsn)| (*lsn, *id)).collect();
        unknown.sort_unstable();
        let excess = unknown.len().saturating_sub(UNKNOWN_MAX);
        for (lsn, id) in unknown.into_iter().take(excess) {
            self.last.remove(&id);
            // Should it be there after all, its last record is still not claimed to be earlier.
            self.seen_from = self.seen_from.max(lsn);
        }
    }

    /// No record of the partition is after this position.
    fn bound(&self, partition: PartitionId) -> Lsn {
        self.last.get(&partition).copied().unwrap_or(self.seen_from)
    }
}

impl From<LastRecords> for Encoded {
    fn from(records: LastRecords) -> Self {
        let last = records.last.iter().map(|(id, lsn)| (id.to_string(), lsn.0));
        Self { from: records.seen_from.0, last: last.collect() }
    }
}

/// What a note names is no partition.
#[derive(Debug, thiserror::Error)]
#[error("no partition: {0}")]
pub(crate) struct NoPartition(String);

impl TryFrom<Encoded> for LastRecords {
    type Error = NoPartition;

    fn try_from(encoded: Encoded) -> Result<Self, NoPartition> {
        let record = |(name, lsn): (String, u64)| match partition_named(&name) {
            Some(id) => Ok((id, Lsn(lsn))),
            None => Err(NoPartition(name)),
        };
        let last = encoded.last.into_iter().map(record).collect::<Result<_, _>>()?;
        Ok(Self { seen_from: Lsn(encoded.from), last })
    }
}

/// The note of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrimNote {
    /// A position of the group's chain, LSN, hash and log time: when the note was made, nothing
    /// after it had been trimmed.
    at: (u64, u64, u64),
    /// The last records up to there.
    records: LastRecords,
}

impl TrimNote {
    /// The note of what was seen up to `at`. `before` is the group's note so far: it knows of
    /// earlier records than an applier that began late.
    pub(crate) fn new(at: Position, seen: &LastRecords, before: Option<&Self>) -> Self {
        let mut records = seen.clone();
        // What the older note says holds up to its position; after that all was seen.
        if let Some(before) = before.filter(|it| it.at.0 >= seen.seen_from.0) {
            records = before.records.clone();
            records.last.extend(seen.last.iter().map(|(id, lsn)| (*id, *lsn)));
        }
        Self { at: (at.lsn.0, at.hash, at.log_time_ms), records }
    }

    /// Forgets partitions that are not there any more.
    pub(crate) fn prune(&mut self, is_there: impl Fn(PartitionId) -> bool) {
        self.records.prune(is_there);
    }

    /// The position that it was made at.
    pub(crate) fn at(&self) -> Position {
        let (lsn, hash, log_time_ms) = self.at;
        Position { lsn: Lsn(lsn), hash, log_time_ms }
    }

    /// Up to [`Self::at`], the partition has no record after this position.
    pub(crate) fn last_record(&self, partition: PartitionId) -> Lsn {
        self.records.bound(partition)
    }

    /// What was seen of the group, for an applier that begins where the note was made.
    pub(crate) fn records(&self) -> &LastRecords {
        &self.records
    }

    /// Takes a replica forward to where the note was made, where nothing in between is of its
    /// partition. Says whether it did.
    pub(crate) fn bridge(&self, replica: &mut Replica) -> bool {
        let held = replica.stamp().position.lsn;
        let bridges = held < self.at().lsn && held >= self.last_record(replica.id());
        if bridges {
            replica.pass(self.at());
        }
        bridges
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use plimsoll_log::Incarnation;
    use plimsoll_storage::partition::{Resources, StoreOptions};

    use super::*;

    fn id(ordinal: u32) -> PartitionId {
        PartitionId { table: 1, ordinal }
    }

    fn at(lsn: u64) -> Position {
        Position { lsn: Lsn(lsn), hash: lsn * 7, log_time_ms: lsn }
    }

    fn seen(from: u64, records: &[(u32, u64)]) -> LastRecords {
        let mut seen = LastRecords::seen_from(Lsn(from));
        records.iter().for_each(|(ordinal, lsn)| seen.saw(id(*ordinal), Lsn(*lsn)));
        seen
    }

    fn bounds(note: &TrimNote) -> [u64; 3] {
        [0, 1, 2].map(|ordinal| note.last_record(id(ordinal)).0)
    }

    #[test]
    fn a_note_bounds_the_last_record_of_every_partition() {
        let seen = seen(0, &[(0, 10), (1, 40), (0, 20), (9, 45)]);
        let note = TrimNote::new(at(50), &seen, None);
        assert_eq!(bounds(&note), [20, 40, 0], "one that never wrote has no record");
        assert_eq!(note.at(), at(50));
        let text = serde_json::to_string(&note).unwrap();
        assert_eq!(serde_json::from_str::<TrimNote>(&text).unwrap(), note);
    }

    #[test]
    fn who_began_late_knows_by_the_note_before_or_not_at_all() {
        let first = TrimNote::new(at(50), &seen(0, &[(0, 10), (1, 40)]), None);
        let second = TrimNote::new(at(70), &seen(45, &[(1, 60)]), Some(&first));
        assert_eq!(bounds(&second), [10, 60, 0]);
        // Between the note and what was seen records may have come.
        let gap = TrimNote::new(at(90), &seen(55, &[(1, 60)]), Some(&first));
        assert_eq!(bounds(&gap), [55, 60, 55]);
    }

    #[test]
    fn a_note_takes_a_replica_over_what_is_not_its_own_and_over_nothing_else() {
        let resources = Resources::new(StoreOptions::default(), Arc::new(|| ()));
        let own = id(0);
        let open = |dir: &Path, lsn: u64| {
            Replica::open(own, dir, &resources, Incarnation(1), at(lsn)).unwrap()
        };
        // Its last record is at 20; those of others come later.
        let note = TrimNote::new(at(50), &seen(0, &[(0, 20), (1, 40)]), None);
        // Of these records nothing is known before 30.
        let late = TrimNote::new(at(50), &seen(30, &[(1, 40)]), None);
        for (note, held, bridges) in [
            (&note, 19, false),
            (&note, 20, true),
            (&note, 49, true),
            (&note, 50, false),
            (&note, 60, false),
            (&late, 29, false),
            (&late, 30, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut replica = open(dir.path(), held);
            assert_eq!(note.bridge(&mut replica), bridges, "{held}");
            let stands = if bridges { at(50) } else { at(held) };
            assert_eq!(replica.stamp().position, stands, "{held}");
            assert!(!note.bridge(&mut replica), "it goes forward once");
            assert_eq!(replica.mark().unwrap(), stands);
            replica.store().flush().unwrap();
            drop(replica);
            // Opened again it stands there, wherever a new one would.
            let replica = open(dir.path(), 1);
            assert_eq!(replica.stamp().position, stands);
        }
    }

    #[test]
    fn what_is_forgotten_is_never_claimed_to_be_earlier() {
        let mut seen = LastRecords::default();
        let many = u32::try_from(UNKNOWN_MAX).unwrap() + 10;
        (0..many).for_each(|ordinal| seen.saw(id(ordinal), Lsn(u64::from(ordinal) + 100)));
        seen.prune(|it| it == id(0));
        assert_eq!(seen.last.len(), UNKNOWN_MAX + 1);
        assert_eq!(seen.bound(id(0)), Lsn(100), "it is there");
        for ordinal in 1..many {
            let lsn = Lsn(u64::from(ordinal) + 100);
            assert!(seen.bound(id(ordinal)) >= lsn);
        }
        assert_eq!(seen.bound(id(many - 1)), Lsn(u64::from(many) + 99), "the newest are kept");
    }
}
