//! Takes connections in at a port, with the options that all of them have. How many there may be, TLS and what
//! they say are their port's.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

/// The pause after the system refused to hand one over, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How often that is logged while it lasts.
const SAY_PAUSE: Duration = Duration::from_secs(1);
/// Whoever says nothing for this long is asked by the system whether it is still there: Redis' time.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(300);

/// Who connects next. `whose` says what connections these are, in messages.
pub(crate) async fn next(listener: &TcpListener, whose: &str) -> (TcpStream, SocketAddr) {
    let mut said: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => match set_options(&stream) {
                Ok(()) => return (stream, remote),
                Err(error) => tracing::debug!(%remote, %error, whose, "lost before it began"),
            },
            Err(error) => {
                if said.is_none_or(|at| at.elapsed() >= SAY_PAUSE) {
                    said = Some(Instant::now());
                    tracing::warn!(%error, whose, "a connection could not be accepted");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}
