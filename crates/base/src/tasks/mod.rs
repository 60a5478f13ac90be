//! Tasks, in two kinds: a node's, each on a thread of its own, and a simulation's, which one thread polls in an
//! order that a seed draws. What a task waits for are futures in both.
//!
//! A node's task may block its thread; a simulation's must not, as nothing else goes on meanwhile.

pub mod parked;
mod pool;
mod simulated;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tracing::Instrument as _;

pub use pool::Pool;
pub use simulated::{Executor, Stuck};

use crate::Time;

/// Begins tasks.
#[derive(Clone)]
pub struct Tasks(Kind);

#[derive(Clone)]
enum Kind {
    Machine,
    Simulated(simulated::Spawner),
}

/// A task that goes on until it is told to stop; dropped, it goes on by itself.
pub struct Role {
    name: String,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Tells a role that it is to stop.
#[derive(Clone)]
pub struct Stopping(watch::Receiver<bool>);

/// A task's result, waited for; dropped, the task goes on by itself.
pub struct Spawned<T>(oneshot::Receiver<T>);

/// A task ended without a result: it panicked, or its process is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task was given up")]
pub struct Lost;

impl<T> Future for Spawned<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|told| told.map_err(|_| Lost))
    }
}

impl Tasks {
    /// A node's.
    #[must_use]
    pub fn of_the_machine() -> Self {
        Self(Kind::Machine)
    }

    /// Begins a role. It is to end soon once it is told to stop. A node's has a thread of its own and no
    /// runtime: see [`parked`].
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn role<F>(&self, name: &str, run: impl FnOnce(Stopping) -> F) -> io::Result<Role>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.begin(name, run, |future| Ok(move || parked::run(future)))
    }

    /// The same of a role that asks other nodes or begins tasks: a node's has a runtime on its thread.
    ///
    /// # Errors
    /// As [`Self::role`].
    pub fn networked_role<F>(&self, name: &str, run: impl FnOnce(Stopping) -> F) -> io::Result<Role>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.begin(name, run, |future| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(move || {
                runtime.block_on(future);
                runtime.shutdown_background();
            })
        })
    }

    fn begin<F, R>(
        &self,
        name: &str,
        run: impl FnOnce(Stopping) -> F,
        polled: impl FnOnce(RoleFuture) -> io::Result<R>,
    ) -> io::Result<Role>
    where
        F: Future<Output = ()> + Send + 'static,
        R: FnOnce() + Send + 'static,
    {
        let (stop, stopping) = watch::channel(false);
        let future: RoleFuture = Box::pin(run(Stopping(stopping)));
        let thread = match &self.0 {
            Kind::Machine => {
                let polls = polled(future)?;
                Some(std::thread::Builder::new().name(name.to_owned()).spawn(polls)?)
            }
            Kind::Simulated(spawner) => {
                spawner.spawn(name, future);
                None
            }
        };
        Ok(Role { name: name.to_owned(), stop, thread })
    }

    /// Begins a task beside the one that runs. A node's is a task of the runtime of whoever begins it.
    ///
    /// # Panics
    /// A node's, where whoever begins it has no runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Spawned<T> {
        let (done, told) = oneshot::channel();
        let task = async move {
            // Who began it may not care for what it comes to.
            let _ = done.send(future.await);
        };
        match &self.0 {
            Kind::Machine => drop(tokio::spawn(task.in_current_span())),
            Kind::Simulated(spawner) => spawner.spawn(name, Box::pin(task)),
        }
        Spawned(told)
    }

    /// Whether whoever asks can begin a task: a node's needs a runtime for it.
    #[must_use]
    pub fn can_spawn(&self) -> bool {
        match &self.0 {
            Kind::Machine => tokio::runtime::Handle::try_current().is_ok(),
            Kind::Simulated(_) => true,
        }
    }

    /// Whether they are a node's, which may block a thread.
    #[must_use]
    pub fn are_the_machines(&self) -> bool {
        matches!(self.0, Kind::Machine)
    }

    /// Blocks the thread of a role for so long. In a simulation nothing blocks.
    pub fn block_for(&self, duration: Duration) {
        if self.are_the_machines() {
            std::thread::sleep(duration);
        }
    }

    /// Does what blocks, beside the tasks of a node's runtime: at once in a role that has a thread of its own,
    /// and in a simulation, where nothing blocks.
    ///
    /// # Errors
    /// [`Lost`]: it panicked.
    ///
    /// # Panics
    /// Where work that is done at once does.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Lost> {
        match &self.0 {
            Kind::Machine => match tokio::runtime::Handle::try_current() {
                Ok(runtime) => {
                    let span = tracing::Span::current();
                    runtime.spawn_blocking(move || span.in_scope(work)).await.map_err(|_| Lost)
                }
                Err(_) => Ok(work()),
            },
            Kind::Simulated(_) => Ok(work()),
        }
    }

    /// The same, begun at once and beside whoever begins it: it is done whether it is waited for or not. In a
    /// simulation it is a task.
    ///
    /// # Panics
    /// Where work that is done at once does.
    pub fn begin_blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Spawned<T> {
        let (done, told) = oneshot::channel();
        let work = move || {
            // Who began it may not care for what it comes to.
            let _ = done.send(work());
        };
        match &self.0 {
            Kind::Machine => match tokio::runtime::Handle::try_current() {
                Ok(runtime) => {
                    let span = tracing::Span::current();
                    drop(runtime.spawn_blocking(move || span.in_scope(work)));
                }
                Err(_) => work(),
            },
            Kind::Simulated(spawner) => spawner.spawn(name, Box::pin(async { work() })),
        }
        Spawned(told)
    }

    /// Threads for work that blocks, at most so many of this name, at least 1; one that has had nothing to do for
    /// `idle_max` ends.
    #[must_use]
    pub fn pool(&self, name: &str, threads_max: usize, idle_max: Duration) -> Pool {
        match &self.0 {
            Kind::Machine => Pool::of_threads(name, threads_max, idle_max),
            Kind::Simulated(_) => Pool::simulated(),
        }
    }

    /// Carries out what may block its thread between its waits, beside the tasks of a node's runtime.
    ///
    /// # Errors
    /// [`Lost`]: it panicked.
    pub async fn apart<T: Send + 'static>(
        &self,
        name: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Lost> {
        match &self.0 {
            Kind::Machine => self.blocking(move || parked::run(future)).await,
            Kind::Simulated(_) => self.spawn(name, future).await,
        }
    }
}

