//! What statements do to a document.

use std::cmp::Ordering;
use std::collections::HashMap;

use plimsoll_index::script::{Expression, Kind, Statement};
use serde_json::{Map, Value, json};

use super::budget::{Budget, DEPTH_MAX, depth};
use super::error::RunError;

/// The longest string that a script may make, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// How many characters of a string an error shows.
const TEXT_SHOWN: usize = 64;

/// Runs a program over `ctx`, and returns what that is after it.
///
/// # Errors
/// Where something fails, is not supported, or is more than a script may do.
pub fn run(program: &[Statement], context: Value, params: &Value) -> Result<Value, RunError> {
    let mut machine = Machine { context, params, names: HashMap::new(), budget: Budget::default() };
    machine.block(program)?;
    Ok(machine.context)
}

struct Machine<'a> {
    context: Value,
    params: &'a Value,
    names: HashMap<String, Value>,
    budget: Budget,
}

impl Machine<'_> {
    /// Runs statements; false where one of them was a return.
    fn block(&mut self, block: &[Statement]) -> Result<bool, RunError> {
        for statement in block {
            match statement {
                Statement::Return(value) => {
                    if let Some(value) = value {
                        self.value(value)?;
                    }
                    return Ok(false);
                }
                Statement::Run(expression) => {
                    self.value(expression)?;
                }
                Statement::Define(_, name, expression) => {
                    let value = self.value(expression)?;
                    self.names.insert(name.clone(), value);
                }
                Statement::If(condition, then, otherwise) => {
                    let is_true = boolean(&self.value(condition)?)?;
                    if !self.block(if is_true { then } else { otherwise })? {
                        return Ok(false);
                    }
                }
                Statement::Assign(left, operator, right) => {
                    let mut value = self.value(right)?;
                    if let Some(operator) = operator {
                        let before = self.value(left)?;
                        value = self.binary(operator, &before, &value)?;
                    }
                    self.assign(left, value)?;
                }
            }
        }
        Ok(true)
    }

    fn assign(&mut self, left: &Expression, value: Value) -> Result<(), RunError> {
        match &left.kind {
            Kind::Name(name) => match self.names.get_mut(name) {
                Some(known) => *known = value,
                None => return Err(RunError::Unassignable(name.clone())),
            },
            Kind::Part(holder, part) => {
                let part = self.value(part)?;
                fits(holder, &value)?;
                match (self.place(holder)?, &part) {
                    (Value::Object(object), Value::String(name)) => {
                        object.insert(name.clone(), value);
                    }
                    (Value::Array(items), Value::Number(_)) => {
                        let at = position(&part, items.len())?;
                        items[at] = value;
                    }
                    (_, part) => {
                        return Err(RunError::NothingToSet(brief(part)));
                    }
                }
            }
            _ => return Err(RunError::NoTarget),
        }
        Ok(())
    }

    /// The value itself, to be changed.
    fn place(&mut self, expression: &Expression) -> Result<&mut Value, RunError> {
        match &expression.kind {
            Kind::Name(name) if name == "ctx" => Ok(&mut self.context),
            Kind::Name(name) => {
                self.names.get_mut(name).ok_or_else(|| RunError::Unchangeable(name.clone()))
            }
            Kind::Part(holder, part) => {
                let part = self.value(part)?;
                match (self.place(holder)?, &part) {
                    (Value::Object(object), Value::String(name)) => {
                        Ok(object.entry(name.clone()).or_insert(Value::Null))
                    }
                    (Value::Array(items), Value::Number(_)) => {
                        let at = position(&part, items.len())?;
                        Ok(&mut items[at])
                    }
                    (_, part) => Err(RunError::NothingToChange(brief(part))),
                }
            }
            _ => Err(RunError::NoPlace),
        }
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, RunError> {
        self.budget.step(1)?;
        match &expression.kind {
            Kind::Literal(value) => Ok(self.budget.copy(value)?),
            Kind::List(items) => {
                let items: Vec<Value> =
                    items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?;
                self.budget.build(items.len().saturating_mul(size_of::<Value>()))?;
                let list = Value::Array(items);
                bounded(depth(&list))?;
                Ok(list)
            }
            Kind::Name(_) | Kind::Part(..) => {
                let path = self.path(expression)?;
                let found = find(&self.context, self.params, &self.names, &path)?;
                match found {
                    Found::Part(value) => Ok(self.budget.copy(value)?),
                    Found::Length(length) => Ok(json!(length)),
                }
            }
            Kind::Unary(operator, inner) => {
                let inner = self.value(inner)?;
                match *operator {
                    "!" => Ok(json!(!boolean(&inner)?)),
                    _ => self.binary("-", &json!(0), &inner),
                }
            }
            Kind::Binary("&&", left, right) => {
                Ok(json!(boolean(&self.value(left)?)? && boolean(&self.value(right)?)?))
            }
            Kind::Binary("||", left, right) => {
                Ok(json!(boolean(&self.value(left)?)? || boolean(&self.value(right)?)?))
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(operator, &left, &right)
            }
            Kind::Choice(condition, then, otherwise) => {
                let is_true = boolean(&self.value(condition)?)?;
                self.value(if is_true { then } else { otherwise })
            }
            Kind::Call(Some(holder), name, arguments) => self.call(holder, name, arguments),
            Kind::Call(None, name, _) => Err(RunError::Unknown(name.clone())),
            Kind::Cast(kind, inner) => cast(kind, self.value(inner)?),
        }
    }

    fn binary(&mut self, operator: &str, left: &Value, right: &Value) -> Result<Value, RunError> {
        if left.is_string() || right.is_string() {
            // What is joined is written out first, whatever it is.
            self.budget.text(left)?;
            self.budget.text(right)?;
        }
        binary(operator, left, right)
    }

    /// A variable, or something computed, and the way to a part of it.
    fn path<'e>(&mut self, expression: &'e Expression) -> Result<Path<'e>, RunError> {
        let mut parts = Vec::new();
        let mut root = expression;
        while let Kind::Part(holder, part) = &root.kind {
            parts.push(self.value(part)?);
            root = holder;
        }
        parts.reverse();
        let root = match &root.kind {
            Kind::Name(name) => Root::Name(name),
            _ => Root::Computed(self.value(root)?),
        };
        Ok(Path { root, parts })
    }

    fn call(
        &mut self,
        holder: &Expression,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Value, RunError> {
        let mut arguments: Vec<Value> =
            arguments.iter().map(|argument| self.value(argument)).collect::<Result<_, _>>()?;
        match (name, arguments.as_mut_slice()) {
            ("add", [item]) => {
                fits(holder, item)?;
                list(self.place(holder)?, name)?.push(item.take());
                Ok(json!(true))
            }
            ("addAll", [Value::Array(items)]) => {
                items.iter().try_for_each(|item| fits(holder, item))?;
                list(self.place(holder)?, name)?.append(items);
                Ok(json!(true))
            }
            ("clear", []) => {
                match self.place(holder)? {
                    Value::Array(items) => items.clear(),
                    Value::Object(object) => object.clear(),
                    _ => return Err(RunError::NoChange(name.to_owned())),
                }
                Ok(Value::Null)
            }
            ("put", [Value::String(key), value]) => {
                fits(holder, value)?;
                let object = object(self.place(holder)?, name)?;
                Ok(object.insert(std::mem::take(key), value.take()).unwrap_or_default())
            }
            ("remove", [which]) => {
                let length = match self.place(holder)? {
                    Value::Object(object) => object.len(),
                    Value::Array(items) => items.len(),
                    _ => return Err(RunError::NoChange(name.to_owned())),
                };
                // What stands behind it moves.
                self.budget.step(length)?;
                match (self.place(holder)?, which) {
                    (Value::Object(object), Value::String(key)) => {
                        Ok(object.shift_remove(key.as_str()).unwrap_or_default())
                    }
                    (Value::Array(items), which @ Value::Number(_)) => {
                        let at = position(which, items.len())?;
                        Ok(items.remove(at))
                    }
                    _ => Err(RunError::NoChange(name.to_owned())),
                }
            }
            (name, arguments) => {
                let path = self.path(holder)?;
                match find(&self.context, self.params, &self.names, &path)? {
                    Found::Part(value) => ask(&mut self.budget, value, name, arguments),
                    Found::Length(length) => ask(&mut self.budget, &json!(length), name, arguments),
                }
            }
        }
    }
}

