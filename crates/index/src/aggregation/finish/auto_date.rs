//! The buckets of an automatic date histogram in the answer: in the unit, and the groups of it, that make no more
//! than were asked for.

use crate::aggregation::auto_date::{LEVELS, first_level, unit};
use crate::aggregation::merge::{coarsen, rounding, unite};
use crate::aggregation::partial::{Buckets, Key};
use crate::aggregation::request::{Kind, Node};

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
