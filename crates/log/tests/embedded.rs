//! The embedded log as its users see it: order, reopening, readers, trims, limits, settings.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::embedded::{Durability, Embedded, Options};
use plimsoll_log::{AppendError, Entry, GroupId, Log, LogError, Lsn, RECORD_BYTES_MAX};

const FOREVER: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options { groups: 4, ..Options::default() }
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, &options()).unwrap()
}

fn append(log: &impl Log, group: u16, record: &[u8]) -> Result<Lsn, AppendError> {
    let (tell, told) = sync_channel(1);
    let record = Bytes::copy_from_slice(record);
    log.append(GroupId(group), record, Box::new(move |outcome| tell.send(outcome).unwrap()));
    told.recv_timeout(FOREVER).unwrap()
}

/// Reads `count` entries from these positions on.
fn read(log: &impl Log, from: &[(u16, u64)], count: usize, bytes_max: usize) -> Vec<Entry> {
    let from: Vec<_> = from.iter().map(|(group, lsn)| (GroupId(*group), Lsn(*lsn))).collect();
    let mut reader = log.read(&from).unwrap();
    let mut entries = Vec::new();
    while entries.len() < count {
        let before = entries.len();
        reader.next(&mut entries, bytes_max, FOREVER).unwrap();
        assert!(entries.len() > before, "nothing after {before} of {count} entries");
    }
    entries
}

fn record(group: u16, number: u64) -> Vec<u8> {
    format!("record {number} of group {group}").into_bytes()
}

fn assert_records(entries: &[Entry], group: u16, from: u64, count: u64) {
    let found: Vec<_> = entries
        .iter()
        .filter(|entry| entry.group == GroupId(group))
        .map(|entry| (entry.lsn.0, entry.record.to_vec()))
        .collect();
    let expected: Vec<_> = (from..from + count).map(|lsn| (lsn, record(group, lsn))).collect();
    assert_eq!(found, expected);
}

#[test]
fn concurrent_appenders_get_dense_positions_in_their_own_order() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(dir.path()));
    let threads: Vec<_> = (0..8u64)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let group = (thread % 4) as u16;
                let (tell, told) = sync_channel(200);
                for number in 0..200u64 {
                    let tell = tell.clone();
                    let bytes = Bytes::from(format!("{thread}:{number}"));
                    let done = move |outcome| tell.send((number, outcome)).unwrap();
                    log.append(GroupId(group), bytes, Box::new(done));
                }
                let outcomes: Vec<_> = told.iter().take(200).collect();
                let mut last = Lsn(0);
                for (index, (number, lsn)) in outcomes.into_iter().enumerate() {
                    assert_eq!(number, index as u64);
                    let lsn = lsn.unwrap();
                    assert!(lsn > last);
                    last = lsn;
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    for group in 0..4 {
        let entries = read(&*log, &[(group, 1)], 400, 1 << 20);
        assert_eq!(entries.len(), 400);
        for (lsn, entry) in (1..).zip(&entries) {
            assert_eq!(entry.lsn, Lsn(lsn));
        }
        for thread in [group, group + 4] {
            let prefix = format!("{thread}:");
            let numbers: Vec<u64> = entries
                .iter()
                .map(|entry| String::from_utf8(entry.record.to_vec()).unwrap())
                .filter_map(|text| text.strip_prefix(&prefix).map(|n| n.parse().unwrap()))
                .collect();
            assert_eq!(numbers, (0..200).collect::<Vec<_>>());
        }
    }
    let stats = log.stats();
    assert_eq!(stats.appends, 1600);
    assert!(stats.commits < 1600, "appends that wait are committed together");
    assert_eq!(stats.syncs, stats.commits);
    assert_eq!((stats.queue_length, stats.queue_bytes), (0, 0));
}

#[test]
fn reopening_keeps_the_incarnation_and_everything_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut incarnation = None;
    let mut count = 0;
    for _ in 0..4 {
        let log = open(dir.path());
        assert_eq!(*incarnation.get_or_insert(log.incarnation()), log.incarnation());
        for group in [0, 3] {
            for number in count + 1..=count + 5 {
                assert_eq!(append(&log, group, &record(group, number)), Ok(Lsn(number)));
            }
        }
        count += 5;
        let entries = read(&log, &[(0, 1), (3, 1)], 2 * count as usize, 1 << 20);
        assert_records(&entries, 0, 1, count);
        assert_records(&entries, 3, 1, count);
        assert_eq!(log.bounds(GroupId(3)).unwrap().last, Lsn(count));
        assert_eq!(log.bounds(GroupId(1)).unwrap().last, Lsn(0));
    }
}

