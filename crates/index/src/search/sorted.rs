//! Hits in the order of `sort`: in each segment the first ones by keys of whole numbers, then the
//! first of all segments by their values.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value;
use smallvec::SmallVec;
use tantivy::query::{EnableScoring, Scorer, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet as _, SegmentReader, TERMINATED};

use super::collapse::{self, SegmentGroups};
use super::failure::internal;
use super::limits::{Count, Limits};
use super::request::SearchRequest;
use super::result::{Hit, SortValue};
use super::segment_sort::{BoundBy, BoundClause, SegmentClause};
use super::sort::{FieldSort, Missing, SortBy, SortClause};
use crate::error::Error;
use crate::mapping::date::DateFormat;
use crate::partition::{Kind, Target};
use crate::query::Context;
use crate::query::ast::ValueMode;
use crate::query::compile::{Compiled, Resolved, bind_script, shard_error};
use crate::query::exec::BLOCK;
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
    let mut walk = Walk {
        clauses: &clauses,
        weight: weight.as_ref(),
        limits,
        reads_score,
        keeps_score: request.has_scores(),
        after,
        groups,
        count: Count::default(),
        found: Vec::new(),
        worst: None,
    };
    for (segment, reader) in (0u32..).zip(searcher.segment_readers()) {
        walk.count.stop_between(segment, limits);
        if walk.count.stopped {
            break;
        }
        walk.segment(reader, segment)?;
    }
    let Walk { mut found, mut count, .. } = walk;
    count.is_exact = !count.stopped && count.is_exact_so_far(limits);
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

impl Count {
    /// Segments may have been left out once enough was counted.
    const fn is_exact_so_far(&self, limits: &Limits<'_>) -> bool {
        self.found <= limits.count_limit()
    }
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

/// One key for each clause.
type Keys = SmallVec<[u64; 2]>;

/// A document with its keys.
#[derive(Clone)]
struct Candidate {
    keys: Keys,
    doc: DocId,
    score: f32,
}

/// One walk over the segments.
struct Walk<'a> {
    clauses: &'a [BoundClause],
    weight: &'a dyn Weight,
    limits: &'a Limits<'a>,
    reads_score: bool,
    keeps_score: bool,
    after: Option<Vec<SortValue>>,
    groups: Option<Target>,
    count: Count,
    found: Vec<Hit>,
    /// The key that a document of a later segment has to come before, where keys of segments can
    /// be compared.
    worst: Option<u64>,
}

/// The first documents of one segment.
struct Best {
    window: usize,
    /// The first key of the last document kept, once there are enough.
    worst: Option<u64>,
    kept: Vec<Candidate>,
    groups: HashMap<Option<u64>, Candidate>,
}

impl Best {
    /// Keeps a candidate; sorts out the last ones when there are twice as many as wanted.
    fn push(&mut self, candidate: Candidate) {
        self.kept.push(candidate);
        if self.kept.len() >= self.window.saturating_mul(2).max(32) {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.kept.len() <= self.window || self.window == 0 {
            return;
        }
        let order = |a: &Candidate, b: &Candidate| a.keys.cmp(&b.keys).then(a.doc.cmp(&b.doc));
        self.kept.select_nth_unstable_by(self.window - 1, order);
        self.kept.truncate(self.window);
        if let Some(last) = self.kept.get(self.window - 1) {
            let last = last.keys[0];
            self.worst = Some(self.worst.map_or(last, |worst| worst.min(last)));
        }
    }
}

impl Walk<'_> {
    fn segment(&mut self, reader: &SegmentReader, segment: u32) -> Result<(), Error> {
        let mut clauses = Vec::with_capacity(self.clauses.len());
        for clause in self.clauses {
            clauses.push(clause.segment(reader, segment)?);
        }
        let is_counted = self.count.found > self.limits.count_limit();
        if let (Some(worst), Some(least)) = (self.worst, clauses[0].least_key())
            && is_counted
            && least > worst
        {
            return Ok(());
        }
        let after = self.after_keys(&clauses, segment)?;
        let groups = match &self.groups {
            Some(target) => Some(SegmentGroups::open(reader, target)?),
            None => None,
        };
        let mut best = Best {
            window: self.limits.window,
            worst: self.worst,
            kept: Vec::new(),
            groups: HashMap::new(),
        };
        let mut scorer = self.weight.scorer(reader, 1.0).map_err(internal)?;
        let alive = reader.alive_bitset();
        let mut docs = [0; COLLECT_BLOCK_BUFFER_LEN];
        let mut scores = [0.0; COLLECT_BLOCK_BUFFER_LEN];
        let mut blocks = 0u32;
        while scorer.doc() != TERMINATED && !self.count.stopped {
            let mut length = self.block(scorer.as_mut(), &mut docs, &mut scores);
            if let Some(alive) = alive {
                let mut kept = 0;
                for at in 0..length {
                    if alive.is_alive(docs[at]) {
                        (docs[kept], scores[kept]) = (docs[at], scores[at]);
                        kept += 1;
                    }
                }
                length = kept;
            }
            length = self.counted(length);
            let (docs, scores) = (&docs[..length], &scores[..length]);
            consider(&mut clauses, docs, scores, after.as_ref(), groups.as_ref(), &mut best);
            blocks += 1;
            if blocks.is_multiple_of(16) && self.limits.cancelled.is_set() {
                self.count.stopped = true;
                self.count.timed_out = true;
            }
        }
        self.keep(&clauses, groups.as_ref(), best, segment)
    }

