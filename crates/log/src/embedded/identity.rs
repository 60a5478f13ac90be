//! What makes a folder a log: the lock that keeps a second process out, the identity file (format
//! and incarnation), and the mark (what is known to be durable, kept beside the log so that
//! damage to the log's own end is noticed).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};

use crate::{Incarnation, LogError, Lsn};

/// The format of everything in the folder. Stable: a change of meaning takes the next number.
const FORMAT: u32 = 1;
const IDENTITY_FILE: &str = "identity";
const LOCK_FILE: &str = "lock";
const MARK_FILE: &str = "mark";
/// Where the underlying engine has its files.
pub(super) const RECORDS_DIR: &str = "records";

/// Held as long as the log is open.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, never read")] File);

/// Makes the folder where there is none and locks it.
pub(super) fn lock(dir: &Path) -> Result<Lock, LogError> {
    fs::create_dir_all(dir).map_err(|error| failed("create", dir, &error))?;
    let path = dir.join(LOCK_FILE);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| failed("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(fs::TryLockError::WouldBlock) => Err(LogError::Failed(format!(
            "the log in `{}` is open already, here or in another process",
            dir.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", &path, &error)),
    }
}

/// Reads the folder's identity, or gives it one where it is new.
pub(super) fn identify(dir: &Path) -> Result<Incarnation, LogError> {
    let path = dir.join(IDENTITY_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => parse_identity(&text, &path),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let records = dir.join(RECORDS_DIR);
            if records.exists() {
                return Err(LogError::Damaged(format!(
                    "`{}` is missing, but `{}` exists",
                    path.display(),
                    records.display()
                )));
            }
            let incarnation = Incarnation(random()?);
            let text = format!("plimsoll log\nformat {FORMAT}\nincarnation {incarnation}\n");
            replace(dir, IDENTITY_FILE, text.as_bytes())?;
            // The folder itself must be found again as well.
            if let Some(parent) = dir.canonicalize().ok().as_deref().and_then(Path::parent) {
                sync_dir(parent)?;
            }
            Ok(incarnation)
        }
        Err(error) => Err(failed("read", &path, &error)),
    }
}

fn parse_identity(text: &str, path: &Path) -> Result<Incarnation, LogError> {
    let damaged = || LogError::Damaged(format!("`{}` is no identity of a log", path.display()));
    let mut lines = text.lines();
    if lines.next() != Some("plimsoll log") {
        return Err(damaged());
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format ")).ok_or_else(damaged)?;
    if format != FORMAT.to_string() {
        return Err(LogError::Failed(format!(
            "`{}` says format {format}, this version reads format {FORMAT}",
            path.display()
        )));
    }
    lines
        .next()
        .and_then(|line| line.strip_prefix("incarnation "))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .map(Incarnation)
        .ok_or_else(damaged)
}

/// What was durable, and what was given up, when it was written.
///
/// | field | bytes |
/// |---|---|
/// | format, now 1 | 4 |
/// | log incarnation | 8 |
/// | everything up to this sequence is durable | 8 |
/// | number of groups | 4 |
/// | each group: trimmed up to, last durable | 8, 8 |
/// | CRC-32 of all before it | 4 |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub synced: u64,
    /// By group: trimmed up to and including, last durable.
    pub groups: Vec<(Lsn, Lsn)>,
}

impl Mark {
    /// Reads the folder's mark; a log that never was marked has the empty one.
    pub fn load(dir: &Path, incarnation: Incarnation) -> Result<Self, LogError> {
        let path = dir.join(MARK_FILE);
        match fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes, incarnation).ok_or_else(|| {
                LogError::Damaged(format!("`{}` is not what was written", path.display()))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Replaces the folder's mark, durably.
    pub fn store(&self, dir: &Path, incarnation: Incarnation) -> Result<(), LogError> {
        replace(dir, MARK_FILE, &self.encode(incarnation))
    }

    fn encode(&self, incarnation: Incarnation) -> Vec<u8> {
        let mut out = Vec::with_capacity(28 + self.groups.len() * 16);
        out.put_u32_le(FORMAT);
        out.put_u64_le(incarnation.0);
        out.put_u64_le(self.synced);
        out.put_u32_le(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
        for (trimmed, last) in &self.groups {
            out.put_u64_le(trimmed.0);
            out.put_u64_le(last.0);
        }
        let crc = crc32fast::hash(&out);
        out.put_u32_le(crc);
        out
    }

    fn decode(bytes: &[u8], incarnation: Incarnation) -> Option<Self> {
        let (mut rest, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32fast::hash(rest).to_le_bytes() != crc || rest.len() < 24 {
            return None;
        }
        if rest.get_u32_le() != FORMAT || rest.get_u64_le() != incarnation.0 {
            return None;
        }
        let synced = rest.get_u64_le();
        let count = rest.get_u32_le() as usize;
        if rest.len() != count.checked_mul(16)? {
            return None;
        }
        let groups = (0..count).map(|_| (Lsn(rest.get_u64_le()), Lsn(rest.get_u64_le()))).collect();
        Some(Self { synced, groups })
    }
}

/// Writes a file beside the one it replaces, so that one of the two is always whole.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), LogError> {
    let (path, fresh) = (dir.join(name), dir.join(format!("{name}.new")));
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    };
    write().map_err(|error| failed("write", &path, &error))?;
    sync_dir(dir)
}

/// Makes the names in a folder durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), LogError> {
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| failed("sync", dir, &error))
}

fn random() -> Result<u64, LogError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| LogError::Failed(format!("no random number: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> LogError {
    LogError::Failed(format!("cannot {verb} `{}`: {error}", path.display()))
}

/// The folder of the underlying engine's files.
pub(super) fn records_dir(dir: &Path) -> PathBuf {
    dir.join(RECORDS_DIR)
}
