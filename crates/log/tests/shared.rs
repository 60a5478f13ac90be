//! A log that one process holds and others share, over real sockets.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_log::embedded::{Embedded, Options};
use plimsoll_log::shared::{Holder, Shared};
use plimsoll_log::{AppendError, Entry, GroupId, Log, LogError, Lsn, RECORD_BYTES_MAX, Reader};

const FOREVER: Duration = Duration::from_secs(60);

fn hold(dir: &Path, address: &str) -> (Arc<Embedded>, Holder) {
    let log = Arc::new(Embedded::open(dir, &Options { groups: 2, ..Options::default() }).unwrap());
    let address: SocketAddr = address.parse().unwrap();
    let shared: Arc<dyn Log> = Arc::<Embedded>::clone(&log);
    let holder = Holder::start(shared, 2, address).unwrap();
    (log, holder)
}

fn open(holder: &Holder) -> Shared {
    Shared::open(&format!("plimsoll://{}", holder.address()), FOREVER).unwrap()
}

fn append(log: &dyn Log, group: u16, record: &[u8]) -> Result<Lsn, AppendError> {
    let (tell, told) = sync_channel(1);
    let done = Box::new(move |outcome| tell.send(outcome).unwrap());
    log.append(GroupId(group), Bytes::copy_from_slice(record), done);
    told.recv_timeout(FOREVER).unwrap()
}

fn read(reader: &mut dyn Reader, count: usize) -> Vec<Entry> {
    let deadline = Instant::now() + FOREVER;
    let mut entries = Vec::new();
    while entries.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} were read", entries.len());
        reader.next(&mut entries, 1 << 20, Duration::from_millis(200)).unwrap();
    }
    entries
}

fn error(reader: &mut dyn Reader) -> LogError {
    let deadline = Instant::now() + FOREVER;
    loop {
        match reader.next(&mut Vec::new(), 1 << 20, Duration::from_millis(200)) {
            Ok(()) => assert!(Instant::now() < deadline, "no error came"),
            Err(error) => return error,
        }
    }
}

#[test]
fn processes_append_to_one_log_and_read_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (held, holder) = hold(dir.path(), "127.0.0.1:0");
    let [one, other] = [open(&holder), open(&holder)];
    assert_eq!((one.incarnation(), one.groups()), (held.incarnation(), 2));
    let mut tailing = other.read(&[(GroupId(0), Lsn(1)), (GroupId(1), Lsn(1))]).unwrap();
    assert_eq!(append(&one, 0, b"from one"), Ok(Lsn(1)));
    assert_eq!(append(&other, 0, b"from other"), Ok(Lsn(2)));
    assert_eq!(append(&*held, 0, b"from the holder"), Ok(Lsn(3)));
    let large = vec![5; RECORD_BYTES_MAX];
    assert_eq!(append(&one, 1, &large), Ok(Lsn(1)));
    let too_large = append(&one, 1, &vec![5; RECORD_BYTES_MAX + 1]);
    assert!(matches!(too_large, Err(AppendError::Refused(_))), "{too_large:?}");
    let no_group = append(&one, 7, b"nowhere");
    assert!(matches!(no_group, Err(AppendError::Refused(_))), "{no_group:?}");
    let (first, second): (Vec<_>, Vec<_>) =
        read(&mut *tailing, 4).into_iter().partition(|entry| entry.group == GroupId(0));
    let texts: Vec<_> = first.iter().map(|entry| &entry.record[..]).collect();
    assert_eq!(texts, [&b"from one"[..], b"from other", b"from the holder"]);
    assert_eq!(second[0].record, large);
    let mut from_second = one.read(&[(GroupId(0), Lsn(2))]).unwrap();
    assert_eq!(read(&mut *from_second, 2), first[1..]);
    assert_eq!(one.bounds(GroupId(0)).unwrap(), held.bounds(GroupId(0)).unwrap());
    one.trim(GroupId(0), Lsn(2)).unwrap();
    assert_eq!(one.bounds(GroupId(0)).unwrap().first, Lsn(3));
    let trimmed = error(&mut *one.read(&[(GroupId(0), Lsn(1))]).unwrap());
    assert!(matches!(trimmed, LogError::Trimmed { first: Lsn(3), asked: Lsn(1), .. }), "{trimmed}");
    assert!(one.trim(GroupId(9), Lsn(1)).is_err());
}

