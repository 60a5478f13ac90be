//! The arithmetic that `bucket_script` and `bucket_selector` hold: numbers, `params.name`,
//! operators, comparisons, `?:` and functions of `Math`. Nothing else of Painless.

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::Error;

/// How long a script may be, in bytes.
const LENGTH_MAX: usize = 65_535;
/// How deep it may nest.
const DEPTH_MAX: usize = 100;

/// A script that was read.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    expression: Expression,
    params: FxHashMap<String, f64>,
}

#[derive(Clone, Debug)]
enum Expression {
    Number(f64),
    Null,
    Variable(String),
    Unary(char, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<[Expression; 3]>),
    Call(Function, Vec<Expression>),
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Abs,
    Ceil,
    Cos,
    Exp,
    Floor,
    Log,
    Log10,
    Max,
    Min,
    Pow,
    Round,
    Sin,
    Sqrt,
}

impl Script {
    /// Reads a script: a string, or an object with `source` (or `inline`), `lang` and `params`.
    ///
    /// # Errors
    /// 400 `script_exception` where it is not such arithmetic.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let mut params = FxHashMap::default();
        let source = match value {
            Value::String(source) => source.as_str(),
            Value::Object(map) => {
                if let Some(Value::Object(given)) = map.get("params") {
                    for (name, value) in given {
                        if let Some(value) = value.as_f64() {
                            params.insert(name.clone(), value);
                        }
                    }
                }
                map.get("source")
                    .or_else(|| map.get("inline"))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            }
            _ => "",
        };
        if source.len() > LENGTH_MAX {
            return Err(compile_error(source.get(..40).unwrap_or_default()));
        }
        let text =
            source.trim().strip_prefix("return ").unwrap_or(source.trim()).trim_end_matches(';');
        let mut parser = Parser { rest: text, depth: 0 };
        let expression = parser.ternary().filter(|_| parser.rest.trim_start().is_empty());
        let expression = expression.ok_or_else(|| compile_error(source))?;
        Ok(Self { expression, params })
    }

    /// The value, by the values of its variables; truth is 1, falsehood 0.
    pub(crate) fn evaluate(&self, variable: &dyn Fn(&str) -> Option<f64>) -> f64 {
        let lookup = |name: &str| {
            variable(name).or_else(|| self.params.get(name).copied()).unwrap_or(f64::NAN)
        };
        self.expression.evaluate(&lookup)
    }
}

fn compile_error(source: &str) -> Error {
    Error::new(400, "script_exception", "compile error")
        .with("script", source)
        .with("lang", "painless")
        .caused_by(Error::illegal_argument(
            "only arithmetic of numbers and params is supported in this script",
        ))
}

impl Expression {
    fn evaluate(&self, lookup: &dyn Fn(&str) -> f64) -> f64 {
        match self {
            Self::Number(value) => *value,
            Self::Null => f64::NAN,
            Self::Variable(name) => lookup(name),
            Self::Unary('!', inner) => truth(inner.evaluate(lookup) == 0.0),
            Self::Unary(_, inner) => -inner.evaluate(lookup),
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.evaluate(lookup) != 0.0 {
                    yes.evaluate(lookup)
                } else {
                    no.evaluate(lookup)
                }
            }
            Self::Binary(operator, left, right) => {
                // What is compared with null is asked whether it is there.
                if matches!(**right, Self::Null) {
                    return truth(left.evaluate(lookup).is_nan() == (*operator == "=="));
                }
                binary(operator, left.evaluate(lookup), right.evaluate(lookup))
            }
            Self::Call(function, arguments) => {
                let at = |position: usize| {
                    arguments.get(position).map_or(f64::NAN, |argument| argument.evaluate(lookup))
                };
                call(*function, at(0), at(1))
            }
        }
    }
}

fn truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

fn binary(operator: &str, left: f64, right: f64) -> f64 {
    match operator {
        "||" => truth(left != 0.0 || right != 0.0),
        "&&" => truth(left != 0.0 && right != 0.0),
        "==" => truth(left == right),
        "!=" => truth(left != right),
        "<=" => truth(left <= right),
        ">=" => truth(left >= right),
        "<" => truth(left < right),
        ">" => truth(left > right),
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        _ => left % right,
    }
}

fn call(function: Function, first: f64, second: f64) -> f64 {
    match function {
        Function::Abs => first.abs(),
        Function::Ceil => first.ceil(),
        Function::Cos => first.cos(),
        Function::Exp => first.exp(),
        Function::Floor => first.floor(),
        Function::Log => first.ln(),
        Function::Log10 => first.log10(),
        Function::Max => first.max(second),
        Function::Min => first.min(second),
        Function::Pow => first.powf(second),
        Function::Round => first.round(),
        Function::Sin => first.sin(),
        Function::Sqrt => first.sqrt(),
    }
}

