//! A phrase whose words stand side by side: Tantivy finds and scores it, and here documents are passed over whose
//! score cannot be high enough. A phrase comes no more often than the rarest of its words, so that frequencies and the
//! text's length bound the score; positions, which take most of the time, are read of the others alone.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings as _, SegmentPostings};
use tantivy::query::{Bm25Weight, EnableScoring, Explanation, PhraseQuery, Query, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, Score, SeekDangerResult, SegmentReader, TERMINATED, Term};

use super::phrase::next_of_all;

/// What a bound is raised by, as sums of floats are not exact.
const SLACK: f32 = 1.0 + 1e-6;

/// A phrase.
#[derive(Clone, Debug)]
pub(crate) struct ExactPhrase {
    inner: PhraseQuery,
    /// Each word, as often as it comes.
    words: Vec<Term>,
}

impl ExactPhrase {
    /// Of two words or more of one field, with their places in the phrase.
    pub(crate) fn new(words: Vec<(usize, Term)>) -> Self {
        let terms = words.iter().map(|(_, term)| term.clone()).collect();
        Self { inner: PhraseQuery::new_with_offset(words), words: terms }
    }
}

impl Query for ExactPhrase {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let bm25 = match &scoring {
            EnableScoring::Enabled { statistics_provider, .. } => {
                Some(Bm25Weight::for_terms(*statistics_provider, &self.words)?)
            }
            EnableScoring::Disabled { .. } => None,
        };
        let mut words = self.words.clone();
        words.sort();
        words.dedup();
        Ok(Box::new(ExactWeight { inner: self.inner.weight(scoring)?, bm25, words }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.inner.query_terms(visitor);
    }
}

struct ExactWeight {
    inner: Box<dyn Weight>,
    /// None where only the documents are wanted.
    bm25: Option<Bm25Weight>,
    /// Each word once.
    words: Vec<Term>,
}

impl ExactWeight {
    /// The documents with all words; none where there are none.
    fn candidates(
        &self,
        reader: &SegmentReader,
        bm25: &Bm25Weight,
    ) -> tantivy::Result<Option<Candidates>> {
        let Some(field) = self.words.first().map(Term::field) else { return Ok(None) };
        let index = reader.inverted_index(field)?;
        let mut postings = Vec::with_capacity(self.words.len());
        for word in &self.words {
            match index.read_postings(word, IndexRecordOption::WithFreqs)? {
                Some(found) => postings.push(found),
                None => return Ok(None),
            }
        }
        // The rarest leads.
        postings.sort_by_key(SegmentPostings::size_hint);
        let norms = reader.fieldnorms_readers().get_field(field)?;
        let norms = norms.unwrap_or_else(|| FieldNormReader::constant(reader.max_doc(), 1));
        Ok(Some(Candidates { postings, norms, bm25: bm25.clone() }))
    }
}

impl Weight for ExactWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        self.inner.scorer(reader, boost)
    }

    fn scorer_danger(
        &self,
        reader: &SegmentReader,
        target: DocId,
        boost: Score,
    ) -> tantivy::Result<(SeekDangerResult, Box<dyn Scorer>)> {
        self.inner.scorer_danger(reader, target, boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.inner.explain(reader, doc)
    }

    fn for_each_pruning(
        &self,
        mut threshold: Score,
        reader: &SegmentReader,
        callback: &mut dyn FnMut(DocId, Score) -> Score,
    ) -> tantivy::Result<()> {
        let Some(bm25) = &self.bm25 else {
            return self.inner.for_each_pruning(threshold, reader, callback);
        };
        let Some(mut candidates) = self.candidates(reader, bm25)? else { return Ok(()) };
        let mut phrase = self.inner.scorer(reader, 1.0)?;
        let mut doc = phrase.doc();
        while doc != TERMINATED {
            let score = phrase.score();
            if score > threshold {
                threshold = callback(doc, score);
            }
            if threshold <= 0.0 {
                // Every document counts.
                doc = phrase.advance();
                continue;
            }
            let mut target = doc + 1;
            doc = loop {
                let candidate = candidates.next(target, threshold);
                if candidate == TERMINATED {
                    break TERMINATED;
                }
                match phrase.seek_danger(candidate) {
                    SeekDangerResult::Found => break candidate,
                    SeekDangerResult::SeekLowerBound(next) => target = next.max(candidate + 1),
                }
                if target >= TERMINATED {
                    break TERMINATED;
                }
            };
        }
        Ok(())
    }
}

/// Documents that have all words of a phrase, however they stand.
struct Candidates {
    postings: Vec<SegmentPostings>,
    norms: FieldNormReader,
    bm25: Bm25Weight,
}

impl Candidates {
    /// The first from `target` on whose score may pass the threshold.
    fn next(&mut self, mut target: DocId, threshold: Score) -> DocId {
        loop {
            target = next_of_all(&mut self.postings, target);
            if target == TERMINATED {
                return TERMINATED;
            }
            let frequencies = self.postings.iter().map(SegmentPostings::term_freq);
            let frequency = frequencies.min().unwrap_or(0);
            let bound = self.bm25.score(self.norms.fieldnorm_id(target), frequency);
            if bound * SLACK > threshold {
                return target;
            }
            target += 1;
        }
    }
}
