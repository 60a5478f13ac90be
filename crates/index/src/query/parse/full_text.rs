//! `match`, `match_bool_prefix`, `match_phrase`, `match_phrase_prefix`, `multi_match`,
//! `query_string` and `simple_query_string`.

use serde_json::Value;

use super::{Body, as_text, single_field};
use crate::query::ast::{
    Fuzziness, Kind, Match, MultiKind, MultiMatch, Operator, Phrase, Query, QueryString,
};
use crate::query::limits;
use crate::query::problem::{Parsed, Problem};
use crate::query::syntax::flags;

fn empty_match() -> Match {
    Match {
        field: String::new(),
        value: Value::Null,
        operator: Operator::Or,
        minimum_should_match: None,
        fuzziness: None,
        prefix_length: 0,
        max_expansions: limits::EXPANSIONS_MAX_DEFAULT,
        transpositions: true,
        lenient: false,
        zero_terms_all: false,
        analyzer: None,
    }
}

/// Reads a key that `match` and `multi_match` share; whether it was one.
fn match_key(body: &Body<'_>, text: &mut Match, key: &str, value: &Value) -> Parsed<bool> {
    match key {
        "query" => {
            if matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err(body.unexpected(key, value));
            }
            text.value = value.clone();
        }
        "operator" => text.operator = body.operator(value)?,
        "minimum_should_match" => text.minimum_should_match = Some(as_text(value)),
        "fuzziness" => text.fuzziness = Some(body.fuzziness(value)?),
        "prefix_length" => text.prefix_length = body.usize(value)?,
        "max_expansions" => text.max_expansions = expansions(body, value)?,
        "fuzzy_transpositions" => text.transpositions = body.bool(value)?,
        "lenient" => text.lenient = body.bool(value)?,
        "zero_terms_query" => text.zero_terms_all = body.zero_terms(value)?,
        "analyzer" => text.analyzer = Some(body.text(key, value)?),
        "fuzzy_rewrite" | "auto_generate_synonyms_phrase_query" | "cutoff_frequency" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn expansions(body: &Body<'_>, value: &Value) -> Parsed<usize> {
    let count = body.usize(value)?;
    if count == 0 {
        return Err(Problem::illegal(format!(
            "[{}] requires maxExpansions to be positive.",
            body.name
        )));
    }
    Ok(count.min(limits::EXPANSIONS_MAX))
}

pub(super) fn parse_match(body: &Body<'_>, is_bool_prefix: bool) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut text = empty_match();
    let (field, value) = single_field(body, body.map, &[])?;
    field.clone_into(&mut text.field);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if !match_key(body, &mut text, key, value)?
                    && !body.shared(&mut query, key, value)?
                {
                    return Err(body.unsupported(key, value));
                }
            }
            if text.value.is_null() {
                return Err(Problem::parsing(value, "No text specified for text query"));
            }
        }
        Value::Array(_) => return Err(body.unexpected(field, value)),
        Value::Null => {
            return Err(Problem::illegal(format!("[{}] requires query value", body.name)));
        }
        _ => text.value = value.clone(),
    }
    let text = Box::new(text);
    query.kind = if is_bool_prefix { Kind::MatchBoolPrefix(text) } else { Kind::Match(text) };
    Ok(query)
}

pub(super) fn parse_phrase(body: &Body<'_>, is_prefix: bool) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let (field, node) = single_field(body, body.map, &[])?;
    let mut phrase = Phrase {
        field: field.to_owned(),
        value: Value::Null,
        slop: 0,
        is_prefix,
        max_expansions: limits::EXPANSIONS_MAX_DEFAULT,
        zero_terms_all: false,
        analyzer: None,
    };
    match node {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "query" => {
                        if matches!(value, Value::Object(_) | Value::Array(_)) {
                            return Err(body.unexpected(key, value));
                        }
                        phrase.value = value.clone();
                    }
                    "slop" => phrase.slop = slop(body, value)?,
                    "analyzer" => phrase.analyzer = Some(body.text(key, value)?),
                    "zero_terms_query" => phrase.zero_terms_all = body.zero_terms(value)?,
                    "max_expansions" if is_prefix => {
                        phrase.max_expansions = expansions(body, value)?;
                    }
                    _ if body.shared(&mut query, key, value)? => {}
                    _ => return Err(body.unsupported(key, value)),
                }
            }
            if phrase.value.is_null() {
                return Err(Problem::parsing(node, "No text specified for text query"));
            }
        }
        Value::Array(_) => return Err(body.unexpected(field, node)),
        Value::Null => {
            return Err(Problem::illegal(format!("[{}] requires query value", body.name)));
        }
        _ => phrase.value = node.clone(),
    }
    query.kind = Kind::Phrase(Box::new(phrase));
    Ok(query)
}

fn slop(body: &Body<'_>, value: &Value) -> Parsed<u32> {
    let slop = body.usize(value)?;
    u32::try_from(slop).map_err(|_| Problem::illegal("No negative slop allowed."))
}

fn multi_kind(body: &Body<'_>, value: &Value) -> Parsed<MultiKind> {
    Ok(match as_text(value).to_ascii_lowercase().as_str() {
        "best_fields" | "boolean" => MultiKind::BestFields,
        "most_fields" => MultiKind::MostFields,
        "cross_fields" => MultiKind::CrossFields,
        "phrase" => MultiKind::Phrase,
        "phrase_prefix" => MultiKind::PhrasePrefix,
        "bool_prefix" => MultiKind::BoolPrefix,
        other => {
            return Err(Problem::parsing(
                value,
                format!("failed to parse [{}] query type [{other}]. unknown type.", body.name),
            ));
        }
    })
}

