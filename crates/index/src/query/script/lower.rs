//! A script's statements as one expression over numbers. Locals are replaced by what they stand for, and `if`
//! with `return` becomes a choice. How a text becomes statements is `crate::script`'s.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Expr, Function, Operator, Part};
use crate::query::ast::{Decay, DecayShape, ValueMode};
use crate::query::limits;
use crate::script::{Expression, Fault, Kind, Rules, Statement, program};

/// How many operators may hang on each other, and functions are called.
const RULES: Rules = Rules { chain_max: limits::SCRIPT_HEIGHT_MAX, has_functions: true };
/// How many conditions may follow each other or lie in each other.
const CONDITIONS_MAX: usize = 64;
/// Types of locals with a fraction: what is assigned to them has one too.
const DOUBLES: [&str; 3] = ["double", "float", "Double"];
/// Types of locals without one.
const WHOLES: [&str; 6] = ["int", "long", "short", "byte", "Integer", "Long"];
/// Names that no local has.
const RESERVED: [&str; 5] = ["doc", "params", "ctx", "_score", "Math"];

/// What the names of a script stand for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names<'a> {
    /// A document's fields and score, and parameters; where `bare`, those stand without `params` too.
    Document { params: &'a Map<String, Value>, bare: bool },
    /// Variables, with `params` before them or without it, which are known when it is computed.
    Variables,
}

/// Reads a script's text. Where it is `one` expression, it has no statements.
///
/// # Errors
/// Says what is wrong, and where.
pub(super) fn parse(source: &str, names: Names<'_>, one: bool) -> Result<Arc<Expr>, Fault> {
    let statements = program(source, RULES)?;
    let mut lower = Lower { names, conditions: 0, end: source.len() };
    let tree = match statements.as_slice() {
        [Statement::Run(only)] => lower.value(only, &Locals::default())?,
        _ if one => return Err(Fault::new(0, "an expression is not made of statements")),
        statements => lower
            .list(statements, &mut Locals::default())?
            .ok_or_else(|| lower.at_end("the script returns no value"))?,
    };
    match tree.size() {
        Some(_) => Ok(tree),
        None => Err(too_large(0)),
    }
}

fn too_large(at: usize) -> Fault {
    Fault::new(at, "the script is too large")
}

#[derive(Clone, Default)]
struct Locals {
    /// What each stands for.
    values: HashMap<String, Arc<Expr>>,
    /// Those that were declared as numbers with a fraction: so is what is assigned to them.
    doubles: HashSet<String>,
}

struct Lower<'a> {
    names: Names<'a>,
    /// Conditions that are under way.
    conditions: usize,
    /// How long the text is.
    end: usize,
}

/// One step from a name to a part of it: a field or an index, or a call.
struct Step<'e> {
    at: usize,
    what: What<'e>,
}

enum What<'e> {
    Part(&'e Expression),
    Call(&'e str, &'e [Expression]),
}

