//! Tasks that end with whoever began them. Those of a node's role would end with its runtime; in a simulation
//! they go on until they are told, and in both whoever began one may go long before its role does.

use plimsoll_base::Tasks;
use plimsoll_base::tasks::Spawned;
use tokio::sync::watch;

/// Held by whoever has children: dropped, it ends them where they stand.
pub(super) struct Parent {
    _held: watch::Sender<()>,
}

/// Begins the children of one [`Parent`].
#[derive(Clone)]
pub(super) struct Children {
    tasks: Tasks,
    parent: watch::Receiver<()>,
}

impl Parent {
    /// Without children yet, which are tasks of these.
    pub(super) fn new(tasks: &Tasks) -> (Self, Children) {
        let (_held, parent) = watch::channel(());
        (Self { _held }, Children { tasks: tasks.clone(), parent })
    }
}

impl Children {
    /// Begins a task; it comes to nothing where the parent goes before.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        name: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Spawned<Option<T>> {
        let mut parent = self.parent.clone();
        self.tasks.spawn(name, async move {
            tokio::select! {
                biased;
                // Nothing is ever sent: this is the sender's end.
                _ = parent.changed() => None,
                output = future => Some(output),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use plimsoll_base::Random;
    use plimsoll_base::tasks::Executor;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Notes that it is gone.
    struct Noted(Arc<AtomicU32>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn children_end_with_their_parent_in_a_simulation() {
        let mut executor = Executor::new(&Random::seeded(1), 0);
        let (time, gone) = (executor.time().clone(), Arc::new(AtomicU32::new(0)));
        let (parent, children) = Parent::new(&executor.process(1));
        for seconds in [1, 100, 100] {
            let (time, noted) = (time.clone(), Noted(Arc::clone(&gone)));
            children.begin("child", async move {
                time.sleep(seconds * SECOND).await;
                drop(noted);
            });
        }
        executor.run_for(2 * SECOND).unwrap();
        assert_eq!((gone.load(Ordering::Relaxed), executor.tasks()), (1, 2));
        drop(parent);
        executor.run_for(Duration::ZERO).unwrap();
        assert_eq!((gone.load(Ordering::Relaxed), executor.tasks()), (3, 0));
        // It is too late.
        children.begin("late", async { panic!("its parent is gone") });
        executor.run_for(SECOND).unwrap();
        assert_eq!(executor.tasks(), 0);
    }

    #[tokio::test]
    async fn children_end_with_their_parent_in_a_node() {
        let (parent, children) = Parent::new(&Tasks::of_the_machine());
        assert_eq!(children.begin("child", async { 7 }).await, Ok(Some(7)));
        let child = children.begin("child", std::future::pending::<()>());
        drop(parent);
        assert_eq!(child.await, Ok(None));
    }
}
