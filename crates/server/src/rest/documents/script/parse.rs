//! The text of a script as statements.

use serde_json::{Value, json};

/// How deep expressions and blocks may lie in each other.
const DEPTH_MAX: usize = 50;

/// One thing that a script does.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `a.b = …`, `a.b += …`: the operator is the one before `=`.
    Assign(Expression, Option<&'static str>, Expression),
    /// `def a = …`
    Define(String, Expression),
    /// `if (…) { … } else { … }`
    If(Expression, Vec<Statement>, Vec<Statement>),
    /// A call for what it does.
    Run(Expression),
    /// The end, here.
    Return,
}

/// Something with a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number, a string, true, false or null.
    Literal(Value),
    /// `ctx`, `params` or a variable.
    Name(String),
    /// `a.b` or `a['b']` or `a[0]`
    Part(Box<Expression>, Box<Expression>),
    /// `a.b(…)`
    Call(Box<Expression>, String, Vec<Expression>),
    /// `!a`, `-a`
    Unary(&'static str, Box<Expression>),
    /// `a + b`
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `a ? b : c`
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `[a, b]`
    List(Vec<Expression>),
}

/// Words of Painless that scripts here do not have.
const MISSING: &[&str] = &[
    "for",
    "while",
    "do",
    "break",
    "continue",
    "try",
    "catch",
    "throw",
    "new",
    "instanceof",
    "this",
];
/// Words that may stand before a variable's name.
const TYPES: &[&str] =
    &["def", "int", "long", "double", "float", "boolean", "String", "Object", "List", "Map"];
/// Operators, the longer before those that they begin with.
const OPERATORS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=",
    "=", "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", ".", ",", ";", "(", ")", "[", "]", "{",
    "}",
];
/// Operators between two values, those that bind least first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["===", "!==", "==", "!="],
    &["<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Value(Value),
    Operator(&'static str),
}

/// Reads a script.
///
/// # Errors
/// Says what is wrong, or what is not supported.
pub fn program(text: &str) -> Result<Vec<Statement>, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let mut program = Vec::new();
    while parser.at < parser.tokens.len() {
        parser.statement(&mut program)?;
    }
    Ok(program)
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            length = rest.find("*/").ok_or("a comment is not closed")? + 2;
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            tokens.push(word(&rest[..length]));
        } else if first.is_ascii_digit() {
            length = number(rest, &mut tokens)?;
        } else if first == '\'' || first == '"' {
            length = string(rest, first, &mut tokens)?;
        } else if let Some(operator) = OPERATORS.iter().find(|known| rest.starts_with(**known)) {
            length = operator.len();
            tokens.push(Token::Operator(operator));
        } else {
            return Err(format!("unexpected character [{first}]"));
        }
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn word(text: &str) -> Token {
    match text {
        "true" => Token::Value(json!(true)),
        "false" => Token::Value(json!(false)),
        "null" => Token::Value(Value::Null),
        _ => Token::Word(text.to_owned()),
    }
}

fn number(rest: &str, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let mut length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let fraction = rest[length..].strip_prefix('.').map_or(0, |fraction| {
        fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len())
    });
    if fraction > 0 {
        length += 1 + fraction;
    }
    let digits = &rest[..length];
    let wrong = || format!("[{digits}] is no number that fits");
    let value = if fraction > 0 {
        json!(digits.parse::<f64>().map_err(|_| wrong())?)
    } else {
        json!(digits.parse::<i64>().map_err(|_| wrong())?)
    };
    tokens.push(Token::Value(value));
    // `1L` and `1.0d` are numbers too.
    let suffix = rest[length..].starts_with(['l', 'L', 'f', 'F', 'd', 'D']);
    Ok(length + usize::from(suffix))
}

