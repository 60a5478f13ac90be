//! `term`, `terms`, `range`, `exists` and `ids`.

use std::ops::Bound;

use serde_json::Value;
use tantivy::Term;
use tantivy::query::{InvertedIndexRangeQuery, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};

use super::compiled::Compiled;
use super::context::Context;
use super::dates::DateReader;
use super::fields::Resolved;
use super::refusal::failed_to_create;
use super::values::{Whole, addresses, boolean, double, number_format, rounded, whole};
use crate::error::Error;
use crate::partition::Kind;
use crate::query::ast::Range;
use crate::query::exec::automaton::Wildcard;
use crate::query::exec::exact::LuceneTerm;
use crate::query::exec::filter::FilterQuery;
use crate::query::exec::keyword::{HasValue, IpRange, StringRange, TermSet};
use crate::query::exec::number::{InRange, OneOf};
use crate::query::exec::statistics::{FieldScored, constant_score};
use crate::query::parse::as_text;

pub(super) fn compile_term(
    context: &Context<'_>,
    name: &str,
    value: &Value,
    case_insensitive: bool,
) -> Result<Compiled, Error> {
    if name == "_id" {
        return Ok(compile_ids(context, &[as_text(value)]));
    }
    let Some(resolved) = context.resolve(name) else { return Ok(Compiled::none()) };
    if case_insensitive
        && let Kind::Text { .. } | Kind::Keyword { .. } = resolved.target.kind
        && resolved.target.indexed
    {
        let text = normalized(resolved, value);
        return Ok(context.automaton(resolved.target.field, Wildcard::exact(&text, true)));
    }
    term(context, resolved, value)
}

/// A keyword as its field keeps it.
pub(super) fn normalized(resolved: Resolved<'_>, value: &Value) -> String {
    let text = as_text(value);
    match &resolved.target.kind {
        Kind::Keyword { normalizer: Some(normalizer) } => normalizer.normalize(&text),
        _ => text,
    }
}

/// The documents that have one value.
pub(super) fn term(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    value: &Value,
) -> Result<Compiled, Error> {
    let target = resolved.target;
    match &target.kind {
        Kind::Text { .. } => Ok(text_term(context, resolved, &as_text(value))),
        Kind::Keyword { .. } => {
            let text = normalized(resolved, value);
            if !target.indexed {
                return Ok(column_string(resolved, Bound::Included(&text), Bound::Included(&text)));
            }
            Ok(keyword_term(context, resolved, Term::from_field_text(target.field, &text)))
        }
        Kind::Boolean => {
            let flag = u64::from(boolean(value).map_err(failed_to_create)?);
            if target.indexed {
                let term = Term::from_field_u64(target.field, flag);
                return Ok(keyword_term(context, resolved, term));
            }
            Ok(in_range(resolved, flag..=flag))
        }
        Kind::Long => match whole(value).map_err(failed_to_create)? {
            Whole::Exact(exact) => Ok(match i64::try_from(exact) {
                Ok(exact) if target.indexed => {
                    plain_term(Term::from_field_i64(target.field, exact))
                }
                Ok(exact) => in_range(resolved, exact..=exact),
                Err(_) => Compiled::none(),
            }),
            Whole::Between(_) => Ok(Compiled::none()),
        },
        Kind::UnsignedLong => match whole(value).map_err(failed_to_create)? {
            Whole::Exact(exact) => Ok(match u64::try_from(exact) {
                Ok(exact) if target.indexed => {
                    plain_term(Term::from_field_u64(target.field, exact))
                }
                Ok(exact) => in_range(resolved, exact..=exact),
                Err(_) => Compiled::none(),
            }),
            Whole::Between(_) => Ok(Compiled::none()),
        },
        Kind::Double => {
            let number = rounded(resolved, double(value).map_err(failed_to_create)?);
            Ok(doubles(resolved, number, number))
        }
        Kind::Date { nanos } => {
            let reader = DateReader::new(context, resolved, *nanos, None, None)?;
            let (from, to) = (reader.read(value, false)?, reader.read(value, true)?);
            Ok(longs(resolved, from, to))
        }
        Kind::Ip => {
            let (from, to) = addresses(value).map_err(failed_to_create)?;
            Ok(ips(resolved, from, to))
        }
        Kind::GeoPoint { .. } => Err(failed_to_create(Error::illegal_argument(format!(
            "Geometry fields do not support exact searching, use dedicated geometry queries instead: [{}]",
            resolved.path
        )))),
        Kind::Binary => {
            Err(failed_to_create(Error::illegal_argument("Binary fields do not support searching")))
        }
    }
}

