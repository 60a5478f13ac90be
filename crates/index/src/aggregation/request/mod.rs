//! What a request asks for: the tree of aggregations ([`ast`]), as read from Elasticsearch's JSON.
//!
//! Reading never needs the index: whether a field exists, and what it holds, is seen when a
//! partition collects. Nothing in the JSON makes the reading panic; what is not supported is named.

mod ast;
mod buckets;
mod metrics;
mod options;
mod pipelines;
mod ranges;

use serde_json::{Map, Value};

pub(crate) use self::ast::{
    AutoDate, Composite, CompositeKind, CompositeSource, DateBound, DateHistogram, DateRange,
    Filters, Gaps, GeoDistance, GeoGrid, Histogram, Kind, Metric, Moving, MultiTerms, Node,
    NumericRange, Order, OrderBy, OverBuckets, Path, Pattern, Pipeline, PipelineKind, RangeOf,
    Significant, Sketch, SortBy, Source, Terms, TermsFilter, TopHits, Weighted,
};
use self::options::Options;
pub(crate) use self::options::number as request_number;
pub(crate) use self::ranges::{parse_ip, read_ip};
use crate::Error;

/// How deep aggregations may be nested.
const DEPTH_MAX: usize = 100;

/// How many aggregations one request may hold, those below others counted.
const NODES_MAX: usize = 10_000;

/// A whole request: what is computed, and what is computed from the results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pipelines: Vec<Pipeline>,
}

impl Request {
    /// Reads the object below `aggs` or `aggregations`.
    ///
    /// # Errors
    /// Elasticsearch's own, with 400.
    pub(crate) fn parse(body: &Value) -> Result<Self, Error> {
        let mut count = 0;
        let (nodes, pipelines) = parse_level(body, None, 1, &mut count)?;
        pipelines::check_level(&pipelines, &nodes, None)?;
        Ok(Self { nodes, pipelines })
    }
}

fn parse_level(
    body: &Value,
    parent: Option<&str>,
    depth: usize,
    count: &mut usize,
) -> Result<(Vec<Node>, Vec<Pipeline>), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::illegal_argument(format!(
            "The nested depth of the aggregations exceeds the maximum of [{DEPTH_MAX}]"
        )));
    }
    let Value::Object(map) = body else {
        return Err(Error::parsing(format!(
            "Expected [START_OBJECT] under [aggs], but got a [{}]{}",
            options::token(body),
            parent.map(|name| format!(" in [{name}]")).unwrap_or_default()
        )));
    };
    let mut nodes = Vec::new();
    let mut pipelines = Vec::new();
    for (name, definition) in map {
        *count += 1;
        if *count > NODES_MAX {
            return Err(Error::illegal_argument(format!(
                "a request may hold no more than [{NODES_MAX}] aggregations"
            )));
        }
        match parse_one(name, definition, parent, depth, count)? {
            Parsed::Node(node) => nodes.push(*node),
            Parsed::Pipeline(pipeline) => pipelines.push(*pipeline),
        }
    }
    Ok((nodes, pipelines))
}

enum Parsed {
    Node(Box<Node>),
    Pipeline(Box<Pipeline>),
}

fn parse_one(
    name: &str,
    definition: &Value,
    parent: Option<&str>,
    depth: usize,
    count: &mut usize,
) -> Result<Parsed, Error> {
    if name.is_empty() || name.contains(['[', ']', '>']) {
        return Err(Error::parsing(format!(
            "Invalid aggregation name [{name}]. Aggregation names can contain any character except '[', ']', and '>'"
        )));
    }
    let Value::Object(definition) = definition else {
        return Err(Error::parsing(format!(
            "Aggregation definition for [{name} starts with a [{}], expected a [START_OBJECT].",
            options::token(definition)
        )));
    };
    let parts = split(name, definition)?;
    let Some((kind_name, body)) = parts.kind else {
        return Err(Error::parsing(format!("Missing definition for aggregation [{name}]")));
    };
    let meta = parts.meta.cloned();
    if let Some(kind) = pipelines::parse(name, kind_name, body)? {
        if parts.subs.is_some() {
            return Err(no_subs(name, kind_name));
        }
        return Ok(Parsed::Pipeline(Box::new(Pipeline { name: name.to_owned(), kind, meta })));
    }
    let kind = parse_kind(name, kind_name, body)?;
    let (subs, sub_pipelines) = match parts.subs {
        Some(_) if !kind.is_bucket() => return Err(no_subs(name, kind_name)),
        Some(subs) => parse_level(subs, Some(name), depth + 1, count)?,
        None => (Vec::new(), Vec::new()),
    };
    if parent.is_some() && matches!(kind, Kind::Global) {
        return Err(Error::illegal_argument(format!(
            "Aggregation [{name}] cannot have a global sub-aggregation: [global] can only be a top level aggregation"
        )));
    }
    buckets::check_order(name, &kind, &subs)?;
    pipelines::check_level(&sub_pipelines, &subs, Some((name, &kind)))?;
    Ok(Parsed::Node(Box::new(Node {
        name: name.to_owned(),
        kind,
        subs,
        pipelines: sub_pipelines,
        meta,
    })))
}

