//! One thread that polls all tasks of a simulation on virtual time. The tasks that are ready are a set, not a
//! queue: the seed draws the next, so that in which order they were woken cannot leak, and each seed is
//! another schedule.
//!
//! Time passes only where nothing is ready. Tasks belong to processes, which can be killed and frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::instant::Instant;
use crate::random::{Random, Stream};
use crate::time::{Passing, Time};

/// So many polls while no time passes are a task that never waits.
const POLLS_MAX: u64 = 10_000;

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls the tasks of a simulation.
pub struct Executor {
    state: Arc<Mutex<TaskTable>>,
    time: Time,
    passing: Passing,
    chance: Stream,
    trace: u64,
}

/// Begins tasks of one process.
#[derive(Clone)]
pub(super) struct Spawner {
    state: Weak<Mutex<TaskTable>>,
    process: u64,
}

/// A simulation that does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} was polled last of {POLLS_MAX} times at {at:?}, and no time passed")]
pub struct Stuck {
    /// The task.
    pub task: String,
    /// When that was.
    pub at: Instant,
}

#[derive(Default)]
struct TaskTable {
    tasks: BTreeMap<u64, Task>,
    /// In the order of their numbers; all of them are in `tasks`.
    ready: Vec<u64>,
    frozen: BTreeSet<u64>,
    /// Processes that are gone: what is begun for them is dropped at once.
    killed: BTreeSet<u64>,
    next: u64,
}

struct Task {
    name: Arc<str>,
    process: u64,
    /// The same at every poll, so that who is to wake it sees that it knows.
    waker: Waker,
    /// Not there while it is polled.
    future: Option<TaskFuture>,
}

impl TaskTable {
    fn make_ready(&mut self, task: u64) {
        if self.tasks.contains_key(&task)
            && let Err(place) = self.ready.binary_search(&task)
        {
            self.ready.insert(place, task);
        }
    }

    fn is_ready_no_more(&mut self, task: u64) {
        if let Ok(place) = self.ready.binary_search(&task) {
            self.ready.remove(place);
        }
    }
}

struct TaskWaker {
    task: u64,
    state: Weak<Mutex<TaskTable>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.state.upgrade() {
            state.lock().make_ready(self.task);
        }
    }
}

impl Spawner {
    pub(super) fn spawn(&self, name: &str, future: TaskFuture) {
        let Some(state) = self.state.upgrade() else { return };
        let mut state = state.lock();
        if state.killed.contains(&self.process) {
            // Its end may begin others: not under the lock.
            drop(state);
            return drop(future);
        }
        let number = state.next;
        state.next += 1;
        let waker = TaskWaker { task: number, state: Weak::clone(&self.state) };
        let (name, waker) = (Arc::from(name), Waker::from(Arc::new(waker)));
        let future = Some(future);
        state.tasks.insert(number, Task { name, process: self.process, waker, future });
        state.make_ready(number);
    }
}

impl Executor {
    /// No tasks yet; the wall clock says `wall_ms` at first.
    #[must_use]
    pub fn new(random: &Random, wall_ms: u64) -> Self {
        let (time, passing) = Time::simulated(wall_ms);
        Self { state: Arc::default(), time, passing, chance: random.of("schedule"), trace: 0 }
    }

    /// The time that all tasks have.
    #[must_use]
    pub fn time(&self) -> &Time {
        &self.time
    }

    pub(super) fn spawner(&self, process: u64) -> Spawner {
        Spawner { state: Arc::downgrade(&self.state), process }
    }

    /// Ends a process: its tasks are dropped where they stand. Its disk and network have to be gone before, as
    /// what is dropped may still want to write.
    pub fn kill(&mut self, process: u64) {
        let ended: BTreeMap<u64, Task> = {
            let mut held = self.state.lock();
            let state = &mut *held;
            state.killed.insert(process);
            let ended = state.tasks.extract_if(.., |_, task| task.process == process).collect();
            state.ready.retain(|number| state.tasks.contains_key(number));
            ended
        };
        // Without the lock: what is dropped may wake others.
        drop(ended);
    }

    /// Polls nothing of a process until [`Self::thaw`]: time goes on, and who is woken is ready then.
    pub fn freeze(&mut self, process: u64) {
        self.state.lock().frozen.insert(process);
    }

    /// Goes on with a process.
    pub fn thaw(&mut self, process: u64) {
        self.state.lock().frozen.remove(&process);
    }

