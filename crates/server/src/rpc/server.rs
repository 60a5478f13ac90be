//! Answering other nodes: who may ask, how many questions at once, and the end.

use std::{
    convert::Infallible,
    future::Future,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use plimsoll_cluster::{Coordinator, MESSAGE_BYTES_MAX};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    metadata::{MetadataMap, MetadataValue},
    server::{Grpc, UnaryService},
    transport,
};
use tracing::{Instrument as _, field};

use super::codec::BytesCodec;
use super::incoming::{CameBy, incoming};
use super::threads::Threads;
use super::wire::{
    AUTHORIZATION, CONNECTION_WINDOW_BYTES, FRAME_BYTES_MAX, METHOD, REFUSED, STREAM_WINDOW_BYTES,
    STREAMS_MAX, secret_of,
};
use crate::auth::Password;
use crate::spans::{ASKED_BY, numbered};
use crate::tls::door::Door;

/// Questions under way at once, of all nodes together; one more is refused. To let it wait could
/// bring two nodes to wait for each other.
const ANSWERS_MAX: u32 = 4096;
/// How long the last answers may take to be written to nodes that do not end their connections.
const WRITTEN_PAUSE: Duration = Duration::from_millis(200);
/// How long a connection may be silent before the node behind it is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to say so; then its questions are given up.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls that were dropped before they were looked at; one more ends the connection. HTTP/2's own
/// 20 are meant for strangers: a node drops calls in numbers when clients drop their requests.
const RESETS_MAX: usize = 64 << 10;
/// How long threads may take to end once their work has ended or was cut off.
const THREADS_PAUSE: Duration = Duration::from_millis(100);

/// Whoever answers questions.
pub trait Answers: Send + Sync + 'static {
    /// Answers one; `sender` is the name of the node that asks where it showed that. The future is dropped when
    /// nobody waits for the answer any more.
    fn answer(&self, question: Bytes, sender: Option<&str>) -> impl Future<Output = Bytes> + Send;
}

impl Answers for Coordinator {
    async fn answer(&self, question: Bytes, sender: Option<&str>) -> Bytes {
        Coordinator::answer(self, question, sender).await
    }
}

/// The port for other nodes, and the threads that serve it.
pub struct Server {
    threads: Threads,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
    /// All of it is free once no question is under way.
    room: Arc<Semaphore>,
}

impl Server {
    /// Serves a port to those that come through its door. With a secret, only to those that know it.
    ///
    /// # Errors
    /// Where the system has no room for the threads.
    pub fn start(
        listener: std::net::TcpListener,
        answers: Arc<impl Answers>,
        secret: Option<&str>,
        door: Door,
    ) -> io::Result<Self> {
        let threads = Threads::start("rpc-server")?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = threads.handle.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, mut stopping) = watch::channel(false);
        let node = Node {
            answers,
            secret: secret.map(|secret| Arc::new(Password::new(Some(secret)))),
            room: Arc::new(Semaphore::new(ANSWERS_MAX as usize)),
            stopping: stopping.clone(),
        };
        let room = Arc::clone(&node.room);
        let served = threads.handle.spawn(async move {
            let stopped = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            let served =
                settings().serve_with_incoming_shutdown(node, incoming(listener, door), stopped);
            if let Err(error) = served.await {
                tracing::error!(%error, "other nodes are served no longer");
            }
        });
        Ok(Self { threads, stop, served, room })
    }

    /// Takes no more connections or questions; those under way are answered.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }

    /// Drains, and cuts off what is not answered by `limit`. A node that takes no answer is not waited for:
    /// its connection would not end before it does. Blocks.
    pub fn stop(self, limit: Duration) {
        self.drain();
        let Self { threads, served, room, .. } = self;
        let answered = async {
            // As many as there is room for: none is under way.
            let _all = room.acquire_many(ANSWERS_MAX).await;
            tokio::time::sleep(WRITTEN_PAUSE).await;
        };
        let ended = async {
            tokio::select! { _ = served => {} () = answered => {} }
        };
        if threads.handle.block_on(async { timeout(limit, ended).await }).is_err() {
            tracing::warn!("questions of other nodes were cut off: the time to drain is over");
        }
        threads.stop(THREADS_PAUSE);
    }
}

