//! The results that are lists of buckets.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::print::{Printer, ip_text};
use super::{Budget, Entry, OutBucket, Output, entry_number, level, pipelines};
use crate::Error;
use crate::aggregation::limits::too_many;
use crate::aggregation::number::{decimal_format, double_string};
use crate::aggregation::order::compare_composite;
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial, Print};
use crate::aggregation::request::{
    Composite, DateHistogram, Filters, GeoGrid, Histogram, Kind, Node, Order, OrderBy, RangeOf,
    Significant, Terms,
};
use crate::aggregation::rounding::{Rounding, Zone};

/// What no partition at all would find.
pub(super) fn none(node: &Node) -> Buckets {
    let keys: Vec<Key> = match &node.kind {
        Kind::Filters(spec) => {
            vec![Key::I64(0); spec.filters.len() + usize::from(spec.other.is_some())]
        }
        Kind::Range { ranges, .. } => match ranges {
            RangeOf::Numbers(ranges) | RangeOf::Distance(_, ranges) => {
                ranges.iter().map(|range| Key::Span(range.from, range.to)).collect()
            }
            RangeOf::Dates(ranges) => {
                let bound = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
                ranges.iter().map(|range| Key::Span(bound(&range.from), bound(&range.to))).collect()
            }
            RangeOf::Ips(ranges) => {
                let octets = |address: Option<u128>| address.map(u128::to_be_bytes);
                ranges
                    .iter()
                    .map(|range| Key::IpSpan(octets(range.from), octets(range.to)))
                    .collect()
            }
        },
        _ => Vec::new(),
    };
    let bucket = |key| Bucket { key, count: 0, error: 0, background: 0, subs: Vec::new() };
    Buckets {
        buckets: keys.into_iter().map(bucket).collect(),
        prints: vec![Print::Unmapped],
        ..Buckets::default()
    }
}

/// The kind of result and its buckets.
pub(super) fn finish(
    node: &Node,
    mut found: Buckets,
    budget: &Budget<'_>,
) -> Result<(&'static str, Output), Error> {
    let mut keyed = false;
    let (mut head, mut tail) = (Map::new(), Map::new());
    let (kind, mut buckets) = match &node.kind {
        Kind::Terms(spec) => {
            let (kind, buckets, other) = terms(node, spec, &mut found, budget)?;
            if spec.rare_max.is_none() {
                head = error_and_other(&found, &spec.order, other);
            }
            (kind, buckets)
        }
        Kind::MultiTerms(spec) => {
            let (buckets, other) = multi_terms(node, &mut found, budget)?;
            head = error_and_other(&found, &spec.order, other);
            ("multi_terms", buckets)
        }
        Kind::Significant(spec) => {
            head.insert("doc_count".to_owned(), json!(found.sizes.0));
            head.insert("bg_count".to_owned(), json!(found.sizes.1));
            let (kind, buckets) = significant(node, spec, found, budget)?;
            (kind, buckets)
        }
        Kind::Composite(spec) => ("composite", composite(node, spec, found, budget)?),
        Kind::GeoGrid(grid) => (
            if grid.tiles { "geotile_grid" } else { "geohash_grid" },
            cells(node, grid, found, budget)?,
        ),
        Kind::Histogram(spec) => {
            keyed = spec.keyed;
            ("histogram", histogram(node, spec, found, budget)?)
        }
        Kind::DateHistogram(spec) => {
            keyed = spec.keyed;
            ("date_histogram", date_histogram(node, spec, found, budget)?)
        }
        Kind::AutoDate(_) => {
            let (begins, interval) = super::auto_date::fit(node, &mut found);
            tail.insert("interval".to_owned(), json!(interval));
            let all = with_gaps(found.buckets, begins.into_iter().map(Key::I64).collect());
            budget.add(all.len())?;
            ("auto_date_histogram", dated(node, &found.prints, all, budget)?)
        }
        Kind::Range { ranges, keyed: is_keyed, .. } => {
            keyed = *is_keyed;
            let (kind, buckets) = range(node, ranges, found, budget)?;
            (kind, buckets)
        }
        Kind::Filters(spec) => {
            keyed = spec.keyed;
            ("filters", filters(node, spec, found, budget)?)
        }
        _ => ("unknown", Vec::new()),
    };
    pipelines::over_sequence(&node.pipelines, &mut buckets);
    if matches!(node.kind, Kind::Composite(_))
        && let Some(key) = buckets.last().and_then(|last| last.json.get("key"))
    {
        head.insert("after_key".to_owned(), key.clone());
    }
    Ok((kind, Output::Multi { head, buckets, keyed, tail }))
}

