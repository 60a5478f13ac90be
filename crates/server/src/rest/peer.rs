//! A connection of HTTP as bytes: how long a peer may take over the head of a request. It knows
//! no HTTP; the service behind it says when a request is being answered.
//!
//! A connection that was never served has [`HEAD_TIME`] for its first request, and so has, where
//! the node has a password, one that has not shown it, for each. Any other may stand idle for as
//! long as it likes: clients keep connections for hours and expect them to be there. A head whose
//! first bytes come while none is being answered has to end in the same time. What came along with
//! an earlier request (pipelining) does not begin that time: only hyper knows whether it is the
//! part of a head, and a connection with one counts as idle until more comes.
//!
//! Who never shows who it is, where that is wanted, has [`STRANGER_TIME`] in all.
//!
//! On a connection of HTTP/2 other frames than heads come while nothing is answered. There only the time to
//! the first request runs, and to each of those that have not shown the password.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::AsyncRead as _;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::linger::LINGER;
use crate::node::Shared;
use crate::places::Place;
use crate::security::{Refused, principal::Principal};
use crate::tls::{H2, stream::Stream};

/// How long the head of a request may take.
pub const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a connection lasts on which nobody showed who it is, in all, whatever is under way: it may not take its
/// answers. A login may have to wait for its turn, twice.
const STRANGER_TIME: Duration = Duration::from_secs(30);

/// Who is at the other end, as far as that is known.
#[derive(Debug)]
pub struct Peer {
    /// Where it comes from.
    pub address: SocketAddr,
    /// By which name, and who that is.
    known_as: Mutex<Option<(String, Arc<Principal>)>>,
    was_served: AtomicBool,
    /// Requests that are being answered: on a connection of HTTP/1.1 one at the most.
    under_way: AtomicUsize,
    /// Heads that came.
    heads: AtomicU64,
    /// How often bytes went through, either way.
    moves: AtomicU64,
    is_late: AtomicBool,
    /// Its connection's; a request may outlive that.
    place: Weak<Place>,
}

impl Peer {
    /// A peer that has said nothing yet.
    #[must_use]
    pub(crate) fn new(address: SocketAddr, place: Weak<Place>) -> Self {
        Self {
            address,
            known_as: Mutex::new(None),
            was_served: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            heads: AtomicU64::new(0),
            moves: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            place,
        }
    }

    /// Notes that it need not show who it is.
    pub(crate) fn let_in(&self) {
        if let Some(place) = self.place.upgrade() {
            place.know();
        }
    }

    /// Whether what it showed last was right.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known_as.lock().is_some()
    }

    /// Who it is where it was right for the user, or the key, of this name.
    #[must_use]
    pub fn known_as(&self, name: &str) -> Option<Arc<Principal>> {
        let known_as = self.known_as.lock();
        known_as.as_ref().filter(|(known, _)| known == name).map(|(_, it)| Arc::clone(it))
    }

    /// Forgets as whom it was known where that one is not there any more.
    pub(crate) fn follow_users(&self, node: &Shared) {
        let known = self.known_as.lock().as_ref().map(|(_, it)| Arc::clone(it));
        if known.is_some_and(|it| node.security.again(&it).err() == Some(Refused::Unknown)) {
            self.know(None);
        }
    }

    /// Notes as whom it is known, by a name; none where what it showed was wrong, or was nothing.
    pub fn know(&self, who: Option<(&str, &Arc<Principal>)>) {
        if who.is_some() {
            self.let_in();
        }
        let mut known_as = self.known_as.lock();
        match (&mut *known_as, who) {
            (Some((known, kept)), Some((name, it))) if known == name => kept.clone_from(it),
            _ => *known_as = who.map(|(name, it)| (name.to_owned(), Arc::clone(it))),
        }
    }

    /// Notes that a whole head has come; until [`Self::answered`] bytes may take their time.
    pub fn answering(&self) {
        self.heads.fetch_add(1, Relaxed);
        self.under_way.fetch_add(1, Relaxed);
    }

    /// Notes that an answer went out to it.
    pub fn served(&self) {
        self.was_served.store(true, Relaxed);
    }

    /// Notes that a request is answered no longer, also where nobody waits for the answer.
    pub fn answered(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// Whether something is being answered, and how often bytes went through by now: an answer may have left its
    /// request behind and wait in the connection.
    #[must_use]
    pub fn activity(&self) -> (bool, u64) {
        (self.under_way.load(Relaxed) > 0, self.moves.load(Relaxed))
    }

    /// Whether it took too long over a head.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }
}

