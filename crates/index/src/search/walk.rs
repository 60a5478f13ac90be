//! The first documents of each segment by the keys of a sorted search: all that match are gone through, but for ranges
//! of documents ([`super::ranges`]) that cannot come early enough and need not be counted.

use std::cmp::Ordering;
use std::collections::HashMap;

use smallvec::SmallVec;
use tantivy::query::{Scorer, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet as _, SegmentReader, TERMINATED};

use super::collapse::SegmentGroups;
use super::failure::internal;
use super::limits::{Count, Limits};
use super::ranges::{Cursor, Ranges};
use super::result::{Hit, SortValue};
use super::segment_sort::{BoundClause, SegmentClause};
use crate::error::Error;
use crate::partition::{Target, View};
use crate::query::exec::BLOCK;

/// One key for each clause.
type Keys = SmallVec<[u64; 2]>;

/// A document with its keys.
#[derive(Clone)]
struct Candidate {
    keys: Keys,
    doc: DocId,
    score: f32,
}

/// What is looked for.
pub(super) struct Plan<'a> {
    pub view: &'a View,
    /// At least one.
    pub clauses: &'a [BoundClause],
    pub weight: &'a dyn Weight,
    pub limits: &'a Limits<'a>,
    /// Whether the order or the hits need scores.
    pub reads_score: bool,
    /// Whether hits show them.
    pub keeps_score: bool,
    /// Of `search_after`, one for each clause.
    pub after: Option<Vec<SortValue>>,
    /// What `collapse` goes by.
    pub groups: Option<Target>,
}

/// The first hits of each segment, not in their order, and how many documents there are.
pub(super) fn first_hits(plan: Plan<'_>) -> Result<(Vec<Hit>, Count), Error> {
    let (searcher, limits) = (plan.view.searcher(), plan.limits);
    let mut walk = Walk { plan, count: Count::default(), found: Vec::new(), worst: None };
    for (segment, reader) in (0u32..).zip(searcher.segment_readers()) {
        walk.count.stop_between(segment, limits);
        if walk.count.stopped {
            break;
        }
        walk.segment(reader, segment)?;
    }
    let Walk { found, mut count, .. } = walk;
    // Documents may have been left out once enough was counted.
    count.is_exact = !count.stopped && count.found <= limits.count_limit();
    Ok((found, count))
}

/// One walk over the segments.
struct Walk<'a> {
    plan: Plan<'a>,
    count: Count,
    found: Vec<Hit>,
    /// The key that a document of a later segment has to come before, where keys of segments can
    /// be compared.
    worst: Option<u64>,
}

/// What comes too late, once there are enough documents: greater first keys, and of equal ones, where there are no
/// other keys, documents from here on. Of later segments no document comes early enough by an equal key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Worst {
    key: u64,
    from: DocId,
}

impl Worst {
    const fn leaves_out(self, key: u64, doc: DocId, is_only_key: bool) -> bool {
        key > self.key || (is_only_key && key == self.key && doc >= self.from)
    }
}

/// So many are kept at least before the last ones are sorted out.
const KEPT_MIN: usize = 256;

/// The first documents of one segment.
struct Best {
    window: usize,
    worst: Option<Worst>,
    kept: Vec<Candidate>,
    groups: HashMap<Option<u64>, Candidate>,
}

impl Best {
    /// Keeps a candidate; sorts out the last ones when there are twice as many as wanted.
    fn push(&mut self, candidate: Candidate) {
        self.kept.push(candidate);
        if self.kept.len() >= self.window.saturating_mul(2).max(KEPT_MIN) {
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
            let last = Worst { key: last.keys[0], from: last.doc.saturating_add(1) };
            self.worst = Some(self.worst.map_or(last, |worst| worst.min(last)));
        }
    }
}

