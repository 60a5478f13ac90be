//! `prefix`, `wildcard`, `regexp` and `fuzzy`.

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder, SINK_STATE};
use tantivy::Term;
use tantivy_fst::Automaton;

use super::compiled::Compiled;
use super::compound::join;
use super::context::Context;
use super::fields::Resolved;
use super::refusal::failed_to_create;
use super::term_level::{normalized, text_term};
use crate::error::Error;
use crate::partition::Kind;
use crate::query::ast::PatternKind;
use crate::query::exec::automaton::{RegexpError, Watched, Wildcard, regex_of};
use crate::query::limits;

pub(super) fn compile_pattern(
    context: &Context<'_>,
    kind: PatternKind,
    name: &str,
    pattern: &str,
    case_insensitive: bool,
) -> Result<Compiled, Error> {
    let (field, pattern) = if name == "_id" {
        (context.view.layout().id_field(), pattern.to_owned())
    } else {
        let Some(resolved) = context.resolve(name) else { return Ok(Compiled::none()) };
        let is_string = matches!(resolved.target.kind, Kind::Text { .. } | Kind::Keyword { .. });
        if !is_string || !resolved.target.indexed {
            let what = match kind {
                PatternKind::Prefix => "prefix",
                PatternKind::Wildcard => "wildcard",
                PatternKind::Regexp => "regexp",
            };
            return Err(failed_to_create(Error::illegal_argument(format!(
                "Can only use {what} queries on keyword, text and wildcard fields - not on [{}] which is of type [{}]",
                resolved.path,
                resolved.field.field_type().name()
            ))));
        }
        // A normalizer may change the pattern's operators, so it only sees plain prefixes.
        let pattern = match kind {
            PatternKind::Prefix => normalized(resolved, &pattern.into()),
            _ => pattern.to_owned(),
        };
        (resolved.target.field, pattern)
    };
    Ok(match kind {
        PatternKind::Prefix => {
            context.automaton(field, Wildcard::prefix(&pattern, case_insensitive))
        }
        PatternKind::Wildcard => {
            context.automaton(field, Wildcard::new(&pattern, case_insensitive))
        }
        PatternKind::Regexp => {
            let refused = |reason: String| failed_to_create(Error::illegal_argument(reason));
            let regex = regex_of(&pattern, case_insensitive);
            let regex = regex.and_then(|regex| check_cost(&regex).map(|()| regex));
            let regex = regex.map_err(|error| refused(error.to_string()))?;
            let regex = tantivy_fst::Regex::new(&regex).map_err(|error| {
                let reason = error.to_string();
                refused(if reason.contains("size limit") || reason.contains("states") {
                    format!("input automaton is too large: {pattern}")
                } else {
                    reason
                })
            })?;
            context.automaton(field, regex)
        }
    })
}

/// Refuses an expression whose counted repetitions alone would make a huge automaton, before one
/// is built: building stops at a size limit, but only after it has cost that much.
fn check_cost(regex: &str) -> Result<(), RegexpError> {
    let mut cost: usize = 1;
    let bytes = regex.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
            continue;
        }
        if bytes[at] == b'{' {
            let end = regex[at..].find('}').map_or(bytes.len(), |end| at + end);
            let counts = regex[at + 1..end].split(',').filter_map(|part| part.trim().parse().ok());
            let most: usize = counts.max().unwrap_or(1);
            cost = cost.saturating_mul(most.max(1));
            at = end;
        }
        at += 1;
    }
    if cost.saturating_mul(regex.len().max(1)) > limits::AUTOMATON_BYTES_MAX / 64 {
        return Err(RegexpError::TooLarge);
    }
    Ok(())
}

/// How a word is widened.
#[derive(Clone, Copy)]
pub(super) struct FuzzySpec {
    pub edits: u8,
    pub prefix_length: usize,
    pub max_expansions: usize,
    pub transpositions: bool,
}

