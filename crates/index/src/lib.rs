//! Documents of one partition: what their fields mean ([`mapping`], [`analysis`], [`document`]),
//! the inverted index over them ([`partition`]), and how it is asked ([`query`], [`search`],
//! [`aggregation`]).
//!
//! It knows no network, no other node and no rows: the source of a document is given to it.

pub mod aggregation;
pub mod analysis;
pub mod document;
pub mod error;
pub mod geo;
pub mod json;
pub mod mapping;
pub mod partition;
pub mod query;
pub mod script;
pub mod search;

pub use error::{Error, ErrorClass};
