//! `match` and its kin: text is taken apart by the field's analyzer, and its terms are joined.

use serde_json::Value;
use tantivy::Term;
use tantivy::query::PhrasePrefixQuery;
use tantivy::tokenizer::Token;

use super::compiled::Compiled;
use super::compound::{check_count, dis_max, join};
use super::context::Context;
use super::fields::Resolved;
use super::minimum::minimum_should_match;
use super::patterns::{self, FuzzySpec};
use super::refusal::{failed_to_create, shard_error};
use super::term_level::{is_value_error, term, text_term};
use crate::analysis::Analyzer;
use crate::error::Error;
use crate::partition::Kind;
use crate::query::ast::{Match, MultiKind, MultiMatch, Operator, PatternKind, Phrase};
use crate::query::exec::automaton::Wildcard;
use crate::query::exec::exact_phrase::ExactPhrase;
use crate::query::exec::phrase::SloppyPhrase;
use crate::query::exec::statistics::FieldScored;
use crate::query::parse::as_text;

/// The analyzer of a query on a text field; none for other kinds.
fn analyzer_of(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    named: Option<&str>,
) -> Result<Option<Analyzer>, Error> {
    let Kind::Text { search_analyzer, .. } = &resolved.target.kind else { return Ok(None) };
    let Some(name) = named else { return Ok(Some(search_analyzer.clone())) };
    match context.view.mapping().analysis().analyzer(name) {
        Some(analyzer) => Ok(Some(analyzer)),
        None => {
            let reason = format!("[match] analyzer [{name}] not found");
            Err(shard_error(reason))
        }
    }
}

fn zero_terms(all: bool) -> Compiled {
    if all { Compiled::all() } else { Compiled::none() }
}

/// A value of a field that is not text; with `lenient`, one that does not fit matches nothing.
fn plain(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    value: &Value,
    lenient: bool,
) -> Result<Compiled, Error> {
    match term(context, resolved, value) {
        Err(error) if lenient && is_value_error(&error) => Ok(Compiled::none()),
        other => other,
    }
}

pub(super) fn compile_match(context: &Context<'_>, text: &Match) -> Result<Compiled, Error> {
    if text.field == "_id" {
        return super::term_level::compile_term(context, "_id", &text.value, false);
    }
    let Some(resolved) = context.resolve(&text.field) else { return Ok(Compiled::none()) };
    let Some(analyzer) = analyzer_of(context, resolved, text.analyzer.as_deref())? else {
        if let (Some(fuzziness), Kind::Keyword { .. }) = (text.fuzziness, &resolved.target.kind) {
            let word = as_text(&text.value);
            let spec = spec(text, fuzziness.edits(word.chars().count()));
            return patterns::compile_fuzzy(context, &text.field, &word, spec);
        }
        return plain(context, resolved, &text.value, text.lenient);
    };
    let tokens = analyzer.tokens(&as_text(&text.value));
    context.take_clauses(tokens.len())?;
    if tokens.is_empty() {
        return Ok(zero_terms(text.zero_terms_all));
    }
    let mut clauses = Vec::new();
    for alternatives in by_position(&tokens) {
        let mut words = Vec::with_capacity(alternatives.len());
        for token in alternatives {
            words.push(word(context, resolved, text, &token.text)?);
        }
        clauses.push(one_of(words));
    }
    joined(clauses, text)
}

fn spec(text: &Match, edits: u8) -> FuzzySpec {
    FuzzySpec {
        edits,
        prefix_length: text.prefix_length,
        max_expansions: text.max_expansions,
        transpositions: text.transpositions,
    }
}

fn word(
    context: &Context<'_>,
    resolved: Resolved<'_>,
    text: &Match,
    word: &str,
) -> Result<Compiled, Error> {
    let edits = text.fuzziness.map_or(0, |fuzziness| fuzziness.edits(word.chars().count()));
    if edits == 0 {
        return Ok(text_term(context, resolved, word));
    }
    patterns::fuzzy_terms(context, resolved, word, spec(text, edits))
}

/// The tokens of each place: several where words stand for one another.
fn by_position(tokens: &[Token]) -> Vec<Vec<&Token>> {
    let mut places: Vec<Vec<&Token>> = Vec::new();
    for token in tokens {
        match places.last_mut() {
            Some(place) if place[0].position == token.position => place.push(token),
            _ => places.push(vec![token]),
        }
    }
    places
}

