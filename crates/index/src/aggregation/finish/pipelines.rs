//! Aggregations that compute from other aggregations' results.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::print::Printer;
use super::{Entry, OutBucket, Output, metrics};
use crate::aggregation::number::double_string;
use crate::aggregation::partial::{Key, Stats};
use crate::aggregation::request::{
    Gaps, Metric, Moving, OrderBy, OverBuckets, Path, Pipeline, PipelineKind,
};

/// A number below some results; `None` where the path leads to none.
pub(super) fn number(entries: &[Entry], path: &[String], property: Option<&str>) -> Option<f64> {
    let (first, rest) = path.split_first()?;
    let entry = entries.iter().find(|entry| entry.name == *first)?;
    match &entry.output {
        Output::Leaf { numbers, .. } => match property {
            None => numbers.first().map(|(_, number)| *number),
            Some(property) => {
                let found = numbers.iter().find(|(name, _)| name == property);
                // Percentiles are asked for as `50` and named `50.0`.
                let spelt = || property.parse::<f64>().ok().map(double_string);
                let found = found.or_else(|| {
                    let spelt = spelt()?;
                    numbers.iter().find(|(name, _)| *name == spelt)
                });
                found.map(|(_, number)| *number)
            }
        },
        Output::Single { count, subs } => match rest.first().map(String::as_str) {
            None => Some(*count as f64),
            Some("_count") => Some(*count as f64),
            Some(_) => number(subs, rest, property),
        },
        Output::Multi { buckets, .. } => match (rest.first().map(String::as_str), property) {
            (Some("_bucket_count"), _) | (None, Some("_bucket_count")) => {
                Some(buckets.len() as f64)
            }
            _ => None,
        },
    }
}

/// A number of one bucket, by the rule for gaps; `None` is a gap that is skipped.
fn bucket_number(bucket: &OutBucket, path: &Path, gaps: Gaps) -> Option<f64> {
    let first = path.parts.first().map(String::as_str);
    let value = match first {
        Some("_count") => return Some(bucket.count as f64),
        Some("_key") => key_number(&bucket.key),
        _ => number(&bucket.subs, &path.parts, path.property.as_deref()),
    };
    let value = value.filter(|value| value.is_finite() && bucket.count > 0);
    value.or((gaps == Gaps::Zeros).then_some(0.0))
}

fn key_number(key: &Key) -> Option<f64> {
    match key {
        Key::I64(value) => Some(*value as f64),
        Key::U64(value) => Some(*value as f64),
        Key::F64(value) => Some(*value),
        _ => None,
    }
}

fn simple(value: f64) -> Output {
    let mut json = Map::new();
    json.insert("value".to_owned(), json!(value));
    Output::Leaf { json, numbers: vec![("value".to_owned(), value)] }
}

fn entry(pipeline: &Pipeline, kind: &'static str, output: Output) -> Entry {
    Entry { name: pipeline.name.clone(), kind, meta: pipeline.meta.clone(), output }
}

/// Adds what sibling pipelines compute of the buckets of aggregations beside them.
pub(super) fn siblings(pipelines: &[Pipeline], entries: &mut Vec<Entry>) {
    for pipeline in pipelines {
        let PipelineKind::Sibling { path, over, gaps } = &pipeline.kind else { continue };
        let mut values = Vec::new();
        walk(entries, path, &path.parts, *gaps, &mut values);
        let (kind, output) = over_buckets(over, &values);
        entries.push(entry(pipeline, kind, output));
    }
}

/// Collects key and number of every bucket that a path leads through.
fn walk(
    entries: &[Entry],
    path: &Path,
    parts: &[String],
    gaps: Gaps,
    values: &mut Vec<(String, f64)>,
) {
    let Some((first, rest)) = parts.split_first() else { return };
    let Some(entry) = entries.iter().find(|entry| entry.name == *first) else { return };
    match &entry.output {
        Output::Leaf { .. } => {}
        Output::Single { subs, .. } => walk(subs, path, rest, gaps, values),
        Output::Multi { buckets, .. } => {
            for bucket in buckets {
                let inner =
                    rest.first().and_then(|next| bucket.subs.iter().find(|sub| sub.name == *next));
                if let Some(Entry { output: Output::Multi { .. }, .. }) = inner
                    && rest.get(1).is_some_and(|next| next != "_bucket_count")
                {
                    walk(&bucket.subs, path, rest, gaps, values);
                    continue;
                }
                let own = Path { parts: rest.to_vec(), property: path.property.clone() };
                if let Some(value) = bucket_number(bucket, &own, gaps) {
                    values.push((bucket.name.clone(), value));
                }
            }
        }
    }
}

