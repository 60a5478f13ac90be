//! Queries whose score is computed from columns: `function_score`, `script_score`, `boosting`,
//! and scripts as filters. The documents come from an inner query; their scores are computed a
//! block at a time.

use std::fmt;

use tantivy::fastfield::AliveBitSet;
use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{
    DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED, TantivyError, Term,
};

use super::BLOCK;
use super::column::Numbers;
use super::decay::{NumericDecay, SegmentDecay, random};
use super::run::Run;
use crate::error::Error;
use crate::partition::Target;
use crate::query::ast::{BoostMode, Modifier, ScoreMode};
use crate::query::script::Script;
use crate::query::script::evaluate::{Bound, SegmentScript};

/// A function with its field known.
#[derive(Clone, Debug)]
pub(crate) enum Compute {
    One,
    FieldValue {
        target: Target,
        field: String,
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
    },
    Random {
        seed: u64,
        target: Option<Target>,
    },
    Decay(NumericDecay),
    Script {
        bound: Bound,
        script: Script,
    },
}

/// One function of a score.
pub(crate) struct ScoreFunction {
    pub filter: Option<Box<dyn Query>>,
    pub weight: f64,
    pub compute: Compute,
}

impl Clone for ScoreFunction {
    fn clone(&self) -> Self {
        Self {
            filter: self.filter.as_ref().map(|filter| filter.box_clone()),
            weight: self.weight,
            compute: self.compute.clone(),
        }
    }
}

/// How the scores of functions become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination {
    pub score_mode: ScoreMode,
    pub boost_mode: BoostMode,
    pub max_boost: f64,
    pub min_score: Option<f32>,
    /// Whether this is `script_score`, whose errors are worded otherwise.
    pub is_script_score: bool,
    /// Whether the functions filter: a document whose value is 0 does not match.
    pub is_filter: bool,
}

/// A query whose score is computed.
pub(crate) struct ComputedScore {
    pub inner: Box<dyn Query>,
    pub functions: Vec<ScoreFunction>,
    pub combination: Combination,
    pub run: Run,
}

impl Clone for ComputedScore {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.box_clone(),
            functions: self.functions.clone(),
            combination: self.combination,
            run: self.run.clone(),
        }
    }
}

impl fmt::Debug for ComputedScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ComputedScore({:?})", self.inner)
    }
}

impl ComputedScore {
    fn uses_score(&self) -> bool {
        self.combination.boost_mode != BoostMode::Replace
            || self.functions.iter().any(
                |function| matches!(&function.compute, Compute::Script { bound, .. } if bound.uses_score),
            )
    }
}

impl Query for ComputedScore {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let unscored = unscored(scoring);
        // Without scores and without a least score, the inner query alone decides.
        if !scoring.is_scoring_enabled()
            && self.combination.min_score.is_none()
            && !self.combination.is_filter
        {
            return self.inner.weight(scoring);
        }
        let searcher = scoring.searcher();
        let inner = match searcher {
            Some(searcher) if self.uses_score() => {
                self.inner.weight(EnableScoring::enabled_from_searcher(searcher))?
            }
            _ => self.inner.weight(unscored)?,
        };
        let mut functions = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let filter =
                function.filter.as_ref().map(|filter| filter.weight(unscored)).transpose()?;
            functions.push(WeightedFunction {
                filter,
                weight: function.weight,
                compute: function.compute.clone(),
            });
        }
        Ok(Box::new(ComputedWeight {
            inner,
            functions,
            combination: self.combination,
            reads_score: self.uses_score(),
            run: self.run.clone(),
        }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.inner.query_terms(visitor);
    }
}

pub(crate) fn unscored(scoring: EnableScoring<'_>) -> EnableScoring<'_> {
    match scoring {
        EnableScoring::Enabled { searcher, .. } => EnableScoring::disabled_from_searcher(searcher),
        disabled @ EnableScoring::Disabled { .. } => disabled,
    }
}

struct WeightedFunction {
    filter: Option<Box<dyn Weight>>,
    weight: f64,
    compute: Compute,
}

struct ComputedWeight {
    inner: Box<dyn Weight>,
    functions: Vec<WeightedFunction>,
    combination: Combination,
    reads_score: bool,
    run: Run,
}

impl Weight for ComputedWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut functions = Vec::with_capacity(self.functions.len());
        for (ordinal, function) in self.functions.iter().enumerate() {
            let filter =
                function.filter.as_ref().map(|filter| filter.scorer(reader, 1.0)).transpose()?;
            let compute = SegmentCompute::open(&function.compute, reader, ordinal)?;
            functions.push(SegmentFunction { filter, weight: function.weight, compute });
        }
        let mut scorer = ComputedScorer {
            inner: self.inner.scorer(reader, 1.0)?,
            alive: reader.alive_bitset().cloned(),
            functions,
            combination: self.combination,
            boost,
            reads_score: self.reads_score,
            run: self.run.clone(),
            docs: [0; BLOCK],
            scores: [0.0; BLOCK],
            length: 0,
            at: 0,
            ahead: 1,
        };
        scorer.fill();
        Ok(Box::new(scorer))
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(reader, 1.0)?;
        if scorer.doc() > doc || scorer.seek(doc) != doc {
            return Err(TantivyError::InvalidArgument(format!("document {doc} does not match")));
        }
        Ok(Explanation::new("function score, combined", scorer.score()))
    }
}

