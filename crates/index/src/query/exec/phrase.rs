//! A phrase whose words may stand apart (`slop`): found and scored as Lucene does, with what it
//! takes bounded by the length of the text.
//!
//! Each word of the phrase is a place that moves through the positions of its term. The place that
//! is furthest back moves, until it passes the next; how far the first and the last are apart then,
//! less than in the phrase itself, is what the match lacks. So each position is looked at once for
//! each word, and nothing is kept but the positions. Tantivy keeps every pair that is near enough,
//! and of those every pair again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings as _, SegmentPostings};
use tantivy::query::{
    Bm25StatisticsProvider as _, EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError, Term};

use super::exact::{length_of, mean_length};
use super::run::Run;
use super::statistics::{B, K1, idf};
use crate::error::Error;

/// The most moves within one segment, after which the search fails: some seconds. Words that come
/// again and again in phrase and text multiply, and a search cannot be cancelled between two matches.
const MOVES_MAX: usize = 1_000_000_000;

/// A phrase.
#[derive(Clone, Debug)]
pub(crate) struct SloppyPhrase {
    /// Two words or more with their places in the phrase.
    pub terms: Vec<(usize, Term)>,
    /// How far words may stand from their places, all together.
    pub slop: u32,
    /// The documents that have the field, deleted ones included.
    pub doc_count: u64,
    /// Where it says that it takes too many moves.
    pub run: Run,
}

impl Query for SloppyPhrase {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let mut scores = None;
        if let EnableScoring::Enabled { searcher, .. } = scoring
            && let Some((_, first)) = self.terms.first()
        {
            let mut sum = 0.0;
            let mut doc_count = self.doc_count.max(1);
            for (_, term) in &self.terms {
                let doc_freq = searcher.doc_freq(term)?;
                doc_count = doc_count.max(doc_freq);
                sum += idf(doc_freq, doc_count);
            }
            let mean = mean_length(searcher.total_num_tokens(first.field())?, doc_count);
            let mut norm_inverses = Box::new([0.0; 256]);
            for (id, norm_inverse) in (0u8..=255).zip(norm_inverses.iter_mut()) {
                *norm_inverse = 1.0 / (K1 * ((1.0 - B) + B * length_of(id) / mean));
            }
            scores = Some(Scores { weight: (1.0 + K1) * sum, norm_inverses });
        }
        Ok(Box::new(PhraseWeight { phrase: self.clone(), scores }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.terms.iter().for_each(|(_, term)| visitor(term, true));
    }
}

#[derive(Clone)]
struct Scores {
    weight: f32,
    norm_inverses: Box<[f32; 256]>,
}

struct PhraseWeight {
    phrase: SloppyPhrase,
    /// None where only the documents are wanted.
    scores: Option<Scores>,
}

impl PhraseWeight {
    fn open(&self, reader: &SegmentReader, boost: f32) -> tantivy::Result<Option<PhraseScorer>> {
        if self.phrase.run.is_over() {
            return Ok(None);
        }
        let mut terms: Vec<&Term> = Vec::new();
        let mut words = Vec::new();
        for (place, term) in &self.phrase.terms {
            let at = terms.iter().position(|known| *known == term).unwrap_or(terms.len());
            if at == terms.len() {
                terms.push(term);
            }
            words.push(Word { term: at, place: i64::try_from(*place).unwrap_or(i64::MAX), at: 0 });
        }
        let Some(field) = terms.first().map(|term| term.field()) else { return Ok(None) };
        let index = reader.inverted_index(field)?;
        let mut postings = Vec::with_capacity(terms.len());
        for term in terms {
            match index.read_postings(term, IndexRecordOption::WithFreqsAndPositions)? {
                Some(found) => postings.push(found),
                None => return Ok(None),
            }
        }
        let norms = match reader.fieldnorms_readers().get_field(field)? {
            Some(norms) if self.scores.is_some() => norms,
            _ => FieldNormReader::constant(reader.max_doc(), 1),
        };
        let scores = self.scores.clone().map(|mut scores| {
            scores.weight *= boost;
            scores
        });
        let positions = vec![Vec::new(); postings.len()];
        let places =
            Places { words, positions, heap: BinaryHeap::new(), end: 0, moves_left: MOVES_MAX };
        let slop = i64::from(self.phrase.slop);
        let run = self.phrase.run.clone();
        let mut scorer =
            PhraseScorer { postings, places, slop, run, norms, scores, doc: 0, freq: 0.0 };
        scorer.find(0);
        Ok(Some(scorer))
    }
}

impl Weight for PhraseWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(match self.open(reader, boost)? {
            Some(scorer) => Box::new(scorer),
            None => Box::new(EmptyScorer),
        })
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let no_match = || TantivyError::InvalidArgument(format!("document {doc} does not match"));
        let mut scorer = self.open(reader, 1.0)?.ok_or_else(no_match)?;
        if scorer.doc() > doc || scorer.seek(doc) != doc {
            return Err(no_match());
        }
        let mut whole = Explanation::new("phrase with slop, result of:", scorer.score());
        whole.add_const("phraseFreq", scorer.freq);
        Ok(whole)
    }
}

