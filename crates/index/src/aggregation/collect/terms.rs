//! One bucket for each value: `terms`, `rare_terms`, `significant_terms`, and the cells of grids.

use std::cmp::Ordering;

use tantivy::{SegmentReader, Term};

use super::collector::Env;
use super::collector::{Batch, Collector, Subs};
use super::context::index_error;
use super::keys::Keys;
use super::points::Cells;
use super::table::{Counts, Table, flat_range};
use super::top::Top;
use crate::Error;
use crate::aggregation::fields::FieldKind;
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial, Print};
use crate::aggregation::request::{
    GeoGrid, Node, Order, OrderBy, Significant, Terms as Spec, TermsFilter,
};

/// Where keys come from.
enum Input {
    Field(Box<Keys>),
    Cells(Box<Cells>),
}

/// What is kept of each key.
enum Store {
    /// A count and nothing else: nothing is aggregated below, and the parent has one bucket.
    Counts {
        counts: Counts,
        accounted: usize,
    },
    Buckets(Table),
}

#[derive(Clone, Copy)]
struct Candidate {
    key: u64,
    count: u32,
    /// The bucket, where buckets are numbered.
    id: u32,
    /// The first number that candidates are sorted by, where it is a metric.
    metric: f64,
}

pub(super) struct Terms {
    input: Input,
    store: Store,
    subs: Subs,
    order: Vec<Order>,
    shard_size: usize,
    shard_min: u64,
    /// Keys of any document, which get buckets of no documents.
    zeros: Option<Vec<u64>>,
    significant: Option<Significant>,
    /// Documents seen in each of the parent's buckets (of significant terms).
    seen: Vec<u64>,
    child: Batch,
    accounted: usize,
}

impl Terms {
    pub(super) fn new(
        env: &Env<'_>,
        node: &Node,
        spec: &Spec,
        significant: Option<&Significant>,
        single: bool,
    ) -> Result<Self, Error> {
        let kind = if significant.is_some() { "significant_terms" } else { "terms" };
        let keys = Keys::new(env, &spec.source, &spec.filter, kind)?;
        if matches!(keys.print(), Print::Date { .. }) {
            crate::aggregation::dates::check(
                spec.source.format.as_deref(),
                spec.source.zone.as_deref(),
            )?;
        }
        let range = keys.range(env)?;
        let numbered = keys.is_numbered();
        let mut terms =
            Self::with(env, node, Input::Field(Box::new(keys)), range, numbered, single)?;
        terms.order.clone_from(&spec.order);
        terms.shard_size = spec.shard_size;
        terms.shard_min = spec.shard_min_doc_count;
        terms.zeros = (spec.min_doc_count == 0).then(Vec::new);
        terms.significant = significant.cloned();
        Ok(terms)
    }

    pub(super) fn new_grid(
        env: &Env<'_>,
        node: &Node,
        grid: &GeoGrid,
        single: bool,
    ) -> Result<Self, Error> {
        let cells = Cells::new(env, grid)?;
        let mut terms = Self::with(env, node, Input::Cells(Box::new(cells)), None, false, single)?;
        terms.shard_size = grid.shard_size;
        Ok(terms)
    }

    fn with(
        env: &Env<'_>,
        node: &Node,
        input: Input,
        range: Option<(u64, u64)>,
        numbered: bool,
        single: bool,
    ) -> Result<Self, Error> {
        let subs = Subs::new(env, &node.subs, false)?;
        let flat = flat_range(range, env.searcher.num_docs()).filter(|_| single);
        let store = if single && subs.is_empty() {
            let mut accounted = 0;
            let wanted = flat.map_or(0, |(_, width)| width * size_of::<u32>());
            env.account.adjust(&mut accounted, wanted)?;
            Store::Counts { counts: Counts::new(flat, numbered), accounted }
        } else {
            Store::Buckets(Table::new(env, single, flat)?)
        };
        Ok(Self {
            input,
            store,
            subs,
            order: vec![
                Order { by: OrderBy::Count, ascending: false },
                Order { by: OrderBy::Key, ascending: true },
            ],
            shard_size: usize::MAX,
            shard_min: 0,
            zeros: None,
            significant: None,
            seen: Vec::new(),
            child: Batch::default(),
            accounted: 0,
        })
    }

    /// Finds this segment's keys that no collected document may have.
    fn collect_zeros(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        let (Some(zeros), Input::Field(keys)) = (&mut self.zeros, &mut self.input) else {
            return Ok(());
        };
        keys.all(env, segment, &mut |key| zeros.push(key))?;
        zeros.sort_unstable();
        zeros.dedup();
        env.account.adjust(&mut self.accounted, zeros.capacity() * size_of::<u64>())
    }

