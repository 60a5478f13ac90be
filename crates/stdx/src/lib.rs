//! What the standard library could have had, and little of it.

mod wildcard;

pub use wildcard::wildcard_matches;
