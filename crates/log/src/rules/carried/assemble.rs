//! What a leader's node reads out of the log of one group for those who follow partitions of it: from
//! where each of them stands, batch by batch. The chain is run along, so that a follower of another
//! log, or of one that forked since, is told so before anything is sent.
//!
//! Reading the log, waiting for it and sending are not done here, nor what a record does.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::batch::{Batch, CarriedFault, LeaderPosition, Link};
use crate::record::{self, Item, Record, RecordError};
use crate::rules::chain::{Chain, ChainFault, Position};
use crate::{Incarnation, Lsn, PartitionId};

/// Why a partition's records cannot be given from where its follower stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleFault {
    /// The follower's log is not this one, or it forked.
    #[error(transparent)]
    Carried(#[from] CarriedFault),
    /// The log is not what its leads read: the same that stops apply.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// A record cannot be read.
    #[error("record {0} of the leader's log: {1}")]
    Unreadable(Lsn, RecordError),
}

/// What was gathered for one partition.
struct Gathered {
    after: Link,
    links: Vec<Link>,
    records: Vec<Bytes>,
    bytes: usize,
}

impl Gathered {
    fn after(after: Link) -> Self {
        let bytes = record::CARRIED_ITEM_BYTES;
        Self { after, links: Vec::new(), records: Vec::new(), bytes }
    }

    /// What was gathered up to here, as an item of a record.
    fn end(&mut self, incarnation: Incarnation, to: Link) -> Item {
        let Self { after, links, records, .. } = std::mem::replace(self, Self::after(to));
        Item::Carried { batch: Batch { incarnation, after, records: links, to }, records }
    }
}

/// The batches of the partitions of one group that are followed.
pub struct Assembler {
    incarnation: Incarnation,
    bytes_max: usize,
    chain: Chain,
    /// Those whose place was reached.
    followed: BTreeMap<PartitionId, Gathered>,
    /// Those who stand further on, by where: their hash is compared there.
    ahead: BTreeMap<(Lsn, PartitionId), Link>,
    /// Batches that are full.
    full: VecDeque<(PartitionId, Item)>,
}

impl Assembler {
    /// Begins at the first of the places where followers stand; the log is to be read from after
    /// [`Self::position`]. A batch takes at most `bytes_max` of a record of the follower's log, or is
    /// of one record alone.
    ///
    /// # Errors
    /// Where one of them followed another log, or two at the same place name other hashes.
    pub fn begin(
        incarnation: Incarnation,
        bytes_max: usize,
        followers: &[(PartitionId, LeaderPosition)],
    ) -> Result<Self, CarriedFault> {
        let mut ahead = BTreeMap::new();
        for (partition, held) in followers {
            if held.incarnation != incarnation {
                let (expected, found) = (held.incarnation, incarnation);
                return Err(CarriedFault::OtherLog { expected, found });
            }
            ahead.insert((held.link.lsn, *partition), held.link);
        }
        let first = ahead.values().next().copied();
        let chain = match first {
            Some(Link { lsn, hash, log_time_ms }) => {
                Chain::resume(incarnation, Position { lsn, hash, log_time_ms })
            }
            None => Chain::new(incarnation),
        };
        let (followed, full) = (BTreeMap::new(), VecDeque::new());
        let mut assembler = Self { incarnation, bytes_max, chain, followed, ahead, full };
        assembler.reach()?;
        Ok(assembler)
    }

    /// Where it stands: the last position read.
    #[must_use]
    pub fn position(&self) -> Link {
        link(self.chain.position())
    }

    /// Takes the next entry of the log.
    ///
    /// # Errors
    /// A fault: nothing more may be sent to the followers that it names, or to any.
    pub fn take(&mut self, lsn: Lsn, bytes: &Bytes) -> Result<(), AssembleFault> {
        let unreadable = |error| AssembleFault::Unreadable(lsn, error);
        let record = Record::decode(bytes).map_err(unreadable)?;
        let checksum = record::checksum(bytes).map_err(unreadable)?;
        // Who stands between the last entry and this one stands where the log has nothing.
        let between = self.ahead.first_key_value().filter(|((at, _), _)| *at < lsn);
        if let Some(((at, _), held)) = between {
            let (expected, found) = (held.hash, self.chain.position().hash);
            return Err(CarriedFault::Forked { lsn: *at, expected, found }.into());
        }
        let before = self.position();
        let position = self.chain.advance(lsn, checksum, record.stamp_ms, &record.anchor)?;
        if let Some(gathered) = self.followed.get_mut(&record.partition) {
            let more = bytes.len() + record::CARRIED_RECORD_BYTES;
            if gathered.bytes + more > self.bytes_max && !gathered.records.is_empty() {
                self.full.push_back((record.partition, gathered.end(self.incarnation, before)));
            }
            gathered.links.push(link(position));
            gathered.records.push(bytes.clone());
            gathered.bytes += more;
        }
        Ok(self.reach()?)
    }

