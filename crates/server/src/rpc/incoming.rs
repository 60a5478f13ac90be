//! Connections of other nodes as they come in, so many at once and no more.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::stream::{Stream, unfold};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};
use tonic::transport::server::Connected;

/// Connections at once; one more is closed.
const CONNECTIONS_MAX: usize = 1024;
/// How long a silent peer is trusted to be there before it has said anything; then HTTP/2 asks.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// How long to wait when no connection can be accepted, most likely for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections of a port.
pub(super) fn incoming(listener: TcpListener) -> impl Stream<Item = io::Result<Connection>> {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    unfold((listener, room), |(listener, room)| async move {
        let connection = accept(&listener, &room).await;
        Some((Ok(connection), (listener, room)))
    })
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Connection {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let Ok(permit) = Arc::clone(room).try_acquire_owned() else {
                    tracing::warn!(%remote, "a node's connection was refused: {CONNECTIONS_MAX} are open");
                    continue;
                };
                match set_options(&stream) {
                    Ok(()) => return Connection { stream, _permit: permit },
                    Err(error) => tracing::debug!(%remote, %error, "lost before it began"),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a node's connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

/// A connection that counts as open while it is there.
pub(super) struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
