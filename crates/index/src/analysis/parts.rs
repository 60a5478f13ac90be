//! The parts of custom analyzers: a tokenizer, token filter or char filter from its definition.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tantivy::tokenizer::Language;

use super::filter::{CharFilter, Filter, StemmerOf};
use super::languages::{ENGLISH_STOP_WORDS, LANGUAGES};
use super::tokenizer::{CharClasses, TokenizerKind};
use crate::Error;

/// The tokenizer of a kind, with the options of its definition.
pub(super) fn tokenizer(kind: &str, body: &Value) -> Result<TokenizerKind, Error> {
    let longest = number(body, "max_token_length", 255)?;
    Ok(match kind {
        "standard" | "uax_url_email" | "classic" => {
            TokenizerKind::Standard { max_token_length: longest }
        }
        "keyword" => TokenizerKind::Keyword,
        "whitespace" => TokenizerKind::Whitespace { max_token_length: longest },
        "letter" => TokenizerKind::Letter,
        "lowercase" => TokenizerKind::Lowercase,
        "ngram" | "nGram" | "edge_ngram" | "edgeNGram" => {
            let edge = kind.starts_with("edge");
            let (min, max) = gram_sizes(body, 1, 2, !edge)?;
            TokenizerKind::NGram { min, max, chars: char_classes(body)?, edge }
        }
        "char_group" => {
            let mut on = Vec::new();
            let (mut whitespace, mut punctuation) = (false, false);
            for part in strings(body.get("tokenize_on_chars")) {
                match part.as_str() {
                    "whitespace" => whitespace = true,
                    "punctuation" | "symbol" => punctuation = true,
                    "\\n" => on.push('\n'),
                    "\\t" => on.push('\t'),
                    other => on.extend(other.chars().next()),
                }
            }
            TokenizerKind::CharGroup { on, whitespace, punctuation }
        }
        "path_hierarchy" | "PathHierarchy" => {
            let delimiter = body.get("delimiter").and_then(Value::as_str).unwrap_or("/");
            TokenizerKind::PathHierarchy {
                delimiter: delimiter.chars().next().unwrap_or('/'),
                reverse: flag(body, "reverse", false),
            }
        }
        _ => {
            return Err(Error::illegal_argument(format!(
                "failed to find global tokenizer under [{kind}]"
            )));
        }
    })
}

/// The filters that one definition stands for: none where it says so (`_none_`).
pub(super) fn filter(kind: &str, body: &Value) -> Result<Option<Filter>, Error> {
    Ok(Some(match kind {
        "lowercase" => Filter::Lowercase,
        "uppercase" => Filter::Uppercase,
        "asciifolding" => Filter::AsciiFolding,
        "stop" => {
            let default = Value::from("_english_");
            let words = body.get("stopwords").unwrap_or(&default);
            return stop_filter(words, flag(body, "ignore_case", false));
        }
        "porter_stem" | "kstem" => Filter::Stemmer(StemmerOf(Language::English)),
        "stemmer" | "snowball" => {
            let language = body.get("language").or_else(|| body.get("name"));
            let language = language.and_then(Value::as_str).unwrap_or("english");
            if language == "possessive_english" {
                return Ok(Some(Filter::Possessive));
            }
            Filter::Stemmer(StemmerOf(self::language(language)?))
        }
        "elision" => Filter::Elision(Arc::new(strings(body.get("articles")).into_iter().collect())),
        "length" => {
            Filter::Length { min: number(body, "min", 0)?, max: number(body, "max", usize::MAX)? }
        }
        "truncate" => Filter::Truncate { length: number(body, "length", 10)? },
        "trim" => Filter::Trim,
        "reverse" => Filter::Reverse,
        "unique" => Filter::Unique { same_position: flag(body, "only_on_same_position", false) },
        "ngram" | "nGram" | "edge_ngram" | "edgeNGram" => {
            let edge = kind.starts_with("edge");
            let (min, max) = gram_sizes(body, 1, 2, !edge)?;
            Filter::NGram { min, max, edge, keep: flag(body, "preserve_original", false) }
        }
        "shingle" => Filter::Shingle {
            min: number(body, "min_shingle_size", 2)?,
            max: number(body, "max_shingle_size", 2)?.min(8),
            unigrams: flag(body, "output_unigrams", true),
            separator: body
                .get("token_separator")
                .and_then(Value::as_str)
                .unwrap_or(" ")
                .to_owned(),
        },
        "limit" => Filter::Limit { max: number(body, "max_token_count", 1)? },
        "keep" => Filter::Keep(Arc::new(strings(body.get("keep_words")).into_iter().collect())),
        _ => {
            return Err(Error::illegal_argument(format!(
                "failed to find global filter under [{kind}]"
            )));
        }
    }))
}

