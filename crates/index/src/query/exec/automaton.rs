//! Patterns over the terms of a field: wildcards, prefixes, regular expressions. A wildcard is
//! simulated as a set of positions, so that no pattern can make its automaton explode.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tantivy::query::{AutomatonWeight, EnableScoring, Query, Weight};
use tantivy::schema::Field;
use tantivy_fst::Automaton;

use super::run::Run;

/// One step of a wildcard pattern over UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This byte.
    Byte(u8),
    /// This ASCII letter in either case.
    Letter(u8),
    /// Any one character.
    One,
    /// Any characters.
    Many,
}

/// A wildcard pattern: `*`, `?` and `\` before either.
#[derive(Clone, Debug)]
pub(crate) struct Wildcard {
    steps: Vec<Step>,
}

/// The positions of a pattern that may be next, as bits.
#[derive(Clone, Debug)]
pub(crate) struct Positions(Vec<u64>);

impl Positions {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn add(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
}

impl Wildcard {
    /// Reads a pattern.
    pub(crate) fn new(pattern: &str, case_insensitive: bool) -> Self {
        let mut wildcard = Self { steps: Vec::new() };
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '*' => {
                    if wildcard.steps.last() != Some(&Step::Many) {
                        wildcard.steps.push(Step::Many);
                    }
                }
                '?' => wildcard.steps.push(Step::One),
                '\\' => wildcard.literal(letters.next().unwrap_or('\\'), case_insensitive),
                _ => wildcard.literal(letter, case_insensitive),
            }
        }
        wildcard
    }

    /// Everything that starts with a text.
    pub(crate) fn prefix(text: &str, case_insensitive: bool) -> Self {
        let mut wildcard = Self { steps: Vec::new() };
        for letter in text.chars() {
            wildcard.literal(letter, case_insensitive);
        }
        wildcard.steps.push(Step::Many);
        wildcard
    }

    /// One whole text in any case.
    pub(crate) fn exact(text: &str, case_insensitive: bool) -> Self {
        let mut wildcard = Self { steps: Vec::new() };
        for letter in text.chars() {
            wildcard.literal(letter, case_insensitive);
        }
        wildcard
    }

    fn literal(&mut self, letter: char, case_insensitive: bool) {
        let mut bytes = [0; 4];
        for byte in letter.encode_utf8(&mut bytes).bytes() {
            self.steps.push(if case_insensitive && byte.is_ascii_alphabetic() {
                Step::Letter(byte.to_ascii_lowercase())
            } else {
                Step::Byte(byte)
            });
        }
    }

    /// Adds a position and those that are reached without a byte.
    fn reach(&self, positions: &mut Positions, mut at: usize) {
        positions.add(at);
        while self.steps.get(at) == Some(&Step::Many) {
            at += 1;
            positions.add(at);
        }
    }
}

impl Automaton for Wildcard {
    type State = Positions;

    fn start(&self) -> Positions {
        let mut positions = Positions(vec![0; self.steps.len() / 64 + 1]);
        self.reach(&mut positions, 0);
        positions
    }

    fn is_match(&self, state: &Positions) -> bool {
        state.has(self.steps.len())
    }

    fn can_match(&self, state: &Positions) -> bool {
        state.0.iter().any(|word| *word != 0)
    }

    fn will_always_match(&self, state: &Positions) -> bool {
        let last = self.steps.len();
        last > 0 && self.steps[last - 1] == Step::Many && state.has(last - 1)
    }

    fn accept(&self, state: &Positions, byte: u8) -> Positions {
        let mut next = Positions(vec![0; state.0.len()]);
        // A character's later bytes are behind its first one.
        let is_continuation = byte & 0xC0 == 0x80;
        for (word, bits) in state.0.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if is_continuation && at > 0 && self.steps[at - 1] == Step::One {
                    next.add(at);
                    if at == self.steps.len() {
                        continue;
                    }
                    self.reach(&mut next, at);
                }
                let moves = match self.steps.get(at) {
                    Some(Step::Byte(wanted)) => *wanted == byte,
                    Some(Step::Letter(wanted)) => *wanted == byte.to_ascii_lowercase(),
                    Some(Step::One) => !is_continuation,
                    Some(Step::Many) => {
                        self.reach(&mut next, at);
                        false
                    }
                    None => false,
                };
                if moves {
                    self.reach(&mut next, at + 1);
                }
            }
        }
        next
    }
}

/// How many steps through the terms are taken between two looks at whether anybody waits.
const STEPS_UNWATCHED: u32 = 4096;

/// An automaton that takes nothing more once its query is over: the walk through the terms ends, and
/// the query says why.
pub(crate) struct Watched<A> {
    automaton: A,
    run: Run,
    /// One thread walks; another may look at the same query, and a step that it counts is no harm.
    steps: AtomicU32,
}

impl<A> Watched<A> {
    pub(crate) fn new(automaton: A, run: Run) -> Self {
        Self { automaton, run, steps: AtomicU32::new(0) }
    }

