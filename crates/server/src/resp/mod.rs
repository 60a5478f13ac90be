//! The Redis protocol: requests out of bytes, replies into bytes. It knows no command, no
//! socket and no connection state.
//!
//! Both ways are ours; the decoder of the crate `redis-protocol` is what the tests read our
//! replies with.
//!
//! * **Requests** ([`decode`], [`inline`]). That crate's decoder parses any frame, not only the
//!   arrays of bulk strings that a request may be, and it recurses into nested arrays without a
//!   bound, so that a few hundred kilobytes of `*1\r\n` overflow the stack. It starts again at
//!   the first byte of a frame whenever a frame is incomplete, has no limits on what a header
//!   may announce, no inline form and none of Redis' error words. Ours is a state machine over
//!   the same buffer that reads each byte once.
//! * **Replies** ([`encode`]). That crate counts digits by logarithms in floating point, and puts a
//!   NUL behind some numbers near a power of ten, so that all that follows is misread. It wants a
//!   second tree in its own types before it writes a list, and cannot write one in pieces.

mod codes;
pub mod decode;
pub mod encode;
pub mod inline;
pub mod limits;

pub use codes::{error_code, error_text};
pub use decode::Decoder;
pub use encode::{Pieces, Protocol};
pub use limits::{Limits, ProtocolError};

#[cfg(test)]
mod tests;
