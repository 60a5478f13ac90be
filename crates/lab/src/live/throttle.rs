//! Processor shares without control groups: processes are stopped and continued by turns. A
//! process that is continued may use every processor, so that its turn is its share divided by
//! their number; that bounds it for certain, at the price of pauses of tens of milliseconds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::guardian::{Guardian, Signal};

/// One round of stopping and continuing.
const ROUND: Duration = Duration::from_millis(20);
/// The shortest turn.
const TURN_MIN: Duration = Duration::from_micros(500);

/// What is throttled: processes and the part of each round in which they run, from 0 to 1.
type Turns = Arc<Mutex<BTreeMap<u32, f64>>>;

/// Stops and continues processes until it is dropped.
pub(crate) struct Throttle {
    turns: Turns,
    guardian: Arc<Guardian>,
    processors: usize,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn lock(turns: &Turns) -> MutexGuard<'_, BTreeMap<u32, f64>> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Throttle {
    /// Starts with nothing to throttle.
    pub(crate) fn start(guardian: Arc<Guardian>, processors: usize) -> Self {
        let (turns, is_over) = (Turns::default(), Arc::new(AtomicBool::new(false)));
        let of_thread = (Arc::clone(&turns), Arc::clone(&guardian), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let (turns, guardian, is_over) = of_thread;
            while !is_over.load(Ordering::Relaxed) {
                round(&turns, &guardian);
            }
        });
        Self { turns, guardian, processors: processors.max(1), is_over, thread: Some(thread) }
    }

    /// What limits processes, in words.
    pub(crate) fn about(&self) -> String {
        format!(
            "stopping and continuing (SIGSTOP, SIGCONT) in rounds of {} ms, because control groups \
             cannot be written here; pauses are that long",
            ROUND.as_millis()
        )
    }

    /// Lets a process use so many processors at most.
    pub(crate) fn limit(&self, process: u32, processors: f64) {
        lock(&self.turns).insert(process, part(processors, self.processors));
    }

    /// Leaves a process alone from now on, and running.
    pub(crate) fn release(&self, process: u32) {
        if lock(&self.turns).remove(&process).is_some() {
            let _ = self.guardian.signal(i64::from(process), Signal::Continue);
        }
    }

    /// Leaves a process alone from now on, as it is; for one that has ended.
    pub(crate) fn forget(&self, process: u32) {
        lock(&self.turns).remove(&process);
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for process in lock(&self.turns).keys() {
            let _ = self.guardian.signal(i64::from(*process), Signal::Continue);
        }
    }
}

/// The part of a round in which a process runs.
fn part(share: f64, processors: usize) -> f64 {
    (share / processors.max(1) as f64).clamp(0.0, 1.0)
}

/// All run at its beginning, and each is stopped when its turn is over.
fn round(turns: &Turns, guardian: &Guardian) {
    let began = Instant::now();
    let mut order: Vec<(Duration, u32)> = lock(turns)
        .iter()
        .map(|(process, part)| (ROUND.mul_f64(*part).max(TURN_MIN), *process))
        .collect();
    order.sort_unstable();
    let send = |process: u32, signal| {
        // Only what is still to be throttled: it may have been released since.
        if lock(turns).contains_key(&process) {
            let _ = guardian.signal(i64::from(process), signal);
        }
    };
    for (_, process) in &order {
        send(*process, Signal::Continue);
    }
    for (turn, process) in &order {
        if *turn < ROUND {
            std::thread::sleep(turn.saturating_sub(began.elapsed()));
            send(*process, Signal::Stop);
        }
    }
    std::thread::sleep(ROUND.saturating_sub(began.elapsed()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::processes;
    use std::process::Command;

    #[test]
    fn a_turn_bounds_what_all_threads_can_use() {
        assert!((part(0.24, 2) - 0.12).abs() < 1e-9);
        assert!((part(5.0, 2) - 1.0).abs() < 1e-9 && part(0.0, 2).abs() < 1e-9);
    }

    #[test]
    fn a_process_that_spins_gets_less_than_it_wants() {
        let guardian = Arc::new(Guardian::start().unwrap());
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        guardian.guard(i64::from(child.id())).unwrap();
        let throttle = Throttle::start(Arc::clone(&guardian), 2);
        throttle.limit(child.id(), 0.2);
        let began = Instant::now();
        std::thread::sleep(Duration::from_millis(700));
        let used_s = processes::cpu_s(child.id()).unwrap();
        // A tenth of the time; anything below half shows that it is held.
        assert!(used_s < began.elapsed().as_secs_f64() * 0.5, "{used_s}");
        throttle.release(child.id());
        drop(throttle);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
