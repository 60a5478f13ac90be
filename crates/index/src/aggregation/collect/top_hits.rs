//! The best documents of each bucket.

use std::cmp::Ordering;

use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector};
use super::context::HitAddress;
use super::keys::Keys;
use crate::Error;
use crate::aggregation::order::compare_sort;
use crate::aggregation::partial::{Key, Partial, TopHit};
use crate::aggregation::request::{SortBy, Source, TermsFilter, TopHits as Spec};

impl Spec {
    /// Whether documents have to be scored.
    pub(super) fn needs_scores(&self) -> bool {
        self.sort.iter().any(|step| matches!(step, SortBy::Score { .. }))
    }
}

#[derive(Clone)]
struct Hit {
    address: HitAddress,
    sort: Vec<Key>,
}

/// The hits of one bucket: the best so far, and how many there were.
#[derive(Default)]
struct Best {
    hits: Vec<Hit>,
    total: u64,
    max_score: Option<f32>,
}

pub(super) struct TopHits {
    spec: Spec,
    /// Readers of the fields that are sorted by, in the order of the sort.
    readers: Vec<Option<Keys>>,
    best: Vec<Best>,
    hits_count: usize,
    accounted: usize,
}

impl TopHits {
    pub(super) fn new(env: &Env<'_>, spec: &Spec) -> Result<Self, Error> {
        if env.context.fetch.is_none() {
            return Err(Error::illegal_argument("[top_hits] aggregations are not supported here"));
        }
        let mut readers = Vec::new();
        for step in &spec.sort {
            readers.push(match step {
                SortBy::Field { field, .. } => {
                    let source = Source { field: field.clone(), ..Source::default() };
                    Some(Keys::new(env, &source, &TermsFilter::default(), "top_hits")?)
                }
                _ => None,
            });
        }
        Ok(Self { spec: spec.clone(), readers, best: Vec::new(), hits_count: 0, accounted: 0 })
    }

    /// Sort values by position, for each step.
    fn sort_values(&mut self, env: &Env<'_>, batch: &Batch) -> Result<Vec<Vec<Key>>, Error> {
        let mut values = vec![Vec::with_capacity(self.spec.sort.len()); batch.docs.len()];
        for (step, reader) in self.spec.sort.iter().zip(&mut self.readers) {
            match (step, reader) {
                (SortBy::Field { ascending, .. }, Some(reader)) => {
                    reader.read(env, batch)?;
                    let names = reader.names(&reader.keys);
                    let mut found: Vec<Option<Key>> = vec![None; batch.docs.len()];
                    for (position, key) in reader.positions.iter().zip(names) {
                        let own = &mut found[*position as usize];
                        // Of several values the one that comes first decides.
                        let better = own.as_ref().is_none_or(|own| (key < *own) == *ascending);
                        if better {
                            *own = Some(key);
                        }
                    }
                    for (values, found) in values.iter_mut().zip(found) {
                        values.push(found.unwrap_or(Key::Null));
                    }
                }
                (SortBy::Document { .. }, _) => {
                    for (values, doc) in values.iter_mut().zip(&batch.docs) {
                        values
                            .push(Key::U64(u64::from(env.segment_ordinal) << 32 | u64::from(*doc)));
                    }
                }
                _ => {
                    for (position, values) in values.iter_mut().enumerate() {
                        values.push(Key::F64(f64::from(
                            batch.scores.get(position).copied().unwrap_or(0.0),
                        )));
                    }
                }
            }
        }
        Ok(values)
    }
}

impl Collector for TopHits {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.readers.iter_mut().flatten().try_for_each(|reader| reader.segment(env, segment))
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = super::filters::parents(batch);
        if self.best.len() < wanted {
            self.best.resize_with(wanted, Best::default);
        }
        let limit = self.spec.from + self.spec.size;
        let values = self.sort_values(env, batch)?;
        for (position, sort) in values.into_iter().enumerate() {
            let score = batch.scores.get(position).copied().unwrap_or(0.0);
            let best = &mut self.best[batch.buckets[position] as usize];
            best.total += 1;
            best.max_score = Some(best.max_score.map_or(score, |max| max.max(score)));
            if limit == 0 {
                continue;
            }
            // Equal ones keep their order, which is that of the index.
            let place = best.hits.partition_point(|hit| {
                compare_sort(&self.spec.sort, &hit.sort, &sort) != Ordering::Greater
            });
            if place < limit {
                self.hits_count += usize::from(best.hits.len() < limit);
                best.hits.truncate(limit - 1);
                best.hits.insert(
                    place,
                    Hit { address: (env.segment_ordinal, batch.docs[position], score), sort },
                );
            }
        }
        // A hit holds a few keys of some bytes each.
        let now =
            self.best.capacity() * size_of::<Best>() + self.hits_count * (size_of::<Hit>() + 64);
        env.account.adjust(&mut self.accounted, now)
    }

    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let best = self.best.get_mut(bucket as usize).map(std::mem::take).unwrap_or_default();
        let addresses: Vec<HitAddress> = best.hits.iter().map(|hit| hit.address).collect();
        let fetched = match env.context.fetch {
            Some(fetch) if !addresses.is_empty() => fetch(&addresses, &self.spec.fetch)?,
            _ => Vec::new(),
        };
        let hits = best.hits.into_iter().zip(fetched).map(|(hit, json)| TopHit {
            score: hit.address.2,
            sort: hit.sort,
            hit: json.to_string(),
        });
        let scored = self.spec.needs_scores();
        Ok(Partial::TopHits {
            total: best.total,
            max_score: best.max_score.filter(|_| scored),
            hits: hits.collect(),
        })
    }
}
