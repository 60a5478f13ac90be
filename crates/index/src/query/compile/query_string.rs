//! `query_string` and `simple_query_string`: their text is taken apart by [`syntax`], and each
//! condition is asked of the fields.

use serde_json::Value;

use super::compiled::Compiled;
use super::compound::{check_count, dis_max, join};
use super::context::Context;
use super::full_text::join_fields;
use super::minimum::minimum_should_match;
use super::patterns::{self, FuzzySpec};
use super::refusal::{failed_to_create, shard_error};
use super::term_level::{compile_exists, compile_range, is_value_error};
use crate::error::Error;
use crate::partition::Kind;
use crate::query::ast::{Match, MultiKind, Operator, PatternKind, QueryString, Range};
use crate::query::limits;
use crate::query::syntax::{Leaf, Node, Occur, lucene, simple};

pub(super) fn compile_query_string(
    context: &Context<'_>,
    text: &QueryString,
) -> Result<Compiled, Error> {
    let is_and = text.operator == Operator::And;
    if text.query.trim().is_empty() {
        return Ok(Compiled::none());
    }
    let node = lucene::parse(&text.query, is_and).map_err(|reason| {
        let inner = Error::invalid("parse_exception", &reason);
        let outer = format!("Cannot parse '{}': {reason}", text.query);
        let outer = Error::invalid("parse_exception", outer).caused_by(inner);
        shard_error(format!("Failed to parse query [{}]", text.query)).caused_by(outer)
    })?;
    compile(context, text, &node, true)
}

pub(super) fn compile_simple(context: &Context<'_>, text: &QueryString) -> Result<Compiled, Error> {
    let is_and = text.operator == Operator::And;
    let node = simple::parse(&text.query, is_and, text.flags);
    compile(context, text, &node, false)
}

fn compile(
    context: &Context<'_>,
    text: &QueryString,
    node: &Node,
    is_lucene: bool,
) -> Result<Compiled, Error> {
    let (fields, has_pattern) = context.expand(&text.fields);
    let lenient = text.lenient || has_pattern || text.fields.is_empty();
    let compiler = Compiler { context, text, fields, lenient, is_lucene };
    compiler.node(node, true)
}

struct Compiler<'a, 'b> {
    context: &'a Context<'b>,
    text: &'a QueryString,
    fields: Vec<(String, f32)>,
    lenient: bool,
    is_lucene: bool,
}

impl Compiler<'_, '_> {
    fn node(&self, node: &Node, is_outermost: bool) -> Result<Compiled, Error> {
        match node {
            Node::All => Ok(Compiled::all()),
            Node::Boosted(inner, boost) => Ok(self.node(inner, false)?.boosted(*boost)),
            Node::Leaf(field, leaf) => self.leaf(field.as_deref(), leaf),
            Node::Bool(clauses) => {
                check_count(clauses.len())?;
                if clauses.is_empty() {
                    return Ok(Compiled::none());
                }
                let (mut must, mut should, mut must_not) = (Vec::new(), Vec::new(), Vec::new());
                for (occur, node) in clauses {
                    let list = match occur {
                        Occur::Must => &mut must,
                        Occur::Should => &mut should,
                        Occur::MustNot => &mut must_not,
                    };
                    list.push(self.node(node, false)?);
                }
                let minimum = match &self.text.minimum_should_match {
                    Some(text) if is_outermost && !should.is_empty() => {
                        Some(minimum_should_match(text, should.len()).map_err(failed_to_create)?)
                    }
                    _ => None,
                };
                Ok(join(must, should, Vec::new(), must_not, minimum))
            }
        }
    }

