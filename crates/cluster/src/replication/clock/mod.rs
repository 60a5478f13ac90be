//! This node's clock beside the others': [`skew`] judges, [`guard`] keeps a wrong clock out of the
//! log, [`compare`] asks the other nodes,
//! [`steady`] is the clock that does not step.

mod compare;
mod guard;
mod lone;
mod skew;
mod steady;

pub(crate) use guard::{GuardedLog, OwnClock};
