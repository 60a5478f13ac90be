//! The underlying engine (TiKV's raft-engine) behind the few calls that the log needs of it: one
//! batch in, entries out, what is held, trim, give space back. Its errors and panics become ours.
//!
//! A group is one of its regions, an LSN one of its indexes, a header with its record the value
//! of a protobuf `BytesValue`. Compression is off, so that headers stand in the files as they are.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use protobuf::well_known_types::BytesValue;
use raft_engine::internals::LogQueue;
use raft_engine::{Command, Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use rustix::io::Errno;

use super::files::{Files, Watch};
use super::header::{HEADER_BYTES, Header};
use crate::{Entry, GroupId, Incarnation, Lsn};

/// A file takes about this much before the next is begun; space comes back a file at a time. The underlying
/// engine moves nothing out of files that take less together.
pub(super) const FILE_BYTES: u64 = 32 << 20;
/// What is written and deleted to see whether the disk has room for two more files.
const PROBE_FILE: &str = "probe";
const PROBE_BYTES: usize = 16 << 10;
/// More files of what was moved than this are made one: each has an open file, and the oldest keeps all.
const MOVED_FILES_MAX: usize = 8;
/// Entries fetched at once, at most.
const FETCH_COUNT_MAX: u64 = 1024;

/// How entries look to the underlying engine.
#[derive(Clone)]
struct Wrapped;

impl MessageExt for Wrapped {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        Header::lsn_unchecked(&entry.value)
    }
}

/// What one commit writes, all of it or nothing.
#[derive(Default)]
pub(super) struct Batch {
    /// For each group, consecutive payloads (header and record).
    pub entries: Vec<(GroupId, Vec<Vec<u8>>)>,
    /// Groups to forget, up to and including a position.
    pub trims: Vec<(GroupId, Lsn)>,
}

/// Why a batch is not in the log.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Nothing of it can ever be read, and the next may succeed: the disk is full.
    NoSpace(String),
    /// Nothing of it can ever be read, and the next may succeed: too many files are open.
    NoFile(String),
    /// Nothing of it can ever be read, but the files are not to be trusted further.
    NotWritten(String),
    /// It may be there.
    Unknown(String),
}

/// Why entries cannot be read.
#[derive(Debug)]
pub(super) enum FetchError {
    /// They are no longer held.
    Trimmed,
    /// What was read is not what was written.
    Corrupt(String),
}

