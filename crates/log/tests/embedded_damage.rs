//! What the embedded log does about damage to its files: a torn end is cut, anything else is
//! named and refused.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::embedded::{Durability, Embedded, Options};
use plimsoll_log::{Entry, GroupId, Log, LogError, Lsn};

const FOREVER: Duration = Duration::from_secs(60);

fn open(dir: &Path) -> Result<Embedded, LogError> {
    Embedded::open(dir, &Options { groups: 3, ..Options::default() })
}

/// A folder in memory where there is one: these tests open a log thousands of times, and what
/// a sync does to a disk is not their matter.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn append(log: &Embedded, group: u16, record: &[u8]) -> Lsn {
    let (tell, told) = sync_channel(1);
    let record = Bytes::copy_from_slice(record);
    log.append(GroupId(group), record, Box::new(move |outcome| tell.send(outcome).unwrap()));
    told.recv_timeout(FOREVER).unwrap().unwrap()
}

/// Every record of the log, or the error that keeps it from being read.
fn read_all(log: &Embedded) -> Result<Vec<Entry>, LogError> {
    let bounds: Vec<_> = (0..3).map(|group| log.bounds(GroupId(group)).unwrap()).collect();
    let from: Vec<_> = (0..3).map(GroupId).zip(bounds.iter().map(|held| held.first)).collect();
    let count: u64 = bounds.iter().map(|held| held.last.0 + 1 - held.first.0).sum();
    let mut reader = log.read(&from)?;
    let mut entries = Vec::new();
    while (entries.len() as u64) < count {
        reader.next(&mut entries, 1 << 20, FOREVER)?;
    }
    entries.sort_by_key(|entry| (entry.group, entry.lsn));
    Ok(entries)
}

fn open_and_read(dir: &Path) -> Result<Vec<Entry>, LogError> {
    read_all(&open(dir)?)
}

/// A folder as a killed process leaves it: its files while the log is still open. The mark is
/// the one of the open, so that nothing but the log's own headers says what was durable.
struct Killed {
    dir: tempfile::TempDir,
    /// The records in the order of their appends.
    records: Vec<(u16, Vec<u8>)>,
    /// How much of the last file is used, after each append.
    ends: Vec<u64>,
}

impl Killed {
    /// A log with an append of each of these groups, each committed by itself.
    fn after(groups: &[u16]) -> Self {
        Self::after_with(groups, Durability::Request)
    }

    fn after_with(groups: &[u16], durability: Durability) -> Self {
        let source = scratch();
        let options =
            Options { groups: 3, durability, sync_interval_ms: 3_600_000, ..Options::default() };
        let log = Embedded::open(source.path(), &options).unwrap();
        let (mut records, mut ends) = (Vec::new(), Vec::new());
        for (number, group) in groups.iter().enumerate() {
            let record = format!("record {number} of group {group}").into_bytes();
            append(&log, *group, &record);
            records.push((*group, record));
            let bytes = fs::read(last_file(source.path())).unwrap();
            ends.push(bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1);
        }
        let dir = scratch();
        copy(source.path(), dir.path());
        Self { dir, records, ends }
    }

    /// A copy of the folder, changed.
    fn with(&self, change: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
        let dir = scratch();
        copy(self.dir.path(), dir.path());
        let path = last_file(dir.path());
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        dir
    }