fn over_buckets(over: &OverBuckets, values: &[(String, f64)]) -> (&'static str, Output) {
    let mut stats = Stats::default();
    values.iter().for_each(|(_, value)| stats.add(*value));
    let extreme = |best: f64| {
        let keys: Vec<&String> =
            values.iter().filter(|(_, value)| *value == best).map(|(key, _)| key).collect();
        let mut json = Map::new();
        json.insert("value".to_owned(), if values.is_empty() { Value::Null } else { json!(best) });
        json.insert("keys".to_owned(), json!(keys));
        let number = if values.is_empty() { f64::NAN } else { best };
        ("bucket_metric_value", Output::Leaf { json, numbers: vec![("value".to_owned(), number)] })
    };
    match over {
        OverBuckets::Avg => ("simple_value", simple(stats.sum / stats.count as f64)),
        OverBuckets::Sum => ("simple_value", simple(stats.sum)),
        OverBuckets::Min => extreme(stats.min),
        OverBuckets::Max => extreme(stats.max),
        OverBuckets::Stats => {
            ("stats_bucket", metrics::stats(&Metric::Stats, &stats, &Printer::Plain))
        }
        OverBuckets::ExtendedStats { sigma } => (
            "extended_stats_bucket",
            metrics::stats(&Metric::ExtendedStats { sigma: *sigma }, &stats, &Printer::Plain),
        ),
        OverBuckets::Percentiles { percents, keyed } => {
            let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            sorted.sort_by(f64::total_cmp);
            let at = |percent: &f64| nearest(&sorted, *percent);
            let found: Vec<f64> = percents.iter().map(at).collect();
            (
                "percentiles_bucket",
                metrics::values_output(percents, &found, &Printer::Plain, *keyed),
            )
        }
    }
}

/// The value at a percentile: one of the values, the nearest by rank.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float to integer cast saturates"
)]
fn nearest(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let rank = (percent / 100.0 * sorted.len() as f64 + 0.5).floor() as usize;
    sorted[rank.saturating_sub(1).min(last)]
}

/// Runs the pipelines of an aggregation over its buckets, each after those it computes from.
pub(super) fn over_sequence(pipelines: &[Pipeline], buckets: &mut Vec<OutBucket>) {
    let mut waiting: Vec<&Pipeline> = pipelines
        .iter()
        .filter(|pipeline| !matches!(pipeline.kind, PipelineKind::Sibling { .. }))
        .collect();
    while !waiting.is_empty() {
        let names: Vec<&str> = waiting.iter().map(|pipeline| pipeline.name.as_str()).collect();
        let needs = |pipeline: &Pipeline| {
            let own = pipeline.name.as_str();
            paths(pipeline).iter().any(|first| *first != own && names.contains(first))
        };
        // Pipelines that wait for each other in a circle run in the order of the request.
        let next = waiting.iter().position(|pipeline| !needs(pipeline)).unwrap_or(0);
        run(waiting.remove(next), buckets);
    }
}

fn paths(pipeline: &Pipeline) -> Vec<&str> {
    match &pipeline.kind {
        PipelineKind::Sibling { path, .. }
        | PipelineKind::Derivative { path, .. }
        | PipelineKind::CumulativeSum { path }
        | PipelineKind::SerialDifference { path, .. }
        | PipelineKind::MovingFunction { path, .. } => {
            path.parts.first().map(String::as_str).into_iter().collect()
        }
        PipelineKind::BucketScript { paths, .. } | PipelineKind::BucketSelector { paths, .. } => {
            paths.iter().filter_map(|(_, path)| path.parts.first()).map(String::as_str).collect()
        }
        PipelineKind::BucketSort { order, .. } => order
            .iter()
            .filter_map(|step| match &step.by {
                OrderBy::Metric { path, .. } => path.first().map(String::as_str),
                _ => None,
            })
            .collect(),
    }
}

fn run(pipeline: &Pipeline, buckets: &mut Vec<OutBucket>) {
    match &pipeline.kind {
        PipelineKind::Sibling { .. } => {}
        PipelineKind::Derivative { path, gaps, unit_ms } => {
            derivative(pipeline, path, *gaps, *unit_ms, buckets)
        }
        PipelineKind::CumulativeSum { path } => {
            let mut sum = 0.0;
            for bucket in buckets {
                sum += bucket_number(bucket, path, Gaps::Zeros).unwrap_or(0.0);
                bucket.subs.push(entry(pipeline, "simple_value", simple(sum)));
            }
        }
        PipelineKind::SerialDifference { path, gaps, lag } => {
            let values: Vec<Option<f64>> =
                buckets.iter().map(|bucket| bucket_number(bucket, path, *gaps)).collect();
            for (at, bucket) in buckets.iter_mut().enumerate() {
                let before = at.checked_sub(*lag).and_then(|at| values[at]);
                if let (Some(before), Some(now)) = (before, values[at]) {
                    bucket.subs.push(entry(pipeline, "simple_value", simple(now - before)));
                }
            }
        }
        PipelineKind::MovingFunction { path, gaps, window, shift, function } => {
            moving(pipeline, path, *gaps, (*window, *shift), *function, buckets);
        }
        PipelineKind::BucketScript { paths, script, gaps } => {
            for bucket in buckets {
                if let Some(values) = variables(bucket, paths, *gaps) {
                    let value = script.evaluate(&|name| lookup(&values, name));
                    bucket.subs.push(entry(pipeline, "simple_value", simple(value)));
                }
            }
        }
        PipelineKind::BucketSelector { paths, script, gaps } => buckets.retain(|bucket| {
            let values = variables(bucket, paths, *gaps);
            values.is_none_or(|values| {
                let kept = script.evaluate(&|name| lookup(&values, name));
                kept != 0.0 && !kept.is_nan()
            })
        }),
        PipelineKind::BucketSort { order, from, size, gaps } => {
            if !order.is_empty() {
                sort(order, *gaps, buckets);
            }
            buckets.drain(..(*from).min(buckets.len()));
            buckets.truncate(size.unwrap_or(usize::MAX));
        }
    }
}

