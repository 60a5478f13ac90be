//! An analyzer: how one text becomes tokens, for indexing (as a Tantivy tokenizer), for queries
//! and for showing.

use std::sync::Arc;

use serde_json::{Value, json};
use tantivy::tokenizer::{TokenStream, Tokenizer};

use super::filter::{CharFilter, Filter};
use super::tokenizer::TokenizerKind;

/// A token as analysis gives it. Offsets are bytes of the text.
pub use tantivy::tokenizer::Token;

/// Between the texts of a list of one document lie 100 positions (Elasticsearch's default of
/// `position_increment_gap`), so that no phrase goes from one to the next.
const TEXTS_APART: usize = 100;

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

    /// The tokens as `_analyze` shows them: offsets count UTF-16 units, as Java does.
    #[must_use]
    pub fn explain(&self, text: &str) -> Vec<Value> {
        let utf16 = |byte: usize| {
            let end = text.floor_char_boundary(byte);
            text[..end].encode_utf16().count()
        };
        self.tokens(text)
            .iter()
            .map(|token| {
                json!({
                    "token": token.text,
                    "start_offset": utf16(token.offset_from),
                    "end_offset": utf16(token.offset_to),
                    "type": self.0.tokenizer.kind_of(&token.text),
                    "position": token.position,
                })
            })
            .collect()
    }

    fn run(&self, text: &str, tokens: &mut Tokens) {
        tokens.clear();
        if self.0.char_filters.is_empty() {
            self.0.tokenizer.run(text, tokens);
        } else {
            // Offsets are then those of the filtered text: nothing reads them but highlighting,
            // which analyzes the text as it is.
            let filtered = self
                .0
                .char_filters
                .iter()
                .fold(text.to_owned(), |text, filter| filter.apply(&text));
            self.0.tokenizer.run(&filtered, tokens);
        }
        for filter in &self.0.filters {
            filter.apply(tokens);
        }
    }
}

/// Tokens in slots that are used again for the next text, so that indexing allocates nothing once
/// it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    pub list: Vec<Token>,
    pub len: usize,
}

impl Tokens {
    fn clear(&mut self) {
        self.len = 0;
    }

    /// The next free slot, counted as used; its text is empty.
    pub fn push(&mut self, from: usize, to: usize, position: usize) -> &mut Token {
        if self.len == self.list.len() {
            self.list.push(Token::default());
        }
        let token = &mut self.list[self.len];
        self.len += 1;
        token.text.clear();
        token.offset_from = from;
        token.offset_to = to;
        token.position = position;
        token.position_length = 1;
        token
    }

    /// Keeps the tokens for which `keep` holds; the others' positions stay as gaps.
    pub fn retain(&mut self, mut keep: impl FnMut(&Token) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if keep(&self.list[at]) {
                self.list.swap(kept, at);
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// The tokens in use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Token> {
        self.list[..self.len].iter_mut()
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
