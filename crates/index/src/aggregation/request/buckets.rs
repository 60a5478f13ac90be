//! How the aggregations are read that sort documents into buckets.

use serde_json::Value;

use super::ast::{
    AutoDate, Composite, CompositeKind, CompositeSource, DateBound, DateHistogram, Filters,
    Histogram, Kind, MultiTerms, Node, Order, OrderBy, Pattern, Significant, Terms, TermsFilter,
    TupleSource,
};
use super::options::{LIST_MAX, Options, integer, number};
use super::ranges::tile_precision;
use crate::Error;
use crate::aggregation::rounding::{Interval, Unit, parse_duration_ms};

pub(super) fn terms(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    options.take("collect_mode");
    let order = order(options, &[count_descending()])?;
    let (size, shard_size) = sizes(options, &order, 10)?;
    Ok(Kind::Terms(Terms {
        source,
        size,
        shard_size,
        order,
        min_doc_count: options.u64("min_doc_count")?.unwrap_or(1),
        shard_min_doc_count: options.u64("shard_min_doc_count")?.unwrap_or(0),
        filter: terms_filter(options)?,
        show_error: options.bool("show_term_doc_count_error", false)?,
        rare_max: None,
    }))
}

pub(super) fn rare_terms(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    options.take("precision");
    let rare_max = options.u64("max_doc_count")?.unwrap_or(1);
    if !(1..=100).contains(&rare_max) {
        return Err(Error::illegal_argument(format!(
            "[max_doc_count] must be {} for [{}]. Found [{rare_max}]",
            if rare_max == 0 { "greater than 0" } else { "smaller than or equal to 100" },
            options.name
        )));
    }
    Ok(Kind::Terms(Terms {
        source,
        size: usize::MAX,
        // A term that is rare in one partition may be common in all of them: each sends its counts.
        shard_size: usize::MAX,
        order: vec![Order { by: OrderBy::Count, ascending: true }, key_ascending()],
        min_doc_count: 1,
        shard_min_doc_count: 0,
        filter: terms_filter(options)?,
        show_error: false,
        rare_max: Some(rare_max),
    }))
}

pub(super) fn significant_terms(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    for heuristic in [
        "background_filter",
        "mutual_information",
        "chi_square",
        "gnd",
        "percentage",
        "script_heuristic",
    ] {
        options.refuse(heuristic)?;
    }
    options.take("jlh");
    let order = vec![count_descending(), key_ascending()];
    let (size, shard_size) = sizes(options, &order, 10)?;
    let terms = Terms {
        source,
        size,
        shard_size,
        order,
        min_doc_count: options.u64("min_doc_count")?.unwrap_or(3),
        shard_min_doc_count: options.u64("shard_min_doc_count")?.unwrap_or(0),
        filter: terms_filter(options)?,
        show_error: false,
        rare_max: None,
    };
    Ok(Kind::Significant(Significant { terms }))
}

pub(super) fn multi_terms(options: &mut Options<'_>) -> Result<Kind, Error> {
    let list = options.list("terms")?.unwrap_or_default();
    if list.len() < 2 || list.len() > 64 {
        return Err(Error::illegal_argument(format!(
            "The [terms] parameter in the aggregation [{}] must be present and have at least 2 fields or scripts.",
            options.name
        )));
    }
    let mut sources = Vec::new();
    for one in &list {
        let mut inner = Options::new(options.name, options.kind, one)?;
        sources.push(TupleSource { source: inner.source()? });
        inner.finish()?;
    }
    options.take("collect_mode");
    let order = order(options, &[count_descending()])?;
    let (size, shard_size) = sizes(options, &order, 10)?;
    options.take("format");
    Ok(Kind::MultiTerms(MultiTerms {
        sources,
        size,
        shard_size,
        order,
        min_doc_count: options.u64("min_doc_count")?.unwrap_or(1),
        show_error: options.bool("show_term_doc_count_error", false)?,
    }))
}