    fn is_over(&self) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        if !steps.is_multiple_of(STEPS_UNWATCHED) {
            self.steps.store(steps.wrapping_add(1), Ordering::Relaxed);
            return false;
        }
        // Once it is over, each step says so: nothing else would end the walk.
        let is_over = self.run.is_over();
        self.steps.store(steps.wrapping_add(u32::from(!is_over)), Ordering::Relaxed);
        is_over
    }
}

impl<A: Automaton> Automaton for Watched<A> {
    type State = A::State;

    fn start(&self) -> A::State {
        self.automaton.start()
    }

    fn is_match(&self, state: &A::State) -> bool {
        self.automaton.is_match(state)
    }

    fn can_match(&self, state: &A::State) -> bool {
        !self.is_over() && self.automaton.can_match(state)
    }

    fn will_always_match(&self, state: &A::State) -> bool {
        self.automaton.will_always_match(state)
    }

    fn accept(&self, state: &A::State, byte: u8) -> A::State {
        self.automaton.accept(state, byte)
    }
}

/// The documents that have a term which an automaton takes; each scores 1.
pub(crate) struct AutomatonQuery<A> {
    pub field: Field,
    pub automaton: Arc<A>,
}

impl<A> Clone for AutomatonQuery<A> {
    fn clone(&self) -> Self {
        Self { field: self.field, automaton: Arc::clone(&self.automaton) }
    }
}

impl<A> fmt::Debug for AutomatonQuery<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutomatonQuery").field("field", &self.field).finish_non_exhaustive()
    }
}

impl<A> Query for AutomatonQuery<A>
where
    A: Automaton + Send + Sync + 'static,
    A::State: Clone,
{
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(AutomatonWeight::<A>::new(self.field, Arc::clone(&self.automaton))))
    }
}

/// Why a regular expression is not searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegexpError {
    /// It ends in the middle of an escape.
    #[error("unexpected end of regular expression")]
    UnexpectedEnd,
    /// It has an operator that Plimsoll does not have.
    #[error("the operator [{0}] of regular expressions is not supported")]
    Operator(char),
    /// Its repetitions would make a huge automaton.
    #[error("input automaton is too large")]
    TooLarge,
}

/// A regular expression of Lucene's as one of Rust's, which always means the whole term.
///
/// # Errors
/// Which operator Plimsoll does not have: `~`, `&` and `<a-b>`.
pub(crate) fn regex_of(pattern: &str, case_insensitive: bool) -> Result<String, RegexpError> {
    let mut out = String::with_capacity(pattern.len() + 8);
    if case_insensitive {
        out.push_str("(?i)");
    }
    let mut letters = pattern.chars();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next().ok_or(RegexpError::UnexpectedEnd)?;
                match escaped {
                    'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                        out.push('\\');
                        out.push(escaped);
                    }
                    _ => push_literal(&mut out, escaped),
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '[' if in_class => push_literal(&mut out, letter),
            _ if in_class => out.push(letter),
            '"' => {
                for quoted in letters.by_ref() {
                    if quoted == '"' {
                        break;
                    }
                    push_literal(&mut out, quoted);
                }
            }
            '@' => out.push_str(".*"),
            '#' => out.push_str("[^\\x00-\\x{10FFFF}]"),
            '^' | '$' => push_literal(&mut out, letter),
            '~' | '&' | '<' | '>' => {
                return Err(RegexpError::Operator(letter));
            }
            _ => out.push(letter),
        }
    }
    Ok(out)
}

fn push_literal(out: &mut String, letter: char) {
    if letter.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(letter);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn takes(pattern: &str, text: &str) -> bool {
        let wildcard = Wildcard::new(pattern, false);
        let mut state = wildcard.start();
        for byte in text.bytes() {
            state = wildcard.accept(&state, byte);
        }
        wildcard.is_match(&state)
    }

    /// The plain recursive meaning of a pattern.
    fn means(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|from| means(rest, &text[from..])),
            Some(('?', rest)) => !text.is_empty() && means(rest, &text[1..]),
            Some((letter, rest)) => text.first() == Some(letter) && means(rest, &text[1..]),
        }
    }

    #[test]
    fn wildcards_are_taken_by_character() {
        assert!(takes("a*c", "abbc"));
        assert!(takes("?", "é"));
        assert!(takes("?x", "日x"));
        assert!(!takes("??", "é"));
        assert!(takes("*", ""));
        assert!(takes(r"\*", "*"));
        assert!(!takes(r"\*", "a"));
    }

    #[test]
    fn lucenes_expressions_become_rusts() {
        assert_eq!(regex_of("a.*b", false).unwrap(), "a.*b");
        assert_eq!(regex_of("a@", false).unwrap(), "a.*");
        assert_eq!(regex_of("^a$", false).unwrap(), r"\^a\$");
        assert_eq!(regex_of(r#""a.b""#, false).unwrap(), r"a\.b");
        assert!(regex_of("a~b", false).is_err());
    }

    proptest! {
        #[test]
        fn the_automaton_takes_what_the_pattern_means(
            pattern in "[ab*?é]{0,8}", text in "[abé]{0,10}",
        ) {
            let letters: Vec<char> = pattern.chars().collect();
            let plain: Vec<char> = text.chars().collect();
            prop_assert_eq!(takes(&pattern, &text), means(&letters, &plain));
        }
    }
}
