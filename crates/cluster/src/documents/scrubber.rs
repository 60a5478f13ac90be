//! The thread that reads the durable files of indices again at a slow pace and compares them with
//! their checksums, so that rot is found before a search shows it. What is found damaged is built
//! anew from the rows (`indexer.rs`). Rows have checksums that every read checks.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster_settings;
use crate::node::Shared;
use crate::partition::Partition;

/// How often it is looked whether a search met what should not be.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many bytes are read a second: little beside what a disk gives to searches.
const BYTES_S: u64 = 32 << 20;

/// The handle of the thread.
pub(crate) struct Scrubber {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Scrubber {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let (stop, stopped) = sync_channel(1);
        let weak = Arc::downgrade(shared);
        let run = move || run(&weak, &stopped);
        let thread = std::thread::Builder::new().name("scrub".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread after the file that it reads. Blocks.
    pub(crate) fn stop(self) {
        // A thread that is gone has stopped.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the scrub thread panicked");
        }
    }
}

fn run(shared: &Weak<Shared>, stopped: &Receiver<()>) {
    let mut checked_at = Instant::now();
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else { return };
        let is_due = checked_at.elapsed() >= cluster_settings::check_interval(&shared.metadata);
        if is_due {
            checked_at = Instant::now();
        }
        let partitions = shared.tables.partitions();
        // A pass may take hours, and the node is not to be kept open by it.
        let is_stopping = Arc::clone(&shared.is_stopping);
        drop(shared);
        let goes_on = || !is_stopping.load(std::sync::atomic::Ordering::Relaxed);
        for partition in partitions {
            let is_suspect = partition.indexer().is_some_and(|it| it.take_suspicion());
            if goes_on() && (is_due || is_suspect) {
                check(&partition, is_suspect, &goes_on);
            }
        }
    }
}

/// Checks the index of a partition, at once where a search has met something.
fn check(partition: &Partition, at_once: bool, goes_on: &dyn Fn() -> bool) {
    let Some(indexer) = partition.indexer() else { return };
    indexer.check_files(&mut |bytes| {
        if !at_once {
            std::thread::sleep(Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_S));
        }
        goes_on()
    });
}
