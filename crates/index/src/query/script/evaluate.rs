//! Computes a script for a block of documents: every node works on the whole block before the
//! next one does, so that columns are read in blocks and what a node costs is paid once.

use tantivy::{DocId, SegmentReader};

use super::node::Node;
use super::types::{self, Type};
use super::{Expr, Language, Operator, Part};
use crate::partition::{Kind, Target};
use crate::query::exec::BLOCK;
use crate::query::exec::column::{AsF64 as _, Numbers, Points};
use crate::query::exec::decay::{NumericDecay, SegmentDecay};
use crate::query::script::Function;

/// A script whose fields are known, before it is bound to a segment.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub root: Node,
    pub language: Language,
    /// What its values are.
    pub value_type: Type,
    pub uses_score: bool,
}

impl Bound {
    /// Finds the fields of a script: `target` gives those of a path, `decay` makes numbers of a
    /// decay's origin and scale.
    pub(crate) fn new<E>(
        script: &super::Script,
        target: &mut dyn FnMut(&str) -> Result<Option<Target>, E>,
        decay: &mut dyn FnMut(&crate::query::ast::Decay) -> Result<NumericDecay, E>,
    ) -> Result<Self, E> {
        let mut root = bind(&script.tree, target, decay)?;
        let value_type = match script.language {
            Language::Expression => Type::Double,
            Language::Painless => types::give_types(&mut root),
        };
        let uses_score = script.tree.uses_score();
        Ok(Self { root, language: script.language, value_type, uses_score })
    }

    pub(crate) fn segment(&self, reader: &SegmentReader) -> tantivy::Result<SegmentScript> {
        let missing = match self.language {
            Language::Expression => 0.0,
            Language::Painless => f64::NAN,
        };
        Ok(SegmentScript { root: open(&self.root, reader)?, missing })
    }
}

fn bind<E>(
    expr: &Expr,
    target: &mut dyn FnMut(&str) -> Result<Option<Target>, E>,
    decay: &mut dyn FnMut(&crate::query::ast::Decay) -> Result<NumericDecay, E>,
) -> Result<Node, E> {
    let mut boxed = |expr: &Expr| bind(expr, target, decay).map(Box::new);
    Ok(match expr {
        Expr::Number(number) => Node::Number(*number),
        Expr::Whole(number) => Node::Whole(*number),
        Expr::Truth(is_true) => Node::Truth(*is_true),
        Expr::Score => Node::Score,
        // Documents have none, and no script on them names one.
        Expr::Variable(_) => Node::Number(f64::NAN),
        Expr::Field { name, part } => Node::Field { target: target(name)?, part: *part },
        Expr::Decay(spec) => Node::Decay(Box::new(decay(spec)?)),
        Expr::Negate(inner) => Node::Negate(boxed(inner)?),
        Expr::Not(inner) => Node::Not(boxed(inner)?),
        Expr::Binary(operator, left, right) => Node::Binary(*operator, boxed(left)?, boxed(right)?),
        Expr::Choose(test, yes, no) => Node::Choose(boxed(test)?, boxed(yes)?, boxed(no)?),
        Expr::Call(function, arguments) => {
            let arguments: Result<Vec<_>, E> =
                arguments.iter().map(|argument| bind(argument, target, decay)).collect();
            Node::Call(*function, arguments?)
        }
    })
}

/// A script bound to a segment's columns.
pub(crate) struct SegmentScript {
    root: Open,
    missing: f64,
}

enum Open {
    Number(f64),
    Score,
    Column(Numbers),
    Count(Numbers),
    Lat(Option<Points>),
    Lon(Option<Points>),
    PointCount(Option<Points>),
    Decay(Box<SegmentDecay>),
    Negate(Box<Open>),
    Not(Box<Open>),
    Binary(Operator, Box<Open>, Box<Open>),
    Choose(Box<Open>, Box<Open>, Box<Open>),
    Call(Function, Vec<Open>),
}

fn open(node: &Node, reader: &SegmentReader) -> tantivy::Result<Open> {
    let boxed = |node: &Node| open(node, reader).map(Box::new);
    Ok(match node {
        Node::Number(number) | Node::Whole(number) => Open::Number(*number),
        Node::Truth(is_true) => Open::Number(truth(*is_true)),
        Node::Score => Open::Score,
        Node::Field { target: None, part: Part::Count } => Open::Number(0.0),
        Node::Field { target: None, .. } => Open::Column(Numbers::Empty),
        Node::Field { target: Some(target), part } => match part {
            Part::Millis if matches!(target.kind, Kind::Date { nanos: true }) => {
                let nanos = Box::new(Open::Column(Numbers::open(reader, target)?));
                let millis = Open::Binary(Operator::Divide, nanos, Box::new(Open::Number(1e6)));
                Open::Call(Function::Floor, vec![millis])
            }
            Part::Value | Part::Millis => Open::Column(Numbers::open(reader, target)?),
            Part::Lat => Open::Lat(Points::open(reader, target)?),
            Part::Lon => Open::Lon(Points::open(reader, target)?),
            Part::Count => match Points::open(reader, target)? {
                Some(points) => Open::PointCount(Some(points)),
                None => Open::Count(Numbers::open(reader, target)?),
            },
        },
        Node::Decay(decay) => Open::Decay(Box::new(decay.segment(reader)?)),
        Node::Negate(inner) => Open::Negate(boxed(inner)?),
        Node::Not(inner) => Open::Not(boxed(inner)?),
        Node::Binary(operator, left, right) => Open::Binary(*operator, boxed(left)?, boxed(right)?),
        Node::Choose(test, yes, no) => Open::Choose(boxed(test)?, boxed(yes)?, boxed(no)?),
        Node::Call(function, arguments) => {
            let arguments: tantivy::Result<Vec<_>> =
                arguments.iter().map(|argument| open(argument, reader)).collect();
            Open::Call(*function, arguments?)
        }
    })
}

