//! The controllers of the load line, as pure state machines: events and a time go in, decisions
//! come out. There is no clock, socket, thread, file or global here, so that the same code runs
//! in a node, in a test and in the simulator. Time is a `u64` of nanoseconds from any fixed start
//! (names end in `_ns`); chance comes from [`Random`], seeded by the caller.

pub mod admission;
pub mod average;
pub mod breakers;
pub mod load_line;
pub mod pacing;
mod random;
pub mod selection;
pub mod transfer;

pub use load_line::{Class, Heard, Job, LoadLine, Meter, Outside};
pub use random::Random;