/// Where a path begins.
enum Root<'e> {
    Name(&'e str),
    Computed(Value),
}

/// A value by the way to it.
struct Path<'e> {
    root: Root<'e>,
    parts: Vec<Value>,
}

/// What lies at the end of a path.
enum Found<'a> {
    Part(&'a Value),
    /// `list.length` is no part of the list.
    Length(usize),
}

fn find<'a>(
    context: &'a Value,
    params: &'a Value,
    names: &'a HashMap<String, Value>,
    path: &'a Path<'_>,
) -> Result<Found<'a>, RunError> {
    let mut found = match &path.root {
        Root::Name("ctx") => context,
        Root::Name("params") => params,
        Root::Name(name) => {
            names.get(*name).ok_or_else(|| RunError::Unknown((*name).to_owned()))?
        }
        Root::Computed(value) => value,
    };
    for (at, part) in path.parts.iter().enumerate() {
        found = match (found, part) {
            (Value::Object(object), Value::String(name)) => {
                object.get(name).unwrap_or(&Value::Null)
            }
            (Value::Array(items), Value::Number(_)) => &items[position(part, items.len())?],
            (Value::Array(items), Value::String(name))
                if name == "length" && at + 1 == path.parts.len() =>
            {
                return Ok(Found::Length(items.len()));
            }
            (_, part) => return Err(RunError::NothingToRead(brief(part))),
        };
    }
    Ok(Found::Part(found))
}