    /// The first `count` records as they are read.
    fn entries(&self, count: usize) -> Vec<Entry> {
        let mut last = [0; 3];
        let mut entries: Vec<_> = self.records[..count]
            .iter()
            .map(|(group, record)| {
                last[usize::from(*group)] += 1;
                let lsn = Lsn(last[usize::from(*group)]);
                Entry { group: GroupId(*group), lsn, record: Bytes::from(record.clone()) }
            })
            .collect();
        entries.sort_by_key(|entry| (entry.group, entry.lsn));
        entries
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for found in fs::read_dir(from).unwrap() {
        let path = found.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(dir.join("records")).unwrap();
    let mut files: Vec<_> = listing
        .map(|found| found.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "raftlog"))
        .collect();
    files.sort();
    files
}

fn last_file(dir: &Path) -> PathBuf {
    files(dir).pop().unwrap()
}

fn damaged(result: Result<Vec<Entry>, LogError>) -> String {
    match result {
        Err(LogError::Damaged(text)) => text,
        other => panic!("not damaged: {other:?}"),
    }
}

#[test]
fn a_killed_log_comes_back_whole() {
    let killed = Killed::after(&[0, 1, 0, 2, 2]);
    assert_eq!(open_and_read(killed.dir.path()).unwrap(), killed.entries(5));
}

/// A torn end: the file ends at every byte of the last three records. Nothing behind says that
/// they were durable, so the log opens with the records before, and goes on after them.
#[test]
fn an_end_cut_at_any_byte_of_the_last_records_keeps_all_before() {
    let killed = Killed::after(&[0, 1, 0, 1, 0]);
    for end in killed.ends[1]..=killed.ends[4] {
        let dir = killed.with(|bytes| bytes.truncate(end as usize));
        let whole = killed.ends.iter().filter(|whole| **whole <= end).count();
        assert_eq!(open_and_read(dir.path()).unwrap(), killed.entries(whole), "cut at byte {end}");
        let log = open(dir.path()).unwrap();
        let group = killed.records[whole % 5].0;
        let next = log.bounds(GroupId(group)).unwrap().last.next();
        assert_eq!(append(&log, group, b"more"), next);
        drop(log);
        assert_eq!(open_and_read(dir.path()).unwrap().len(), whole + 1);
    }
}

/// The first file, torn while it was made: there was no record yet, so there is none.
#[test]
fn a_log_torn_while_it_was_made_is_empty() {
    let made = scratch();
    drop(open(made.path()).unwrap());
    let length = fs::metadata(last_file(made.path())).unwrap().len();
    for end in 0..length {
        let dir = scratch();
        copy(made.path(), dir.path());
        fs::remove_file(dir.path().join("mark")).unwrap();
        let file = fs::OpenOptions::new().write(true).open(last_file(dir.path())).unwrap();
        file.set_len(end).unwrap();
        let log = open(dir.path()).unwrap();
        assert_eq!(append(&log, 0, b"first"), Lsn(1), "a header of {end} bytes");
        drop(log);
        assert_eq!(open_and_read(dir.path()).unwrap().len(), 1);
    }
}

/// The same with zeros instead of an early end, which is what a preallocated file shows.
#[test]
fn an_end_of_zeros_from_any_byte_of_the_last_records_keeps_all_before() {
    let killed = Killed::after(&[0, 1, 0, 1, 0]);
    for end in killed.ends[1]..killed.ends[4] {
        let dir = killed.with(|bytes| bytes[end as usize..].fill(0));
        let held = open_and_read(dir.path()).unwrap();
        let whole = killed.ends.iter().filter(|whole| **whole <= end).count();
        // A record may itself end in zeros, and so be whole one byte earlier.
        let kept = [whole, whole + 1].map(|count| killed.entries(count.min(5)));
        assert!(kept.contains(&held), "zeros from byte {end}: {held:?}");
    }
}

/// Every byte of the last record, flipped: the record goes, or the damage is named.
#[test]
fn any_flipped_byte_of_the_last_record_never_gives_a_wrong_record() {
    let killed = Killed::after(&[0, 1, 0]);
    for at in killed.ends[1]..killed.ends[2] {
        let dir = killed.with(|bytes| bytes[at as usize] ^= 0x41);
        match open_and_read(dir.path()) {
            Ok(entries) => assert_eq!(entries, killed.entries(2), "byte {at}"),
            Err(LogError::Damaged(text)) => assert!(text.contains(".raftlog"), "{text}"),
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

/// Every byte of a record with two synced ones behind it, flipped: the damage is named with its
/// file, at the open or when the record is read, and the files stay as they are.
#[test]
fn any_flipped_byte_in_the_middle_is_named_with_its_file() {
    let killed = Killed::after(&[0, 1, 0, 2, 1]);
    for at in killed.ends[1]..killed.ends[2] {
        let dir = killed.with(|bytes| bytes[at as usize] ^= 0x41);
        let path = last_file(dir.path());
        let before = fs::read(&path).unwrap();
        let text = damaged(open_and_read(dir.path()));
        assert!(text.contains(path.to_str().unwrap()) && text.contains("at byte"), "{text}");
        // An unused end may go, nothing else.
        let after = fs::read(&path).unwrap();
        assert!(before.starts_with(&after) && before[after.len()..].iter().all(|b| *b == 0));
    }
}

/// A whole record in the middle zeroed, which no checksum of the record itself can tell from an
/// unused end: the headers behind it say that it was durable, also those of other groups.
#[test]
fn zeros_in_the_middle_are_damage() {
    let killed = Killed::after(&[0, 1, 2, 2]);
    let middle = killed.ends[0] as usize..killed.ends[1] as usize;
    let dir = killed.with(|bytes| bytes[middle.clone()].fill(0));
    let text = damaged(open_and_read(dir.path()));
    let place = format!("`{}` at byte {}", last_file(dir.path()).display(), killed.ends[0]);
    assert!(text.starts_with(&place), "{text}");
}

/// The same in an `async` log that was never synced is a torn end: pages reach the disk in any
/// order. Everything from the first hole on goes.
#[test]
fn zeros_in_the_unsynced_part_of_an_async_log_are_a_torn_end() {
    let killed = Killed::after_with(&[0, 1, 2, 2], Durability::Async);
    let middle = killed.ends[0] as usize..killed.ends[1] as usize;
    let dir = killed.with(|bytes| bytes[middle].fill(0));
    assert_eq!(open_and_read(dir.path()).unwrap(), killed.entries(1));
    let log = open(dir.path()).unwrap();
    assert_eq!(append(&log, 2, b"anew"), Lsn(1));
}

/// After a clean end the mark says what was durable: any loss at the end is damage.
#[test]
fn a_cleanly_closed_log_may_not_lose_its_end() {
    let dir = scratch();
    let log = open(dir.path()).unwrap();
    append(&log, 0, b"first");
    append(&log, 1, b"last");
    drop(log);
    let path = last_file(dir.path());
    let length = fs::metadata(&path).unwrap().len();
    for cut in 1..length {
        let copied = scratch();
        copy(dir.path(), copied.path());
        let path = last_file(copied.path());
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - cut).unwrap();
        let text = damaged(open_and_read(copied.path()));
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
}

/// The mark of an idle log tells the loss of its last record from a torn end.
#[test]
fn an_idle_log_is_marked() {
    let source = scratch();
    let log = open(source.path()).unwrap();
    let unmarked = fs::read(source.path().join("mark")).unwrap();
    append(&log, 0, b"record");
    while fs::read(source.path().join("mark")).unwrap() == unmarked {
        std::thread::sleep(Duration::from_millis(5));
    }
    let dir = scratch();
    copy(source.path(), dir.path());
    let path = last_file(dir.path());
    let bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    fs::write(&path, &bytes[..used]).unwrap();
    let text = damaged(open_and_read(dir.path()));
    assert!(text.contains(path.to_str().unwrap()), "{text}");
}

#[test]
fn a_mark_that_is_not_whole_is_damage() {
    let dir = scratch();
    append(&open(dir.path()).unwrap(), 0, b"record");
    let path = dir.path().join("mark");
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        fs::write(&path, flipped).unwrap();
        assert!(damaged(open_and_read(dir.path())).contains("mark"));
    }
    fs::write(&path, bytes).unwrap();
    assert_eq!(open_and_read(dir.path()).unwrap().len(), 1);
}

/// A log of several files: one of them lost, or damaged where another file follows.
#[test]
fn a_lost_file_and_a_damaged_earlier_file_are_named() {
    let source = tempfile::tempdir().unwrap();
    let log = open(source.path()).unwrap();
    while files(source.path()).len() < 3 {
        append(&log, 0, &vec![0x5a; 8 << 20]);
    }
    append(&log, 0, b"last");
    drop(log);
    let names = files(source.path());
    let lose = |index: usize| {
        let dir = tempfile::tempdir().unwrap();
        copy(source.path(), dir.path());
        fs::remove_file(files(dir.path()).remove(index)).unwrap();
        damaged(open(dir.path()).map(|_| Vec::new()))
    };
    assert!(lose(1).contains(names[0].file_name().unwrap().to_str().unwrap()));
    assert!(lose(0).contains("records"), "records that were not trimmed are gone");
    assert!(lose(2).contains(names[1].file_name().unwrap().to_str().unwrap()));
    let path = names[1].clone();
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 1;
    bytes[end] ^= 1;
    fs::write(&path, bytes).unwrap();
    let text = damaged(open(source.path()).map(|_| Vec::new()));
    assert!(text.contains(path.to_str().unwrap()) && text.contains("more of the log"), "{text}");
}
