//! The embedded log: several groups in one folder of one machine, with TiKV's raft-engine under
//! it for the bytes. One commit thread gives positions, writes and syncs for all groups at once.
//!
//! It is not replicated. It trusts the disk to keep what a successful sync covered, detects
//! where it did not, and does not repair it.

mod bell;
mod commit;
mod core;
mod damage;
mod files;
mod found;
mod header;
mod identity;
mod keeper;
mod options;
mod queue;
mod reader;
mod reserve;
mod sizes;
mod store;
mod tail;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use self::bell::Bell;
use self::commit::Committer;
use self::core::Core;
use self::files::Watch;
use self::identity::Mark;
use self::keeper::Keeper;
pub use self::options::{Durability, Options};
use self::queue::{Pending, Queue};
use self::reserve::Reserve;
use self::store::Store;
use self::tail::Tail;
use crate::{
    AppendDone, AppendError, Bounds, GroupId, Incarnation, Log, LogError, Lsn, RECORD_BYTES_MAX,
    Reader, Stats,
};

/// The embedded log. Dropping it commits what waits and ends it.
pub struct Embedded {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the log in `dir`, or makes one there. A torn end that was never durable is cut.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where bytes that were durable are damaged or missing: restore them,
    /// or give the log up with everything that depends on it. [`LogError::Failed`] where the
    /// folder is in use or of another format, or the disk fails.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, LogError> {
        let lock = identity::lock(dir)?;
        let incarnation = identity::identify(dir)?;
        let mark = Mark::load(dir, incarnation)?;
        let watch = Arc::new(Watch::default());
        let store = recover(dir, incarnation, &mark, &watch)?;
        let (bounds, sequence) = damage::check(dir, incarnation, &store, &mark, options.groups)?;
        found::make_durable(dir)?;
        let held = |group| store.span(group).map_or(Lsn(0), |(first, _)| Lsn(first.0 - 1));
        let trimmed = (0..options.groups).map(|group| held(GroupId(group))).collect();
        let last = bounds.iter().map(|bounds| bounds.last).collect();
        let core = Arc::new(Core {
            dir: dir.to_path_buf(),
            incarnation,
            queue: Queue::new(options.queue_bytes_max),
            tail: Tail::new(&bounds, options.cache_bytes_max, files_bytes(dir)),
            bell: Bell::default(),
            stats: Mutex::default(),
            asynchronous: AtomicBool::new(options.durability == Durability::Async),
            sync_interval: Duration::from_millis(options.sync_interval_ms.max(1)),
            written: AtomicU64::new(sequence),
            synced: AtomicU64::new(sequence),
            stopped: Mutex::new(None),
            marked: Mutex::new(mark),
            reserve: Reserve::new(dir),
            store,
            watch,
            _lock: lock,
        });
        if let Err(error) = core.mark() {
            // A full disk: the log can be read, and says what it thinks of appends itself.
            tracing::warn!(%error, "the log's mark cannot be kept");
        }
        let committer = Committer::new(Arc::clone(&core), last, sequence);
        let keeper = Keeper::new(Arc::clone(&core), trimmed);
        let mut log = Self { core, threads: Vec::new() };
        log.spawn("log-commit", move || committer.run())?;
        log.spawn("log-keep", move || keeper.run())?;
        Ok(log)
    }

    /// Changes when appends are acknowledged, from the next commit on.
    pub fn set_durability(&self, durability: Durability) {
        self.core.asynchronous.store(durability == Durability::Async, Ordering::Release);
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.map_err(|error| LogError::Failed(error.to_string()))?);
        Ok(())
    }
}

/// What the files of records take, as far as that can be found out: it is for figures alone.
fn files_bytes(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(identity::records_dir(dir)) else { return 0 };
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// Opens the underlying engine, with a say in what it cuts.
fn recover(
    dir: &Path,
    incarnation: Incarnation,
    mark: &Mark,
    watch: &Arc<Watch>,
) -> Result<Store, LogError> {
    damage::check_files(dir)?;
    let verdict = Arc::new(Mutex::new(None));
    watch.judge_with(Some(damage::judge(dir, incarnation, mark, &verdict)));
    let opened = Store::open(&identity::records_dir(dir), incarnation, watch);
    watch.judge_with(None);
    if let Some(reason) = verdict.lock().take() {
        return Err(LogError::Damaged(reason));
    }
    let failed = |reason: &dyn std::fmt::Display| {
        LogError::Failed(format!("cannot open `{}`: {reason}", dir.display()))
    };
    let store = opened.map_err(|error| failed(&error))?;
    watch.failure().map_or(Ok(store), |error| Err(failed(&error)))
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.core.queue.close("the log is closed");
        self.core.queue.finish();
        self.core.bell.ring();
        for thread in self.threads.drain(..) {
            // The last owner may be a callback, on the log's own thread.
            let is_own = thread.thread().id() == std::thread::current().id();
            if !is_own && thread.join().is_err() {
                self.core.stop("a thread of the log panicked");
            }
        }
        let written = self.core.written.load(Ordering::Acquire);
        if self.core.stopped().is_none() {
            let marked =
                self.core.sync(written).map_err(|error| LogError::Failed(error.to_string()));
            if let Err(error) = marked.and_then(|()| self.core.mark()) {
                tracing::warn!(%error, "the log could not be marked at its end");
            }
        }
        self.core.tail.close("the log is closed");
    }
}

impl Log for Embedded {
    fn incarnation(&self) -> Incarnation {
        self.core.incarnation
    }

    /// Where the append is refused at once, `done` is called before this returns.
    fn append(&self, group: GroupId, record: Bytes, done: AppendDone) {
        let refusal = if record.len() > RECORD_BYTES_MAX {
            Some(format!("a record of {} bytes is over the limit", record.len()))
        } else {
            self.core.bounds(group).err().map(|error| error.to_string())
        };
        let pending = Pending { group, record, done, queued: Instant::now() };
        let refused = match refusal {
            Some(reason) => Err((pending, reason)),
            None => self.core.queue.push(pending),
        };
        if let Err((pending, reason)) = refused {
            self.core.stats.lock().appends_failed += 1;
            (pending.done)(Err(AppendError::Refused(reason)));
        }
    }

    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(reader::TailReader::new(Arc::clone(&self.core), from)?))
    }

    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        self.core.bounds(group)
    }

    fn bytes_after(&self, group: GroupId, lsn: Lsn) -> Result<Option<u64>, LogError> {
        Ok(self.core.tail.bytes_after(group, lsn))
    }

    /// Never forgets a group's last record. Space comes back later, a file at a time.
    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        self.core.bounds(group)?;
        self.core.tail.trim(group, up_to);
        Ok(())
    }

    fn sync(&self) -> Result<(), LogError> {
        let written = self.core.written.load(Ordering::Acquire);
        if self.core.synced.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        self.core.sync(written).map_err(|error| LogError::Failed(error.to_string()))
    }

    fn health(&self) -> Result<(), LogError> {
        self.core.stopped().map_or(Ok(()), |fault| Err(LogError::Failed(fault)))
    }

    fn stats(&self) -> Stats {
        let core = &self.core;
        let (queue_length, queue_bytes, queue_age) = core.queue.load();
        Stats {
            written_bytes: core.watch.bytes_written(),
            queue_length,
            queue_bytes,
            queue_age,
            cache_bytes: core.tail.bytes(),
            stopped: core.stopped(),
            ..core.stats.lock().clone()
        }
    }
}

#[cfg(test)]
mod tests;
