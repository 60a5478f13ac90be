//! Takes connections in at a port, with the options that all of them have, and says in the log, once a second at
//! most, what became of those that it did not take. How many there may be, TLS and what they say are
//! their port's.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

/// The pause after the system refused to hand one over, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How often refusals are logged: strangers do not fill the disk.
const SAY_PAUSE: Duration = Duration::from_secs(1);
/// Whoever says nothing for this long is asked by the system whether it is still there: Redis' time.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(300);

/// What takes in the connections of one port.
pub(crate) struct Acceptor {
    listener: TcpListener,
    refusals: Refusals,
}

impl Acceptor {
    /// `whose` says what connections these are, in messages.
    pub(crate) fn new(listener: TcpListener, whose: &'static str, time: &Time) -> Self {
        Self { listener, refusals: Refusals::new(whose, time) }
    }

    /// Who connects next.
    pub(crate) async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, remote)) => match set_options(&stream) {
                    Ok(()) => return (stream, remote),
                    Err(error) => tracing::debug!(%remote, %error, "lost before it began"),
                },
                Err(error) => {
                    self.refusals.say(None, &error);
                    self.refusals.time.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Logs that a connection is not taken.
    pub(crate) fn refuse(&self, remote: SocketAddr, why: &dyn Display) {
        self.refusals.say(Some(remote), why);
    }
}

/// What was refused last, so that not each refusal is a line in the log.
pub(crate) struct Refusals {
    whose: &'static str,
    time: Time,
    said: Mutex<Option<Instant>>,
}

impl Refusals {
    /// Of connections of this kind.
    pub(crate) fn new(whose: &'static str, time: &Time) -> Self {
        Self { whose, time: time.clone(), said: Mutex::new(None) }
    }

    /// Logs a refusal, unless another was within a second.
    pub(crate) fn say(&self, remote: Option<SocketAddr>, why: &dyn Display) {
        let (now, mut said) = (self.time.now(), self.said.lock());
        if said.is_none_or(|at| now - at >= SAY_PAUSE) {
            *said = Some(now);
            drop(said);
            let remote = remote.map(tracing::field::display);
            tracing::warn!(remote, %why, "refused: a connection or question of {}", self.whose);
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}
