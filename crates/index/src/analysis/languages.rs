//! The languages that analysis knows by name, and English stop words.

use tantivy::tokenizer::Language;

/// What the word list `_english_` holds: Lucene's 33 English stop words.
pub(super) const ENGLISH_STOP_WORDS: &str = "a an and are as at be but by for if in into is it no not of on or \
    such that the their then there these they this to was will with";

/// The languages whose analyzer is built in, by the name that mappings use.
pub(super) const LANGUAGES: [(&str, Language); 18] = [
    ("arabic", Language::Arabic),
    ("danish", Language::Danish),
    ("dutch", Language::Dutch),
    ("english", Language::English),
    ("finnish", Language::Finnish),
    ("french", Language::French),
    ("german", Language::German),
    ("greek", Language::Greek),
    ("hungarian", Language::Hungarian),
    ("italian", Language::Italian),
    ("norwegian", Language::Norwegian),
    ("portuguese", Language::Portuguese),
    ("romanian", Language::Romanian),
    ("russian", Language::Russian),
    ("spanish", Language::Spanish),
    ("swedish", Language::Swedish),
    ("tamil", Language::Tamil),
    ("turkish", Language::Turkish),
];
