//! The results that are numbers, points or hits.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::print::Printer;
use super::{Budget, Output};
use crate::Error;
use crate::aggregation::number::double_string;
use crate::aggregation::order::compare_sort;
use crate::aggregation::partial::{Key, Partial, Print, Stats, TopHit};
use crate::aggregation::request::{Metric, SortBy, TopHits, Weighted};
use crate::aggregation::statistic::stats_number;

fn object(fields: Vec<(&str, Value)>) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// One number: null where there is none.
fn value(number: f64, printer: &Printer) -> Output {
    let mut json = Map::new();
    json.insert("value".to_owned(), json!(number));
    if let Some(text) = Some(number)
        .filter(|number| number.is_finite())
        .and_then(|number| printer.number_text(number))
    {
        json.insert("value_as_string".to_owned(), json!(text));
    }
    Output::Leaf { json, numbers: vec![("value".to_owned(), number)] }
}

fn count(number: u64) -> Output {
    Output::Leaf {
        json: object(vec![("value", json!(number))]),
        numbers: vec![("value".to_owned(), number as f64)],
    }
}

const EXTENDED: [&str; 7] = [
    "sum_of_squares",
    "variance",
    "variance_population",
    "variance_sampling",
    "std_deviation",
    "std_deviation_population",
    "std_deviation_sampling",
];
const BOUNDS: [&str; 6] =
    ["upper", "lower", "upper_population", "lower_population", "upper_sampling", "lower_sampling"];

/// Statistics as JSON; also those that pipelines compute.
pub(super) fn stats(metric: &Metric, stats: &Stats, printer: &Printer) -> Output {
    let number = |name: &str| stats_number(metric, stats, Some(name));
    let mut json = object(vec![("count", json!(stats.count))]);
    let mut numbers =
        vec![("avg".to_owned(), number("avg")), ("count".to_owned(), number("count"))];
    let mut names = vec!["min", "max", "avg", "sum"];
    let extended = matches!(metric, Metric::ExtendedStats { .. });
    if extended {
        names.extend(EXTENDED);
    }
    for name in &names {
        json.insert((*name).to_owned(), json!(number(name)));
        numbers.push(((*name).to_owned(), number(name)));
    }
    if extended {
        let bounds = BOUNDS.iter().map(|name| ((*name).to_owned(), json!(number(name))));
        json.insert("std_deviation_bounds".to_owned(), Value::Object(bounds.collect()));
        numbers.extend(["std_upper", "std_lower"].map(|name| (name.to_owned(), number(name))));
    }
    if stats.count > 0 {
        for name in names {
            if let Some(text) = printer.number_text(number(name)) {
                json.insert(format!("{name}_as_string"), json!(text));
            }
        }
    }
    Output::Leaf { json, numbers }
}

pub(super) fn finish(metric: &Metric, partial: Partial) -> (&'static str, Output) {
    match metric {
        Metric::Percentiles { percents, keyed, .. } => {
            let (kind, values) = quantiles(partial, percents, true);
            let kind = if kind { "hdr_percentiles" } else { "tdigest_percentiles" };
            return (kind, values_output(percents, &values.0, &values.1, *keyed));
        }
        Metric::PercentileRanks { values, keyed, .. } => {
            let (kind, ranks) = quantiles(partial, values, false);
            let kind = if kind { "hdr_percentile_ranks" } else { "tdigest_percentile_ranks" };
            return (kind, values_output(values, &ranks.0, &Printer::Plain, *keyed));
        }
        Metric::MedianAbsoluteDeviation { .. } => {
            let number = match partial {
                Partial::Digest(mut digest, _) => digest.median_absolute_deviation(),
                _ => f64::NAN,
            };
            return ("median_absolute_deviation", value(number, &Printer::Plain));
        }
        Metric::Cardinality { .. } => {
            let number = match partial {
                Partial::Distinct(distinct) => distinct.count(),
                _ => 0,
            };
            return ("cardinality", count(number));
        }
        Metric::GeoBounds => return ("geo_bounds", geo_bounds(&partial)),
        Metric::GeoCentroid => return ("geo_centroid", geo_centroid(&partial)),
        _ => {}
    }
    let (found, print) = match partial {
        Partial::Stats(found, print) => (found, print),
        _ => (Stats::default(), Print::Unmapped),
    };
    let printer = Printer::new(&print);
    let one = |kind| (kind, value(stats_number(metric, &found, None), &printer));
    match metric {
        Metric::Avg => one("avg"),
        Metric::Min => one("min"),
        Metric::Max => one("max"),
        Metric::Sum => one("sum"),
        Metric::ValueCount => ("value_count", count(found.count)),
        Metric::Stats => ("stats", stats(metric, &found, &printer)),
        _ => ("extended_stats", stats(metric, &found, &printer)),
    }
}

/// Percentiles of, or ranks (percent) in, a sketch; and whether it is a histogram.
fn quantiles(partial: Partial, asked: &[f64], percentiles: bool) -> (bool, (Vec<f64>, Printer)) {
    match partial {
        Partial::Digest(mut digest, print) => {
            let each = asked.iter().map(|asked| {
                if percentiles {
                    digest.quantile(asked / 100.0)
                } else {
                    digest.rank(*asked) * 100.0
                }
            });
            (false, (each.collect(), Printer::new(&print)))
        }
        Partial::Hdr(digest, print) => {
            let each = asked.iter().map(|asked| {
                if percentiles {
                    digest.quantile(asked / 100.0)
                } else {
                    digest.rank(*asked) * 100.0
                }
            });
            (true, (each.collect(), Printer::new(&print)))
        }
        _ => (false, (vec![f64::NAN; asked.len()], Printer::Plain)),
    }
}