pub(super) fn parse_multi_match(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut multi = MultiMatch {
        fields: Vec::new(),
        kind: MultiKind::BestFields,
        tie_breaker: None,
        text: empty_match(),
        slop: 0,
    };
    for (key, value) in body.map {
        match key.as_str() {
            "fields" => multi.fields = body.fields(value)?,
            "type" => multi.kind = multi_kind(body, value)?,
            "tie_breaker" => multi.tie_breaker = Some(body.f32(value)?),
            "slop" => multi.slop = slop(body, value)?,
            _ if match_key(body, &mut multi.text, key, value)? => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    if multi.text.value.is_null() {
        return Err(Problem::parsing(body.node, "No text specified for multi_match query"));
    }
    if multi.text.fuzziness.is_some()
        && matches!(
            multi.kind,
            MultiKind::CrossFields | MultiKind::Phrase | MultiKind::PhrasePrefix
        )
    {
        let kind = match multi.kind {
            MultiKind::CrossFields => "cross_fields",
            MultiKind::Phrase => "phrase",
            _ => "phrase_prefix",
        };
        return Err(Problem::parsing(
            body.node,
            format!("Fuzziness not allowed for type [{kind}]"),
        ));
    }
    query.kind = Kind::MultiMatch(Box::new(multi));
    Ok(query)
}

fn empty_query_string() -> QueryString {
    QueryString {
        query: String::new(),
        fields: Vec::new(),
        operator: Operator::Or,
        minimum_should_match: None,
        lenient: false,
        analyzer: None,
        phrase_slop: 0,
        kind: MultiKind::BestFields,
        tie_breaker: None,
        time_zone: None,
        allow_leading_wildcard: true,
        flags: flags::ALL,
        fuzziness: Fuzziness::Auto { low: 3, high: 6 },
    }
}

impl QueryString {
    /// A `query_string` query of a text over all fields, as the URI parameter `q` makes it.
    #[must_use]
    pub fn of(query: &str) -> Self {
        Self { query: query.to_owned(), ..empty_query_string() }
    }
}

pub(super) fn parse_query_string(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut text = empty_query_string();
    let mut has_query = false;
    for (key, value) in body.map {
        match key.as_str() {
            "query" => {
                text.query = body.text(key, value)?;
                has_query = true;
            }
            "fields" => text.fields = body.fields(value)?,
            "default_field" => text.fields = vec![(body.text(key, value)?, 1.0)],
            "default_operator" => text.operator = body.operator(value)?,
            "minimum_should_match" => text.minimum_should_match = Some(as_text(value)),
            "lenient" => text.lenient = body.bool(value)?,
            "analyzer" => text.analyzer = Some(body.text(key, value)?),
            "phrase_slop" => text.phrase_slop = slop(body, value)?,
            "type" => text.kind = multi_kind(body, value)?,
            "tie_breaker" => text.tie_breaker = Some(body.f32(value)?),
            "time_zone" => text.time_zone = Some(body.text(key, value)?),
            "allow_leading_wildcard" => text.allow_leading_wildcard = body.bool(value)?,
            "fuzziness" => text.fuzziness = body.fuzziness(value)?,
            "analyze_wildcard"
            | "quote_analyzer"
            | "quote_field_suffix"
            | "rewrite"
            | "fuzzy_rewrite"
            | "enable_position_increments"
            | "escape"
            | "auto_generate_synonyms_phrase_query"
            | "fuzzy_max_expansions"
            | "fuzzy_prefix_length"
            | "fuzzy_transpositions"
            | "max_determinized_states" => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    if !has_query {
        return Err(Problem::parsing(body.node, "[query_string] must be provided with a [query]"));
    }
    query.kind = Kind::QueryString(Box::new(text));
    Ok(query)
}

pub(super) fn parse_simple_query_string(body: &Body<'_>) -> Parsed<Query> {
    let mut query = Query::of(Kind::MatchNone);
    let mut text = empty_query_string();
    let mut has_query = false;
    for (key, value) in body.map {
        match key.as_str() {
            "query" => {
                text.query = body.text(key, value)?;
                has_query = true;
            }
            "fields" => text.fields = body.fields(value)?,
            "default_operator" => text.operator = body.operator(value)?,
            "minimum_should_match" => text.minimum_should_match = Some(as_text(value)),
            "lenient" => text.lenient = body.bool(value)?,
            "analyzer" => text.analyzer = Some(body.text(key, value)?),
            "flags" => {
                text.flags = flags::parse(&as_text(value)).map_err(Problem::illegal)?;
            }
            "analyze_wildcard"
            | "quote_field_suffix"
            | "fuzzy_max_expansions"
            | "fuzzy_prefix_length"
            | "fuzzy_transpositions"
            | "auto_generate_synonyms_phrase_query" => {}
            _ if body.shared(&mut query, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    if !has_query {
        return Err(Problem::parsing(body.node, "[simple_query_string] query text missing"));
    }
    query.kind = Kind::SimpleQueryString(Box::new(text));
    Ok(query)
}
