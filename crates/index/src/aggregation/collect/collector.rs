//! What all collectors are: documents come in batches, results go by bucket. Which there are is [`Env::build`]'s
//! to say.

use tantivy::{DocId, Score, Searcher, SegmentReader};

use super::context::Context;

use crate::Error;
use crate::aggregation::fields::Fields;
use crate::aggregation::memory::Account;
use crate::aggregation::partial::Partial;
use crate::aggregation::request::Node;

/// Makes the collector of one aggregation; true where its parent has only the bucket 0.
pub(super) type Build = fn(&Env<'_>, &Node, bool) -> Result<Box<dyn Collector>, Error>;

/// What collectors share.
pub(crate) struct Env<'a> {
    pub(crate) searcher: &'a Searcher,
    pub(crate) fields: &'a dyn Fields,
    pub(crate) context: &'a Context<'a>,
    pub(crate) account: Account<'a>,
    /// The segment that flows now.
    pub(crate) segment_ordinal: u32,
    /// Makes the collectors below a bucket aggregation.
    pub(super) build: Build,
}

/// Documents of one segment, in order, and the bucket of the parent that each belongs to. A
/// document may occur more than once, in several buckets.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) docs: Vec<DocId>,
    pub(crate) buckets: Vec<u32>,
    /// As many as documents, or none where nobody asks for scores.
    pub(crate) scores: Vec<Score>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.docs.clear();
        self.buckets.clear();
        self.scores.clear();
    }

    /// Adds what stands at a position of another batch, in another bucket.
    #[inline]
    pub(super) fn push_from(&mut self, from: &Self, position: usize, bucket: u32) {
        self.docs.push(from.docs[position]);
        self.buckets.push(bucket);
        if let Some(score) = from.scores.get(position) {
            self.scores.push(*score);
        }
    }
}

/// A part of the tree.
pub(crate) trait Collector {
    /// The documents that come now are of this segment.
    fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error>;
    /// Takes a batch.
    fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error>;
    /// What was found in one bucket of the parent.
    fn result(&mut self, env: &Env<'_>, bucket: u32) -> Result<Partial, Error>;
    /// The number to sort the parent's bucket by; NaN where there is none.
    fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        let _ = (bucket, path, property);
        f64::NAN
    }
}

/// The collectors below one bucket aggregation.
pub(crate) struct Subs {
    list: Vec<(String, Box<dyn Collector>)>,
}

impl Subs {
    pub(super) fn new(env: &Env<'_>, nodes: &[Node], single: bool) -> Result<Self, Error> {
        let list = nodes
            .iter()
            .map(|node| Ok((node.name.clone(), (env.build)(env, node, single)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { list })
    }

    pub(super) fn none() -> Self {
        Self { list: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.list.iter_mut().try_for_each(|(_, sub)| sub.segment(env, segment))
    }

    pub(super) fn collect(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        if batch.docs.is_empty() {
            return Ok(());
        }
        self.list.iter_mut().try_for_each(|(_, sub)| sub.collect(env, batch))
    }

    pub(super) fn results(&mut self, env: &Env<'_>, bucket: u32) -> Result<Vec<Partial>, Error> {
        env.account.check()?;
        self.list.iter_mut().map(|(_, sub)| sub.result(env, bucket)).collect()
    }

    pub(super) fn number(&self, bucket: u32, path: &[String], property: Option<&str>) -> f64 {
        let Some((first, rest)) = path.split_first() else { return f64::NAN };
        let sub = self.list.iter().find(|(name, _)| name == first);
        sub.map_or(f64::NAN, |(_, sub)| sub.number(bucket, rest, property))
    }
}