/// A term that scores 1.
fn plain_term(term: Term) -> Compiled {
    Compiled::constant(TermQuery::new(term, IndexRecordOption::Basic))
}

/// A term of a field without lengths and frequencies: its score depends on the term alone.
fn keyword_term(context: &Context<'_>, resolved: Resolved<'_>, term: Term) -> Compiled {
    let doc_freq = context.view.searcher().doc_freq(&term).unwrap_or(0);
    let (documents, values) = context.column_counts(resolved.target);
    let score = constant_score(doc_freq, documents, values);
    let query = Box::new(TermQuery::new(term, IndexRecordOption::Basic));
    Compiled { query, score: Some(score) }
}

/// A term of a text, as it is in the index.
pub(super) fn text_term(context: &Context<'_>, resolved: Resolved<'_>, text: &str) -> Compiled {
    let target = resolved.target;
    let term = Term::from_field_text(target.field, text);
    match target.kind {
        Kind::Text { scored: true, .. } => {
            let doc_count = context.doc_count(target);
            context.note_text();
            if context.is_exact() {
                let name = format!("{}:{text}", resolved.path);
                return Compiled::scored(LuceneTerm { term, name, doc_count });
            }
            let inner = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            Compiled::scored(FieldScored { inner, doc_count })
        }
        _ => plain_term(term),
    }
}

fn in_range<T: crate::query::exec::number::Value>(
    resolved: Resolved<'_>,
    range: std::ops::RangeInclusive<T>,
) -> Compiled {
    match &resolved.target.column {
        Some(column) => {
            let column = column.clone();
            Compiled { query: FilterQuery::boxed(InRange { column, range }), score: Some(1.0) }
        }
        None => Compiled::none(),
    }
}

/// Whole numbers or dates from one to another.
fn longs(resolved: Resolved<'_>, from: i64, to: i64) -> Compiled {
    if from > to {
        return Compiled::none();
    }
    if resolved.target.column.is_some() {
        return in_range(resolved, from..=to);
    }
    let term = |value| Term::from_field_i64(resolved.target.field, value);
    terms_between(resolved, term(from), term(to))
}

fn unsigned(resolved: Resolved<'_>, from: u64, to: u64) -> Compiled {
    if from > to {
        return Compiled::none();
    }
    if resolved.target.column.is_some() {
        return in_range(resolved, from..=to);
    }
    let term = |value| Term::from_field_u64(resolved.target.field, value);
    terms_between(resolved, term(from), term(to))
}

fn doubles(resolved: Resolved<'_>, from: f64, to: f64) -> Compiled {
    if from > to {
        return Compiled::none();
    }
    if resolved.target.column.is_some() {
        return in_range(resolved, from..=to);
    }
    let term = |value| Term::from_field_f64(resolved.target.field, value);
    terms_between(resolved, term(from), term(to))
}

fn ips(resolved: Resolved<'_>, from: std::net::Ipv6Addr, to: std::net::Ipv6Addr) -> Compiled {
    if from > to {
        return Compiled::none();
    }
    if from == to && resolved.target.indexed {
        return plain_term(Term::from_field_ip_addr(resolved.target.field, from));
    }
    if let Some(column) = resolved.target.column.clone() {
        let query = FilterQuery::boxed(IpRange { column, from, to });
        return Compiled { query, score: Some(1.0) };
    }
    let term = |value| Term::from_field_ip_addr(resolved.target.field, value);
    terms_between(resolved, term(from), term(to))
}

fn terms_between(resolved: Resolved<'_>, from: Term, to: Term) -> Compiled {
    if !resolved.target.indexed {
        return Compiled::none();
    }
    Compiled::constant(InvertedIndexRangeQuery::new(Bound::Included(from), Bound::Included(to)))
}