struct SegmentFunction {
    filter: Option<Box<dyn Scorer>>,
    weight: f64,
    compute: SegmentCompute,
}

enum SegmentCompute {
    One,
    FieldValue {
        column: Numbers,
        field: String,
        factor: f64,
        modifier: Modifier,
        missing: Option<f64>,
    },
    Random {
        seed: u64,
        column: Option<Numbers>,
    },
    Decay(SegmentDecay),
    Script {
        segment: SegmentScript,
        script: Script,
    },
}

impl SegmentCompute {
    fn open(compute: &Compute, reader: &SegmentReader, ordinal: usize) -> tantivy::Result<Self> {
        Ok(match compute {
            Compute::One => Self::One,
            Compute::FieldValue { target, field, factor, modifier, missing } => Self::FieldValue {
                column: Numbers::open(reader, target)?,
                field: field.clone(),
                factor: *factor,
                modifier: *modifier,
                missing: *missing,
            },
            Compute::Random { seed, target } => {
                let column =
                    target.as_ref().map(|target| Numbers::open(reader, target)).transpose()?;
                // Segments differ by their names, so that equal numbers of documents do not.
                let name = reader.segment_id().uuid_string();
                let salt = name.bytes().fold(ordinal as u64, |salt, byte| {
                    salt.wrapping_mul(31).wrapping_add(u64::from(byte))
                });
                let seed = if column.is_some() { *seed } else { seed ^ salt };
                Self::Random { seed, column }
            }
            Compute::Decay(decay) => Self::Decay(decay.segment(reader)?),
            Compute::Script { bound, script } => {
                Self::Script { segment: bound.segment(reader)?, script: script.clone() }
            }
        })
    }

