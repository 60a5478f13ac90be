//! The replicated log: what Plimsoll asks of an engine ([`Log`]), the bytes of a
//! record ([`record`]), the rules that make an ordered, durable append enough
//! ([`rules`], pure), and the engines themselves.
//!
//! It knows nothing of rows, tables or commands: the payload of an operation is opaque here.

#![expect(
    clippy::disallowed_methods,
    reason = "an engine that ships is of the machine; a simulation has its own behind `Log`"
)]

mod buffer;
pub mod embedded;
mod engine;
mod ids;
#[cfg(feature = "jetstream")]
pub mod jetstream;
pub mod record;
pub mod rules;
pub mod shared;
mod stats;

pub use engine::{AppendDone, AppendError, Bounds, Entry, Log, LogError, Reader};
pub use ids::{GroupId, Incarnation, LeadId, Lsn, PartitionId, SessionId};
pub use stats::Stats;

/// The largest record, in bytes: one larger mutation is refused before it is appended.
pub const RECORD_BYTES_MAX: usize = 8 * 1024 * 1024;