/// Checks that a value may be put into another, by the way to that.
fn fits(holder: &Expression, value: &Value) -> Result<(), RunError> {
    let mut levels = 1;
    let mut at = holder;
    while let Kind::Part(outer, _) = &at.kind {
        levels += 1;
        at = outer;
    }
    bounded(levels + depth(value))
}

fn bounded(depth: usize) -> Result<(), RunError> {
    if depth > DEPTH_MAX {
        return Err(RunError::TooDeep);
    }
    Ok(())
}

/// Calls that change nothing.
fn ask(
    budget: &mut Budget,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, RunError> {
    match (value, name) {
        (Value::Array(items), "contains" | "indexOf") => budget.step(items.len())?,
        (Value::String(_), _) | (_, "toString") => budget.text(value)?,
        (_, "equals") => budget.step(1)?,
        _ => (),
    }
    match (value, name, arguments) {
        (Value::Array(items), "contains", [item]) => {
            Ok(json!(items.iter().any(|known| is_equal(known, item))))
        }
        (Value::Array(items), "indexOf", [item]) => {
            let at = items.iter().position(|known| is_equal(known, item));
            Ok(at.map_or(json!(-1), |at| json!(at)))
        }
        (Value::Array(items), "size", []) => Ok(json!(items.len())),
        (Value::Array(items), "isEmpty", []) => Ok(json!(items.is_empty())),
        (Value::Object(object), "size", []) => Ok(json!(object.len())),
        (Value::Object(object), "isEmpty", []) => Ok(json!(object.is_empty())),
        (Value::Object(object), "containsKey", [Value::String(key)]) => {
            Ok(json!(object.contains_key(key)))
        }
        (Value::Object(object), "get", [Value::String(key)]) => {
            Ok(object.get(key).map_or(Ok(Value::Null), |value| budget.copy(value))?)
        }
        (Value::Object(object), "getOrDefault", [Value::String(key), default]) => {
            Ok(budget.copy(object.get(key).unwrap_or(default))?)
        }
        (Value::String(text), "length", []) => Ok(json!(text.chars().count())),
        (Value::String(text), "isEmpty", []) => Ok(json!(text.is_empty())),
        (Value::String(text), "contains", [Value::String(part)]) => Ok(json!(text.contains(part))),
        (Value::String(text), "startsWith", [Value::String(part)]) => {
            Ok(json!(text.starts_with(part)))
        }
        (Value::String(text), "endsWith", [Value::String(part)]) => Ok(json!(text.ends_with(part))),
        (Value::String(text), "toLowerCase", []) => Ok(json!(text.to_lowercase())),
        (Value::String(text), "toUpperCase", []) => Ok(json!(text.to_uppercase())),
        (value, "equals", [other]) => Ok(json!(is_equal(value, other))),
        (value, "toString", []) => Ok(json!(shown(value))),
        (_, name, _) => Err(RunError::NoMethod(name.to_owned())),
    }
}

fn list<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Vec<Value>, RunError> {
    value.as_array_mut().ok_or_else(|| RunError::NeedsList(name.to_owned()))
}

fn object<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, RunError> {
    value.as_object_mut().ok_or_else(|| RunError::NeedsObject(name.to_owned()))
}

fn position(part: &Value, length: usize) -> Result<usize, RunError> {
    let at = part.as_u64().and_then(|at| usize::try_from(at).ok());
    at.filter(|at| *at < length).ok_or_else(|| RunError::OutOfBounds { at: brief(part), length })
}

/// A number as one of another type; of `def`, whatever it is.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused before")]
fn cast(kind: &str, value: Value) -> Result<Value, RunError> {
    let wrong = |value: String| RunError::Cast { value, kind: kind.to_owned() };
    let number = || value.as_f64().ok_or_else(|| wrong(brief(&value)));
    match kind {
        "int" | "long" if value.as_i64().is_none() => {
            let whole = number()?.trunc();
            // The ends of what a whole number holds.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
            match fits {
                true => Ok(json!(whole as i64)),
                false => Err(wrong(whole.to_string())),
            }
        }
        "double" | "float" => Ok(json!(number()?)),
        _ => Ok(value),
    }
}

fn boolean(value: &Value) -> Result<bool, RunError> {
    value.as_bool().ok_or_else(|| RunError::NotBoolean(brief(value)))
}

/// A value as it stands in an error: short, however large it is.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(object) => format!("an object of {}", object.len()),
        Value::String(text) => text.chars().take(TEXT_SHOWN).collect(),
        other => other.to_string(),
    }
}

