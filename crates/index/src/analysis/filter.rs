//! Token filters (what happens to each token) and char filters (what happens to the text before
//! it is cut).

use std::collections::BTreeSet;
use std::sync::Arc;

use frostem::{Algorithm, Stemmer};
use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, RawTokenizer, StopWordFilter, TokenFilter, TokenStream, Tokenizer,
};

use super::tokenizer::grams;
use super::tokens::Tokens;

/// What happens to each token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    Lowercase,
    Uppercase,
    AsciiFolding,
    /// Leaves these words out.
    Stop {
        words: Arc<BTreeSet<String>>,
        ignore_case: bool,
    },
    /// Leaves out the stop words of a language.
    StopOf(Language),
    Stemmer(StemmerOf),
    /// Leaves out `'s` at the end, as English wants it.
    Possessive,
    /// Leaves out an article and its apostrophe at the start, as French and Italian want it.
    Elision(Arc<BTreeSet<String>>),
    /// Leaves out tokens of fewer or more characters.
    Length {
        min: usize,
        max: usize,
    },
    /// Cuts a token to so many characters.
    Truncate {
        length: usize,
    },
    Trim,
    Reverse,
    /// Leaves out a token that came before (anywhere, or at the same position).
    Unique {
        same_position: bool,
    },
    NGram {
        min: usize,
        max: usize,
        edge: bool,
        keep: bool,
    },
    /// Neighbours joined by a space; the single words stay where `unigrams` says so.
    Shingle {
        min: usize,
        max: usize,
        unigrams: bool,
        separator: String,
    },
    /// Leaves out all but the first `max` tokens.
    Limit {
        max: usize,
    },
    /// Keeps only these words.
    Keep(Arc<BTreeSet<String>>),
}

/// A stemmer, known by its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StemmerOf(pub Language);

impl StemmerOf {
    fn stemmer(self) -> Stemmer {
        Stemmer::new(match self.0 {
            Language::Arabic => Algorithm::Arabic,
            Language::Danish => Algorithm::Danish,
            Language::Dutch => Algorithm::Dutch,
            Language::English => Algorithm::English,
            Language::Finnish => Algorithm::Finnish,
            Language::French => Algorithm::French,
            Language::German => Algorithm::German,
            Language::Greek => Algorithm::Greek,
            Language::Hungarian => Algorithm::Hungarian,
            Language::Italian => Algorithm::Italian,
            Language::Norwegian => Algorithm::Norwegian,
            Language::Portuguese => Algorithm::Portuguese,
            Language::Romanian => Algorithm::Romanian,
            Language::Russian => Algorithm::Russian,
            Language::Spanish => Algorithm::Spanish,
            Language::Swedish => Algorithm::Swedish,
            Language::Tamil => Algorithm::Tamil,
            Language::Turkish => Algorithm::Turkish,
        })
    }
}

impl Filter {
    /// Changes the tokens in place.
    pub fn apply(&self, tokens: &mut Tokens) {
        match self {
            Self::Lowercase => each(tokens, lowercase),
            Self::Uppercase => each(tokens, |text| *text = text.to_uppercase()),
            Self::AsciiFolding => each(tokens, fold),
            Self::Stop { words, ignore_case: false } => {
                tokens.retain(|token| !words.contains(&token.text));
            }
            Self::Stop { words, ignore_case: true } => {
                tokens.retain(|token| !words.contains(&token.text.to_lowercase()));
            }
            Self::StopOf(language) => stop_of(*language, tokens),
            Self::Stemmer(language) => {
                let stemmer = language.stemmer();
                each(tokens, |text| {
                    let stem = stemmer.stem(text).into_owned();
                    *text = stem;
                });
            }
            Self::Possessive => each(tokens, |text| {
                for end in ["'s", "'S", "\u{2019}s", "\u{2019}S", "\u{ff07}s"] {
                    if text.ends_with(end) {
                        text.truncate(text.len() - end.len());
                        return;
                    }
                }
            }),
            Self::Elision(articles) => each(tokens, |text| {
                if let Some(at) = text.find(['\'', '\u{2019}'])
                    && articles.contains(&text[..at].to_lowercase())
                {
                    let rest = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
                    text.drain(..rest);
                }
            }),
            Self::Length { min, max } => tokens.retain(|token| {
                let length = token.text.chars().count();
                (*min..=*max).contains(&length)
            }),
            Self::Truncate { length } => each(tokens, |text| {
                if let Some((end, _)) = text.char_indices().nth(*length) {
                    text.truncate(end);
                }
            }),
            Self::Trim => each(tokens, |text| {
                if text.trim().len() < text.len() {
                    *text = text.trim().to_owned();
                }
            }),
            Self::Reverse => each(tokens, |text| *text = text.chars().rev().collect()),
            Self::Unique { same_position } => unique(*same_position, tokens),
            Self::NGram { min, max, edge, keep } => ngrams(*min, *max, *edge, *keep, tokens),
            Self::Shingle { min, max, unigrams, separator } => {
                shingles(*min, *max, *unigrams, separator, tokens);
            }
            Self::Limit { max } => tokens.len = tokens.len.min(*max),
            Self::Keep(words) => tokens.retain(|token| words.contains(&token.text)),
        }
    }
}

