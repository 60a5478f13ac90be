//! What the standard library could have had, and little of it.

pub mod civil;
pub mod units;
mod wildcard;

pub use wildcard::wildcard_matches;
