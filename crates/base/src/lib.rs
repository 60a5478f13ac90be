//! What code that can run under one seed is handed instead of taking it: time, chance and a disk. In a
//! node they are the machine's; in a simulation they follow from a seed, and time passes only when told.
//!
//! Which tasks there are, and who polls them, is not decided here.

pub mod disk;
pub mod random;
pub mod time;

pub use disk::Disk;
pub use random::Random;
pub use time::Time;