fn composite(
    node: &Node,
    spec: &Composite,
    mut found: Buckets,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    found.buckets.sort_by(|a, b| match (&a.key, &b.key) {
        (Key::Tuple(a), Key::Tuple(b)) => compare_composite(&spec.sources, a, b),
        _ => Ordering::Equal,
    });
    found.buckets.truncate(spec.size);
    budget.add(found.buckets.len())?;
    let names: Vec<&str> = spec.sources.iter().map(|source| source.name.as_str()).collect();
    let printers: Vec<Printer> = found.prints.iter().map(Printer::new).collect();
    let mut buckets = Vec::with_capacity(found.buckets.len());
    for bucket in found.buckets {
        let mut json = Map::new();
        json.insert("key".to_owned(), composite_key(&names, &printers, &bucket.key));
        buckets.push(out(node, bucket, json, budget)?);
    }
    Ok(buckets)
}

fn cells(
    node: &Node,
    grid: &GeoGrid,
    mut found: Buckets,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    let order = [
        Order { by: OrderBy::Count, ascending: false },
        Order { by: OrderBy::Key, ascending: true },
    ];
    sort_partials(&order, &mut found.buckets);
    found.buckets.truncate(grid.size);
    budget.add(found.buckets.len())?;
    let mut buckets = Vec::with_capacity(found.buckets.len());
    for bucket in found.buckets {
        let json = key_json(&Printer::Plain, &bucket.key, false);
        buckets.push(out(node, bucket, json, budget)?);
    }
    Ok(buckets)
}

/// A bucket of the answer; its aggregations below are finished.
fn out(
    node: &Node,
    bucket: Bucket,
    json: Map<String, Value>,
    budget: &Budget<'_>,
) -> Result<OutBucket, Error> {
    let subs = level(&node.subs, &node.pipelines, bucket.subs, budget)?;
    let name = match (json.get("key_as_string"), json.get("key")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => text.clone(),
        (_, Some(key)) => match key.as_f64().filter(|_| key.is_f64()) {
            Some(number) => double_string(number),
            None => key.to_string(),
        },
        _ => String::new(),
    };
    Ok(OutBucket { name, key: bucket.key, json, count: bucket.count, after: Map::new(), subs })
}

/// `key`, and `key_as_string` before or after it.
fn key_json(printer: &Printer, key: &Key, text_first: bool) -> Map<String, Value> {
    let (value, text) = printer.key(key);
    let mut json = Map::new();
    let text = text.map(|text| json!(text));
    if let (true, Some(text)) = (text_first, &text) {
        json.insert("key_as_string".to_owned(), text.clone());
    }
    json.insert("key".to_owned(), value);
    if let (false, Some(text)) = (text_first, text) {
        json.insert("key_as_string".to_owned(), text);
    }
    json
}

fn composite_key(names: &[&str], printers: &[Printer], key: &Key) -> Value {
    let Key::Tuple(parts) = key else { return Value::Null };
    let each = names.iter().zip(parts).zip(printers).map(|((name, part), printer)| {
        let value = match (printer.key(part), printer) {
            // What the printer prints as a text is meant: a date by its format, a truth value.
            ((_, Some(text)), Printer::Bool) => json!(text == "true"),
            ((_, Some(text)), _) => json!(text),
            ((value, None), _) => value,
        };
        ((*name).to_owned(), value)
    });
    Value::Object(each.collect())
}

fn error_and_other(found: &Buckets, order: &[Order], other: u64) -> Map<String, Value> {
    let by_key = order.first().is_some_and(|step| step.by == OrderBy::Key);
    let error = if by_key { Some(0) } else { found.error_bound() };
    let mut head = Map::new();
    head.insert("doc_count_error_upper_bound".to_owned(), error_json(error));
    head.insert("sum_other_doc_count".to_owned(), json!(other));
    head
}

/// A bound of an error; -1 where there is none.
fn error_json(error: Option<u64>) -> Value {
    error.map_or_else(|| json!(-1), |error| json!(error))
}