fn column_string(resolved: Resolved<'_>, lower: Bound<&str>, upper: Bound<&str>) -> Compiled {
    let Some(column) = resolved.target.column.clone() else { return Compiled::none() };
    let bytes = |bound: Bound<&str>| bound.map(|text| text.as_bytes().to_vec());
    let filter = StringRange { column, lower: bytes(lower), upper: bytes(upper) };
    Compiled { query: FilterQuery::boxed(filter), score: Some(1.0) }
}

/// Fewer terms than this are always looked up one by one.
const TERMS_LOOKUP_MAX: usize = 64;

pub(super) fn compile_terms(
    context: &Context<'_>,
    name: &str,
    values: &[Value],
) -> Result<Compiled, Error> {
    if name == "_id" {
        let ids: Vec<String> = values.iter().map(as_text).collect();
        return Ok(compile_ids(context, &ids));
    }
    let Some(resolved) = context.resolve(name) else { return Ok(Compiled::none()) };
    let target = resolved.target;
    // One value's words for what does not fit, whatever the kind.
    if values.is_empty() {
        return Ok(Compiled::none());
    }
    match &target.kind {
        Kind::Text { .. } | Kind::Keyword { .. } if target.indexed => {
            let terms = values.iter().map(|value| normalized(resolved, value).into_bytes());
            Ok(term_set(target.field, terms.collect()))
        }
        Kind::Long => {
            let mut wanted = Vec::with_capacity(values.len());
            for value in values {
                if let Whole::Exact(exact) = whole(value).map_err(failed_to_create)? {
                    wanted.extend(i64::try_from(exact));
                }
            }
            Ok(numbers(context, resolved, &wanted, Term::from_field_i64))
        }
        Kind::UnsignedLong => {
            let mut wanted = Vec::with_capacity(values.len());
            for value in values {
                if let Whole::Exact(exact) = whole(value).map_err(failed_to_create)? {
                    wanted.extend(u64::try_from(exact));
                }
            }
            Ok(numbers(context, resolved, &wanted, Term::from_field_u64))
        }
        Kind::Double => {
            let mut wanted = Vec::with_capacity(values.len());
            for value in values {
                wanted.push(rounded(resolved, double(value).map_err(failed_to_create)?));
            }
            Ok(numbers(context, resolved, &wanted, Term::from_field_f64))
        }
        _ => {
            let mut clauses = Vec::with_capacity(values.len());
            for value in values {
                clauses.push(term(context, resolved, value)?);
            }
            let joined = super::compound::join(Vec::new(), clauses, Vec::new(), Vec::new(), None);
            Ok(Compiled { score: Some(1.0), query: joined.query })
        }
    }
}

/// The documents that have one of many numbers: by the terms of few, by the column of many.
fn numbers<T: crate::query::exec::number::Value>(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    wanted: &[T],
    term: fn(Field, T) -> Term,
) -> Compiled {
    let target = resolved.target;
    // A look-up costs about as much as reading the column of 300 documents.
    let documents = context.view.searcher().num_docs();
    let lookups = (wanted.len() as u64).saturating_mul(300);
    let by_terms = target.indexed
        && (target.column.is_none() || wanted.len() < TERMS_LOOKUP_MAX || lookups < documents);
    if by_terms {
        let terms =
            wanted.iter().map(|value| term(target.field, *value).serialized_value_bytes().to_vec());
        return term_set(target.field, terms.collect());
    }
    let Some(column) = target.column.clone() else { return Compiled::none() };
    match OneOf::new(column, wanted) {
        Some(filter) => Compiled { query: FilterQuery::boxed(filter), score: Some(1.0) },
        None => Compiled::none(),
    }
}

fn term_set(field: Field, terms: Vec<Vec<u8>>) -> Compiled {
    if terms.is_empty() {
        return Compiled::none();
    }
    Compiled { query: FilterQuery::boxed(TermSet::new(field, terms)), score: Some(1.0) }
}

pub(super) fn compile_ids(context: &Context<'_>, ids: &[String]) -> Compiled {
    let field = context.view.layout().id_field();
    if let [only] = ids {
        return plain_term(Term::from_field_text(field, only));
    }
    term_set(field, ids.iter().map(|id| id.clone().into_bytes()).collect())
}

