//! Queries: from JSON ([`parse`]) by way of a tree that knows no index ([`ast`]) to a Tantivy
//! query over one partition ([`compile`]), which may use filters and scores that Tantivy does not
//! have ([`exec`]). Scripts are in [`script`], the languages inside a query's text in [`syntax`].

pub mod ast;
pub(crate) mod compile;
pub(crate) mod exec;
pub mod limits;
pub(crate) mod parse;
pub(crate) mod problem;
pub mod script;
pub(crate) mod syntax;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use ast::Query;
pub use compile::Context;

use crate::error::Error;

/// Reads a query such as `{"match": {"title": "fox"}}`.
///
/// # Errors
/// Elasticsearch's errors of parsing; positions are those in the JSON written compactly.
pub fn parse(node: &Value) -> Result<Query, Error> {
    parse::query(node, 0).map_err(|problem| problem.locate(node, &node.to_string()))
}
