//! A term of a text scored exactly as Lucene scores it, to the last bit. Tantivy's scorer, which
//! can skip blocks, rounds otherwise; it chooses the best hits, and this scores what is shown.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings as _, SegmentPostings};
use tantivy::query::{
    Bm25StatisticsProvider as _, EmptyScorer, EnableScoring, Explanation, Query, Scorer, TermQuery,
    Weight,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TantivyError, Term};

use super::statistics::{B, K1, idf};

/// A term of a text.
#[derive(Clone, Debug)]
pub(crate) struct LuceneTerm {
    pub term: Term,
    /// The field and the word, for explanations: `t:fox`.
    pub name: String,
    /// The documents that have the field, deleted ones included.
    pub doc_count: u64,
}

impl Query for LuceneTerm {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let EnableScoring::Enabled { searcher, .. } = scoring else {
            let plain = TermQuery::new(self.term.clone(), IndexRecordOption::Basic);
            return plain.weight(scoring);
        };
        let doc_freq = searcher.doc_freq(&self.term)?;
        let doc_count = self.doc_count.max(doc_freq).max(1);
        let tokens = searcher.total_num_tokens(self.term.field())?;
        let mean = mean_length(tokens, doc_count);
        let idf = idf(doc_freq, doc_count);
        let mut norm_inverses = Box::new([0.0; 256]);
        for (id, norm_inverse) in (0u8..=255).zip(norm_inverses.iter_mut()) {
            let length = length_of(id);
            *norm_inverse = 1.0 / (K1 * ((1.0 - B) + B * length / mean));
        }
        Ok(Box::new(LuceneWeight {
            query: self.clone(),
            weight: (1.0 + K1) * idf,
            idf,
            doc_freq,
            doc_count,
            mean,
            norm_inverses,
        }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        visitor(&self.term, false);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "Lucene's mean is a float of 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn mean_length(tokens: u64, doc_count: u64) -> f32 {
    (tokens as f64 / doc_count as f64) as f32
}

#[expect(clippy::cast_precision_loss, reason = "Lucene's table of lengths has floats of 32 bits")]
pub(super) fn length_of(id: u8) -> f32 {
    FieldNormReader::id_to_fieldnorm(id) as f32
}

struct LuceneWeight {
    query: LuceneTerm,
    weight: f32,
    idf: f32,
    doc_freq: u64,
    doc_count: u64,
    mean: f32,
    norm_inverses: Box<[f32; 256]>,
}

impl LuceneWeight {
    fn open(&self, reader: &SegmentReader, boost: f32) -> tantivy::Result<Option<LuceneScorer>> {
        let field = self.query.term.field();
        let index = reader.inverted_index(field)?;
        let option = IndexRecordOption::WithFreqs;
        let Some(postings) = index.read_postings(&self.query.term, option)? else {
            return Ok(None);
        };
        let norms = match reader.fieldnorms_readers().get_field(field)? {
            Some(norms) => norms,
            // Without lengths, each counts as 1.
            None => FieldNormReader::constant(reader.max_doc(), 1),
        };
        let norm_inverses = self.norm_inverses.clone();
        Ok(Some(LuceneScorer { postings, norms, weight: self.weight * boost, norm_inverses }))
    }
}

impl Weight for LuceneWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(match self.open(reader, boost)? {
            Some(scorer) => Box::new(scorer),
            None => Box::new(EmptyScorer),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "an explanation has floats of 32 bits")]
    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let no_match = || TantivyError::InvalidArgument(format!("document {doc} does not match"));
        let mut scorer = self.open(reader, 1.0)?.ok_or_else(no_match)?;
        if scorer.doc() > doc || scorer.seek(doc) != doc {
            return Err(no_match());
        }
        let freq = scorer.postings.term_freq() as f32;
        let score = scorer.score();
        let norm = scorer.norms.fieldnorm_id(doc);
        let norm_inverse = self.norm_inverses[usize::from(norm)];
        let mut idf =
            Explanation::new("idf, computed as log(1 + (N - n + 0.5) / (n + 0.5)) from:", self.idf);
        idf.add_const("n, number of documents containing term", self.doc_freq as f32);
        idf.add_const("N, total number of documents with field", self.doc_count as f32);
        let mut tf = Explanation::new(
            "tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:",
            1.0 - 1.0 / (1.0 + freq * norm_inverse),
        );
        tf.add_const("freq, occurrences of term within document", freq);
        tf.add_const("k1, term saturation parameter", K1);
        tf.add_const("b, length normalization parameter", B);
        tf.add_const("dl, length of field", length_of(norm));
        tf.add_const("avgdl, average length of field", self.mean);
        let mut product = Explanation::new_with_string(
            format!("score(freq={freq:?}), computed as boost * idf * tf from:"),
            score,
        );
        product.add_const("boost", 1.0 + K1);
        product.add_detail(idf);
        product.add_detail(tf);
        let name = &self.query.name;
        let mut whole = Explanation::new_with_string(
            format!("weight({name} in {doc}) [PerFieldSimilarity], result of:"),
            score,
        );
        whole.add_detail(product);
        Ok(whole)
    }
}

struct LuceneScorer {
    postings: SegmentPostings,
    norms: FieldNormReader,
    weight: f32,
    norm_inverses: Box<[f32; 256]>,
}

impl DocSet for LuceneScorer {
    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.postings.seek(target)
    }

    fn doc(&self) -> DocId {
        self.postings.doc()
    }

    fn size_hint(&self) -> u32 {
        self.postings.size_hint()
    }
}

impl Scorer for LuceneScorer {
    #[expect(clippy::cast_precision_loss, reason = "frequencies are small")]
    fn score(&mut self) -> Score {
        let norm = self.norms.fieldnorm_id(self.postings.doc());
        let norm_inverse = self.norm_inverses[usize::from(norm)];
        let freq = self.postings.term_freq() as f32;
        // In this order of operations; others differ in the last bit.
        self.weight - self.weight / (1.0 + freq * norm_inverse)
    }
}