/// `size` and `shard_size`; the latter is 1.5 times the former and ten more, unless keys decide.
fn sizes(
    options: &mut Options<'_>,
    order: &[Order],
    default: usize,
) -> Result<(usize, usize), Error> {
    let size = options.positive("size")?.unwrap_or(default);
    let by_key = order.first().is_some_and(|first| first.by == OrderBy::Key);
    let given = match options.i64("shard_size")? {
        // Old clients send -1 for "as you see fit".
        None | Some(-1) => None,
        Some(value) => match usize::try_from(value) {
            Ok(value) if value > 0 => Some(value),
            _ => {
                return Err(Error::illegal_argument(format!(
                    "[shard_size] must be greater than  0. Found [{value}] in [{}]",
                    options.name
                )));
            }
        },
    };
    let shard_size = given.unwrap_or(if by_key {
        size
    } else {
        size.saturating_add(size / 2).saturating_add(10)
    });
    Ok((size, shard_size.max(size)))
}

pub(super) fn count_descending() -> Order {
    Order { by: OrderBy::Count, ascending: false }
}

pub(super) fn key_ascending() -> Order {
    Order { by: OrderBy::Key, ascending: true }
}

fn order(options: &mut Options<'_>, default: &[Order]) -> Result<Vec<Order>, Error> {
    let mut steps = Vec::new();
    match options.take("order") {
        None => steps.extend_from_slice(default),
        Some(Value::Array(list)) if list.len() <= 100 => {
            for one in &list {
                steps.push(order_step(options, one)?);
            }
        }
        Some(one) => steps.push(order_step(options, &one)?),
    }
    // Ties are broken by key, so that an answer does not depend on chance.
    if !steps.iter().any(|step| step.by == OrderBy::Key) {
        steps.push(key_ascending());
    }
    Ok(steps)
}

fn order_step(options: &Options<'_>, value: &Value) -> Result<Order, Error> {
    let Some((path, direction)) = value
        .as_object()
        .filter(|map| map.len() == 1)
        .and_then(|map| map.iter().next())
        .and_then(|(path, direction)| Some((path, direction.as_str()?)))
    else {
        return Err(Error::parsing(format!(
            "Must specify at least one field for [order] in [{}]",
            options.name
        )));
    };
    let ascending = if direction.eq_ignore_ascii_case("asc") {
        true
    } else if direction.eq_ignore_ascii_case("desc") {
        false
    } else {
        return Err(Error::parsing(format!("Unknown order direction [{direction}]")));
    };
    let by = match path.as_str() {
        "_count" => OrderBy::Count,
        "_key" | "_term" | "_time" => OrderBy::Key,
        path => metric_path(path),
    };
    Ok(Order { by, ascending })
}

/// Splits `a>b.max` or `a>b[max]`.
pub(super) fn metric_path(text: &str) -> OrderBy {
    let mut path: Vec<String> = text.split('>').map(|part| part.trim().to_owned()).collect();
    let mut property = None;
    if let Some(last) = path.last_mut() {
        if let Some((name, rest)) = last.split_once('[') {
            property = Some(rest.trim_end_matches(']').trim_matches(['"', '\'']).to_owned());
            *last = name.to_owned();
        } else if let Some((name, rest)) = last.split_once('.') {
            property = Some(rest.to_owned());
            *last = name.to_owned();
        }
    }
    OrderBy::Metric { path, property }
}

/// An order by an aggregation below must find that aggregation.
pub(super) fn check_order(name: &str, kind: &Kind, subs: &[Node]) -> Result<(), Error> {
    let order = match kind {
        Kind::Terms(terms) => &terms.order,
        Kind::MultiTerms(terms) => &terms.order,
        Kind::Histogram(histogram) => &histogram.order,
        Kind::DateHistogram(histogram) => &histogram.order,
        _ => return Ok(()),
    };
    for step in order {
        let OrderBy::Metric { path, .. } = &step.by else { continue };
        let mut level = subs;
        for (depth, part) in path.iter().enumerate() {
            let Some(node) = level.iter().find(|node| node.name == *part) else {
                return Err(Error::invalid(
                    "aggregation_execution_exception",
                    format!(
                        "Invalid aggregator order path [{}]. The provided aggregation [{part}] either does not exist, or is a pipeline aggregation and cannot be used to sort the buckets of [{name}].",
                        path.join(">")
                    ),
                ));
            };
            let last = depth + 1 == path.len();
            let fits = if last {
                node.kind.is_single_bucket()
                    || matches!(node.kind, Kind::Metric { .. } | Kind::Weighted(_))
            } else {
                node.kind.is_single_bucket()
            };
            if !fits {
                return Err(Error::invalid(
                    "aggregation_execution_exception",
                    format!(
                        "Invalid aggregation order path [{}]. Buckets can only be sorted on a sub-aggregator path that is built out of zero or more single-bucket aggregations within the path and a final single-bucket or a metrics aggregation at the path end. Sub-path [{part}] points to non single-bucket aggregation",
                        path.join(">")
                    ),
                ));
            }
            level = &node.subs;
        }
    }
    Ok(())
}

