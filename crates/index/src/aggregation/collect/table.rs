//! Where buckets are found by parent and key, and the counts of buckets that hold nothing else.
//!
//! Where the keys lie in a range that is not much wider than the documents are many, a bucket's
//! place is its key's: no hashing and no collisions, and four bytes a key.

use hashbrown::HashTable;

use super::collector::Env;
use super::context::bucket_id;
use crate::Error;

/// A range of keys up to so wide is always laid out flat.
const FLAT_ALWAYS: u64 = 1 << 16;
/// A wider range is, while it has no more than so many keys for each document of the partition.
const FLAT_KEYS_PER_DOC: u64 = 4;

/// The lowest key of a flat layout and how many keys it has, where one pays.
pub(super) fn flat_range(range: Option<(u64, u64)>, docs: u64) -> Option<(u64, usize)> {
    let (min, max) = range?;
    let width = max.checked_sub(min)?.checked_add(1)?;
    (width <= FLAT_ALWAYS || width <= docs.saturating_mul(FLAT_KEYS_PER_DOC))
        .then_some((min, usize::try_from(width).ok()?))
}

/// Buckets numbered in the order in which they are met.
pub(super) struct Table {
    flat: Option<(u64, Vec<u32>)>,
    hashed: HashTable<u32>,
    /// Of each bucket; `parents` stays empty where all are of the parent's bucket 0.
    pub(super) keys: Vec<u64>,
    parents: Vec<u32>,
    pub(super) counts: Vec<u32>,
    single: bool,
    accounted: usize,
    /// The bucket found last.
    last: Option<(u32, u64, u32)>,
    /// Buckets by parent: where each parent's begin, and the buckets. Built when results are asked for.
    by_parent: Option<(Vec<usize>, Vec<u32>)>,
}

const NO_BUCKET: u32 = u32::MAX;

fn hash(parent: u32, key: u64) -> u64 {
    // A multiplication spreads low bits upwards; the fold brings them back (as in FxHash and foldhash).
    let product =
        u128::from(key ^ (u64::from(parent) << 32)) * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    let high = u64::try_from(product >> 64 & u128::from(u64::MAX)).unwrap_or(0);
    let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(0);
    high ^ low
}

impl Table {
    /// `single`: the parent has only the bucket 0. `flat`: lowest key and number of keys.
    pub(super) fn new(
        env: &Env<'_>,
        single: bool,
        flat: Option<(u64, usize)>,
    ) -> Result<Self, Error> {
        let flat = flat.filter(|_| single);
        let mut table = Self {
            flat: None,
            hashed: HashTable::new(),
            keys: Vec::new(),
            parents: Vec::new(),
            counts: Vec::new(),
            single,
            accounted: 0,
            last: None,
            by_parent: None,
        };
        if let Some((base, width)) = flat {
            env.account.adjust(&mut table.accounted, width * size_of::<u32>())?;
            table.flat = Some((base, vec![NO_BUCKET; width]));
        }
        Ok(table)
    }

    fn bytes(&self) -> usize {
        self.flat.as_ref().map_or(0, |(_, ids)| ids.capacity() * size_of::<u32>())
            + self.hashed.allocation_size()
            + self.keys.capacity() * size_of::<u64>()
            + (self.parents.capacity() + self.counts.capacity()) * size_of::<u32>()
    }

    /// Makes room for so many buckets more.
    pub(super) fn reserve(&mut self, env: &Env<'_>, more: usize) -> Result<(), Error> {
        bucket_id(self.keys.len() + more)?;
        let grows = self.keys.capacity() - self.keys.len() < more
            || (self.flat.is_none() && self.hashed.capacity() - self.hashed.len() < more);
        if grows {
            // Growing doubles, and for a moment both the old and the new are held.
            let expected = self.bytes().saturating_mul(2).max(more * 32);
            env.account.adjust(&mut self.accounted, expected)?;
            self.keys.reserve(more);
            self.counts.reserve(more);
            if !self.single {
                self.parents.reserve(more);
            }
            if self.flat.is_none() {
                let (keys, parents) = (&self.keys, &self.parents);
                self.hashed.reserve(more, |id| {
                    let id = *id as usize;
                    hash(parents.get(id).copied().unwrap_or(0), keys[id])
                });
            }
            let now = self.bytes();
            env.account.adjust(&mut self.accounted, now)?;
        }
        Ok(())
    }

    /// The bucket of a parent's bucket and a key; room was made for it.
    #[inline]
    pub(super) fn bucket(&mut self, parent: u32, key: u64) -> u32 {
        if let Some((last_parent, last_key, id)) = self.last
            && last_parent == parent
            && last_key == key
        {
            return id;
        }
        let id = self.find_or_add(parent, key);
        self.last = Some((parent, key, id));
        id
    }