fn no_subs(name: &str, kind: &str) -> Error {
    Error::invalid(
        "aggregation_initialization_exception",
        format!("Aggregator [{name}] of type [{kind}] cannot accept sub-aggregations"),
    )
}

/// The parts of one definition: its one kind with its options, `meta`, and what is below it.
#[derive(Default)]
struct Parts<'a> {
    kind: Option<(&'a str, &'a Value)>,
    meta: Option<&'a Value>,
    subs: Option<&'a Value>,
}

fn split<'a>(name: &str, definition: &'a Map<String, Value>) -> Result<Parts<'a>, Error> {
    let mut parts = Parts::default();
    for (key, value) in definition {
        if !value.is_object() {
            return Err(Error::parsing(format!(
                "Expected [START_OBJECT] under [{key}], but got a [{}] in [{name}]",
                options::token(value)
            )));
        }
        match key.as_str() {
            "meta" => parts.meta = Some(value),
            "aggs" | "aggregations" => {
                if parts.subs.replace(value).is_some() {
                    return Err(Error::parsing(format!(
                        "Found two sub aggregation definitions under [{name}]"
                    )));
                }
            }
            kind => {
                if let Some((first, _)) = parts.kind.replace((kind, value)) {
                    return Err(Error::parsing(format!(
                        "Found two aggregation type definitions in [{name}]: [{first}] and [{kind}]"
                    )));
                }
            }
        }
    }
    Ok(parts)
}

/// The kinds by name, for a hint where one is misspelt.
const KINDS: &[&str] = &[
    "auto_date_histogram",
    "avg",
    "cardinality",
    "composite",
    "date_histogram",
    "date_range",
    "extended_stats",
    "filter",
    "filters",
    "geo_bounds",
    "geo_centroid",
    "geo_distance",
    "geohash_grid",
    "geotile_grid",
    "global",
    "histogram",
    "ip_range",
    "max",
    "median_absolute_deviation",
    "min",
    "missing",
    "multi_terms",
    "percentile_ranks",
    "percentiles",
    "range",
    "rare_terms",
    "significant_terms",
    "stats",
    "sum",
    "terms",
    "top_hits",
    "value_count",
    "weighted_avg",
];

fn parse_kind(name: &str, kind: &str, body: &Value) -> Result<Kind, Error> {
    // A filter's body is a query, not options of the aggregation.
    if kind == "filter" {
        return Ok(Kind::Filter(body.clone()));
    }
    if matches!(kind, "nested" | "reverse_nested") {
        return Err(Error::parsing(format!("aggregation type [{kind}] is not supported")));
    }
    let mut options = Options::new(name, kind, body)?;
    let parsed = match kind {
        "terms" => buckets::terms(&mut options),
        "rare_terms" => buckets::rare_terms(&mut options),
        "significant_terms" => buckets::significant_terms(&mut options),
        "multi_terms" => buckets::multi_terms(&mut options),
        "composite" => buckets::composite(&mut options),
        "histogram" => buckets::histogram(&mut options),
        "date_histogram" => buckets::date_histogram(&mut options),
        "auto_date_histogram" => buckets::auto_date_histogram(&mut options),
        "range" => ranges::range(&mut options),
        "date_range" => ranges::date_range(&mut options),
        "ip_range" => ranges::ip_range(&mut options),
        "geo_distance" => ranges::geo_distance(&mut options),
        "geohash_grid" | "geotile_grid" => ranges::geo_grid(&mut options),
        "filters" => buckets::filters(&mut options),
        "missing" => options.required_field().map(Kind::Missing),
        "global" => Ok(Kind::Global),
        _ => match metrics::parse(kind, &mut options)? {
            Some(kind) => Ok(kind),
            None => Err(unknown_kind(kind)),
        },
    }?;
    options.finish()?;
    Ok(parsed)
}

fn unknown_kind(kind: &str) -> Error {
    let close = KINDS
        .iter()
        .filter(|known| known.starts_with(kind) || (kind.len() > 2 && kind.starts_with(*known)))
        .min_by_key(|known| known.len().abs_diff(kind.len()));
    let hint = close.map(|known| format!(" did you mean [{known}]?")).unwrap_or_default();
    Error::parsing(format!("Unknown aggregation type [{kind}]{hint}")).caused_by(Error::invalid(
        "named_object_not_found_exception",
        format!("unknown field [{kind}]"),
    ))
}
