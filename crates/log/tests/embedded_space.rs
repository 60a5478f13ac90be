//! The embedded log and the disk: a full one, and space that comes back.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_log::embedded::{Embedded, Options};
use plimsoll_log::{AppendError, GroupId, Log, Lsn};

const FOREVER: Duration = Duration::from_secs(60);

fn open(dir: &Path) -> Embedded {
    let small = Options { groups: 2, cache_bytes_max: 0, ..Options::default() };
    Embedded::open(dir, &small).unwrap()
}

fn append(log: &Embedded, group: u16, record: Vec<u8>) -> Result<Lsn, AppendError> {
    let (tell, told) = sync_channel(1);
    let done = move |outcome| tell.send(outcome).unwrap();
    log.append(GroupId(group), Bytes::from(record), Box::new(done));
    told.recv_timeout(FOREVER).unwrap()
}

/// Waits for something that the log does by itself.
fn until(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < FOREVER, "it never happens");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_holds(log: &Embedded, group: u16, expected: &[Vec<u8>]) {
    let mut reader = log.read(&[(GroupId(group), Lsn(1))]).unwrap();
    let mut entries = Vec::new();
    while entries.len() < expected.len() {
        reader.next(&mut entries, 1 << 20, FOREVER).unwrap();
    }
    for (lsn, (entry, record)) in (1..).zip(entries.iter().zip(expected)) {
        assert!(entry.lsn == Lsn(lsn) && entry.record == *record, "LSN {lsn}");
    }
    assert_eq!(log.bounds(GroupId(group)).unwrap().last, Lsn(expected.len() as u64));
}

/// A file system of its own, in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "plimsoll-test"])
            .arg(dir.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            Ok(output) => {
                eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                eprintln!("skipped: no mount: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut filler = fs::File::create(self.path().join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_appends_and_the_log_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount("size=16m") else { return };
    let dir = disk.path().join("log");
    let filler = disk.path().join("filler");
    let log = open(&dir);
    let mut held: Vec<Vec<u8>> = Vec::new();
    for round in 0..3u8 {
        fs::write(&filler, vec![1; 6 << 20]).unwrap();
        let mut refused = 0;
        while refused < 3 {
            let record = vec![held.len() as u8; 300_000 + usize::from(round)];
            match append(&log, 0, record.clone()) {
                Ok(lsn) => {
                    held.push(record);
                    assert_eq!(lsn, Lsn(held.len() as u64));
                }
                Err(AppendError::Refused(_)) => refused += 1,
                Err(unknown) => panic!("{unknown}"),
            }
        }
        assert_eq!(log.health(), Ok(()), "a full disk is no reason to stop for good");
        assert_holds(&log, 0, &held);
        fs::remove_file(&filler).unwrap();
        let record = vec![7; 1000];
        // For a moment after a failure nothing is tried.
        until(|| append(&log, 0, record.clone()).is_ok());
        held.push(record);
        assert_holds(&log, 0, &held);
        if held.len() > 30 {
            break;
        }
    }
    drop(log);
    assert_holds(&open(&dir), 0, &held);
}

#[test]
fn a_log_on_a_full_disk_can_be_opened_and_read() {
    let Some(disk) = SmallDisk::mount("size=8m") else { return };
    let dir = disk.path().join("log");
    let held = vec![vec![1; 100_000], vec![2; 100_000]];
    let log = open(&dir);
    for record in &held {
        append(&log, 1, record.clone()).unwrap();
    }
    drop(log);
    disk.fill();
    let log = open(&dir);
    assert_holds(&log, 1, &held);
    assert!(matches!(append(&log, 1, vec![3; 5 << 20]), Err(AppendError::Refused(_))));
    assert_eq!(log.health(), Ok(()));
}

#[test]
fn a_small_disk_is_enough_for_a_log_that_is_trimmed() {
    let Some(disk) = SmallDisk::mount("size=290m") else { return };
    let log = open(&disk.path().join("log"));
    // The other group's only record stands in the oldest file, and is never trimmed.
    append(&log, 1, vec![0x55; 1000]).unwrap();
    for _ in 0..200 {
        let mut last = Lsn(0);
        until(|| match append(&log, 0, vec![0x66; 4 << 20]) {
            Ok(lsn) => {
                last = lsn;
                true
            }
            Err(_) => false,
        });
        log.trim(GroupId(0), last).unwrap();
    }
    let mut reader = log.read(&[(GroupId(1), Lsn(1))]).unwrap();
    let mut entries = Vec::new();
    reader.next(&mut entries, 1 << 20, FOREVER).unwrap();
    assert_eq!(entries[0].record, vec![0x55; 1000]);
}

#[test]
fn a_full_disk_is_no_reason_not_to_give_space_back() {
    let Some(disk) = SmallDisk::mount("size=280m") else { return };
    let dir = disk.path().join("log");
    let log = open(&dir);
    let mut last = Lsn(0);
    while files(&dir).len() < 3 {
        last = append(&log, 0, vec![0x33; 4 << 20]).unwrap();
    }
    disk.fill();
    let large = || vec![0x44; 5 << 20];
    assert!(matches!(append(&log, 0, large()), Err(AppendError::Refused(_))));
    log.trim(GroupId(0), last).unwrap();
    // What the trim gives back is the log's again.
    until(|| append(&log, 0, large()).is_ok());
    assert_eq!(log.bounds(GroupId(0)).unwrap().last, last.next());
    drop(log);
    assert_eq!(open(&dir).bounds(GroupId(0)).unwrap().last, last.next());
}

fn files(dir: &Path) -> Vec<PathBuf> {
    files_of(dir, "raftlog")
}

fn files_of(dir: &Path, wanted: &str) -> Vec<PathBuf> {
    let listing = fs::read_dir(dir.join("records")).unwrap();
    let paths = listing.map(|found| found.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == wanted)).collect()
}

/// Also where a quiet group has its only records in the oldest file.
#[test]
fn trimmed_files_are_given_back_and_quiet_groups_keep_their_records() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let quiet = vec![b"quiet".to_vec(), b"group".to_vec()];
    for record in &quiet {
        append(&log, 1, record.clone()).unwrap();
    }
    let mut last = Lsn(0);
    while files(dir.path()).len() < 6 {
        last = append(&log, 0, vec![0x77; 4 << 20]).unwrap();
    }
    log.trim(GroupId(0), last).unwrap();
    until(|| files(dir.path()).len() <= 3);
    assert_holds(&log, 1, &quiet);
    let next = append(&log, 0, b"more".to_vec()).unwrap();
    assert_eq!(next, last.next());
    drop(log);
    let log = open(dir.path());
    assert_holds(&log, 1, &quiet);
    assert_eq!(log.bounds(GroupId(0)).unwrap().first, last);
    assert_eq!(append(&log, 1, b"third".to_vec()).unwrap(), Lsn(3));
}

