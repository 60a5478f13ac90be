//! The log of a simulated cluster: what its servers hold, and when a record stands, is seen and is answered for.
//! It does what [`plimsoll_log::Log`] promises and no more; how it misbehaves is drawn by the seed.
//!
//! | file | owns |
//! |---|---|
//! | `servers` | the records of each group, as the servers have them |
//! | `seen` | what each process has seen, and who is told what stands |
//! | `handle` | the log as one process has it: what it appends, what it sees and when |

mod handle;
mod seen;
mod servers;

pub use handle::Handle;
pub use servers::{Delays, Servers, Troubles};
