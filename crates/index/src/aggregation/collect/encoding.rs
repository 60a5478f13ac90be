//! Numbers as keys of 64 bits that are in the same order, and what keys stand for.

/// The key of the zero that is negative.
pub(super) const NEGATIVE_ZERO: u64 = (1 << 63) - 1;

/// Maps a signed number to a key in order.
pub(super) fn key_of_i64(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

/// The number of such a key.
pub(super) fn i64_of_key(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

/// Maps a double to a key in order; the zero that is negative is zero.
pub(super) fn key_of_f64(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}

/// The double of such a key.
pub(super) fn f64_of_key(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// What the keys stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    I64,
    U64,
    F64,
    Str,
    Ip,
}

pub(super) fn index(ord: u64) -> usize {
    usize::try_from(ord).unwrap_or(usize::MAX)
}
