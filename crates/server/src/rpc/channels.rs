//! The channels to other nodes: one for each address, made when it is first asked for, dropped
//! when it was not asked for in a while. A channel connects anew by itself.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::Ipv4Addr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use plimsoll_cluster::MESSAGE_BYTES_MAX;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, TlsStream};
use tonic::{
    codegen::{Service, http::Uri},
    transport::{Channel, Endpoint},
};

use crate::tls::{cause_in_words, stream::Stream, watched::Watched};

use super::wire::{CONNECTION_WINDOW_BYTES, FRAME_BYTES_MAX, STREAM_WINDOW_BYTES, STREAMS_MAX};

/// Nodes that this one talks to at once; beyond, the channel that was used least lately goes.
const CHANNELS_MAX: usize = 256;
/// How long a channel is kept that nobody uses.
pub(super) const UNUSED_MAX: Duration = Duration::from_secs(300);
/// How long a node may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long its handshake may take after that: a busy node signs late.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a failed attempt answers for the next ones: calls that waited for it are told at
/// once, rather than that each tries again in its turn.
const FAILURE_KEPT: Duration = Duration::from_millis(50);
/// How long a connection may be silent before the peer is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// How long it may take to say so. A peer that is alive answers this whatever else it does.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a question does not go out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChannelError {
    /// It has more bytes than a node takes.
    #[error("a question of {0} bytes is over {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// The node says an address of itself that is none.
    #[error("`{0}` is no address such as 127.0.0.1:9300")]
    NoAddress(String),
}

/// TLS on the way to other nodes.
#[derive(Clone)]
pub struct NodeWay {
    /// What this node shows, and whom it takes.
    pub tls: Arc<Watched<ClientConfig>>,
    /// Whether a node that speaks no TLS is asked without it, while a cluster goes over to TLS.
    pub is_optional: bool,
}

pub(super) struct Channels {
    tls: Option<NodeWay>,
    kept: Mutex<HashMap<Box<str>, Kept>>,
}

struct Kept {
    channel: Channel,
    used: Instant,
}

impl Channels {
    pub(super) fn new(tls: Option<NodeWay>) -> Self {
        Self { tls, kept: Mutex::default() }
    }

    /// The channel to an address. To be called on the runtime that is to drive it.
    ///
    /// # Errors
    /// Where the address is none.
    pub(super) fn get(&self, address: &str, now: Instant) -> Result<Channel, ChannelError> {
        let mut kept = self.kept.lock();
        if let Some(found) = kept.get_mut(address) {
            found.used = now;
            return Ok(found.channel.clone());
        }
        let channel = open(address, self.tls.clone())?;
        if kept.len() >= CHANNELS_MAX {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(address, _)| address.clone()) {
                kept.remove(&oldest);
            }
        }
        kept.insert(address.into(), Kept { channel: channel.clone(), used: now });
        Ok(channel)
    }

    /// Drops channels that were not used in a while. Calls under way keep theirs.
    pub(super) fn sweep(&self, now: Instant) {
        self.kept.lock().retain(|_, kept| now.saturating_duration_since(kept.used) < UNUSED_MAX);
    }
}

fn open(address: &str, tls: Option<NodeWay>) -> Result<Channel, ChannelError> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| ChannelError::NoAddress(address.to_owned()))?
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        // Calls are dropped in numbers when a request is; what the peer had sent by then must not
        // look like an attack, which would end the connection for all others.
        .http2_max_concurrent_reset_streams(STREAMS_MAX as usize)
        .http2_max_local_error_reset_streams(None);
    let connector =
        Connector { address: address.into(), tls, has_tls: Arc::default(), failed: Arc::default() };
    Ok(endpoint.connect_with_connector_lazy(connector))
}

/// Makes the connections of one channel.
struct Connector {
    address: Arc<str>,
    tls: Option<NodeWay>,
    /// Whether the other side was found to speak TLS: then nothing goes to it without, whoever says that it does
    /// not any more.
    has_tls: Arc<AtomicBool>,
    /// When the last attempt failed, and why.
    failed: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (address, failed) = (Arc::clone(&self.address), Arc::clone(&self.failed));
        let (tls, has_tls) = (self.tls.clone(), Arc::clone(&self.has_tls));
        Box::pin(async move {
            let now = Instant::now();
            if let Some((at, message)) = &*failed.lock()
                && now.saturating_duration_since(*at) < FAILURE_KEPT
            {
                return Err(io::Error::other(message.clone()));
            }
            let connected = connect(&address, tls.as_ref(), &has_tls).await.map(TokioIo::new);
            *failed.lock() =
                connected.as_ref().err().map(|error| (Instant::now(), error.to_string()));
            connected
        })
    }
}

async fn connect(address: &str, tls: Option<&NodeWay>, has_tls: &AtomicBool) -> io::Result<Stream> {
    let stream = connect_plain(address).await?;
    let Some(NodeWay { tls, is_optional }) = tls else { return Ok(Stream::Plain(stream)) };
    // The certificate says which node it is: the name of the host is not looked at, nor sent.
    let nobody = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
    let shaking = TlsConnector::from(tls.get()).connect(nobody, stream);
    let failed = match timeout(HANDSHAKE_TIMEOUT, shaking).await {
        Ok(Ok(stream)) => {
            has_tls.store(true, Relaxed);
            return Ok(Stream::Tls(Box::new(TlsStream::Client(stream))));
        }
        Ok(Err(error)) if *is_optional && !has_tls.load(Relaxed) && speaks_no_tls(&error) => {
            tracing::warn!(address, "a node is asked without TLS: rpc.tls.mode is optional");
            return connect_plain(address).await.map(Stream::Plain);
        }
        Ok(Err(error)) => cause_in_words(&error),
        Err(_) => format!("no handshake within {HANDSHAKE_TIMEOUT:?}"),
    };
    Err(io::Error::other(format!("TLS with {address}: {failed}")))
}

/// Whether the other side does not know TLS, rather than refuses what it is shown: it hangs up, or answers in its
/// own protocol.
fn speaks_no_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    match inner {
        Some(inner) => matches!(inner, rustls::Error::InvalidMessage(_)),
        None => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
        ),
    }
}

async fn connect_plain(address: &str) -> io::Result<TcpStream> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await.map_err(|_| {
        let message = format!("no connection to {address} within {CONNECT_TIMEOUT:?}");
        io::Error::new(io::ErrorKind::TimedOut, message)
    })??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn channels_are_few_and_do_not_stay_forever() {
        let channels = Channels::new(None);
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let count = || channels.kept.lock().len();
        for port in 1..=CHANNELS_MAX {
            channels.get(&format!("127.0.0.1:{port}"), at(0)).unwrap();
        }
        channels.get("127.0.0.1:1", at(1)).unwrap();
        channels.get("[::1]:9300", at(2)).unwrap();
        assert_eq!(count(), CHANNELS_MAX);
        assert!(channels.kept.lock().contains_key("127.0.0.1:1"));
        channels.sweep(at(1) + UNUSED_MAX);
        assert_eq!(count(), 1, "the last one was used a second later");
        assert!(
            channels.get("no address", at(2)).unwrap_err().to_string().contains("`no address`")
        );
    }
}
