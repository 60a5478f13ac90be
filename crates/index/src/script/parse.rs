//! The tokens of a script as statements.

use serde_json::{Value, json};

use super::fault::Fault;
use super::syntax::{Expression, Kind, Statement};
use super::tokens::{Token, tokens};

/// How deep expressions and blocks may lie in each other as they are written.
const DEPTH_MAX: usize = 64;
/// The most values, operators and statements of a script.
const NODES_MAX: usize = 10_000;

/// What a user of scripts lets be written.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many operators, fields and calls may hang on each other: `1+1+1` are two. It bounds the stack that
    /// running and dropping a script take.
    pub chain_max: usize,
    /// Whether there are calls without a holder, such as `abs(…)`.
    pub has_functions: bool,
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
const TYPES: &[&str] = &[
    "def", "var", "int", "long", "short", "byte", "double", "float", "boolean", "Integer", "Long",
    "Double", "String", "Object", "List", "Map",
];
/// Types that a number may be made.
const CASTS: &[&str] = &["def", "int", "long", "double", "float"];
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
pub fn program(text: &str, rules: Rules) -> Result<Vec<Statement>, Fault> {
    let end = text.len();
    let mut parser = Parser { tokens: tokens(text)?, end, rules, at: 0, depth: 0, nodes: 0 };
    let mut program = Vec::new();
    while parser.at < parser.tokens.len() {
        parser.statement(&mut program)?;
    }
    Ok(program)
}

type Parsed<T> = Result<T, Fault>;

struct Parser {
    tokens: Vec<(usize, Token)>,
    /// How long the text is.
    end: usize,
    rules: Rules,
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
    fn fault(&self, reason: impl ToString) -> Fault {
        Fault::new(self.place(), reason)
    }

