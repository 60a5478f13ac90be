//! The threads that serve connections, each with an event loop of its own: a connection stays on
//! its thread, so that a request wakes nobody else. It knows nothing of what a connection does.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{net::TcpStream, runtime::Runtime};

/// The threads.
pub struct Workers {
    workers: Vec<Worker>,
}

struct Worker {
    /// Of one thread. The kind for several threads wakes a sleeping thread once for many
    /// answers; the kind for one makes a system call for each.
    runtime: Runtime,
    /// Connections that it serves.
    load: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// Where the system has no room for them.
    pub fn start(count: usize) -> io::Result<Self> {
        let workers = (0..count).map(|_| Worker::start()).collect::<io::Result<_>>()?;
        Ok(Self { workers })
    }

    /// Has the thread with the fewest connections serve one.
    ///
    /// # Errors
    /// Where the stream cannot be handed over.
    pub fn serve<F>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let worker = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let worker = worker.ok_or_else(|| io::Error::other("no thread serves connections"))?;
        let stream = {
            let _entered = worker.runtime.enter();
            TcpStream::from_std(stream.into_std()?)?
        };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let load = Arc::clone(&worker.load);
        let served = serve(stream);
        worker.runtime.spawn(async move {
            served.await;
            load.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(())
    }

    /// Ends the threads; what they still serve after `timeout` is cut off. Blocks.
    pub fn stop(self, timeout: Duration) {
        for worker in self.workers {
            worker.runtime.shutdown_timeout(timeout);
        }
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("connections")
            .enable_all()
            .build()?;
        Ok(Self { runtime, load: Arc::default() })
    }
}