    fn candidates(&mut self, bucket: u32, mut each: impl FnMut(Candidate)) {
        match &mut self.store {
            Store::Counts { counts, .. } => {
                if bucket == 0 {
                    counts.each(|key, count| {
                        each(Candidate { key, count, id: u32::MAX, metric: 0.0 })
                    });
                }
            }
            Store::Buckets(table) => {
                for id in table.of_parent(bucket) {
                    let at = id as usize;
                    each(Candidate {
                        key: table.keys[at],
                        count: table.counts[at],
                        id,
                        metric: 0.0,
                    });
                }
            }
        }
    }

    /// Gives every known key that the parent's bucket lacks a bucket of no documents.
    fn add_zeros(&mut self, env: &Env<'_>, bucket: u32) -> Result<Vec<Candidate>, Error> {
        let Some(zeros) = self.zeros.take() else { return Ok(Vec::new()) };
        let mut known = Vec::new();
        self.candidates(bucket, |candidate| known.push(candidate.key));
        known.sort_unstable();
        env.account.grow(zeros.len() * size_of::<Candidate>())?;
        let lacking = zeros.iter().filter(|key| known.binary_search(key).is_err());
        // A bucket that no document reached has no place below: its number leads nowhere.
        let lacking = lacking
            .map(|key| Candidate { key: *key, count: 0, id: u32::MAX, metric: f64::NAN })
            .collect();
        self.zeros = Some(zeros);
        Ok(lacking)
    }

    fn select(
        &mut self,
        env: &Env<'_>,
        bucket: u32,
    ) -> Result<(Vec<Candidate>, u64, usize), Error> {
        let zeros = self.add_zeros(env, bucket)?;
        let order = self.order.clone();
        let metric = order.first().and_then(|step| match &step.by {
            OrderBy::Metric { path, property } => Some((path.clone(), property.clone())),
            _ => None,
        });
        let mut all = Vec::new();
        let (mut total, mut number) = (0u64, 0usize);
        let shard_min = self.shard_min;
        let shard_size = self.shard_size;
        // Only a metric needs the aggregations below while candidates are compared.
        if metric.is_some() || shard_size == usize::MAX {
            self.candidates(bucket, |candidate| all.push(candidate));
            env.account.grow(all.len() * size_of::<Candidate>())?;
        }
        if let Some((path, property)) = &metric {
            for candidate in &mut all {
                candidate.metric = self.subs.number(candidate.id, path, property.as_deref());
            }
        }
        let collected = metric.is_some() || shard_size == usize::MAX;
        let selected = {
            let input = std::mem::replace(&mut self.input, Input::Cells(Box::default()));
            let subs = std::mem::replace(&mut self.subs, Subs::none());
            // The usual order, on keys that sort as numbers, needs no look at the steps.
            let usual = matches!(&input, Input::Field(keys) if keys.sorts_as_number())
                && matches!(
                    order.as_slice(),
                    [
                        Order { by: OrderBy::Count, ascending: false },
                        Order { by: OrderBy::Key, ascending: true }
                    ]
                );
            let compare = |a: &Candidate, b: &Candidate| {
                if usual {
                    b.count.cmp(&a.count).then(a.key.cmp(&b.key))
                } else {
                    compare(&order, &input, &subs, a, b)
                }
            };
            let mut top = Top::new(shard_size, compare);
            let mut add = |candidate: Candidate| {
                total += u64::from(candidate.count);
                number += 1;
                if u64::from(candidate.count) >= shard_min {
                    top.push(candidate);
                }
            };
            if collected {
                all.into_iter().for_each(&mut add);
            } else {
                self.candidates(bucket, &mut add);
            }
            zeros.into_iter().for_each(&mut add);
            let selected = top.finish();
            self.input = input;
            self.subs = subs;
            selected
        };
        Ok((selected, total, number))
    }

    /// How many documents of the whole partition have a term.
    fn background(&self, env: &Env<'_>, name: &Key) -> Result<u64, Error> {
        let Input::Field(keys) = &self.input else { return Ok(0) };
        let Some(field) = keys.field() else { return Ok(0) };
        let term = match (name, &field.kind) {
            (Key::Str(text), _) => Term::from_field_text(field.field, text),
            (Key::I64(value), FieldKind::Boolean) => {
                Term::from_field_u64(field.field, u64::from(*value != 0))
            }
            (Key::I64(value), _) => Term::from_field_i64(field.field, *value),
            (Key::U64(value), _) => Term::from_field_u64(field.field, *value),
            (Key::F64(value), _) => Term::from_field_f64(field.field, *value),
            (Key::Ip(octets), _) => Term::from_field_ip_addr(field.field, (*octets).into()),
            _ => return Ok(0),
        };
        env.searcher.doc_freq(&term).map_err(index_error)
    }
}