pub(super) fn values_output(
    asked: &[f64],
    values: &[f64],
    printer: &Printer,
    keyed: bool,
) -> Output {
    let names = asked.iter().map(|asked| double_string(*asked));
    let numbers = names.clone().zip(values.iter().copied()).collect();
    let json = if keyed {
        let mut map = Map::new();
        for (name, value) in names.zip(values) {
            map.insert(name.clone(), json!(value));
            if let Some(text) = Some(*value)
                .filter(|value| value.is_finite())
                .and_then(|value| printer.number_text(value))
            {
                map.insert(format!("{name}_as_string"), json!(text));
            }
        }
        Value::Object(map)
    } else {
        let each = asked.iter().zip(values).map(|(key, value)| {
            let mut map = object(vec![("key", json!(key)), ("value", json!(value))]);
            if let Some(text) = Some(*value)
                .filter(|value| value.is_finite())
                .and_then(|value| printer.number_text(value))
            {
                map.insert("value_as_string".to_owned(), json!(text));
            }
            Value::Object(map)
        });
        Value::Array(each.collect())
    };
    Output::Leaf { json: object(vec![("values", json)]), numbers }
}

pub(super) fn weighted(spec: &Weighted, partial: &Partial) -> (&'static str, Output) {
    let number = match partial {
        Partial::Weighted { sum, weight } if *weight != 0.0 => sum / weight,
        _ => f64::NAN,
    };
    let printer = Printer::new(&Print::Double { format: spec.format.clone() });
    ("weighted_avg", value(number, &printer))
}

fn geo_bounds(partial: &Partial) -> Output {
    let json = match partial {
        Partial::GeoBounds(Some([top, left, bottom, right])) => object(vec![(
            "bounds",
            json!({ "top_left": { "lat": top, "lon": left }, "bottom_right": { "lat": bottom, "lon": right } }),
        )]),
        _ => Map::new(),
    };
    Output::Leaf { json, numbers: Vec::new() }
}

fn geo_centroid(partial: &Partial) -> Output {
    match partial {
        Partial::GeoCentroid { latitude, longitude, count } if *count > 0 => {
            let n = *count as f64;
            let (latitude, longitude) = (latitude / n, longitude / n);
            Output::Leaf {
                json: object(vec![
                    ("location", json!({ "lat": latitude, "lon": longitude })),
                    ("count", json!(count)),
                ]),
                numbers: vec![
                    ("lat".to_owned(), latitude),
                    ("lon".to_owned(), longitude),
                    ("count".to_owned(), n),
                ],
            }
        }
        _ => Output::Leaf {
            json: object(vec![("count", json!(0))]),
            numbers: vec![("count".to_owned(), 0.0)],
        },
    }
}

fn sort_json(step: &SortBy, key: &Key, document: usize) -> Value {
    match (step, key) {
        // Documents are numbered within a partition; across partitions the position stands for it.
        (SortBy::Document { .. }, _) => json!(document),
        (_, key) => Printer::Plain.key(key).0,
    }
}

pub(super) fn top_hits(
    spec: &TopHits,
    partial: Partial,
    budget: &Budget<'_>,
) -> Result<(&'static str, Output), Error> {
    let (total, max_score, mut hits) = match partial {
        Partial::TopHits { total, max_score, hits } => (total, max_score, hits),
        _ => (0, None, Vec::new()),
    };
    hits.sort_by(|a, b| match compare_sort(&spec.sort, &a.sort, &b.sort) {
        // Partitions number their documents each for itself: the order is stable, no more.
        _ if spec.sort.iter().all(|step| matches!(step, SortBy::Document { .. })) => {
            Ordering::Equal
        }
        found => found,
    });
    let by_score_alone = matches!(spec.sort.as_slice(), [SortBy::Score { ascending: false }]);
    let print = |(position, found): (usize, TopHit)| {
        let mut hit = match budget.read(&found.hit)? {
            Value::Object(hit) => hit,
            _ => Map::new(),
        };
        let scored = max_score.is_some();
        let score = if scored { json!(found.score) } else { Value::Null };
        let place = hit.keys().position(|key| key == "_source").unwrap_or(hit.len());
        hit.shift_insert(place.min(2), "_score".to_owned(), score);
        if !by_score_alone {
            let sort =
                spec.sort.iter().zip(&found.sort).map(|(step, key)| sort_json(step, key, position));
            hit.insert("sort".to_owned(), Value::Array(sort.collect()));
        }
        Ok(Value::Object(hit))
    };
    let shown = hits.into_iter().enumerate().skip(spec.from).take(spec.size).map(print);
    let shown: Vec<Value> = shown.collect::<Result<_, Error>>()?;
    let json = json!({
        "total": { "value": total, "relation": "eq" },
        "max_score": max_score,
        "hits": shown,
    });
    Ok(("top_hits", Output::Leaf { json: object(vec![("hits", json)]), numbers: Vec::new() }))
}
