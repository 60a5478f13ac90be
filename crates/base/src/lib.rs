//! What code that can run under one seed is handed instead of taking it: time and chance. In a node
//! they are the machine's; in a simulation they are drawn from a seed and pass only when told.
//!
//! Which tasks there are, and who polls them, is not decided here.

pub mod random;
pub mod time;

pub use random::Random;
pub use time::Time;
