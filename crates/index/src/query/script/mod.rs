//! Scripts: arithmetic over a document's values, its score and parameters, in two spellings.
//! `expression` is one formula (`ln(doc['n']) * _score`); `painless` may have locals, `if` and
//! `return` (`double x = doc['n'].value; return Math.log(x) * params.w;`). There are no loops, no
//! strings and no objects: what is beyond arithmetic is refused when the script is read.
//!
//! `crate::script` reads the text, [`lower`] makes one expression of its statements, [`evaluate`] computes that
//! for a block of documents at once, [`alone`] for one bucket.

mod alone;
pub(crate) mod evaluate;
mod functions;
mod lower;
pub(crate) mod node;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use functions::Function;
use lower::Names;
pub(crate) use types::Type;

use super::limits;
use super::problem::{Parsed, Problem};
use crate::error::Error;
use crate::script::check_length;

/// The language of a script, which says how missing values and mistakes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A document without a value gives 0.
    Expression,
    /// A document without a value is an error, unless the script asks first.
    Painless,
}

impl Language {
    const fn name(self) -> &'static str {
        match self {
            Self::Expression => "expression",
            Self::Painless => "painless",
        }
    }
}

/// A script, ready to be bound to columns.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its text.
    pub source: String,
    /// Its language.
    pub language: Language,
    /// What it computes; parameters are already in it.
    pub(crate) tree: Arc<Expr>,
}

/// What of a field's values a script asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The first value.
    Value,
    /// The first value of a date, in milliseconds since 1970.
    Millis,
    /// The latitude of the first value.
    Lat,
    /// The longitude of the first value.
    Lon,
    /// How many values.
    Count,
}

/// A node of a script.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Number(f64),
    /// A whole number: divided by another, it leaves no fraction.
    Whole(f64),
    Truth(bool),
    Score,
    /// A value that is known when the script is computed, by its name.
    Variable(String),
    Field {
        name: String,
        part: Part,
    },
    Negate(Arc<Expr>),
    Not(Arc<Expr>),
    Binary(Operator, Arc<Expr>, Arc<Expr>),
    Choose(Arc<Expr>, Arc<Expr>, Arc<Expr>),
    Call(Function, Vec<Arc<Expr>>),
    /// A decay function with all but the document's value known.
    Decay(Box<super::ast::Decay>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

impl Expr {
    /// Whether the score is asked for.
    pub(crate) fn uses_score(&self) -> bool {
        let mut uses = false;
        self.visit(&mut |node| uses |= matches!(node, Self::Score));
        uses
    }

    /// Sees every node.
    fn visit(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        for child in self.children() {
            child.visit(see);
        }
    }

    /// The nodes of the tree, where it is no larger and no higher than a script may be: a local that is used
    /// twice stands in the tree twice, and one that is counted up is as high as it was often.
    fn size(&self) -> Option<usize> {
        let mut open = vec![(self, 1)];
        let mut count = 0;
        while let Some((node, height)) = open.pop() {
            count += 1;
            if count > limits::SCRIPT_NODES_MAX || height > limits::SCRIPT_HEIGHT_MAX {
                return None;
            }
            open.extend(node.children().into_iter().map(|child| (child, height + 1)));
        }
        Some(count)
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Number(_)
            | Self::Whole(_)
            | Self::Truth(_)
            | Self::Score
            | Self::Variable(_)
            | Self::Field { .. }
            | Self::Decay(_) => Vec::new(),
            Self::Negate(inner) | Self::Not(inner) => vec![inner],
            Self::Binary(_, left, right) => vec![left, right],
            Self::Choose(condition, yes, no) => vec![condition, yes, no],
            Self::Call(_, arguments) => arguments.iter().map(AsRef::as_ref).collect(),
        }
    }
}

impl Script {
    /// Reads a script: a string, or `{source, lang, params}`.
    pub(crate) fn parse(node: &Value) -> Parsed<Self> {
        let empty = Map::new();
        let (source, language, params) = match node {
            Value::String(source) => (source.as_str(), Language::Painless, &empty),
            Value::Object(map) => {
                for key in map.keys() {
                    if !matches!(
                        key.as_str(),
                        "source" | "inline" | "lang" | "params" | "options" | "id"
                    ) {
                        let reason = format!("[script] unknown field [{key}]");
                        let error = Error::invalid("x_content_parse_exception", reason);
                        return Err(Problem::at(node, error));
                    }
                }
                if map.contains_key("id") {
                    return Err(Problem::illegal("stored scripts are not supported"));
                }
                let source = map
                    .get("source")
                    .or_else(|| map.get("inline"))
                    .and_then(Value::as_str)
                    .ok_or_else(|| {
                        Problem::illegal("must specify either [source] for an inline script or [id] for a stored script")
                    })?;
                let language = match map.get("lang").and_then(Value::as_str) {
                    None | Some("painless") => Language::Painless,
                    Some("expression") => Language::Expression,
                    Some(other) => {
                        let reason = format!("script_lang not supported [{other}]");
                        return Err(Problem::illegal(reason));
                    }
                };
                let params = match map.get("params") {
                    Some(Value::Object(params)) => params,
                    _ => &empty,
                };
                (source, language, params)
            }
            _ => return Err(Problem::parsing(node, "[script] expects a string or an object")),
        };
        Ok(Self::compile(source, language, params)?)
    }

    /// Reads a script's text.
    ///
    /// # Errors
    /// `script_exception` where it is not arithmetic.
    pub fn compile(
        source: &str,
        language: Language,
        params: &Map<String, Value>,
    ) -> Result<Self, Error> {
        let one = language == Language::Expression;
        let names = Names::Document { params, bare: one };
        Self::read(source, language, names, one)
    }

    /// Reads the text of a script over variables, which [`Self::of_variables`] computes.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub(crate) fn over_variables(source: &str) -> Result<Self, Error> {
        Self::read(source, Language::Painless, Names::Variables, false)
    }

    fn read(source: &str, language: Language, names: Names<'_>, one: bool) -> Result<Self, Error> {
        check_length(source)?;
        let tree = lower::parse(source, names, one)
            .map_err(|fault| compile_error(source, language, fault.at, &fault.reason))?;
        Ok(Self { source: source.to_owned(), language, tree })
    }

    /// The error of a script that fails on a document.
    pub(crate) fn runtime_error(&self, reason: &str) -> Error {
        script_error("runtime error", &self.source, self.language, 0)
            .caused_by(Error::invalid("illegal_state_exception", reason))
    }
}

fn compile_error(source: &str, language: Language, at: usize, reason: &str) -> Error {
    script_error("compile error", source, language, at).caused_by(Error::illegal_argument(reason))
}

fn script_error(what: &'static str, source: &str, language: Language, at: usize) -> Error {
    let window: String = source.chars().take(100).collect();
    let pointer = format!("{}^---- HERE", " ".repeat(at.min(100)));
    Error::invalid("script_exception", what)
        .with("script_stack", Value::from(vec![window, pointer]))
        .with("script", source)
        .with("lang", language.name())
}