impl SegmentScript {
    /// The script's value for each document; `docs`, `scores` and `out` are equally long, and at
    /// most a block. A value that a document does not have and the script does not ask for is not
    /// a number in painless.
    pub(crate) fn evaluate(&mut self, docs: &[DocId], scores: &[f32], out: &mut [f64]) {
        evaluate(&mut self.root, self.missing, docs, scores, out);
    }
}

fn evaluate(node: &mut Open, missing: f64, docs: &[DocId], scores: &[f32], out: &mut [f64]) {
    let length = docs.len();
    match node {
        Open::Number(number) => out.fill(*number),
        Open::Score => {
            for (out, score) in out.iter_mut().zip(scores) {
                *out = f64::from(*score);
            }
        }
        Open::Column(column) => column.first(docs, missing, out),
        Open::Count(column) => {
            for (out, doc) in out.iter_mut().zip(docs) {
                *out = column.count(*doc).as_f64();
            }
        }
        Open::PointCount(points) => {
            for (out, doc) in out.iter_mut().zip(docs) {
                let count = points.as_ref().map_or(0, |points| points.of(*doc).count());
                *out = count.as_f64();
            }
        }
        Open::Lat(points) => match points {
            Some(points) => {
                crate::query::exec::column::first(&points.latitude, docs, missing, out);
            }
            None => out.fill(missing),
        },
        Open::Lon(points) => match points {
            Some(points) => {
                crate::query::exec::column::first(&points.longitude, docs, missing, out);
            }
            None => out.fill(missing),
        },
        Open::Decay(decay) => decay.evaluate(docs, out),
        Open::Negate(inner) => {
            evaluate(inner, missing, docs, scores, out);
            for out in out.iter_mut() {
                *out = -*out;
            }
        }
        Open::Not(inner) => {
            evaluate(inner, missing, docs, scores, out);
            for out in out.iter_mut() {
                *out = truth(*out == 0.0);
            }
        }
        Open::Binary(operator, left, right) => {
            let mut other = [0.0; BLOCK];
            let other = &mut other[..length];
            evaluate(left, missing, docs, scores, out);
            evaluate(right, missing, docs, scores, other);
            binary(*operator, out, other);
        }
        Open::Choose(test, yes, no) => {
            let mut tests = [0.0; BLOCK];
            let mut others = [0.0; BLOCK];
            let (tests, others) = (&mut tests[..length], &mut others[..length]);
            evaluate(test, missing, docs, scores, tests);
            evaluate(yes, missing, docs, scores, out);
            evaluate(no, missing, docs, scores, others);
            for ((out, other), test) in out.iter_mut().zip(others).zip(tests) {
                if *test == 0.0 {
                    *out = *other;
                }
            }
        }
        Open::Call(function, arguments) => call(*function, arguments, missing, docs, scores, out),
    }
}

fn call(
    function: Function,
    arguments: &mut [Open],
    missing: f64,
    docs: &[DocId],
    scores: &[f32],
    out: &mut [f64],
) {
    let length = docs.len();
    if let [only] = arguments {
        evaluate(only, missing, docs, scores, out);
        for out in out.iter_mut() {
            *out = function.apply(&[*out]);
        }
        return;
    }
    let mut columns = vec![[0.0; BLOCK]; arguments.len()];
    for (argument, column) in arguments.iter_mut().zip(&mut columns) {
        evaluate(argument, missing, docs, scores, &mut column[..length]);
    }
    let mut row = vec![0.0; columns.len()];
    for (at, out) in out.iter_mut().enumerate() {
        for (value, column) in row.iter_mut().zip(&columns) {
            *value = column[at];
        }
        *out = function.apply(&row);
    }
}

pub(super) fn truth(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}

fn binary(operator: Operator, out: &mut [f64], other: &[f64]) {
    /// One loop for each operator, which the compiler can make wide.
    macro_rules! each {
        ($left:ident, $right:ident => $value:expr) => {
            for ($left, $right) in out.iter_mut().zip(other) {
                *$left = $value;
            }
        };
    }
    match operator {
        Operator::Add => each!(left, right => *left + right),
        Operator::Subtract => each!(left, right => *left - right),
        Operator::Multiply => each!(left, right => *left * right),
        Operator::Divide => each!(left, right => *left / right),
        Operator::Remainder => each!(left, right => *left % right),
        Operator::Less => each!(left, right => truth(*left < *right)),
        Operator::LessEqual => each!(left, right => truth(*left <= *right)),
        Operator::Greater => each!(left, right => truth(*left > *right)),
        Operator::GreaterEqual => each!(left, right => truth(*left >= *right)),
        #[expect(clippy::float_cmp, reason = "a script asks for equal numbers")]
        Operator::Equal => each!(left, right => truth(*left == *right)),
        #[expect(clippy::float_cmp, reason = "a script asks for equal numbers")]
        Operator::NotEqual => each!(left, right => truth(*left != *right)),
        Operator::And => each!(left, right => truth(*left != 0.0 && *right != 0.0)),
        Operator::Or => each!(left, right => truth(*left != 0.0 || *right != 0.0)),
    }
}
