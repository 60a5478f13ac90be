//! What is wrong with a script, and where. What it is answered with is its users'.

/// What is wrong with a script, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong, or what is not supported.
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(at: usize, reason: impl ToString) -> Self {
        Self { at, reason: reason.to_string() }
    }
}
