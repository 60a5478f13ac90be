//! What code that can run under one seed is handed instead of taking it: time, chance, tasks and a disk. In a
//! node they are the machine's; in a simulation they follow from a seed, and time passes where nothing is ready.

#![expect(clippy::disallowed_methods, reason = "what hands out time, tasks and chance takes them")]

pub mod disk;
mod instant;
pub mod random;
mod steady;
pub mod tasks;
pub mod time;
mod waits;
pub mod world;

pub use disk::Disk;
pub use random::Random;
pub use tasks::Tasks;
pub use time::Time;
pub use world::World;
