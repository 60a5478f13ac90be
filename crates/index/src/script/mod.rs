//! The text of scripts: the part of Painless that has no loops, functions or classes, and the expression
//! language, which is less. [`tokens`] cuts a text, [`parse`] makes a tree of it.
//!
//! What a tree means is its users': numbers of many documents at once and of a bucket (`query/script`), and
//! what becomes of one document, in the front end that takes updates.

mod fault;
mod parse;
mod syntax;
mod tokens;

pub use fault::Fault;
pub use parse::{Rules, program};
pub use syntax::{Expression, Kind, Statement};

use crate::error::Error;

/// The longest script, bytes; Elasticsearch's own limit.
const LENGTH_MAX: usize = 65_535;

/// Whether a script's text is short enough to be read.
///
/// # Errors
/// 400 where it is longer than 65,535 bytes.
pub fn check_length(source: &str) -> Result<(), Error> {
    if source.len() <= LENGTH_MAX {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "exceeded max allowed inline script size in bytes [{LENGTH_MAX}] with size [{}] for script",
        source.len()
    )))
}
