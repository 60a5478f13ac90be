//! The processors of a node: whoever runs shares them evenly, with each other and with processes
//! that are none of ours (egalitarian processor sharing, as a fair scheduler does it).
//!
//! ```text
//! speed of one job = speed * min(1, cpus / (jobs + competitors))
//! ```
//!
//! All jobs advance at the same speed, so that one virtual clock serves them all: a job that has
//! `w` to do when the clock shows `v` ends when it shows `v + w`. An event costs O(log n).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use plimsoll_control::average::whole;

#[derive(Clone, Copy, Debug)]
struct Running {
    ends: f64,
    number: u64,
    token: usize,
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Self) -> Ordering {
        other.ends.total_cmp(&self.ends).then(other.number.cmp(&self.number))
    }
}

/// Processors shared by the jobs that run. A token is the caller's name for a job.
#[derive(Debug)]
pub(crate) struct Cpu {
    cpus: f64,
    competitors: f64,
    speed: f64,
    clock: f64,
    at_ns: u64,
    running: BinaryHeap<Running>,
    started: u64,
    used_ns: f64,
}

impl Cpu {
    pub(crate) fn new(cpus: f64) -> Self {
        Self {
            cpus,
            competitors: 0.0,
            speed: 1.0,
            clock: 0.0,
            at_ns: 0,
            running: BinaryHeap::new(),
            started: 0,
            used_ns: 0.0,
        }
    }

    /// From `now_ns` on, `competitors` threads of others want a processor, and each runs at
    /// `speed` of the usual (0 is a stop).
    pub(crate) fn set(&mut self, now_ns: u64, competitors: f64, speed: f64) {
        self.advance(now_ns);
        self.competitors = competitors;
        self.speed = speed;
    }

    /// Processor time that our jobs have had, in seconds.
    pub(crate) fn used_s(&self) -> f64 {
        self.used_ns / 1e9
    }

    /// What a thread that always wants a processor has had of one until now, ns: the virtual clock.
    pub(crate) fn served_ns(&mut self, now_ns: u64) -> f64 {
        self.advance(now_ns);
        self.clock
    }

    /// Runnable threads over processors, in thousandths.
    pub(crate) fn demand_permille(&self) -> u32 {
        let wanted = (self.running.len() as f64 + self.competitors) / self.cpus * 1e3;
        u32::try_from(whole(wanted)).unwrap_or(u32::MAX)
    }

    pub(crate) fn start(&mut self, now_ns: u64, token: usize, work_ns: f64) {
        self.advance(now_ns);
        let ends = self.clock + work_ns.max(1.0);
        self.running.push(Running { ends, number: self.started, token });
        self.started += 1;
    }

    /// When the next job ends if nothing else happens; none where nothing moves.
    pub(crate) fn next_end_ns(&self) -> Option<u64> {
        let first = self.running.peek()?;
        let rate = self.rate();
        let left_ns = (first.ends - self.clock).max(0.0) / rate;
        (rate > 0.0).then(|| self.at_ns.saturating_add(whole(left_ns.ceil())))
    }

    /// The job that ends at `now_ns`, which is what `next_end_ns` said.
    pub(crate) fn end(&mut self, now_ns: u64) -> Option<usize> {
        self.advance(now_ns);
        let job = self.running.pop()?;
        self.clock = self.clock.max(job.ends);
        Some(job.token)
    }

    /// Takes a job off the processors before its end.
    pub(crate) fn stop(&mut self, now_ns: u64, token: usize) {
        self.advance(now_ns);
        self.running.retain(|job| job.token != token);
    }

    fn rate(&self) -> f64 {
        let wanting = self.running.len() as f64 + self.competitors;
        self.speed * (self.cpus / wanting.max(1.0)).min(1.0)
    }

    fn advance(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns) as f64;
        if passed_ns > 0.0 {
            let step = passed_ns * self.rate();
            self.clock += step;
            self.used_ns += step * self.running.len() as f64;
            self.at_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_what_there_is() {
        let mut cpu = Cpu::new(2.0);
        (0..4).for_each(|token| cpu.start(0, token, 100.0));
        assert_eq!(cpu.next_end_ns(), Some(200));
        assert_eq!(cpu.end(200), Some(0));
        // The others had all they needed as well.
        assert_eq!(cpu.next_end_ns(), Some(200));
    }

    #[test]
    fn competitors_take_their_share_and_a_stop_holds_everything() {
        let mut cpu = Cpu::new(16.0);
        cpu.set(0, 32.0, 1.0);
        (0..25).for_each(|token| cpu.start(0, token, 1e6));
        // 16 of 57 shares: 25 threads get what 7.02 processors give.
        let end = cpu.next_end_ns().expect("something runs");
        assert!((end as f64 - 57.0 / 16.0 * 1e6).abs() < 2.0, "{end}");
        cpu.set(1_000, 32.0, 0.0);
        assert_eq!(cpu.next_end_ns(), None);
        assert!((cpu.used_s() - 25.0 * 16.0 / 57.0 * 1e-6).abs() < 1e-9);
        // A competitor has had as much of a processor as each of the jobs.
        assert!((cpu.served_ns(1_000) - 16.0 / 57.0 * 1e3).abs() < 1e-6);
    }

    #[test]
    fn a_job_alone_is_no_faster_than_one_processor() {
        let mut cpu = Cpu::new(16.0);
        cpu.start(5, 9, 1_000.0);
        assert_eq!(cpu.next_end_ns(), Some(1_005));
        assert_eq!(cpu.end(1_005), Some(9));
    }
}
