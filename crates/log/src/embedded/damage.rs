//! Judging damage by our own headers in the raw files: what a torn tail may take away, and what
//! was durable and must be there.
//!
//! Before the underlying engine cuts a file at bytes it cannot read, it asks [`judge`]. The cut
//! is allowed where it is at the log's end and nothing that goes with it was ever known to be
//! durable, neither by a header that survived behind it nor by the mark. Once the log is open,
//! [`check`] compares what it holds with the mark.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::files::Judge;
use super::header::{self, HEADER_BYTES, Header};
use super::identity::{Mark, records_dir};
use super::store::{FetchError, Store};
use crate::{Bounds, GroupId, Incarnation, LogError, Lsn};

const APPENDED: &str = ".raftlog";
const MOVED: &str = ".rewrite";

/// Refuses a log with a file missing between others: the underlying engine would pass over
/// everything before the hole.
pub(super) fn check_files(dir: &Path) -> Result<(), LogError> {
    for suffix in [APPENDED, MOVED] {
        let files = files(dir, suffix).map_err(|error| LogError::Failed(error.to_string()))?;
        for pair in files.windows(2) {
            if let [(before, path), (after, _)] = pair
                && before + 1 != *after
            {
                return Err(LogError::Damaged(format!(
                    "the file after `{}` is missing, the next there is number {after}",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// What recovery asks before it cuts a file; where the answer is no, the reason is left in
/// `verdict`.
pub(super) fn judge(
    dir: &Path,
    incarnation: Incarnation,
    mark: &Mark,
    verdict: &Arc<Mutex<Option<String>>>,
) -> Judge {
    let (dir, verdict, marked) = (dir.to_path_buf(), Arc::clone(verdict), mark.synced);
    Box::new(move |path, position| {
        let refusal = weigh(&dir, incarnation, marked, path, position)?;
        if let Some(reason) = refusal {
            let reason = format!("`{}` at byte {position}: {reason}", path.display());
            verdict.lock().get_or_insert_with(|| reason.clone());
            return Err(io::Error::other(reason));
        }
        Ok(())
    })
}

/// Why the file must not be cut there, if so.
fn weigh(
    dir: &Path,
    incarnation: Incarnation,
    marked: u64,
    path: &Path,
    position: u64,
) -> io::Result<Option<String>> {
    let bytes = fs::read(path)?;
    let position = usize::try_from(position).map_err(io::Error::other)?;
    let (kept, cut) = bytes.split_at(position.min(bytes.len()));
    // What was moved is deleted elsewhere only once it is durable here, and `check` sees if not.
    let moved = path.to_str().is_some_and(|path| path.ends_with(MOVED));
    if !moved {
        let files = files(dir, APPENDED)?;
        if files.last().is_none_or(|(_, last)| last != path) {
            return Ok(Some("bytes are damaged with more of the log behind them".to_owned()));
        }
        let ours = |(_, header): &(usize, Header)| header.incarnation == incarnation;
        let claims = header::find(cut).filter(ours).map(|(_, header)| header.synced).max();
        let held = match last_sequence(kept, incarnation) {
            Some(sequence) => sequence,
            None => last_sequence_before(dir, path, incarnation)?,
        };
        let durable = claims.unwrap_or(0).max(marked);
        if durable > held {
            return Ok(Some(format!(
                "bytes are damaged that were durable (records {} to {durable} of the log)",
                held + 1
            )));
        }
    }
    let used = cut.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if used > 0 {
        tracing::warn!(
            file = %path.display(),
            position,
            bytes = used,
            "cut the log's torn end, which was never acknowledged as durable"
        );
    }
    Ok(None)
}

/// Compares what the log holds with the mark; returns the bounds of each group and the last
/// sequence.
pub(super) fn check(
    dir: &Path,
    incarnation: Incarnation,
    store: &Store,
    mark: &Mark,
    group_count: u16,
) -> Result<(Vec<Bounds>, u64), LogError> {
    if let Some(group) = store.groups().into_iter().find(|group| *group >= u64::from(group_count)) {
        return Err(LogError::Failed(format!(
            "the log holds records of group {group}, but has {group_count} groups by its settings"
        )));
    }
    let mut sequence = 0;
    let mut bounds = Vec::with_capacity(usize::from(group_count));
    for group in (0..group_count).map(GroupId) {
        let (trimmed, durable) = mark.groups.get(usize::from(group.0)).copied().unwrap_or_default();
        let (first, last) = store.span(group).unwrap_or((Lsn(1), Lsn(0)));
        if last < durable {
            return Err(LogError::Damaged(format!(
                "{}: group {group} ends with LSN {last}, but LSN {durable} was durable",
                end_of_log(dir)
            )));
        }
        if first > trimmed.next() {
            return Err(LogError::Damaged(format!(
                "`{}`: group {group} begins with LSN {first}, but is trimmed only up to {trimmed}",
                records_dir(dir).display()
            )));
        }
        if last >= first {
            sequence = sequence.max(sequence_at(dir, incarnation, store, group, last)?);
            sequence_at(dir, incarnation, store, group, first)?;
        }
        bounds.push(Bounds { first: first.max(trimmed.next()), last });
    }
    if sequence < mark.synced {
        return Err(LogError::Damaged(format!(
            "{}: the log ends with record {sequence}, but record {} was durable",
            end_of_log(dir),
            mark.synced
        )));
    }
    Ok((bounds, sequence))
}

fn sequence_at(
    dir: &Path,
    incarnation: Incarnation,
    store: &Store,
    group: GroupId,
    lsn: Lsn,
) -> Result<u64, LogError> {
    let reason = match store.fetch(group, lsn, lsn, usize::MAX) {
        Ok(entries) => match entries.first() {
            Some((header, _)) => return Ok(header.sequence),
            None => "nothing stands there".to_owned(),
        },
        Err(FetchError::Trimmed) => "it is gone".to_owned(),
        Err(FetchError::Corrupt(reason)) => reason,
    };
    Err(unreadable(dir, incarnation, group, lsn, &reason))
}

/// The error for a record that is held but cannot be read: says where it stands, or after what.
pub(super) fn unreadable(
    dir: &Path,
    incarnation: Incarnation,
    group: GroupId,
    lsn: Lsn,
    reason: &str,
) -> LogError {
    let mut nearest: Option<(Lsn, String)> = None;
    let all = [APPENDED, MOVED].into_iter().flat_map(|suffix| files(dir, suffix).ok());
    for (_, path) in all.flatten() {
        let Ok(bytes) = fs::read(&path) else { continue };
        for (at, header) in header::find(&bytes) {
            let ours = header.incarnation == incarnation && header.group == group;
            let nearer = nearest.as_ref().is_none_or(|(best, _)| header.lsn >= *best);
            if ours && header.lsn <= lsn && nearer {
                let at = at + if header.lsn == lsn { 0 } else { HEADER_BYTES };
                nearest = Some((header.lsn, format!("`{}` at byte {at}", path.display())));
            }
        }
    }
    let place = match nearest {
        Some((found, place)) if found == lsn => place,
        Some((_, place)) => format!("{place} or behind it"),
        None => format!("`{}`", records_dir(dir).display()),
    };
    LogError::Damaged(format!("{place}: LSN {lsn} of group {group} cannot be read: {reason}"))
}

/// Bytes that the log's files take, as far as they can be seen.
pub(super) fn used_bytes(dir: &Path) -> u64 {
    let all = [APPENDED, MOVED].into_iter().filter_map(|suffix| files(dir, suffix).ok());
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    all.flatten().map(|(_, path)| bytes(&path)).sum()
}

fn end_of_log(dir: &Path) -> String {
    match files(dir, APPENDED).ok().and_then(|files| files.last().cloned()) {
        Some((_, path)) => {
            let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
            format!("`{}` at byte {bytes}", path.display())
        }
        None => format!("`{}`", records_dir(dir).display()),
    }
}

fn last_sequence(bytes: &[u8], incarnation: Incarnation) -> Option<u64> {
    header::find(bytes)
        .filter(|(_, header)| header.incarnation == incarnation)
        .map(|(_, header)| header.sequence)
        .max()
}

/// The last sequence in the files before one, or in those that were moved; 0 where none is left.
fn last_sequence_before(dir: &Path, path: &Path, incarnation: Incarnation) -> io::Result<u64> {
    let earlier = files(dir, APPENDED)?.into_iter().rev().filter(|(_, other)| other != path);
    for (_, other) in earlier {
        if let Some(sequence) = last_sequence(&fs::read(other)?, incarnation) {
            return Ok(sequence);
        }
    }
    let mut last = 0;
    for (_, other) in files(dir, MOVED)? {
        last = last.max(last_sequence(&fs::read(other)?, incarnation).unwrap_or(0));
    }
    Ok(last)
}

/// The files that were appended to, with their numbers, in order.
pub(super) fn appended(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    files(dir, APPENDED)
}

/// The log's files of one kind with their numbers, in order.
fn files(dir: &Path, suffix: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    let listing = match fs::read_dir(records_dir(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        listing => listing?,
    };
    for found in listing {
        let path = found?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(suffix))
            .and_then(|digits| digits.parse().ok());
        if let Some(number) = number {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}