pub(super) fn compile_range(context: &Context<'_>, range: &Range) -> Result<Compiled, Error> {
    if range.field == "_id" {
        return Err(failed_to_create(Error::illegal_argument(
            "Field [_id] of type [_id] does not support range queries",
        )));
    }
    let Some(resolved) = context.resolve(&range.field) else { return Ok(Compiled::none()) };
    if range.from.is_none() && range.to.is_none() {
        return Ok(compile_exists(context, &range.field));
    }
    match &resolved.target.kind {
        Kind::Long => {
            let (from, to) = whole_bounds(range, i128::from(i64::MIN), i128::from(i64::MAX))
                .map_err(failed_to_create)?;
            Ok(match (i64::try_from(from), i64::try_from(to)) {
                (Ok(from), Ok(to)) => longs(resolved, from, to),
                _ => Compiled::none(),
            })
        }
        Kind::UnsignedLong => {
            let (from, to) =
                whole_bounds(range, 0, i128::from(u64::MAX)).map_err(failed_to_create)?;
            Ok(match (u64::try_from(from), u64::try_from(to)) {
                (Ok(from), Ok(to)) => unsigned(resolved, from, to),
                _ => Compiled::none(),
            })
        }
        Kind::Boolean => {
            let read = |end: &Option<(Value, bool)>| match end {
                Some((value, inclusive)) => {
                    boolean(value).map(|flag| Some((u64::from(flag), *inclusive)))
                }
                None => Ok(None),
            };
            let from = read(&range.from).map_err(failed_to_create)?;
            let to = read(&range.to).map_err(failed_to_create)?;
            let from = from.map_or(0, |(flag, inclusive)| flag + u64::from(!inclusive));
            let to = match to {
                None => 1,
                Some((flag, true)) => flag,
                Some((0, false)) => return Ok(Compiled::none()),
                Some((flag, false)) => flag - 1,
            };
            Ok(unsigned(resolved, from, to))
        }
        Kind::Double => {
            let (from, to) = double_bounds(resolved, range).map_err(failed_to_create)?;
            Ok(doubles(resolved, from, to))
        }
        Kind::Date { nanos } => {
            let (from, to) = date_bounds(context, resolved, range, *nanos)?;
            Ok(longs(resolved, from, to))
        }
        Kind::Ip => ip_range(resolved, range).map_err(failed_to_create),
        Kind::Keyword { .. } | Kind::Text { .. } => Ok(string_range(resolved, range)),
        Kind::GeoPoint { .. } | Kind::Binary => {
            Err(failed_to_create(Error::illegal_argument(format!(
                "Field [{}] of type [{}] does not support range queries",
                resolved.path,
                resolved.field.field_type().name()
            ))))
        }
    }
}

/// A bound that leaves something open means its first instant where the range starts with it or
/// ends before it, else its last.
fn date_bounds(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    range: &Range,
    nanos: bool,
) -> Result<(i64, i64), Error> {
    let (format, zone) = (range.format.as_deref(), range.time_zone.as_deref());
    let reader = DateReader::new(context, resolved, nanos, format, zone)?;
    let from = match &range.from {
        None => i64::MIN,
        Some((value, true)) => reader.read(value, false)?,
        Some((value, false)) => reader.read(value, true)?.saturating_add(1),
    };
    let to = match &range.to {
        None => i64::MAX,
        Some((value, true)) => reader.read(value, true)?,
        Some((value, false)) => reader.read(value, false)?.saturating_sub(1),
    };
    Ok((from, to))
}

fn whole_bounds(range: &Range, least: i128, most: i128) -> Result<(i128, i128), Error> {
    let from = match &range.from {
        None => least,
        Some((value, inclusive)) => match whole(value)? {
            Whole::Exact(exact) => exact.saturating_add(i128::from(!inclusive)),
            Whole::Between(floor) => floor.saturating_add(1),
        },
    };
    let to = match &range.to {
        None => most,
        Some((value, inclusive)) => match whole(value)? {
            Whole::Exact(exact) => exact.saturating_sub(i128::from(!inclusive)),
            Whole::Between(floor) => floor,
        },
    };
    // What lies outside of the type's range is as far as it goes.
    Ok((from.max(least), to.min(most)))
}