impl Lower<'_> {
    fn at_end(&self, reason: &str) -> Fault {
        Fault::new(self.end, reason)
    }

    /// What statements return, if they always do.
    fn list(
        &mut self,
        statements: &[Statement],
        locals: &mut Locals,
    ) -> Result<Option<Arc<Expr>>, Fault> {
        for (at, statement) in statements.iter().enumerate() {
            let rest = &statements[at + 1..];
            match statement {
                Statement::Return(None) => {
                    return Err(self.at_end("the script returns no value"));
                }
                Statement::Return(Some(value)) => return self.value(value, locals).map(Some),
                // The value of the last statement is the script's.
                Statement::Run(value) if rest.is_empty() => {
                    return self.value(value, locals).map(Some);
                }
                Statement::Run(value) => {
                    self.value(value, locals)?;
                }
                Statement::If(test, then, otherwise) => {
                    self.conditions += 1;
                    if self.conditions > CONDITIONS_MAX {
                        return Err(Fault::new(test.at, "the script has too many conditions"));
                    }
                    let returned = self.condition(
                        test,
                        [then.as_slice(), otherwise.as_slice()],
                        rest,
                        locals,
                    )?;
                    self.conditions -= 1;
                    if returned.is_some() {
                        return Ok(returned);
                    }
                }
                Statement::Define(kind, name, value) => {
                    if DOUBLES.contains(&kind.as_str()) {
                        locals.doubles.insert(name.clone());
                    }
                    let found = self.value(value, locals)?;
                    if matches!(self.names, Names::Variables)
                        && WHOLES.contains(&kind.as_str())
                        && !is_whole(&found)
                    {
                        let reason = format!("Cannot cast from [double] to [{kind}].");
                        return Err(Fault::new(value.at, reason));
                    }
                    Self::assign(name, found, value.at, locals)?;
                }
                Statement::Assign(left, operator, right) => {
                    let Kind::Name(name) = &left.kind else {
                        return Err(Fault::new(left.at, "only a variable can be assigned to"));
                    };
                    let right = self.value(right, locals)?;
                    let value = match operator {
                        None if matches!(self.names, Names::Variables)
                            && !locals.values.contains_key(name) =>
                        {
                            return Err(unknown(left.at, name));
                        }
                        None => right,
                        Some(operator) => {
                            let old = locals.values.get(name).ok_or_else(|| unknown(left.at, name));
                            let old = Arc::clone(old?);
                            self.binary(of_operator(operator), old, right)
                        }
                    };
                    Self::assign(name, value, left.at, locals)?;
                }
            }
        }
        Ok(None)
    }

    fn assign(name: &str, value: Arc<Expr>, at: usize, locals: &mut Locals) -> Result<(), Fault> {
        if RESERVED.contains(&name) {
            return Err(Fault::new(at, format!("[{name}] cannot be assigned to")));
        }
        let value = if locals.doubles.contains(name) { as_double(value) } else { value };
        bind(locals, name.to_owned(), value, at)
    }

    /// Where only one branch returns, what follows is the other's.
    fn condition(
        &mut self,
        test: &Expression,
        [then, otherwise]: [&[Statement]; 2],
        rest: &[Statement],
        locals: &mut Locals,
    ) -> Result<Option<Arc<Expr>>, Fault> {
        let at = test.at;
        let test = self.value(test, locals)?;
        let (mut yes_locals, mut no_locals) = (locals.clone(), locals.clone());
        let yes = self.list(then, &mut yes_locals)?;
        let no = self.list(otherwise, &mut no_locals)?;
        let mut rest = |locals: &mut Locals| {
            let value = self.list(rest, locals)?;
            value.ok_or_else(|| self.at_end("not all paths return a value"))
        };
        match (yes, no) {
            (Some(yes), Some(no)) => Ok(Some(choose(&test, yes, no))),
            (Some(yes), None) => Ok(Some(choose(&test, yes, rest(&mut no_locals)?))),
            (None, Some(no)) => Ok(Some(choose(&test, rest(&mut yes_locals)?, no))),
            (None, None) => {
                join(locals, &test, yes_locals, &no_locals, at)?;
                Ok(None)
            }
        }
    }

    /// Whole numbers leave no fraction when they are divided. Of a document's that is seen once its fields are
    /// known; those of a bucket have one, all of them.
    fn binary(&self, operator: Operator, left: Arc<Expr>, right: Arc<Expr>) -> Arc<Expr> {
        let leaves_none = operator == Operator::Divide
            && matches!(self.names, Names::Variables)
            && is_whole(&left)
            && is_whole(&right);
        let both = Arc::new(Expr::Binary(operator, left, right));
        if leaves_none { Arc::new(Expr::Call(Function::Truncate, vec![both])) } else { both }
    }

    fn value(&self, expression: &Expression, locals: &Locals) -> Result<Arc<Expr>, Fault> {
        let at = expression.at;
        let value = |inner: &Expression| self.value(inner, locals);
        Ok(Arc::new(match &expression.kind {
            Kind::Literal(literal) => return constant(at, literal),
            Kind::Unary("!", inner) => Expr::Not(value(inner)?),
            Kind::Unary(_, inner) => Expr::Negate(value(inner)?),
            // What is compared with null is asked whether it is there: only what is no number differs from
            // itself.
            Kind::Binary(operator @ ("==" | "!="), left, right) if is_null(right) => {
                let (left, is_missing) = (value(left)?, *operator == "==");
                let operator = if is_missing { Operator::NotEqual } else { Operator::Equal };
                Expr::Binary(operator, Arc::clone(&left), left)
            }
            Kind::Binary(operator, left, right) => {
                return Ok(self.binary(of_operator(operator), value(left)?, value(right)?));
            }
            Kind::Choice(test, yes, no) => Expr::Choose(value(test)?, value(yes)?, value(no)?),
            Kind::Cast(kind, inner) => match kind.as_str() {
                "int" | "long" => Expr::Call(Function::Truncate, vec![value(inner)?]),
                "double" | "float" => return Ok(as_double(value(inner)?)),
                _ => return value(inner),
            },
            Kind::List(_) => return Err(Fault::new(at, "lists are not supported")),
            Kind::Name(_) | Kind::Part(..) | Kind::Call(..) => {
                return self.named(expression, locals);
            }
        }))
    }

    /// A name, and the way from it to a part.
    fn named(&self, expression: &Expression, locals: &Locals) -> Result<Arc<Expr>, Fault> {
        let (root, steps) = unrolled(expression);
        let name = match &root.kind {
            Kind::Name(name) => name.as_str(),
            Kind::Call(None, name, arguments) if steps.is_empty() => {
                return match name.starts_with("decay") {
                    true => self.decay(root.at, name, arguments),
                    false => self.call(root.at, name, arguments, locals),
                };
            }
            _ => return Err(Fault::new(root.at, "nothing is asked of a value here")),
        };
        match (name, steps.as_slice()) {
            ("Math", [Step { what: What::Call(name, arguments), at }]) => {
                return self.call(*at, name, arguments, locals);
            }
            ("Math", [Step { what: What::Part(part), .. }]) => match text(part) {
                Some("PI") => return Ok(Arc::new(Expr::Number(std::f64::consts::PI))),
                Some("E") => return Ok(Arc::new(Expr::Number(std::f64::consts::E))),
                _ => {}
            },
            (name, steps) => {
                if let Some(value) = locals.values.get(name) {
                    return match steps {
                        [] => Ok(Arc::clone(value)),
                        [step, ..] => Err(Fault::new(step.at, "a number has no parts")),
                    };
                }
            }
        }
        match self.names {
            Names::Variables => variable(root.at, name, &steps),
            Names::Document { params, bare } => match (name, steps.as_slice()) {
                ("_score", [] | [Step { what: What::Call("doubleValue", []), .. }]) => {
                    Ok(Arc::new(Expr::Score))
                }
                ("doc", steps) => field(root.at, params, steps),
                ("params", steps) => {
                    let (name, value) = parameter(root.at, params, steps)?;
                    parameter_number(root.at, &name, &value)
                }
                // An expression may name its parameters alone.
                (name, []) if bare && params.contains_key(name) => {
                    parameter_number(root.at, name, &params[name])
                }
                (name, _) => Err(unknown(root.at, name)),
            },
        }
    }

    fn call(
        &self,
        at: usize,
        name: &str,
        arguments: &[Expression],
        locals: &Locals,
    ) -> Result<Arc<Expr>, Fault> {
        let (function, count) = Function::named(name).ok_or_else(|| unknown_call(at, name))?;
        if arguments.len() != count {
            let found = arguments.len();
            let reason = format!("[{name}] takes [{count}] arguments, but [{found}] were given");
            return Err(Fault::new(at, reason));
        }
        let arguments = arguments.iter().map(|argument| self.value(argument, locals));
        Ok(Arc::new(Expr::Call(function, arguments.collect::<Result<_, Fault>>()?)))
    }

    /// `decayGeoGauss(origin, scale, offset, decay, doc['f'].value)` and its eight kin.
    fn decay(&self, at: usize, name: &str, arguments: &[Expression]) -> Result<Arc<Expr>, Fault> {
        let shapes = [
            ("Gauss", DecayShape::Gauss),
            ("Exp", DecayShape::Exp),
            ("Linear", DecayShape::Linear),
        ];
        let shape = shapes.into_iter().find(|(end, _)| name.ends_with(end));
        let (Some((_, shape)), Names::Document { params, .. }) = (shape, self.names) else {
            return Err(unknown_call(at, name));
        };
        let [origin, scale, offset, decay, document] = arguments else {
            return Err(Fault::new(at, format!("[{name}] takes [5] arguments")));
        };
        let known = |argument| decay_constant(params, argument);
        let value = self.value(document, &Locals::default())?;
        let Expr::Field { name: field, part: Part::Value | Part::Millis } = value.as_ref() else {
            return Err(Fault::new(document.at, "a decay function takes doc['field'].value"));
        };
        let decay = known(decay)?.as_f64().filter(|decay| *decay > 0.0 && *decay < 1.0);
        let decay = decay.ok_or_else(|| Fault::new(at, "decay must be in the range (0..1)"))?;
        Ok(Arc::new(Expr::Decay(Box::new(Decay {
            shape,
            field: field.clone(),
            origin: Some(known(origin)?),
            scale: known(scale)?,
            offset: Some(known(offset)?),
            decay,
            mode: ValueMode::Min,
        }))))
    }
}

