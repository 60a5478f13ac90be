//! All that a process is handed, together.

use std::sync::Arc;

use crate::tasks::{Executor, Tasks};
use crate::time::Wall;
use crate::{Disk, Random, Time};

/// What a process has of time, chance, tasks and disk: one for each of its starts.
#[derive(Clone)]
pub struct World {
    /// The time.
    pub time: Time,
    /// Chance, in streams by purpose.
    pub random: Random,
    /// Threads, or what stands for them.
    pub tasks: Tasks,
    /// Files.
    pub disk: Disk,
}

impl World {
    /// A node's: the machine's own.
    #[must_use]
    pub fn of_the_machine() -> Self {
        Self {
            time: Time::of_the_machine(),
            random: Random::of_the_machine(),
            tasks: Tasks::of_the_machine(),
            disk: Disk::of_the_machine(),
        }
    }

    /// That of process number `process` of a simulation, on a disk of its own, and its wall clock. Which
    /// numbers it draws hangs on that number, and on no other process.
    #[must_use]
    pub fn simulated(
        executor: &Executor,
        random: &Random,
        process: u64,
        disk: Disk,
    ) -> (Self, Arc<Wall>) {
        let (time, wall) = executor.time().of_a_process();
        let random = random.part(&format!("process {process}"));
        (Self { time, random, tasks: executor.process(process), disk }, wall)
    }
}