fn compare(order: &[Order], input: &Input, subs: &Subs, a: &Candidate, b: &Candidate) -> Ordering {
    for (place, step) in order.iter().enumerate() {
        let found = match &step.by {
            OrderBy::Count => a.count.cmp(&b.count),
            OrderBy::Key => match input {
                Input::Field(keys) => keys.compare(a.key, b.key),
                Input::Cells(_) => a.key.cmp(&b.key),
            },
            OrderBy::Metric { path, property } => {
                let number = |candidate: &Candidate| {
                    if place == 0 {
                        candidate.metric
                    } else {
                        subs.number(candidate.id, path, property.as_deref())
                    }
                };
                let (a, b) = (number(a), number(b));
                // What has no number comes last, whatever the direction.
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
}

impl Collector for Terms {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        match &mut self.input {
            Input::Field(keys) => keys.segment(env, segment)?,
            Input::Cells(cells) => cells.segment(segment)?,
        }
        self.collect_zeros(env, segment)?;
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let mut ceiling = 0;
        let (positions, keys) = match &mut self.input {
            Input::Field(keys) => {
                keys.read(env, batch)?;
                if keys.is_numbered() {
                    ceiling = keys.numbered()?;
                }
                (&keys.positions, &keys.keys)
            }
            Input::Cells(cells) => {
                cells.read(batch);
                (&cells.positions, &cells.keys)
            }
        };
        if self.significant.is_some() {
            for bucket in &batch.buckets {
                let bucket = *bucket as usize;
                if self.seen.len() <= bucket {
                    self.seen.resize(bucket + 1, 0);
                    env.account
                        .adjust(&mut self.accounted, self.seen.capacity() * size_of::<u64>())?;
                }
                self.seen[bucket] += 1;
            }
        }
        match &mut self.store {
            Store::Counts { counts, accounted } => counts.add(env, accounted, keys, ceiling),
            Store::Buckets(table) => {
                table.reserve(env, keys.len())?;
                self.child.clear();
                let below = !self.subs.is_empty();
                for (position, key) in positions.iter().zip(keys) {
                    let position = *position as usize;
                    let id = table.bucket(batch.buckets[position], *key);
                    table.counts[id as usize] += 1;
                    if below {
                        self.child.push_from(batch, position, id);
                    }
                }
                self.subs.collect(env, &self.child)
            }
        }
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let (selected, total, number) = self.select(env, bucket)?;
        let keys: Vec<u64> = selected.iter().map(|candidate| candidate.key).collect();
        let (names, print) = match &self.input {
            Input::Field(input) => (input.names(&keys), input.print()),
            Input::Cells(cells) => (cells.names(&keys), cells.print()),
        };
        let truncated = number > selected.len();
        let kept: u64 = selected.iter().map(|candidate| u64::from(candidate.count)).sum();
        let last = selected.last().map_or(0, |last| u64::from(last.count));
        let (error, error_unknown) = error_of(&self.order, truncated, last);
        let mut buckets = Vec::with_capacity(selected.len());
        env.account.grow(selected.len() * size_of::<Bucket>())?;
        for (candidate, key) in selected.iter().zip(names) {
            let background =
                if self.significant.is_some() { self.background(env, &key)? } else { 0 };
            buckets.push(Bucket {
                key,
                count: u64::from(candidate.count),
                error,
                background,
                subs: self.subs.results(env, candidate.id)?,
            });
        }
        let seen = self.seen.get(bucket as usize).copied().unwrap_or(0);
        Ok(Partial::Buckets(Box::new(Buckets {
            prints: vec![print],
            buckets,
            other: total - kept,
            error,
            error_unknown,
            sizes: if self.significant.is_some() {
                (seen, env.searcher.num_docs())
            } else {
                (0, 0)
            },
            ..Buckets::default()
        })))
    }
}

/// How many documents a term may have that was left out, and whether that is unknown. `last`: how
/// many the last term has that was not.
pub(super) fn error_of(order: &[Order], truncated: bool, last: u64) -> (u64, bool) {
    match order.first() {
        Some(Order { by: OrderBy::Count, ascending: false }) if truncated => (last, false),
        // Every partition sends the first keys, so that none is left out that another one sends.
        Some(Order { by: OrderBy::Key, .. }) | None => (0, false),
        _ => (0, truncated),
    }
}

/// The filter of terms that lets everything pass.
pub(super) fn no_filter() -> TermsFilter {
    TermsFilter::default()
}
