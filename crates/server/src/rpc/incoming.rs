//! Connections of other nodes as they come in, so many at once and no more, each with its handshake beside the
//! others.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::stream::{FuturesUnordered, Stream, StreamExt as _, unfold};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tonic::transport::server::Connected;

use crate::accept::Acceptor;
use crate::places::{Place, Places, SHARES_OF_NODES, within_files};
use crate::tls::door::Door;
use crate::tls::member::node_in;
use crate::tls::stream as tls;

/// Connections at once, where the process may have files enough open; one more is closed.
const CONNECTIONS_MAX: usize = 1024;

/// The connections of a port that came through its door. They are taken in for as long as somebody takes them
/// from here.
pub(super) fn incoming(
    listener: TcpListener,
    door: Door,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Places::new(within_files(CONNECTIONS_MAX, SHARES_OF_NODES));
    let door = Arc::new(door);
    let passing = FuturesUnordered::new();
    let acceptor = Acceptor::new(listener, "other nodes", door.time());
    unfold((acceptor, places, passing), move |(acceptor, places, mut passing)| {
        let door = Arc::clone(&door);
        async move {
            loop {
                tokio::select! {
                    (stream, place) = accept(&acceptor, &places) => {
                        passing.push(pass(Arc::clone(&door), stream, place));
                    }
                    Some(passed) = passing.next() => if let Some(connection) = passed {
                        return Some((Ok(connection), (acceptor, places, passing)));
                    },
                }
            }
        }
    })
}

async fn pass(door: Arc<Door>, stream: TcpStream, place: Place) -> Option<Connection> {
    let stream = tokio::select! {
        stream = door.pass(stream) => stream?,
        () = place.ended() => return None,
    };
    // Without TLS nobody knows who it is: one address has its part of the places, whatever it asks.
    match stream.is_tls() {
        true => place.know(),
        false => place.keep(),
    }
    Some(Connection { stream, _place: place })
}

async fn accept(acceptor: &Acceptor, places: &Arc<Places>) -> (TcpStream, Place) {
    loop {
        let (stream, remote) = acceptor.next().await;
        match places.take(remote.ip()) {
            Ok(place) => return (stream, place),
            Err(why) => acceptor.refuse(remote, &why),
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