fn settings() -> transport::Server {
    transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
}

/// The service: one method.
struct Node<A> {
    answers: Arc<A>,
    secret: Option<Arc<Password>>,
    room: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl<A> Clone for Node<A> {
    fn clone(&self) -> Self {
        Self {
            answers: Arc::clone(&self.answers),
            secret: self.secret.clone(),
            room: Arc::clone(&self.room),
            stopping: self.stopping.clone(),
        }
    }
}

impl<A> Node<A> {
    /// Whether a header says the secret, if there is one. The time it takes does not tell how much
    /// of it was right.
    fn knows(&self, offered: Option<&[u8]>) -> bool {
        let Some(secret) = &self.secret else { return true };
        let offered = offered.and_then(secret_of);
        offered.is_some_and(|offered| secret.is(&offered))
    }

    /// Lets a question in before a byte of it is read.
    fn admit<B>(&self, request: &http::Request<B>) -> Result<OwnedSemaphorePermit, Status> {
        let offered = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        if sender(request).is_none() && !self.knows(offered) {
            let words = match offered {
                Some(_) => "the secret is another there: rpc.secret must be the same in all nodes",
                None => "a secret is wanted there: set rpc.secret_file or rpc.secret here too",
            };
            return Err(refused(Code::Unauthenticated, words));
        }
        if request.uri().path() != METHOD {
            return Err(refused(Code::Unimplemented, "there is one method, and this is not it"));
        }
        let full = |_| {
            // The one that stops the node waits for all the room there is.
            let words = match *self.stopping.borrow() {
                true => "the node stops",
                false => "too many questions at once",
            };
            refused(Code::ResourceExhausted, words)
        };
        Arc::clone(&self.room).try_acquire_owned().map_err(full)
    }
}

/// The node that asks, where it showed that.
fn sender<B>(request: &http::Request<B>) -> Option<&Arc<str>> {
    request.extensions().get::<CameBy>()?.node.as_ref()
}

/// A refusal before anything was done, and so marked.
fn refused(code: Code, words: &str) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(REFUSED, MetadataValue::from_static("1"));
    Status::with_metadata(code, words, metadata)
}

impl<A: Answers> Service<http::Request<Body>> for Node<A> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let permit = match self.admit(&request) {
            Ok(permit) => permit,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let ask = Ask { answers: Arc::clone(&self.answers), sender: sender(&request).cloned() };
        let asked_by = request.headers().get(ASKED_BY).and_then(|it| it.to_str().ok());
        let span = numbered(tracing::debug_span!("question", id = field::Empty, asked_by));
        let answering = async move {
            let mut grpc =
                Grpc::new(BytesCodec::default()).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let response = grpc.unary(ask, request).await;
            drop(permit);
            tracing::debug!("answered");
            Ok(response)
        };
        Box::pin(answering.instrument(span))
    }
}

struct Ask<A> {
    answers: Arc<A>,
    sender: Option<Arc<str>>,
}

impl<A: Answers> UnaryService<Bytes> for Ask<A> {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, question: Request<Bytes>) -> Self::Future {
        let (answers, sender) = (Arc::clone(&self.answers), self.sender.clone());
        Box::pin(async move {
            let answer = answers.answer(question.into_inner(), sender.as_deref()).await;
            if answer.len() > MESSAGE_BYTES_MAX {
                let bytes = answer.len();
                let words = format!("an answer of {bytes} bytes is over {MESSAGE_BYTES_MAX}");
                return Err(Status::out_of_range(words));
            }
            Ok(Response::new(answer))
        })
    }
}
