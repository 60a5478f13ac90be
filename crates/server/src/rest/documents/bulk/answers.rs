//! What a bulk request was answered so far, in the order of its items.

use crate::rest::documents::refresh::Touched;

/// What was answered so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// The items of the answer, with commas between them.
    pub items: Vec<u8>,
    /// How many.
    pub count: usize,
    /// Whether one of them failed.
    pub has_errors: bool,
    /// Where they wrote.
    pub touched: Touched,
}
