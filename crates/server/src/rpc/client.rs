//! Asking other nodes: a question goes out with its deadline, and what became of it is told
//! exactly, since a write that may have been carried out is another matter than one that was not.

use std::{
    error::Error,
    future::{Future, ready},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use plimsoll_cluster::{Call, CallError, MESSAGE_BYTES_MAX, Peers};
use tokio::task::JoinHandle;
use tonic::{
    Code, Request, Status, TimeoutExpired,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tracing::Instrument as _;

use super::channels::{ChannelError, Channels, NodeWay, UNUSED_MAX};
use super::codec::{BytesCodec, Departure};
use super::threads::Threads;
use super::wire::{AUTHORIZATION, METHOD, REFUSED, authorization};
use crate::spans::{ASKED_BY, asked_by};

/// The longest that a call may take; more is cut down to it.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The way to other nodes, from whatever runtime: channels and calls live on threads of its own.
pub struct Client {
    threads: Threads,
    channels: Arc<Channels>,
    authorization: Option<MetadataValue<Ascii>>,
    node: String,
}

impl Client {
    /// Starts the threads of a node of this name; connections are made when nodes are asked.
    ///
    /// # Errors
    /// Where the system has no room for the threads.
    pub fn start(node: &str, secret: Option<&str>, tls: Option<NodeWay>) -> io::Result<Self> {
        let threads = Threads::start("rpc-client")?;
        let channels = Arc::new(Channels::new(tls));
        let swept = Arc::clone(&channels);
        threads.handle.spawn(async move {
            loop {
                tokio::time::sleep(UNUSED_MAX / 4).await;
                swept.sweep(Instant::now());
            }
        });
        let authorization = match secret {
            Some(secret) => {
                let mut value: MetadataValue<Ascii> =
                    authorization(secret).parse().map_err(io::Error::other)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self { threads, channels, authorization, node: node.to_owned() })
    }

    fn channel(&self, address: &str, question: &Bytes) -> Result<Channel, ChannelError> {
        if question.len() > MESSAGE_BYTES_MAX {
            return Err(ChannelError::TooLong(question.len()));
        }
        let _entered = self.threads.handle.enter();
        self.channels.get(address, Instant::now())
    }
}

impl Peers for Client {
    /// The question goes out at once, whether or not the call is polled.
    fn call(&self, address: &str, question: Bytes, timeout: Duration) -> Call {
        let channel = match self.channel(address, &question) {
            Ok(channel) => channel,
            Err(error) => {
                return Box::pin(ready(Err(CallError::Unreachable(error.to_string()))));
            }
        };
        let timeout = timeout.min(TIMEOUT_MAX);
        let mut request = Request::new(question);
        request.set_timeout(timeout);
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert(AUTHORIZATION, value.clone());
        }
        if let Some(asked_by) = asked_by(&self.node).and_then(|it| it.parse().ok()) {
            request.metadata_mut().insert(ASKED_BY, asked_by);
        }
        let asking = ask(channel, request, timeout).in_current_span();
        Box::pin(Asking(self.threads.handle.spawn(asking)))
    }
}

/// A call that runs; it ends when this goes.
struct Asking(JoinHandle<Result<Bytes, CallError>>);

impl Future for Asking {
    type Output = Result<Bytes, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(context);
        ended.map(|ended| ended.unwrap_or_else(|error| Err(CallError::Lost(error.to_string()))))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn ask(
    channel: Channel,
    request: Request<Bytes>,
    timeout: Duration,
) -> Result<Bytes, CallError> {
    let end = tokio::time::Instant::now() + timeout;
    let late = || CallError::Unreachable(format!("no connection within {timeout:?}"));
    // A connection that had ended unnoticed is made anew by the first question that meets it: one
    // that never left is asked once more.
    let (metadata, question) = (request.metadata().clone(), request.get_ref().clone());
    match ask_once(channel.clone(), request, end).await {
        Err((CallError::Unreachable(_), true)) => {
            let mut again = Request::new(question);
            *again.metadata_mut() = metadata;
            again.set_timeout(end.saturating_duration_since(tokio::time::Instant::now()));
            ask_once(channel, again, end).await.map_err(|(error, is_here)| match error {
                CallError::TimedOut if is_here => late(),
                error => error,
            })
        }
        Err((CallError::TimedOut, true)) => Err(late()),
        asked => asked.map_err(|(error, _)| error),
    }
}

/// Asks; of a failure it is told as well whether the bytes never left.
async fn ask_once(
    channel: Channel,
    request: Request<Bytes>,
    end: tokio::time::Instant,
) -> Result<Bytes, (CallError, bool)> {
    let departure = Arc::new(Departure::default());
    let codec = BytesCodec::noting(Arc::clone(&departure));
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let asked = async {
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        grpc.unary(request, PathAndQuery::from_static(METHOD), codec).await
    };
    match tokio::time::timeout_at(end, asked).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let is_refusal = status.metadata().contains_key(REFUSED);
            let error = failure(&status, &departure);
            Err((error, departure.give_up() && !is_refusal))
        }
        Err(_) => Err((CallError::TimedOut, departure.give_up())),
    }
}

/// What is known of a question that has no answer.
fn failure(status: &Status, departure: &Departure) -> CallError {
    let (reason, timed_out) = cause(status);
    if let Some(rustls::Error::AlertReceived(_)) = crate::tls::cause(status) {
        // The other side read nothing: it says so once it has seen the certificate, when the question may have
        // departed already.
        return CallError::Unreachable(crate::tls::cause_in_words(status));
    }
    if departure.give_up() || status.metadata().contains_key(REFUSED) {
        return CallError::Unreachable(reason);
    }
    match status.code() {
        // The one status of this kind that a node sends says that the deadline was over there.
        Code::Cancelled if timed_out || status.source().is_none() => CallError::TimedOut,
        Code::DeadlineExceeded => CallError::TimedOut,
        _ => CallError::Lost(reason),
    }
}

/// The innermost reason, where what lies around it says little ("transport error"), and whether
/// it is the deadline.
fn cause(status: &Status) -> (String, bool) {
    let mut reason = status.message().to_owned();
    let mut next = status.source();
    let mut timed_out = false;
    while let Some(error) = next {
        reason = error.to_string();
        timed_out |= error.is::<TimeoutExpired>();
        next = error.source();
    }
    (reason, timed_out)
}
