//! How the aggregations are read that compute from other aggregations' results.

use serde_json::Value;

use super::ast::{
    Gaps, Kind, Moving, Node, Order, OrderBy, OverBuckets, Path, Pipeline, PipelineKind,
};
use super::buckets::metric_path;
use super::options::{Options, number};
use crate::Error;
use crate::aggregation::script::Script;

/// Reads a pipeline; `None` where `kind` is not one.
pub(super) fn parse(name: &str, kind: &str, body: &Value) -> Result<Option<PipelineKind>, Error> {
    let known = [
        "avg_bucket",
        "sum_bucket",
        "min_bucket",
        "max_bucket",
        "stats_bucket",
        "extended_stats_bucket",
        "percentiles_bucket",
        "derivative",
        "cumulative_sum",
        "serial_diff",
        "moving_fn",
        "bucket_script",
        "bucket_selector",
        "bucket_sort",
    ];
    if !known.contains(&kind) {
        return Ok(None);
    }
    let mut options = Options::new(name, kind, body)?;
    let parsed = parse_kind(kind, &mut options)?;
    options.finish()?;
    Ok(Some(parsed))
}

fn parse_kind(kind: &str, options: &mut Options<'_>) -> Result<PipelineKind, Error> {
    let gaps = match options.string("gap_policy")?.as_deref() {
        None | Some("skip" | "keep_values") => Gaps::Skip,
        Some("insert_zeros") => Gaps::Zeros,
        Some(other) => {
            return Err(Error::parsing(format!(
                "Invalid gap policy: [{other}], accepted values: [insert_zeros, skip, keep_values]"
            )));
        }
    };
    options.take("format");
    Ok(match kind {
        "derivative" => {
            let unit_ms = match options.string("unit")? {
                None => None,
                Some(text) => Some(unit_ms(&text).ok_or_else(|| options.bad("unit"))?),
            };
            PipelineKind::Derivative { path: path(options)?, gaps, unit_ms }
        }
        "cumulative_sum" => PipelineKind::CumulativeSum { path: path(options)? },
        "serial_diff" => {
            let lag = options.positive("lag")?.unwrap_or(1);
            PipelineKind::SerialDifference { path: path(options)?, gaps, lag }
        }
        "moving_fn" => moving(options, gaps)?,
        "bucket_script" => {
            PipelineKind::BucketScript { paths: paths(options)?, script: script(options)?, gaps }
        }
        "bucket_selector" => {
            PipelineKind::BucketSelector { paths: paths(options)?, script: script(options)?, gaps }
        }
        "bucket_sort" => bucket_sort(options, gaps)?,
        _ => PipelineKind::Sibling { path: path(options)?, over: over(kind, options)?, gaps },
    })
}

fn unit_ms(text: &str) -> Option<i64> {
    use crate::aggregation::rounding::{Unit, parse_duration_ms};
    Unit::parse(text).map(Unit::typical_ms).or_else(|| parse_duration_ms(text)).filter(|ms| *ms > 0)
}

fn over(kind: &str, options: &mut Options<'_>) -> Result<OverBuckets, Error> {
    Ok(match kind {
        "avg_bucket" => OverBuckets::Avg,
        "sum_bucket" => OverBuckets::Sum,
        "min_bucket" => OverBuckets::Min,
        "max_bucket" => OverBuckets::Max,
        "stats_bucket" => OverBuckets::Stats,
        "extended_stats_bucket" => {
            OverBuckets::ExtendedStats { sigma: options.f64("sigma")?.unwrap_or(2.0) }
        }
        _ => {
            let percents = match options.list("percents")? {
                None => vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0],
                Some(list) => list
                    .iter()
                    .map(|one| {
                        number(one)
                            .filter(|one| (0.0..=100.0).contains(one))
                            .ok_or_else(|| options.bad("percents"))
                    })
                    .collect::<Result<_, _>>()?,
            };
            OverBuckets::Percentiles { percents, keyed: options.bool("keyed", true)? }
        }
    })
}

fn path(options: &mut Options<'_>) -> Result<Path, Error> {
    match options.take("buckets_path") {
        Some(Value::String(text)) => Ok(path_of(&text)),
        Some(Value::Array(list)) if list.len() == 1 => match list.first() {
            Some(Value::String(text)) => Ok(path_of(text)),
            _ => Err(options.bad("buckets_path")),
        },
        Some(_) => Err(options.bad("buckets_path")),
        None => Err(missing_path(options)),
    }
}

fn missing_path(options: &Options<'_>) -> Error {
    Error::parsing(format!(
        "Missing required field [buckets_path] for {} aggregation [{}]",
        options.kind, options.name
    ))
}

