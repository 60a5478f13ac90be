//! Reads a script's tokens into one tree. Locals are replaced by what they stand for as they are
//! read, and `if` with `return` becomes a choice, so that the tree is a pure expression.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::lexer::{Token, tokens};
use super::{Expr, Function, Language, Operator, Part};
use crate::query::ast::{Decay, DecayShape, ValueMode};
use crate::query::limits;

/// What is wrong, and where in the text.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: usize,
    pub reason: String,
}

impl Fault {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

type Result<T> = std::result::Result<T, Fault>;

/// How deep brackets and conditions may go.
const DEPTH_MAX: usize = 64;

pub(super) fn parse(
    source: &str,
    language: Language,
    params: &Map<String, Value>,
) -> Result<Arc<Expr>> {
    let mut parser = Parser { tokens: tokens(source)?, next: 0, language, params, depth: 0 };
    let tree = match language {
        Language::Expression => {
            let tree = parser.expression(&Locals::default())?;
            parser.take(";");
            tree
        }
        Language::Painless => {
            let mut locals = Locals::default();
            parser
                .statements(&mut locals)?
                .ok_or_else(|| parser.fault("the script returns no value"))?
        }
    };
    if *parser.peek() != Token::End {
        return Err(parser.unexpected());
    }
    if tree.size() > limits::SCRIPT_NODES_MAX {
        return Err(Fault::new(0, "the script is too large"));
    }
    Ok(tree)
}

#[derive(Clone, Default)]
struct Locals {
    values: HashMap<String, (Arc<Expr>, usize)>,
    /// Those that were declared as numbers with a fraction: so is what is assigned to them.
    doubles: HashSet<String>,
}

struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    next: usize,
    language: Language,
    params: &'a Map<String, Value>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::new(self.tokens.get(self.next).map_or(0, |(at, _)| *at), reason)
    }

    fn unexpected(&self) -> Fault {
        match self.peek() {
            Token::End => self.fault("unexpected end of script."),
            Token::Number(number, _) => self.fault(format!("unexpected token ['{number}'].")),
            Token::Name(name) => self.fault(format!("unexpected token ['{name}'].")),
            Token::Text(text) => self.fault(format!("unexpected string ['{text}'].")),
            Token::Sign(sign) => self.fault(format!("unexpected token ['{sign}'].")),
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if is_next {
            self.next += 1;
        }
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn take_name(&mut self, wanted: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Name(name) if name == wanted);
        if is_next {
            self.next += 1;
        }
        is_next
    }

    fn name(&mut self) -> Result<String> {
        match self.peek().clone() {
            Token::Name(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault("the script is nested too deeply"));
        }
        Ok(())
    }

    /// Reads statements up to a closing bracket or the end; what they return, if they always do.
    fn statements(&mut self, locals: &mut Locals) -> Result<Option<Arc<Expr>>> {
        self.deeper()?;
        let returned = self.statement_list(locals);
        self.depth -= 1;
        returned
    }

    fn statement_list(&mut self, locals: &mut Locals) -> Result<Option<Arc<Expr>>> {
        loop {
            if matches!(self.peek(), Token::End | Token::Sign("}")) {
                return Ok(None);
            }
            if self.take(";") {
                continue;
            }
            if self.take_name("return") {
                let value = self.expression(locals)?;
                self.take(";");
                return Ok(Some(value));
            }
            if self.take_name("if") {
                if let Some(value) = self.condition(locals)? {
                    return Ok(Some(value));
                }
                continue;
            }
            if self.assignment(locals)? {
                continue;
            }
            let value = self.expression(locals)?;
            let is_last = !self.take(";") || matches!(self.peek(), Token::End | Token::Sign("}"));
            if is_last {
                // The value of the last statement is the script's.
                return Ok(Some(value));
            }
        }
    }

    fn body(&mut self, locals: &mut Locals) -> Result<Option<Arc<Expr>>> {
        if self.take("{") {
            let value = self.statements(locals)?;
            while self.take(";") {}
            self.expect("}")?;
            return Ok(value);
        }
        if self.take_name("return") {
            let value = self.expression(locals)?;
            self.take(";");
            return Ok(Some(value));
        }
        if self.assignment(locals)? {
            return Ok(None);
        }
        Err(self.unexpected())
    }

    /// What follows `if`. Where only one branch returns, the rest of the script is the other's.
    fn condition(&mut self, locals: &mut Locals) -> Result<Option<Arc<Expr>>> {
        self.deeper()?;
        self.expect("(")?;
        let test = self.expression(locals)?;
        self.expect(")")?;
        let mut yes_locals = locals.clone();
        let mut no_locals = locals.clone();
        let yes = self.body(&mut yes_locals)?;
        let mut no = None;
        if self.take_name("else") {
            no = if self.take_name("if") {
                self.condition(&mut no_locals)?
            } else {
                self.body(&mut no_locals)?
            };
        }
        let value = match (yes, no) {
            (Some(yes), Some(no)) => Some(choose(&test, yes, no)),
            (Some(yes), None) => {
                *locals = no_locals;
                let rest = self.statements(locals)?;
                let rest = rest.ok_or_else(|| self.fault("not all paths return a value"))?;
                Some(choose(&test, yes, rest))
            }
            (None, Some(no)) => {
                *locals = yes_locals;
                let rest = self.statements(locals)?;
                let rest = rest.ok_or_else(|| self.fault("not all paths return a value"))?;
                Some(choose(&test, rest, no))
            }
            (None, None) => {
                self.join(locals, &test, yes_locals, &no_locals)?;
                None
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn join(&self, locals: &mut Locals, test: &Arc<Expr>, yes: Locals, no: &Locals) -> Result<()> {
        for (name, (value, size)) in yes.values {
            // A local that was declared inside a branch ends with it.
            if !locals.values.contains_key(&name) {
                continue;
            }
            if let Some((other, other_size)) = no.values.get(&name)
                && !Arc::ptr_eq(&value, other)
            {
                let joined = choose(test, value, Arc::clone(other));
                self.bind(locals, name, joined, size + other_size + 1)?;
            }
        }
        Ok(())
    }

    fn bind(&self, locals: &mut Locals, name: String, value: Arc<Expr>, size: usize) -> Result<()> {
        // A local used twice doubles: the limit keeps `x = x + x` from exploding.
        if size > limits::SCRIPT_NODES_MAX {
            return Err(self.fault("the script is too large"));
        }
        locals.values.insert(name, (value, size));
        Ok(())
    }

    /// `double x = …;`, `x = …;`, `x += …;`, `x++;`
    fn assignment(&mut self, locals: &mut Locals) -> Result<bool> {
        let start = self.next;
        let Token::Name(first) = self.peek().clone() else { return Ok(false) };
        self.next += 1;
        let is_declaration = matches!(
            first.as_str(),
            "def"
                | "double"
                | "float"
                | "int"
                | "long"
                | "short"
                | "byte"
                | "boolean"
                | "var"
                | "Double"
                | "Long"
                | "Integer"
        ) && matches!(self.peek(), Token::Name(_));
        let name = if is_declaration {
            let name = self.name()?;
            if matches!(first.as_str(), "double" | "float" | "Double") {
                locals.doubles.insert(name.clone());
            }
            name
        } else {
            first
        };
        let operator = match self.peek() {
            Token::Sign("=") => None,
            Token::Sign("+=" | "++") => Some(Operator::Add),
            Token::Sign("-=" | "--") => Some(Operator::Subtract),
            Token::Sign("*=") => Some(Operator::Multiply),
            Token::Sign("/=") => Some(Operator::Divide),
            _ => {
                self.next = start;
                return Ok(false);
            }
        };
        let is_step = matches!(self.peek(), Token::Sign("++" | "--"));
        self.next += 1;
        let value = if is_step { Arc::new(Expr::Whole(1.0)) } else { self.expression(locals)? };
        let value = match operator {
            None if locals.doubles.contains(&name) => as_double(value),
            None => value,
            Some(operator) => {
                let (old, _) = locals
                    .values
                    .get(&name)
                    .ok_or_else(|| self.fault(format!("cannot resolve symbol [{name}]")))?;
                Arc::new(Expr::Binary(operator, Arc::clone(old), value))
            }
        };
        let size = value.size();
        self.bind(locals, name, value, size)?;
        if !self.take(";") && !matches!(self.peek(), Token::End | Token::Sign("}")) {
            return Err(self.unexpected());
        }
        Ok(true)
    }

    fn expression(&mut self, locals: &Locals) -> Result<Arc<Expr>> {
        self.deeper()?;
        let test = self.binary(locals, 0)?;
        let value = if self.take("?") {
            let yes = self.expression(locals)?;
            self.expect(":")?;
            let no = self.expression(locals)?;
            choose(&test, yes, no)
        } else {
            test
        };
        self.depth -= 1;
        Ok(value)
    }

    fn binary(&mut self, locals: &Locals, least: u8) -> Result<Arc<Expr>> {
        let mut left = self.unary(locals)?;
        loop {
            let (operator, rank) = match self.peek() {
                Token::Sign("||") => (Operator::Or, 1),
                Token::Sign("&&") => (Operator::And, 2),
                Token::Sign("==") => (Operator::Equal, 3),
                Token::Sign("!=") => (Operator::NotEqual, 3),
                Token::Sign("<") => (Operator::Less, 4),
                Token::Sign("<=") => (Operator::LessEqual, 4),
                Token::Sign(">") => (Operator::Greater, 4),
                Token::Sign(">=") => (Operator::GreaterEqual, 4),
                Token::Sign("+") => (Operator::Add, 5),
                Token::Sign("-") => (Operator::Subtract, 5),
                Token::Sign("*") => (Operator::Multiply, 6),
                Token::Sign("/") => (Operator::Divide, 6),
                Token::Sign("%") => (Operator::Remainder, 6),
                _ => return Ok(left),
            };
            if rank <= least {
                return Ok(left);
            }
            self.next += 1;
            let right = self.binary(locals, rank)?;
            left = Arc::new(Expr::Binary(operator, left, right));
        }
    }

    fn unary(&mut self, locals: &Locals) -> Result<Arc<Expr>> {
        self.deeper()?;
        let value = if self.take("-") {
            Arc::new(Expr::Negate(self.unary(locals)?))
        } else if self.take("+") {
            self.unary(locals)?
        } else if self.take("!") {
            Arc::new(Expr::Not(self.unary(locals)?))
        } else {
            self.primary(locals)?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn primary(&mut self, locals: &Locals) -> Result<Arc<Expr>> {
        match self.peek().clone() {
            Token::Number(number, is_whole) => {
                self.next += 1;
                Ok(Arc::new(if is_whole { Expr::Whole(number) } else { Expr::Number(number) }))
            }
            Token::Sign("(") => {
                self.next += 1;
                if let Token::Name(name) = self.peek()
                    && matches!(name.as_str(), "double" | "float" | "long" | "int" | "def")
                    && matches!(self.tokens.get(self.next + 1), Some((_, Token::Sign(")"))))
                {
                    let kind = name.clone();
                    self.next += 2;
                    let value = self.unary(locals)?;
                    return Ok(match kind.as_str() {
                        "long" | "int" => Arc::new(Expr::Call(Function::Truncate, vec![value])),
                        "double" | "float" => as_double(value),
                        _ => value,
                    });
                }
                let value = self.expression(locals)?;
                self.expect(")")?;
                Ok(value)
            }
            Token::Name(name) => {
                self.next += 1;
                self.named(&name, locals)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn named(&mut self, name: &str, locals: &Locals) -> Result<Arc<Expr>> {
        match name {
            "_score" => {
                if self.take(".")
                    && !(self.take_name("doubleValue") && self.take("(") && self.take(")"))
                {
                    return Err(self.unexpected());
                }
                return Ok(Arc::new(Expr::Score));
            }
            "doc" => return self.field(),
            "params" => return self.parameter(),
            "true" => return Ok(Arc::new(Expr::Truth(true))),
            "false" => return Ok(Arc::new(Expr::Truth(false))),
            "Math" => {
                self.expect(".")?;
                let function = self.name()?;
                return match function.as_str() {
                    "PI" => Ok(Arc::new(Expr::Number(std::f64::consts::PI))),
                    "E" => Ok(Arc::new(Expr::Number(std::f64::consts::E))),
                    _ => self.call(&function, locals),
                };
            }
            _ => {}
        }
        if let Some((value, _)) = locals.values.get(name) {
            return Ok(Arc::clone(value));
        }
        if matches!(self.peek(), Token::Sign("(")) {
            if name.starts_with("decay") {
                return self.decay(name);
            }
            return self.call(name, locals);
        }
        // An expression may name its parameters alone.
        if self.language == Language::Expression
            && let Some(value) = self.params.get(name)
        {
            return self.constant(name, value);
        }
        self.next -= 1;
        Err(self.fault(format!("cannot resolve symbol [{name}]")))
    }

    fn call(&mut self, name: &str, locals: &Locals) -> Result<Arc<Expr>> {
        let (function, count) =
            Function::named(name).ok_or_else(|| self.fault(format!("Unknown call [{name}].")))?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.expression(locals)?);
        }
        if arguments.len() != count {
            let found = arguments.len();
            return Err(
                self.fault(format!("[{name}] takes [{count}] arguments, but [{found}] were given"))
            );
        }
        Ok(Arc::new(Expr::Call(function, arguments)))
    }

    /// What follows `doc`.
    fn field(&mut self) -> Result<Arc<Expr>> {
        let name = if self.take("[") {
            let name = match self.peek().clone() {
                Token::Text(name) => {
                    self.next += 1;
                    name
                }
                Token::Name(params) if params == "params" => {
                    self.next += 1;
                    self.text_parameter()?
                }
                _ => return Err(self.unexpected()),
            };
            self.expect("]")?;
            name
        } else {
            self.expect(".")?;
            self.name()?
        };
        let mut part = Part::Value;
        let mut is_empty_test = false;
        while self.take(".") {
            let member = self.name()?;
            if self.take("(") {
                // getValue() and its kin; an index as in get(0) is the first value.
                if matches!(self.peek(), Token::Number(..)) {
                    self.next += 1;
                }
                self.expect(")")?;
            }
            match member.as_str() {
                "value" | "getValue" | "get" | "toInstant" | "doubleValue" | "longValue"
                | "date" => {}
                "millis" | "getMillis" | "toEpochMilli" => part = Part::Millis,
                "lat" | "getLat" => part = Part::Lat,
                "lon" | "getLon" => part = Part::Lon,
                "size" | "length" | "count" => part = Part::Count,
                "empty" | "isEmpty" => {
                    part = Part::Count;
                    is_empty_test = true;
                }
                other => return Err(self.fault(format!("member [{other}] is not supported"))),
            }
        }
        if self.take("[") {
            self.next += 1;
            self.expect("]")?;
        }
        let field = Arc::new(Expr::Field { name, part });
        Ok(if is_empty_test { Arc::new(Expr::Not(field)) } else { field })
    }

    fn parameter_value(&mut self) -> Result<(String, Value)> {
        let name = if self.take("[") {
            let Token::Text(name) = self.peek().clone() else { return Err(self.unexpected()) };
            self.next += 1;
            self.expect("]")?;
            name
        } else {
            self.expect(".")?;
            self.name()?
        };
        let mut value = self.params.get(&name).cloned();
        while let Some(Value::Object(_)) = value {
            if !self.take(".") {
                break;
            }
            let key = self.name()?;
            value = value.as_ref().and_then(|value| value.get(&key)).cloned();
        }
        let value = value.ok_or_else(|| self.fault(format!("parameter [{name}] is not given")))?;
        Ok((name, value))
    }

    fn text_parameter(&mut self) -> Result<String> {
        match self.parameter_value()? {
            (_, Value::String(text)) => Ok(text),
            (name, _) => Err(self.fault(format!("parameter [{name}] must be a string"))),
        }
    }

    fn parameter(&mut self) -> Result<Arc<Expr>> {
        let (name, value) = self.parameter_value()?;
        self.constant(&name, &value)
    }

    fn constant(&self, name: &str, value: &Value) -> Result<Arc<Expr>> {
        match value {
            Value::Number(number) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                Ok(Arc::new(if number.is_f64() { Expr::Number(value) } else { Expr::Whole(value) }))
            }
            Value::Bool(flag) => Ok(Arc::new(Expr::Truth(*flag))),
            _ => Err(self.fault(format!("parameter [{name}] must be a number"))),
        }
    }

    /// `decayGeoGauss(origin, scale, offset, decay, doc['f'].value)` and its eight kin.
    fn decay(&mut self, name: &str) -> Result<Arc<Expr>> {
        let shape = if name.ends_with("Gauss") {
            DecayShape::Gauss
        } else if name.ends_with("Exp") {
            DecayShape::Exp
        } else if name.ends_with("Linear") {
            DecayShape::Linear
        } else {
            return Err(self.fault(format!("Unknown call [{name}].")));
        };
        self.expect("(")?;
        let mut constants = Vec::new();
        for _ in 0..4 {
            constants.push(self.decay_constant()?);
            self.expect(",")?;
        }
        if !self.take_name("doc") {
            return Err(self.unexpected());
        }
        let field = match self.field()?.as_ref() {
            Expr::Field { name, part: Part::Value | Part::Millis } => name.clone(),
            _ => return Err(self.fault("a decay function takes doc['field'].value")),
        };
        self.expect(")")?;
        let decay = constants.pop().and_then(|value| value.as_f64());
        let decay = decay
            .filter(|decay| *decay > 0.0 && *decay < 1.0)
            .ok_or_else(|| self.fault("decay must be in the range (0..1)"))?;
        let mut constants = constants.into_iter();
        let origin = constants.next();
        let scale = constants.next().unwrap_or(Value::Null);
        let offset = constants.next();
        let mode = ValueMode::Min;
        let decay = Decay { shape, field, origin, scale, offset, decay, mode };
        Ok(Arc::new(Expr::Decay(Box::new(decay))))
    }

    fn decay_constant(&mut self) -> Result<Value> {
        let sign = if self.take("-") { -1.0 } else { 1.0 };
        match self.peek().clone() {
            Token::Number(number, _) => {
                self.next += 1;
                Ok(Value::from(sign * number))
            }
            Token::Text(text) => {
                self.next += 1;
                Ok(Value::from(text))
            }
            Token::Name(name) if name == "params" => {
                self.next += 1;
                Ok(self.parameter_value()?.1)
            }
            _ => Err(self.unexpected()),
        }
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
