//! How fast a log takes appends: embedded, or JetStream servers that run already.
//!
//!     append_speed embedded DIR                [SECONDS]
//!     append_speed nats://host:port REPLICAS   [SECONDS]
//!
//! For records of 1 KiB and 64 KiB, and for 1, 16 and 256 appends in flight, spread over four
//! groups: appends a second, and how long one takes, beside a reader that reads all of it.

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use plimsoll_log::embedded::{self, Embedded};
use plimsoll_log::jetstream::{Address, Jetstream, Options};
use plimsoll_log::{GroupId, Log, LogError, Lsn};

const GROUPS: u16 = 4;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("append_speed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let [engine, second, rest @ ..] = arguments else {
        return Err("it needs `embedded DIR` or `nats://host:port REPLICAS`".into());
    };
    let seconds = rest.first().map_or(Ok(3), |text| text.parse::<u64>())?;
    let log: Arc<dyn Log> = if engine == "embedded" {
        let options = embedded::Options { groups: GROUPS, ..embedded::Options::default() };
        Arc::new(Embedded::open(second.as_ref(), &options)?)
    } else {
        let options = Options { groups: GROUPS, replicas: second.parse()?, ..Options::default() };
        Arc::new(Jetstream::open(&Address::parse(engine)?, &options)?)
    };
    println!("record  in flight  appends/s    MiB/s  mean ms   p50 ms   p99 ms  read/s  failed");
    for record_bytes in [1 << 10, 64 << 10] {
        for in_flight in [1, 16, 256] {
            let lap = lap(&log, record_bytes, in_flight, Duration::from_secs(seconds))?;
            println!("{:>6}  {in_flight:>9}  {lap}", format!("{} K", record_bytes >> 10));
        }
    }
    Ok(())
}

/// What appenders share.
struct Load {
    log: Arc<dyn Log>,
    record: Bytes,
    is_over: AtomicBool,
    turn: AtomicU64,
    failed: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
    in_flight: Mutex<usize>,
    ended: Condvar,
}

/// One append after the other, each begun by the outcome of the one before.
fn append_next(load: &Arc<Load>) {
    if load.is_over.load(Ordering::Relaxed) {
        *load.in_flight.lock() -= 1;
        load.ended.notify_all();
        return;
    }
    let (begun, next) = (Instant::now(), Arc::clone(load));
    let turn = load.turn.fetch_add(1, Ordering::Relaxed);
    let group = GroupId(u16::try_from(turn % u64::from(GROUPS)).unwrap_or(0));
    let done = Box::new(move |outcome: Result<Lsn, _>| {
        if outcome.is_ok() {
            next.latencies.lock().push(begun.elapsed());
            append_next(&next);
        } else {
            // It ends here: a log that refuses would be asked again without end.
            next.failed.fetch_add(1, Ordering::Relaxed);
            *next.in_flight.lock() -= 1;
            next.ended.notify_all();
        }
    });
    load.log.append(group, load.record.clone(), done);
}

fn lap(
    log: &Arc<dyn Log>,
    record_bytes: usize,
    in_flight: usize,
    lasts: Duration,
) -> Result<String, Failure> {
    // Noise: nothing on the way may gain by compressing it.
    let mut record = vec![0; record_bytes];
    getrandom::fill(&mut record).map_err(|error| error.to_string())?;
    let ends: Result<Vec<_>, LogError> = (0..GROUPS)
        .map(|group| Ok((GroupId(group), log.bounds(GroupId(group))?.last.next())))
        .collect();
    let reading = Reading::start(log, &ends?)?;
    let load = Arc::new(Load {
        log: Arc::clone(log),
        record: record.into(),
        is_over: AtomicBool::new(false),
        turn: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        latencies: Mutex::default(),
        in_flight: Mutex::new(in_flight),
        ended: Condvar::new(),
    });
    let begun = Instant::now();
    (0..in_flight).for_each(|_| append_next(&load));
    std::thread::sleep(lasts);
    load.is_over.store(true, Ordering::Relaxed);
    let mut left = load.in_flight.lock();
    while *left > 0 {
        load.ended.wait(&mut left);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let read = reading.stop();
    let mut latencies = std::mem::take(&mut *load.latencies.lock());
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |share: usize| latencies.get(count * share / 100).copied().unwrap_or_default();
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let rate = count as f64 / seconds;
    let mean = latencies.iter().sum::<Duration>() / u32::try_from(count.max(1))?;
    Ok(format!(
        "{rate:>9.0}  {:>7.1}  {:>7.2}  {:>7.2}  {:>7.2}  {:>6.0}  {:>6}",
        rate * record_bytes as f64 / f64::from(1 << 20),
        ms(mean),
        ms(at(50)),
        ms(at(99)),
        read as f64 / seconds,
        load.failed.load(Ordering::Relaxed)
    ))
}

/// A reader on a thread of its own, that counts.
struct Reading {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Reading {
    fn start(log: &Arc<dyn Log>, from: &[(GroupId, Lsn)]) -> Result<Self, LogError> {
        let mut reader = log.read(from)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let run = move || {
            let mut count = 0;
            let mut entries = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                if reader.next(&mut entries, 8 << 20, Duration::from_millis(50)).is_err() {
                    break;
                }
                count += entries.len() as u64;
                entries.clear();
            }
            count
        };
        Ok(Self { is_over, thread: std::thread::spawn(run) })
    }

    fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(0)
    }
}
