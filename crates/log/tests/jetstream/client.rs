//! What the tests do with a log: appends whose outcomes are kept, and reads that check order.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use plimsoll_log::{AppendError, Entry, GroupId, Log, LogError, Lsn, Reader};

use crate::servers::FOREVER;

pub type Outcome = Result<Lsn, AppendError>;

/// Appends without waiting.
pub fn send(log: &dyn Log, group: u16, record: &[u8]) -> Receiver<Outcome> {
    let (tell, told) = sync_channel(1);
    let done = Box::new(move |outcome| {
        // A test that has failed already does not listen.
        let _ = tell.send(outcome);
    });
    log.append(GroupId(group), Bytes::copy_from_slice(record), done);
    told
}

pub fn append(log: &dyn Log, group: u16, record: &[u8]) -> Outcome {
    send(log, group, record).recv_timeout(FOREVER).unwrap()
}

/// Appends until it is taken: for a moment without a leader. Unknown outcomes are counted.
pub fn append_until_taken(log: &dyn Log, group: u16, record: &[u8]) -> (Lsn, usize) {
    let deadline = Instant::now() + FOREVER;
    let mut unknown = 0;
    loop {
        match append(log, group, record) {
            Ok(lsn) => return (lsn, unknown),
            Err(AppendError::Unknown(_)) => unknown += 1,
            Err(AppendError::Refused(_)) => std::thread::sleep(Duration::from_millis(20)),
        }
        assert!(Instant::now() < deadline, "no append was taken");
    }
}

/// Reads on until the position `to` was read, checking that positions are dense.
pub fn read_to(reader: &mut dyn Reader, from: u64, to: u64) -> Vec<Entry> {
    try_read_to(reader, from, to).unwrap()
}

/// As [`read_to`], where the servers may have been found to differ.
pub fn try_read_to(reader: &mut dyn Reader, from: u64, to: u64) -> Result<Vec<Entry>, LogError> {
    let mut entries: Vec<Entry> = Vec::new();
    let deadline = Instant::now() + FOREVER;
    while entries.last().map_or(from - 1, |entry| entry.lsn.0) < to {
        assert!(Instant::now() < deadline, "{} of {to} was read", from + entries.len() as u64 - 1);
        reader.next(&mut entries, 8 << 20, Duration::from_millis(200))?;
    }
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry.lsn.0, from + index as u64, "positions are dense");
    }
    Ok(entries)
}

/// Reads until an error comes.
pub fn read_to_error(reader: &mut dyn Reader) -> LogError {
    let deadline = Instant::now() + FOREVER;
    loop {
        let mut entries = Vec::new();
        match reader.next(&mut entries, 8 << 20, Duration::from_millis(200)) {
            Ok(()) => assert!(Instant::now() < deadline, "no error came"),
            Err(error) => return error,
        }
    }
}

/// A load of appends on one group, from one thread, some in flight at a time.
pub struct Load {
    state: Arc<(Mutex<LoadState>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct LoadState {
    in_flight: usize,
    is_over: bool,
    outcomes: BTreeMap<u64, Outcome>,
}

impl Load {
    /// Appends `prefix:number`, numbers from 0 on, until it is stopped.
    pub fn start(log: Arc<dyn Log>, group: u16, prefix: &'static str, in_flight: usize) -> Self {
        let state: Arc<(Mutex<LoadState>, Condvar)> = Arc::default();
        let shared = Arc::clone(&state);
        let run = move || {
            for number in 0_u64.. {
                let mut held = shared.0.lock();
                while held.in_flight >= in_flight && !held.is_over {
                    shared.1.wait(&mut held);
                }
                if held.is_over {
                    return;
                }
                held.in_flight += 1;
                drop(held);
                let told = Arc::clone(&shared);
                let done = Box::new(move |outcome: Outcome| {
                    let mut held = told.0.lock();
                    held.in_flight -= 1;
                    held.outcomes.insert(number, outcome);
                    drop(held);
                    told.1.notify_all();
                });
                let record = Bytes::from(format!("{prefix}:{number}"));
                log.append(GroupId(group), record, done);
            }
        };
        Self { state, thread: Some(std::thread::spawn(run)) }
    }

    /// How many appends were acknowledged until now.
    pub fn acknowledged(&self) -> usize {
        self.state.0.lock().outcomes.values().filter(|outcome| outcome.is_ok()).count()
    }

    /// Waits until this many more were acknowledged.
    pub fn await_more(&self, more: usize) {
        let (begin, deadline) = (self.acknowledged(), Instant::now() + FOREVER);
        while self.acknowledged() < begin + more {
            assert!(Instant::now() < deadline, "appends are not acknowledged");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the load; the outcome of every append by its number.
    pub fn stop(mut self) -> BTreeMap<u64, Outcome> {
        self.state.0.lock().is_over = true;
        self.state.1.notify_all();
        self.thread.take().unwrap().join().unwrap();
        let (lock, bell) = &*self.state;
        let mut held = lock.lock();
        while held.in_flight > 0 {
            assert!(!bell.wait_for(&mut held, FOREVER).timed_out(), "an append has no outcome");
        }
        std::mem::take(&mut held.outcomes)
    }
}

/// Checks outcomes against what the log holds: what was acknowledged stands where it was said,
/// what was refused stands nowhere, and nothing stands twice. Returns (acknowledged, unknown,
/// unknown but in the log).
pub fn check_outcomes(
    prefix: &str,
    outcomes: &BTreeMap<u64, Outcome>,
    entries: &[Entry],
) -> (usize, usize, usize) {
    let found = positions(prefix, entries);
    let (mut acknowledged, mut unknown, mut surfaced) = (0, 0, 0);
    let mut last = Lsn(0);
    for (number, outcome) in outcomes {
        let at = found.get(number);
        match outcome {
            Ok(lsn) => {
                assert_eq!(at, Some(lsn), "{prefix}:{number} was acknowledged");
                assert!(*lsn > last, "{prefix}:{number} was acknowledged out of order");
                last = *lsn;
                acknowledged += 1;
            }
            Err(AppendError::Refused(reason)) => {
                assert_eq!(at, None, "{prefix}:{number} was refused: {reason}");
            }
            Err(AppendError::Unknown(_)) => {
                unknown += 1;
                surfaced += usize::from(at.is_some());
            }
        }
    }
    (acknowledged, unknown, surfaced)
}

/// Where each append of a load stands in the log; none stands twice.
fn positions(prefix: &str, entries: &[Entry]) -> BTreeMap<u64, Lsn> {
    let mut found = BTreeMap::new();
    for entry in entries {
        let text = std::str::from_utf8(&entry.record).unwrap();
        let Some(number) = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')) else {
            continue;
        };
        let earlier = found.insert(number.parse().unwrap(), entry.lsn);
        assert_eq!(earlier, None, "{text} stands twice");
    }
    found
}

/// The first append that stands in the log, and not where it was acknowledged: what is read is
/// another log than the one that was written.
pub fn moved(prefix: &str, outcomes: &BTreeMap<u64, Outcome>, entries: &[Entry]) -> Option<String> {
    let found = positions(prefix, entries);
    outcomes.iter().find_map(|(number, outcome)| {
        let (lsn, at) = (outcome.as_ref().ok()?, found.get(number)?);
        (at != lsn).then(|| format!("{prefix}:{number} was acknowledged at {lsn}, and is at {at}"))
    })
}
