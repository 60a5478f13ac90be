//! The text of scripts: the part of Painless that has no loops, functions or classes, and the expression
//! language, which is less. [`tokens`] cuts a text, [`parse`] makes a tree of it.
//!
//! What a tree means is its users': numbers of many documents at once and of a bucket (`query/script`), and
//! what becomes of one document, in the front end that takes updates.

mod parse;
mod syntax;
mod tokens;

pub use parse::{Rules, program};
pub use syntax::{Expression, Kind, Statement};

/// What is wrong with a script, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong, or what is not supported.
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}
