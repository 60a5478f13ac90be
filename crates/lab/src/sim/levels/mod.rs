//! A store of levels in the simulator: nodes with memtables, files of level 0, levels, compaction threads,
//! disks and processors; partitions with copies; closed loops of clients, or requests by the clock. Data is
//! bytes, not rows: what is asked for is drawn, what is stored is counted. What slows compactions and
//! writes is the control crate's own code (`plimsoll_control::pacing`), or a model of RocksDB's limiter.
//!
//! | file | owns |
//! |---|---|
//! | `spec` | what a run is asked for |
//! | `store` | one copy of a partition: what is where, what is to be rewritten next |
//! | `disk` | one disk: so many bytes a second, in their order |
//! | `limiter` | RocksDB's rate limiter, fixed and tuned by itself |
//! | `brake` | what holds background work and writes back, by arm |
//! | `node` | one node: stations, stores and what is measured of them |
//! | `background` | flushes and compactions under way |
//! | `requests` | clients, reads and writes on their way |
//! | `run` | the clock, and who gets which event |
//!
//! Not modelled: the contents of keys, bloom filters and caches (a read costs what was fitted), reads' own
//! bytes from the disk, several compactions of one copy at once, the loss of anything.

mod background;
mod brake;
mod costs;
mod disk;
mod limiter;
mod node;
mod requests;
mod run;
mod spec;
mod state;
mod store;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use costs::Costs;
pub(crate) use run::run;
pub(crate) use spec::{Arm, Asked, LevelsSpec, Machine, Outcome, Shape};
