//! A thread of a node that works beside requests until it is stopped. What it does is its owner's.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The handle of such a thread.
pub(crate) struct BackgroundThread {
    name: &'static str,
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl BackgroundThread {
    /// Starts it. `run` is to end soon once it is told to stop.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(
        name: &'static str,
        run: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(1);
        let run = move || run(&stopped);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { name, stop, thread })
    }

    /// Ends the thread after what it is doing. Blocks.
    pub(crate) fn stop(self) {
        // A thread that is gone has stopped.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the {} thread panicked", self.name);
        }
    }
}
