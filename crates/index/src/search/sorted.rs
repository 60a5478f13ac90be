//! Hits in the order of `sort`: what it sorts by is looked up, and the first hits of all segments are put in order by
//! their values. [`walk`] finds the first ones of each.

use std::cmp::Ordering;

use serde_json::Value;
use tantivy::query::EnableScoring;

use super::collapse;
use super::failure::internal;
use super::limits::{Count, Limits};
use super::request::SearchRequest;
use super::result::{Hit, SortValue};
use super::segment_sort::{BoundBy, BoundClause};
use super::sort::{FieldSort, Missing, SortBy, SortClause};
use super::walk::{self, Plan};
use crate::error::Error;
use crate::mapping::date::DateFormat;
use crate::partition::{Kind, Target};
use crate::query::Context;
use crate::query::ast::ValueMode;
use crate::query::compile::{Compiled, Resolved, bind_script, shard_error};
use crate::query::parse::as_text;

/// Finds the fields of `sort`.
pub(super) fn bind(
    context: &Context<'_>,
    clauses: &[SortClause],
) -> Result<Vec<BoundClause>, Error> {
    clauses
        .iter()
        .map(|clause| {
            let descending = clause.descending;
            let by = match &clause.by {
                SortBy::Score => BoundBy::Score,
                SortBy::Doc => BoundBy::Doc,
                SortBy::Field(field) => bind_field(context, field, descending)?,
                SortBy::Geo { field, points, metres, mode, ignore_unmapped } => BoundBy::Geo {
                    target: geo_target(context, field, *ignore_unmapped)?,
                    points: points.clone(),
                    metres: *metres,
                    mode: mode.unwrap_or(default_mode(descending)),
                },
                SortBy::Script(script) => BoundBy::Script { bound: bind_script(context, script)? },
            };
            Ok(BoundClause { by, descending })
        })
        .collect()
}

const fn default_mode(descending: bool) -> ValueMode {
    if descending { ValueMode::Max } else { ValueMode::Min }
}

fn geo_target(
    context: &Context<'_>,
    field: &str,
    ignore_unmapped: bool,
) -> Result<Option<Target>, Error> {
    match context.resolve(field) {
        Some(resolved) if matches!(resolved.target.kind, Kind::GeoPoint { .. }) => {
            Ok(Some(resolved.target.clone()))
        }
        Some(_) => Err(Error::illegal_argument(format!(
            "unable to apply geo distance sort to field [{field}] of another type than geo_point"
        ))),
        None if ignore_unmapped => Ok(None),
        None => Err(Error::illegal_argument(format!(
            "failed to find mapper for [{field}] for geo distance based sort"
        ))),
    }
}

fn bind_field(
    context: &Context<'_>,
    field: &FieldSort,
    descending: bool,
) -> Result<BoundBy, Error> {
    let name = &field.name;
    let mode = field.mode.unwrap_or(default_mode(descending));
    let Some(resolved) = context.resolve(name) else {
        return bind_unmapped(context, field, descending, mode);
    };
    let target = resolved.target;
    if let Kind::Text { .. } = target.kind {
        return Err(Error::illegal_argument(format!(
            "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true on [{name}] in order to load field data by uninverting the inverted index. Note that this can use significant memory."
        )));
    }
    if target.column.is_none() && !matches!(target.kind, Kind::GeoPoint { .. }) {
        return Err(Error::illegal_argument(format!(
            "Can't load fielddata on [{name}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
            resolved.field.field_type().name()
        )));
    }
    let dates = DateSort::of(Some(&resolved), field)?;
    let owned = Some(target.clone());
    Ok(match &target.kind {
        Kind::Long => BoundBy::Long {
            target: owned,
            missing: long_missing(&field.missing, descending, None)?,
            mode,
        },
        Kind::Date { .. } => {
            let missing = long_missing(&field.missing, descending, dates.as_ref())?;
            BoundBy::Long { target: owned, missing, mode }
        }
        Kind::UnsignedLong | Kind::Boolean => {
            let missing = match &field.missing {
                Missing::Last => {
                    if descending {
                        0
                    } else {
                        u64::MAX
                    }
                }
                Missing::First => {
                    if descending {
                        u64::MAX
                    } else {
                        0
                    }
                }
                Missing::As(value) => match value {
                    Value::Bool(flag) => u64::from(*flag),
                    other => as_text(other).parse().map_err(|_| bad_missing(other))?,
                },
            };
            let as_long = matches!(target.kind, Kind::Boolean);
            BoundBy::Unsigned { target: owned, missing, mode, as_long }
        }
        Kind::Double => {
            let missing = double_missing(&field.missing, descending)?;
            BoundBy::Double { target: owned, missing, mode }
        }
        Kind::Keyword { .. } => {
            BoundBy::Text { target: owned, missing: field.missing.clone(), mode }
        }
        _ => {
            return Err(Error::illegal_argument(format!(
                "can't sort on {} field without using specific sorting feature, like geo_distance",
                resolved.field.field_type().name()
            )));
        }
    })
}

