//! One connection of a follower: how long it may take to show a key, and how long it may be there
//! without a question. What is asked over it is the service's.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::shares::{Share, Shares};
use crate::accept::Refusals;
use crate::places::Place;

/// How long a connection may take to show a key that holds, the handshake of TLS included.
pub(super) const KEY_TIME: Duration = Duration::from_secs(10);
/// How long it may be there without a question. A follower that lives asks every few seconds.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// The places for connections, of which each key has as many as it leaves to others.
pub(super) struct KeyPlaces {
    pub(super) room: Arc<Semaphore>,
    pub(super) shares: Arc<Shares>,
}

impl KeyPlaces {
    /// Takes one for a connection that is open already.
    fn take(&self, key: &str) -> Option<Share> {
        self.shares.take(key, self.room.available_permits() + 1)
    }
}

/// Why a stranger goes that has to give way.
pub(super) const MOVED: &str = "too many connections have shown no key";

/// What is known of a connection, for those that answer over it.
#[derive(Clone)]
pub(super) struct Standing(Arc<PeerConnection>);

struct PeerConnection {
    remote: SocketAddr,
    started: Instant,
    /// There until a key was shown: strangers are fewer than connections.
    stranger: Mutex<Option<Place>>,
    places: Arc<KeyPlaces>,
    /// The key's that was shown first.
    share: Mutex<Option<Share>>,
    /// When the last question began or ended, ms after the start; 0 while no key was shown.
    last_ms: AtomicU64,
    under_way: AtomicUsize,
    refusals: Arc<Refusals>,
}

impl Standing {
    pub(super) fn new(
        remote: SocketAddr,
        stranger: Place,
        places: Arc<KeyPlaces>,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self(Arc::new(PeerConnection {
            remote,
            started: Instant::now(),
            stranger: Mutex::new(Some(stranger)),
            places,
            share: Mutex::new(None),
            last_ms: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            refusals,
        }))
    }

    /// A key was shown that holds. False where it has as many connections as it leaves to others.
    pub(super) fn know(&self, key: &str, now: Instant) -> bool {
        if !self.is_known() {
            let Some(share) = self.0.places.take(key) else { return false };
            self.0.share.lock().get_or_insert(share);
            self.0.stranger.lock().take();
        }
        self.touch(now);
        true
    }

    /// A question begins; it ends when what this gives goes.
    pub(super) fn ask(&self) -> Asked {
        self.0.under_way.fetch_add(1, Relaxed);
        Asked(self.clone())
    }

    /// A question was refused.
    pub(super) fn say_refused(&self, why: &str) {
        self.0.refusals.say(Some(self.0.remote), &why);
    }

    /// Completes where it has to give way to another stranger; none where it is none.
    pub(super) fn moved(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.0.stranger.lock().as_ref().map(Place::ended)
    }

    fn is_known(&self) -> bool {
        self.0.last_ms.load(Relaxed) != 0
    }

    fn touch(&self, now: Instant) {
        let after = now.saturating_duration_since(self.0.started);
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.0.last_ms.store(after_ms.max(1), Relaxed);
    }

    /// Until when the connection may stay if nothing happens; what is under way keeps it.
    fn until(&self, now: Instant) -> Instant {
        match self.0.last_ms.load(Relaxed) {
            0 => self.0.started + KEY_TIME,
            _ if self.0.under_way.load(Relaxed) > 0 => now + IDLE_TIME,
            last_ms => self.0.started + Duration::from_millis(last_ms) + IDLE_TIME,
        }
    }
}

/// A question under way.
pub(super) struct Asked(Standing);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Relaxed);
        self.0.touch(Instant::now());
    }
}

/// The connection, which counts as open while it is there.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    standing: Standing,
    timer: Pin<Box<Sleep>>,
    /// Completes where a stranger has to give way; there until a key was shown.
    moved: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _room: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(
        stream: TlsStream<TcpStream>,
        standing: Standing,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let timer = Box::pin(sleep_until(standing.until(Instant::now())));
        let moved = standing.moved().map(|moved| Box::pin(moved) as _);
        Self { stream, standing, timer, moved, _room: room }
    }

    /// Whether its time is over. Asked at every read, so that who sends without end is seen too; and at
    /// every write, because who reads nothing lets nobody come to a read.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.standing.is_known() {
            self.moved = None;
        }
        if let Some(moved) = &mut self.moved
            && moved.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(io::Error::new(io::ErrorKind::ConnectionAborted, MOVED));
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let until = self.standing.until(now);
            if until <= now {
                let words = match self.standing.0.last_ms.load(Relaxed) {
                    0 => "no key was shown in time",
                    _ => "nothing was asked for long",
                };
                self.standing.say_refused(words);
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, words));
            }
            self.timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}

impl Connected for Connection {
    type ConnectInfo = Standing;

    fn connect_info(&self) -> Standing {
        self.standing.clone()
    }
}

/// Ends what was asked where the connection's time is over.
macro_rules! unless_over {
    ($connection:ident, $context:ident) => {
        if let Poll::Ready(over) = $connection.poll_over($context) {
            return Poll::Ready(Err(over));
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        unless_over!(self, context);
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        unless_over!(self, context);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        unless_over!(self, context);
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        unless_over!(self, context);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        unless_over!(self, context);
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_base::Time;

    use super::*;
    use crate::places::Places;

    #[test]
    fn a_stranger_has_seconds_and_a_silent_follower_minutes() {
        let strangers = Places::new(1);
        let remote: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let place = strangers.take(remote.ip()).unwrap();
        let places = KeyPlaces { room: Arc::new(Semaphore::new(2)), shares: Arc::default() };
        let standing = Standing::new(
            remote,
            place,
            Arc::new(places),
            Arc::new(Refusals::new("a test", &Time::of_the_machine())),
        );
        let start = standing.0.started;
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(standing.until(at(9)), start + KEY_TIME);
        assert_eq!(strangers.held(), 1);
        assert!(standing.know("key", at(9)));
        assert_eq!(standing.until(at(9)), at(9) + IDLE_TIME);
        assert_eq!(strangers.held(), 0, "it is no stranger any more");
        let asked = standing.ask();
        assert_eq!(standing.until(at(5000)), at(5000) + IDLE_TIME, "a question is under way");
        drop(asked);
        assert!(standing.know("key", at(10)));
        assert_eq!(standing.until(at(5000)), at(10) + IDLE_TIME);
    }

    #[test]
    fn one_key_leaves_as_many_connections_as_it_has() {
        let strangers = Places::new(16);
        let room = Arc::new(Semaphore::new(10));
        let places = Arc::new(KeyPlaces { room: Arc::clone(&room), shares: Arc::default() });
        let mut held = Vec::new();
        let mut come = |key: &str| {
            let remote: SocketAddr = "127.0.0.1:1".parse().unwrap();
            let permit = Arc::clone(&room).try_acquire_owned().unwrap();
            let refusals = Arc::new(Refusals::new("a test", &Time::of_the_machine()));
            let place = strangers.take(remote.ip()).unwrap();
            let standing = Standing::new(remote, place, Arc::clone(&places), refusals);
            let is_known = standing.know(key, standing.0.started);
            // Who is not let in goes.
            held.extend(is_known.then_some((permit, standing)));
            is_known
        };
        let one = (0..10).filter(|_| come("one")).count();
        let other = (0..10).filter(|_| come("other")).count();
        assert_eq!((one, other), (5, 3));
        assert!(come("third"));
    }
}