impl Walk<'_> {
    fn segment(&mut self, reader: &SegmentReader, segment: u32) -> Result<(), Error> {
        let mut clauses = Vec::with_capacity(self.plan.clauses.len());
        for clause in self.plan.clauses {
            clauses.push(clause.segment(self.plan.view.searcher(), segment)?);
        }
        if let (Some(worst), Some(least)) = (self.worst, clauses[0].least_key())
            && self.is_counted()
            && least > worst
        {
            return Ok(());
        }
        let after = self.after_keys(&clauses, segment)?;
        let groups = match &self.plan.groups {
            Some(target) => Some(SegmentGroups::open(reader, target)?),
            None => None,
        };
        let mut best = Best {
            window: self.plan.limits.window,
            worst: self.worst.map(|key| Worst { key, from: 0 }),
            kept: Vec::new(),
            groups: HashMap::new(),
        };
        let scorer = self.plan.weight.scorer(reader, 1.0).map_err(internal)?;
        let mut sift = Sift { clauses, after, groups, columns: Vec::new() };
        match self.ranges(&mut sift, reader, scorer.size_hint()) {
            Some(ranges) => self.by_ranges(&ranges, reader, scorer, &mut sift, &mut best)?,
            None => self.through(reader, scorer, &mut sift, &mut best),
        }
        self.keep(&sift.clauses, sift.groups.as_ref(), best, segment)
    }

    /// All documents of a segment.
    fn through(
        &mut self,
        reader: &SegmentReader,
        mut scorer: Box<dyn Scorer>,
        sift: &mut Sift,
        best: &mut Best,
    ) {
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
            sift.consider(&docs[..length], &scores[..length], best);
            self.stop_if_cancelled(&mut blocks);
        }
    }

    /// The ranges of a segment of which some can be left out.
    fn ranges(&self, sift: &mut Sift, reader: &SegmentReader, matching: u32) -> Option<Ranges> {
        let plan = &self.plan;
        let is_plain = !plan.reads_score && sift.groups.is_none() && sift.after.is_none();
        if !is_plain || plan.limits.terminate_after > 0 || plan.limits.window == 0 {
            return None;
        }
        // Else all have to be gone through, to be counted.
        if self.count.found + u64::from(matching) <= plan.limits.count_limit() {
            return None;
        }
        let (clause, bounds) = (sift.clauses.first_mut()?, plan.view.bounds());
        let (searcher, cancelled) = (plan.view.searcher(), plan.limits.cancelled);
        Ranges::of(clause, reader, bounds, searcher, matching, cancelled)
    }

    /// The ranges that come first by their bounds, then the others as far as anything in them may come early enough
    /// or is to be counted.
    fn by_ranges(
        &mut self,
        ranges: &Ranges,
        reader: &SegmentReader,
        scorer: Box<dyn Scorer>,
        sift: &mut Sift,
        best: &mut Best,
    ) -> Result<(), Error> {
        let alive = reader.alive_bitset();
        let first = ranges.first(best.window);
        let mut cursor = Cursor::new(scorer);
        let mut blocks = 0u32;
        for is_first in [true, false] {
            for range in ranges.all().filter(|it| first[it.at] == is_first) {
                let is_only_key = sift.clauses.len() == 1;
                let may_matter = best.worst.is_none_or(|worst| {
                    !worst.leaves_out(range.least_key, range.docs.start, is_only_key)
                });
                if !may_matter && self.is_counted() {
                    continue;
                }
                if !cursor.seek(range.docs.start) {
                    let scorer = self.plan.weight.scorer(reader, 1.0).map_err(internal)?;
                    cursor = Cursor::new(scorer);
                    cursor.seek(range.docs.start);
                }
                while let Some(block) = cursor.block(range.docs.end) {
                    let mut docs = [0; COLLECT_BLOCK_BUFFER_LEN];
                    let mut length = 0;
                    for doc in block {
                        docs[length] = *doc;
                        length += usize::from(alive.is_none_or(|alive| alive.is_alive(*doc)));
                    }
                    self.count.found += length as u64;
                    if may_matter {
                        sift.consider(&docs[..length], &[0.0; BLOCK][..length], best);
                    }
                    self.stop_if_cancelled(&mut blocks);
                    if self.count.stopped {
                        return Ok(());
                    }
                }
                best.shrink();
            }
        }
        Ok(())
    }

    /// Whether more needs not be counted.
    const fn is_counted(&self) -> bool {
        self.count.found > self.plan.limits.count_limit()
    }

    fn stop_if_cancelled(&mut self, blocks: &mut u32) {
        *blocks += 1;
        if blocks.is_multiple_of(16) && self.plan.limits.cancelled.is_set() {
            self.count.stopped = true;
            self.count.timed_out = true;
        }
    }

    /// Counts a block, and shortens it where `terminate_after` ends inside of it.
    fn counted(&mut self, length: usize) -> usize {
        let limit = self.plan.limits.terminate_after;
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
        if !self.plan.reads_score {
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
        if let Some(hit) = self.plan.limits.after {
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
        match &self.plan.after {
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
        if self.plan.clauses[0].is_global() && best.kept.len() >= best.window && groups.is_none() {
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
                score: self.plan.keeps_score.then_some(candidate.score),
                sort: sort?,
                group,
            });
        }
        Ok(())
    }
}

/// Stands for a document before all others in `after_keys`.
const BEFORE: DocId = DocId::MAX - 1;

/// What decides which documents of a segment come first.
struct Sift {
    clauses: Vec<SegmentClause>,
    /// What hits have to come after, see [`Walk::after_keys`].
    after: Option<(Vec<u64>, DocId)>,
    groups: Option<SegmentGroups>,
    /// The keys of a block, by clause.
    columns: Vec<[u64; BLOCK]>,
}

impl Sift {
    fn consider(&mut self, docs: &[DocId], scores: &[f32], best: &mut Best) {
        let Self { clauses, after, groups, columns } = self;
        columns.resize(clauses.len(), [0; BLOCK]);
        let Some((first_clause, others)) = clauses.split_first_mut() else { return };
        let Some((first, rest)) = columns.split_first_mut() else { return };
        first_clause.keys(docs, scores, &mut first[..docs.len()]);
        // Most blocks have nothing that comes early enough: their other keys are not read.
        let is_only_key = others.is_empty();
        let is_out = |key: u64, doc: DocId, worst: Option<Worst>| {
            worst.is_some_and(|worst| worst.leaves_out(key, doc, is_only_key))
        };
        let worst = best.worst;
        let mut keys = first.iter().zip(docs);
        if groups.is_none() && keys.all(|(key, doc)| is_out(*key, *doc, worst)) {
            return;
        }
        for (clause, column) in others.iter_mut().zip(rest.iter_mut()) {
            clause.keys(docs, scores, &mut column[..docs.len()]);
        }
        for (at, doc) in docs.iter().enumerate() {
            if groups.is_none() && is_out(first[at], *doc, best.worst) {
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
                    let of = groups.of(*doc);
                    let kept = best.groups.entry(of).or_insert_with(|| candidate.clone());
                    if candidate.keys < kept.keys {
                        *kept = candidate;
                    }
                }
            }
        }
    }
}
