//! Buckets of documents that match queries, that have or lack a field, or that are there at all.

use tantivy::columnar::ColumnIndex;
use tantivy::query::{EnableScoring, Scorer, Weight};
use tantivy::{DocSet, SegmentReader};

use super::collector::Env;
use super::collector::{Batch, Collector, Subs};
use super::context::{bucket_id, index_error};
use super::values::{open_number, open_point};
use crate::Error;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::partial::{Bucket, Buckets, Key, Partial};
use crate::aggregation::request::{Filters as Spec, Node};

/// Counts of buckets that are numbered beforehand.
#[derive(Default)]
pub(super) struct Counted {
    counts: Vec<u32>,
    accounted: usize,
}

impl Counted {
    pub(super) fn grow(&mut self, env: &Env<'_>, wanted: usize) -> Result<(), Error> {
        if self.counts.len() < wanted {
            bucket_id(wanted)?;
            self.counts.resize(wanted, 0);
            env.account.adjust(&mut self.accounted, self.counts.capacity() * size_of::<u32>())?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn add(&mut self, bucket: usize) {
        self.counts[bucket] += 1;
    }

    pub(super) fn get(&self, bucket: usize) -> u64 {
        self.counts.get(bucket).copied().map_or(0, u64::from)
    }
}

/// How many buckets of the parent a batch speaks of.
pub(super) fn parents(batch: &Batch) -> usize {
    batch.buckets.iter().max().map_or(0, |max| *max as usize + 1)
}

/// `filter` and `filters`: the bucket of filter i of the parent's bucket p is p * filters + i.
pub(super) struct Filters {
    weights: Vec<Box<dyn Weight>>,
    scorers: Vec<Box<dyn Scorer>>,
    has_other: bool,
    /// `filter`: one bucket, and no list of them.
    is_one: bool,
    counted: Counted,
    subs: Subs,
    child: Batch,
}

impl Filters {
    pub(super) fn new_one(
        env: &Env<'_>,
        node: &Node,
        query: &serde_json::Value,
        single: bool,
    ) -> Result<Self, Error> {
        Self::with(env, node, &[query], false, true, single)
    }

    pub(super) fn new(env: &Env<'_>, node: &Node, spec: &Spec) -> Result<Self, Error> {
        let queries: Vec<_> = spec.filters.iter().map(|(_, query)| query).collect();
        Self::with(env, node, &queries, spec.other.is_some(), false, false)
    }

    fn with(
        env: &Env<'_>,
        node: &Node,
        queries: &[&serde_json::Value],
        has_other: bool,
        is_one: bool,
        single: bool,
    ) -> Result<Self, Error> {
        let mut weights = Vec::new();
        for query in queries {
            let query = (env.context.resolve_query)(query)?;
            let scoring = EnableScoring::disabled_from_searcher(env.searcher);
            weights.push(query.weight(scoring).map_err(index_error)?);
        }
        Ok(Self {
            weights,
            scorers: Vec::new(),
            has_other,
            is_one,
            counted: Counted::default(),
            subs: Subs::new(env, &node.subs, single && is_one)?,
            child: Batch::default(),
        })
    }

    fn fan(&self) -> usize {
        self.weights.len() + usize::from(self.has_other)
    }
}

/// Whether a scorer holds a document; documents are asked for in order.
fn holds(scorer: &mut Box<dyn Scorer>, doc: u32) -> bool {
    let at = scorer.doc();
    at == doc || (at < doc && scorer.seek(doc) == doc)
}

impl Collector for Filters {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        let scorers: Result<_, _> =
            self.weights.iter().map(|weight| weight.scorer(segment, 1.0)).collect();
        self.scorers = scorers.map_err(index_error)?;
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let fan = self.fan();
        self.counted.grow(env, parents(batch) * fan)?;
        self.child.clear();
        let below = !self.subs.is_empty();
        for (position, doc) in batch.docs.iter().enumerate() {
            let first = batch.buckets[position] as usize * fan;
            let mut held = false;
            for (at, scorer) in self.scorers.iter_mut().enumerate() {
                if holds(scorer, *doc) {
                    held = true;
                    self.counted.add(first + at);
                    if below {
                        self.child.push_from(batch, position, bucket_id(first + at)?);
                    }
                }
            }
            if self.has_other && !held {
                self.counted.add(first + fan - 1);
                if below {
                    self.child.push_from(batch, position, bucket_id(first + fan - 1)?);
                }
            }
        }
        self.subs.collect(env, &self.child)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let fan = self.fan();
        // A bucket that no document reached has none below either; its number is far out of range.
        let first = (bucket as usize).saturating_mul(fan);
        if self.is_one {
            let subs = self.subs.results(env, bucket)?;
            return Ok(Partial::Single { count: self.counted.get(first), subs });
        }
        let mut buckets = Vec::new();
        for at in first..first + fan {
            let id = bucket_id(at).unwrap_or(u32::MAX);
            buckets.push(Bucket {
                key: Key::I64(0),
                count: self.counted.get(at),
                error: 0,
                background: 0,
                subs: self.subs.results(env, id)?,
            });
        }
        Ok(Partial::Buckets(Box::new(Buckets { buckets, ..Buckets::default() })))
    }

    fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        if path.is_empty() {
            return self.counted.get(bucket as usize) as f64;
        }
        self.subs.number(bucket, path, property)
    }
}

