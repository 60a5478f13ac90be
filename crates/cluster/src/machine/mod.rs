//! What a node takes from the machine that it runs on beside its world: chance still, room
//! on the disk, how many copies fit, threads that come after all others.

pub(crate) mod capacity;
pub(crate) mod chance;
pub(crate) mod low_priority;
pub(crate) mod room;