/// The char filter of a kind, with the options of its definition.
pub(super) fn char_filter(kind: &str, body: &Value) -> Result<CharFilter, Error> {
    match kind {
        "html_strip" => Ok(CharFilter::HtmlStrip),
        "mapping" => {
            let rules = strings(body.get("mappings"));
            let pairs = rules.iter().map(|rule| {
                let (from, to) = rule.split_once("=>").ok_or_else(|| {
                    Error::illegal_argument(format!("Invalid Mapping Rule : [{rule}]"))
                })?;
                Ok((from.trim().to_owned(), to.trim().to_owned()))
            });
            Ok(CharFilter::Mapping(pairs.collect::<Result<_, Error>>()?))
        }
        _ => Err(Error::illegal_argument(format!(
            "failed to find global char_filter under [{kind}]"
        ))),
    }
}

/// A filter of stop words, given as words or as the names of lists (`_english_`).
pub(super) fn stop_filter(words: &Value, ignore_case: bool) -> Result<Option<Filter>, Error> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for word in strings(Some(words)) {
        match word.as_str() {
            "_none_" => {}
            "_english_" => {
                all.extend(ENGLISH_STOP_WORDS.split_whitespace().map(str::to_owned));
            }
            name if name.starts_with('_') && name.ends_with('_') && name.len() > 2 => {
                return Ok(Some(Filter::StopOf(language(name.trim_matches('_'))?)));
            }
            _ if ignore_case => drop(all.insert(word.to_lowercase())),
            _ => drop(all.insert(word)),
        }
    }
    Ok((!all.is_empty()).then(|| Filter::Stop { words: Arc::new(all), ignore_case }))
}

fn language(name: &str) -> Result<Language, Error> {
    let lower = name.to_lowercase();
    let wanted = lower.trim_start_matches("light_").trim_start_matches("minimal_");
    let wanted = match wanted {
        "porter" | "porter2" | "lovins" => "english",
        "german2" => "german",
        other => other,
    };
    let known = LANGUAGES.iter().find(|(known, _)| *known == wanted);
    known
        .map(|(_, language)| *language)
        .ok_or_else(|| Error::illegal_argument(format!("Invalid stemmer class specified: {name}")))
}

fn gram_sizes(
    body: &Value,
    min: usize,
    max: usize,
    limited: bool,
) -> Result<(usize, usize), Error> {
    let min = number(body, "min_gram", min)?;
    let max = number(body, "max_gram", max)?;
    if min == 0 || min > max {
        return Err(Error::illegal_argument(format!(
            "minGram must be greater than zero and not greater than maxGram [{min}] [{max}]"
        )));
    }
    // Elasticsearch's index.max_ngram_diff, whose default is 1. Edge n-grams have no such limit;
    // theirs here keeps one token from becoming thousands.
    if (limited && max - min > 1) || max > 256 {
        return Err(Error::illegal_argument(format!(
            "The difference between max_gram and min_gram in NGram Tokenizer must be less than or \
             equal to: [1] but was [{}]. This limit can be set by changing the \
             [index.max_ngram_diff] index level setting.",
            max - min
        )));
    }
    Ok((min, max))
}

fn char_classes(body: &Value) -> Result<CharClasses, Error> {
    let mut classes = CharClasses::default();
    for name in strings(body.get("token_chars")) {
        match name.as_str() {
            "letter" => classes.letter = true,
            "digit" => classes.digit = true,
            "whitespace" => classes.whitespace = true,
            "punctuation" => classes.punctuation = true,
            "symbol" => classes.symbol = true,
            _ => {
                return Err(Error::illegal_argument(format!("Unknown token type: '{name}'")));
            }
        }
    }
    Ok(classes)
}

/// A list of strings, given as a list or as one string with commas.
fn strings(value: Option<&Value>) -> Vec<String> {
    let split = |text: &str| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    match value {
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(text)) => split(text),
        _ => Vec::new(),
    }
}

/// A number, which settings may also hold as a string.
pub(super) fn number(body: &Value, key: &str, default: usize) -> Result<usize, Error> {
    let Some(value) = body.get(key) else { return Ok(default) };
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(|_| {
        Error::illegal_argument(format!("Failed to parse value [{text}] for setting [{key}]"))
    })
}

fn flag(body: &Value, key: &str, default: bool) -> bool {
    match body.get(key) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text == "true",
        _ => default,
    }
}