/// Binary operators by how tightly they bind, loosest first; longer spellings before shorter.
const LEVELS: [&[&str]; 6] =
    [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn ternary(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let condition = self.level(0)?;
        let whole = if self.eat("?") {
            let yes = self.ternary()?;
            if !self.eat(":") {
                return None;
            }
            Expression::Choice(Box::new([condition, yes, self.ternary()?]))
        } else {
            condition
        };
        self.depth -= 1;
        Some(whole)
    }

    fn level(&mut self, level: usize) -> Option<Expression> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        let mut chain = 0;
        while let Some(operator) = operators.iter().find(|operator| self.eat(operator)) {
            // A chain becomes a tree as deep as it is long.
            chain += 1;
            if chain > 1_000 {
                return None;
            }
            left = Expression::Binary(operator, Box::new(left), Box::new(self.level(level + 1)?));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let inner = if self.eat("-") {
            Expression::Unary('-', Box::new(self.unary()?))
        } else if self.eat("!") {
            Expression::Unary('!', Box::new(self.unary()?))
        } else {
            self.eat("+");
            self.primary()?
        };
        self.depth -= 1;
        Some(inner)
    }

    fn primary(&mut self) -> Option<Expression> {
        if self.eat("(") {
            let inner = self.ternary()?;
            return self.eat(")").then_some(inner);
        }
        let text = self.rest;
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let mut end =
                text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            if let Some(exponent) = text.get(end..).and_then(|rest| rest.strip_prefix(['e', 'E'])) {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                end = text.len() - digits.len() + length;
            }
            let value = text.get(..end)?.parse().ok()?;
            self.rest = text.get(end..)?.trim_start_matches(['L', 'l', 'f', 'F', 'd', 'D']);
            return Some(Expression::Number(value));
        }
        let end =
            text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(text.len());
        let word = text.get(..end).filter(|word| !word.is_empty())?;
        self.rest = text.get(end..)?;
        self.word(word)
    }

    fn word(&mut self, word: &str) -> Option<Expression> {
        if let Some(name) = word.strip_prefix("params.") {
            return Some(Expression::Variable(name.to_owned()));
        }
        if word == "params" && self.eat("[") {
            let quote = if self.eat("'") {
                "'"
            } else if self.eat("\"") {
                "\""
            } else {
                return None;
            };
            let (name, rest) = self.rest.split_once(quote)?;
            let name = name.to_owned();
            self.rest = rest;
            return self.eat("]").then_some(Expression::Variable(name));
        }
        match word {
            "null" => return Some(Expression::Null),
            "true" => return Some(Expression::Number(1.0)),
            "false" => return Some(Expression::Number(0.0)),
            _ => {}
        }
        if !self.eat("(") {
            // The expression language names its variables without `params`.
            return Some(Expression::Variable(word.to_owned()));
        }
        let function = match word.strip_prefix("Math.").unwrap_or(word) {
            "abs" => Function::Abs,
            "ceil" => Function::Ceil,
            "cos" => Function::Cos,
            "exp" => Function::Exp,
            "floor" => Function::Floor,
            "log" | "ln" => Function::Log,
            "log10" => Function::Log10,
            "max" => Function::Max,
            "min" => Function::Min,
            "pow" => Function::Pow,
            "round" => Function::Round,
            "sin" => Function::Sin,
            "sqrt" => Function::Sqrt,
            _ => return None,
        };
        let mut arguments = vec![self.ternary()?];
        while self.eat(",") {
            arguments.push(self.ternary()?);
            if arguments.len() > 2 {
                return None;
            }
        }
        self.eat(")").then_some(Expression::Call(function, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(source: &str) -> f64 {
        let script = Script::parse(&json!({ "source": source, "params": { "k": 10 } })).unwrap();
        script.evaluate(&|name| match name {
            "a" => Some(6.0),
            "b" => Some(4.0),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_is_evaluated_by_precedence() {
        assert_eq!(value("params.a / params.b * 100"), 150.0);
        assert_eq!(value("return (a + b) * -2;"), -20.0);
        assert_eq!(value("params['a'] - params.k"), -4.0);
        assert_eq!(value("a > b && !(a < 3) ? Math.max(a, 1e1) : 0"), 10.0);
        assert_eq!(value("params.none != null"), 0.0);
        assert_eq!(value("params.a != null"), 1.0);
        assert_eq!(value("7 % 4 - 2 - 1"), 0.0);
    }

    #[test]
    fn what_is_no_arithmetic_is_refused() {
        for source in [
            "",
            "a +",
            "ctx._source",
            "foo(1)",
            "a; b",
            "(((",
            "params[x]",
            "1 ? 2",
            "doc['a'].value",
        ] {
            if source == "ctx._source" {
                // A bare word is a variable, which has no value.
                assert!(value(source).is_nan());
            } else {
                assert!(Script::parse(&json!(source)).is_err(), "{source}");
            }
        }
        assert!(Script::parse(&json!("(".repeat(5_000))).is_err());
        assert!(Script::parse(&json!("-".repeat(5_000))).is_err());
        assert!(Script::parse(&json!(vec!["1"; 5_000].join("+"))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(source in ".{0,60}", operators in "[-+*/%()<>=!&|?:.,a-c0-9' ]{0,60}") {
            let _ = Script::parse(&json!(source));
            if let Ok(script) = Script::parse(&json!(operators)) {
                script.evaluate(&|_| Some(1.0));
            }
        }
    }
}
