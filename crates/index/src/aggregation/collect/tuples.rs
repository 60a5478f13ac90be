//! Buckets whose key has several parts: `multi_terms` and `composite`.

use std::cmp::Ordering;

use hashbrown::HashTable;
use serde_json::Value;
use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector, Subs};
use super::context::bucket_id;
use super::encoding::{f64_of_key, i64_of_key, key_of_f64, key_of_i64};
use super::keys::Keys;
use super::points::Cells;
use super::terms::error_of;
use super::values::Numbers;
use crate::Error;
use crate::aggregation::dates;
use crate::aggregation::fields::FieldKind;
use crate::aggregation::limits::too_many;
use crate::aggregation::order::compare_composite;
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial, Print};
use crate::aggregation::request::{
    Composite, CompositeKind, CompositeSource, GeoGrid, MultiTerms, Node, Order, OrderBy,
    TermsFilter,
};
use crate::aggregation::rounding::{Rounding, Zone};
use crate::geo::cells;

/// How many keys one document may make.
const COMBINATIONS_MAX: usize = 100_000;

/// One part of the key.
enum Part {
    Terms(Box<Keys>),
    Histogram(Box<Numbers>, f64),
    Date(Box<Numbers>, Rounding, Print),
    Cells(Box<Cells>),
}

