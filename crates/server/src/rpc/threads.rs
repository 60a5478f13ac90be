//! Threads that carry bytes between nodes, apart from those that serve clients.

use std::{io, time::Duration};

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of each side. They carry bytes and run no searches.
const THREADS: usize = 2;

/// Threads of their own: whoever asks runs on one of many runtimes of a single thread, which is
/// busy with its clients and no place for what all share.
pub(crate) struct Threads {
    pub(super) handle: Handle,
    runtime: Option<Runtime>,
}

impl Threads {
    pub(crate) fn start(name: &'static str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Where work for them is handed over.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for what still runs, up to `timeout`. Blocks.
    pub(crate) fn stop(mut self, timeout: Duration) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(timeout);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Without a wait: this may be on an async thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
