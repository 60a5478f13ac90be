//! The Redis protocol: requests out of bytes, replies into bytes. It knows no command, no
//! socket and no connection state.
//!
//! The crate `redis-protocol` writes every scalar of a reply ([`encode`]), and its decoder is
//! what the tests read our replies with. Three parts are ours:
//!
//! * **Requests** ([`decode`], [`inline`]). That crate's decoder parses any frame, not only the
//!   arrays of bulk strings that a request may be, and it recurses into nested arrays without a
//!   bound, so that a few hundred kilobytes of `*1\r\n` overflow the stack. It starts again at
//!   the first byte of a frame whenever a frame is incomplete, has no limits on what a header
//!   may announce, no inline form and none of Redis' error words. Ours is a state machine over
//!   the same buffer that reads each byte once.
//! * **Headers of lists, maps and sets.** The crate wants a second tree in its own types, with
//!   hashed maps, before it writes one; we write the header and go through the items.
//! * **`*-1`**, RESP2's missing array, which the crate cannot say.

pub mod decode;
pub mod encode;
pub mod inline;
pub mod limits;

pub use decode::Decoder;
pub use encode::Protocol;
pub use limits::{Limits, ProtocolError};

#[cfg(test)]
mod tests;
