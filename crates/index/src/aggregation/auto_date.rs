//! The units of an automatic date histogram: which one partitions collect in, and which one the
//! answer has. A partition collects in a fine unit, and the answer merges buckets into a coarser
//! one and then into groups, until there are no more than were asked for.

use super::partial::{Buckets, Key, Print, unite};
use super::request::{AutoDate, Interval, Kind, Node};
use super::rounding::{Rounding, Unit, Zone};

/// Units with the numbers of them that may make one bucket.
const LEVELS: [(Unit, &[i64]); 6] = [
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

fn first_level(spec: &AutoDate) -> usize {
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

fn rounding(buckets: &Buckets, level: u8) -> Rounding {
    let zone = match buckets.prints.first() {
        Some(Print::Date { zone, .. }) => zone.as_deref(),
        _ => None,
    };
    // The zone was read before, where the values were collected.
    let zone = Zone::parse(zone).unwrap_or_else(|_| Zone::utc());
    Rounding::new(Interval::Calendar(unit(level)), zone, 0)
}

/// Merges buckets into those of a coarser unit.
pub(crate) fn coarsen(node: &Node, buckets: &mut Buckets, level: u8) {
    if level <= buckets.level {
        return;
    }
    let rounding = rounding(buckets, level);
    for bucket in &mut buckets.buckets {
        if let Key::I64(begin) = &mut bucket.key {
            *begin = rounding.round(*begin);
        }
    }
    buckets.level = level;
    unite(node, &mut buckets.buckets);
}

/// Merges buckets until there are no more than asked for, empty ones between counted. Gives the
/// begins of all buckets and the interval's name.
pub(crate) fn fit(node: &Node, buckets: &mut Buckets) -> (Vec<i64>, String) {
    let Kind::AutoDate(spec) = &node.kind else { return (Vec::new(), String::new()) };
    let target = i64::try_from(spec.buckets).unwrap_or(i64::MAX);
    let ends = |buckets: &Buckets| match (buckets.buckets.first(), buckets.buckets.last()) {
        (Some(first), Some(last)) => match (&first.key, &last.key) {
            (Key::I64(first), Key::I64(last)) => Some((*first, *last)),
            _ => None,
        },
        _ => None,
    };
    let level_first = u8::try_from(first_level(spec)).unwrap_or(0).max(buckets.level);
    let level_last = u8::try_from(LEVELS.len() - 1).unwrap_or(0);
    for level in level_first..=level_last {
        let groups = LEVELS[usize::from(level)].1;
        let most = groups.last().copied().unwrap_or(1);
        let Some((first, last)) = ends(buckets) else {
            return (Vec::new(), format!("1{}", unit(level).letter()));
        };
        let rounding = rounding(buckets, level);
        let (first, last) = (rounding.round(first), rounding.round(last));
        let count = (last - first) / unit(level).typical_ms() + 1;
        if count > target.saturating_mul(most).saturating_mul(2) && level < level_last {
            continue;
        }
        // Exactly, by the calendar.
        let mut begins = vec![first];
        while let Some(begin) = begins.last().copied().filter(|begin| *begin < last) {
            begins.push(rounding.next(begin));
        }
        let count = i64::try_from(begins.len()).unwrap_or(i64::MAX);
        let group = groups
            .iter()
            .copied()
            .find(|group| count.div_euclid(*group) + i64::from(count % group != 0) <= target);
        let Some(group) = group.or((level == level_last).then(|| most.max(count / target + 1)))
        else {
            continue;
        };
        coarsen(node, buckets, level);
        let step = usize::try_from(group).unwrap_or(1);
        let begins: Vec<i64> = begins.into_iter().step_by(step).collect();
        if group > 1 {
            for bucket in &mut buckets.buckets {
                if let Key::I64(begin) = &mut bucket.key {
                    let at = begins.partition_point(|start| *start <= *begin).saturating_sub(1);
                    *begin = begins[at];
                }
            }
            unite(node, &mut buckets.buckets);
        }
        return (begins, format!("{group}{}", unit(level).letter()));
    }
    (Vec::new(), String::new())
}
