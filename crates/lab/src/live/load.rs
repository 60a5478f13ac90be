//! The load generator: clients on threads of their own that ask in a closed loop, each waiting for
//! its answer, or in an open one, by the clock, with latency counted from the moment a request was
//! due. Requests are picked by a seed. It starts no server and knows no experiment.
//!
//! A lap has a warm-up, which counts for nothing, and a measured window. Latency is that of the
//! requests issued in the window, whenever they end; throughput is of the answers in it. A request
//! that never came back counts with the time that was waited; one that was refused counts as
//! refused and has no latency, because a fast refusal is no fast answer.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plimsoll_control::Random;

use super::wire::{Connection, Ended, Protocol};
use crate::result::Spread;
use crate::stats;

/// The longest time that a histogram holds, µs.
const LATENCY_US_MAX: u64 = 600_000_000;
/// Requests of an open loop's schedule.
const SCHEDULED_MAX: usize = 5_000_000;
/// Of a client's thread: room for a store that it calls.
const CLIENT_STACK_BYTES: usize = 1 << 20;
/// Kinds of failures that are told apart.
const KINDS_MAX: usize = 20;
/// The kind of those of an open loop that no client was free for.
const UNSENT: &str = "unsent";
const HEARTBEAT: Duration = Duration::from_millis(5);
/// How long a client waits after its connection failed.
const RECONNECT: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_millis(50);

/// Where requests come from.
pub(crate) trait Source: Sync {
    /// The next request, with the number of its kind; `room` is for one that is made anew.
    fn next<'a>(&'a self, random: &mut Random, room: &'a mut Vec<u8>) -> (usize, &'a [u8]);

    /// Commands of each request, all of which are answered: more than one where clients pipeline.
    fn commands(&self) -> usize {
        1
    }

    /// Makes the next request by itself, on a store within this process; none where it is to be sent.
    fn call(&self, _: &mut Random) -> Option<Called> {
        None
    }
}

/// A request that was made without a connection.
pub(crate) struct Called {
    /// The number of its kind.
    pub(crate) kind: usize,
    /// When it was drawn and began.
    pub(crate) sent: Instant,
    pub(crate) ended: Ended,
}

/// Requests, rendered, of one or several kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// The bytes of each.
    pub(crate) rendered: Vec<Vec<u8>>,
    /// Where each kind ends in `rendered`, and the share of the requests up to it, from 0 to 1.
    pub(crate) kinds: Vec<(usize, f64)>,
}

impl Requests {
    /// Requests of one kind, each as likely as another.
    pub(crate) fn of_one_kind(rendered: Vec<Vec<u8>>) -> Self {
        let kinds = vec![(rendered.len(), 1.0)];
        Self { rendered, kinds }
    }

    /// Two kinds, of which the first gets this share of the requests.
    pub(crate) fn mixed(first: Vec<Vec<u8>>, second: Vec<Vec<u8>>, share: f64) -> Self {
        let ends = (first.len(), first.len() + second.len());
        let rendered = first.into_iter().chain(second).collect();
        Self { rendered, kinds: vec![(ends.0, share), (ends.1, 1.0)] }
    }
}

impl Source for Requests {
    fn next<'a>(&'a self, random: &mut Random, _: &'a mut Vec<u8>) -> (usize, &'a [u8]) {
        let drawn = random.unit();
        let mut begin = 0;
        for (kind, (end, share)) in self.kinds.iter().enumerate() {
            if drawn < *share && *end > begin {
                return (kind, &self.rendered[begin + random.below(end - begin)]);
            }
            begin = *end;
        }
        (0, self.rendered.last().map_or(&[], Vec::as_slice))
    }
}

/// How requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// So many clients, each waiting for its answer.
    Closed {
        /// How many, at least 1.
        clients: usize,
    },
    /// By the clock, at random moments (Poisson).
    Open {
        /// Requests a second.
        rate_ops_s: f64,
        /// The most that are under way at once; what is due while all are is late, and its latency
        /// says so.
        clients: usize,
    },
}