fn one_of(mut words: Vec<Compiled>) -> Compiled {
    if words.len() == 1 {
        return words.remove(0);
    }
    join(Vec::new(), words, Vec::new(), Vec::new(), Some(1))
}

/// Joins the words of a text by its operator.
fn joined(mut clauses: Vec<Compiled>, text: &Match) -> Result<Compiled, Error> {
    check_count(clauses.len())?;
    if clauses.len() == 1 {
        return Ok(clauses.remove(0));
    }
    let none = Vec::new;
    if text.operator == Operator::And {
        return Ok(join(clauses, none(), none(), none(), None));
    }
    let minimum = match &text.minimum_should_match {
        Some(minimum) => {
            Some(minimum_should_match(minimum, clauses.len()).map_err(failed_to_create)?)
        }
        None => None,
    };
    Ok(join(none(), clauses, none(), none(), minimum))
}

pub(super) fn compile_bool_prefix(context: &Context<'_>, text: &Match) -> Result<Compiled, Error> {
    let Some(resolved) = context.resolve(&text.field) else { return Ok(Compiled::none()) };
    let Some(analyzer) = analyzer_of(context, resolved, text.analyzer.as_deref())? else {
        let prefix = as_text(&text.value);
        return patterns::compile_pattern(
            context,
            PatternKind::Prefix,
            &text.field,
            &prefix,
            false,
        );
    };
    let mut tokens = analyzer.tokens(&as_text(&text.value));
    context.take_clauses(tokens.len())?;
    let Some(last) = tokens.pop() else { return Ok(zero_terms(text.zero_terms_all)) };
    let mut clauses = Vec::new();
    for token in &tokens {
        clauses.push(word(context, resolved, text, &token.text)?);
    }
    clauses.push(prefix_of(context, resolved, &last.text));
    joined(clauses, text)
}

fn prefix_of(context: &Context<'_>, resolved: Resolved<'_>, text: &str) -> Compiled {
    context.automaton(resolved.target.field, Wildcard::prefix(text, false))
}

pub(super) fn compile_phrase(context: &Context<'_>, phrase: &Phrase) -> Result<Compiled, Error> {
    let Some(resolved) = context.resolve(&phrase.field) else { return Ok(Compiled::none()) };
    let Some(analyzer) = analyzer_of(context, resolved, phrase.analyzer.as_deref())? else {
        if phrase.is_prefix {
            let prefix = as_text(&phrase.value);
            let kind = PatternKind::Prefix;
            return patterns::compile_pattern(context, kind, &phrase.field, &prefix, false);
        }
        return plain(context, resolved, &phrase.value, false);
    };
    let tokens = analyzer.tokens(&as_text(&phrase.value));
    context.take_clauses(tokens.len())?;
    let Kind::Text { positions, scored, .. } = resolved.target.kind else {
        return Ok(Compiled::none());
    };
    match tokens.as_slice() {
        [] => Ok(zero_terms(phrase.zero_terms_all)),
        [only] if phrase.is_prefix => Ok(prefix_of(context, resolved, &only.text)),
        [only] => Ok(text_term(context, resolved, &only.text)),
        _ if !positions => Err(failed_to_create(Error::illegal_argument(format!(
            "field:[{}] was indexed without position data; cannot run PhraseQuery",
            resolved.path
        )))),
        many => {
            check_count(many.len())?;
            let terms: Vec<(usize, Term)> = many
                .iter()
                .map(|token| {
                    (token.position, Term::from_field_text(resolved.target.field, &token.text))
                })
                .collect();
            let doc_count = context.doc_count(resolved.target);
            if phrase.slop > 0 && !phrase.is_prefix {
                let run = context.run().clone();
                let query = SloppyPhrase { terms, slop: phrase.slop, doc_count, run };
                return Ok(if scored {
                    Compiled::scored(query)
                } else {
                    Compiled { query: Box::new(query), score: Some(1.0) }
                });
            }
            let inner: Box<dyn tantivy::query::Query> = if phrase.is_prefix {
                let mut query = PhrasePrefixQuery::new_with_offset(terms);
                query.set_max_expansions(u32::try_from(phrase.max_expansions).unwrap_or(u32::MAX));
                Box::new(query)
            } else {
                Box::new(ExactPhrase::new(terms))
            };
            Ok(if scored {
                Compiled::scored(FieldScored { inner, doc_count })
            } else {
                Compiled { query: inner, score: Some(1.0) }
            })
        }
    }
}