fn each(tokens: &mut Tokens, mut change: impl FnMut(&mut String)) {
    for token in tokens.iter_mut() {
        change(&mut token.text);
    }
}

fn lowercase(text: &mut String) {
    if text.is_ascii() {
        text.make_ascii_lowercase();
    } else {
        *text = text.to_lowercase();
    }
}

fn fold(text: &mut String) {
    if text.is_ascii() {
        return;
    }
    let mut folded = String::with_capacity(text.len());
    {
        let mut folder = AsciiFoldingFilter.transform(RawTokenizer::default());
        let mut stream = folder.token_stream(text);
        while stream.advance() {
            folded.push_str(&stream.token().text);
        }
    }
    *text = folded;
}

fn stop_of(language: Language, tokens: &mut Tokens) {
    let Some(filter) = StopWordFilter::new(language) else { return };
    let mut filter = filter.transform(RawTokenizer::default());
    tokens.retain(|token| filter.token_stream(&token.text).advance());
}

fn unique(same_position: bool, tokens: &mut Tokens) {
    let mut seen = BTreeSet::new();
    tokens.retain(|token| {
        let position = if same_position { token.position } else { 0 };
        seen.insert((token.text.clone(), position))
    });
}

/// Gives each token's pieces at the token's own position.
fn ngrams(min: usize, max: usize, edge: bool, keep: bool, tokens: &mut Tokens) {
    let whole = tokens.take();
    for token in &whole.list[..whole.len] {
        if tokens.is_cut {
            return;
        }
        let mut found_whole = false;
        grams(&token.text, min, max, edge, |start, end| {
            found_whole |= end - start == token.text.len();
            let piece = tokens.push(token.offset_from, token.offset_to, token.position);
            piece.text.push_str(&token.text[start..end]);
        });
        if keep && !found_whole {
            let piece = tokens.push(token.offset_from, token.offset_to, token.position);
            piece.text.push_str(&token.text);
        }
    }
}

fn shingles(min: usize, max: usize, unigrams: bool, separator: &str, tokens: &mut Tokens) {
    let whole = tokens.take();
    let words = &whole.list[..whole.len];
    for (start, word) in words.iter().enumerate() {
        if tokens.is_cut {
            return;
        }
        if unigrams {
            let token = tokens.push(word.offset_from, word.offset_to, word.position);
            token.text.push_str(&word.text);
        }
        for size in min..=max {
            let Some(run) = words.get(start..start + size) else { break };
            let to = run.last().map_or(word.offset_to, |last| last.offset_to);
            let token = tokens.push(word.offset_from, to, word.position);
            token.position_length = size;
            for (at, part) in run.iter().enumerate() {
                if at > 0 {
                    token.text.push_str(separator);
                }
                token.text.push_str(&part.text);
            }
        }
    }
}

/// The most bytes that a text may come to before it is cut; the rest of it is left out.
pub(super) const FILTERED_BYTES_MAX: usize = 64 << 20;

/// What happens to the text before it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CharFilter {
    /// Leaves out tags and reads the commonest entities.
    HtmlStrip,
    /// Replaces each of the first by its second, the longest match first.
    Mapping(Vec<(String, String)>),
}

impl CharFilter {
    /// The text after this filter.
    pub fn apply(&self, text: &str) -> String {
        match self {
            Self::HtmlStrip => strip_html(text),
            Self::Mapping(pairs) => {
                let mut out = String::with_capacity(text.len());
                let mut rest = text;
                while let Some(c) = rest.chars().next()
                    && out.len() < FILTERED_BYTES_MAX
                {
                    let longest = pairs
                        .iter()
                        .filter(|(from, _)| !from.is_empty() && rest.starts_with(from.as_str()))
                        .max_by_key(|(from, _)| from.len());
                    if let Some((from, to)) = longest {
                        out.push_str(to);
                        rest = &rest[from.len()..];
                    } else {
                        out.push(c);
                        rest = &rest[c.len_utf8()..];
                    }
                }
                out
            }
        }
    }
}

fn strip_html(text: &str) -> String {
    const ENTITIES: [(&str, &str); 6] = [
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&nbsp;", " "),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Where no tag ends any more, none is looked for: each search would go to the end.
    let last_end = text.rfind('>').unwrap_or(0);
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        if c == '<'
            && at < last_end
            && let Some(end) = rest.find('>')
        {
            out.push('\n');
            rest = &rest[end + 1..];
        } else if let Some((entity, plain)) =
            ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity))
        {
            out.push_str(plain);
            rest = &rest[entity.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}