    /// Goes on for so long.
    ///
    /// # Errors
    /// [`Stuck`]: a task never waits.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), Stuck> {
        let end = self.time.now() + duration;
        let mut polls = 0;
        loop {
            if let Some(number) = self.draw() {
                polls += 1;
                let name = self.poll(number);
                if polls > POLLS_MAX {
                    return Err(Stuck { task: name.to_string(), at: self.time.now() });
                }
                continue;
            }
            polls = 0;
            match self.passing.next_due() {
                Some(due) if due <= end => self.passing.pass_until(due),
                _ => {
                    self.passing.pass_until(end);
                    return Ok(());
                }
            }
        }
    }

    /// A hash of which task was polled when, and what came of it: of two runs that are the same it is the same.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Tasks that are not over.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.state.lock().tasks.len()
    }

    /// One of the tasks that are ready.
    fn draw(&mut self) -> Option<u64> {
        let state = self.state.lock();
        let may_run = |number: &&u64| {
            let task = state.tasks.get(*number);
            task.is_some_and(|task| !state.frozen.contains(&task.process))
        };
        let thawed: Vec<u64>;
        let ready = if state.frozen.is_empty() {
            &state.ready
        } else {
            thawed = state.ready.iter().filter(may_run).copied().collect();
            &thawed
        };
        if ready.is_empty() {
            return None;
        }
        let drawn = self.chance.below(ready.len() as u64);
        usize::try_from(drawn).ok().and_then(|drawn| ready.get(drawn)).copied()
    }

    fn poll(&mut self, number: u64) -> Arc<str> {
        let taken = {
            let mut state = self.state.lock();
            state.is_ready_no_more(number);
            let task = state.tasks.get_mut(&number);
            task.and_then(|task| {
                Some((Arc::clone(&task.name), task.waker.clone(), task.future.take()?))
            })
        };
        let Some((name, waker, mut future)) = taken else { return Arc::default() };
        // Without the lock: it wakes others, begins tasks and ends processes.
        let is_over = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut seen = self.time.now().0.to_le_bytes().to_vec();
        seen.extend_from_slice(&number.to_le_bytes());
        seen.push(u8::from(is_over));
        self.trace = xxh3_64_with_seed(&seen, self.trace);
        let mut state = self.state.lock();
        let mut left = Some(future);
        if is_over {
            state.tasks.remove(&number);
            state.is_ready_no_more(number);
        } else if let Some(task) = state.tasks.get_mut(&number) {
            task.future = left.take();
        }
        drop(state);
        // It is over, or was killed meanwhile.
        drop(left);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Seen = Arc<Mutex<Vec<(u64, &'static str)>>>;

    /// Writes its name down each second.
    fn tell(executor: &Executor, process: u64, name: &'static str, seen: &Seen) {
        let (time, seen) = (executor.time().clone(), Arc::clone(seen));
        let role = executor.process(process).role(name, |mut stopping| async move {
            while time.timeout(SECOND, stopping.told()).await.is_err() {
                seen.lock().push((time.now().0 / 1_000_000_000, name));
            }
        });
        // Who lets go of it lets it go on.
        drop(role.unwrap());
    }

    fn run(seed: u64) -> (u64, Vec<(u64, &'static str)>) {
        let mut executor = Executor::new(&Random::seeded(seed), 0);
        let seen = Seen::default();
        for (process, name) in [(1, "a"), (1, "b"), (2, "c")] {
            tell(&executor, process, name, &seen);
        }
        executor.run_for(5 * SECOND).unwrap();
        let told = seen.lock().clone();
        (executor.trace(), told)
    }

    #[test]
    fn a_seed_is_one_schedule_and_another_seed_is_another() {
        assert_eq!(run(1), run(1));
        let schedules: BTreeSet<_> = (0..20).map(|seed| run(seed).1).collect();
        assert!(schedules.len() > 10, "{} of 20", schedules.len());
        for told in schedules {
            assert_eq!(told.len(), 15);
            assert!(told.is_sorted_by_key(|(second, _)| *second));
        }
    }

    #[test]
    fn who_is_frozen_goes_on_later_and_who_is_killed_never() {
        let mut executor = Executor::new(&Random::seeded(1), 0);
        let seen = Seen::default();
        for (process, name) in [(1, "frozen"), (2, "killed"), (3, "well")] {
            tell(&executor, process, name, &seen);
        }
        executor.run_for(SECOND + SECOND / 2).unwrap();
        executor.freeze(1);
        executor.kill(2);
        assert_eq!(executor.tasks(), 2);
        executor.run_for(10 * SECOND).unwrap();
        executor.thaw(1);
        executor.run_for(2 * SECOND).unwrap();
        let count = |name| seen.lock().iter().filter(|(_, it)| *it == name).count();
        assert_eq!((count("frozen"), count("killed"), count("well")), (4, 1, 13));
        let late = executor.process(2).role("late", |_| async { panic!("its process is gone") });
        drop(late.unwrap());
        executor.run_for(SECOND).unwrap();
        assert_eq!(executor.tasks(), 2);
    }

    #[test]
    fn a_role_that_is_stopped_is_waited_for() {
        let mut executor = Executor::new(&Random::seeded(1), 0);
        let (time, ended) = (executor.time().clone(), Arc::new(Mutex::new(None)));
        let slow = time.clone();
        let role = executor.process(1).role("slow to end", |mut stopping| async move {
            stopping.told().await;
            assert!(stopping.is_told());
            slow.sleep(3 * SECOND).await;
        });
        let (role, told) = (role.unwrap(), Arc::clone(&ended));
        let stopper = executor.process(1).role("stopper", |_| async move {
            time.sleep(SECOND).await;
            role.stop().await;
            *told.lock() = Some(time.now());
        });
        drop(stopper.unwrap());
        executor.run_for(10 * SECOND).unwrap();
        assert_eq!(*ended.lock(), Some(Instant::default() + 4 * SECOND));
        assert_eq!(executor.tasks(), 0);
        let brief = executor.process(1).role("brief", |stopping| async move { drop(stopping) });
        let brief = brief.unwrap();
        assert!(!brief.is_over());
        executor.run_for(SECOND).unwrap();
        assert!(brief.is_over());
    }

    #[test]
    fn a_task_that_never_waits_is_named() {
        let mut executor = Executor::new(&Random::seeded(1), 0);
        let role = executor.process(1).role("restless", |_| {
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
        });
        drop(role.unwrap());
        let stuck = executor.run_for(SECOND).unwrap_err();
        assert_eq!(stuck, Stuck { task: "restless".to_owned(), at: Instant::default() });
    }
}