/// What a document has to have.
enum Wanted {
    Anything,
    /// No value in any of the columns.
    None,
}

/// `missing` and `global`: one bucket for each of the parent's.
pub(super) struct Existing {
    wanted: Wanted,
    fields: Vec<Field>,
    indexes: Vec<ColumnIndex>,
    counted: Counted,
    subs: Subs,
    child: Batch,
}

impl Existing {
    fn with(
        env: &Env<'_>,
        node: &Node,
        wanted: Wanted,
        fields: Vec<Field>,
        single: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            wanted,
            fields,
            indexes: Vec::new(),
            counted: Counted::default(),
            subs: Subs::new(env, &node.subs, single)?,
            child: Batch::default(),
        })
    }

    pub(super) fn new_missing(
        env: &Env<'_>,
        node: &Node,
        path: &str,
        single: bool,
    ) -> Result<Self, Error> {
        let field = env.fields.field(path);
        if let Some(field) = &field {
            field.column()?;
        }
        Self::with(env, node, Wanted::None, field.into_iter().collect(), single)
    }

    pub(super) fn new_all(env: &Env<'_>, node: &Node, single: bool) -> Result<Self, Error> {
        Self::with(env, node, Wanted::Anything, Vec::new(), single)
    }
}

/// Which documents of a segment have values of a field.
fn column_index(segment: &SegmentReader, field: &Field) -> Result<Option<ColumnIndex>, Error> {
    let name = field.column()?;
    if segment.schema().find_field(name).is_none() {
        return Ok(None);
    }
    let columns = segment.fast_fields();
    Ok(match &field.kind {
        FieldKind::Keyword => {
            columns.str(name).map_err(index_error)?.map(|column| column.ords().index.clone())
        }
        FieldKind::Ip => columns
            .column_opt::<std::net::Ipv6Addr>(name)
            .map_err(index_error)?
            .map(|column| column.index),
        FieldKind::GeoPoint => open_point(segment, field)?.map(|(column, _)| column.index),
        FieldKind::Text | FieldKind::Other(_) => None,
        _ => open_number(segment, field)?.map(|number| number.column.index),
    })
}

impl Collector for Existing {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.indexes.clear();
        for field in &self.fields {
            self.indexes.extend(column_index(segment, field)?);
        }
        self.subs.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        self.counted.grow(env, parents(batch))?;
        self.child.clear();
        let below = !self.subs.is_empty();
        for (position, doc) in batch.docs.iter().enumerate() {
            let has = || self.indexes.iter().any(|index| index.has_value(*doc));
            let fits = match self.wanted {
                Wanted::Anything => true,
                Wanted::None => !has(),
            };
            if fits {
                let bucket = batch.buckets[position];
                self.counted.add(bucket as usize);
                if below {
                    self.child.push_from(batch, position, bucket);
                }
            }
        }
        self.subs.collect(env, &self.child)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        Ok(Partial::Single {
            count: self.counted.get(bucket as usize),
            subs: self.subs.results(env, bucket)?,
        })
    }

    fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        if path.is_empty() {
            return self.counted.get(bucket as usize) as f64;
        }
        self.subs.number(bucket, path, property)
    }
}