fn terms_filter(options: &mut Options<'_>) -> Result<TermsFilter, Error> {
    let mut filter = TermsFilter::default();
    match options.take("include") {
        Some(Value::Object(map)) => {
            let part = map.get("partition").and_then(Value::as_u64);
            let parts = map.get("num_partitions").and_then(Value::as_u64);
            let (Some(part), Some(parts)) = (part, parts) else {
                return Err(Error::illegal_argument(
                    "Missing [partition] or [num_partitions] parameter for partition-based include",
                ));
            };
            if part >= parts {
                return Err(Error::illegal_argument(
                    "[partition] must be less than [num_partitions]",
                ));
            }
            filter.part = Some((part, parts));
        }
        Some(value) => filter.include = Some(pattern(options, "include", &value)?),
        None => {}
    }
    if let Some(value) = options.take("exclude") {
        if filter.part.is_some() {
            return Err(Error::illegal_argument(
                "Cannot specify any excludes when using a partition-based include",
            ));
        }
        filter.exclude = Some(pattern(options, "exclude", &value)?);
    }
    Ok(filter)
}

fn pattern(options: &Options<'_>, key: &str, value: &Value) -> Result<Pattern, Error> {
    match value {
        Value::String(text) => regex::RegexBuilder::new(&format!("^(?s:{text})$"))
            .size_limit(1 << 20)
            .build()
            .map(Pattern::Regex)
            .map_err(|_| {
                Error::illegal_argument(format!(
                    "failed to parse regular expression [{text}] of [{key}] in [{}]",
                    options.name
                ))
            }),
        Value::Array(list) if list.len() <= LIST_MAX => list
            .iter()
            .map(|one| match one {
                Value::String(text) => Ok(text.clone()),
                Value::Number(number) => Ok(number.to_string()),
                Value::Bool(value) => Ok(value.to_string()),
                _ => Err(options.bad(key)),
            })
            .collect::<Result<_, _>>()
            .map(Pattern::List),
        _ => Err(options.bad(key)),
    }
}

pub(super) fn composite(options: &mut Options<'_>) -> Result<Kind, Error> {
    let list = options.list("sources")?.unwrap_or_default();
    if list.is_empty() || list.len() > 64 {
        return Err(Error::illegal_argument("Composite [sources] cannot be null or empty"));
    }
    let mut sources: Vec<CompositeSource> = Vec::new();
    for one in &list {
        let source = composite_source(options, one)?;
        if sources.iter().any(|other| other.name == source.name) {
            return Err(Error::illegal_argument(format!(
                "Composite source names must be unique, found duplicates: [{}]",
                source.name
            )));
        }
        sources.push(source);
    }
    let size = options.positive("size")?.unwrap_or(10);
    let after = match options.object("after")? {
        None => None,
        Some(map) => {
            if map.len() != sources.len() {
                return Err(Error::illegal_argument(format!(
                    "[after] has {} value(s) but [sources] has {}",
                    map.len(),
                    sources.len()
                )));
            }
            let mut values = Vec::new();
            for source in &sources {
                let value = map.get(&source.name).ok_or_else(|| {
                    Error::illegal_argument(format!("Missing value for [after.{}]", source.name))
                })?;
                values.push(value.clone());
            }
            Some(values)
        }
    };
    Ok(Kind::Composite(Composite { sources, size, after }))
}