/// A log whose second group has its only record in the oldest file.
fn with_quiet_group() -> (tempfile::TempDir, Embedded, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let quiet = vec![b"quiet".to_vec()];
    append(&log, 1, quiet[0].clone()).unwrap();
    (dir, log, quiet)
}

/// Of 70 MiB that are garbage no more than a file is left.
#[test]
fn a_small_log_gives_back_what_is_trimmed_too() {
    let (dir, log, quiet) = with_quiet_group();
    let mut last = Lsn(0);
    for _ in 0..70 {
        last = append(&log, 0, vec![0x77; 1 << 20]).unwrap();
    }
    let bytes = || -> u64 { files(dir.path()).iter().map(|it| it.metadata().unwrap().len()).sum() };
    assert!(bytes() > 70 << 20);
    log.trim(GroupId(0), last).unwrap();
    until(|| bytes() < 34 << 20);
    assert_holds(&log, 1, &quiet);
    drop(log);
    assert_holds(&open(dir.path()), 1, &quiet);
}

/// Each time that space is given back a file for what is moved is begun; the record of a quiet group, once moved,
/// would keep all of them.
#[test]
fn files_of_what_was_moved_do_not_pile_up() {
    let (dir, log, quiet) = with_quiet_group();
    let newest = || files(dir.path()).into_iter().max();
    let write = |round| {
        for _ in 0..20 {
            append(&log, 0, vec![0x77; 1 << 20]).unwrap();
        }
        // More records than are moved without being asked for are left in the files.
        let mut last = Lsn(0);
        for _ in 0..40 {
            last = append(&log, 0, vec![round; 100]).unwrap();
        }
        log.trim(GroupId(0), Lsn(last.0 - 40)).unwrap();
    };
    let (mut held, mut writes) = (Vec::new(), 0);
    for round in 0..12 {
        let before = newest();
        let mut written_at = None;
        until(|| {
            // How much is garbage is an estimate: on a slow disk it may not be due before more is written.
            if written_at.is_none_or(|at: Instant| at.elapsed() > Duration::from_secs(5)) {
                write(round);
                writes += 1;
                written_at = Some(Instant::now());
            }
            newest() != before && files(dir.path()).len() < 4
        });
        held.push(files_of(dir.path(), "rewrite").len());
    }
    assert!(held.iter().all(|files| *files < 12), "{held:?}");
    assert!(writes < 18, "put off {} times of 12", writes - 12);
    assert_holds(&log, 1, &quiet);
    drop(log);
    assert_holds(&open(dir.path()), 1, &quiet);
}
