//! How many bytes the records of a group take from a position on: a hint, for those who decide what
//! the log may hold. Counted in pieces as records come; of what an earlier run left only the average
//! is known. Pure.

use std::collections::VecDeque;

use crate::Lsn;

/// A piece has about this much: the figure is never wrong by more than one, or by one record.
const PIECE_BYTES: u64 = 1 << 20;

/// The bytes of one group's records.
pub(super) struct Sizes {
    /// Records up to here are of an earlier run.
    earlier: Lsn,
    /// What one of them takes, on an average.
    earlier_bytes: u64,
    /// The last position of each piece, and its bytes.
    pieces: VecDeque<(Lsn, u64)>,
}

impl Sizes {
    /// Of a group that ends at `last`; a record up to there takes `earlier_bytes`.
    pub(super) fn new(last: Lsn, earlier_bytes: u64) -> Self {
        Self { earlier: last, earlier_bytes, pieces: VecDeque::new() }
    }

    /// Takes the next record.
    pub(super) fn add(&mut self, lsn: Lsn, record_bytes: u64) {
        match self.pieces.back_mut() {
            Some((last, bytes)) if *bytes < PIECE_BYTES => {
                *last = lsn;
                *bytes += record_bytes;
            }
            _ => self.pieces.push_back((lsn, record_bytes)),
        }
    }

    /// Forgets what lies before the first position that is held.
    pub(super) fn trim(&mut self, first: Lsn) {
        while self.pieces.front().is_some_and(|(last, _)| *last < first) {
            self.pieces.pop_front();
        }
    }

    /// What the records after a position take, where the first that is held is `first`.
    pub(super) fn after(&self, lsn: Lsn, first: Lsn) -> u64 {
        let from = lsn.next().max(first);
        let earlier = (self.earlier.0 + 1).saturating_sub(from.0);
        let pieces = self.pieces.iter().rev().take_while(|(last, _)| *last >= from);
        let counted: u64 = pieces.map(|(_, bytes)| bytes).sum();
        counted.saturating_add(earlier.saturating_mul(self.earlier_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_from_a_position_on() {
        let mut sizes = Sizes::new(Lsn(10), 100);
        assert_eq!(sizes.after(Lsn(0), Lsn(1)), 1000);
        assert_eq!(sizes.after(Lsn(8), Lsn(1)), 200);
        assert_eq!(sizes.after(Lsn(0), Lsn(10)), 100, "the others were trimmed");
        assert_eq!(sizes.after(Lsn(10), Lsn(1)), 0);
        for lsn in 11..=14 {
            sizes.add(Lsn(lsn), PIECE_BYTES);
        }
        sizes.add(Lsn(15), 7);
        assert_eq!(sizes.after(Lsn(0), Lsn(1)), 1000 + 4 * PIECE_BYTES + 7);
        assert_eq!(sizes.after(Lsn(12), Lsn(1)), 2 * PIECE_BYTES + 7);
        assert_eq!(sizes.after(Lsn(15), Lsn(1)), 0);
        sizes.trim(Lsn(14));
        assert_eq!(sizes.after(Lsn(0), Lsn(14)), PIECE_BYTES + 7);
    }

    #[test]
    fn small_records_share_a_piece() {
        let mut sizes = Sizes::new(Lsn(0), 0);
        for lsn in 1..=100_000 {
            sizes.add(Lsn(lsn), 100);
        }
        assert!(sizes.pieces.len() < 12);
        assert_eq!(sizes.after(Lsn(0), Lsn(1)), 10_000_000);
        let half = sizes.after(Lsn(50_000), Lsn(1));
        assert!((5_000_000..=5_000_000 + PIECE_BYTES + 100).contains(&half), "{half}");
    }
}