fn unknown(at: usize, name: &str) -> Fault {
    Fault::new(at, format!("cannot resolve symbol [{name}]"))
}

fn unknown_call(at: usize, name: &str) -> Fault {
    Fault::new(at, format!("Unknown call [{name}]."))
}

fn bind(locals: &mut Locals, name: String, value: Arc<Expr>, at: usize) -> Result<(), Fault> {
    // A local used twice doubles: the limit keeps `x = x + x` from exploding.
    if value.size().is_none() {
        return Err(too_large(at));
    }
    locals.values.insert(name, value);
    Ok(())
}

/// What locals stand for after a condition of which neither branch returns.
fn join(
    locals: &mut Locals,
    test: &Arc<Expr>,
    yes: Locals,
    no: &Locals,
    at: usize,
) -> Result<(), Fault> {
    for (name, value) in yes.values {
        // A local that was declared inside a branch ends with it.
        if !locals.values.contains_key(&name) {
            continue;
        }
        if let Some(other) = no.values.get(&name)
            && !Arc::ptr_eq(&value, other)
        {
            let joined = choose(test, value, Arc::clone(other));
            bind(locals, name, joined, at)?;
        }
    }
    Ok(())
}

/// The name or call that an expression begins with, and the steps from there, first to last.
fn unrolled(expression: &Expression) -> (&Expression, Vec<Step<'_>>) {
    let (mut root, mut steps) = (expression, Vec::new());
    loop {
        let at = root.at;
        let (holder, what) = match &root.kind {
            Kind::Part(holder, part) => (holder, What::Part(part)),
            Kind::Call(Some(holder), name, arguments) => (holder, What::Call(name, arguments)),
            _ => break,
        };
        steps.push(Step { at, what });
        root = holder;
    }
    steps.reverse();
    (root, steps)
}

