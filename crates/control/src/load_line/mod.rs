//! The load line: the one small vector that a node measures about itself and that every
//! controller reads. It rides on every internal reply and on probes. [`LoadLine`] is the vector,
//! [`Heard`] one that grows old; [`Meter`] measures it at the node.
//! Nothing here holds an opinion on what to do about it.

mod class;
mod line;
mod meter;

pub use class::Class;
pub use line::{Heard, LoadLine};
pub use meter::{Job, Meter, Outside};

#[cfg(test)]
mod tests;