/// The first document from `target` on that has all terms.
pub(super) fn next_of_all(postings: &mut [SegmentPostings], mut target: DocId) -> DocId {
    loop {
        let mut furthest = target;
        for postings in &mut *postings {
            let mut doc = postings.doc();
            if doc < furthest {
                doc = postings.seek(furthest);
            }
            furthest = furthest.max(doc);
            if furthest == TERMINATED {
                return TERMINATED;
            }
        }
        if furthest == target {
            return target;
        }
        target = furthest;
    }
}

struct PhraseScorer {
    /// Of each term once.
    postings: Vec<SegmentPostings>,
    places: Places,
    slop: i64,
    run: Run,
    norms: FieldNormReader,
    scores: Option<Scores>,
    doc: DocId,
    freq: f32,
}

impl PhraseScorer {
    /// Goes to the first document from `target` on that has the phrase.
    fn find(&mut self, mut target: DocId) -> DocId {
        loop {
            target = next_of_all(&mut self.postings, target);
            if target == TERMINATED {
                self.doc = TERMINATED;
                return TERMINATED;
            }
            for (postings, positions) in self.postings.iter_mut().zip(&mut self.places.positions) {
                postings.positions(positions);
            }
            self.freq = self.places.freq(self.slop, self.scores.is_none());
            if self.places.moves_left == 0 {
                self.run.fail(Error::illegal_argument(format!(
                    "a phrase with [slop] of [{}] words takes more than [{MOVES_MAX}] steps through \
                     their positions in one segment: fewer or rarer words take less",
                    self.places.words.len()
                )));
                self.doc = TERMINATED;
                return TERMINATED;
            }
            if self.freq > 0.0 {
                self.doc = target;
                return target;
            }
            target += 1;
        }
    }
}

impl DocSet for PhraseScorer {
    fn advance(&mut self) -> DocId {
        match self.doc {
            TERMINATED => TERMINATED,
            doc => self.find(doc + 1),
        }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if target > self.doc { self.find(target) } else { self.doc }
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.postings.iter().map(DocSet::size_hint).min().unwrap_or(0)
    }
}

impl Scorer for PhraseScorer {
    fn score(&mut self) -> Score {
        let Some(scores) = &self.scores else { return 1.0 };
        let norm_inverse = scores.norm_inverses[usize::from(self.norms.fieldnorm_id(self.doc))];
        scores.weight - scores.weight / (1.0 + self.freq * norm_inverse)
    }
}

/// A word of the phrase on its way through a text.
#[derive(Clone, Copy)]
struct Word {
    /// Which of the different terms it is.
    term: usize,
    /// Where it stands in the phrase.
    place: i64,
    /// Which of the term's positions it has come to.
    at: usize,
}

/// Words on their way through one text.
struct Places {
    words: Vec<Word>,
    /// Of each term.
    positions: Vec<Vec<u32>>,
    /// Where the phrase would begin by each word, the furthest back first.
    heap: BinaryHeap<Reverse<(i64, usize)>>,
    /// The furthest ahead of them.
    end: i64,
    /// How many moves there may still be, in this text and those after it.
    moves_left: usize,
}

impl Places {
    /// How often the phrase is there, a match that lacks nothing counting as one; the first match
    /// is enough where `is_any`.
    fn freq(&mut self, slop: i64, is_any: bool) -> f32 {
        let mut freq = 0.0;
        if !self.begin() {
            return freq;
        }
        loop {
            let Some(Reverse((mut begin, word))) = self.heap.pop() else { return freq };
            let next = self.heap.peek().map_or(i64::MAX, |Reverse((next, _))| *next);
            let mut lacks = self.end - begin;
            let is_over = loop {
                match self.go_on(word) {
                    None => break true,
                    Some(there) => begin = there,
                }
                self.end = self.end.max(begin);
                if begin > next {
                    self.heap.push(Reverse((begin, word)));
                    break false;
                }
                lacks = lacks.min(self.end - begin);
            };
            if lacks <= slop {
                freq += factor(lacks);
            }
            if is_over || (is_any && freq > 0.0) {
                return freq;
            }
        }
    }