impl Pace {
    /// Connections at once.
    pub(crate) fn clients(self) -> usize {
        match self {
            Self::Closed { clients } | Self::Open { clients, .. } => clients.max(1),
        }
    }
}

/// One lap of load.
pub(crate) struct Load<'a> {
    /// Who is asked; clients are spread over them.
    pub(crate) addresses: &'a [String],
    pub(crate) protocol: Protocol,
    /// What a client asks first on each connection; nothing where it is empty.
    pub(crate) greeting: &'a [u8],
    pub(crate) requests: &'a dyn Source,
    pub(crate) pace: Pace,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// How long an answer is waited for.
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
}

/// What a lap saw.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// Of requests issued in the window, from when they were due, µs.
    pub(crate) latency_us: Histogram<u64>,
    /// The same, from when they were sent, µs.
    pub(crate) service_us: Histogram<u64>,
    /// [`Self::latency_us`] of each kind of request, by its number.
    pub(crate) by_kind_us: BTreeMap<usize, Histogram<u64>>,
    /// Requests issued in the window.
    pub(crate) issued: u64,
    pub(crate) partial: u64,
    pub(crate) refused: u64,
    /// By kind.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Answers in each second of the window.
    pub(crate) answered_by_second: Vec<u64>,
    /// The window's length, s.
    pub(crate) seconds: f64,
    /// How much later than it wanted the generator woke, µs.
    pub(crate) late_us: Histogram<u64>,
}

/// An empty histogram of µs, to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
        .unwrap_or_else(|e| unreachable!("these bounds are good: {e}"))
}

impl Taken {
    fn new(seconds: f64) -> Self {
        Self {
            latency_us: histogram(),
            service_us: histogram(),
            by_kind_us: BTreeMap::new(),
            issued: 0,
            partial: 0,
            refused: 0,
            failed: BTreeMap::new(),
            answered_by_second: Vec::new(),
            seconds,
            late_us: histogram(),
        }
    }

    /// Counts what another saw in the same window as well.
    pub(crate) fn add(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.latency_us, &other.latency_us),
            (&mut self.service_us, &other.service_us),
            (&mut self.late_us, &other.late_us),
        ] {
            into.add(from).unwrap_or_else(|e| unreachable!("the bounds are the same: {e}"));
        }
        for (kind, from) in &other.by_kind_us {
            let into = self.by_kind_us.entry(*kind).or_insert_with(histogram);
            into.add(from).unwrap_or_else(|e| unreachable!("the bounds are the same: {e}"));
        }
        self.issued += other.issued;
        self.partial += other.partial;
        self.refused += other.refused;
        for (kind, count) in &other.failed {
            *self.failed.entry(kind.clone()).or_default() += count;
        }
        for (second, count) in other.answered_by_second.iter().enumerate() {
            self.count_answer(second, *count);
        }
    }

    fn count_answer(&mut self, second: usize, count: u64) {
        if self.answered_by_second.len() <= second {
            self.answered_by_second.resize(second + 1, 0);
        }
        self.answered_by_second[second] += count;
    }

    /// Requests that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Answers in the window.
    pub(crate) fn answered(&self) -> u64 {
        self.answered_by_second.iter().sum()
    }

    /// Answers a second over the window.
    pub(crate) fn rate_ops_s(&self) -> f64 {
        self.answered() as f64 / self.seconds.max(1e-9)
    }

    /// Answers a second counted from the window's start, as it stood at each full second.
    pub(crate) fn throughput(&self) -> Spread {
        let mut so_far = 0;
        let mut rates = Vec::new();
        for (second, count) in self.answered_by_second.iter().enumerate() {
            so_far += count;
            let at_s = (second as f64 + 1.0).min(self.seconds);
            rates.push(so_far as f64 / at_s.max(1e-9));
        }
        Spread {
            min: rates.iter().copied().reduce(f64::min).unwrap_or(0.0),
            median: stats::median(&rates),
            mean: self.rate_ops_s(),
            max: rates.iter().copied().reduce(f64::max).unwrap_or(0.0),
        }
    }
}