fn sort_partials(order: &[Order], buckets: &mut [Bucket]) {
    buckets.sort_by(|a, b| {
        for step in order {
            let found = match step.by {
                OrderBy::Count => a.count.cmp(&b.count),
                OrderBy::Key => a.key.cmp(&b.key),
                OrderBy::Metric { .. } => Ordering::Equal,
            };
            let found = if step.ascending { found } else { found.reverse() };
            if found != Ordering::Equal {
                return found;
            }
        }
        Ordering::Equal
    });
}

/// Sorts finished buckets, where an order needs the numbers of aggregations below.
fn sort_finished(order: &[Order], buckets: &mut [OutBucket]) {
    let needs_numbers = |step: &Order| matches!(step.by, OrderBy::Metric { .. });
    if !order.iter().any(needs_numbers) {
        return;
    }
    let number = |subs: &[Entry], step: &Order| match &step.by {
        OrderBy::Metric { path, property } => entry_number(subs, path, property.as_deref()),
        _ => f64::NAN,
    };
    buckets.sort_by(|a, b| {
        for step in order {
            let found = match step.by {
                OrderBy::Count => a.count.cmp(&b.count),
                OrderBy::Key => a.key.cmp(&b.key),
                OrderBy::Metric { .. } => {
                    let (a, b) = (number(&a.subs, step), number(&b.subs, step));
                    match (a.is_nan(), b.is_nan()) {
                        (true, true) => Ordering::Equal,
                        (true, false) => return Ordering::Greater,
                        (false, true) => return Ordering::Less,
                        _ => a.total_cmp(&b),
                    }
                }
            };
            let found = if step.ascending { found } else { found.reverse() };
            if found != Ordering::Equal {
                return found;
            }
        }
        Ordering::Equal
    });
}

fn by_metric(order: &[Order]) -> bool {
    order.iter().any(|step| matches!(step.by, OrderBy::Metric { .. }))
}

fn terms_kind(print: Option<&Print>, rare: bool) -> &'static str {
    match (print.unwrap_or(&Print::Unmapped), rare) {
        (Print::Long { .. } | Print::Date { .. } | Print::Bool, false) => "lterms",
        (Print::Long { .. } | Print::Date { .. } | Print::Bool, true) => "lrareterms",
        (Print::UnsignedLong { .. }, false) => "ulterms",
        (Print::Double { .. }, false) => "dterms",
        (Print::Unmapped, false) => "umterms",
        (Print::Unmapped, true) => "umrareterms",
        (_, false) => "sterms",
        (_, true) => "srareterms",
    }
}

/// Documents of the buckets that are cut off, besides those that were not sent.
fn cut(buckets: &mut Vec<OutBucket>, size: usize) -> u64 {
    let dropped = buckets.iter().skip(size).map(|bucket| bucket.count).sum();
    buckets.truncate(size);
    dropped
}

fn terms(
    node: &Node,
    spec: &Terms,
    found: &mut Buckets,
    budget: &Budget<'_>,
) -> Result<(&'static str, Vec<OutBucket>, u64), Error> {
    let kind = terms_kind(found.prints.first(), spec.rare_max.is_some());
    let printer = Printer::new(found.prints.first().unwrap_or(&Print::Unmapped));
    found.buckets.retain(|bucket| {
        bucket.count >= spec.min_doc_count && spec.rare_max.is_none_or(|max| bucket.count <= max)
    });
    let mut other = found.other;
    if !by_metric(&spec.order) {
        sort_partials(&spec.order, &mut found.buckets);
        other += found.buckets.iter().skip(spec.size).map(|bucket| bucket.count).sum::<u64>();
        found.buckets.truncate(spec.size);
    }
    budget.add(found.buckets.len().min(spec.size))?;
    let mut buckets = Vec::with_capacity(found.buckets.len());
    for bucket in std::mem::take(&mut found.buckets) {
        let error = found.error_bound_of(&bucket);
        let json = key_json(&printer, &bucket.key, false);
        let mut bucket = out(node, bucket, json, budget)?;
        if spec.show_error {
            bucket.after.insert("doc_count_error_upper_bound".to_owned(), error_json(error));
        }
        buckets.push(bucket);
    }
    sort_finished(&spec.order, &mut buckets);
    other += cut(&mut buckets, spec.size);
    Ok((kind, buckets, other))
}