/// A field without values: all documents lack one.
fn bind_unmapped(
    context: &Context<'_>,
    field: &FieldSort,
    descending: bool,
    mode: ValueMode,
) -> Result<BoundBy, Error> {
    let name = &field.name;
    let kind = match (&field.unmapped_type, context.view.mapping().field(name)) {
        (Some(kind), _) => kind.as_str(),
        (None, Some(mapped)) => mapped.field_type().name(),
        (None, None) => {
            let reason = format!("No mapping found for [{name}] in order to sort on");
            return Err(shard_error(reason));
        }
    };
    Ok(match kind {
        "keyword" | "text" | "ip" | "wildcard" => {
            BoundBy::Text { target: None, missing: field.missing.clone(), mode }
        }
        "double" | "float" | "half_float" | "scaled_float" => {
            let missing = double_missing(&field.missing, descending)?;
            BoundBy::Double { target: None, missing, mode }
        }
        _ => {
            let dates = DateSort::of(None, field)?;
            let missing = long_missing(&field.missing, descending, dates.as_ref())?;
            BoundBy::Long { target: None, missing, mode }
        }
    })
}

fn bad_missing(value: &Value) -> Error {
    Error::illegal_argument(format!("For input string: \"{}\"", as_text(value)))
}

fn long_missing(
    missing: &Missing,
    descending: bool,
    dates: Option<&DateSort>,
) -> Result<i64, Error> {
    Ok(match missing {
        Missing::Last => {
            if descending {
                i64::MIN
            } else {
                i64::MAX
            }
        }
        Missing::First => {
            if descending {
                i64::MAX
            } else {
                i64::MIN
            }
        }
        Missing::As(value) => as_long(value, dates).ok_or_else(|| bad_missing(value))?,
    })
}

/// How dates are written where they are sorted: by the clause's format, or else the field's.
struct DateSort {
    format: DateFormat,
    nanos: bool,
}

impl DateSort {
    /// None where the field holds no dates. One that the mapping lacks holds what the clause says.
    fn of(resolved: Option<&Resolved<'_>>, field: &FieldSort) -> Result<Option<Self>, Error> {
        let (nanos, own) = match resolved.map(|resolved| (&resolved.target.kind, resolved.field)) {
            Some((Kind::Date { nanos }, own)) => (*nanos, own.field_type().name()),
            Some(_) => return Ok(None),
            None => match field.unmapped_type.as_deref() {
                Some(own @ ("date" | "date_nanos")) => (own == "date_nanos", own),
                _ => return Ok(None),
            },
        };
        if let Some(other) = field.numeric_type.as_deref().filter(|wanted| *wanted != own) {
            return Err(Error::illegal_argument(format!(
                "[numeric_type] [{other}] is not supported on field [{}] of type [{own}]",
                field.name
            )));
        }
        let mapped = resolved.and_then(|resolved| resolved.field.date_format());
        let format = match (&field.format, mapped) {
            (Some(pattern), _) => DateFormat::parse_pattern(pattern)?,
            (None, Some(format)) => format.as_ref().clone(),
            (None, None) => DateFormat::default_date(),
        };
        Ok(Some(Self { format, nanos }))
    }

    /// A date in the unit of its column.
    fn read(&self, text: &str) -> Option<i64> {
        let moment = self.format.try_parse(text)?;
        if self.nanos { moment.as_nanos_signed() } else { Some(moment.millis) }
    }
}