pub(super) fn compile_fuzzy(
    context: &Context<'_>,
    name: &str,
    word: &str,
    spec: FuzzySpec,
) -> Result<Compiled, Error> {
    let Some(resolved) = context.resolve(name) else { return Ok(Compiled::none()) };
    let is_string = matches!(resolved.target.kind, Kind::Text { .. } | Kind::Keyword { .. });
    if !is_string || !resolved.target.indexed {
        return Err(failed_to_create(Error::illegal_argument(format!(
            "Can only use fuzzy queries on keyword and text fields - not on [{}] which is of type [{}]",
            resolved.path,
            resolved.field.field_type().name()
        ))));
    }
    let word = normalized(resolved, &word.into());
    fuzzy_terms(context, resolved, &word, spec)
}

/// The terms near a word that documents have; the nearer a term, the more it counts.
pub(super) fn fuzzy_terms(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    word: &str,
    spec: FuzzySpec,
) -> Result<Compiled, Error> {
    // Long words need automata of many states; none is as long as a term may be.
    let length = word.chars().count();
    if spec.edits == 0 || length > 255 {
        return Ok(text_term(context, resolved, word));
    }
    let prefix: String = word.chars().take(spec.prefix_length).collect();
    let rest = &word[prefix.len()..];
    let builder = LevenshteinAutomatonBuilder::new(spec.edits.min(2), spec.transpositions);
    let near = Near { prefix: prefix.into_bytes(), dfa: builder.build_dfa(rest) };
    let walk = Watched::new(&near, context.run().clone());
    let mut found: Vec<(u8, Vec<u8>)> = Vec::new();
    for reader in context.view.searcher().segment_readers() {
        let io = |error: std::io::Error| Error::internal(error.to_string());
        let index = reader
            .inverted_index(resolved.target.field)
            .map_err(|error| Error::internal(error.to_string()))?;
        let mut stream = index.terms().search(&walk).into_stream().map_err(io)?;
        while stream.advance() {
            let term = stream.key();
            if let Distance::Exact(distance) = near.distance(term) {
                found.push((distance, term.to_vec()));
            }
        }
    }
    context.check()?;
    found.sort_unstable();
    found.dedup();
    found.truncate(spec.max_expansions.min(limits::CLAUSE_COUNT_MAX));
    let mut clauses = Vec::with_capacity(found.len());
    for (distance, term) in found {
        let Ok(term) = String::from_utf8(term) else { continue };
        let least = length.min(term.chars().count()).max(1);
        let boost = 1.0 - f32::from(distance) / f32::from(u16::try_from(least).unwrap_or(u16::MAX));
        let term = match resolved.target.kind {
            Kind::Text { .. } => text_term(context, resolved, &term),
            _ => Compiled::constant(tantivy::query::TermQuery::new(
                Term::from_field_text(resolved.target.field, &term),
                tantivy::schema::IndexRecordOption::Basic,
            )),
        };
        clauses.push(term.boosted(boost.max(0.0)));
    }
    Ok(match clauses.len() {
        0 => Compiled::none(),
        1 => clauses.remove(0),
        _ => join(Vec::new(), clauses, Vec::new(), Vec::new(), Some(1)),
    })
}

/// Terms that start with a prefix and are near a word after it.
struct Near {
    prefix: Vec<u8>,
    dfa: DFA,
}

impl Near {
    fn distance(&self, term: &[u8]) -> Distance {
        self.dfa.eval(&term[self.prefix.len().min(term.len())..])
    }
}

/// Where a term is: so far into the prefix, or in a state of the automaton, or lost.
impl Automaton for Near {
    type State = Option<(usize, u32)>;

    fn start(&self) -> Self::State {
        Some((0, self.dfa.initial_state()))
    }

    fn is_match(&self, state: &Self::State) -> bool {
        state.is_some_and(|(at, state)| {
            at == self.prefix.len() && matches!(self.dfa.distance(state), Distance::Exact(_))
        })
    }

    fn can_match(&self, state: &Self::State) -> bool {
        state.is_some_and(|(_, state)| state != SINK_STATE)
    }

    fn accept(&self, state: &Self::State, byte: u8) -> Self::State {
        let (at, state) = (*state)?;
        if let Some(wanted) = self.prefix.get(at) {
            return (*wanted == byte).then_some((at + 1, state));
        }
        Some((at, self.dfa.transition(state, byte)))
    }
}