fn multi_terms(
    node: &Node,
    found: &mut Buckets,
    budget: &Budget<'_>,
) -> Result<(Vec<OutBucket>, u64), Error> {
    let Kind::MultiTerms(spec) = &node.kind else { return Ok((Vec::new(), 0)) };
    let printers: Vec<Printer> = found.prints.iter().map(Printer::new).collect();
    found.buckets.retain(|bucket| bucket.count >= spec.min_doc_count);
    let mut other = found.other;
    if !by_metric(&spec.order) {
        sort_partials(&spec.order, &mut found.buckets);
        other += found.buckets.iter().skip(spec.size).map(|bucket| bucket.count).sum::<u64>();
        found.buckets.truncate(spec.size);
    }
    budget.add(found.buckets.len().min(spec.size))?;
    let mut buckets = Vec::new();
    for bucket in std::mem::take(&mut found.buckets) {
        let (mut values, mut texts) = (Vec::new(), Vec::new());
        if let Key::Tuple(parts) = &bucket.key {
            for (part, printer) in parts.iter().zip(&printers) {
                let text = printer.key_text(part);
                values.push(match printer {
                    Printer::Date(_) | Printer::Bool => json!(text),
                    printer => printer.key(part).0,
                });
                texts.push(text);
            }
        }
        let mut json = Map::new();
        json.insert("key".to_owned(), Value::Array(values));
        json.insert("key_as_string".to_owned(), json!(texts.join("|")));
        let error = found.error_bound_of(&bucket);
        let mut bucket = out(node, bucket, json, budget)?;
        if spec.show_error {
            bucket.after.insert("doc_count_error_upper_bound".to_owned(), error_json(error));
        }
        buckets.push(bucket);
    }
    sort_finished(&spec.order, &mut buckets);
    other += cut(&mut buckets, spec.size);
    Ok((buckets, other))
}

/// How much more common a term is among the documents found than among all: the share by which it
/// rose, times by how many fold (the "JLH" score of Elasticsearch).
fn jlh(count: u64, size: u64, background: u64, background_size: u64) -> f64 {
    if size == 0 || background_size == 0 {
        return 0.0;
    }
    let share = count as f64 / size as f64;
    let background_share = background.max(1) as f64 / background_size as f64;
    if share <= background_share {
        0.0
    } else {
        (share - background_share) * (share / background_share)
    }
}

fn significant(
    node: &Node,
    spec: &Significant,
    found: Buckets,
    budget: &Budget<'_>,
) -> Result<(&'static str, Vec<OutBucket>), Error> {
    let print = found.prints.first().unwrap_or(&Print::Unmapped);
    let kind = match print {
        Print::Long { .. } | Print::Date { .. } | Print::Bool => "siglterms",
        Print::Unmapped => "umsigterms",
        _ => "sigsterms",
    };
    let printer = Printer::new(print);
    let (size, background_size) = found.sizes;
    let mut scored: Vec<(f64, Bucket)> = found
        .buckets
        .into_iter()
        .filter(|bucket| bucket.count >= spec.terms.min_doc_count)
        .map(|bucket| (jlh(bucket.count, size, bucket.background, background_size), bucket))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored
        .sort_by(|(a, bucket), (b, other)| b.total_cmp(a).then_with(|| bucket.key.cmp(&other.key)));
    scored.truncate(spec.terms.size);
    budget.add(scored.len())?;
    let mut buckets = Vec::new();
    for (score, bucket) in scored {
        let json = key_json(&printer, &bucket.key, false);
        let background = bucket.background;
        let mut bucket = out(node, bucket, json, budget)?;
        bucket.after.insert("score".to_owned(), json!(score));
        bucket.after.insert("bg_count".to_owned(), json!(background));
        buckets.push(bucket);
    }
    Ok((kind, buckets))
}

/// Sorted buckets with empty ones for those of the sorted keys that they lack.
fn with_gaps(buckets: Vec<Bucket>, keys: Vec<Key>) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = Vec::with_capacity(keys.len().max(buckets.len()));
    let mut found = buckets.into_iter().peekable();
    for key in keys {
        while let Some(bucket) = found.next_if(|bucket| bucket.key <= key) {
            all.push(bucket);
        }
        if all.last().is_none_or(|last| last.key != key) {
            all.push(Bucket {
                key,
                count: 0,
                error: 0,
                background: 0,
                subs: Vec::<Partial>::new(),
            });
        }
    }
    all.extend(found);
    all
}

