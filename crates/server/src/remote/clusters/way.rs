//! One connection to a node of another cluster: TCP, TLS with the names checked, gRPC, the key with
//! every question, and what a refusal or failure is called.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use plimsoll_cluster::following::{FollowerPosition, RemoteError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::client::Grpc;
use tonic::codegen::Service;
use tonic::codegen::http::uri::{PathAndQuery, Uri};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

use super::lanes::Load;
use crate::remote::protocol::{ANSWER_BYTES_MAX, AUTHORIZATION, Answer, METHOD, Question, SCHEME};
use crate::remote::refusal::error_of;
use crate::remote::stream;
use crate::rpc::BytesCodec;
use crate::security::keys::Credential;
use crate::tls;
use crate::tls::watched::Watched;

/// How long a connection may take, TLS included. Other clusters are across oceans.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the other side is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long it may take to say so.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// What one answer or stream may have on its way without a word from here: over 60 ms to 8 MiB are
/// what a link of 1 Gb/s carries, and there are several side by side.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// The same of a connection, which many share: 1 Gb/s over 250 ms.
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The longest piece of a message: long messages cost less in long pieces.
const FRAME_BYTES_MAX: u32 = 128 << 10;
/// The most that is repeated of what another cluster says, characters.
const WORDS_MAX: usize = 300;

/// What a connection is made and used with; both follow their files.
#[derive(Clone)]
pub(super) struct Means {
    pub tls: Arc<Watched<ClientConfig>>,
    /// None where no file is named: then the leader says what it wants.
    pub credential: Option<Arc<Watched<Credential>>>,
}

/// A connection, and the node at its other end.
#[derive(Clone)]
pub(super) struct Way {
    /// Where it leads.
    pub address: String,
    /// The id of the node that answers.
    pub node: String,
    /// What it carries of files.
    pub load: Arc<Load>,
    channel: Channel,
    means: Means,
}

impl Way {
    /// Connects to an address whose certificate must be for `server_name`. Who answers there is not
    /// known yet.
    ///
    /// # Errors
    /// Says in words why not.
    pub(super) async fn open(
        address: &str,
        server_name: &str,
        means: Means,
    ) -> Result<Self, RemoteError> {
        let failed = |words: String| RemoteError::Unreachable(format!("{address}: {words}"));
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| failed(format!("`{server_name}` is no name of a host")))?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| failed("is no address".to_owned()))?
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES_MAX)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let connector = Connector { address: address.into(), name, tls: Arc::clone(&means.tls) };
        let channel = endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| failed(tls::cause_in_words(&error)))?;
        let load = Arc::default();
        Ok(Self { address: address.to_owned(), node: String::new(), load, channel, means })
    }

    /// Asks.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub(super) async fn ask(
        &self,
        question: &Question,
        time: Duration,
    ) -> Result<Answer, RemoteError> {
        let mut request = self.request(question.encode())?;
        request.set_timeout(time);
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let asked = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let path = PathAndQuery::from_static(METHOD);
            grpc.unary(request, path, BytesCodec::default()).await
        };
        let answer = self.within(time, asked).await?;
        Answer::decode(answer.get_ref())
            .map_err(|error| RemoteError::Refused(format!("{}: {error}", self.address)))
    }

    /// Begins a stream of records, which has no time limit.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub(super) async fn records(
        &self,
        places: &[FollowerPosition],
        time: Duration,
    ) -> Result<Streaming<Bytes>, RemoteError> {
        let request = self.request(stream::encode_places(places))?;
        let mut grpc =
            Grpc::new(self.channel.clone()).max_decoding_message_size(stream::MESSAGE_BYTES_MAX);
        let begun = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let path = PathAndQuery::from_static(stream::METHOD);
            grpc.server_streaming(request, path, BytesCodec::default()).await
        };
        Ok(self.within(time, begun).await?.into_inner())
    }

    /// A request with the key as it is now.
    fn request(&self, bytes: Vec<u8>) -> Result<Request<Bytes>, RemoteError> {
        let mut request = Request::new(Bytes::from(bytes));
        if let Some(credential) = &self.means.credential {
            let credential = credential.get();
            let value = format!("{SCHEME}{}", credential.encode()).parse();
            let mut value: MetadataValue<Ascii> =
                value.map_err(|_| self.failed("the key is no header"))?;
            value.set_sensitive(true);
            request.metadata_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    }

    async fn within<T>(
        &self,
        time: Duration,
        asked: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, RemoteError> {
        match timeout(time, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.refused(&status)),
            Err(_) => Err(self.failed(&format!("no answer within {time:?}"))),
        }
    }

    fn failed(&self, words: &str) -> RemoteError {
        RemoteError::Unreachable(format!("{}: {words}", self.address))
    }

    /// What a status of the other cluster means.
    pub(super) fn refused(&self, status: &Status) -> RemoteError {
        let words = match std::error::Error::source(status) {
            Some(source) => tls::cause_in_words(source),
            None => status.message().to_owned(),
        };
        error_of(status, format!("{}: {}", self.address, repeatable(&words)))
    }
}

/// What another cluster says, as it may stand in a line of a log.
fn repeatable(words: &str) -> String {
    words.chars().map(|it| if it.is_control() { ' ' } else { it }).take(WORDS_MAX).collect()
}

/// Makes the connections of one channel, each with the certificates as they are then.
struct Connector {
    address: Arc<str>,
    name: ServerName<'static>,
    tls: Arc<Watched<ClientConfig>>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Worded>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (address, name) = (Arc::clone(&self.address), self.name.clone());
        let connector = TlsConnector::from(self.tls.get());
        Box::pin(async move {
            let connecting = async {
                let stream = TcpStream::connect(&*address).await?;
                stream.set_nodelay(true)?;
                connector.connect(name, stream).await
            };
            let connected = timeout(CONNECT_TIME, connecting).await.map_err(|_| {
                let message = format!("no connection within {CONNECT_TIME:?}");
                io::Error::new(io::ErrorKind::TimedOut, message)
            })?;
            Ok(TokioIo::new(Worded(connected?)))
        })
    }
}

/// A stream whose errors are words. The leader judges a follower's certificate after the handshake has
/// ended here, so that TLS says of it in a read; HTTP/2 keeps of such an error its text alone.
struct Worded(TlsStream<TcpStream>);

impl AsyncRead for Worded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(context, into);
        read.map_err(|error| io::Error::new(error.kind(), tls::cause_in_words(&error)))
    }
}

impl AsyncWrite for Worded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_line_of_bounded_length() {
        assert_eq!(repeatable("a\nb\u{1b}[31m"), "a b [31m");
        assert_eq!(repeatable(&"ü".repeat(10_000)).chars().count(), WORDS_MAX);
    }
}