fn composite_source(options: &Options<'_>, value: &Value) -> Result<CompositeSource, Error> {
    let single = |value: &Value| -> Option<(String, Value)> {
        let map = value.as_object().filter(|map| map.len() == 1)?;
        map.iter().next().map(|(key, value)| (key.clone(), value.clone()))
    };
    let (name, definition) = single(value).ok_or_else(|| options.bad("sources"))?;
    let (kind_name, body) = single(&definition).ok_or_else(|| options.bad("sources"))?;
    let mut inner = Options::new(options.name, options.kind, &body)?;
    let ascending = match inner.string("order")? {
        None => true,
        Some(order) if order.eq_ignore_ascii_case("asc") => true,
        Some(order) if order.eq_ignore_ascii_case("desc") => false,
        Some(_) => return Err(options.bad("order")),
    };
    let missing_bucket = inner.bool("missing_bucket", false)?;
    let missing_first = match inner.string("missing_order")?.as_deref() {
        None | Some("default") => None,
        Some("first") => Some(true),
        Some("last") => Some(false),
        Some(_) => return Err(options.bad("missing_order")),
    };
    let kind = match kind_name.as_str() {
        "terms" => CompositeKind::Terms,
        "histogram" => CompositeKind::Histogram { interval: positive_interval(&mut inner)? },
        "date_histogram" => CompositeKind::Date {
            interval: date_interval(&mut inner)?,
            offset_ms: offset(&mut inner)?,
        },
        "geotile_grid" => CompositeKind::Geotile { precision: tile_precision(&mut inner)? },
        other => {
            return Err(Error::parsing(format!(
                "invalid source type: [{other}] in [{}]",
                options.name
            )));
        }
    };
    let source = inner.source()?;
    inner.finish()?;
    Ok(CompositeSource { name, source, kind, ascending, missing_bucket, missing_first })
}

fn positive_interval(options: &mut Options<'_>) -> Result<f64, Error> {
    let interval = options.f64("interval")?.unwrap_or(0.0);
    if interval <= 0.0 {
        return Err(Error::illegal_argument(format!(
            "[interval] must be >0 for histogram aggregation [{}]",
            options.name
        )));
    }
    Ok(interval)
}

pub(super) fn histogram(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    let interval = positive_interval(options)?;
    let bounds = |options: &mut Options<'_>, key: &str| -> Result<Option<(f64, f64)>, Error> {
        let Some(map) = options.object(key)? else { return Ok(None) };
        let read = |side: &str, open: f64| match map.get(side) {
            None | Some(Value::Null) => Ok(open),
            Some(value) => {
                number(value).filter(|value| value.is_finite()).ok_or_else(|| options.bad(key))
            }
        };
        Ok(Some((read("min", f64::INFINITY)?, read("max", f64::NEG_INFINITY)?)))
    };
    let extended = bounds(options, "extended_bounds")?;
    if let Some((min, max)) = extended
        && min > max
        && min.is_finite()
        && max.is_finite()
    {
        return Err(Error::illegal_argument(format!(
            "[extended_bounds.min][{min:?}] cannot be greater than [extended_bounds.max][{max:?}] for histogram aggregation [{}]",
            options.name
        )));
    }
    let hard = bounds(options, "hard_bounds")?.map(|(min, max)| {
        (
            if min.is_finite() { min } else { f64::NEG_INFINITY },
            if max.is_finite() { max } else { f64::INFINITY },
        )
    });
    Ok(Kind::Histogram(Histogram {
        source,
        interval,
        offset: options.f64("offset")?.unwrap_or(0.0),
        order: order(options, &[key_ascending()])?,
        min_doc_count: options.u64("min_doc_count")?.unwrap_or(0),
        extended,
        hard,
        keyed: options.bool("keyed", false)?,
    }))
}

