//! Tasks, in two kinds: a node's, each on a thread of its own, and a simulation's, which one thread polls in an
//! order that a seed draws. What a task waits for are futures in both.
//!
//! A node's task may block its thread; a simulation's must not, as nothing else goes on meanwhile.

mod simulated;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::sync::watch;

pub use simulated::{Executor, Stuck};

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

impl Tasks {
    /// A node's.
    #[must_use]
    pub fn of_the_machine() -> Self {
        Self(Kind::Machine)
    }

    /// Begins a role. It is to end soon once it is told to stop.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn role<F>(&self, name: &str, run: impl FnOnce(Stopping) -> F) -> io::Result<Role>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopping) = watch::channel(false);
        let future = run(Stopping(stopping));
        let thread = match &self.0 {
            Kind::Machine => Some(thread(name, Box::pin(future))?),
            Kind::Simulated(spawner) => {
                spawner.spawn(name, Box::pin(future));
                None
            }
        };
        Ok(Role { name: name.to_owned(), stop, thread })
    }
}

fn thread(
    name: &str,
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(future))
}

impl Role {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells it to stop, and waits until it has. Of a node's role this blocks the thread that asks.
    ///
    /// # Panics
    /// Where the role did.
    pub async fn stop(self) {
        // One that is over hears nothing.
        let _ = self.stop.send(true);
        match self.thread {
            Some(thread) => {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            None => self.stop.closed().await,
        }
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::Time;

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
        assert_eq!(role.name(), "counting");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(role.stop());
        let then = rounds.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(rounds.load(Ordering::Relaxed), then);
    }
}
