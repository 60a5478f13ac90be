//! The tree of a script.

use serde_json::Value;

/// One thing that a script does.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `a.b = …`, `a.b += …`: the operator is the one before `=`.
    Assign(Expression, Option<&'static str>, Expression),
    /// `def a = …`: the type, the name and the value.
    Define(String, String, Expression),
    /// `if (…) { … } else { … }`
    If(Expression, Vec<Statement>, Vec<Statement>),
    /// An expression for what it does; the last of a script may be its value.
    Run(Expression),
    /// The end, here, with a value where one stands there.
    Return(Option<Expression>),
}

/// Something with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Where it stands in the text: its operator, its point or its first byte.
    pub at: usize,
    /// What it is.
    pub kind: Kind,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number, a string, true, false or null; a number without fraction and exponent is whole.
    Literal(Value),
    /// A variable, `ctx`, `doc`, `params`.
    Name(String),
    /// `a.b` or `a['b']` or `a[0]`
    Part(Box<Expression>, Box<Expression>),
    /// `a.b(…)`; `b(…)` has no holder.
    Call(Option<Box<Expression>>, String, Vec<Expression>),
    /// `!a`, `-a`
    Unary(&'static str, Box<Expression>),
    /// `a + b`
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `a ? b : c`
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `[a, b]`
    List(Vec<Expression>),
    /// `(double) a`
    Cast(String, Box<Expression>),
}