pub(super) fn date_interval(options: &mut Options<'_>) -> Result<Interval, Error> {
    let calendar = options.string("calendar_interval")?;
    let fixed = options.string("fixed_interval")?;
    let old = options.string("interval")?;
    match (calendar, fixed, old) {
        (Some(text), None, None) => Unit::parse(&text).map(Interval::Calendar).ok_or_else(|| {
            Error::illegal_argument(format!(
                "The supplied interval [{text}] could not be parsed as a calendar interval."
            ))
        }),
        (None, Some(text), None) => fixed_interval(&text, "fixedInterval"),
        (None, None, Some(text)) => match Unit::parse(&text) {
            Some(unit) => Ok(Interval::Calendar(unit)),
            None => match text.parse() {
                Ok(ms) if ms > 0 => Ok(Interval::Fixed(ms)),
                _ => fixed_interval(&text, "interval"),
            },
        },
        (None, None, None) => Err(Error::illegal_argument(
            "Invalid interval specified, must be non-null and non-empty",
        )),
        _ => Err(Error::illegal_argument(
            "Cannot use [interval] with [fixed_interval] or [calendar_interval] configuration options.",
        )),
    }
}

fn fixed_interval(text: &str, setting: &str) -> Result<Interval, Error> {
    match parse_duration_ms(text) {
        Some(ms) if ms > 0 => Ok(Interval::Fixed(ms)),
        Some(_) => Err(Error::illegal_argument("Zero or negative time interval not supported")),
        None => Err(Error::no_duration(&format!("date_histogram.{setting}"), text)),
    }
}

fn offset(options: &mut Options<'_>) -> Result<i64, Error> {
    match options.take("offset") {
        None => Ok(0),
        Some(Value::String(text)) => {
            let (sign, rest) = match text.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, text.strip_prefix('+').unwrap_or(&text)),
            };
            parse_duration_ms(rest)
                .and_then(|ms| ms.checked_mul(sign))
                .ok_or_else(|| options.bad("offset"))
        }
        Some(value) => integer(&value).ok_or_else(|| options.bad("offset")),
    }
}

fn date_bounds(
    options: &mut Options<'_>,
    key: &str,
) -> Result<Option<(DateBound, DateBound)>, Error> {
    let Some(mut map) = options.object(key)? else { return Ok(None) };
    let mut side = |name: &str| map.swap_remove(name).filter(|value| !value.is_null());
    Ok(Some((side("min"), side("max"))))
}

pub(super) fn date_histogram(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    Ok(Kind::DateHistogram(DateHistogram {
        source,
        interval: date_interval(options)?,
        offset_ms: offset(options)?,
        order: order(options, &[key_ascending()])?,
        min_doc_count: options.u64("min_doc_count")?.unwrap_or(0),
        extended: date_bounds(options, "extended_bounds")?,
        hard: date_bounds(options, "hard_bounds")?,
        keyed: options.bool("keyed", false)?,
    }))
}

pub(super) fn auto_date_histogram(options: &mut Options<'_>) -> Result<Kind, Error> {
    let source = options.source()?;
    let buckets = options.positive("buckets")?.unwrap_or(10);
    if buckets > 10_000 {
        return Err(Error::illegal_argument("buckets must be less than 10000"));
    }
    let minimum = match options.string("minimum_interval")? {
        None => None,
        Some(text) => Some(Unit::parse(&text).ok_or_else(|| options.bad("minimum_interval"))?),
    };
    Ok(Kind::AutoDate(AutoDate { source, buckets, minimum }))
}

pub(super) fn filters(options: &mut Options<'_>) -> Result<Kind, Error> {
    let keyed = options.bool("keyed", true)?;
    let other_key = options.string("other_bucket_key")?;
    let other = options.bool("other_bucket", other_key.is_some())?;
    let filters: Vec<(Option<String>, Value)> = match options.take("filters") {
        Some(Value::Object(map)) => {
            map.into_iter().map(|(name, query)| (Some(name), query)).collect()
        }
        Some(Value::Array(list)) => list.into_iter().map(|query| (None, query)).collect(),
        _ => return Err(options.bad("filters")),
    };
    if filters.is_empty() && !other {
        return Err(Error::illegal_argument("[filters] cannot be empty"));
    }
    if filters.len() > LIST_MAX {
        return Err(Error::illegal_argument(format!(
            "[filters] may hold no more than [{LIST_MAX}] filters"
        )));
    }
    let keyed = keyed && filters.first().is_none_or(|(name, _)| name.is_some());
    let other = other.then(|| other_key.unwrap_or_else(|| "_other_".to_owned()));
    Ok(Kind::Filters(Filters { filters, other, keyed }))
}
