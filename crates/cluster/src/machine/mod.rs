//! What a node takes from the machine that it runs on beside its world: chance and the time still, room
//! on the disk, how many copies fit, threads that come after all others.

pub(crate) mod capacity;
pub(crate) mod chance;
pub(crate) mod low_priority;
pub(crate) mod room;
pub(crate) mod wall_clock;
