//! The tokenizers: where a text is cut.

use unicode_segmentation::UnicodeSegmentation;

use super::tokens::Tokens;

/// How a text is cut into tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenizerKind {
    /// Words by the rules of Unicode (UAX #29); a longer word is cut every `max_token_length`
    /// characters. 1 to 1,048,576; default 255.
    Standard { max_token_length: usize },
    /// The whole text is one token.
    Keyword,
    /// Cut at white space.
    Whitespace { max_token_length: usize },
    /// Runs of letters.
    Letter,
    /// Runs of letters, in lower case.
    Lowercase,
    /// Pieces of `min` to `max` characters of the runs of characters that `chars` names.
    NGram { min: usize, max: usize, chars: CharClasses, edge: bool },
    /// Cut at every one of these characters.
    CharGroup { on: Vec<char>, whitespace: bool, punctuation: bool },
    /// `/a/b/c` gives `/a`, `/a/b`, `/a/b/c`.
    PathHierarchy { delimiter: char, reverse: bool },
}

/// Which characters are part of a token of an n-gram tokenizer; none set: all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CharClasses {
    pub letter: bool,
    pub digit: bool,
    pub whitespace: bool,
    pub punctuation: bool,
    pub symbol: bool,
}

impl CharClasses {
    fn any(self) -> bool {
        self.letter || self.digit || self.whitespace || self.punctuation || self.symbol
    }

    fn holds(self, c: char) -> bool {
        let punctuation = !c.is_alphanumeric() && !c.is_whitespace();
        !self.any()
            || (self.letter && c.is_alphabetic())
            || (self.digit && c.is_numeric())
            || (self.whitespace && c.is_whitespace())
            || ((self.punctuation || self.symbol) && punctuation)
    }
}

impl TokenizerKind {
    /// Cuts `text` into `tokens`.
    pub fn run(&self, text: &str, tokens: &mut Tokens) {
        match self {
            Self::Standard { max_token_length } => {
                let mut position = 0;
                for (from, word) in text.unicode_word_indices() {
                    if tokens.is_cut {
                        break;
                    }
                    push_cut(tokens, from, word, *max_token_length, &mut position);
                }
            }
            Self::Keyword => tokens.push(0, text.len(), 0).text.push_str(text),
            Self::Whitespace { max_token_length } => {
                let mut position = 0;
                runs(
                    text,
                    |c| !c.is_whitespace(),
                    |from, word| {
                        push_cut(tokens, from, word, *max_token_length, &mut position);
                    },
                );
            }
            Self::Letter => letters(text, tokens),
            Self::Lowercase => {
                letters(text, tokens);
                for token in tokens.iter_mut() {
                    token.text = token.text.to_lowercase();
                }
            }
            Self::NGram { min, max, chars, edge } => {
                let mut position = 0;
                runs(
                    text,
                    |c| chars.holds(c),
                    |from, word| {
                        grams(word, *min, *max, *edge, |start, end| {
                            let token = tokens.push(from + start, from + end, position);
                            token.text.push_str(&word[start..end]);
                            position += 1;
                        });
                    },
                );
            }
            Self::CharGroup { on, whitespace, punctuation } => {
                let cuts = |c: char| {
                    on.contains(&c)
                        || (*whitespace && c.is_whitespace())
                        || (*punctuation && c.is_ascii_punctuation())
                };
                let mut position = 0;
                runs(
                    text,
                    |c| !cuts(c),
                    |from, word| {
                        push_cut(tokens, from, word, 255, &mut position);
                    },
                );
            }
            Self::PathHierarchy { delimiter, reverse } => {
                path_hierarchy(text, *delimiter, *reverse, tokens);
            }
        }
    }

    /// What `_analyze` calls the type of such a token.
    pub fn kind_of(&self, token: &str) -> &'static str {
        let Self::Standard { .. } = self else { return "word" };
        match token.chars().next() {
            Some(_) if token.chars().all(|c| c.is_numeric() || matches!(c, '.' | ',' | '_')) => {
                "<NUM>"
            }
            Some('\u{3040}'..='\u{309f}') => "<HIRAGANA>",
            Some('\u{30a0}'..='\u{30ff}') => "<KATAKANA>",
            Some('\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}') => "<IDEOGRAPHIC>",
            Some('\u{ac00}'..='\u{d7af}') => "<HANGUL>",
            Some('\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}') => "<SOUTHEAST_ASIAN>",
            _ => "<ALPHANUM>",
        }
    }
}

/// Adds a word, in pieces where it is longer than `longest` characters.
fn push_cut(tokens: &mut Tokens, from: usize, word: &str, longest: usize, position: &mut usize) {
    if word.len() <= longest {
        tokens.push(from, from + word.len(), *position).text.push_str(word);
        *position += 1;
        return;
    }
    let mut start = 0;
    while start < word.len() {
        let rest = &word[start..];
        let len = rest.char_indices().nth(longest).map_or(rest.len(), |(at, _)| at);
        let token = tokens.push(from + start, from + start + len, *position);
        token.text.push_str(&rest[..len]);
        *position += 1;
        start += len;
    }
}

fn letters(text: &str, tokens: &mut Tokens) {
    let mut position = 0;
    runs(text, char::is_alphabetic, |from, word| {
        push_cut(tokens, from, word, 255, &mut position);
    });
}

/// Gives every longest run of characters for which `inside` holds.
fn runs<'a>(text: &'a str, inside: impl Fn(char) -> bool, mut give: impl FnMut(usize, &'a str)) {
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                give(from, &text[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        give(from, &text[from..]);
    }
}

/// Gives the byte ranges of all pieces of `min` to `max` characters; with `edge`, of those that
/// start at the word's start.
pub(super) fn grams(
    word: &str,
    min: usize,
    max: usize,
    edge: bool,
    mut give: impl FnMut(usize, usize),
) {
    let mut bounds: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
    bounds.push(word.len());
    let starts = if edge { 1 } else { bounds.len() };
    for start in 0..starts {
        for len in min..=max {
            let Some(end) = bounds.get(start + len) else { break };
            give(bounds[start], *end);
        }
    }
}

fn path_hierarchy(text: &str, delimiter: char, reverse: bool, tokens: &mut Tokens) {
    if text.is_empty() {
        return;
    }
    let cuts = text.char_indices().filter(|(at, c)| *c == delimiter && (reverse || *at > 0));
    if reverse {
        tokens.push(0, text.len(), 0).text.push_str(text);
        for (at, c) in cuts {
            if tokens.is_cut {
                return;
            }
            let from = at + c.len_utf8();
            if from < text.len() {
                tokens.push(from, text.len(), 0).text.push_str(&text[from..]);
            }
        }
    } else {
        for (at, _) in cuts {
            if tokens.is_cut {
                return;
            }
            tokens.push(0, at, 0).text.push_str(&text[..at]);
        }
        if !text.ends_with(delimiter) {
            tokens.push(0, text.len(), 0).text.push_str(text);
        }
    }
}
