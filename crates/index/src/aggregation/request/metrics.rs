//! How the aggregations are read that give numbers, points or hits, and have no buckets.

use serde_json::Value;

use super::ast::{Kind, Metric, Sketch, SortBy, Source, TopHits, Weighted};
use super::options::{Options, number};
use crate::Error;

/// The percentiles that are asked for where none are named.
const PERCENTS_DEFAULT: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
/// How many percentiles or values one aggregation may ask for.
const PERCENTS_MAX: usize = 10_000;
/// Elasticsearch's ceiling of `precision_threshold`.
const PRECISION_THRESHOLD_MAX: u64 = 40_000;

pub(super) fn parse(kind: &str, options: &mut Options<'_>) -> Result<Option<Kind>, Error> {
    let metric = match kind {
        "avg" => Metric::Avg,
        "sum" => Metric::Sum,
        "min" => Metric::Min,
        "max" => Metric::Max,
        "stats" => Metric::Stats,
        "value_count" => Metric::ValueCount,
        "extended_stats" => {
            let sigma = options.f64("sigma")?.unwrap_or(2.0);
            if sigma < 0.0 {
                return Err(Error::illegal_argument(format!(
                    "[sigma] must be greater than or equal to 0. Found [{sigma:?}] in [{}]",
                    options.name
                )));
            }
            Metric::ExtendedStats { sigma }
        }
        "cardinality" => {
            options.take("rehash");
            let threshold =
                options.u64("precision_threshold")?.unwrap_or(3_000).min(PRECISION_THRESHOLD_MAX);
            Metric::Cardinality { threshold: usize::try_from(threshold).unwrap_or(usize::MAX) }
        }
        "percentiles" => {
            let percents = match numbers(options, "percents")? {
                Some(list) if list.is_empty() => {
                    return Err(Error::illegal_argument("[percents] must not be empty"));
                }
                Some(list) => list,
                None => PERCENTS_DEFAULT.to_vec(),
            };
            if let Some(bad) = percents.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
                return Err(Error::illegal_argument(format!(
                    "percent must be in [0,100], got [{bad:?}]: [{}]",
                    options.name
                )));
            }
            Metric::Percentiles {
                percents,
                keyed: options.bool("keyed", true)?,
                sketch: sketch(options)?,
            }
        }
        "percentile_ranks" => {
            let values = numbers(options, "values")?
                .filter(|list| !list.is_empty())
                .ok_or_else(|| Error::illegal_argument("[values] must not be an empty array"))?;
            Metric::PercentileRanks {
                values,
                keyed: options.bool("keyed", true)?,
                sketch: sketch(options)?,
            }
        }
        "median_absolute_deviation" => Metric::MedianAbsoluteDeviation {
            compression: compression(options.f64("compression")?)?,
        },
        "geo_bounds" => {
            options.refuse("missing")?;
            options.take("wrap_longitude");
            Metric::GeoBounds
        }
        "geo_centroid" => {
            options.refuse("missing")?;
            Metric::GeoCentroid
        }
        "weighted_avg" => return weighted(options).map(Some),
        "top_hits" => return top_hits(options).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(Kind::Metric { metric, source: options.source()? }))
}

fn numbers(options: &mut Options<'_>, key: &str) -> Result<Option<Vec<f64>>, Error> {
    let Some(list) = options.list(key)? else { return Ok(None) };
    if list.len() > PERCENTS_MAX {
        return Err(Error::illegal_argument(format!(
            "[{key}] may hold no more than [{PERCENTS_MAX}] values"
        )));
    }
    let mut values = Vec::with_capacity(list.len());
    for value in &list {
        values
            .push(number(value).filter(|value| value.is_finite()).ok_or_else(|| options.bad(key))?);
    }
    values.sort_by(f64::total_cmp);
    Ok(Some(values))
}

fn compression(value: Option<f64>) -> Result<f64, Error> {
    match value {
        None => Ok(100.0),
        Some(value) if value < 0.0 => Err(Error::illegal_argument(format!(
            "[compression] must be greater than or equal to 0. Found [{value:?}]"
        ))),
        // More than this buys nothing but memory.
        Some(value) => Ok(value.clamp(10.0, 10_000.0)),
    }
}

