//! Connections of other nodes as they come in, so many at once and no more, each with its handshake beside the
//! others.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, Stream, StreamExt as _, unfold};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tonic::transport::server::Connected;

use crate::accept;
use crate::places::{PART_OF_NODES, Place, Places, within_files};
use crate::tls::door::Door;
use crate::tls::member::node_in;
use crate::tls::stream as tls;

/// Connections at once, where the process may have files enough open; one more is closed.
const CONNECTIONS_MAX: usize = 1024;
/// How often it is logged that there are too many.
const SAY_PAUSE: Duration = Duration::from_secs(1);

/// The connections of a port that came through its door. They are taken in for as long as somebody takes them
/// from here.
pub(super) fn incoming(
    listener: TcpListener,
    door: Door,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Places::new(within_files(CONNECTIONS_MAX, PART_OF_NODES));
    let door = Arc::new(door);
    let passing = FuturesUnordered::new();
    unfold((listener, places, passing), move |(listener, places, mut passing)| {
        let door = Arc::clone(&door);
        async move {
            loop {
                tokio::select! {
                    (stream, place) = accept(&listener, &places) => {
                        passing.push(pass(Arc::clone(&door), stream, place));
                    }
                    Some(passed) = passing.next() => if let Some(connection) = passed {
                        return Some((Ok(connection), (listener, places, passing)));
                    },
                }
            }
        }
    })
}

async fn pass(door: Arc<Door>, stream: TcpStream, place: Place) -> Option<Connection> {
    let stream = door.pass(stream).await?;
    // Where there is no TLS, whoever asks shows the secret with each question.
    place.know();
    Some(Connection { stream, _place: place })
}

async fn accept(listener: &TcpListener, places: &Arc<Places>) -> (TcpStream, Place) {
    let mut said: Option<Instant> = None;
    loop {
        let (stream, remote) = accept::next(listener, "nodes").await;
        match places.take(remote.ip()) {
            Ok(place) => return (stream, place),
            Err(why) => {
                if said.is_none_or(|at| at.elapsed() >= SAY_PAUSE) {
                    said = Some(Instant::now());
                    tracing::warn!(%remote, %why, "a node's connection was refused");
                }
            }
        }
    }
}

/// A connection that counts as open while it is there.
pub(super) struct Connection {
    stream: tls::Stream,
    _place: Place,
}

/// How whoever asks came in.
#[derive(Clone, Debug)]
pub(super) struct CameBy {
    /// The node whose certificate it showed: no secret is asked for.
    pub(super) node: Option<Arc<str>>,
}

impl Connected for Connection {
    type ConnectInfo = CameBy;

    fn connect_info(&self) -> CameBy {
        let certificate = self.stream.certificate();
        CameBy { node: certificate.and_then(|it| node_in(&it)).map(Arc::from) }
    }
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
