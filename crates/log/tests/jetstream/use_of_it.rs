//! Appending, reading, trimming, limits: servers that are well.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::{AppendError, GroupId, Log, LogError, Lsn, RECORD_BYTES_MAX};

use crate::client::{Load, append, check_outcomes, read_to, read_to_error, send};
use crate::servers::{Servers, Version};

crate::on_both!(
    three_servers_keep_order_and_let_two_nodes_share_a_log,
    large_records_fit_and_larger_ones_are_refused,
    a_trimmed_beginning_is_told_and_never_skipped,
    appends_beyond_the_queue_are_refused,
);

fn three_servers_keep_order_and_let_two_nodes_share_a_log(version: Version) {
    let servers = Servers::start(version, 3);
    let one: Arc<dyn Log> = Arc::new(servers.open());
    let other: Arc<dyn Log> = Arc::new(servers.open_at(&[2]));
    assert_eq!(one.incarnation(), other.incarnation());
    let loads = [("one", &one), ("other", &other)]
        .map(|(name, log)| (name, Load::start(Arc::clone(log), 0, name, 64)));
    let outcomes = loads.map(|(name, load)| {
        load.await_more(500);
        (name, load.stop())
    });
    assert_eq!(append(&*one, 1, b"of the other group"), Ok(Lsn(1)));
    let last = one.bounds(GroupId(0)).unwrap().last;
    let mut reader = one.read(&[(GroupId(0), Lsn(0))]).unwrap();
    let entries = read_to(&mut *reader, 1, last.0);
    for (name, outcomes) in &outcomes {
        let (acknowledged, unknown, _) = check_outcomes(name, outcomes, &entries);
        assert!(acknowledged >= 500 && unknown == 0);
    }
    // Any other reader sees the same from where it begins, and the groups keep apart.
    let mut from_middle = other.read(&[(GroupId(0), Lsn(300)), (GroupId(1), Lsn(1))]).unwrap();
    let mut again = Vec::new();
    while again.len() + 299 < entries.len() + 1 {
        from_middle.next(&mut again, 1000, Duration::from_secs(5)).unwrap();
    }
    let (first, second): (Vec<_>, Vec<_>) =
        again.into_iter().partition(|entry| entry.group == GroupId(0));
    assert_eq!(first, entries[299..]);
    assert_eq!(second[0].record, b"of the other group"[..]);
}

fn large_records_fit_and_larger_ones_are_refused(version: Version) {
    let servers = Servers::start(version, 1);
    let log = servers.open();
    let large = vec![7; RECORD_BYTES_MAX];
    for lsn in 1..=3 {
        assert_eq!(append(&log, 0, &large), Ok(Lsn(lsn)));
    }
    assert_eq!(append(&log, 0, b""), Ok(Lsn(4)));
    let refused = append(&log, 0, &vec![7; RECORD_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    let refused = append(&log, 9, b"no such group");
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    let entries = read_to(&mut *reader, 1, 4);
    assert!(entries[..3].iter().all(|entry| entry.record == large));
    assert!(entries[3].record.is_empty());
    drop(log);
    assert!(matches!(read_to_error(&mut *reader), LogError::Failed(_)), "the log is closed");
}

fn a_trimmed_beginning_is_told_and_never_skipped(version: Version) {
    let servers = Servers::start(version, 1);
    let log = servers.open();
    for number in 1..=20_u8 {
        assert_eq!(append(&log, 1, &[number]), Ok(Lsn(number.into())));
    }
    let mut reader = log.read(&[(GroupId(1), Lsn(15))]).unwrap();
    read_to(&mut *reader, 15, 20);
    log.trim(GroupId(1), Lsn(10)).unwrap();
    assert_eq!(log.bounds(GroupId(1)).unwrap().last, Lsn(20));
    assert_eq!(log.bounds(GroupId(1)).unwrap().first, Lsn(10), "the last trimmed one is kept");
    assert_eq!(read_to(&mut *log.read(&[(GroupId(1), Lsn(11))]).unwrap(), 11, 20).len(), 10);
    match read_to_error(&mut *log.read(&[(GroupId(1), Lsn(5))]).unwrap()) {
        LogError::Trimmed { group: GroupId(1), first: Lsn(10), asked: Lsn(5) } => {}
        error => panic!("{error}"),
    }
    assert!(log.trim(GroupId(1), Lsn(21)).is_err(), "beyond the end");
    assert_eq!(append(&log, 1, b"on"), Ok(Lsn(21)));
    read_to(&mut *reader, 21, 21);
}

fn appends_beyond_the_queue_are_refused(version: Version) {
    let servers = Servers::start(version, 1);
    let mut options = servers.options();
    options.queue_bytes_max = 64 << 10;
    let log = plimsoll_log::jetstream::Jetstream::open(&servers.address(&[0]), &options).unwrap();
    let told: Vec<_> = (0..200).map(|_| send(&log, 0, &[0; 4096])).collect();
    let outcomes: Vec<_> = told.into_iter().map(|told| told.recv().unwrap()).collect();
    let taken: Vec<u64> = outcomes.iter().flatten().map(|lsn| lsn.0).collect();
    assert_eq!(taken, (1..=taken.len() as u64).collect::<Vec<_>>());
    let is_refused = |outcome| matches!(outcome, &Err(AppendError::Refused(_)));
    assert_eq!(outcomes.iter().filter(|it| is_refused(it)).count() + taken.len(), 200);
    assert!(taken.len() >= 15 && taken.len() < 200, "{} were taken", taken.len());
    let stats = &log.group_stats()[0];
    assert_eq!(stats.appends, taken.len() as u64);
    assert_eq!(stats.appends_refused, 200 - stats.appends);
    assert_eq!((stats.queue_length, stats.queue_bytes), (0, 0));
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    drop(log.read(&[(GroupId(0), Lsn(1))]));
    log.append(GroupId(0), Bytes::new(), Box::new(move |outcome| tell.send(outcome).unwrap()));
    drop(log);
    // Closing answers everybody.
    assert!(told.recv().is_ok());
}