impl Part {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        match self {
            Self::Terms(keys) => keys.segment(env, segment),
            Self::Histogram(numbers, _) | Self::Date(numbers, ..) => numbers.segment(segment),
            Self::Cells(cells) => cells.segment(segment),
        }
    }

    /// Reads a batch: positions and keys.
    fn read(&mut self, env: &Env<'_>, batch: &Batch, keys: &mut Vec<u64>) -> Result<&[u32], Error> {
        keys.clear();
        match self {
            Self::Terms(terms) => {
                terms.read(env, batch)?;
                keys.extend_from_slice(&terms.keys);
                Ok(&terms.positions)
            }
            Self::Histogram(numbers, interval) => {
                numbers.read(batch);
                let floor = |value: &f64| key_of_f64((value / *interval).floor() * *interval);
                keys.extend(numbers.values.iter().map(floor));
                Ok(&numbers.positions)
            }
            Self::Date(numbers, rounding, _) => {
                numbers.read(batch);
                keys.extend(
                    numbers.values.iter().map(|value| key_of_i64(rounding.round(whole(*value)))),
                );
                Ok(&numbers.positions)
            }
            Self::Cells(cells) => {
                cells.read(batch);
                keys.extend_from_slice(&cells.keys);
                Ok(&cells.positions)
            }
        }
    }

    fn names(&self, keys: &[u64]) -> Vec<Key> {
        match self {
            Self::Terms(terms) => terms.names(keys),
            Self::Histogram(..) => keys.iter().map(|key| Key::F64(f64_of_key(*key))).collect(),
            Self::Date(..) => keys.iter().map(|key| Key::I64(i64_of_key(*key))).collect(),
            Self::Cells(cells) => cells.names(keys),
        }
    }

    fn print(&self) -> Print {
        match self {
            Self::Terms(terms) => terms.print(),
            Self::Histogram(..) => Print::Double { format: None },
            Self::Date(_, _, print) => print.clone(),
            Self::Cells(cells) => cells.print(),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
fn whole(value: f64) -> i64 {
    value as i64
}

/// What is sent of all buckets.
enum Choice {
    MultiTerms { order: Vec<Order>, shard_size: usize },
    Composite { sources: Vec<CompositeSource>, size: usize, after: Option<Vec<Key>> },
}

pub(super) struct Tuples {
    parts: Vec<Part>,
    /// Which parts may be null.
    nullable: Vec<bool>,
    choice: Choice,
    /// Keys of all buckets, one after the other; bit i of a bucket's nulls says that part i is null.
    keys: Vec<u64>,
    nulls: Vec<u64>,
    parents: Vec<u32>,
    counts: Vec<u32>,
    table: HashTable<u32>,
    accounted: usize,
    subs: Subs,
    child: Batch,
}

impl Tuples {
    pub(super) fn new_multi_terms(
        env: &Env<'_>,
        node: &Node,
        spec: &MultiTerms,
    ) -> Result<Self, Error> {
        let mut parts = Vec::new();
        for source in &spec.sources {
            parts.push(Part::Terms(Box::new(Keys::new(
                env,
                &source.source,
                &TermsFilter::default(),
                "multi_terms",
            )?)));
        }
        let choice = Choice::MultiTerms { order: spec.order.clone(), shard_size: spec.shard_size };
        Self::with(env, node, parts, vec![false; spec.sources.len()], choice)
    }

    pub(super) fn new_composite(
        env: &Env<'_>,
        node: &Node,
        spec: &Composite,
    ) -> Result<Self, Error> {
        if spec.size > env.context.max_buckets {
            return Err(too_many(env.context.max_buckets, spec.size));
        }
        let mut parts = Vec::new();
        for source in &spec.sources {
            parts.push(composite_part(env, source)?);
        }
        let after = match &spec.after {
            None => None,
            Some(values) => {
                let mut keys = Vec::new();
                for ((value, part), source) in values.iter().zip(&parts).zip(&spec.sources) {
                    keys.push(after_key(env, value, &part.print(), source)?);
                }
                Some(keys)
            }
        };
        let nullable = spec.sources.iter().map(|source| source.missing_bucket).collect();
        let choice = Choice::Composite { sources: spec.sources.clone(), size: spec.size, after };
        Self::with(env, node, parts, nullable, choice)
    }

    fn with(
        env: &Env<'_>,
        node: &Node,
        parts: Vec<Part>,
        nullable: Vec<bool>,
        choice: Choice,
    ) -> Result<Self, Error> {
        Ok(Self {
            parts,
            nullable,
            choice,
            keys: Vec::new(),
            nulls: Vec::new(),
            parents: Vec::new(),
            counts: Vec::new(),
            table: HashTable::new(),
            accounted: 0,
            subs: Subs::new(env, &node.subs, false)?,
            child: Batch::default(),
        })
    }

    fn bucket(&mut self, parent: u32, key: &[u64], nulls: u64) -> Result<u32, Error> {
        let width = self.parts.len();
        let hash = |parent: u32, key: &[u64], nulls: u64| {
            key.iter().fold(u64::from(parent) ^ nulls.rotate_left(32), |hash, part| {
                (hash.rotate_left(5) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            })
        };
        let spread = |hash: u64| hash ^ (hash >> 32);
        let (keys, all_nulls, parents) = (&self.keys, &self.nulls, &self.parents);
        let tuple = |id: u32| &keys[id as usize * width..(id as usize + 1) * width];
        let own = spread(hash(parent, key, nulls));
        let same = |id: &u32| {
            tuple(*id) == key && all_nulls[*id as usize] == nulls && parents[*id as usize] == parent
        };
        if let Some(id) = self.table.find(own, same) {
            return Ok(*id);
        }
        let id = bucket_id(self.counts.len())?;
        self.table.insert_unique(own, id, |id| {
            spread(hash(parents[*id as usize], tuple(*id), all_nulls[*id as usize]))
        });
        self.keys.extend_from_slice(key);
        self.nulls.push(nulls);
        self.parents.push(parent);
        self.counts.push(0);
        Ok(id)
    }

    fn account(&mut self, env: &Env<'_>) -> Result<(), Error> {
        let now = (self.keys.capacity() + self.nulls.capacity()) * size_of::<u64>()
            + (self.parents.capacity() + self.counts.capacity()) * size_of::<u32>()
            + self.table.allocation_size();
        env.account.adjust(&mut self.accounted, now)
    }

    /// The full keys of some buckets.
    fn names(&self, ids: &[u32]) -> Vec<Vec<Key>> {
        let width = self.parts.len();
        let mut names: Vec<Vec<Key>> = ids.iter().map(|_| Vec::with_capacity(width)).collect();
        for (at, part) in self.parts.iter().enumerate() {
            let is_null = |id: u32| self.nulls[id as usize] >> at & 1 == 1;
            let present: Vec<u64> = ids
                .iter()
                .filter(|id| !is_null(**id))
                .map(|id| self.keys[*id as usize * width + at])
                .collect();
            let mut found = part.names(&present).into_iter();
            for (name, id) in names.iter_mut().zip(ids) {
                name.push(if is_null(*id) { Key::Null } else { found.next().unwrap_or(Key::Null) });
            }
        }
        names
    }

    fn select(&self, candidates: &mut Vec<(u32, Vec<Key>)>) -> (u64, bool, u64) {
        let total: u64 =
            candidates.iter().map(|(id, _)| u64::from(self.counts[*id as usize])).sum();
        let limit = match &self.choice {
            Choice::Composite { sources, size, after } => {
                if let Some(after) = after {
                    candidates.retain(|(_, key)| {
                        compare_composite(sources, key, after) == Ordering::Greater
                    });
                }
                candidates.sort_by(|a, b| compare_composite(sources, &a.1, &b.1));
                *size
            }
            Choice::MultiTerms { order, shard_size } => {
                candidates.sort_by(|a, b| {
                    for step in order {
                        let found = match &step.by {
                            OrderBy::Count => {
                                self.counts[a.0 as usize].cmp(&self.counts[b.0 as usize])
                            }
                            OrderBy::Key => a.1.cmp(&b.1),
                            OrderBy::Metric { path, property } => {
                                let number =
                                    |id: u32| self.subs.number(id, path, property.as_deref());
                                number(a.0).total_cmp(&number(b.0))
                            }
                        };
                        let found = if step.ascending { found } else { found.reverse() };
                        if found != Ordering::Equal {
                            return found;
                        }
                    }
                    Ordering::Equal
                });
                *shard_size
            }
        };
        let truncated = candidates.len() > limit;
        candidates.truncate(limit);
        let kept: u64 = candidates.iter().map(|(id, _)| u64::from(self.counts[*id as usize])).sum();
        let last = candidates.last().map_or(0, |(id, _)| u64::from(self.counts[*id as usize]));
        (total - kept, truncated, last)
    }
}

fn composite_part(env: &Env<'_>, source: &CompositeSource) -> Result<Part, Error> {
    Ok(match &source.kind {
        CompositeKind::Terms => Part::Terms(Box::new(Keys::new(
            env,
            &source.source,
            &TermsFilter::default(),
            "composite",
        )?)),
        CompositeKind::Histogram { interval } => {
            Part::Histogram(Box::new(Numbers::new(env, &source.source, "composite")?), *interval)
        }
        CompositeKind::Date { interval, offset_ms } => {
            dates::check(source.source.format.as_deref(), source.source.zone.as_deref())?;
            let zone = Zone::parse(source.source.zone.as_deref())?;
            let numbers = Numbers::new(env, &source.source, "composite")?;
            // Without a format the key is the number of milliseconds.
            let print = match &source.source.format {
                Some(format) => {
                    Print::Date { format: format.clone(), zone: source.source.zone.clone() }
                }
                None => Print::Long { format: None },
            };
            Part::Date(Box::new(numbers), Rounding::new(interval.clone(), zone, *offset_ms), print)
        }
        CompositeKind::Geotile { precision } => {
            let grid = GeoGrid {
                field: source.source.field.clone(),
                tiles: true,
                precision: *precision,
                size: 0,
                shard_size: 0,
                bounds: None,
            };
            Part::Cells(Box::new(Cells::new(env, &grid)?))
        }
    })
}

/// A value of `after` as the key it was printed from.
fn after_key(
    env: &Env<'_>,
    value: &Value,
    print: &Print,
    source: &CompositeSource,
) -> Result<Key, Error> {
    let bad =
        || Error::illegal_argument(format!("Invalid value for [after.{}]: [{value}]", source.name));
    if value.is_null() {
        return Ok(Key::Null);
    }
    let is_date_field = env
        .fields
        .field(&source.source.field)
        .is_some_and(|field| matches!(field.kind, FieldKind::Date { .. }));
    Ok(match print {
        Print::Date { format, zone } => {
            if let Some(ms) = value.as_i64() {
                Key::I64(ms)
            } else {
                Key::I64(dates::parse_bound(
                    value,
                    Some(format),
                    zone.as_deref(),
                    env.context.now_ms,
                    false,
                )?)
            }
        }
        Print::Bool => Key::I64(i64::from(value.as_bool().ok_or_else(bad)?)),
        Print::Long { .. } if is_date_field && value.is_string() => {
            Key::I64(dates::parse_bound(value, None, None, env.context.now_ms, false)?)
        }
        Print::Long { .. } => Key::I64(
            value
                .as_i64()
                .or_else(|| value.as_str()?.parse().ok())
                .or_else(|| value.as_f64().map(whole))
                .ok_or_else(bad)?,
        ),
        Print::UnsignedLong { .. } => {
            Key::U64(value.as_u64().or_else(|| value.as_str()?.parse().ok()).ok_or_else(bad)?)
        }
        Print::Double { .. } => {
            Key::F64(crate::aggregation::request_number(value).ok_or_else(bad)?)
        }
        Print::Ip => {
            let address = value.as_str().and_then(crate::aggregation::parse_ip).ok_or_else(bad)?;
            Key::Ip(address.to_be_bytes())
        }
        Print::Tile => {
            let tile = value.as_str().filter(|text| cells::tile_place(text).is_some());
            Key::Str(tile.ok_or_else(bad)?.to_owned())
        }
        _ => Key::Str(value.as_str().ok_or_else(bad)?.to_owned()),
    })
}

impl Collector for Tuples {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.parts.iter_mut().try_for_each(|part| part.segment(env, segment))?;
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        // The tuples that the parts so far make: position, nulls, keys.
        let mut rows: Vec<(u32, u64)> =
            (0u32..).take(batch.docs.len()).map(|position| (position, 0)).collect();
        let mut tuples: Vec<u64> = Vec::new();
        let mut keys = Vec::new();
        for (at, (part, nullable)) in self.parts.iter_mut().zip(&self.nullable).enumerate() {
            let positions = part.read(env, batch, &mut keys)?;
            let (mut next_rows, mut next_tuples) = (Vec::new(), Vec::new());
            let mut from = 0;
            for (row, (position, nulls)) in rows.iter().enumerate() {
                while from < positions.len() && positions[from] < *position {
                    from += 1;
                }
                let so_far = &tuples[row * at..(row + 1) * at];
                let own = positions[from..].iter().take_while(|other| *other == position).count();
                for key in &keys[from..from + own] {
                    next_rows.push((*position, *nulls));
                    next_tuples.extend_from_slice(so_far);
                    next_tuples.push(*key);
                }
                if own == 0 && *nullable {
                    next_rows.push((*position, nulls | 1 << at));
                    next_tuples.extend_from_slice(so_far);
                    next_tuples.push(0);
                }
                if next_rows.len() > batch.docs.len() + COMBINATIONS_MAX {
                    env.account.grow(next_tuples.len() * size_of::<u64>())?;
                    return Err(Error::illegal_argument(format!(
                        "documents make more than [{COMBINATIONS_MAX}] combinations of values"
                    )));
                }
            }
            rows = next_rows;
            tuples = next_tuples;
        }
        self.child.clear();
        let below = !self.subs.is_empty();
        let width = self.parts.len();
        for (row, (position, nulls)) in rows.iter().enumerate() {
            let position = *position as usize;
            let id = self.bucket(
                batch.buckets[position],
                &tuples[row * width..(row + 1) * width],
                *nulls,
            )?;
            self.counts[id as usize] += 1;
            if below {
                self.child.push_from(batch, position, id);
            }
        }
        self.account(env)?;
        self.subs.collect(env, &self.child)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let ids: Vec<u32> = (0u32..)
            .zip(&self.parents)
            .filter(|(_, parent)| **parent == bucket)
            .map(|(id, _)| id)
            .collect();
        env.account.grow(
            ids.len() * (size_of::<(u32, Vec<Key>)>() + self.parts.len() * size_of::<Key>()),
        )?;
        let mut candidates: Vec<(u32, Vec<Key>)> =
            ids.iter().copied().zip(self.names(&ids)).collect();
        let (other, truncated, last) = self.select(&mut candidates);
        let is_terms = matches!(self.choice, Choice::MultiTerms { .. });
        let (error, error_unknown) = match &self.choice {
            Choice::MultiTerms { order, .. } => error_of(order, truncated, last),
            Choice::Composite { .. } => (0, false),
        };
        let mut buckets = Vec::with_capacity(candidates.len());
        for (id, key) in candidates {
            buckets.push(Bucket {
                key: Key::Tuple(key),
                count: u64::from(self.counts[id as usize]),
                error,
                background: 0,
                subs: self.subs.results(env, id)?,
            });
        }
        Ok(Partial::Buckets(Box::new(Buckets {
            prints: self.parts.iter().map(Part::print).collect(),
            buckets,
            other: if is_terms { other } else { 0 },
            error,
            error_unknown,
            ..Buckets::default()
        })))
    }
}
