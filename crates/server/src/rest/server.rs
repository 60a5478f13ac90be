//! The port of HTTP: connections on threads of their own, how they begin, and how they end when
//! the node stops. What is answered on them is not its concern.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use plimsoll_memory::{ledger::CONNECTIONS, local::charge_thread};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{sleep, timeout};

use super::peer::{self, Peer};
use super::shared::Rest;
use super::{goes_on, handle};
use crate::accept::{Acceptor, KEEPALIVE};
use crate::linger::linger;
use crate::node::Shared;
use crate::places::Place;
use crate::tls::{H2, door::Door, stream::Stream};

/// The most headers that a request may have.
const HEADERS_MAX: usize = 100;
/// The most bytes that its line and its headers may have together: Elasticsearch's
/// `http.max_header_size`. A connection that was not served yet holds little more.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long the last words to a peer that was late may take.
const LATE_PAUSE: Duration = Duration::from_millis(100);
/// Requests at once on a connection of HTTP/2; more wait in the client.
const STREAMS_MAX: u32 = 128;
/// What the bodies on a connection of HTTP/2 may have on the way before anybody here reads them: a connection
/// that has not logged in costs no more.
const WINDOW_BYTES: u32 = 256 << 10;
/// What waits here for a client of HTTP/2 that does not read, an answer.
const SEND_BYTES_MAX: usize = 64 << 10;
/// How long a connection of HTTP/2 goes on after the node was told to stop while nothing is answered or sent on it.
const IDLE_TIME: Duration = Duration::from_secs(3);
const IDLE_PAUSE: Duration = Duration::from_millis(50);
/// How long a client of HTTP/2 may take to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// What a peer reads that took too long over the head of a request.
const LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The threads of HTTP, and what runs on them.
pub struct Server {
    runtime: Runtime,
    rest: Arc<Rest>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Serves connections of a port on `threads` threads.
    ///
    /// # Errors
    /// Where the system has no room for the threads.
    pub fn start(
        listener: std::net::TcpListener,
        rest: Arc<Rest>,
        door: Door,
        threads: usize,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("http")
            .on_thread_start(|| charge_thread(&CONNECTIONS))
            .enable_all()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopping) = watch::channel(false);
        runtime.spawn(accept(listener, Arc::clone(&rest), Arc::new(door), stopping));
        Ok(Self { runtime, rest, stop })
    }

    /// Takes no more connections, and ends those that are open once they are answered.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.rest.connections()
    }

    /// Ends the threads; what they still do after `timeout` is cut off. Blocks.
    pub fn stop(self, timeout: Duration) {
        self.runtime.shutdown_timeout(timeout);
    }
}

async fn accept(
    listener: TcpListener,
    rest: Arc<Rest>,
    door: Arc<Door>,
    mut stopping: watch::Receiver<bool>,
) {
    let acceptor = Acceptor::new(listener, "clients of REST (http.max_clients)", door.time());
    loop {
        let (stream, remote) = tokio::select! {
            accepted = acceptor.next() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        let place = match rest.places.take(remote.ip()) {
            Ok(place) => Arc::new(place),
            Err(why) => {
                acceptor.refuse(remote, &why);
                continue;
            }
        };
        rest.connections_total.fetch_add(1, Relaxed);
        let (rest, door, stopping) = (Arc::clone(&rest), Arc::clone(&door), stopping.clone());
        let peer = Arc::new(Peer::new(remote, Arc::downgrade(&place)));
        tokio::spawn(async move {
            if let Err(error) = serve(stream, peer, &place, rest, &door, stopping).await {
                tracing::debug!(%remote, %error, "HTTP connection ended");
            }
        });
    }
}

/// Why a connection ended before its time.
type ServeError = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    stream: TcpStream,
    peer: Arc<Peer>,
    place: &Place,
    rest: Arc<Rest>,
    door: &Door,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let passed = tokio::select! {
        passed = door.pass(stream) => passed,
        _ = stopping.wait_for(|stop| *stop) => None,
        () = place.ended() => None,
    };
    let Some(stream) = passed else { return Ok(()) };
    let until = Until { stopping, peer: &peer, place, node: &rest.node };
    if rest.node.security.is_open() {
        peer.let_in();
    }
    if stream.protocol() == Some(H2) {
        return serve_http_2(stream, until, &peer, &rest).await;
    }
    let mut builder = http1::Builder::new();
    // How long a head may take is watched below HTTP ([`super::peer`]). One answer is written
    // before the next request is read: what nobody reads does not pile up here.
    // Who ends its side of the connection has hung up, as for Elasticsearch: what it asked for ends.
    builder.header_read_timeout(None).keep_alive(true).half_close(false);
    builder.max_headers(HEADERS_MAX).max_header_size(HEAD_BYTES_MAX);
    let bytes = peer::Bytes::new(stream, Arc::clone(&peer), Arc::clone(&rest.node));
    let service = service_fn(|request| Box::pin(respond(&rest, &peer, request)));
    let mut connection = builder.serve_connection(bytes, service);
    let ended = until.run(poll_fn(|context| connection.poll_without_shutdown(context))).await;
    let ended = match ended {
        Ended::Served(ended) => ended,
        Ended::Stopping => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
        Ended::Moved => return Ok(()),
    };
    let mut stream = connection.into_parts().io.into_inner();
    let ending = async {
        if peer.is_late() {
            // There may be no room for it; the end of the connection says as much.
            let _ = timeout(LATE_PAUSE, stream.write_all(LATE)).await;
        }
        linger(&mut stream).await;
    };
    tokio::select! {
        () = ending => {}
        () = place.ended() => {}
    }
    Ok(ended?)
}