impl Executor {
    /// What a process begins its tasks by. A number is one process' for ever.
    #[must_use]
    pub fn process(&self, process: u64) -> Tasks {
        Tasks(Kind::Simulated(self.spawner(process)))
    }
}

/// A role or a task, before it is polled.
type RoleFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Role {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has ended. A simulation's keeps its [`Stopping`] until then.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.thread {
            Some(thread) => thread.is_finished(),
            None => self.stop.is_closed(),
        }
    }

    /// Tells it to stop.
    pub fn tell_to_stop(&self) {
        // One that is over hears nothing.
        let _ = self.stop.send(true);
    }

    /// Tells it to stop; a node's is waited for, which blocks. A simulation's ends when it is polled next.
    pub fn end(self) {
        self.tell_to_stop();
        if self.thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(name = self.name, "a role panicked");
        }
    }

    /// Tells it to stop, and waits until it has. Of a node's role this blocks the thread that asks.
    pub async fn stop(self) {
        if self.thread.is_some() {
            return self.end();
        }
        self.tell_to_stop();
        self.stop.closed().await;
    }
}

impl Stopping {
    /// Whether it is to stop. One whose owner let go of it goes on.
    #[must_use]
    pub fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is to stop.
    pub async fn told(&mut self) {
        if self.0.wait_for(|is_told| *is_told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for so long, or until it is to stop; says whether it is.
    pub async fn told_within(&mut self, time: &Time, duration: Duration) -> bool {
        time.timeout(duration, self.told()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_blocks_is_done_whether_it_is_waited_for_or_not() {
        let (tasks, done) = (Tasks::of_the_machine(), Arc::new(AtomicU32::new(0)));
        let work = || {
            let done = Arc::clone(&done);
            move || done.fetch_add(1, Ordering::Relaxed)
        };
        // Without a runtime at once.
        drop(tasks.begin_blocking("work", work()));
        assert_eq!(done.load(Ordering::Relaxed), 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            drop(tasks.begin_blocking("work", work()));
            let panics = tasks.begin_blocking("panics", || panic!("it is to")).await;
            assert_eq!(panics, Err::<(), _>(Lost));
            assert_eq!(tasks.begin_blocking("work", || 7).await, Ok(7));
        });
        while done.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        let mut executor = Executor::new(&crate::Random::seeded(1), 0);
        drop(executor.process(1).begin_blocking("work", work()));
        executor.run_for(Duration::ZERO).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_role_of_a_node_runs_on_its_thread_until_it_is_told_to_stop() {
        let (rounds, time) = (Arc::new(AtomicU32::new(0)), Time::of_the_machine());
        let counted = Arc::clone(&rounds);
        let role = Tasks::of_the_machine().role("counting", |mut stopping| async move {
            assert_eq!(std::thread::current().name(), Some("counting"));
            let tick = Duration::from_micros(100);
            while time.timeout(tick, stopping.told()).await.is_err() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let role = role.unwrap();
        while rounds.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
        assert_eq!((role.name(), role.is_over()), ("counting", false));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(role.stop());
        let then = rounds.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(rounds.load(Ordering::Relaxed), then);
    }
}