    /// The next batch that is full. To be asked until there is none after each entry, or they add up.
    pub fn full(&mut self) -> Option<(PartitionId, Item)> {
        self.full.pop_front()
    }

    /// The records of a partition since its last batch, up to where the log was read; after those that
    /// are full. `None` where nothing was read since, and where the follower stands further on.
    pub fn rest(&mut self, partition: PartitionId) -> Option<Item> {
        let to = self.position();
        let gathered = self.followed.get_mut(&partition)?;
        (gathered.after != to).then(|| gathered.end(self.incarnation, to))
    }

    /// Whether anything of a partition was read since its last batch: without, [`Self::rest`] only
    /// says how far the log goes.
    #[must_use]
    pub fn has_records(&self, partition: PartitionId) -> bool {
        self.followed.get(&partition).is_some_and(|gathered| !gathered.records.is_empty())
    }

    /// Begins with those who stand where it stands.
    fn reach(&mut self) -> Result<(), CarriedFault> {
        let here = self.position();
        while let Some(entry) = self.ahead.first_entry()
            && entry.key().0 == here.lsn
        {
            let ((lsn, partition), held) = entry.remove_entry();
            if held.hash != here.hash {
                return Err(CarriedFault::Forked { lsn, expected: held.hash, found: here.hash });
            }
            self.followed.insert(partition, Gathered::after(here));
        }
        Ok(())
    }
}