    fn find_or_add(&mut self, parent: u32, key: u64) -> u32 {
        // `reserve` saw that the number fits.
        let fresh = u32::try_from(self.keys.len()).unwrap_or(NO_BUCKET);
        if let Some((base, ids)) = &mut self.flat
            && let Some(id) =
                usize::try_from(key.wrapping_sub(*base)).ok().and_then(|at| ids.get_mut(at))
        {
            if *id == NO_BUCKET {
                *id = fresh;
                self.keys.push(key);
                self.counts.push(0);
            }
            return *id;
        }
        let (keys, parents) = (&self.keys, &self.parents);
        let parent_of = |id: u32| parents.get(id as usize).copied().unwrap_or(0);
        let same = |id: &u32| keys[*id as usize] == key && parent_of(*id) == parent;
        let hash_of = |id: &u32| hash(parent_of(*id), keys[*id as usize]);
        if let Some(id) = self.hashed.find(hash(parent, key), same) {
            return *id;
        }
        self.hashed.insert_unique(hash(parent, key), fresh, hash_of);
        self.keys.push(key);
        self.counts.push(0);
        if !self.single {
            self.parents.push(parent);
        }
        fresh
    }

    /// The buckets of one of the parent's buckets.
    pub(super) fn of_parent(&mut self, parent: u32) -> Vec<u32> {
        if self.single {
            return if parent == 0 { (0u32..).take(self.keys.len()).collect() } else { Vec::new() };
        }
        let (starts, sorted) = self.by_parent.get_or_insert_with(|| {
            let parents = self.parents.iter().max().map_or(0, |max| *max as usize + 1);
            let mut starts = vec![0usize; parents + 1];
            for parent in &self.parents {
                starts[*parent as usize + 1] += 1;
            }
            for at in 1..starts.len() {
                starts[at] += starts[at - 1];
            }
            let mut next = starts.clone();
            let mut sorted = vec![0; self.parents.len()];
            for (id, parent) in (0u32..).zip(&self.parents) {
                let place = &mut next[*parent as usize];
                sorted[*place] = id;
                *place += 1;
            }
            (starts, sorted)
        });
        let parent = parent as usize;
        match (starts.get(parent), starts.get(parent + 1)) {
            (Some(start), Some(end)) => sorted[*start..*end].to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Counts by key alone.
pub(super) enum Counts {
    Flat {
        base: u64,
        counts: Vec<u32>,
        grows: bool,
    },
    /// A table while keys are few.
    Hashed(Slots),
    /// Keys in lots by their hash, to be counted lot by lot: a lot's table fits into the cache,
    /// where a table of all keys would miss it with every key.
    Split {
        lots: Vec<Lot>,
        waiting: usize,
        counted: usize,
    },
}

/// An open table of keys and counts; a count of zero is a free slot.
#[derive(Default)]
pub(super) struct Slots {
    keys: Vec<u64>,
    counts: Vec<u32>,
    used: usize,
}

/// Some of the keys: those counted already, and those that wait.
#[derive(Default)]
pub(super) struct Lot {
    counted: Vec<(u64, u32)>,
    waiting: Vec<u64>,
}

/// The first size of a hashed table, in slots.
const SLOTS_FIRST: usize = 1 << 12;
/// A key and its count.
const SLOT_BYTES: usize = size_of::<u64>() + size_of::<u32>();
/// A table with more keys than this is split.
const KEYS_MAX: usize = 1 << 15;
/// log2 of the number of lots.
const LOTS_BITS: u32 = 8;
/// Keys are counted once this many wait, or twice as many as are counted already.
const WAITING_MIN: usize = 1 << 20;

#[inline]
fn spread(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn lot_of(key: u64) -> usize {
    usize::try_from(spread(key) >> (64 - LOTS_BITS)).unwrap_or(0)
}

impl Slots {
    fn sized(keys: usize) -> Self {
        let size = (keys * 3 / 2 + 1).next_power_of_two().max(64);
        Self { keys: vec![0; size], counts: vec![0; size], used: 0 }
    }

    #[inline]
    fn add(&mut self, key: u64, count: u32) {
        let mask = self.keys.len() - 1;
        // The lot is chosen by the highest bits, so the slot is not.
        let mut at = usize::try_from(spread(key) >> 24).unwrap_or(0) & mask;
        while self.counts[at] != 0 && self.keys[at] != key {
            at = (at + 1) & mask;
        }
        self.keys[at] = key;
        self.used += usize::from(self.counts[at] == 0);
        self.counts[at] += count;
    }

    fn each(&self, mut each: impl FnMut(u64, u32)) {
        for (key, count) in self.keys.iter().zip(&self.counts).filter(|(_, count)| **count > 0) {
            each(*key, *count);
        }
    }

    fn grow(&mut self, wanted: usize) {
        let mut larger = Self::sized(wanted.max(SLOTS_FIRST / 2));
        self.each(|key, count| larger.add(key, count));
        *self = larger;
    }
}

impl Lot {
    /// Counts what waits.
    fn slots(&self) -> Slots {
        let mut slots = Slots::sized(self.counted.len() + self.waiting.len());
        self.counted.iter().for_each(|(key, count)| slots.add(*key, *count));
        self.waiting.iter().for_each(|key| slots.add(*key, 1));
        slots
    }

    fn bytes(&self) -> usize {
        self.counted.capacity() * size_of::<(u64, u32)>()
            + self.waiting.capacity() * size_of::<u64>()
    }
}

impl Counts {
    /// `flat`: lowest key and number of keys. `grows`: keys are small numbers that grow one by one.
    pub(super) fn new(flat: Option<(u64, usize)>, grows: bool) -> Self {
        match flat {
            Some((base, width)) => Self::Flat { base, counts: vec![0; width], grows: false },
            None if grows => Self::Flat { base: 0, counts: Vec::new(), grows: true },
            None => Self::Hashed(Slots::default()),
        }
    }

    /// Counts each of some keys once. `ceiling`: one more than the greatest key where keys grow.
    pub(super) fn add(
        &mut self,
        env: &Env<'_>,
        accounted: &mut usize,
        keys: &[u64],
        ceiling: u32,
    ) -> Result<(), Error> {
        match self {
            Self::Flat { base, counts, grows } => {
                if *grows && counts.len() < ceiling as usize {
                    counts.resize(ceiling as usize, 0);
                    env.account.adjust(accounted, counts.capacity() * size_of::<u32>())?;
                }
                for key in keys {
                    let at = usize::try_from(key.wrapping_sub(*base)).unwrap_or(usize::MAX);
                    if let Some(count) = counts.get_mut(at) {
                        *count += 1;
                    }
                }
                Ok(())
            }
            Self::Hashed(slots) => {
                if (slots.used + keys.len()) * 3 > slots.keys.len() * 2 {
                    slots.grow(slots.used + keys.len());
                    env.account.adjust(accounted, slots.keys.len() * SLOT_BYTES)?;
                }
                keys.iter().for_each(|key| slots.add(*key, 1));
                if slots.used > KEYS_MAX {
                    self.split();
                }
                Ok(())
            }
            Self::Split { lots, waiting, counted } => {
                for key in keys {
                    lots[lot_of(*key)].waiting.push(*key);
                }
                *waiting += keys.len();
                if *waiting > WAITING_MIN.max(*counted * 2) {
                    *counted = 0;
                    *waiting = 0;
                    for lot in lots.iter_mut() {
                        let slots = lot.slots();
                        lot.counted = Vec::with_capacity(slots.used);
                        slots.each(|key, count| lot.counted.push((key, count)));
                        lot.waiting = Vec::new();
                        *counted += lot.counted.len();
                    }
                }
                env.account.adjust(accounted, lots.iter().map(Lot::bytes).sum())
            }
        }
    }

    fn split(&mut self) {
        let Self::Hashed(slots) = self else { return };
        let mut lots: Vec<Lot> = Vec::new();
        lots.resize_with(1 << LOTS_BITS, Lot::default);
        slots.each(|key, count| lots[lot_of(key)].counted.push((key, count)));
        *self = Self::Split { counted: slots.used, waiting: 0, lots };
    }

    /// Calls `each` with every key that was counted.
    pub(super) fn each(&self, mut each: impl FnMut(u64, u32)) {
        match self {
            Self::Flat { base, counts, .. } => {
                for (key, count) in (*base..).zip(counts) {
                    if *count > 0 {
                        each(key, *count);
                    }
                }
            }
            Self::Hashed(slots) => slots.each(each),
            Self::Split { lots, .. } => lots.iter().for_each(|lot| lot.slots().each(&mut each)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::collect::Context;

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(6))]
        #[test]
        fn lots_count_as_a_map_does(seed: u64, distinct in 1u64..200_000, docs in 1usize..1_500) {
            let mut counts = Counts::new(None, false);
            let mut expected = std::collections::BTreeMap::new();
            let searcher = crate::aggregation::tests::partition_of_nothing();
            let context = Context {
                now_ms: 0, max_buckets: 1, memory: &crate::aggregation::Unlimited, cancelled: &|| false,
                resolve_query: &|_| Err(Error::internal("no queries here")), fetch: None,
            };
            let fields = crate::aggregation::tests::any_fields();
            let account = crate::aggregation::memory::Account::new(context.memory);
            let env = Env {
                searcher: &searcher,
                fields: &fields,
                context: &context,
                account,
                segment_ordinal: 0,
                build: |_, _, _| unreachable!("nothing is below it"),
            };
            let (mut accounted, mut state) = (0, seed);
            for _ in 0..docs {
                let keys: Vec<u64> = (0..2_000).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 20) % distinct
                }).collect();
                keys.iter().for_each(|key| *expected.entry(*key).or_insert(0u32) += 1);
                counts.add(&env, &mut accounted, &keys, 0).unwrap();
            }
            let mut found = std::collections::BTreeMap::new();
            counts.each(|key, count| assert!(found.insert(key, count).is_none()));
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