    /// Puts every word to its first position; of words that are the same, each to one of its own.
    /// False where there are too few.
    fn begin(&mut self) -> bool {
        self.heap.clear();
        self.spend_moves();
        self.end = i64::MIN;
        for at in 0..self.words.len() {
            let term = self.words[at].term;
            let same = self.words[..at].iter().filter(|word| word.term == term).count();
            self.words[at].at = same;
            let Some(begin) = self.begin_of(at) else { return false };
            self.end = self.end.max(begin);
            self.heap.push(Reverse((begin, at)));
        }
        true
    }

    /// Counts what a look at all words costs.
    fn spend_moves(&mut self) {
        self.moves_left = self.moves_left.saturating_sub(self.words.len());
    }

    fn begin_of(&self, word: usize) -> Option<i64> {
        let Word { term, place, at } = self.words[word];
        self.positions[term].get(at).map(|position| i64::from(*position) - place)
    }

    /// Moves a word to its next position that no other of the same term has; none where there is
    /// none, or no moves are left.
    fn go_on(&mut self, moving: usize) -> Option<i64> {
        let Word { term, mut at, .. } = self.words[moving];
        loop {
            at += 1;
            self.spend_moves();
            if self.moves_left == 0 {
                return None;
            }
            let is_taken = |(other, word): (usize, &Word)| {
                other != moving && word.term == term && word.at == at
            };
            if !self.words.iter().enumerate().any(is_taken) {
                break;
            }
        }
        self.words[moving].at = at;
        self.begin_of(moving)
    }
}

/// What a match counts, by how much it lacks.
#[expect(clippy::cast_precision_loss, reason = "a slop is far below 2^24 where it matters")]
fn factor(lacks: i64) -> f32 {
    1.0 / (1.0 + lacks.max(0) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phrase on its way through a text; words are letters.
    fn places(phrase: &str, text: &str, moves_left: usize) -> Places {
        let mut terms: Vec<char> = Vec::new();
        let mut words = Vec::new();
        for (place, letter) in (0..).zip(phrase.chars()) {
            let at = terms.iter().position(|known| *known == letter).unwrap_or(terms.len());
            if at == terms.len() {
                terms.push(letter);
            }
            words.push(Word { term: at, place, at: 0 });
        }
        let all = || (0..).zip(text.chars());
        let of = |term: &char| all().filter(|(_, it)| it == term).map(|(at, _)| at).collect();
        let positions: Vec<Vec<u32>> = terms.iter().map(of).collect();
        Places { words, positions, heap: BinaryHeap::new(), end: 0, moves_left }
    }

    /// How often a phrase is in a text.
    fn freq(phrase: &str, text: &str, slop: i64) -> f32 {
        let mut places = places(phrase, text, MOVES_MAX);
        let any = places.freq(slop, true);
        let all = places.freq(slop, false);
        assert_eq!(any > 0.0, all > 0.0, "{phrase} {text} {slop}");
        all
    }

    #[test]
    fn words_may_stand_apart() {
        for (phrase, text, slop, expected) in [
            ("ab", "ab", 0, 1.0),
            ("ab", "a.b", 0, 0.0),
            ("ab", "a.b", 1, 0.5),
            // To change places takes two.
            ("ab", "ba", 1, 0.0),
            ("ab", "ba", 2, 1.0 / 3.0),
            ("ab", "ab..ab", 1, 2.0),
            ("abc", "a.b.c", 2, 1.0 / 3.0),
            ("abc", "a.b.c", 1, 0.0),
            ("aba", "aba", 0, 1.0),
            ("aa", "a", 5, 0.0),
            ("aa", "aa", 0, 1.0),
            ("aa", "a.a", 1, 0.5),
            ("abc", "abxc.abc", 1, 1.5),
            ("ab", "x", 9, 0.0),
        ] {
            let found = freq(phrase, text, slop);
            assert!((found - expected).abs() < 1e-6, "{phrase} in {text} ~{slop}: {found}");
        }
    }

    #[test]
    fn long_texts_take_no_more_than_their_length() {
        let text = "ab".repeat(500_000);
        assert!(freq("ab", &text, 50) > 0.0);
        assert!(freq("abababab", &text, 50) > 0.0);
    }

    #[test]
    fn moves_are_counted_over_all_texts() {
        let mut once = places("ab", "a..b", 1_000);
        once.freq(0, false);
        let spent = 1_000 - once.moves_left;
        assert!(spent > 0);
        let mut thrice = places("ab", "a..b", 3 * spent);
        for left in [2 * spent, spent, 0] {
            assert_eq!(thrice.freq(0, false).to_bits(), 0.0_f32.to_bits());
            assert_eq!(thrice.moves_left, left);
        }
        // Words that come again and again.
        let mut same = places(&"a".repeat(1_000), &"a".repeat(100_000), 20_000_000);
        same.freq(50, false);
        assert_eq!(same.moves_left, 0);
    }
}
