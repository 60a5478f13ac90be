//! What nodes say to each other: typed questions and answers, their bytes, and the way they take.
//!
//! How bytes get from one process to another is not known here: the server gives a `Peers` and
//! hands what arrives to `Coordinator::answer`. What clients ask, and why a write has no replies, are said here
//! in types, because both travel.

mod error_kind;
mod files;
mod link;
mod messages;
mod peers;
pub(crate) mod request;
mod rest_error;
pub(crate) mod write_error;

pub(crate) use files::*;
pub(crate) use link::Link;
pub(crate) use messages::*;
pub use peers::{Call, CallError, MESSAGE_BYTES_MAX, NoPeers, Peers};
pub(crate) use rest_error::rest_error;

/// The kind of the error that a breaker's refusal is, in REST's words.
pub(crate) const CIRCUIT_BREAKING: &str = "circuit_breaking_exception";