pub(super) fn compile_multi_match(
    context: &Context<'_>,
    multi: &MultiMatch,
) -> Result<Compiled, Error> {
    let (fields, has_pattern) = context.expand(&multi.fields);
    let mut text = multi.text.clone();
    text.lenient |= has_pattern || multi.fields.is_empty();
    join_fields(context, &fields, multi.kind, multi.tie_breaker, &text, multi.slop)
}

/// One text over several fields.
pub(super) fn join_fields(
    context: &Context<'_>,
    fields: &[(String, f32)],
    kind: MultiKind,
    tie_breaker: Option<f32>,
    text: &Match,
    slop: u32,
) -> Result<Compiled, Error> {
    if fields.len() > super::super::limits::CLAUSE_COUNT_MAX {
        check_count(fields.len())?;
    }
    if kind == MultiKind::CrossFields && fields.len() > 1 {
        return cross_fields(context, fields, tie_breaker.unwrap_or(0.0), text);
    }
    let mut queries = Vec::with_capacity(fields.len());
    for (field, boost) in fields {
        queries.push(on_field(context, field, kind, text, slop)?.boosted(*boost));
    }
    let by_default = match kind {
        MultiKind::MostFields | MultiKind::BoolPrefix => 1.0,
        _ => 0.0,
    };
    Ok(match tie_breaker.unwrap_or(by_default) {
        tie if tie >= 1.0 && queries.len() > 1 => {
            join(Vec::new(), queries, Vec::new(), Vec::new(), Some(1))
        }
        tie => dis_max(queries, tie),
    })
}

fn on_field(
    context: &Context<'_>,
    field: &str,
    kind: MultiKind,
    text: &Match,
    slop: u32,
) -> Result<Compiled, Error> {
    let is_prefix = kind == MultiKind::PhrasePrefix;
    if is_prefix || kind == MultiKind::Phrase {
        let phrase = Phrase {
            field: field.to_owned(),
            value: text.value.clone(),
            slop,
            is_prefix,
            max_expansions: text.max_expansions,
            zero_terms_all: text.zero_terms_all,
            analyzer: text.analyzer.clone(),
        };
        return match compile_phrase(context, &phrase) {
            Err(error) if text.lenient && is_value_error(&error) => Ok(Compiled::none()),
            other => other,
        };
    }
    let mut text = text.clone();
    field.clone_into(&mut text.field);
    match kind {
        MultiKind::BoolPrefix => compile_bool_prefix(context, &text),
        _ => compile_match(context, &text),
    }
}

/// Each word in any of the fields. Fields of other kinds than text are asked for the whole text.
fn cross_fields(
    context: &Context<'_>,
    fields: &[(String, f32)],
    tie_breaker: f32,
    text: &Match,
) -> Result<Compiled, Error> {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for (field, boost) in fields {
        let Some(resolved) = context.resolve(field) else { continue };
        match analyzer_of(context, resolved, text.analyzer.as_deref())? {
            Some(analyzer) => texts.push((resolved, analyzer, *boost)),
            None => others.push((resolved, *boost)),
        }
    }
    let mut alternatives = Vec::new();
    if let Some((_, analyzer, _)) = texts.first() {
        let tokens = analyzer.tokens(&as_text(&text.value));
        context.take_clauses(tokens.len().saturating_mul(texts.len()))?;
        let mut clauses = Vec::new();
        for place in by_position(&tokens) {
            let mut words = Vec::new();
            for token in place {
                for (resolved, _, boost) in &texts {
                    words.push(text_term(context, *resolved, &token.text).boosted(*boost));
                }
            }
            clauses.push(dis_max(words, tie_breaker));
        }
        alternatives.push(if clauses.is_empty() {
            zero_terms(text.zero_terms_all)
        } else {
            joined(clauses, text)?
        });
    }
    for (resolved, boost) in others {
        alternatives.push(plain(context, resolved, &text.value, text.lenient)?.boosted(boost));
    }
    Ok(dis_max(alternatives, tie_breaker))
}