/// Why the underlying engine does not open, or give space back.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    /// It wants text where a path is.
    #[error("the path is not UTF-8")]
    Path,
    /// It says so itself.
    #[error(transparent)]
    Failed(#[from] raft_engine::Error),
    /// There is no room for its next file.
    #[error("no room for its next file: {0}")]
    NoRoom(#[from] io::Error),
    /// It ended in another way.
    #[error("the underlying engine panicked: {0}")]
    Panicked(String),
}

/// The underlying engine.
pub(super) struct Store {
    engine: Engine<Files>,
    /// Whoever deletes files up to the newest must not come between a write and its note of where it stands.
    writing: Mutex<()>,
    dir: PathBuf,
    incarnation: Incarnation,
}

impl Store {
    /// Recovers the log in `dir`, or begins one.
    pub fn open(
        dir: &Path,
        incarnation: Incarnation,
        watch: &Arc<Watch>,
    ) -> Result<Self, EngineError> {
        let config = Config {
            dir: dir.to_str().ok_or(EngineError::Path)?.to_owned(),
            // Recovery asks the judge of damage before it cuts anything.
            recovery_mode: RecoveryMode::TolerateAnyCorruption,
            recovery_read_block_size: ReadableSize::kb(64),
            recovery_threads: 2,
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize(FILE_BYTES),
            purge_threshold: ReadableSize(FILE_BYTES),
            purge_rewrite_threshold: Some(ReadableSize(FILE_BYTES)),
            enable_log_recycle: false,
            ..Config::default()
        };
        let files = Arc::new(Files(Arc::clone(watch)));
        let opened =
            catch_unwind(AssertUnwindSafe(|| Engine::open_with_file_system(config, files)));
        let engine = match opened {
            Ok(result) => result?,
            Err(panic) => return Err(panicked(&*panic)),
        };
        Ok(Self { engine, writing: Mutex::new(()), dir: dir.to_owned(), incarnation })
    }

    /// Writes the batch, without a sync.
    pub fn write(&self, batch: Batch) -> Result<(), WriteError> {
        let mut log_batch = LogBatch::with_capacity(batch.entries.len() + batch.trims.len());
        for (group, payloads) in batch.entries {
            let entries: Vec<_> = payloads.into_iter().map(bytes_value).collect();
            log_batch
                .add_entries::<Wrapped>(region(group), &entries)
                .map_err(|error| WriteError::NotWritten(error.to_string()))?;
        }
        for (group, up_to) in batch.trims {
            log_batch.add_command(region(group), Command::Compact { index: up_to.0 + 1 });
        }
        let written = catch_unwind(AssertUnwindSafe(|| {
            let _writing = self.writing.lock();
            self.engine.write(&mut log_batch, false)
        }));
        match written {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(write_error(&error)),
            Err(panic) => Err(WriteError::Unknown(panicked(&*panic).to_string())),
        }
    }

    /// The positions held of a group, first and last.
    pub fn span(&self, group: GroupId) -> Option<(Lsn, Lsn)> {
        let first = self.engine.first_index(region(group))?;
        let last = self.engine.last_index(region(group))?;
        Some((Lsn(first), Lsn(last)))
    }

    /// Groups with anything in the log.
    pub fn groups(&self) -> Vec<u64> {
        self.engine.raft_groups().into_iter().map(|region| region.wrapping_sub(1)).collect()
    }

    /// Entries of a group from `from` to `to` (inclusive), in order: at least one, at most about
    /// `bytes_max` bytes.
    pub fn fetch(
        &self,
        group: GroupId,
        from: Lsn,
        to: Lsn,
        bytes_max: usize,
    ) -> Result<Vec<(Header, Entry)>, FetchError> {
        match self.fetch_here(group, from, to, bytes_max) {
            // The underlying engine caches a block for each thread by file number and position
            // alone, so that another log of this process may answer: a new thread has none.
            Err(FetchError::Corrupt(_)) => std::thread::scope(|scope| {
                let again = scope.spawn(|| self.fetch_here(group, from, to, bytes_max));
                again
                    .join()
                    .unwrap_or_else(|panic| Err(FetchError::Corrupt(panicked(&*panic).to_string())))
            }),
            result => result,
        }
    }

    fn fetch_here(
        &self,
        group: GroupId,
        from: Lsn,
        to: Lsn,
        bytes_max: usize,
    ) -> Result<Vec<(Header, Entry)>, FetchError> {
        let end = (to.0 + 1).min(from.0 + FETCH_COUNT_MAX);
        let mut values = Vec::new();
        let fetched = catch_unwind(AssertUnwindSafe(|| {
            self.engine.fetch_entries_to::<Wrapped>(
                region(group),
                from.0,
                end,
                Some(bytes_max),
                &mut values,
            )
        }));
        match fetched {
            Ok(Ok(_)) => {}
            Ok(Err(raft_engine::Error::EntryCompacted)) => return Err(FetchError::Trimmed),
            Ok(Err(error)) => return Err(FetchError::Corrupt(error.to_string())),
            Err(panic) => return Err(FetchError::Corrupt(panicked(&*panic).to_string())),
        }
        let unwrap = |(lsn, value): (u64, BytesValue)| {
            let payload = Bytes::from(value.value);
            let header = Header::parse(&payload)
                .filter(|header| {
                    (header.incarnation, header.group, header.lsn.0)
                        == (self.incarnation, group, lsn)
                        && header.is_of(&payload[HEADER_BYTES..])
                })
                .ok_or_else(|| FetchError::Corrupt("another record stands there".to_owned()))?;
            let record = payload.slice(HEADER_BYTES..);
            Ok((header, Entry { group, lsn: Lsn(lsn), record }))
        };
        (from.0..).zip(values).map(unwrap).collect()
    }

    /// Deletes files that hold nothing but what was trimmed. If it `moves`, what is left in the
    /// oldest is moved to the end after that, so that a few groups that are not trimmed do not
    /// keep the others' space.
    pub fn give_space_back(&self, moves: bool) -> Result<(), EngineError> {
        // The underlying engine panics where it finds no room for its next file.
        let probe = self.dir.with_file_name(PROBE_FILE);
        let probed = std::fs::write(&probe, [0; PROBE_BYTES]);
        let _ = std::fs::remove_file(&probe);
        probed?;
        match catch_unwind(AssertUnwindSafe(|| {
            let purging = self.engine.purge_manager();
            {
                let _writing = self.writing.lock();
                purging.must_purge_all_stale();
            }
            // After that: what is deleted makes room for what is moved.
            if moves {
                self.engine.purge_expired_files()?;
            }
            let (first, last) = self.engine.file_span(LogQueue::Rewrite);
            if last - first >= MOVED_FILES_MAX as u64 {
                purging.must_rewrite_rewrite_queue();
            }
            Ok::<(), raft_engine::Error>(())
        })) {
            Ok(result) => Ok(result?),
            Err(panic) => Err(panicked(&*panic)),
        }
    }
}

fn bytes_value(value: Vec<u8>) -> BytesValue {
    BytesValue { value, ..BytesValue::default() }
}

/// Region numbers begin at 1.
fn region(group: GroupId) -> u64 {
    u64::from(group.0) + 1
}

/// A failed write was taken back by the underlying engine, and what a failed write leaves behind
/// is never a whole batch; so it is not in the log, whatever the reason.
fn write_error(error: &raft_engine::Error) -> WriteError {
    let reason = error.to_string();
    match error {
        raft_engine::Error::TryAgain(_) => WriteError::NoSpace(reason),
        raft_engine::Error::Io(error) => match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                WriteError::NoSpace(reason)
            }
            _ if is_out_of_files(error) => WriteError::NoFile(reason),
            _ => WriteError::NotWritten(reason),
        },
        _ => WriteError::NotWritten(reason),
    }
}

/// Whether the process, or the machine, has as many files open as it may.
fn is_out_of_files(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::MFILE | Errno::NFILE))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> EngineError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    EngineError::Panicked(text.unwrap_or("no reason given").to_owned())
}