#[test]
fn a_reader_goes_from_disk_over_to_memory_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    // Room for a few records only, so that most come from disk.
    let few = Options { cache_bytes_max: 1000, ..options() };
    let log = Embedded::open(dir.path(), &few).unwrap();
    for number in 1..=300 {
        append(&log, 1, &record(1, number)).unwrap();
        append(&log, 2, &record(2, number)).unwrap();
    }
    assert!(log.stats().cache_bytes <= 1000);
    for bytes_max in [1, 100, 1 << 20] {
        let entries = read(&log, &[(1, 1), (2, 51)], 550, bytes_max);
        assert_records(&entries, 1, 1, 300);
        assert_records(&entries, 2, 51, 250);
    }
}

#[test]
fn a_waiting_reader_is_woken_and_an_idle_one_comes_back_empty() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(dir.path()));
    let mut reader = log.read(&[(GroupId(0), Lsn(1)), (GroupId(1), Lsn(3))]).unwrap();
    let mut entries = Vec::new();
    reader.next(&mut entries, 1000, Duration::ZERO).unwrap();
    assert!(entries.is_empty());
    let waiting = std::thread::spawn(move || {
        let mut entries = Vec::new();
        while entries.len() < 2 {
            reader.next(&mut entries, 1000, FOREVER).unwrap();
        }
        entries
    });
    for number in 1..=3 {
        append(&*log, 1, &record(1, number)).unwrap();
    }
    append(&*log, 0, &record(0, 1)).unwrap();
    let entries = waiting.join().unwrap();
    assert_records(&entries, 0, 1, 1);
    assert_records(&entries, 1, 3, 1);
}

/// Counts how often it was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_record_wakes_the_readers_of_its_group_alone_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let [mut one, mut other] = [0, 1].map(|group| log.read(&[(GroupId(group), Lsn(1))]).unwrap());
    let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
    let [waker, of_other] = [0, 1].map(|at| Waker::from(Arc::clone(&wakes[at])));
    let mut entries = Vec::new();
    for lsn in 1..=3 {
        assert!(one.poll_ready(&mut Context::from_waker(&waker)).is_pending());
        assert!(other.poll_ready(&mut Context::from_waker(&of_other)).is_pending());
        append(&log, 0, &record(0, lsn)).unwrap();
        append(&log, 2, &record(2, lsn)).unwrap();
        assert!(one.poll_ready(&mut Context::from_waker(&waker)).is_ready());
        one.take(&mut entries, 1000).unwrap();
    }
    assert_records(&entries, 0, 1, 3);
    assert_eq!(wakes.map(|it| it.0.load(Ordering::SeqCst)), [3, 0]);
    // Nobody reads any more.
    drop(one);
    append(&log, 0, &record(0, 4)).unwrap();
}

#[test]
fn what_is_trimmed_is_gone_for_every_reader_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let trimmed = |result: Result<(), LogError>| match result {
        Err(LogError::Trimmed { group, first, asked }) => (group, first, asked),
        other => panic!("{other:?}"),
    };
    {
        let log = open(dir.path());
        for number in 1..=10 {
            append(&log, 2, &record(2, number)).unwrap();
        }
        let mut late = log.read(&[(GroupId(2), Lsn(4))]).unwrap();
        log.trim(GroupId(2), Lsn(6)).unwrap();
        log.trim(GroupId(2), Lsn(3)).unwrap();
        assert_eq!(log.bounds(GroupId(2)).unwrap().first, Lsn(7));
        let asked = late.next(&mut Vec::new(), 1000, FOREVER);
        assert_eq!(trimmed(asked), (GroupId(2), Lsn(7), Lsn(4)));
        let anew = log.read(&[(GroupId(2), Lsn(6))]).map(drop);
        assert_eq!(trimmed(anew), (GroupId(2), Lsn(7), Lsn(6)));
        assert_records(&read(&log, &[(2, 7)], 4, 1000), 2, 7, 4);
    }
    let log = open(dir.path());
    assert_eq!(log.bounds(GroupId(2)).unwrap().first, Lsn(7));
    assert_records(&read(&log, &[(2, 7)], 4, 1000), 2, 7, 4);
    // The last record stays, because the next position is counted from it.
    log.trim(GroupId(2), Lsn(u64::MAX)).unwrap();
    assert_eq!(log.bounds(GroupId(2)).unwrap().first, Lsn(10));
    drop(log);
    let log = open(dir.path());
    assert_eq!(append(&log, 2, &record(2, 11)), Ok(Lsn(11)));
    assert_records(&read(&log, &[(2, 10)], 2, 1000), 2, 10, 2);
}

