//! Distinct counts and quantiles.

use tantivy::SegmentReader;

use super::collector::Env;
use super::collector::{Batch, Collector};
use super::keys::Keys;
use super::values;
use crate::Error;
use crate::aggregation::partial::Partial;
use crate::aggregation::request::{Sketch, Source};
use crate::aggregation::sketch::{Distinct, Hdr, TDigest};

/// `cardinality`.
pub(super) struct Cardinality {
    keys: Keys,
    threshold: usize,
    counts: Vec<Option<Distinct>>,
    /// Hashes of strings by key; 0 where not known yet.
    hashes: Vec<u64>,
    known: usize,
    accounted: usize,
    sketches_bytes: usize,
}

impl Cardinality {
    pub(super) fn new(env: &Env<'_>, source: &Source, threshold: usize) -> Result<Self, Error> {
        Ok(Self {
            keys: Keys::new(env, source, &super::terms::no_filter(), "cardinality")?,
            threshold,
            counts: Vec::new(),
            hashes: Vec::new(),
            known: 0,
            accounted: 0,
            sketches_bytes: 0,
        })
    }

    /// Replaces the keys of the batch by hashes that are the same in every partition.
    fn hash(&mut self) {
        if !self.keys.stands_for_bytes() {
            for key in &mut self.keys.keys {
                *key = xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes());
            }
            return;
        }
        let largest = self.keys.keys.iter().max().and_then(|max| usize::try_from(*max).ok());
        if let Some(largest) = largest
            && self.hashes.len() <= largest
        {
            self.hashes.resize(largest + 1, 0);
        }
        let at = |key: u64| usize::try_from(key).unwrap_or(usize::MAX);
        let mut unknown: Vec<u64> =
            self.keys.keys.iter().copied().filter(|key| self.hashes[at(*key)] == 0).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            self.known += unknown.len();
            // As with ordinals: after some lookups the rest is read in one pass.
            if self.known * super::keys::LOOKUPS_PER_TERMS > self.hashes.len()
                && self.keys.in_dictionary() > 0
            {
                let terms = at(self.keys.in_dictionary());
                if self.hashes.len() < terms {
                    self.hashes.resize(terms, 0);
                }
                let missing = unknown.iter().copied().filter(|key| at(*key) >= terms);
                unknown = (0..terms as u64)
                    .filter(|key| self.hashes[at(*key)] == 0)
                    .chain(missing)
                    .collect();
            }
            let hashes = &mut self.hashes;
            self.keys.each_bytes(&unknown, |key, bytes| {
                hashes[at(key)] = xxhash_rust::xxh3::xxh3_64(bytes).max(1)
            });
        }
        for key in &mut self.keys.keys {
            *key = self.hashes[at(*key)];
        }
    }
}

impl Collector for Cardinality {
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.keys.segment(env, segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = batch.buckets.iter().max().map_or(0, |max| *max as usize + 1);
        if self.counts.len() < wanted {
            self.counts.resize_with(wanted, || None);
        }
        self.keys.read(env, batch)?;
        self.hash();
        for (position, hash) in self.keys.positions.iter().zip(&self.keys.keys) {
            let bucket = batch.buckets[*position as usize] as usize;
            let count = self.counts[bucket].get_or_insert_with(|| Distinct::new(self.threshold));
            let before = count.bytes();
            count.add(*hash);
            self.sketches_bytes += count.bytes();
            self.sketches_bytes -= before;
        }
        let now = self.sketches_bytes
            + self.counts.capacity() * size_of::<Option<Distinct>>()
            + self.hashes.capacity() * size_of::<u64>();
        env.account.adjust(&mut self.accounted, now)
    }

    fn result(&mut self, _: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let count = self.counts.get_mut(bucket as usize).and_then(Option::take);
        Ok(Partial::Distinct(count.unwrap_or_else(|| Distinct::new(self.threshold))))
    }

    fn number(&self, bucket: u32, _: &[String], _: Option<&str>) -> f64 {
        self.counts
            .get(bucket as usize)
            .and_then(Option::as_ref)
            .map_or(0.0, |count| count.count() as f64)
    }
}

enum Digest {
    TDigest(TDigest),
    Hdr(Hdr),
}

impl Digest {
    fn new(sketch: Sketch) -> Self {
        match sketch {
            Sketch::TDigest { compression } => Self::TDigest(TDigest::new(compression)),
            Sketch::Hdr { digits } => Self::Hdr(Hdr::new(digits)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::TDigest(digest) => digest.bytes(),
            Self::Hdr(digest) => digest.bytes(),
        }
    }
}

/// `percentiles`, `percentile_ranks`, `median_absolute_deviation`.
pub(super) struct Quantiles {
    numbers: values::Numbers,
    sketch: Sketch,
    digests: Vec<Option<Digest>>,
    accounted: usize,
    digests_bytes: usize,
}

impl Quantiles {
    pub(super) fn new(env: &Env<'_>, source: &Source, sketch: Sketch) -> Result<Self, Error> {
        Ok(Self {
            numbers: values::Numbers::new(env, source, "percentiles")?,
            sketch,
            digests: Vec::new(),
            accounted: 0,
            digests_bytes: 0,
        })
    }
}

impl Collector for Quantiles {
    fn segment(&mut self, _: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.numbers.segment(segment)
    }

    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        let wanted = batch.buckets.iter().max().map_or(0, |max| *max as usize + 1);
        if self.digests.len() < wanted {
            self.digests.resize_with(wanted, || None);
        }
        self.numbers.read(batch);
        for (position, value) in self.numbers.positions.iter().zip(&self.numbers.values) {
            let bucket = batch.buckets[*position as usize] as usize;
            let digest = self.digests[bucket].get_or_insert_with(|| Digest::new(self.sketch));
            let before = digest.bytes();
            match digest {
                Digest::TDigest(digest) => digest.add(*value),
                Digest::Hdr(digest) => {
                    if !digest.add(*value) {
                        return Err(Error::illegal_argument(format!(
                            "Histogram recorded value cannot be negative: [{value}]"
                        )));
                    }
                }
            }
            self.digests_bytes += digest.bytes();
            self.digests_bytes -= before;
        }
        let now = self.digests_bytes + self.digests.capacity() * size_of::<Option<Digest>>();
        env.account.adjust(&mut self.accounted, now)
    }

    fn result(&mut self, _: &Env<'_>, bucket: u32) -> Result<Partial, Error> {
        let digest = self.digests.get_mut(bucket as usize).and_then(Option::take);
        let print = self.numbers.print();
        Ok(match digest.unwrap_or_else(|| Digest::new(self.sketch)) {
            Digest::TDigest(digest) => Partial::Digest(digest, print),
            Digest::Hdr(digest) => Partial::Hdr(digest, print),
        })
    }

    fn number(&self, bucket: u32, _: &[String], property: Option<&str>) -> f64 {
        let digest = self.digests.get(bucket as usize).and_then(Option::as_ref);
        let percent = property.and_then(|text| text.parse::<f64>().ok());
        match (digest, percent) {
            (Some(Digest::TDigest(digest)), Some(percent)) => {
                digest.clone().quantile(percent / 100.0)
            }
            (Some(Digest::TDigest(digest)), None) => digest.clone().median_absolute_deviation(),
            (Some(Digest::Hdr(digest)), Some(percent)) => digest.quantile(percent / 100.0),
            _ => f64::NAN,
        }
    }
}