fn lookup(values: &[(String, f64)], name: &str) -> Option<f64> {
    values.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
}

/// The variables of a script; `None` where one is a gap that is skipped.
fn variables(
    bucket: &OutBucket,
    paths: &[(String, Path)],
    gaps: Gaps,
) -> Option<Vec<(String, f64)>> {
    paths
        .iter()
        .map(|(name, path)| Some((name.clone(), bucket_number(bucket, path, gaps)?)))
        .collect()
}

fn derivative(
    pipeline: &Pipeline,
    path: &Path,
    gaps: Gaps,
    unit_ms: Option<i64>,
    buckets: &mut [OutBucket],
) {
    let mut before: Option<(f64, Option<f64>)> = None;
    for bucket in buckets {
        let value = bucket_number(bucket, path, gaps);
        let key = key_number(&bucket.key);
        if let (Some((last, last_key)), Some(value)) = (before, value) {
            let change = value - last;
            let mut output = simple(change);
            if let (Output::Leaf { json, numbers }, Some(unit), Some(key), Some(last_key)) =
                (&mut output, unit_ms, key, last_key)
            {
                let normalized = change / ((key - last_key) / unit as f64);
                json.insert("normalized_value".to_owned(), json!(normalized));
                numbers.push(("normalized_value".to_owned(), normalized));
            }
            bucket.subs.push(entry(pipeline, "derivative", output));
        }
        if let Some(value) = value {
            before = Some((value, key));
        }
    }
}

fn moving(
    pipeline: &Pipeline,
    path: &Path,
    gaps: Gaps,
    (window, shift): (usize, i64),
    function: Moving,
    buckets: &mut [OutBucket],
) {
    let values: Vec<f64> =
        buckets.iter().filter_map(|bucket| bucket_number(bucket, path, gaps)).collect();
    let clamp = |at: i64| usize::try_from(at).unwrap_or(0).min(values.len());
    let mut at = 0i64;
    for bucket in buckets {
        if bucket_number(bucket, path, gaps).is_none() {
            continue;
        }
        let window = i64::try_from(window).unwrap_or(i64::MAX);
        let from = clamp(at.saturating_sub(window).saturating_add(shift));
        let until = clamp(at.saturating_add(shift)).max(from);
        let result = moving_value(function, &values[from..until]);
        bucket.subs.push(entry(pipeline, "simple_value", simple(result)));
        at += 1;
    }
}

fn moving_value(function: Moving, window: &[f64]) -> f64 {
    let n = window.len() as f64;
    // The sum of nothing would be a negative zero.
    let sum = window.iter().fold(0.0, |sum, value| sum + value);
    match function {
        Moving::Sum => sum,
        _ if window.is_empty() => f64::NAN,
        Moving::Max => window.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Moving::Min => window.iter().copied().fold(f64::INFINITY, f64::min),
        Moving::Unweighted => sum / n,
        Moving::StdDev => {
            (window.iter().map(|value| (value - sum / n).powi(2)).sum::<f64>() / n).sqrt()
        }
        Moving::Linear => {
            let (mut weighted, mut weights, mut weight) = (0.0, 0.0, 1.0);
            for value in window {
                weighted += value * weight;
                weights += weight;
                weight += 1.0;
            }
            weighted / weights
        }
        Moving::Ewma { alpha } => {
            let mut values = window.iter().copied();
            let first = values.next().unwrap_or(f64::NAN);
            values.fold(first, |average, value| value * alpha + average * (1.0 - alpha))
        }
    }
}

fn sort(order: &[crate::aggregation::request::Order], gaps: Gaps, buckets: &mut Vec<OutBucket>) {
    let value = |bucket: &OutBucket, by: &OrderBy| match by {
        OrderBy::Count => Some(bucket.count as f64),
        OrderBy::Key => Some(f64::NAN),
        OrderBy::Metric { path, property } => {
            bucket_number(bucket, &Path { parts: path.clone(), property: property.clone() }, gaps)
        }
    };
    // A bucket of which no step knows a value cannot be placed.
    buckets.retain(|bucket| order.iter().any(|step| value(bucket, &step.by).is_some()));
    buckets.sort_by(|a, b| {
        for step in order {
            let found = match &step.by {
                OrderBy::Key => a.key.cmp(&b.key),
                by => match (value(a, by), value(b, by)) {
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    // What has no value comes last, whatever the direction.
                    (None, Some(_)) => return Ordering::Greater,
                    (Some(_), None) => return Ordering::Less,
                    (None, None) => Ordering::Equal,
                },
            };
            let found = if step.ascending { found } else { found.reverse() };
            if found != Ordering::Equal {
                return found;
            }
        }
        Ordering::Equal
    });
}
