//! The first few of many, without sorting the many.

use std::cmp::Ordering;

/// Keeps the first `limit` of what is pushed, by a comparison.
pub(super) struct Top<T, F> {
    limit: usize,
    kept: Vec<T>,
    /// The last that would be kept now; what comes after it is not looked at again.
    worst: Option<T>,
    compare: F,
}

impl<T: Copy, F: Fn(&T, &T) -> Ordering> Top<T, F> {
    pub(super) fn new(limit: usize, compare: F) -> Self {
        Self { limit, kept: Vec::new(), worst: None, compare }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if let Some(worst) = &self.worst
            && (self.compare)(&item, worst) != Ordering::Less
        {
            return;
        }
        self.kept.push(item);
        // Halving when twice as many are held costs each item a constant on average.
        if self.kept.len() >= self.limit.saturating_mul(2).max(64) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.limit == 0 {
            self.kept.clear();
        } else if self.kept.len() > self.limit {
            let compare = &self.compare;
            let (_, worst, _) = self.kept.select_nth_unstable_by(self.limit - 1, compare);
            self.worst = Some(*worst);
            self.kept.truncate(self.limit);
        }
    }

    /// The first `limit`, in order.
    pub(super) fn finish(mut self) -> Vec<T> {
        self.shrink();
        let compare = &self.compare;
        self.kept.sort_by(compare);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_keeps_what_sorting_would(mut items in proptest::collection::vec(0u32..1_000, 0..600), limit in 0usize..200) {
            let mut top = Top::new(limit, |a: &u32, b: &u32| b.cmp(a));
            items.iter().for_each(|item| top.push(*item));
            items.sort_by(|a, b| b.cmp(a));
            items.truncate(limit);
            proptest::prop_assert_eq!(top.finish(), items);
        }
    }
}
