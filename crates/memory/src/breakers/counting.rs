//! Whether the memory of the request that is opened next is counted.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use super::settings::Type;

/// [`Type`], as it is set.
pub(super) static TYPE: AtomicU8 = AtomicU8::new(Type::Memory as u8);
static DRAWN: AtomicU64 = AtomicU64::new(0);

/// Whether the request that is opened next is counted.
pub(crate) fn counts_next() -> bool {
    match TYPE.load(Relaxed) {
        0 => true,
        1 => false,
        _ => {
            // splitmix64 of a counter.
            let mut z = DRAWN.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) & 1 == 1
        }
    }
}