#[test]
fn a_reader_that_is_not_read_holds_nothing_up_and_goes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (held, holder) = hold(dir.path(), "127.0.0.1:0");
    let log = open(&holder);
    let mut reader = log.read(&[(GroupId(1), Lsn(1))]).unwrap();
    // More than is fetched ahead.
    let record = vec![7; 512 << 10];
    for _ in 0..6 {
        append(&*held, 1, &record).unwrap();
    }
    assert_eq!(read(&mut *reader, 6)[5].record, record);
    for _ in 0..6 {
        append(&*held, 1, &record).unwrap();
    }
    let begun = Instant::now();
    drop(reader);
    assert!(begun.elapsed() < FOREVER / 2);
}

#[test]
fn many_appends_in_flight_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let (_held, holder) = hold(dir.path(), "127.0.0.1:0");
    let log = open(&holder);
    let (tell, told) = sync_channel(5000);
    for number in 0..5000_u64 {
        let tell = tell.clone();
        let done = Box::new(move |outcome| tell.send((number, outcome)).unwrap());
        log.append(GroupId(0), Bytes::copy_from_slice(&number.to_le_bytes()), done);
    }
    for number in 0..5000 {
        assert_eq!(told.recv_timeout(FOREVER).unwrap(), (number, Ok(Lsn(number + 1))));
    }
    let entries = read(&mut *log.read(&[(GroupId(0), Lsn(1))]).unwrap(), 5000);
    assert!(
        entries.iter().zip(0_u64..).all(|(entry, number)| entry.record == number.to_le_bytes()[..])
    );
}

#[test]
fn a_holder_that_comes_back_is_found_and_another_log_is_not_taken_for_it() {
    let [dir, other_dir] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (held, holder) = hold(dir.path(), "127.0.0.1:0");
    let address = holder.address().to_string();
    let log = open(&holder);
    let mut reader = log.read(&[(GroupId(0), Lsn(1))]).unwrap();
    assert_eq!(append(&log, 0, b"before"), Ok(Lsn(1)));
    read(&mut *reader, 1);
    drop(holder);
    drop(held);
    let deadline = Instant::now() + FOREVER;
    while log.health().is_ok() {
        assert!(Instant::now() < deadline, "nobody misses the holder");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(append(&log, 0, b"to nobody"), Err(AppendError::Refused(_))));
    assert!(log.bounds(GroupId(0)).is_err());
    let (held, holder) = hold(dir.path(), &address);
    while log.health().is_err() {
        assert!(Instant::now() < deadline, "the holder is not found again");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(append(&log, 0, b"after"), Ok(Lsn(2)));
    assert_eq!(read(&mut *reader, 1)[0].record, &b"after"[..]);
    drop((held, holder));
    let (_other, _holder) = hold(other_dir.path(), &address);
    assert!(error(&mut *reader).to_string().contains("holds log"), "another log is read");
    while !log.health().unwrap_err().to_string().contains("holds log") {
        assert!(Instant::now() < deadline, "another log is taken for the same");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(append(&log, 0, b"to another"), Err(AppendError::Refused(_))));
}

#[test]
fn a_log_is_shared_on_this_machine_only() {
    let dir = tempfile::tempdir().unwrap();
    let log: Arc<dyn Log> = Arc::new(Embedded::open(dir.path(), &Options::default()).unwrap());
    assert!(Holder::start(log, 2, "0.0.0.0:0".parse().unwrap()).is_err());
    assert!(Shared::open("plimsoll://127.0.0.1:1", Duration::ZERO).is_err());
}
