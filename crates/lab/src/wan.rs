//! A wide-area link in user space: a relay of TCP between two ports of this machine that has the
//! delay, jitter, rate and loss it is told, in each direction, shared by all connections through it.
//! It relays whole streams, so that it stands in for what a wide-area network does to one:
//!
//! - bytes leave one after another at the rate, and arrive after the delay and what jitter adds;
//! - they keep their order: what is late holds up what follows;
//! - a lost segment comes a round trip later (fast retransmission), and what follows waits for it;
//! - no more is under way than twice what rate and delay ask for, then the sender is held up.
//!
//! - a connection has a window of its own ([`window`]), where its size is given: slow start, a bound
//!   and what a loss costs are its, as the two ends of the relay are near and know none of that.
//!
//! When a byte enters and arrives is a pure function of time and chance ([`window::Window`],
//! [`Link`]); threads carry it out.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plimsoll_control::Random;

use crate::sim::histogram;
use window::{SEGMENT_BYTES, Window};

pub mod window;

/// The most that is read at once; a larger burst would leave the rate behind.
const READ_BYTES: usize = 16 << 10;
/// The least and most chunks of a direction that are under way.
const CHUNKS: std::ops::RangeInclusive<usize> = 8..=4_096;
const CONNECTIONS_MAX: u64 = 512;
const STACK_BYTES: usize = 256 << 10;
const ACCEPT_POLL: Duration = Duration::from_millis(10);

/// What a link is like, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WanSettings {
    /// One way.
    pub delay: Duration,
    /// At most so much is added to the delay, uniformly.
    pub jitter: Duration,
    /// Bytes a second; 0 for no limit.
    pub rate_bytes_s: u64,
    /// The share of segments that is lost once, from 0 to 1.
    pub loss: f64,
    /// The most that one connection may have under way: what the buffers of its sockets hold. 0: its
    /// window is not modelled, and it fills the link at once.
    pub window_bytes_max: usize,
}

/// One direction of a link: when bytes that enter now arrive. Pure.
#[derive(Clone, Debug)]
pub struct Link {
    settings: WanSettings,
    random: Random,
    /// When the link has sent all that entered it, from the beginning of time.
    sent: Duration,
}

impl Link {
    /// An idle direction.
    #[must_use]
    pub fn new(settings: WanSettings, seed: u64) -> Self {
        Self { settings, random: Random::new(seed), sent: Duration::ZERO }
    }

    /// When so many bytes that enter at `now` have arrived, and whether a segment of them was lost
    /// first. It may lie before the arrival of what entered earlier; keeping the order is the
    /// connection's affair.
    pub fn arrival(&mut self, now: Duration, bytes: usize) -> (Duration, bool) {
        let of = &self.settings;
        let length = match of.rate_bytes_s {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        };
        self.sent = self.sent.max(now) + length;
        let segments = bytes.div_ceil(SEGMENT_BYTES);
        let lost = (0..segments).any(|_| self.random.unit() < of.loss);
        let again = if lost { of.delay * 2 } else { Duration::ZERO };
        (self.sent + of.delay + of.jitter.mul_f64(self.random.unit()) + again, lost)
    }
}

/// A relay that goes on until it is dropped.
pub struct Wan {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    settings: Mutex<WanSettings>,
    /// To the target, and back.
    links: [Mutex<Link>; 2],
    is_over: AtomicBool,
    connections: AtomicU64,
    carried_bytes: [AtomicU64; 2],
    under_way_bytes: [AtomicU64; 2],
    /// How much later than they arrive chunks were handed on, µs.
    late_us: Mutex<Histogram<u64>>,
}

/// Bytes under way, counted as such until they are dropped, with when they arrive.
struct UnderWay<'a> {
    arrival: Duration,
    bytes: Vec<u8>,
    counter: &'a AtomicU64,
}