fn link(position: Position) -> Link {
    let Position { lsn, hash, log_time_ms } = position;
    Link { lsn, hash, log_time_ms }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LeadId;
    use crate::record::LeadStamp;
    use crate::rules::carried::Verdict;

    const LOG: Incarnation = Incarnation(3);

    fn partition(ordinal: u32) -> PartitionId {
        PartitionId { table: 1, ordinal }
    }

    /// Entries of a log, one for each partition's ordinal named, and where the chain stands after
    /// each, the beginning first. Positions have gaps.
    fn log(ordinals: &[u32], content: u64) -> (Vec<(Lsn, Bytes)>, Vec<Link>) {
        let mut chain = Chain::new(LOG);
        let mut entries = Vec::new();
        let mut links = vec![link(chain.position())];
        for (n, ordinal) in (1..).zip(ordinals) {
            let lead = LeadStamp { lead: LeadId(content), epoch: 1, n };
            let items = Vec::new();
            let record = Record {
                partition: partition(*ordinal),
                version: record::CARRIED_SINCE,
                lead,
                stamp_ms: 1000 + n,
                anchor: chain.anchor(),
                items,
            };
            let bytes = record.encode();
            let lsn = Lsn(2 * n);
            let checksum = record::checksum(&bytes).unwrap();
            links
                .push(link(chain.advance(lsn, checksum, record.stamp_ms, &record.anchor).unwrap()));
            entries.push((lsn, bytes));
        }
        (entries, links)
    }

    fn held(link: Link) -> LeaderPosition {
        LeaderPosition { incarnation: LOG, link }
    }

    /// A follower's replica: it takes batches by the rule and keeps what it took.
    struct Taker {
        held: LeaderPosition,
        taken: Vec<Bytes>,
    }

    impl Taker {
        fn take(&mut self, item: Item) {
            let Item::Carried { batch, records } = item else { panic!("{item:?}") };
            assert!(batch.is_ordered());
            assert_eq!(batch.admit(&self.held), Ok(Verdict::Take { from: 0 }));
            self.held = batch.position(records.len());
            self.taken.extend(records);
        }
    }

    proptest! {
        #[test]
        fn every_follower_gets_all_of_its_partition_from_where_it_stands(
            ordinals in prop::collection::vec(0u32..3, 0..30),
            starts in prop::array::uniform3(0usize..31),
            bytes_max in 0usize..1000,
            pauses in prop::collection::vec(any::<bool>(), 30),
        ) {
            let (entries, links) = log(&ordinals, 5);
            let starts = starts.map(|at| at.min(entries.len()));
            let mut takers: BTreeMap<PartitionId, Taker> = (0..3)
                .zip(starts)
                .map(|(ordinal, at)| {
                    (partition(ordinal), Taker { held: held(links[at]), taken: Vec::new() })
                })
                .collect();
            let followers: Vec<_> = takers.iter().map(|(id, taker)| (*id, taker.held)).collect();
            let mut assembler = Assembler::begin(LOG, bytes_max, &followers).unwrap();
            let read = entries.iter().filter(|(lsn, _)| *lsn > assembler.position().lsn);
            let read: Vec<_> = read.cloned().collect();
            for ((lsn, bytes), pause) in read.iter().zip(&pauses) {
                assembler.take(*lsn, bytes).unwrap();
                while let Some((partition, item)) = assembler.full() {
                    takers.get_mut(&partition).unwrap().take(item);
                }
                for (partition, taker) in takers.iter_mut().filter(|_| *pause) {
                    if let Some(item) = assembler.rest(*partition) {
                        taker.take(item);
                    }
                }
            }
            for ((partition, taker), start) in takers.iter_mut().zip(starts) {
                assembler.rest(*partition).into_iter().for_each(|item| taker.take(item));
                prop_assert_eq!(taker.held.link, links[entries.len()]);
                let theirs = entries.iter().zip(&ordinals).skip(start);
                let theirs = theirs.filter(|(_, ordinal)| **ordinal == partition.ordinal);
                let theirs: Vec<Bytes> = theirs.map(|((_, bytes), _)| bytes.clone()).collect();
                prop_assert_eq!(&taker.taken, &theirs);
            }
        }
    }

    #[test]
    fn a_batch_is_as_large_as_it_may_be_and_one_record_at_least() {
        let (entries, links) = log(&[0; 10], 5);
        let each = entries[0].1.len() + record::CARRIED_RECORD_BYTES;
        for (bytes_max, records) in [(0, 1), (record::CARRIED_ITEM_BYTES + 3 * each, 3)] {
            let followers = [(partition(0), held(links[0]))];
            let mut assembler = Assembler::begin(LOG, bytes_max, &followers).unwrap();
            for (lsn, bytes) in &entries {
                assembler.take(*lsn, bytes).unwrap();
            }
            let first = assembler.full().unwrap();
            let (_, Item::Carried { records: first, .. }) = first else { panic!("{first:?}") };
            assert_eq!(first.len(), records);
            assert!(assembler.has_records(partition(0)));
        }
    }

    #[test]
    fn who_followed_another_log_is_told_so() {
        let (entries, links) = log(&[0, 1, 0, 1], 5);
        let (_, forked) = log(&[0, 1, 0, 1], 6);
        let begin = |places: &[(u32, Link)]| {
            let followers: Vec<_> =
                places.iter().map(|(ordinal, at)| (partition(*ordinal), held(*at))).collect();
            Assembler::begin(LOG, 1 << 20, &followers)
        };
        // At the same place with two hashes.
        assert!(begin(&[(0, links[1]), (1, forked[1])]).is_err());
        // Further on.
        let mut assembler = begin(&[(0, links[0]), (1, forked[2])]).unwrap();
        assembler.take(entries[0].0, &entries[0].1).unwrap();
        let fault = assembler.take(entries[1].0, &entries[1].1).unwrap_err();
        let (expected, found) = (forked[2].hash, links[2].hash);
        assert_eq!(fault, CarriedFault::Forked { lsn: links[2].lsn, expected, found }.into());
        // Where the log has nothing.
        let nowhere = Link { lsn: Lsn(3), ..links[1] };
        let mut assembler = begin(&[(0, links[0]), (1, nowhere)]).unwrap();
        assembler.take(entries[0].0, &entries[0].1).unwrap();
        let fault = assembler.take(entries[1].0, &entries[1].1).unwrap_err();
        assert!(matches!(fault, AssembleFault::Carried(CarriedFault::Forked { .. })), "{fault}");
        // Another incarnation.
        let other = LeaderPosition { incarnation: Incarnation(4), link: links[0] };
        let refused = Assembler::begin(LOG, 1 << 20, &[(partition(0), other)]);
        assert!(matches!(refused, Err(CarriedFault::OtherLog { .. })));
        // A record that is damaged.
        let mut assembler = begin(&[(0, links[0])]).unwrap();
        let mut rotten = entries[0].1.to_vec();
        rotten[30] ^= 1;
        let fault = assembler.take(entries[0].0, &rotten.into()).unwrap_err();
        assert!(matches!(fault, AssembleFault::Unreadable(Lsn(2), _)), "{fault}");
    }
}