fn path_of(text: &str) -> Path {
    match metric_path(text) {
        // What every bucket has is one more step: `a._count` is `a>_count`.
        OrderBy::Metric { mut path, property: Some(own) } if is_own(&own) => {
            path.push(own);
            Path { parts: path, property: None }
        }
        OrderBy::Metric { path, property } => Path { parts: path, property },
        _ => Path { parts: vec![text.to_owned()], property: None },
    }
}

/// Whether a step of a path means something of the bucket itself.
fn is_own(step: &str) -> bool {
    matches!(step, "_count" | "_key" | "_bucket_count")
}

fn paths(options: &mut Options<'_>) -> Result<Vec<(String, Path)>, Error> {
    match options.take("buckets_path") {
        Some(Value::String(text)) => Ok(vec![("_value".to_owned(), path_of(&text))]),
        Some(Value::Array(list)) => list
            .iter()
            .enumerate()
            .map(|(i, one)| match one {
                Value::String(text) => Ok((format!("_value{i}"), path_of(text))),
                _ => Err(options.bad("buckets_path")),
            })
            .collect(),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, one)| match one {
                Value::String(text) => Ok((name.clone(), path_of(text))),
                _ => Err(options.bad("buckets_path")),
            })
            .collect(),
        Some(_) => Err(options.bad("buckets_path")),
        None => Err(missing_path(options)),
    }
}

fn script(options: &mut Options<'_>) -> Result<Script, Error> {
    let value = options.take("script").ok_or_else(|| {
        Error::parsing(format!(
            "Missing required field [script] for {} aggregation [{}]",
            options.kind, options.name
        ))
    })?;
    Script::parse(&value)
}

