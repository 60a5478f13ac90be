//! How the findings of several partitions become one. What they are is `partial.rs`'s; what becomes of the sum,
//! `finish`'s.

use super::auto_date::unit;
use super::partial::{Bucket, Buckets, Key, Partial, Print};
use super::request::{Kind, Node};
use super::rounding::Interval;
use super::rounding::{Rounding, Zone};

/// Merges the findings of aggregations side by side.
pub(crate) fn merge_all(nodes: &[Node], into: &mut Vec<Partial>, from: Vec<Partial>) {
    into.resize_with(nodes.len().max(into.len()), Partial::default);
    for ((node, into), from) in nodes.iter().zip(into.iter_mut()).zip(from) {
        merge(node, into, from);
    }
}

fn merge_print(into: &mut Print, from: Print) {
    // A field that is a long here and a double there is a double.
    if *into == Print::Unmapped
        || (matches!(into, Print::Long { .. }) && matches!(from, Print::Double { .. }))
    {
        *into = from;
    }
}

fn merge(node: &Node, into: &mut Partial, from: Partial) {
    match (into, from) {
        (_, Partial::Empty) => {}
        (into @ Partial::Empty, from) => *into = from,
        (Partial::Stats(into, print), Partial::Stats(from, other)) => {
            into.merge(&from);
            merge_print(print, other);
        }
        (Partial::Distinct(into), Partial::Distinct(from)) => into.merge(&from),
        (Partial::Digest(into, print), Partial::Digest(from, other)) => {
            into.merge(&from);
            merge_print(print, other);
        }
        (Partial::Hdr(into, print), Partial::Hdr(from, other)) => {
            into.merge(&from);
            merge_print(print, other);
        }
        (
            Partial::Weighted { sum, weight },
            Partial::Weighted { sum: other_sum, weight: other_weight },
        ) => {
            *sum += other_sum;
            *weight += other_weight;
        }
        (Partial::GeoBounds(into), Partial::GeoBounds(from)) => {
            *into = match (*into, from) {
                (Some(a), Some(b)) => {
                    Some([a[0].max(b[0]), a[1].min(b[1]), a[2].min(b[2]), a[3].max(b[3])])
                }
                (a, b) => a.or(b),
            };
        }
        (
            Partial::GeoCentroid { latitude, longitude, count },
            Partial::GeoCentroid {
                latitude: other_latitude,
                longitude: other_longitude,
                count: other,
            },
        ) => {
            *latitude += other_latitude;
            *longitude += other_longitude;
            *count += other;
        }
        (
            Partial::TopHits { total, max_score, hits },
            Partial::TopHits { total: other, max_score: other_score, hits: other_hits },
        ) => {
            *total += other;
            *max_score = match (*max_score, other_score) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
            hits.extend(other_hits);
        }
        (Partial::Single { count, subs }, Partial::Single { count: other, subs: other_subs }) => {
            *count += other;
            merge_all(&node.subs, subs, other_subs);
        }
        (Partial::Buckets(into), Partial::Buckets(from)) => merge_buckets(node, into, *from),
        // Two nodes that answer in different forms do not run the same request: what is here stays.
        _ => {}
    }
}

fn merge_buckets(node: &Node, into: &mut Buckets, from: Buckets) {
    into.prints.resize_with(into.prints.len().max(from.prints.len()), Print::default);
    for (print, other) in into.prints.iter_mut().zip(from.prints) {
        merge_print(print, other);
    }
    into.merged += 1 + from.merged;
    into.other += from.other;
    into.error += from.error;
    into.error_unknown |= from.error_unknown;
    into.sizes.0 += from.sizes.0;
    into.sizes.1 += from.sizes.1;
    into.extended = into.extended.or(from.extended);
    into.hard = into.hard.or(from.hard);
    if matches!(node.kind, Kind::Range { .. } | Kind::Filters(_)) {
        for (bucket, other) in into.buckets.iter_mut().zip(from.buckets) {
            merge_bucket(node, bucket, other);
        }
        return;
    }
    if matches!(node.kind, Kind::AutoDate(_))
        && into.level != from.level
        && !into.buckets.is_empty()
    {
        // Partitions that chose different units meet in the coarser one, when all is known.
        if from.buckets.is_empty() {
            return;
        }
        let level = into.level.max(from.level);
        coarsen(node, into, level);
        let mut from_buckets =
            Buckets { level: from.level, buckets: from.buckets, ..Buckets::default() };
        from_buckets.prints.clone_from(&into.prints);
        coarsen(node, &mut from_buckets, level);
        into.buckets.append(&mut from_buckets.buckets);
    } else {
        if into.buckets.is_empty() {
            into.level = from.level;
        }
        into.buckets.extend(from.buckets);
    }
    unite(node, &mut into.buckets);
}

/// Sorts buckets by key and merges those of one key.
pub(crate) fn unite(node: &Node, buckets: &mut Vec<Bucket>) {
    buckets.sort_by(|a, b| a.key.cmp(&b.key));
    let mut united: Vec<Bucket> = Vec::with_capacity(buckets.len());
    for bucket in buckets.drain(..) {
        match united.last_mut() {
            Some(last) if last.key == bucket.key => merge_bucket(node, last, bucket),
            _ => united.push(bucket),
        }
    }
    *buckets = united;
}

fn merge_bucket(node: &Node, into: &mut Bucket, from: Bucket) {
    into.count += from.count;
    into.error += from.error;
    into.background += from.background;
    merge_all(&node.subs, &mut into.subs, from.subs);
}

pub(super) fn rounding(buckets: &Buckets, level: u8) -> Rounding {
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