    /// Counts a block, and shortens it where `terminate_after` ends inside of it.
    fn counted(&mut self, length: usize) -> usize {
        let limit = self.limits.terminate_after;
        let before = self.count.found;
        self.count.found += length as u64;
        if limit > 0 && self.count.found >= limit {
            self.count.found = limit;
            self.count.stopped = true;
            self.count.terminated_early = true;
            return usize::try_from(limit - before).unwrap_or(length).min(length);
        }
        length
    }

    fn block(
        &self,
        scorer: &mut dyn Scorer,
        docs: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN],
        scores: &mut [f32; COLLECT_BLOCK_BUFFER_LEN],
    ) -> usize {
        if !self.reads_score {
            return scorer.fill_buffer(docs);
        }
        let mut length = 0;
        while length < docs.len() && scorer.doc() != TERMINATED {
            docs[length] = scorer.doc();
            scores[length] = scorer.score();
            length += 1;
            scorer.advance();
        }
        length
    }

    /// The keys, and the document where it is known, that hits have to come after.
    fn after_keys(
        &self,
        clauses: &[SegmentClause],
        segment: u32,
    ) -> Result<Option<(Vec<u64>, DocId)>, Error> {
        let keys = |values: &[SortValue]| -> Result<Vec<u64>, Error> {
            clauses.iter().zip(values).map(|(clause, value)| clause.key(value)).collect()
        };
        if let Some(hit) = self.limits.after {
            let values: Vec<SortValue> = if hit.sort.is_empty() {
                hit.score.map(SortValue::Score).into_iter().collect()
            } else {
                hit.sort.clone()
            };
            let doc = match segment.cmp(&hit.address.0) {
                Ordering::Less => u32::MAX,
                Ordering::Equal => hit.address.1,
                // All documents of this segment come after one that is equal.
                Ordering::Greater => BEFORE,
            };
            return Ok(Some((keys(&values)?, doc)));
        }
        match &self.after {
            // Of equal values there is none after.
            Some(values) => Ok(Some((keys(values)?, u32::MAX))),
            None => Ok(None),
        }
    }

    /// Turns the first documents of a segment into hits.
    fn keep(
        &mut self,
        clauses: &[SegmentClause],
        groups: Option<&SegmentGroups>,
        mut best: Best,
        segment: u32,
    ) -> Result<(), Error> {
        let mut group_of = HashMap::new();
        if groups.is_some() {
            for (group, candidate) in best.groups.drain() {
                group_of.insert(candidate.doc, group);
                best.kept.push(candidate);
            }
        }
        best.shrink();
        if self.clauses[0].is_global() && best.kept.len() >= best.window && groups.is_none() {
            let worst = best.kept.iter().map(|candidate| candidate.keys[0]).max();
            self.worst = match (self.worst, worst) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        for candidate in best.kept {
            let sort: Result<Vec<SortValue>, Error> = clauses
                .iter()
                .zip(&candidate.keys)
                .map(|(clause, key)| clause.value(*key))
                .collect();
            let group = match (groups, group_of.get(&candidate.doc)) {
                (Some(groups), Some(group)) => Some(groups.value(*group)?),
                _ => None,
            };
            self.found.push(Hit {
                address: (segment, candidate.doc),
                score: self.keeps_score.then_some(candidate.score),
                sort: sort?,
                group,
            });
        }
        Ok(())
    }
}

/// Stands for a document before all others in `after_keys`.
const BEFORE: DocId = DocId::MAX - 1;

fn consider(
    clauses: &mut [SegmentClause],
    docs: &[DocId],
    scores: &[f32],
    after: Option<&(Vec<u64>, DocId)>,
    groups: Option<&SegmentGroups>,
    best: &mut Best,
) {
    let mut columns = vec![[0u64; BLOCK]; clauses.len()];
    let Some((first_clause, others)) = clauses.split_first_mut() else { return };
    let Some((first, rest)) = columns.split_first_mut() else { return };
    first_clause.keys(docs, scores, &mut first[..docs.len()]);
    // Most blocks have nothing that comes early enough: their other keys are not read.
    // Of equal keys the earlier document comes first, unless other keys decide.
    let is_single = others.is_empty();
    let is_out = |key: u64, worst: Option<u64>| {
        worst.is_some_and(|worst| if is_single { key >= worst } else { key > worst })
    };
    let worst = best.worst;
    if groups.is_none() && first[..docs.len()].iter().all(|key| is_out(*key, worst)) {
        return;
    }
    for (clause, column) in others.iter_mut().zip(rest.iter_mut()) {
        clause.keys(docs, scores, &mut column[..docs.len()]);
    }
    for (at, doc) in docs.iter().enumerate() {
        if groups.is_none() && is_out(first[at], best.worst) {
            continue;
        }
        let mut keys = Keys::new();
        keys.push(first[at]);
        keys.extend(rest.iter().map(|column| column[at]));
        if let Some((after, after_doc)) = after {
            let is_after = match keys.as_slice().cmp(after) {
                Ordering::Greater => true,
                Ordering::Equal => *after_doc == BEFORE || *doc > *after_doc,
                Ordering::Less => false,
            };
            if !is_after {
                continue;
            }
        }
        let candidate = Candidate { keys, doc: *doc, score: scores[at] };
        match groups {
            None => best.push(candidate),
            Some(groups) => {
                let kept = best.groups.entry(groups.of(*doc)).or_insert_with(|| candidate.clone());
                if candidate.keys < kept.keys {
                    *kept = candidate;
                }
            }
        }
    }
}
