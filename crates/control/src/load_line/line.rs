//! What a node says about its load, how two such lines are joined, and how one that was heard grows old.

use super::class::Class;

/// What a node says about its load. In every field a larger number is worse, except `boot` (a
/// name), `workers` and `cpus` (sizes) and `runs` (a weight).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLine {
    /// A number drawn when the process started; a change means that caches and averages are gone.
    pub boot: u64,
    /// Requests that can run at once, at least 1.
    pub workers: u32,
    /// Processors that the process may use, at least 1; 0 where unknown.
    pub cpus: u32,
    /// Requests accepted from anyone and not finished: waiting and running.
    pub in_flight: u32,
    /// The part of `in_flight` that waits.
    pub queued: u32,
    /// Predicted run time of all that waits, before it is divided among the workers.
    pub work_ns: u64,
    /// Average time that those that started lately had waited.
    pub queue_wait_ns: u64,
    /// Age of the oldest request that waits; 0 where none does.
    pub oldest_wait_ns: u64,
    /// Average run time by [`Class::slot`]; 0 where the class has not run.
    pub run_ns: [u64; Class::COUNT],
    /// How many requests the average run times rest on: those that ran lately, faded by e every
    /// 5 s. With few of them a run time says little about the node.
    pub runs: u32,
    /// Median of wait plus run among recent requests that arrived when about as many were in
    /// flight as now (Prequal's latency signal); 0 where unknown.
    pub latency_ns: u64,
    /// Runnable work per CPU in thousandths: 1000 is all CPUs wanted once.
    pub cpu_demand_permille: u32,
    /// Memory reserved of the breaker's limit, in thousandths.
    pub memory_debt_permille: u32,
    /// How far the write path is towards a stall, in thousandths.
    pub write_debt_permille: u32,
}

impl LoadLine {
    /// The line of a node that has done nothing yet.
    #[must_use]
    pub const fn idle(boot: u64, workers: u32) -> Self {
        Self {
            boot,
            workers: if workers == 0 { 1 } else { workers },
            cpus: 0,
            in_flight: 0,
            queued: 0,
            work_ns: 0,
            queue_wait_ns: 0,
            oldest_wait_ns: 0,
            run_ns: [0; Class::COUNT],
            runs: 0,
            latency_ns: 0,
            cpu_demand_permille: 0,
            memory_debt_permille: 0,
            write_debt_permille: 0,
        }
    }

    /// Joins two lines of one node, such as those of two pools: the worse of each field, so that
    /// no part hides behind another. Order and repetition do not matter.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        let mut run_ns = self.run_ns;
        run_ns.iter_mut().zip(other.run_ns).for_each(|(mine, theirs)| *mine = theirs.max(*mine));
        Self {
            boot: self.boot.max(other.boot),
            workers: self.workers.min(other.workers).max(1),
            cpus: if self.cpus == 0 || other.cpus == 0 { 0 } else { self.cpus.min(other.cpus) },
            in_flight: self.in_flight.max(other.in_flight),
            queued: self.queued.max(other.queued),
            work_ns: self.work_ns.max(other.work_ns),
            queue_wait_ns: self.queue_wait_ns.max(other.queue_wait_ns),
            oldest_wait_ns: self.oldest_wait_ns.max(other.oldest_wait_ns),
            run_ns,
            runs: self.runs.max(other.runs),
            latency_ns: self.latency_ns.max(other.latency_ns),
            cpu_demand_permille: self.cpu_demand_permille.max(other.cpu_demand_permille),
            memory_debt_permille: self.memory_debt_permille.max(other.memory_debt_permille),
            write_debt_permille: self.write_debt_permille.max(other.write_debt_permille),
        }
    }
}

/// A line with the time at which it was heard, by the receiver's clock. The sender's clock plays
/// no part, so that one that jumps does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What was said.
    pub line: LoadLine,
    /// When it arrived here.
    pub at_ns: u64,
}

impl Heard {
    /// How old it is.
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.at_ns)
    }

    /// Of two lines of one node the one that was heard later. Two that arrived at the same
    /// instant are joined, because nothing tells which was said first.
    #[must_use]
    pub fn newer(self, other: Self) -> Self {
        match self.at_ns.cmp(&other.at_ns) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Equal => {
                Self { line: self.line.join(&other.line), at_ns: self.at_ns }
            }
        }
    }
}