fn sketch(options: &mut Options<'_>) -> Result<Sketch, Error> {
    if let Some(map) = options.object("hdr")? {
        let digits = match map.get("number_of_significant_value_digits") {
            None => 3,
            Some(value) => {
                value.as_u64().and_then(|value| u8::try_from(value).ok()).unwrap_or(u8::MAX)
            }
        };
        if digits > 5 {
            return Err(Error::illegal_argument(format!(
                "[numberOfSignificantValueDigits] must be between 0 and 5: [{}]",
                options.name
            )));
        }
        return Ok(Sketch::Hdr { digits });
    }
    let map = options.object("tdigest")?;
    let value = match map.as_ref().and_then(|map| map.get("compression")) {
        None => None,
        Some(value) => Some(number(value).ok_or_else(|| options.bad("tdigest"))?),
    };
    Ok(Sketch::TDigest { compression: compression(value)? })
}

fn weighted(options: &mut Options<'_>) -> Result<Kind, Error> {
    let value = weighted_source(options, "value")?;
    let weight = weighted_source(options, "weight")?;
    options.take("value_type");
    Ok(Kind::Weighted(Weighted { value, weight, format: options.string("format")? }))
}

fn weighted_source(options: &mut Options<'_>, key: &str) -> Result<Source, Error> {
    let map = options.object(key)?.ok_or_else(|| {
        Error::illegal_argument(format!(
            "Required [{key}] in [weighted_avg] aggregation [{}]",
            options.name
        ))
    })?;
    let body = Value::Object(map);
    let mut inner = Options::new(options.name, options.kind, &body)?;
    let source = inner.source()?;
    inner.finish()?;
    Ok(source)
}

fn top_hits(options: &mut Options<'_>) -> Result<Kind, Error> {
    let from = options.u64("from")?.unwrap_or(0);
    let size = options.u64("size")?.unwrap_or(3);
    if from.saturating_add(size) > 100 {
        return Err(Error::illegal_argument(format!(
            "Top hits result window is too large, the top hits aggregator [{}]'s from + size must be less than or equal to: [100] but was [{}]. This limit can be set by changing the [index.max_inner_result_window] index level setting.",
            options.name,
            from.saturating_add(size)
        )));
    }
    let sort = match options.take("sort") {
        None => vec![SortBy::Score { ascending: false }],
        Some(Value::Array(list)) => {
            list.iter().map(|one| sort_by(options, one)).collect::<Result<_, _>>()?
        }
        Some(one) => vec![sort_by(options, &one)?],
    };
    let mut fetch = serde_json::Map::new();
    for key in [
        "_source",
        "highlight",
        "docvalue_fields",
        "fields",
        "stored_fields",
        "version",
        "seq_no_primary_term",
        "explain",
        "script_fields",
        "track_scores",
    ] {
        if let Some(value) = options.take(key) {
            fetch.insert(key.to_owned(), value);
        }
    }
    let cap = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(Kind::TopHits(TopHits {
        from: cap(from),
        size: cap(size),
        sort,
        fetch: Value::Object(fetch),
    }))
}

fn sort_by(options: &Options<'_>, value: &Value) -> Result<SortBy, Error> {
    let (field, order, missing_first) = match value {
        Value::String(field) => (field.as_str(), None, false),
        Value::Object(map) if map.len() == 1 => {
            let (field, spec) = map.iter().next().ok_or_else(|| options.bad("sort"))?;
            match spec {
                Value::String(order) => (field.as_str(), Some(order.as_str()), false),
                Value::Object(spec) => (
                    field.as_str(),
                    spec.get("order").and_then(Value::as_str),
                    spec.get("missing").and_then(Value::as_str) == Some("_first"),
                ),
                _ => return Err(options.bad("sort")),
            }
        }
        _ => return Err(options.bad("sort")),
    };
    let ascending = match order {
        Some(order) if order.eq_ignore_ascii_case("asc") => true,
        Some(order) if order.eq_ignore_ascii_case("desc") => false,
        Some(_) => return Err(options.bad("sort")),
        None => field != "_score",
    };
    Ok(match field {
        "_score" => SortBy::Score { ascending },
        "_doc" => SortBy::Document { ascending },
        _ => SortBy::Field { field: field.to_owned(), ascending, missing_first },
    })
}
