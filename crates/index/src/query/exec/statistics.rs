//! BM25 as Lucene computes it: the number of documents is that of the documents which have the
//! field, not of all documents.

use std::fmt;

use tantivy::query::{Bm25StatisticsProvider, EnableScoring, Query, Weight};
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

/// Free parameter of BM25: how soon more occurrences stop to count.
pub(crate) const K1: f32 = 1.2;
/// Free parameter of BM25: how much the length of a text counts.
pub(crate) const B: f32 = 0.75;

/// A query of text on one field, scored with the statistics of that field.
pub(crate) struct FieldScored {
    pub inner: Box<dyn Query>,
    /// The documents that have the field, deleted ones included.
    pub doc_count: u64,
}

impl Clone for FieldScored {
    fn clone(&self) -> Self {
        Self { inner: self.inner.box_clone(), doc_count: self.doc_count }
    }
}

impl fmt::Debug for FieldScored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldScored({:?})", self.inner)
    }
}

impl Query for FieldScored {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        match scoring {
            EnableScoring::Enabled { searcher, .. } => {
                let statistics = FieldStatistics { searcher, doc_count: self.doc_count.max(1) };
                self.inner
                    .weight(EnableScoring::enabled_from_statistics_provider(&statistics, searcher))
            }
            disabled @ EnableScoring::Disabled { .. } => self.inner.weight(disabled),
        }
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.inner.query_terms(visitor);
    }
}

struct FieldStatistics<'a> {
    searcher: &'a Searcher,
    doc_count: u64,
}

impl Bm25StatisticsProvider for FieldStatistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        Bm25StatisticsProvider::total_num_tokens(self.searcher, field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.doc_count)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        // Never more than the documents that have the field: Tantivy insists.
        Ok(self.searcher.doc_freq(term)?.min(self.doc_count))
    }
}

/// Lucene's inverse document frequency, `ln(1 + (N - n + 0.5) / (n + 0.5))`.
#[expect(clippy::cast_possible_truncation, reason = "scores are floats of 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "counts of documents are far below 2^53")]
pub(crate) fn idf(doc_freq: u64, doc_count: u64) -> f32 {
    let (n, total) = (doc_freq as f64, doc_count.max(doc_freq) as f64);
    (1.0 + (total - n + 0.5) / (n + 0.5)).ln() as f32
}

/// The score of a term of a field that keeps neither lengths nor frequencies, such as a keyword:
/// it is the same for all documents. Every length counts as 1; the mean is that of the numbers of
/// values.
#[expect(clippy::cast_possible_truncation, reason = "Lucene's mean is a float of 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn constant_score(doc_freq: u64, doc_count: u64, values: u64) -> f32 {
    let weight = (K1 + 1.0) * idf(doc_freq, doc_count);
    let mean = (values.max(1) as f64 / doc_count.max(1) as f64) as f32;
    let norm_inverse = 1.0 / (K1 * ((1.0 - B) + B * 1.0 / mean));
    weight - weight / (1.0 + norm_inverse)
}
