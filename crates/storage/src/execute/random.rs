//! Draws that follow from a seed alone (splitmix64: Steele, Lea and Flood, 2014), so that every
//! replica draws the same.

/// The next number of a sequence, whose state is `seed`.
pub(super) fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `limit`; `None` where that is 0.
pub(super) fn below(seed: &mut u64, limit: usize) -> Option<usize> {
    if limit == 0 {
        return None;
    }
    let scaled = (u128::from(next(seed)) * limit as u128) >> 64;
    usize::try_from(scaled).ok()
}

/// Up to `count` different numbers below `limit`, in the order drawn.
pub(super) fn distinct(seed: &mut u64, limit: usize, count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..limit).collect();
    let count = count.min(limit);
    for at in 0..count {
        let other = at + below(seed, limit - at).unwrap_or(0);
        numbers.swap(at, other);
    }
    numbers.truncate(count);
    numbers
}