/// What a connection is served until.
struct Until<'a> {
    stopping: watch::Receiver<bool>,
    peer: &'a Peer,
    place: &'a Place,
    node: &'a Shared,
}

/// Why serving a connection ended.
enum Ended<T> {
    /// By itself.
    Served(T),
    /// The node was told to stop.
    Stopping,
    /// A stranger gave way to who came.
    Moved,
}

impl Until<'_> {
    /// Runs what serves it; has it look whom it is where users were changed.
    async fn run<T>(mut self, serving: impl Future<Output = T>) -> Ended<T> {
        let mut serving = pin!(serving);
        let mut users = self.node.users_changed.subscribe();
        loop {
            tokio::select! {
                ended = &mut serving => return Ended::Served(ended),
                _ = self.stopping.wait_for(|stop| *stop) => return Ended::Stopping,
                () = self.place.ended() => return Ended::Moved,
                Ok(()) = users.changed() => self.peer.follow_users(self.node),
            }
        }
    }
}

/// The same of HTTP/2, which clients ask for in the handshake of TLS.
async fn serve_http_2(
    stream: Stream,
    until: Until<'_>,
    peer: &Arc<Peer>,
    rest: &Arc<Rest>,
) -> Result<(), ServeError> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(PING_TIMEOUT);
    let bytes = peer::Bytes::new(stream, Arc::clone(peer), Arc::clone(&rest.node));
    let (asked, node) = (Arc::clone(peer), Arc::clone(rest));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (peer, rest) = (&asked, &node);
        say_in_headers(&mut request);
        let (answering, peer) = (respond(rest, peer, request), Arc::clone(peer));
        // What it takes to answer goes once there is an answer, which may wait long until it is taken.
        Box::pin(async move {
            Ok::<_, JoinError>(answering.await?.map(|body| Sending::new(body, peer)))
        })
    });
    let mut connection = pin!(builder.serve_connection(bytes, service));
    match until.run(connection.as_mut()).await {
        Ended::Served(ended) => Ok(ended?),
        Ended::Moved => Ok(()),
        Ended::Stopping => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => Ok(ended?),
                // A peer that has nothing to come is not waited for until it says that it heard.
                () = until_idle(peer) => Ok(()),
            }
        }
    }
}

/// What HTTP/2 says beside the headers, as HTTP/1.1 says it: the host, which is a part of the URI there, and that
/// a body follows.
fn say_in_headers(request: &mut Request<Incoming>) {
    let named = request.uri().authority().map(|it| HeaderValue::from_str(it.as_str()));
    let path = request.uri().path_and_query().cloned();
    if let Some(path) = path {
        *request.uri_mut() = path.into();
    }
    let has_body = !request.body().is_end_stream();
    let headers = request.headers_mut();
    if let (Some(Ok(host)), false) = (named, headers.contains_key(header::HOST)) {
        headers.insert(header::HOST, host);
    }
    if has_body && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Waits until nothing has been answered or sent on a connection for a while.
async fn until_idle(peer: &Peer) {
    let (mut idle, mut seen) = (Duration::ZERO, peer.activity());
    while idle < IDLE_TIME {
        sleep(IDLE_PAUSE).await;
        let now = peer.activity();
        idle = if now.0 || now != seen { Duration::ZERO } else { idle + IDLE_PAUSE };
        seen = now;
    }
}

/// An answer's body on a connection of HTTP/2; the request counts as being answered until it has gone.
struct Sending {
    body: Body,
    _answering: UnderWay,
}

impl Sending {
    fn new(body: Body, peer: Arc<Peer>) -> Self {
        Self { body, _answering: UnderWay::new(peer) }
    }
}

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers one request; counts as being answered from now on.
fn respond(
    rest: &Arc<Rest>,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Body>, JoinError>> + use<> {
    let answering = UnderWay::new(Arc::clone(peer));
    let request = request.map(Body::new);
    let goes_on = goes_on(&request);
    let handling = handle(Arc::clone(rest), request, Arc::clone(peer));
    // A task begins at once, and does not end with its connection. What only reads does: nobody
    // would see what it finds.
    let handling = match goes_on {
        true => Either::Left(tokio::spawn(handling)),
        false => Either::Right(handling.map(Ok)),
    };
    async move {
        let answer = handling.await;
        answering.end();
        answer
    }
}

/// A request that counts as being answered while this is there: a client may take it back.
struct UnderWay(Arc<Peer>);

impl UnderWay {
    fn new(peer: Arc<Peer>) -> Self {
        peer.answering();
        Self(peer)
    }

    fn end(self) {
        self.0.served();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered();
    }
}
