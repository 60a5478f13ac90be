//! This node's clock beside the others': [`skew`] judges, [`guard`] keeps a wrong clock out of the
//! log, [`compare`] asks the other nodes.

mod compare;
mod guard;
mod lone;
mod skew;

pub(crate) use guard::{GuardedLog, OwnClock};