/// Watches a lap while it runs.
pub(crate) trait Watch: Sync {
    /// An answer came after so many µs.
    fn answered(&self, latency_us: u64);
    /// Whether the lap is to end now.
    fn is_stopped(&self) -> bool;
}

/// What the clients of a lap share.
struct Course<'a> {
    load: &'a Load<'a>,
    watch: &'a dyn Watch,
    began: Instant,
    /// Moments of an open loop, from the beginning.
    schedule: Vec<Duration>,
    next: AtomicUsize,
    is_over: AtomicBool,
}

/// Runs a lap; returns when all its requests have ended.
pub(crate) fn run(load: &Load<'_>, watch: &dyn Watch) -> io::Result<Taken> {
    let schedule = match load.pace {
        Pace::Closed { .. } => Vec::new(),
        Pace::Open { rate_ops_s, .. } => {
            schedule(rate_ops_s, load.warm_up + load.window, load.seed)
        }
    };
    let course = Course {
        load,
        watch,
        began: Instant::now(),
        schedule,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    let total = Mutex::new(Taken::new(load.window.as_secs_f64()));
    thread::scope(|scope| {
        for number in 0..load.pace.clients() {
            let (course, total) = (&course, &total);
            let client = move || {
                let seen = course.client(number);
                lock(total).add(&seen);
            };
            let named = thread::Builder::new().name(format!("client-{number}"));
            let started = named.stack_size(CLIENT_STACK_BYTES).spawn_scoped(scope, client);
            if let Err(error) = started {
                course.is_over.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        let late_us = course.beat();
        course.is_over.store(true, Ordering::Relaxed);
        let ended = course.began.elapsed().saturating_sub(load.warm_up);
        let mut total = lock(&total);
        total.late_us = late_us;
        course.count_unsent(&mut total);
        total.seconds = total.seconds.min(ended.as_secs_f64());
        Ok(())
    })?;
    Ok(total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// The moments at which requests of an open loop are due.
fn schedule(rate_ops_s: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let mut random = Random::new(seed);
    let (mut at_s, mut moments) = (0.0, Vec::new());
    while rate_ops_s > 0.0 && moments.len() < SCHEDULED_MAX {
        at_s -= (1.0 - random.unit()).ln() / rate_ops_s;
        if at_s >= length.as_secs_f64() {
            break;
        }
        moments.push(Duration::from_secs_f64(at_s));
    }
    moments
}

impl Course<'_> {
    /// Sleeps in small steps to the end of the lap, and notes by how much each was too long: where
    /// this thread wakes late, the clients do.
    fn beat(&self) -> Histogram<u64> {
        let mut late_us = histogram();
        let end = self.began + self.load.warm_up + self.load.window;
        let mut polled = self.began;
        loop {
            let now = Instant::now();
            if now >= end || (now - polled > POLL && self.watch.is_stopped()) {
                return late_us;
            }
            polled = if now - polled > POLL { now } else { polled };
            thread::sleep(HEARTBEAT);
            late_us.saturating_record(micros(now.elapsed().saturating_sub(HEARTBEAT)));
        }
    }

    /// What was due in an open loop and never sent, because all clients were waiting, counts with
    /// the time that the first of it had waited by the end: who comes later waits for it too.
    fn count_unsent(&self, total: &mut Taken) {
        let end = (self.load.warm_up + self.load.window).min(self.began.elapsed());
        let sent = self.next.load(Ordering::Relaxed).min(self.schedule.len());
        let waiting = &self.schedule[sent..];
        let Some(first) = waiting.first() else { return };
        for due in waiting {
            if *due >= self.load.warm_up && *due < end {
                total.issued += 1;
                total.latency_us.saturating_record(micros(end - *first));
                *total.failed.entry(UNSENT.to_owned()).or_default() += 1;
            }
        }
    }

    fn client(&self, number: usize) -> Taken {
        let mut seen = Taken::new(0.0);
        let load = self.load;
        let mut random = Random::new(load.seed ^ ((number as u64 + 1) << 32));
        // There is none where requests are calls.
        let address = load.addresses.get(number % load.addresses.len().max(1));
        let mut connection: Option<Connection> = None;
        let mut room = Vec::new();
        while let Some(due) = self.next_due() {
            if let Some(Called { kind, sent, ended }) = load.requests.call(&mut random) {
                self.note(&mut seen, (kind, due, sent), ended);
                continue;
            }
            let (kind, request) = load.requests.next(&mut random, &mut room);
            let sent = Instant::now();
            let ended = match connection.take().filter(|open| !open.is_over()) {
                Some(open) => Ok(open),
                None => self.open(address.map_or("", String::as_str)),
            };
            let ended = ended.and_then(|mut open| {
                let ended = open.ask_all(request, load.requests.commands())?;
                connection = Some(open);
                Ok(ended)
            });
            let ended = ended.unwrap_or_else(|error| Ended::Failed(word(&error).to_owned()));
            self.note(&mut seen, (kind, due, sent), ended);
            if connection.is_none() {
                thread::sleep(RECONNECT);
            }
        }
        seen
    }

    fn open(&self, address: &str) -> io::Result<Connection> {
        let mut open = Connection::open(address, self.load.protocol, self.load.timeout)?;
        if !self.load.greeting.is_empty() && open.ask(self.load.greeting)? != Ended::Answered {
            return Err(io::Error::new(ErrorKind::InvalidData, "the greeting was refused"));
        }
        Ok(open)
    }

    /// When the next request is due; none at the end of the lap.
    fn next_due(&self) -> Option<Instant> {
        let over = || self.is_over.load(Ordering::Relaxed);
        if over() {
            return None;
        }
        if matches!(self.load.pace, Pace::Closed { .. }) {
            return Some(Instant::now());
        }
        let due = self.began + *self.schedule.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(due);
            }
            if over() {
                return None;
            }
            thread::sleep(left.min(POLL));
        }
    }

    fn note(
        &self,
        seen: &mut Taken,
        (of_kind, due, sent): (usize, Instant, Instant),
        ended: Ended,
    ) {
        let now = Instant::now();
        let (begin, length) = (self.began + self.load.warm_up, self.load.window);
        let is_answer = matches!(ended, Ended::Answered | Ended::Partial);
        let latency_us = micros(now - due);
        if is_answer {
            self.watch.answered(latency_us);
            if now >= begin && now - begin < length {
                let second = usize::try_from((now - begin).as_secs()).unwrap_or(0);
                seen.count_answer(second, 1);
            }
        }
        if due < begin || due - begin >= length {
            return;
        }
        seen.issued += 1;
        let has_latency = match ended {
            Ended::Answered => true,
            Ended::Partial => {
                seen.partial += 1;
                true
            }
            Ended::Refused => {
                seen.refused += 1;
                false
            }
            Ended::Failed(kind) => {
                let is_known = seen.failed.contains_key(&kind) || seen.failed.len() < KINDS_MAX;
                let kind = if is_known { kind } else { "other".to_owned() };
                // An error that the server gave is an answer of sorts; silence is not.
                let is_silence = kind.parse::<u16>().is_err();
                *seen.failed.entry(kind).or_default() += 1;
                is_silence
            }
        };
        if has_latency {
            seen.latency_us.saturating_record(latency_us);
            seen.by_kind_us.entry(of_kind).or_insert_with(histogram).saturating_record(latency_us);
            seen.service_us.saturating_record(micros(now - sent));
        }
    }
}

/// A failure in a word.
fn word(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "timeout",
        ErrorKind::ConnectionRefused => "connect",
        ErrorKind::InvalidData => "nonsense",
        _ => "closed",
    }
}

#[cfg(test)]
mod tests;
