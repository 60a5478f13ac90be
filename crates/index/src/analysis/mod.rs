//! Text into terms: analyzers (char filters, one tokenizer, token filters) and normalizers, the
//! built-in ones and those that an index's settings define.
//!
//! Which field uses which analyzer is the mapping's; what is done with the terms is the index's.

mod analyzer;
mod builtin;
mod filter;
mod languages;
mod parts;
mod registry;
mod tokenizer;
mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use analyzer::IndexTokenizer;
pub use analyzer::{Analyzer, Token};
pub use registry::Analysis;
