//! Which rows of a store go to files next: those that take most memory while all together take too
//! much, else those of a store that nears the size at which RocksDB flushes by itself, or that hold the log
//! back. Nothing is flushed all at once: what holds as much as the next does is taken one by one, spread
//! over the second half of what it may. Stores that are written alike would all be full in the same moment,
//! and the log's syncs wait behind what they all write.
//!
//! A part is what is flushed as one; what that is (a partition, a group of the log) is the caller's, and so
//! is what is counted of it (rows in memory, log that it holds back).

/// Rows take too much memory from this part of their budget on, so that what comes while some are
/// flushed has room.
const FULL_PERMILLE: u64 = 750;

/// What a part holds that is in no file yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes since it was flushed last.
    pub bytes: u64,
    /// Time since then, ns; 0 where that does not matter.
    pub age_ns: u64,
}

/// How much a part may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, at least 1.
    pub bytes: u64,
    /// For how long, ns, at least 1.
    pub age_ns: u64,
}

/// Which part holds so much that it is to be flushed now, and holds the most. Of parts that hold equally
/// much, the first goes at about half of the limit and the last at all of it. A part without bytes holds
/// nothing.
#[must_use]
pub fn due(parts: &[Held], limits: Limits) -> Option<usize> {
    let share = |held: &Held| {
        let [bytes, age] = [(held.bytes, limits.bytes), (held.age_ns, limits.age_ns)]
            .map(|(held, limit)| held as f64 / limit.max(1) as f64);
        bytes.max(age)
    };
    let mut holding: Vec<(f64, usize)> =
        parts.iter().map(share).zip(0..).filter(|(_, at)| parts[*at].bytes > 0).collect();
    holding.sort_by(|(one, at), (other, beside)| other.total_cmp(one).then(at.cmp(beside)));
    let is_late = |(rank, (share, _)): (usize, &(f64, usize))| {
        *share >= 1.0 - rank as f64 / (2.0 * parts.len() as f64)
    };
    holding.iter().enumerate().any(is_late).then(|| holding[0].1)
}

/// Whether rows take so much memory that the fullest are to be flushed.
#[must_use]
pub fn are_full(unflushed_bytes: u64, budget_bytes: u64) -> bool {
    unflushed_bytes >= budget_bytes / 1000 * FULL_PERMILLE
}

/// How large one flush is to be expected, bytes, where `stores` are written alike: they all are at
/// less than that, and the fullest goes when all together are full, or when it has `flush_bytes_max`.
#[must_use]
pub fn expected_bytes(budget_bytes: u64, stores: u64, flush_bytes_max: u64) -> u64 {
    // Stores written evenly are spread evenly between empty and full, so the fullest has twice the mean.
    let fullest = budget_bytes / 1000 * FULL_PERMILLE * 2 / stores.max(1);
    fullest.clamp(1, flush_bytes_max.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { bytes: 1600, age_ns: 60_000 };

    /// Writes evenly to so many parts and flushes what is due at once; the most log that any held,
    /// the most flushes in one step, and how many bytes of log each flush freed at least.
    fn written(parts: usize, steps: usize) -> (u64, usize, u64) {
        let mut held = vec![Held::default(); parts];
        let (mut most, mut at_once, mut least) = (0, 0, u64::MAX);
        for _ in 0..steps {
            held.iter_mut().for_each(|it| it.bytes += 1);
            most = held.iter().map(|it| it.bytes).max().unwrap_or(0).max(most);
            let mut flushed = 0;
            while let Some(at) = due(&held, LIMITS) {
                least = least.min(held[at].bytes);
                held[at] = Held::default();
                flushed += 1;
            }
            at_once = at_once.max(flushed);
        }
        (most, at_once, least)
    }

    #[test]
    fn parts_that_were_written_together_are_flushed_one_by_one() {
        for parts in [1, 2, 16, 64] {
            let (most, at_once, least) = written(parts, 20_000);
            assert!(most <= LIMITS.bytes, "{parts}: {most}");
            assert_eq!(at_once, 1, "{parts}");
            assert!(least >= LIMITS.bytes / 2, "{parts}: {least}");
        }
    }

    #[test]
    fn who_holds_nothing_is_never_due_however_old() {
        let idle = Held { bytes: 0, age_ns: u64::MAX };
        assert_eq!(due(&[idle, idle], LIMITS), None);
        let old = Held { bytes: 1, age_ns: LIMITS.age_ns };
        assert_eq!(due(&[idle, old], LIMITS), Some(1));
        let young = Held { bytes: 1, age_ns: LIMITS.age_ns / 2 };
        assert_eq!(
            due(&[young, idle], LIMITS),
            None,
            "the only one may hold it for all of the time"
        );
        assert_eq!(due(&[], LIMITS), None);
    }

    #[test]
    fn the_expected_flush_is_the_largest_until_there_are_many_stores() {
        assert_eq!(expected_bytes(1 << 30, 1, 16 << 20), 16 << 20);
        assert_eq!(expected_bytes(1 << 30, 64, 16 << 20), 16 << 20);
        let small = expected_bytes(128 << 20, 64, 16 << 20);
        assert!((2 << 20..4 << 20).contains(&small), "{small}");
        assert!(are_full(96 << 20, 128 << 20) && !are_full(95 << 20, 128 << 20));
    }

    proptest! {
        #[test]
        fn what_is_due_holds_the_most_and_what_is_over_its_limit_is_due(
            held in prop::collection::vec((0u64..2000, 0u64..80_000), 1..20),
        ) {
            let held: Vec<Held> =
                held.into_iter().map(|(bytes, age_ns)| Held { bytes, age_ns }).collect();
            let share = |it: &Held| (it.bytes as f64 / 1600.0).max(it.age_ns as f64 / 60_000.0);
            let holding = |it: &&Held| it.bytes > 0;
            let most = held.iter().filter(holding).map(share).fold(0.0, f64::max);
            match due(&held, LIMITS) {
                Some(at) => prop_assert!(share(&held[at]) >= most && most >= 0.5),
                None => prop_assert!(most < 1.0),
            }
        }
    }
}