fn string(rest: &str, quote: char, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, escaped)) => text.push(escaped),
                None => break,
            },
            c if c == quote => {
                tokens.push(Token::Value(Value::String(text)));
                return Ok(at + 1);
            }
            c => text.push(c),
        }
    }
    Err("a string is not closed".to_owned())
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(found)) if *found == operator)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    fn take(&mut self, operator: &str) -> bool {
        let is = self.is(operator);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, operator: &str) -> Result<(), String> {
        if self.take(operator) {
            Ok(())
        } else {
            Err(format!("expected [{operator}], found {}", self.found()))
        }
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the script".to_owned(),
            Some(Token::Word(word)) => format!("[{word}]"),
            Some(Token::Value(value)) => format!("[{value}]"),
            Some(Token::Operator(operator)) => format!("[{operator}]"),
        }
    }

    /// Does something one level deeper.
    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the script is nested deeper than {DEPTH_MAX} levels"));
        }
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn statement(&mut self, program: &mut Vec<Statement>) -> Result<(), String> {
        if self.take(";") {
            return Ok(());
        }
        if self.is("{") {
            let block = self.deeper(Self::block)?;
            program.extend(block);
            return Ok(());
        }
        if self.is_word("if") {
            let statement = self.deeper(Self::condition)?;
            program.push(statement);
            return Ok(());
        }
        let statement = self.simple()?;
        program.push(statement);
        if !self.take(";") && !self.is("}") && self.peek().is_some() {
            return Err(format!("expected [;], found {}", self.found()));
        }
        Ok(())
    }

    fn block(&mut self) -> Result<Vec<Statement>, String> {
        let mut block = Vec::new();
        if !self.take("{") {
            self.statement(&mut block)?;
            return Ok(block);
        }
        while !self.take("}") {
            if self.peek().is_none() {
                return Err("expected [}], found the end of the script".to_owned());
            }
            self.statement(&mut block)?;
        }
        Ok(block)
    }

    fn condition(&mut self) -> Result<Statement, String> {
        self.at += 1;
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        let then = self.block()?;
        let mut otherwise = Vec::new();
        if self.is_word("else") {
            self.at += 1;
            otherwise = self.deeper(Self::block)?;
        }
        Ok(Statement::If(condition, then, otherwise))
    }

    fn simple(&mut self) -> Result<Statement, String> {
        if let Some(Token::Word(word)) = self.peek() {
            if MISSING.contains(&word.as_str()) {
                return Err(format!("[{word}] is not supported in scripts"));
            }
            if word == "return" {
                self.at += 1;
                if !self.is(";") && !self.is("}") && self.peek().is_some() {
                    self.expression()?;
                }
                return Ok(Statement::Return);
            }
            let is_type = TYPES.contains(&word.as_str());
            if let (true, Some(Token::Word(name))) = (is_type, self.tokens.get(self.at + 1)) {
                let name = name.clone();
                self.at += 2;
                self.expect("=")?;
                return Ok(Statement::Define(name, self.expression()?));
            }
        }
        let left = self.expression()?;
        for (sign, operator) in [("++", "+"), ("--", "-")] {
            if self.take(sign) {
                let one = Expression::Literal(json!(1));
                return Ok(Statement::Assign(left, Some(operator), one));
            }
        }
        for (sign, operator) in [
            ("=", None),
            ("+=", Some("+")),
            ("-=", Some("-")),
            ("*=", Some("*")),
            ("/=", Some("/")),
            ("%=", Some("%")),
        ] {
            if self.take(sign) {
                return Ok(Statement::Assign(left, operator, self.expression()?));
            }
        }
        Ok(Statement::Run(left))
    }

    fn expression(&mut self) -> Result<Expression, String> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            Ok(Expression::Choice(Box::new(condition), Box::new(then), Box::new(otherwise)))
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.is(operator)) {
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        for operator in ["!", "-"] {
            if self.take(operator) {
                let inner = self.deeper(Self::unary)?;
                return Ok(Expression::Unary(operator, Box::new(inner)));
            }
        }
        let mut value = self.primary()?;
        loop {
            if self.take(".") {
                let name = match self.peek() {
                    Some(Token::Word(name)) => name.clone(),
                    _ => return Err(format!("expected a name, found {}", self.found())),
                };
                self.at += 1;
                value = if self.take("(") {
                    Expression::Call(Box::new(value), name, self.list(")")?)
                } else {
                    let name = Expression::Literal(Value::String(name));
                    Expression::Part(Box::new(value), Box::new(name))
                };
            } else if self.take("[") {
                let part = self.expression()?;
                self.expect("]")?;
                value = Expression::Part(Box::new(value), Box::new(part));
            } else {
                return Ok(value);
            }
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expression>, String> {
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(self.expression()?);
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expression, String> {
        let Some(token) = self.peek().cloned() else {
            return Err("expected a value, found the end of the script".to_owned());
        };
        self.at += 1;
        match token {
            Token::Value(value) => Ok(Expression::Literal(value)),
            Token::Word(word) if MISSING.contains(&word.as_str()) => {
                Err(format!("[{word}] is not supported in scripts"))
            }
            Token::Word(word) => Ok(Expression::Name(word)),
            Token::Operator("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Operator("[") => Ok(Expression::List(self.list("]")?)),
            Token::Operator(_) => {
                self.at -= 1;
                Err(format!("expected a value, found {}", self.found()))
            }
        }
    }
}
