//! A log in a process that has as many files open as it may. It has a process of its own: the limit
//! is the process's.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::fs::File;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::embedded::{Embedded, Options};
use plimsoll_log::{AppendError, GroupId, Log, Lsn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const GROUP: GroupId = GroupId(0);
const FILES_MAX: u64 = 128;
/// Longer than what the log refuses appends for before it tries again.
const PAUSE: Duration = Duration::from_millis(150);

fn append(log: &Embedded) -> Result<Lsn, AppendError> {
    let (tell, told) = sync_channel(1);
    let done = move |outcome| tell.send(outcome).unwrap();
    log.append(GROUP, Bytes::from_static(&[7; 1 << 20]), Box::new(done));
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// Opens all files that may still be opened, those too that the log's own threads had open for a moment.
fn open_all(taken: &mut Vec<File>) {
    for _ in 0..3 {
        taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        std::thread::sleep(PAUSE);
    }
}

fn assert_is_refused(log: &Embedded) {
    std::thread::sleep(PAUSE);
    let refused = append(log);
    assert!(
        matches!(&refused, Err(AppendError::Refused(text)) if text.contains("open files")),
        "{refused:?}"
    );
    assert_eq!(log.health(), Ok(()));
}

#[test]
fn a_log_without_a_file_to_open_refuses_appends_until_there_is_one() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES_MAX), ..limit }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    let mut last = append(&log).unwrap();
    let mut taken = Vec::new();
    open_all(&mut taken);
    // What the file has room for is appended.
    while let Ok(lsn) = append(&log) {
        assert_eq!(lsn, last.next());
        last = lsn;
    }
    assert_is_refused(&log);
    // One is not enough: the folder has to be opened as well.
    open_all(&mut taken);
    taken.pop();
    assert_is_refused(&log);
    drop(taken);
    std::thread::sleep(PAUSE);
    for _ in 0..3 {
        let lsn = append(&log).unwrap();
        assert_eq!(lsn, last.next());
        last = lsn;
    }
    drop(log);
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    assert_eq!(log.bounds(GROUP).unwrap().last, last);
}
