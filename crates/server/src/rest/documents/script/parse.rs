//! The text of a script as statements.

use serde_json::{Value, json};

use super::tokens::{Token, tokens};

/// How deep expressions and blocks may lie in each other as they are written.
const DEPTH_MAX: usize = 50;
/// How many operators, fields and calls may hang on each other: `1+1+1` are two. It bounds the
/// stack that running and dropping a script take.
const CHAIN_MAX: usize = 200;
/// The most values, operators and statements of a script.
const NODES_MAX: usize = 10_000;

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
/// Operators between two values, those that bind least first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["===", "!==", "==", "!="],
    &["<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Reads a script.
///
/// # Errors
/// Says what is wrong, or what is not supported.
pub fn program(text: &str) -> Result<Vec<Statement>, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, nodes: 0 };
    let mut program = Vec::new();
    while parser.at < parser.tokens.len() {
        parser.statement(&mut program)?;
    }
    Ok(program)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    nodes: usize,
}

/// An expression, and how many others lie on the longest way down in it.
struct Tree {
    expression: Expression,
    height: usize,
}

impl Tree {
    fn boxed(self) -> Box<Expression> {
        Box::new(self.expression)
    }
}

/// The greatest height of expressions.
fn height<'a>(trees: impl IntoIterator<Item = &'a Tree>) -> usize {
    trees.into_iter().map(|tree| tree.height).max().unwrap_or(0)
}

impl Parser {
    fn count(&mut self) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!(
                "the script has more than {NODES_MAX} values, operators and statements"
            ));
        }
        Ok(())
    }

    /// An expression over others of this height.
    fn node(&mut self, expression: Expression, below: usize) -> Result<Tree, String> {
        self.count()?;
        if below >= CHAIN_MAX {
            return Err(format!(
                "more than {CHAIN_MAX} operators, fields and calls of the script hang on each other"
            ));
        }
        Ok(Tree { expression, height: below + 1 })
    }

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
        self.count()?;
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
        Ok(Statement::If(condition.expression, then, otherwise))
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
                return Ok(Statement::Define(name, self.expression()?.expression));
            }
        }
        let left = self.expression()?.expression;
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
                return Ok(Statement::Assign(left, operator, self.expression()?.expression));
            }
        }
        Ok(Statement::Run(left))
    }

    fn expression(&mut self) -> Result<Tree, String> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let below = height([&condition, &then, &otherwise]);
            let choice = Expression::Choice(condition.boxed(), then.boxed(), otherwise.boxed());
            parser.node(choice, below)
        })
    }

    fn binary(&mut self, level: usize) -> Result<Tree, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.is(operator)) {
            self.at += 1;
            let right = self.binary(level + 1)?;
            let below = height([&left, &right]);
            let both = Expression::Binary(operator, left.boxed(), right.boxed());
            left = self.node(both, below)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Tree, String> {
        for operator in ["!", "-"] {
            if self.take(operator) {
                let inner = self.deeper(Self::unary)?;
                let below = inner.height;
                return self.node(Expression::Unary(operator, inner.boxed()), below);
            }
        }
        let mut value = self.primary()?;
        loop {
            if self.take(".") {
                value = self.part(value)?;
            } else if self.take("[") {
                let part = self.expression()?;
                self.expect("]")?;
                let below = height([&value, &part]);
                value = self.node(Expression::Part(value.boxed(), part.boxed()), below)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// What stands behind a point: a field or a call.
    fn part(&mut self, value: Tree) -> Result<Tree, String> {
        let name = match self.peek() {
            Some(Token::Word(name)) => name.clone(),
            _ => return Err(format!("expected a name, found {}", self.found())),
        };
        self.at += 1;
        if self.take("(") {
            let (arguments, highest) = self.list(")")?;
            let below = highest.max(value.height);
            return self.node(Expression::Call(value.boxed(), name, arguments), below);
        }
        let below = value.height;
        let name = Expression::Literal(Value::String(name));
        self.node(Expression::Part(value.boxed(), Box::new(name)), below)
    }

    /// Expressions between commas, and the greatest height of them.
    fn list(&mut self, end: &str) -> Result<(Vec<Expression>, usize), String> {
        let mut items = Vec::new();
        let mut highest = 0;
        while !self.take(end) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            let item = self.expression()?;
            highest = highest.max(item.height);
            items.push(item.expression);
        }
        Ok((items, highest))
    }

    fn primary(&mut self) -> Result<Tree, String> {
        let Some(token) = self.peek().cloned() else {
            return Err("expected a value, found the end of the script".to_owned());
        };
        self.at += 1;
        match token {
            Token::Value(value) => self.node(Expression::Literal(value), 0),
            Token::Word(word) if MISSING.contains(&word.as_str()) => {
                Err(format!("[{word}] is not supported in scripts"))
            }
            Token::Word(word) => self.node(Expression::Name(word), 0),
            Token::Operator("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Operator("[") => {
                let (items, below) = self.list("]")?;
                self.node(Expression::List(items), below)
            }
            Token::Operator(_) => {
                self.at -= 1;
                Err(format!("expected a value, found {}", self.found()))
            }
        }
    }
}
