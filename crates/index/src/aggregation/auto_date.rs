//! The units of an automatic date histogram, and which one partitions collect in: a fine one. Findings are merged
//! into a coarser one (`merge.rs`), and the answer's buckets into groups, until there are no more than were asked
//! for (`finish/auto_date.rs`).

use super::request::AutoDate;
use super::rounding::Unit;

/// Units with the numbers of them that may make one bucket.
pub(super) const LEVELS: [(Unit, &[i64]); 6] = [
    (Unit::Second, &[1, 5, 10, 30]),
    (Unit::Minute, &[1, 5, 10, 30]),
    (Unit::Hour, &[1, 3, 12]),
    (Unit::Day, &[1, 7]),
    (Unit::Month, &[1, 3]),
    (Unit::Year, &[1, 5, 10, 20, 50, 100]),
];

/// A partition collects in the finest unit of which its values span no more than so many.
const COLLECTED_MAX: i64 = 20_000;

/// A level's unit.
pub(crate) fn unit(level: u8) -> Unit {
    LEVELS[usize::from(level).min(LEVELS.len() - 1)].0
}

pub(super) fn first_level(spec: &AutoDate) -> usize {
    let minimum = spec.minimum.unwrap_or(Unit::Second);
    LEVELS.iter().position(|(unit, _)| *unit >= minimum).unwrap_or(LEVELS.len() - 1)
}

/// The level to collect values in that lie between two instants (milliseconds).
pub(crate) fn level_for(range: Option<(f64, f64)>, spec: &AutoDate) -> u8 {
    let span = range.map_or(0.0, |(min, max)| max - min);
    let fits = |(unit, _): &(Unit, &[i64])| span / unit.typical_ms() as f64 <= COLLECTED_MAX as f64;
    let first = first_level(spec);
    let level =
        LEVELS[first..].iter().position(fits).map_or(LEVELS.len() - 1, |level| level + first);
    u8::try_from(level).unwrap_or(0)
}