fn double_missing(missing: &Missing, descending: bool) -> Result<f64, Error> {
    Ok(match missing {
        Missing::Last => {
            if descending {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Missing::First => {
            if descending {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
        Missing::As(value) => as_text(value).parse().map_err(|_| bad_missing(value))?,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a cast saturates")]
fn as_long(value: &Value, dates: Option<&DateSort>) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    if let Some(number) = value.as_f64() {
        return Some(number as i64);
    }
    let text = as_text(value);
    // What was printed by a format is read by it: `1704067200123` may be milliseconds of a column
    // of nanoseconds.
    dates.and_then(|dates| dates.read(&text)).or_else(|| text.parse().ok())
}

/// The values of `search_after` as those of the clauses.
fn after_values(
    context: &Context<'_>,
    request: &SearchRequest,
    clauses: &[BoundClause],
) -> Result<Option<Vec<SortValue>>, Error> {
    let Some(values) = &request.search_after else { return Ok(None) };
    let mut found = Vec::with_capacity(values.len());
    for ((value, clause), sort) in values.iter().zip(clauses).zip(&request.sort) {
        let wrong = || {
            let field = match &sort.by {
                SortBy::Field(field) => field.name.as_str(),
                SortBy::Score => "_score",
                _ => "_doc",
            };
            Error::illegal_argument(format!(
                "Failed to parse search_after value for field [{field}]."
            ))
        };
        found.push(match &clause.by {
            // A document without a value is where the one is that stands for none.
            BoundBy::Long { missing, .. } if value.is_null() => SortValue::Long(*missing),
            BoundBy::Long { .. } => {
                let dates = match &sort.by {
                    SortBy::Field(field) => {
                        DateSort::of(context.resolve(&field.name).as_ref(), field)?
                    }
                    _ => None,
                };
                SortValue::Long(as_long(value, dates.as_ref()).ok_or_else(wrong)?)
            }
            BoundBy::Doc => SortValue::Long(value.as_i64().ok_or_else(wrong)?),
            BoundBy::Unsigned { .. } => match value {
                Value::Bool(flag) => SortValue::Unsigned(u64::from(*flag)),
                other => SortValue::Unsigned(as_text(other).parse().map_err(|_| wrong())?),
            },
            // A score is printed with the digits of 32 bits.
            BoundBy::Score => SortValue::Score(as_text(value).parse().map_err(|_| wrong())?),
            BoundBy::Double { .. } | BoundBy::Geo { .. } | BoundBy::Script { .. } => {
                SortValue::Double(match as_text(value).as_str() {
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    other => other.parse().map_err(|_| wrong())?,
                })
            }
            BoundBy::Text { .. } => match value {
                Value::Null => SortValue::Null,
                Value::Array(_) | Value::Object(_) => return Err(wrong()),
                other => SortValue::Text(as_text(other)),
            },
        });
    }
    Ok(Some(found))
}

/// Finds the first hits of `sort`.
pub(super) fn find(
    context: &Context<'_>,
    request: &SearchRequest,
    mut clauses: Vec<BoundClause>,
    hits: Compiled,
    limits: &Limits<'_>,
) -> Result<(Vec<Hit>, Count), Error> {
    let after = after_values(context, request, &clauses)?;
    // What is sorted by nothing is sorted by score.
    let by_score = clauses.is_empty();
    if by_score {
        clauses.push(BoundClause { by: BoundBy::Score, descending: true });
    }
    let reads_score = request.has_scores() || clauses.iter().any(BoundClause::uses_score);
    let searcher = context.view.searcher();
    let query = if reads_score { hits.into_query() } else { hits.query };
    let scoring = if reads_score {
        EnableScoring::enabled_from_searcher(searcher)
    } else {
        EnableScoring::disabled_from_searcher(searcher)
    };
    let weight = query.weight(scoring).map_err(internal)?;
    let groups = match &request.collapse {
        Some(name) => Some(collapse::target(context, name)?),
        None => None,
    };
    let plan = Plan {
        view: context.view,
        clauses: &clauses,
        weight: weight.as_ref(),
        limits,
        reads_score,
        keeps_score: request.has_scores(),
        after,
        groups,
    };
    let (mut found, count) = walk::first_hits(plan)?;
    let descending: Vec<bool> = clauses.iter().map(|clause| clause.descending).collect();
    let missing_first: Vec<bool> = nulls_first(&clauses);
    found.sort_by(|a, b| {
        compare(&a.sort, &b.sort, &descending, &missing_first).then(a.address.cmp(&b.address))
    });
    if request.collapse.is_some() {
        let mut seen = std::collections::HashSet::new();
        found.retain(|hit| seen.insert(group_of(hit)));
    }
    found.truncate(limits.window);
    if by_score {
        for hit in &mut found {
            hit.sort.clear();
        }
    }
    Ok((found, count))
}

/// What tells the groups of hits apart.
pub(super) fn group_of(hit: &Hit) -> Option<String> {
    match &hit.group {
        Some(SortValue::Null) | None => None,
        Some(group) => Some(group.to_json().to_string()),
    }
}

/// For each clause, whether documents without a value come first.
pub(super) fn nulls_first(clauses: &[BoundClause]) -> Vec<bool> {
    clauses
        .iter()
        .map(|clause| matches!(&clause.by, BoundBy::Text { missing: Missing::First, .. }))
        .collect()
}

/// The order of two hits by their values.
pub(super) fn compare(
    a: &[SortValue],
    b: &[SortValue],
    descending: &[bool],
    nulls_first: &[bool],
) -> Ordering {
    for (((a, b), descending), nulls_first) in a.iter().zip(b).zip(descending).zip(nulls_first) {
        let order = match (a, b) {
            (SortValue::Null, SortValue::Null) => Ordering::Equal,
            (SortValue::Null, _) => {
                if *nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (_, SortValue::Null) => {
                if *nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            _ if *descending => b.compare(a),
            _ => a.compare(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}