#[test]
fn a_second_open_of_the_folder_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let error = Embedded::open(dir.path(), &options()).err().unwrap().to_string();
    assert!(error.contains(dir.path().to_str().unwrap()) && error.contains("open already"));
    drop(log);
    open(dir.path());
}

#[test]
fn another_format_and_a_lost_identity_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    append(&open(dir.path()), 0, b"x").unwrap();
    let identity = dir.path().join("identity");
    let text = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, text.replace("format 1", "format 2")).unwrap();
    let error = Embedded::open(dir.path(), &options()).err().unwrap();
    assert!(matches!(&error, LogError::Failed(text) if text.contains("format 2")), "{error}");
    std::fs::remove_file(&identity).unwrap();
    let error = Embedded::open(dir.path(), &options()).err().unwrap();
    assert!(matches!(&error, LogError::Damaged(text) if text.contains("identity")), "{error}");
}

#[test]
fn fewer_groups_than_the_log_holds_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    append(&open(dir.path()), 3, b"x").unwrap();
    let error = Embedded::open(dir.path(), &Options { groups: 3, ..options() }).err().unwrap();
    assert!(matches!(error, LogError::Failed(text) if text.contains("group 3")));
}

#[test]
fn what_cannot_be_taken_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = Embedded::open(dir.path(), &Options { queue_bytes_max: 1, ..options() }).unwrap();
    let refused = |outcome| matches!(outcome, Err(AppendError::Refused(_)));
    assert!(refused(append(&log, 4, b"no such group")));
    assert!(refused(append(&log, 0, &vec![0; RECORD_BYTES_MAX + 1])));
    // One append fits into an empty queue, whatever the limit; those behind it are refused.
    let (tell, told) = sync_channel(100);
    for _ in 0..100 {
        let tell = tell.clone();
        let record = Bytes::from(vec![1; 100_000]);
        log.append(GroupId(0), record, Box::new(move |outcome| tell.send(outcome).unwrap()));
    }
    let outcomes: Vec<_> = told.iter().take(100).collect();
    let taken = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    assert!((1..100).contains(&taken), "{taken} of 100");
    assert_eq!(log.bounds(GroupId(0)).unwrap().last, Lsn(taken));
    assert_eq!(append(&log, 0, &vec![0; RECORD_BYTES_MAX]), Ok(Lsn(taken + 1)));
    assert_eq!(log.stats().appends_failed, 102 - taken);
}

#[test]
fn an_async_log_publishes_before_it_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let hour = 3_600_000;
    let lazy = Options { durability: Durability::Async, sync_interval_ms: hour, ..options() };
    let log = Embedded::open(dir.path(), &lazy).unwrap();
    for number in 1..=10 {
        append(&log, 0, &record(0, number)).unwrap();
    }
    assert_records(&read(&log, &[(0, 1)], 10, 1000), 0, 1, 10);
    assert_eq!(log.stats().syncs, 0);
    log.set_durability(Durability::Request);
    append(&log, 0, &record(0, 11)).unwrap();
    assert_eq!(log.stats().syncs, 1);
    drop(log);
    assert_records(&read(&open(dir.path()), &[(0, 1)], 11, 1000), 0, 1, 11);
}

#[test]
fn an_async_log_is_synced_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let eager = Options { durability: Durability::Async, sync_interval_ms: 1, ..options() };
    let log = Embedded::open(dir.path(), &eager).unwrap();
    append(&log, 0, b"x").unwrap();
    while log.stats().syncs == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(log.health(), Ok(()));
}

#[test]
fn dropping_the_log_commits_what_waits_and_ends_its_readers() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let mut reader = log.read(&[(GroupId(0), Lsn(101))]).unwrap();
    let (tell, told) = sync_channel(100);
    for number in 1..=100 {
        let tell = tell.clone();
        let done = move |outcome| tell.send(outcome).unwrap();
        log.append(GroupId(0), Bytes::from(record(0, number)), Box::new(done));
    }
    drop(log);
    assert_eq!(told.iter().take(100).filter(|outcome| outcome.is_ok()).count(), 100);
    assert!(matches!(reader.next(&mut Vec::new(), 1, FOREVER), Err(LogError::Failed(_))));
    drop(reader);
    assert_records(&read(&open(dir.path()), &[(0, 1)], 100, 1 << 20), 0, 1, 100);
}