impl<'a> UnderWay<'a> {
    fn new(arrival: Duration, bytes: &[u8], counter: &'a AtomicU64) -> Self {
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Self { arrival, bytes: bytes.to_vec(), counter }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wan {
    /// Listens on a free port of loopback and relays to `target`.
    ///
    /// # Errors
    /// Where there is no port or no thread to be had.
    pub fn start(target: SocketAddr, settings: WanSettings, seed: u64) -> io::Result<Self> {
        let link = |seed| Mutex::new(Link::new(settings, seed));
        let shared = Arc::new(Shared {
            began: Instant::now(),
            settings: Mutex::new(settings),
            links: [link(seed), link(seed ^ 1)],
            is_over: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            carried_bytes: [AtomicU64::new(0), AtomicU64::new(0)],
            under_way_bytes: [AtomicU64::new(0), AtomicU64::new(0)],
            late_us: Mutex::new(histogram()),
        });
        let address = shared.listen(target)?;
        Ok(Self { address, shared })
    }

    /// Listens on one more port and relays what comes there to another target, over the same link.
    ///
    /// # Errors
    /// Where there is no port or no thread to be had.
    pub fn also(&self, target: SocketAddr) -> io::Result<SocketAddr> {
        self.shared.listen(target)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the link is like for all that enters it from now on.
    pub fn change(&self, settings: WanSettings) {
        *lock(&self.shared.settings) = settings;
        for link in &self.shared.links {
            lock(link).settings = settings;
        }
    }

    /// Bytes carried to the target and back.
    #[must_use]
    pub fn carried_bytes(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.shared.carried_bytes[way].load(Ordering::Relaxed))
    }

    /// Bytes that have entered the link and not left it, to the target and back.
    #[must_use]
    pub fn under_way_bytes(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.shared.under_way_bytes[way].load(Ordering::Relaxed))
    }

    /// How much later than they arrive this machine handed chunks on since the last call, ms, 99th
    /// percentile. A receiver that takes nothing does not count: that is what a link does too.
    #[must_use]
    pub fn take_late_ms(&self) -> f64 {
        let taken = std::mem::replace(&mut *lock(&self.shared.late_us), histogram());
        taken.value_at_quantile(0.99) as f64 / 1e3
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, target: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::clone(self);
        let accept = move || shared.accept(&listener, target);
        thread::Builder::new().name("wan".to_owned()).spawn(accept)?;
        Ok(address)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener, target: SocketAddr) {
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok((near, _)) = listener.accept() else {
                thread::sleep(ACCEPT_POLL);
                continue;
            };
            if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let shared = Arc::clone(&self);
            let relay = move || {
                // What fails closes both ends, as a broken connection does.
                let _ = shared.relay(near, target);
                shared.connections.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().stack_size(STACK_BYTES).spawn(relay).is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn relay(&self, near: TcpStream, target: SocketAddr) -> io::Result<()> {
        near.set_nonblocking(false)?;
        // The handshake takes a round trip too.
        thread::sleep(lock(&self.settings).delay * 2);
        let far = TcpStream::connect(target)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ends = [(near.try_clone()?, far.try_clone()?), (far, near)];
        thread::scope(|scope| {
            for (way, (from, to)) in ends.into_iter().enumerate() {
                let settings = *lock(&self.settings);
                let (sender, receiver) = sync_channel(chunks(&settings));
                let (source, drain) = (from.try_clone()?, to.try_clone()?);
                scope.spawn(move || {
                    self.take(way, &from, &sender);
                    // The other half closes when what is under way has arrived.
                    drop(sender);
                });
                scope.spawn(move || {
                    if self.give(way, &to, &receiver).is_err() {
                        let _ = source.shutdown(Shutdown::Both);
                    }
                    let _ = drain.shutdown(Shutdown::Write);
                });
            }
            Ok(())
        })
    }

    /// Reads from one end and says when each chunk arrives at the other.
    fn take<'a>(&'a self, way: usize, mut from: &TcpStream, to: &SyncSender<UnderWay<'a>>) {
        let mut buffer = vec![0; READ_BYTES];
        let mut last = Duration::ZERO;
        let mut window = Window::new(lock(&self.settings).window_bytes_max);
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            let delay = lock(&self.settings).delay;
            let now = self.began.elapsed();
            let entry = window.entry(now, bytes, delay * 2);
            thread::sleep(entry.saturating_sub(now));
            let (arrival, is_lost) = lock(&self.links[way]).arrival(entry, bytes);
            last = last.max(arrival);
            window.entered(last, bytes, delay, is_lost);
            let chunk = UnderWay::new(last, &buffer[..bytes], &self.under_way_bytes[way]);
            if to.send(chunk).is_err() {
                return;
            }
        }
    }

    /// Writes every chunk when it has arrived.
    fn give(
        &self,
        way: usize,
        mut to: &TcpStream,
        from: &Receiver<UnderWay<'_>>,
    ) -> io::Result<()> {
        while let Ok(chunk) = from.recv() {
            let arrival = chunk.arrival;
            let left = arrival.saturating_sub(self.began.elapsed());
            if !left.is_zero() {
                thread::sleep(left);
                let late = self.began.elapsed().saturating_sub(arrival).as_micros();
                lock(&self.late_us).saturating_record(u64::try_from(late).unwrap_or(u64::MAX));
            }
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            to.write_all(&chunk.bytes)?;
            self.carried_bytes[way].fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Chunks under way that keep a link of this rate and delay busy, twice over: a sender fills it
/// whatever its chunks are.
fn chunks(settings: &WanSettings) -> usize {
    let rate = match settings.rate_bytes_s {
        0 => 1 << 30,
        rate => rate,
    };
    let under_way = rate as f64 * (settings.delay + settings.jitter).as_secs_f64() * 2.0;
    let chunks = plimsoll_control::average::whole(under_way / SEGMENT_BYTES as f64);
    usize::try_from(chunks).unwrap_or(*CHUNKS.end()).clamp(*CHUNKS.start(), *CHUNKS.end())
}

#[cfg(test)]
mod tests;
