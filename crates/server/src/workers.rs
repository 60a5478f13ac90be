//! The threads that serve connections, each with an event loop of its own: a connection stays on
//! its thread, so that a request wakes nobody else. It knows nothing of what a connection does.

use std::{
    future::Future,
    io,
    net::TcpStream as StdTcpStream,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use tokio::{net::TcpStream, sync::mpsc};

/// Connections that may wait for a thread to take them in.
const WAITING_MAX: usize = 128;

type Serve = Box<dyn FnOnce(TcpStream) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The threads.
pub struct Workers {
    workers: Vec<Worker>,
}

struct Worker {
    accepted: mpsc::Sender<(StdTcpStream, Serve)>,
    /// Connections that it serves or is about to.
    load: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
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
    /// Where the stream cannot be handed over, or too many wait already.
    pub fn serve<F>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + 'static,
    {
        let worker = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let worker = worker.ok_or_else(|| io::Error::other("no thread serves connections"))?;
        worker.load.fetch_add(1, Ordering::Relaxed);
        let load = Arc::clone(&worker.load);
        let serve: Serve = Box::new(move |stream| {
            let served = serve(stream);
            Box::pin(async move {
                served.await;
                load.fetch_sub(1, Ordering::Relaxed);
            })
        });
        worker.accepted.try_send((stream.into_std()?, serve)).map_err(|error| {
            worker.load.fetch_sub(1, Ordering::Relaxed);
            io::Error::other(error.to_string())
        })
    }

    /// Ends the threads; what they still serve is cut off. Blocks.
    pub fn stop(self) {
        let threads: Vec<_> = self.workers.into_iter().map(|worker| worker.thread).collect();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that serves connections panicked");
            }
        }
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let (accepted, mut waiting) = mpsc::channel::<(StdTcpStream, Serve)>(WAITING_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                while let Some((stream, serve)) = waiting.recv().await {
                    match TcpStream::from_std(stream) {
                        Ok(stream) => drop(tokio::task::spawn_local(serve(stream))),
                        Err(error) => tracing::warn!(%error, "a connection was lost"),
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("connections".to_owned()).spawn(run)?;
        Ok(Self { accepted, load: Arc::default(), thread })
    }
}