/// A value as it stands in a string.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(_), Some(_)) => compare(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn binary(operator: &str, left: &Value, right: &Value) -> Result<Value, RunError> {
    match operator {
        "==" | "===" => return Ok(json!(is_equal(left, right))),
        "!=" | "!==" => return Ok(json!(!is_equal(left, right))),
        "+" if left.is_string() || right.is_string() => {
            let text = shown(left) + &shown(right);
            if text.len() > TEXT_BYTES_MAX {
                return Err(RunError::TextTooLong(TEXT_BYTES_MAX));
            }
            return Ok(json!(text));
        }
        _ => (),
    }
    let undefined = || RunError::Operator {
        operator: operator.to_owned(),
        left: brief(left),
        right: brief(right),
    };
    if matches!(operator, "<" | ">" | "<=" | ">=") {
        let order = compare(left, right).ok_or_else(undefined)?;
        return Ok(json!(match operator {
            "<" => order.is_lt(),
            ">" => order.is_gt(),
            "<=" => order.is_le(),
            _ => order.is_ge(),
        }));
    }
    // Whole numbers go round at their ends, as Java's do.
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        if right == 0 && matches!(operator, "/" | "%") {
            return Err(RunError::ByZero);
        }
        return Ok(json!(match operator {
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "*" => left.wrapping_mul(right),
            "/" => left.wrapping_div(right),
            _ => left.wrapping_rem(right),
        }));
    }
    let (left, right) =
        (left.as_f64().ok_or_else(undefined)?, right.as_f64().ok_or_else(undefined)?);
    let value = match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        _ => left % right,
    };
    if value.is_finite() {
        Ok(json!(value))
    } else {
        Err(RunError::NotFinite { operator: operator.to_owned(), value })
    }
}
