//! A partition's rows: what commands mean ([`command`], [`execute`]), how rows lie in the
//! store ([`rows`]), and a replica that applies a log to them ([`partition`]).
//!
//! It knows no network and no other node.

pub mod argv;
pub mod command;
pub mod execute;
pub mod operation;
pub mod partition;
pub mod reply;
pub mod rows;

pub use argv::Argv;
pub use reply::{ErrorKind, ErrorReply, Reply};
