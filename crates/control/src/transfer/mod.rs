//! Transfers: how many bytes to have under way at once from another node or cluster, in chunks of
//! what size, over how many connections.
//!
//! - [`measured`]: the window that finds the link's rate and trip by itself. One belongs to a node
//!   and a source, whatever number of partitions it copies: windows of their own would each take
//!   the others' queue for the length of the link.
//! - [`published`]: a fixed number of chunks of a fixed size, as the published study has it, for
//!   who sets that.
//! - [`link`]: what the link carries, for who compresses.
//! - [`connections`]: how many connections to spread the window over.
//! - [`lateness`]: how late records come that go first on the same link.
//!
//! Sending, waiting and what the chunks hold are the caller's.

mod chunk;
pub mod connections;
pub mod lateness;
pub mod link;
pub mod measured;
pub mod published;

pub use chunk::Chunk;
pub use connections::Connections;
pub use lateness::Lateness;
pub use link::LinkRate;
pub use measured::TransferWindow;
pub use published::PublishedWindow;

#[cfg(test)]
mod tests;
