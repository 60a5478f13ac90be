//! The analyzers that every index has, and their options.

use std::sync::Arc;

use serde_json::Value;
use tantivy::tokenizer::Language;

use super::analyzer::Analyzer;
use super::filter::{Filter, StemmerOf};
use super::languages::{ENGLISH_STOP_WORDS, LANGUAGES};
use super::parts::{number, stop_filter};
use super::tokenizer::TokenizerKind;
use crate::Error;

/// The analyzer of a field that names none, where the settings say nothing else.
pub(super) fn standard() -> Analyzer {
    let tokenizer = TokenizerKind::Standard { max_token_length: 255 };
    Analyzer::new("standard", Vec::new(), tokenizer, vec![Filter::Lowercase])
}

fn english_stop_words() -> Filter {
    let words = ENGLISH_STOP_WORDS.split_whitespace().map(str::to_owned).collect();
    Filter::Stop { words: Arc::new(words), ignore_case: false }
}

/// A built-in analyzer without options.
pub(super) fn built_in(name: &str) -> Option<Analyzer> {
    let plain = |tokenizer, filters| Some(Analyzer::new(name, Vec::new(), tokenizer, filters));
    let words = TokenizerKind::Standard { max_token_length: 255 };
    match name {
        "standard" | "default" => Some(standard()),
        "simple" => plain(TokenizerKind::Lowercase, Vec::new()),
        "whitespace" => plain(TokenizerKind::Whitespace { max_token_length: 255 }, Vec::new()),
        "keyword" => plain(TokenizerKind::Keyword, Vec::new()),
        "stop" => plain(TokenizerKind::Lowercase, vec![english_stop_words()]),
        "english" => plain(
            words,
            vec![
                Filter::Possessive,
                Filter::Lowercase,
                english_stop_words(),
                Filter::Stemmer(StemmerOf(Language::English)),
            ],
        ),
        _ => {
            let (_, language) = LANGUAGES.iter().find(|(known, _)| *known == name)?;
            let stop = Filter::StopOf(*language);
            let mut filters = vec![Filter::Lowercase, stop, Filter::Stemmer(StemmerOf(*language))];
            if let Some(elision) = elision(name) {
                filters.insert(0, elision);
            }
            plain(words, filters)
        }
    }
}

fn elision(language: &str) -> Option<Filter> {
    let articles = match language {
        "french" => "l m t qu n s j d c jusqu quoiqu lorsqu puisqu",
        "italian" => {
            "c l all dall dell nell sull coll pell gl agl dagl degl negl sugl un m t s v d"
        }
        _ => return None,
    };
    let articles = articles.split_whitespace().map(str::to_owned).collect();
    Some(Filter::Elision(Arc::new(articles)))
}

/// A built-in analyzer with options, such as `standard` with stop words.
pub(super) fn configured(name: &str, kind: &str, body: &Value) -> Result<Analyzer, Error> {
    let unknown =
        || Error::illegal_argument(format!("Unknown analyzer type [{kind}] for [{name}]"));
    built_in(kind).ok_or_else(unknown)?;
    let longest = number(body, "max_token_length", 255)?;
    let words = TokenizerKind::Standard { max_token_length: longest };
    let stop = body.get("stopwords").map(|words| stop_filter(words, false)).transpose()?;
    Ok(match kind {
        "standard" => {
            let mut filters = vec![Filter::Lowercase];
            filters.extend(stop.flatten());
            Analyzer::new(name, Vec::new(), words, filters)
        }
        "stop" => {
            let stop = stop.unwrap_or_else(|| Some(english_stop_words()));
            Analyzer::new(name, Vec::new(), TokenizerKind::Lowercase, stop.into_iter().collect())
        }
        "english" if stop.is_some() => {
            let mut filters = vec![Filter::Possessive, Filter::Lowercase];
            filters.extend(stop.flatten());
            filters.push(Filter::Stemmer(StemmerOf(Language::English)));
            Analyzer::new(name, Vec::new(), words, filters)
        }
        _ => built_in(kind).ok_or_else(unknown)?.named(name),
    })
}