    fn evaluate(&mut self, docs: &[DocId], scores: &[f32], out: &mut [f64]) -> Result<(), Error> {
        match self {
            Self::One => out.fill(1.0),
            Self::FieldValue { column, field, factor, modifier, missing } => {
                column.first(docs, missing.unwrap_or(f64::NAN), out);
                for value in out.iter_mut() {
                    if value.is_nan() {
                        return Err(Error::invalid(
                            "exception",
                            format!("Missing value for field [{field}]"),
                        ));
                    }
                    let computed = modified(*factor * *value, *modifier);
                    if computed < 0.0 || computed.is_nan() {
                        return Err(Error::illegal_argument(format!(
                            "field value function must not produce negative scores, but got: [{}] for field value: [{}]",
                            java(computed),
                            java(*value)
                        )));
                    }
                    *value = computed;
                }
            }
            Self::Random { seed, column } => match column {
                Some(column) => {
                    column.first(docs, 0.0, out);
                    for value in out.iter_mut() {
                        *value = random(*seed, value.to_bits());
                    }
                }
                None => {
                    for (value, doc) in out.iter_mut().zip(docs) {
                        *value = random(*seed, u64::from(*doc));
                    }
                }
            },
            Self::Decay(decay) => decay.evaluate(docs, out),
            Self::Script { segment, script } => {
                segment.evaluate(docs, scores, out);
                if let Some(value) = out.iter().find(|value| value.is_nan()) {
                    return Err(script.runtime_error(&format!(
                        "the script gave [{}]: a document doesn't have a value for a field, or the result is not a number",
                        java(*value)
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The value that `field_value_factor` makes of a field's, before it counts in a score.
pub(in crate::query) fn modified(value: f64, modifier: Modifier) -> f64 {
    match modifier {
        Modifier::None => value,
        Modifier::Log => value.log10(),
        Modifier::Log1p => (value + 1.0).log10(),
        Modifier::Log2p => (value + 2.0).log10(),
        Modifier::Ln => value.ln(),
        Modifier::Ln1p => value.ln_1p(),
        Modifier::Ln2p => (value + 1.0).ln_1p(),
        Modifier::Square => value * value,
        Modifier::Sqrt => value.sqrt(),
        Modifier::Reciprocal => 1.0 / value,
    }
}

fn java(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}

/// The documents of the inner query with computed scores. It reads ahead: one document after a
/// seek, twice as many each time after that, so that a conjunction that skips most documents does
/// not compute them.
struct ComputedScorer {
    inner: Box<dyn Scorer>,
    alive: Option<AliveBitSet>,
    functions: Vec<SegmentFunction>,
    combination: Combination,
    boost: f32,
    reads_score: bool,
    run: Run,
    docs: [DocId; BLOCK],
    scores: [f32; BLOCK],
    length: usize,
    at: usize,
    ahead: usize,
}

impl ComputedScorer {
    /// Computes the next documents; afterwards `length` is 0 only at the end.
    fn fill(&mut self) {
        self.at = 0;
        loop {
            self.gather();
            if self.length == 0 {
                return;
            }
            // A block that has no match is followed by the next, and nobody else looks meanwhile.
            if self.run.is_over() {
                self.end();
                return;
            }
            if let Err(error) = self.compute() {
                self.run.fail(error);
                self.end();
                return;
            }
            self.ahead = (self.ahead * 2).min(BLOCK);
            if self.length > 0 {
                return;
            }
        }
    }

    /// Finds nothing more.
    fn end(&mut self) {
        self.length = 0;
        self.inner.seek(TERMINATED);
    }

    /// Takes the next living documents from the inner query.
    fn gather(&mut self) {
        self.length = 0;
        let mut doc = self.inner.doc();
        while doc != TERMINATED && self.length < self.ahead {
            if self.alive.as_ref().is_none_or(|alive| alive.is_alive(doc)) {
                self.docs[self.length] = doc;
                self.scores[self.length] = if self.reads_score { self.inner.score() } else { 1.0 };
                self.length += 1;
            }
            doc = self.inner.advance();
        }
    }

    /// Replaces the scores, and drops the documents that score too low.
    fn compute(&mut self) -> Result<(), Error> {
        let length = self.length;
        let mut joined = [0.0; BLOCK];
        let mut counts = [0.0; BLOCK];
        let mode = self.combination.score_mode;
        let (docs, scores) = (&self.docs[..length], &self.scores[..length]);
        for function in &mut self.functions {
            let mut values = [0.0; BLOCK];
            let values = &mut values[..length];
            // The documents that a filter leaves, or all.
            let Some(filter) = &mut function.filter else {
                function.compute.evaluate(docs, scores, values)?;
                for at in 0..length {
                    join(mode, &mut joined[at], &mut counts[at], values[at], function.weight);
                }
                continue;
            };
            let mut kept = [0usize; BLOCK];
            let (mut kept_docs, mut kept_scores) = ([0; BLOCK], [0.0; BLOCK]);
            let mut count = 0;
            for (at, doc) in docs.iter().enumerate() {
                if filter.doc() < *doc {
                    filter.seek(*doc);
                }
                if filter.doc() == *doc {
                    (kept[count], kept_docs[count], kept_scores[count]) = (at, *doc, scores[at]);
                    count += 1;
                }
            }
            if count > 0 {
                let (docs, scores) = (&kept_docs[..count], &kept_scores[..count]);
                function.compute.evaluate(docs, scores, &mut values[..count])?;
                for (at, value) in kept[..count].iter().zip(values.iter()) {
                    join(mode, &mut joined[*at], &mut counts[*at], *value, function.weight);
                }
            }
        }
        self.combine(&joined, &counts)
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are floats of 32 bits")]
    fn combine(&mut self, joined: &[f64; BLOCK], counts: &[f64; BLOCK]) -> Result<(), Error> {
        let combination = self.combination;
        let mut kept = 0;
        for at in 0..self.length {
            let mut function = joined[at];
            if counts[at] == 0.0 {
                // No function concerns the document.
                function = 1.0;
            } else if combination.score_mode == ScoreMode::Avg {
                function /= counts[at];
            }
            if combination.is_filter {
                if function != 0.0 {
                    self.docs[kept] = self.docs[at];
                    self.scores[kept] = self.boost;
                    kept += 1;
                }
                continue;
            }
            let function = function.min(combination.max_boost);
            let inner = f64::from(self.scores[at]);
            let score = match combination.boost_mode {
                BoostMode::Multiply => inner * function,
                BoostMode::Replace => function,
                BoostMode::Sum => inner + function,
                BoostMode::Avg => f64::midpoint(inner, function),
                BoostMode::Max => inner.max(function),
                BoostMode::Min => inner.min(function),
            };
            let score = score as f32;
            if score.is_nan()
                || score < 0.0
                || score == f32::INFINITY && combination.is_script_score
            {
                return Err(invalid_score(score, self.docs[at], combination.is_script_score));
            }
            if combination.min_score.is_none_or(|least| score >= least) {
                self.docs[kept] = self.docs[at];
                self.scores[kept] = score * self.boost;
                kept += 1;
            }
        }
        self.length = kept;
        Ok(())
    }
}

fn invalid_score(score: f32, doc: DocId, is_script_score: bool) -> Error {
    let score = java(f64::from(score));
    Error::illegal_argument(if is_script_score {
        format!(
            "script_score script returned an invalid score [{score}] for doc [{doc}]. Must be a non-negative score!"
        )
    } else {
        format!("function score query returned an invalid score: {score} for doc: {doc}")
    })
}

#[inline]
fn join(mode: ScoreMode, joined: &mut f64, count: &mut f64, value: f64, weight: f64) {
    let weighted = value * weight;
    if *count == 0.0 {
        *joined = weighted;
    } else {
        match mode {
            ScoreMode::Multiply => *joined *= weighted,
            ScoreMode::Sum | ScoreMode::Avg => *joined += weighted,
            ScoreMode::First => return,
            ScoreMode::Max => *joined = joined.max(weighted),
            ScoreMode::Min => *joined = joined.min(weighted),
        }
    }
    // The mean is weighted; for the others any count but 0 will do.
    *count += if mode == ScoreMode::Avg { weight } else { 1.0 };
}

impl DocSet for ComputedScorer {
    fn advance(&mut self) -> DocId {
        self.at += 1;
        if self.at >= self.length && self.length > 0 {
            self.fill();
        }
        self.doc()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        while self.at < self.length && self.docs[self.at] < target {
            self.at += 1;
        }
        if self.at >= self.length && self.length > 0 {
            if self.inner.doc() < target {
                self.inner.seek(target);
                self.ahead = 1;
            }
            self.fill();
        }
        self.doc()
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= TERMINATED {
            return SeekDangerResult::SeekLowerBound(TERMINATED);
        }
        let doc = if self.doc() < target { self.seek(target) } else { self.doc() };
        if doc == target { SeekDangerResult::Found } else { SeekDangerResult::SeekLowerBound(doc) }
    }

    fn doc(&self) -> DocId {
        if self.at < self.length { self.docs[self.at] } else { TERMINATED }
    }

    fn size_hint(&self) -> u32 {
        self.inner.size_hint()
    }

    fn cost(&self) -> u64 {
        self.inner.cost() + u64::from(self.inner.size_hint()) * 10
    }
}

impl Scorer for ComputedScorer {
    fn score(&mut self) -> Score {
        if self.at < self.length { self.scores[self.at] } else { 0.0 }
    }
}

/// A query whose score is lessened where another matches.
pub(crate) struct Demoted {
    pub positive: Box<dyn Query>,
    pub negative: Box<dyn Query>,
    pub factor: f32,
}

impl Clone for Demoted {
    fn clone(&self) -> Self {
        Self {
            positive: self.positive.box_clone(),
            negative: self.negative.box_clone(),
            factor: self.factor,
        }
    }
}

impl fmt::Debug for Demoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Demoted({:?}, {:?})", self.positive, self.negative)
    }
}

impl Query for Demoted {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        if !scoring.is_scoring_enabled() {
            return self.positive.weight(scoring);
        }
        Ok(Box::new(DemotedWeight {
            positive: self.positive.weight(scoring)?,
            negative: self.negative.weight(unscored(scoring))?,
            factor: self.factor,
        }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.positive.query_terms(visitor);
    }
}

struct DemotedWeight {
    positive: Box<dyn Weight>,
    negative: Box<dyn Weight>,
    factor: f32,
}

impl Weight for DemotedWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(DemotedScorer {
            positive: self.positive.scorer(reader, boost)?,
            negative: self.negative.scorer(reader, 1.0)?,
            factor: self.factor,
        }))
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.positive.explain(reader, doc)
    }
}

struct DemotedScorer {
    positive: Box<dyn Scorer>,
    negative: Box<dyn Scorer>,
    factor: f32,
}

impl DocSet for DemotedScorer {
    fn advance(&mut self) -> DocId {
        self.positive.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.positive.seek(target)
    }

    fn doc(&self) -> DocId {
        self.positive.doc()
    }

    fn size_hint(&self) -> u32 {
        self.positive.size_hint()
    }

    fn cost(&self) -> u64 {
        self.positive.cost()
    }
}

impl Scorer for DemotedScorer {
    fn score(&mut self) -> Score {
        let doc = self.positive.doc();
        if self.negative.doc() < doc {
            self.negative.seek(doc);
        }
        let score = self.positive.score();
        if self.negative.doc() == doc { score * self.factor } else { score }
    }
}