fn histogram(
    node: &Node,
    spec: &Histogram,
    mut found: Buckets,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    let index = |value: f64| ((value - spec.offset) / spec.interval).floor();
    let number = |key: &Key| if let Key::F64(value) = key { *value } else { f64::NAN };
    if spec.min_doc_count == 0 {
        // Keys are computed from numbers of buckets, so that no error adds up along the way.
        let exact = |value: f64| ((value - spec.offset) / spec.interval).round();
        let mut first =
            found.buckets.first().map_or(f64::INFINITY, |bucket| exact(number(&bucket.key)));
        let mut last =
            found.buckets.last().map_or(f64::NEG_INFINITY, |bucket| exact(number(&bucket.key)));
        if let Some((min, max)) = spec.extended {
            first = first.min(if min.is_finite() { index(min) } else { f64::INFINITY });
            last = last.max(if max.is_finite() { index(max) } else { f64::NEG_INFINITY });
        }
        if first <= last {
            let count = last - first + 1.0;
            if count > budget.buckets_max as f64 {
                return Err(too_many(budget.buckets_max, whole(count)));
            }
            let keys = (0..whole(count))
                .map(|at| Key::F64((first + at as f64) * spec.interval + spec.offset + 0.0));
            found.buckets = with_gaps(found.buckets, keys.collect());
        }
    } else {
        found.buckets.retain(|bucket| bucket.count >= spec.min_doc_count);
    }
    budget.add(found.buckets.len())?;
    sort_unless_by_key(&spec.order, &mut found.buckets);
    let printer = Printer::new(found.prints.first().unwrap_or(&Print::Unmapped));
    let mut buckets = Vec::with_capacity(found.buckets.len());
    for bucket in found.buckets {
        let json = key_json(&printer, &bucket.key, true);
        buckets.push(out(node, bucket, json, budget)?);
    }
    sort_finished(&spec.order, &mut buckets);
    Ok(buckets)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates"
)]
fn whole(value: f64) -> usize {
    value as usize
}

fn sort_unless_by_key(order: &[Order], buckets: &mut [Bucket]) {
    let first = order.first();
    if first.is_some_and(|step| step.by != OrderBy::Key || !step.ascending) {
        sort_partials(order, buckets);
    }
}

fn date_histogram(
    node: &Node,
    spec: &DateHistogram,
    mut found: Buckets,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    if spec.min_doc_count == 0 {
        let zone = Zone::parse(spec.source.zone.as_deref())?;
        let rounding = Rounding::new(spec.interval.clone(), zone, spec.offset_ms);
        let begin = |bucket: Option<&Bucket>| match bucket.map(|bucket| &bucket.key) {
            Some(Key::I64(ms)) => Some(*ms),
            _ => None,
        };
        let mut first = begin(found.buckets.first());
        let mut last = begin(found.buckets.last());
        if let Some((min, max)) = found.extended {
            let min = min.map(|min| rounding.round(min));
            let max = max.map(|max| rounding.round(max));
            first = first.map_or(min, |first| Some(min.map_or(first, |min| first.min(min))));
            last = last.map_or(max, |last| Some(max.map_or(last, |max| last.max(max))));
        }
        if let (Some(first), Some(last)) = (first, last) {
            let mut keys = Vec::new();
            let mut at = first;
            while at <= last {
                keys.push(Key::I64(at));
                if keys.len() > budget.buckets_max {
                    return Err(too_many(budget.buckets_max, keys.len()));
                }
                let next = rounding.next(at);
                // The end of time.
                if next <= at {
                    break;
                }
                at = next;
            }
            found.buckets = with_gaps(found.buckets, keys);
        }
    } else {
        found.buckets.retain(|bucket| bucket.count >= spec.min_doc_count);
    }
    budget.add(found.buckets.len())?;
    sort_unless_by_key(&spec.order, &mut found.buckets);
    let mut buckets = dated(node, &found.prints, found.buckets, budget)?;
    sort_finished(&spec.order, &mut buckets);
    Ok(buckets)
}

fn dated(
    node: &Node,
    prints: &[Print],
    found: Vec<Bucket>,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    let printer = Printer::new(prints.first().unwrap_or(&Print::Unmapped));
    let mut buckets = Vec::with_capacity(found.len());
    for bucket in found {
        let json = key_json(&printer, &bucket.key, true);
        buckets.push(out(node, bucket, json, budget)?);
    }
    Ok(buckets)
}