/// The bytes of a peer.
pub struct Bytes {
    io: TokioIo<Stream>,
    peer: Arc<Peer>,
    node: Arc<Shared>,
    is_http_2: bool,
    /// Heads that had come when it was last read from.
    heads: u64,
    /// When the head that is awaited must be there.
    due: Option<Instant>,
    /// The timer to that, once there was need to wait.
    timer: Option<Pin<Box<Sleep>>>,
    /// The end of a connection on which nobody showed who it is.
    stranger: Option<Pin<Box<Sleep>>>,
    /// Until when a peer's last bytes are read away, once everything is written.
    lingers: Option<Pin<Box<Sleep>>>,
}

impl Bytes {
    /// The bytes of a connection that was accepted now.
    #[must_use]
    pub fn new(stream: Stream, peer: Arc<Peer>, node: Arc<Shared>) -> Self {
        let is_http_2 = stream.protocol() == Some(H2);
        Self {
            io: TokioIo::new(stream),
            peer,
            node,
            is_http_2,
            heads: 0,
            due: None,
            timer: None,
            stranger: None,
            lingers: None,
        }
    }

    /// The socket, once nobody reads from it any more.
    #[must_use]
    pub fn into_inner(self) -> Stream {
        self.io.into_inner()
    }

    /// Whether a head is to come now, rather than at some time.
    fn is_head_due(&self) -> bool {
        !self.peer.was_served.load(Relaxed)
            || (!self.node.security.is_open() && !self.peer.is_known())
    }

    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.due.is_none() && self.is_head_due() {
            self.due = Some(head_due());
        }
        let Some(due) = self.due else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        std::task::ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(self.late()))
    }

    /// Pending for as long as a stranger may stay.
    fn poll_stranger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.node.security.is_open() || self.peer.is_known() {
            self.stranger = None;
            return Poll::Pending;
        }
        let timer = self.stranger.get_or_insert_with(|| Box::pin(sleep(STRANGER_TIME)));
        std::task::ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(self.late()))
    }

    fn late(&self) -> io::Error {
        self.peer.is_late.store(true, Relaxed);
        io::ErrorKind::TimedOut.into()
    }

    /// On a connection of HTTP/2: refuses to go on where the time is over, whatever else the peer sends or does
    /// not read.
    fn check_due(&self) -> io::Result<()> {
        let is_over = |due: Instant| Instant::now() >= due;
        let is_idle = || self.peer.under_way.load(Relaxed) == 0;
        match self.due {
            Some(due) if self.is_http_2 && is_over(due) && is_idle() => Err(self.late()),
            _ => Ok(()),
        }
    }

    /// The same where what is written has to wait for the peer.
    fn or_due<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.peer.moves.fetch_add(1, Relaxed);
        }
        if polled.is_pending()
            && let Poll::Ready(Err(late)) = self.poll_stranger(context)
        {
            return Poll::Ready(Err(late));
        }
        let waits = polled.is_pending() && self.is_http_2;
        if waits && self.peer.under_way.load(Relaxed) == 0 {
            return self
                .poll_due(context)
                .map(|late| late.and(Err(io::ErrorKind::TimedOut.into())));
        }
        polled
    }

    /// Reads away what a peer of HTTP/2 still sends after the end: see [`crate::linger`].
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.lingers.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut unread = [0; 4096];
        loop {
            let mut buffer = tokio::io::ReadBuf::new(&mut unread);
            match Pin::new(self.io.inner_mut()).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return timer.as_mut().poll(context).map(Ok),
            }
        }
    }
}

/// By when a head that begins now has to be there.
fn head_due() -> Instant {
    Instant::now() + HEAD_TIME
}

impl Read for Bytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.check_due()?;
        let polled = Pin::new(&mut this.io).poll_read(context, buffer);
        let heads = this.peer.heads.load(Relaxed);
        if this.heads != heads {
            this.heads = heads;
            this.due = None;
        }
        if polled.is_pending()
            && let Poll::Ready(late) = this.poll_stranger(context)
        {
            return Poll::Ready(late);
        }
        if this.peer.under_way.load(Relaxed) > 0 {
            return polled;
        }
        match polled {
            Poll::Pending => this.poll_due(context),
            Poll::Ready(read) => {
                if this.is_http_2 {
                    return Poll::Ready(read);
                }
                // A head has begun, or it goes on.
                this.due.get_or_insert_with(head_due);
                Poll::Ready(read)
            }
        }
    }
}

impl Write for Bytes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_due()?;
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.or_due(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_due()?;
        let polled = Pin::new(&mut self.io).poll_flush(context);
        self.or_due(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            std::task::ready!(Pin::new(&mut self.io).poll_shutdown(context))?;
        }
        match self.is_http_2 {
            true => self.poll_linger(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_due()?;
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.or_due(context, polled)
    }
}
