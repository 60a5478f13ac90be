//! An analyzer: how one text becomes tokens, for indexing (as a Tantivy tokenizer), for queries
//! and for showing.

use std::sync::Arc;

use serde_json::{Value, json};
use tantivy::tokenizer::{TokenStream, Tokenizer};

use super::filter::{CharFilter, FILTERED_BYTES_MAX, Filter};
use super::tokenizer::TokenizerKind;
use super::tokens::Tokens;

/// A token as analysis gives it. Offsets are bytes of the text.
pub use tantivy::tokenizer::Token;

/// Between the texts of a list of one document lie 100 positions (Elasticsearch's default of
/// `position_increment_gap`), so that no phrase goes from one to the next.
const TEXTS_APART: usize = 100;

/// The same where they are shown.
const SHOWN_BYTES_MAX: usize = 32 << 20;
/// How many tokens may be made for each that may be shown.
const SHOWN_OF: usize = 10;

/// How one text becomes tokens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Analyzer(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    name: String,
    fingerprint: String,
    char_filters: Vec<CharFilter>,
    tokenizer: TokenizerKind,
    filters: Vec<Filter>,
}

impl Analyzer {
    pub(super) fn new(
        name: &str,
        char_filters: Vec<CharFilter>,
        tokenizer: TokenizerKind,
        filters: Vec<Filter>,
    ) -> Self {
        let fingerprint = format!("{char_filters:?}{tokenizer:?}{filters:?}");
        Self(Arc::new(Parts {
            name: name.to_owned(),
            fingerprint,
            char_filters,
            tokenizer,
            filters,
        }))
    }

    /// The name that a mapping calls it by, such as `standard`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The same analyzer under another name.
    pub(super) fn named(&self, name: &str) -> Self {
        let parts = &self.0;
        Self::new(name, parts.char_filters.clone(), parts.tokenizer.clone(), parts.filters.clone())
    }

    /// What it does, as text: two analyzers that do the same have the same fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The tokens of a text, in order.
    #[must_use]
    pub fn tokens(&self, text: &str) -> Vec<Token> {
        let mut tokens = Tokens::default();
        self.run(text, &mut tokens);
        tokens.list.truncate(tokens.len);
        tokens.list
    }

    /// The terms of a text, in order.
    #[must_use]
    pub fn terms(&self, text: &str) -> Vec<String> {
        self.tokens(text).into_iter().map(|token| token.text).collect()
    }

    /// What a normalizer makes of a whole value: its tokens, joined.
    #[must_use]
    pub fn normalize(&self, text: &str) -> String {
        self.terms(text).concat()
    }

    /// The tokens as `_analyze` shows them: offsets count UTF-16 units, as Java does. None where
    /// there are more than `tokens_max` of them; not many more are made then.
    #[must_use]
    pub fn explain(&self, text: &str, tokens_max: usize) -> Option<Vec<Value>> {
        // Filters may leave some out that the tokenizer makes.
        let made_max = tokens_max.saturating_mul(SHOWN_OF);
        let mut tokens = Tokens::bounded(made_max, SHOWN_BYTES_MAX);
        self.run(text, &mut tokens);
        if tokens.is_cut || tokens.len > tokens_max {
            return None;
        }
        let mut utf16 = Utf16::default();
        let shown = tokens.list[..tokens.len].iter().map(|token| {
            json!({
                "token": token.text,
                "start_offset": utf16.at(text, token.offset_from),
                "end_offset": utf16.at(text, token.offset_to),
                "type": self.0.tokenizer.kind_of(&token.text),
                "position": token.position,
            })
        });
        Some(shown.collect())
    }

    fn run(&self, text: &str, tokens: &mut Tokens) {
        tokens.clear();
        if self.0.char_filters.is_empty() {
            self.0.tokenizer.run(text, tokens);
        } else {
            // Offsets are then those of the filtered text: nothing reads them but highlighting,
            // which analyzes the text as it is.
            let mut filtered = text.to_owned();
            for filter in &self.0.char_filters {
                filtered = filter.apply(&filtered);
                tokens.is_cut |= filtered.len() >= FILTERED_BYTES_MAX;
            }
            self.0.tokenizer.run(&filtered, tokens);
        }
        for filter in &self.0.filters {
            filter.apply(tokens);
        }
    }
}

/// How many UTF-16 units lie before a byte, for bytes that mostly follow each other.
#[derive(Default)]
struct Utf16 {
    byte: usize,
    units: usize,
}

impl Utf16 {
    fn at(&mut self, text: &str, byte: usize) -> usize {
        let end = text.floor_char_boundary(byte);
        let units = |from: usize, to: usize| text[from..to].encode_utf16().count();
        self.units = match end >= self.byte {
            true => self.units + units(self.byte, end),
            false => self.units - units(end, self.byte),
        };
        self.byte = end;
        self.units
    }
}

/// An analyzer as Tantivy wants it: with its buffer.
#[derive(Clone)]
pub(crate) struct IndexTokenizer {
    analyzer: Analyzer,
    tokens: Tokens,
}

impl IndexTokenizer {
    pub(crate) fn new(analyzer: Analyzer) -> Self {
        Self { analyzer, tokens: Tokens::default() }
    }
}

impl Tokenizer for IndexTokenizer {
    type TokenStream<'a> = BufferedStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> BufferedStream<'a> {
        self.analyzer.run(text, &mut self.tokens);
        // Tantivy puts the next text of a list one position after the end of the last token.
        if let Some(last) = self.tokens.iter_mut().last() {
            last.position_length = TEXTS_APART;
        }
        BufferedStream { tokens: &mut self.tokens, next: 0 }
    }
}

pub(crate) struct BufferedStream<'a> {
    tokens: &'a mut Tokens,
    next: usize,
}

impl TokenStream for BufferedStream<'_> {
    fn advance(&mut self) -> bool {
        let there = self.next < self.tokens.len;
        self.next += usize::from(there);
        there
    }

    fn token(&self) -> &Token {
        &self.tokens.list[self.next - 1]
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.tokens.list[self.next - 1]
    }
}