fn double_bounds(resolved: Resolved<'_>, range: &Range) -> Result<(f64, f64), Error> {
    let from = match &range.from {
        None => f64::NEG_INFINITY,
        Some((value, inclusive)) => {
            let number = rounded(resolved, double(value)?);
            if *inclusive { number } else { number.next_up() }
        }
    };
    let to = match &range.to {
        None => f64::INFINITY,
        Some((value, inclusive)) => {
            let number = rounded(resolved, double(value)?);
            if *inclusive { number } else { number.next_down() }
        }
    };
    Ok((from, to))
}

fn ip_range(resolved: Resolved<'_>, range: &Range) -> Result<Compiled, Error> {
    let mut from = std::net::Ipv6Addr::from(0u128);
    let mut to = std::net::Ipv6Addr::from(u128::MAX);
    if let Some((value, inclusive)) = &range.from {
        let number = u128::from(addresses(value)?.0);
        let Some(number) = number.checked_add(u128::from(!inclusive)) else {
            return Ok(Compiled::none());
        };
        from = number.into();
    }
    if let Some((value, inclusive)) = &range.to {
        let number = u128::from(addresses(value)?.1);
        let Some(number) = number.checked_sub(u128::from(!inclusive)) else {
            return Ok(Compiled::none());
        };
        to = number.into();
    }
    Ok(ips(resolved, from, to))
}

fn string_range(resolved: Resolved<'_>, range: &Range) -> Compiled {
    let text = |end: &Option<(Value, bool)>| {
        end.as_ref().map(|(value, inclusive)| (normalized(resolved, value), *inclusive))
    };
    let (from, to) = (text(&range.from), text(&range.to));
    fn bound(end: Option<&(String, bool)>) -> Bound<&str> {
        match end {
            None => Bound::Unbounded,
            Some((text, true)) => Bound::Included(text),
            Some((text, false)) => Bound::Excluded(text),
        }
    }
    if let (Some((from, from_inside)), Some((to, to_inside))) = (&from, &to)
        && (from > to || (from == to && !(*from_inside && *to_inside)))
    {
        return Compiled::none();
    }
    let (lower, upper) = (bound(from.as_ref()), bound(to.as_ref()));
    if resolved.target.column.is_some() {
        return column_string(resolved, lower, upper);
    }
    if !resolved.target.indexed {
        return Compiled::none();
    }
    let field = resolved.target.field;
    let term = |bound: Bound<&str>| bound.map(|text| Term::from_field_text(field, text));
    if matches!((lower, upper), (Bound::Unbounded, Bound::Unbounded)) {
        return Compiled::none();
    }
    Compiled::constant(InvertedIndexRangeQuery::new(term(lower), term(upper)))
}

pub(super) fn compile_exists(context: &Context<'_>, name: &str) -> Compiled {
    if matches!(name, "_id" | "_index" | "_source" | "_seq_no" | "_version") {
        return Compiled::all();
    }
    let mapping = context.view.mapping();
    let mut names: Vec<String> = Vec::new();
    if name.contains('*') {
        names.extend(mapping.paths(name).into_iter().map(str::to_owned));
    } else if mapping.is_object(name) {
        let prefix = format!("{name}.");
        let under = context.view.layout().targets_under(&prefix);
        names.extend(under.map(|(path, _)| path.to_owned()));
    } else {
        names.push(name.to_owned());
    }
    let mut clauses: Vec<Compiled> = Vec::new();
    for name in names {
        let Some(resolved) = context.resolve(&name) else { continue };
        let has_column = resolved.target.column.is_some()
            || matches!(resolved.target.kind, Kind::GeoPoint { .. });
        clauses.push(if has_column {
            let target = resolved.target.clone();
            Compiled { query: FilterQuery::boxed(HasValue { target }), score: Some(1.0) }
        } else {
            plain_term(context.view.layout().exists_term(resolved.target))
        });
    }
    if clauses.is_empty() {
        return Compiled::none();
    }
    let joined = super::compound::join(Vec::new(), clauses, Vec::new(), Vec::new(), None);
    Compiled { score: Some(1.0), query: joined.query }
}

/// The error of text where a number is wanted, for `lenient` to tell from others.
pub(super) fn is_value_error(error: &Error) -> bool {
    matches!(
        error.kind.as_ref(),
        "query_shard_exception" | "parse_exception" | "number_format_exception"
    ) || *error == number_format(&Value::Null)
}