    fn leaf(&self, field: Option<&str>, leaf: &Leaf) -> Result<Compiled, Error> {
        if field == Some("_exists_") {
            let name = match leaf {
                Leaf::Text(name) | Leaf::Phrase { text: name, .. } | Leaf::Wildcard(name) => name,
                _ => return Ok(Compiled::none()),
            };
            return Ok(compile_exists(self.context, name));
        }
        let named;
        let (fields, lenient) = match field {
            None => (&self.fields, self.lenient),
            Some(field) => {
                let (fields, has_pattern) = self.context.expand(&[(field.to_owned(), 1.0)]);
                named = fields;
                (&named, self.lenient || has_pattern)
            }
        };
        if let Leaf::Text(text) = leaf {
            let mut clause = self.clause(text);
            clause.lenient = lenient;
            return join_fields(
                self.context,
                fields,
                self.text.kind,
                self.text.tie_breaker,
                &clause,
                self.text.phrase_slop,
            );
        }
        let mut queries = Vec::with_capacity(fields.len());
        for (name, boost) in fields {
            let query = match self.on_field(name, leaf) {
                Err(error) if lenient && is_value_error(&error) => Compiled::none(),
                other => other?,
            };
            queries.push(query.boosted(*boost));
        }
        Ok(dis_max(queries, self.text.tie_breaker.unwrap_or(0.0)))
    }

    /// A plain word as `match` has it.
    fn clause(&self, text: &str) -> Match {
        Match {
            field: String::new(),
            value: Value::from(text),
            operator: self.text.operator,
            minimum_should_match: None,
            fuzziness: None,
            prefix_length: 0,
            max_expansions: limits::EXPANSIONS_MAX_DEFAULT,
            transpositions: true,
            lenient: self.lenient,
            zero_terms_all: false,
            analyzer: self.text.analyzer.clone(),
        }
    }

    fn on_field(&self, name: &str, leaf: &Leaf) -> Result<Compiled, Error> {
        let context = self.context;
        match leaf {
            Leaf::Text(_) => Ok(Compiled::none()),
            Leaf::Phrase { text, slop } => {
                let slop = slop.unwrap_or(self.text.phrase_slop);
                let fields = [(name.to_owned(), 1.0)];
                let clause = self.clause(text);
                join_fields(context, &fields, MultiKind::Phrase, None, &clause, slop)
            }
            Leaf::Prefix(text) => {
                let text = self.lowered(name, text);
                patterns::compile_pattern(context, PatternKind::Prefix, name, &text, false)
            }
            Leaf::Wildcard(text) => {
                if self.is_lucene
                    && !self.text.allow_leading_wildcard
                    && text.starts_with(['*', '?'])
                {
                    let reason = "'*' or '?' not allowed as first character in WildcardQuery";
                    return Err(shard_error(format!(
                        "Failed to parse query [{}]",
                        self.text.query
                    ))
                    .caused_by(Error::invalid("parse_exception", reason)));
                }
                let text = self.lowered(name, text);
                patterns::compile_pattern(context, PatternKind::Wildcard, name, &text, false)
            }
            Leaf::Regexp(text) => {
                patterns::compile_pattern(context, PatternKind::Regexp, name, text, false)
            }
            Leaf::Fuzzy { text, edits } => {
                let text = self.lowered(name, text);
                let by_length = self.text.fuzziness.edits(text.chars().count());
                let spec = FuzzySpec {
                    edits: edits.unwrap_or(by_length),
                    prefix_length: 0,
                    max_expansions: limits::EXPANSIONS_MAX_DEFAULT,
                    transpositions: true,
                };
                patterns::compile_fuzzy(context, name, &text, spec)
            }
            Leaf::Range { from, to } => {
                let end = |end: &Option<(String, bool)>| {
                    end.as_ref().map(|(text, inclusive)| (Value::from(text.as_str()), *inclusive))
                };
                let range = Range {
                    field: name.to_owned(),
                    from: end(from),
                    to: end(to),
                    format: None,
                    time_zone: self.text.time_zone.clone(),
                };
                Ok(context.stoppable(compile_range(context, &range)?))
            }
            Leaf::Exists => Ok(compile_exists(context, name)),
        }
    }

    /// Patterns are not analyzed, but a text field's analyzer lowers case more often than not, and
    /// Elasticsearch normalizes patterns with it.
    fn lowered(&self, name: &str, text: &str) -> String {
        match self.context.resolve(name).map(|resolved| &resolved.target.kind) {
            Some(Kind::Text { search_analyzer, .. }) => {
                let lowers = search_analyzer.terms("Aa").iter().all(|term| term == "aa");
                if lowers { text.to_lowercase() } else { text.to_owned() }
            }
            _ => text.to_owned(),
        }
    }
}