fn text(expression: &Expression) -> Option<&str> {
    match &expression.kind {
        Kind::Literal(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn is_null(expression: &Expression) -> bool {
    matches!(expression.kind, Kind::Literal(Value::Null))
}

/// `params.a`, `params['a']`, `a`, `a.b`.
fn variable(at: usize, root: &str, steps: &[Step<'_>]) -> Result<Arc<Expr>, Fault> {
    let mut names = Vec::new();
    if root != "params" {
        names.push(root);
    }
    for step in steps {
        let name = match step.what {
            What::Part(part) if root != "doc" => text(part),
            _ => None,
        };
        names.push(name.ok_or_else(|| Fault::new(step.at, "only params and numbers are known"))?);
    }
    match names.is_empty() {
        true => Err(unknown(at, root)),
        false => Ok(Arc::new(Expr::Variable(names.join(".")))),
    }
}

/// What stands behind `doc`.
fn field(at: usize, params: &Map<String, Value>, steps: &[Step<'_>]) -> Result<Arc<Expr>, Fault> {
    let Some((Step { what: What::Part(name), .. }, members)) = steps.split_first() else {
        return Err(Fault::new(at, "[doc] takes the name of a field"));
    };
    let name = match (text(name), unrolled(name)) {
        (Some(name), _) => name.to_owned(),
        (None, (Expression { kind: Kind::Name(root), at }, steps)) if root == "params" => {
            match parameter(*at, params, &steps)? {
                (_, Value::String(name)) => name,
                (name, _) => {
                    return Err(Fault::new(*at, format!("parameter [{name}] must be a string")));
                }
            }
        }
        _ => return Err(Fault::new(name.at, "[doc] takes the name of a field")),
    };
    let (mut part, mut is_empty_test) = (Part::Value, false);
    for Step { at, what } in members {
        let member = match what {
            // getValue() and its kin; an index as in get(0) is the first value.
            What::Call(name, [] | [Expression { kind: Kind::Literal(Value::Number(_)), .. }]) => {
                *name
            }
            What::Call(name, _) => {
                return Err(Fault::new(*at, format!("[{name}] takes no arguments")));
            }
            What::Part(Expression { kind: Kind::Literal(Value::Number(_)), .. }) => continue,
            What::Part(part) => text(part).unwrap_or_default(),
        };
        match member {
            "value" | "getValue" | "get" | "toInstant" | "doubleValue" | "longValue" | "date" => {}
            "millis" | "getMillis" | "toEpochMilli" => part = Part::Millis,
            "lat" | "getLat" => part = Part::Lat,
            "lon" | "getLon" => part = Part::Lon,
            "size" | "length" | "count" => part = Part::Count,
            "empty" | "isEmpty" => (part, is_empty_test) = (Part::Count, true),
            other => {
                return Err(Fault::new(*at, format!("member [{other}] is not supported")));
            }
        }
    }
    let field = Arc::new(Expr::Field { name, part });
    Ok(if is_empty_test { Arc::new(Expr::Not(field)) } else { field })
}

/// A parameter, and its name.
fn parameter(
    at: usize,
    params: &Map<String, Value>,
    steps: &[Step<'_>],
) -> Result<(String, Value), Fault> {
    let mut found: Option<&Value> = None;
    let mut path = Vec::new();
    for step in steps {
        let name = match step.what {
            What::Part(part) => text(part),
            What::Call(..) => None,
        };
        let name = name.ok_or_else(|| Fault::new(step.at, "a parameter is named by text"))?;
        found = match path.is_empty() {
            true => params.get(name),
            false => found.and_then(|value| value.get(name)),
        };
        path.push(name);
    }
    let name = path.join(".");
    match found {
        Some(value) => Ok((name, value.clone())),
        None => Err(Fault::new(at, format!("parameter [{name}] is not given"))),
    }
}

fn parameter_number(at: usize, name: &str, value: &Value) -> Result<Arc<Expr>, Fault> {
    match value {
        Value::Number(_) | Value::Bool(_) => constant(at, value),
        _ => Err(Fault::new(at, format!("parameter [{name}] must be a number"))),
    }
}

fn constant(at: usize, value: &Value) -> Result<Arc<Expr>, Fault> {
    Ok(Arc::new(match value {
        Value::Number(number) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            if number.is_f64() { Expr::Number(value) } else { Expr::Whole(value) }
        }
        Value::Bool(flag) => Expr::Truth(*flag),
        Value::Null => Expr::Number(f64::NAN),
        other => return Err(Fault::new(at, format!("unexpected value [{other}]"))),
    }))
}

/// What is known of a decay before documents are: a number, a text, a parameter.
fn decay_constant(params: &Map<String, Value>, argument: &Expression) -> Result<Value, Fault> {
    match &argument.kind {
        Kind::Literal(Value::Number(number)) => {
            return Ok(Value::from(number.as_f64().unwrap_or(f64::NAN)));
        }
        Kind::Literal(Value::String(text)) => return Ok(Value::from(text.as_str())),
        Kind::Unary("-", inner) => {
            if let Kind::Literal(Value::Number(number)) = &inner.kind {
                return Ok(Value::from(-number.as_f64().unwrap_or(f64::NAN)));
            }
        }
        _ => {}
    }
    match unrolled(argument) {
        (Expression { kind: Kind::Name(root), at }, steps) if root == "params" => {
            Ok(parameter(*at, params, &steps)?.1)
        }
        _ => Err(Fault::new(argument.at, "a decay function takes numbers, texts and parameters")),
    }
}

fn of_operator(operator: &str) -> Operator {
    match operator {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Remainder,
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterEqual,
        "==" | "===" => Operator::Equal,
        "&&" => Operator::And,
        "||" => Operator::Or,
        // "!=" and "!==": there are no others.
        _ => Operator::NotEqual,
    }
}

/// Whether a number of a bucket's script has no fraction.
fn is_whole(value: &Expr) -> bool {
    let both = |one: &Arc<Expr>, other: &Arc<Expr>| is_whole(one) && is_whole(other);
    match value {
        Expr::Whole(_) | Expr::Call(Function::Truncate | Function::Round, _) => true,
        Expr::Negate(inner) => is_whole(inner),
        Expr::Call(Function::Abs | Function::Min | Function::Max, arguments) => {
            arguments.iter().all(|argument| is_whole(argument))
        }
        Expr::Choose(_, yes, no) => both(yes, no),
        Expr::Binary(
            Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Remainder,
            left,
            right,
        ) => both(left, right),
        _ => false,
    }
}

/// A number that has a fraction from now on, also where it was a whole one.
fn as_double(value: Arc<Expr>) -> Arc<Expr> {
    match value.as_ref() {
        Expr::Number(_) => value,
        Expr::Whole(number) => Arc::new(Expr::Number(*number)),
        _ => Arc::new(Expr::Binary(Operator::Add, value, Arc::new(Expr::Number(0.0)))),
    }
}

fn choose(test: &Arc<Expr>, yes: Arc<Expr>, no: Arc<Expr>) -> Arc<Expr> {
    Arc::new(Expr::Choose(Arc::clone(test), yes, no))
}