    /// Where the next token stands.
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |(at, _)| *at)
    }

    fn count(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let reason =
                format!("the script has more than {NODES_MAX} values, operators and statements");
            return Err(self.fault(reason));
        }
        Ok(())
    }

    /// An expression over others of this height.
    fn node(&mut self, at: usize, kind: Kind, below: usize) -> Parsed<Tree> {
        self.count()?;
        let most = self.rules.chain_max;
        if below >= most {
            return Err(self.fault(format!(
                "more than {most} operators, fields and calls of the script hang on each other"
            )));
        }
        Ok(Tree { expression: Expression { at, kind }, height: below + 1 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
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

    fn expect(&mut self, operator: &str) -> Parsed<()> {
        match self.take(operator) {
            true => Ok(()),
            false => Err(self.fault(format!("expected [{operator}], found {}", self.found()))),
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
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(format!("the script is nested deeper than {DEPTH_MAX} levels")));
        }
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn statement(&mut self, program: &mut Vec<Statement>) -> Parsed<()> {
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
            return Err(self.fault(format!("expected [;], found {}", self.found())));
        }
        Ok(())
    }

    fn block(&mut self) -> Parsed<Vec<Statement>> {
        let mut block = Vec::new();
        if !self.take("{") {
            self.statement(&mut block)?;
            return Ok(block);
        }
        while !self.take("}") {
            if self.peek().is_none() {
                return Err(self.fault("expected [}], found the end of the script"));
            }
            self.statement(&mut block)?;
        }
        Ok(block)
    }

    fn condition(&mut self) -> Parsed<Statement> {
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

    fn simple(&mut self) -> Parsed<Statement> {
        if let Some(Token::Word(word)) = self.peek() {
            if MISSING.contains(&word.as_str()) {
                return Err(self.fault(format!("[{word}] is not supported in scripts")));
            }
            if word == "return" {
                self.at += 1;
                let is_bare = self.is(";") || self.is("}") || self.peek().is_none();
                let value = if is_bare { None } else { Some(self.expression()?.expression) };
                return Ok(Statement::Return(value));
            }
            let is_type = TYPES.contains(&word.as_str());
            if let (true, Some((_, Token::Word(name)))) = (is_type, self.tokens.get(self.at + 1)) {
                let (kind, name) = (word.clone(), name.clone());
                self.at += 2;
                self.expect("=")?;
                return Ok(Statement::Define(kind, name, self.expression()?.expression));
            }
        }
        let left = self.expression()?.expression;
        let at = self.place();
        for (sign, operator) in [("++", "+"), ("--", "-")] {
            if self.take(sign) {
                let one = Expression { at, kind: Kind::Literal(json!(1)) };
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

    fn expression(&mut self) -> Parsed<Tree> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            let at = parser.place();
            if !parser.take("?") {
                return Ok(condition);
            }
            let then = parser.expression()?;
            parser.expect(":")?;
            let otherwise = parser.expression()?;
            let below = height([&condition, &then, &otherwise]);
            let choice = Kind::Choice(condition.boxed(), then.boxed(), otherwise.boxed());
            parser.node(at, choice, below)
        })
    }

    fn binary(&mut self, level: usize) -> Parsed<Tree> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.is(operator)) {
            let at = self.place();
            self.at += 1;
            let right = self.binary(level + 1)?;
            let below = height([&left, &right]);
            left = self.node(at, Kind::Binary(operator, left.boxed(), right.boxed()), below)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Tree> {
        let at = self.place();
        for operator in ["!", "-"] {
            if self.take(operator) {
                let inner = self.deeper(Self::unary)?;
                let below = inner.height;
                return self.node(at, Kind::Unary(operator, inner.boxed()), below);
            }
        }
        if self.take("+") {
            return self.deeper(Self::unary);
        }
        if let Some(kind) = self.cast() {
            let inner = self.deeper(Self::unary)?;
            let below = inner.height;
            return self.node(at, Kind::Cast(kind, inner.boxed()), below);
        }
        let mut value = self.primary()?;
        loop {
            let at = self.place();
            if self.take(".") {
                value = self.part(at, value)?;
            } else if self.take("[") {
                let part = self.expression()?;
                self.expect("]")?;
                let below = height([&value, &part]);
                value = self.node(at, Kind::Part(value.boxed(), part.boxed()), below)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// The type of `(double)`, which is taken.
    fn cast(&mut self) -> Option<String> {
        let [(_, open), (_, Token::Word(kind)), (_, close)] =
            self.tokens.get(self.at..self.at + 3)?
        else {
            return None;
        };
        let is_cast = *open == Token::Operator("(")
            && *close == Token::Operator(")")
            && CASTS.contains(&kind.as_str());
        let kind = is_cast.then(|| kind.clone())?;
        self.at += 3;
        Some(kind)
    }

    /// What stands behind a point: a field or a call.
    fn part(&mut self, at: usize, value: Tree) -> Parsed<Tree> {
        let name = match self.peek() {
            Some(Token::Word(name)) => name.clone(),
            _ => return Err(self.fault(format!("expected a name, found {}", self.found()))),
        };
        let name_at = self.place();
        self.at += 1;
        if self.take("(") {
            let (arguments, highest) = self.list(")")?;
            let below = highest.max(value.height);
            return self.node(name_at, Kind::Call(Some(value.boxed()), name, arguments), below);
        }
        let below = value.height;
        let name = Expression { at: name_at, kind: Kind::Literal(Value::String(name)) };
        self.node(at, Kind::Part(value.boxed(), Box::new(name)), below)
    }

    /// Expressions between commas, and the greatest height of them.
    fn list(&mut self, end: &str) -> Parsed<(Vec<Expression>, usize)> {
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

    fn primary(&mut self) -> Parsed<Tree> {
        let at = self.place();
        let Some(token) = self.peek().cloned() else {
            return Err(self.fault("expected a value, found the end of the script"));
        };
        self.at += 1;
        match token {
            Token::Value(value) => self.node(at, Kind::Literal(value), 0),
            Token::Word(word) if MISSING.contains(&word.as_str()) => {
                Err(Fault::new(at, format!("[{word}] is not supported in scripts")))
            }
            Token::Word(word) if self.rules.has_functions && self.take("(") => {
                let (arguments, below) = self.list(")")?;
                self.node(at, Kind::Call(None, word, arguments), below)
            }
            Token::Word(word) => self.node(at, Kind::Name(word), 0),
            Token::Operator("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Operator("[") => {
                let (items, below) = self.list("]")?;
                self.node(at, Kind::List(items), below)
            }
            Token::Operator(_) => {
                self.at -= 1;
                Err(self.fault(format!("expected a value, found {}", self.found())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { chain_max: 200, has_functions: true };

    fn shown(expression: &Expression) -> String {
        match &expression.kind {
            Kind::Literal(value) => value.to_string(),
            Kind::Name(name) => name.clone(),
            Kind::Part(holder, part) => format!("{}[{}]", shown(holder), shown(part)),
            Kind::Call(holder, name, arguments) => {
                let holder = holder.as_ref().map(|it| shown(it) + ".").unwrap_or_default();
                let arguments: Vec<String> = arguments.iter().map(shown).collect();
                format!("{holder}{name}({})", arguments.join(" "))
            }
            Kind::Unary(operator, inner) => format!("({operator}{})", shown(inner)),
            Kind::Binary(operator, left, right) => {
                format!("({} {operator} {})", shown(left), shown(right))
            }
            Kind::Choice(test, yes, no) => {
                format!("({} ? {} : {})", shown(test), shown(yes), shown(no))
            }
            Kind::List(items) => format!("{:?}", items.iter().map(shown).collect::<Vec<_>>()),
            Kind::Cast(kind, inner) => format!("({kind} {})", shown(inner)),
        }
    }

    #[test]
    fn operators_bind_as_they_do_in_java() {
        for (text, wanted) in [
            ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
            ("!a && b || c == 1", "(((!a) && b) || (c == 1))"),
            ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
            ("-a.b(1, 2)['x'] % +3", "((-a.b(1 2)[\"x\"]) % 3)"),
            ("(int) (7 / 2.0) + (a)", "((int (7 / 2.0)) + a)"),
            ("abs([1, x].y)", "abs([\"1\", \"x\"][\"y\"])"),
        ] {
            let program = program(text, RULES).unwrap();
            let [Statement::Run(expression)] = program.as_slice() else { panic!("{program:?}") };
            assert_eq!(shown(expression), wanted, "{text}");
        }
    }

    #[test]
    fn faults_say_where_they_are() {
        for (text, at, reason) in [
            ("1 +", 3, "expected a value, found the end of the script"),
            ("a b", 2, "expected [;], found [b]"),
            ("x = for", 4, "[for] is not supported in scripts"),
            ("if (a { }", 6, "expected [)], found [{]"),
        ] {
            assert_eq!(program(text, RULES).unwrap_err(), Fault::new(at, reason), "{text}");
        }
        let alone = Rules { has_functions: false, ..RULES };
        assert!(program("abs(1)", alone).is_err());
        let sum = |terms: usize| program(&format!("1{}", "+1".repeat(terms)), RULES).is_ok();
        assert!(sum(150) && !sum(250));
    }
}