fn moving(options: &mut Options<'_>, gaps: Gaps) -> Result<PipelineKind, Error> {
    let window = options.positive("window")?.ok_or_else(|| {
        Error::parsing(format!(
            "Missing required field [window] for moving_fn aggregation [{}]",
            options.name
        ))
    })?;
    let shift = options.i64("shift")?.unwrap_or(0).clamp(-1_000_000, 1_000_000);
    let value = options.take("script");
    let text = match &value {
        Some(Value::String(text)) => text.as_str(),
        Some(Value::Object(map)) => map.get("source").and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let call: String =
        text.trim().trim_start_matches("return").trim_end_matches(';').split_whitespace().collect();
    let argument = |position: usize| -> Option<f64> {
        let inside = call.split_once('(')?.1.strip_suffix(')')?;
        inside.split(',').nth(position)?.parse().ok()
    };
    let function = match call.split('(').next().unwrap_or_default() {
        "MovingFunctions.max" => Moving::Max,
        "MovingFunctions.min" => Moving::Min,
        "MovingFunctions.sum" => Moving::Sum,
        "MovingFunctions.unweightedAvg" => Moving::Unweighted,
        "MovingFunctions.linearWeightedAvg" => Moving::Linear,
        "MovingFunctions.stdDev" => Moving::StdDev,
        "MovingFunctions.ewma" => Moving::Ewma {
            alpha: argument(1)
                .filter(|alpha| (0.0..=1.0).contains(alpha))
                .ok_or_else(|| options.bad("script"))?,
        },
        _ => {
            return Err(Error::illegal_argument(format!(
                "[moving_fn] aggregation [{}] supports one call of MovingFunctions.max, min, sum, unweightedAvg, linearWeightedAvg, stdDev or ewma, not [{text}]",
                options.name
            )));
        }
    };
    Ok(PipelineKind::MovingFunction { path: path(options)?, gaps, window, shift, function })
}

fn bucket_sort(options: &mut Options<'_>, gaps: Gaps) -> Result<PipelineKind, Error> {
    let list = match options.take("sort") {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    let mut order = Vec::new();
    for one in &list {
        let (path, direction) = match one {
            Value::String(path) => (path.clone(), None),
            Value::Object(map) if map.len() == 1 => {
                let (path, spec) = map.iter().next().ok_or_else(|| options.bad("sort"))?;
                let direction = match spec {
                    Value::String(direction) => Some(direction.clone()),
                    Value::Object(spec) => {
                        spec.get("order").and_then(Value::as_str).map(str::to_owned)
                    }
                    _ => return Err(options.bad("sort")),
                };
                (path.clone(), direction)
            }
            _ => return Err(options.bad("sort")),
        };
        let by = match path.as_str() {
            "_count" => OrderBy::Count,
            "_key" => OrderBy::Key,
            path => metric_path(path),
        };
        order.push(Order {
            by,
            ascending: !direction.is_some_and(|direction| direction.eq_ignore_ascii_case("desc")),
        });
    }
    let from = usize::try_from(options.u64("from")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let size = options.positive("size")?;
    if order.is_empty() && size.is_none() && from == 0 {
        return Err(validation(format!(
            "[{}] is configured to perform nothing. Please set either of [sort, size, from] to use bucket_sort",
            options.name
        )));
    }
    Ok(PipelineKind::BucketSort { order, from, size, gaps })
}

fn validation(reason: String) -> Error {
    Error::invalid(
        "action_request_validation_exception",
        format!("Validation Failed: 1: {reason};"),
    )
}

/// Pipelines must find what they compute from, and those on sequences need one.
pub(super) fn check_level(
    pipelines: &[Pipeline],
    nodes: &[Node],
    parent: Option<(&str, &Kind)>,
) -> Result<(), Error> {
    for pipeline in pipelines {
        let exists = |first: &str| {
            first.starts_with('_')
                || nodes.iter().any(|node| node.name == first)
                || pipelines.iter().any(|other| other.name == first && other.name != pipeline.name)
        };
        let check = |path: &Path| match path.parts.first() {
            Some(first) if !exists(first) => {
                Err(validation(format!("No aggregation found for path [{}]", path.parts.join(">"))))
            }
            _ => Ok(()),
        };
        let sequence = match &pipeline.kind {
            PipelineKind::Sibling { path, .. } => {
                check_sibling(pipeline, path, nodes)?;
                None
            }
            PipelineKind::Derivative { path, .. } => Some(("derivative", path)),
            PipelineKind::CumulativeSum { path } => Some(("cumulative_sum", path)),
            PipelineKind::SerialDifference { path, .. } => Some(("serial_diff", path)),
            PipelineKind::MovingFunction { path, .. } => Some(("moving_fn", path)),
            PipelineKind::BucketScript { paths, .. }
            | PipelineKind::BucketSelector { paths, .. } => {
                paths.iter().try_for_each(|(_, path)| check(path))?;
                check_has_buckets(pipeline, parent)?;
                None
            }
            PipelineKind::BucketSort { .. } => {
                check_has_buckets(pipeline, parent)?;
                None
            }
        };
        if let Some((kind, path)) = sequence {
            let fits = parent.is_some_and(|(_, kind)| {
                matches!(kind, Kind::Histogram(_) | Kind::DateHistogram(_) | Kind::AutoDate(_))
            });
            if !fits {
                return Err(validation(format!(
                    "{kind} aggregation [{}] must have a histogram, date_histogram or auto_date_histogram as parent",
                    pipeline.name
                )));
            }
            check(path)?;
        }
    }
    Ok(())
}

fn check_sibling(pipeline: &Pipeline, path: &Path, nodes: &[Node]) -> Result<(), Error> {
    let found = path.parts.split_first();
    let found = found
        .and_then(|(first, rest)| Some((nodes.iter().find(|node| node.name == *first)?, rest)));
    let Some((node, rest)) = found else {
        return Err(validation(format!(
            "buckets_path aggregation does not exist for aggregation [{}]: {}",
            pipeline.name,
            path.parts.join(">")
        )));
    };
    if !node.kind.is_bucket() || (node.kind.is_single_bucket() && path.parts.len() < 3) {
        return Err(validation(format!(
            "The first aggregation in buckets_path must be a multi-bucket aggregation for aggregation [{}] found :{}",
            pipeline.name, node.name
        )));
    }
    check_number(path, node, rest)
}

/// What is left of a path below an aggregation has to lead to one number of each bucket.
fn check_number(path: &Path, node: &Node, rest: &[String]) -> Result<(), Error> {
    let wrong = |found: &str| {
        let reason = format!(
            "buckets_path must reference either a number value or a single value numeric metric aggregation, got: [{found}] at [{}]",
            path.parts.join(">")
        );
        Error::invalid("aggregation_execution_exception", reason)
    };
    let Some((step, rest)) = rest.split_first() else {
        let is_number = match &node.kind {
            Kind::Metric { metric, .. } => path.property.is_some() || metric.is_one_number(),
            Kind::Weighted(_) => true,
            _ => false,
        };
        return if is_number { Ok(()) } else { Err(wrong(&node.name)) };
    };
    if is_own(step) {
        return Ok(());
    }
    if let Some(below) = node.subs.iter().find(|below| below.name == *step) {
        return check_number(path, below, rest);
    }
    if node.pipelines.iter().any(|below| below.name == *step) {
        return Ok(());
    }
    Err(Error::invalid(
        "invalid_aggregation_path_exception",
        format!("Cannot find an aggregation named [{step}] in [{}]", node.name),
    ))
}

fn check_has_buckets(pipeline: &Pipeline, parent: Option<(&str, &Kind)>) -> Result<(), Error> {
    if parent.is_some_and(|(_, kind)| kind.is_bucket() && !kind.is_single_bucket()) {
        return Ok(());
    }
    Err(validation(format!(
        "aggregation [{}] must be declared inside of another aggregation that has buckets",
        pipeline.name
    )))
}
