//! What only the inside of the engine can bring about: failing syncs.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::*;

fn append(log: &Embedded, record: &[u8]) -> Result<Lsn, AppendError> {
    let (tell, told) = sync_channel(1);
    let done = move |outcome| tell.send(outcome).unwrap();
    log.append(GroupId(0), Bytes::copy_from_slice(record), Box::new(done));
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

fn fail_sync(log: &Embedded) {
    let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
    log.core.watch.note(Path::new("a file"), Err(error));
}

#[test]
fn after_a_failed_sync_the_outcome_is_unknown_and_nothing_more_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    assert_eq!(append(&log, b"durable"), Ok(Lsn(1)));
    assert_eq!(log.health(), Ok(()));
    fail_sync(&log);
    let unknown = append(&log, b"unknown");
    assert!(matches!(&unknown, Err(AppendError::Unknown(text)) if text.contains("a file")));
    let refused = append(&log, b"refused");
    assert!(matches!(&refused, Err(AppendError::Refused(text)) if text.contains("opened anew")));
    assert!(log.health().unwrap_err().to_string().contains("sync of a file failed"));
    assert!(log.stats().stopped.is_some());
    // What is not known to be durable is not shown.
    assert_eq!(log.bounds(GroupId(0)).unwrap().last, Lsn(1));
    drop(log);
    assert!(dir.path().join("stopped").exists());
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    assert!(!dir.path().join("stopped").exists());
    let last = log.bounds(GroupId(0)).unwrap().last;
    assert!(last == Lsn(1) || last == Lsn(2), "{last}");
    assert_eq!(append(&log, b"again"), Ok(last.next()));
}

#[test]
fn bytes_after_a_position_are_known_about() {
    let dir = tempfile::tempdir().unwrap();
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    let after = |log: &Embedded, lsn| log.bytes_after(GroupId(0), Lsn(lsn)).unwrap();
    assert_eq!(after(&log, 0), Some(0));
    let record: &[u8; 1 << 20] = &[7; 1 << 20];
    for _ in 0..3 {
        append(&log, record).unwrap();
    }
    assert_eq!([0, 1, 3, 9].map(|lsn| after(&log, lsn)), [3 << 20, 2 << 20, 0, 0].map(Some));
    drop(log);
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    let held = after(&log, 0).unwrap();
    assert!(held >= 3 << 20, "what files take, {held}");
    append(&log, record).unwrap();
    assert_eq!(after(&log, 3), Some(1 << 20));
    log.trim(GroupId(0), Lsn(3)).unwrap();
    assert_eq!(after(&log, 0), Some(1 << 20));
    assert_eq!(log.bytes_after(GroupId(999), Lsn(0)).unwrap(), None);
}

#[test]
fn an_async_log_stops_at_a_failed_sync_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options { durability: Durability::Async, sync_interval_ms: 1, ..Options::default() };
    let log = Embedded::open(dir.path(), &options).unwrap();
    fail_sync(&log);
    assert!(matches!(append(&log, b"record"), Err(AppendError::Unknown(_))));
    assert!(matches!(append(&log, b"record"), Err(AppendError::Refused(_))));
    assert!(log.health().is_err());
}

#[test]
fn a_panic_in_an_outcome_s_receiver_stops_the_log_and_leaves_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let log = Embedded::open(dir.path(), &Options::default()).unwrap();
    let mut reader = log.read(&[(GroupId(1), Lsn(1))]).unwrap();
    log.append(GroupId(0), Bytes::from_static(b"x"), Box::new(|_| panic!("a caller's bug")));
    let ended = reader.next(&mut Vec::new(), 1, Duration::from_secs(60));
    assert!(matches!(ended, Err(LogError::Failed(text)) if text.contains("panicked")));
    assert!(matches!(append(&log, b"y"), Err(AppendError::Refused(_))));
    assert!(log.health().is_err());
}