fn range(
    node: &Node,
    ranges: &RangeOf,
    found: Buckets,
    budget: &Budget<'_>,
) -> Result<(&'static str, Vec<OutBucket>), Error> {
    let (kind, names): (_, Vec<Option<&String>>) = match ranges {
        RangeOf::Numbers(ranges) => {
            ("range", ranges.iter().map(|range| range.key.as_ref()).collect())
        }
        RangeOf::Distance(_, ranges) => {
            ("geo_distance", ranges.iter().map(|range| range.key.as_ref()).collect())
        }
        RangeOf::Dates(ranges) => {
            ("date_range", ranges.iter().map(|range| range.key.as_ref()).collect())
        }
        RangeOf::Ips(ranges) => {
            ("ip_range", ranges.iter().map(|range| range.key.as_ref()).collect())
        }
    };
    budget.add(found.buckets.len())?;
    let print = found.prints.first().cloned().unwrap_or_default();
    let printer = Printer::new(&print);
    let mut buckets = Vec::new();
    for (bucket, name) in found.buckets.into_iter().zip(names) {
        let (from, to) = match &bucket.key {
            Key::Span(from, to) => {
                let side = |value: &Option<f64>| {
                    value.map(|value| (json!(value), bound_text(value, &print, &printer)))
                };
                (side(from), side(to))
            }
            Key::IpSpan(from, to) => {
                let side = |octets: &Option<[u8; 16]>| {
                    octets.as_ref().map(|octets| (json!(ip_text(octets)), (ip_text(octets), false)))
                };
                (side(from), side(to))
            }
            _ => (None, None),
        };
        let open = || "*".to_owned();
        let text = |side: &Option<(Value, (String, bool))>| {
            side.as_ref().map_or_else(open, |(_, (text, _))| text.clone())
        };
        let key = name.cloned().unwrap_or_else(|| format!("{}-{}", text(&from), text(&to)));
        let mut json = Map::new();
        json.insert("key".to_owned(), json!(key));
        for (name, side) in [("from", from), ("to", to)] {
            if let Some((value, (text, shown))) = side {
                json.insert(name.to_owned(), value);
                if shown {
                    json.insert(format!("{name}_as_string"), json!(text));
                }
            }
        }
        let mut bucket = out(node, bucket, json, budget)?;
        bucket.name = key;
        buckets.push(bucket);
    }
    if matches!(ranges, RangeOf::Dates(_)) {
        sort_by_bounds(&mut buckets);
    }
    if node_is_keyed(node) {
        for bucket in &mut buckets {
            bucket.json.shift_remove("key");
        }
    }
    Ok((kind, buckets))
}

/// Sorts ranges by where they begin, then by where they end.
fn sort_by_bounds(buckets: &mut [OutBucket]) {
    let place = |bucket: &OutBucket| match bucket.key {
        Key::Span(from, to) => (from.unwrap_or(f64::NEG_INFINITY), to.unwrap_or(f64::INFINITY)),
        _ => (0.0, 0.0),
    };
    buckets.sort_by(|a, b| {
        let ((from, to), (other_from, other_to)) = (place(a), place(b));
        from.total_cmp(&other_from).then(to.total_cmp(&other_to))
    });
}

fn node_is_keyed(node: &Node) -> bool {
    matches!(&node.kind, Kind::Range { keyed: true, .. })
}

/// A bound as text, and whether the bucket shows it as such.
fn bound_text(value: f64, print: &Print, printer: &Printer) -> (String, bool) {
    match print {
        Print::Date { .. } => (printer.number_text(value).unwrap_or_default(), true),
        Print::Double { format: Some(format) } => (decimal_format(value, format), true),
        _ => (double_string(value), false),
    }
}

fn filters(
    node: &Node,
    spec: &Filters,
    found: Buckets,
    budget: &Budget<'_>,
) -> Result<Vec<OutBucket>, Error> {
    budget.add(found.buckets.len())?;
    let names = spec.filters.iter().map(|(name, _)| name.clone()).chain([spec.other.clone()]);
    let mut buckets = Vec::new();
    for (bucket, name) in found.buckets.into_iter().zip(names) {
        let mut json = Map::new();
        if let (Some(name), false) = (&name, spec.keyed) {
            // Filters that were named, in an answer that is a list, say their names.
            if spec.filters.iter().all(|(name, _)| name.is_some()) {
                json.insert("key".to_owned(), json!(name));
            }
        }
        let mut bucket = out(node, bucket, json, budget)?;
        bucket.name = name.unwrap_or_default();
        buckets.push(bucket);
    }
    Ok(buckets)
}
