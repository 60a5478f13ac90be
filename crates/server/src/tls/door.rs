//! The door of a port: the handshake of TLS where the port has a certificate, none where it has not. It has
//! 10 s, as whoever is not let in yet may cost a node no longer.
//!
//! It does not accept connections and does not know what goes through them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::cause_in_words;
use super::stream::Stream;
use super::watched::Watched;
use crate::linger::linger;

/// How long a handshake may take: as long as a connection has to log in.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How often it is logged that a handshake failed.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Why a connection comes no further than the handshake: the words for an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HandshakeError(pub String);

/// Shakes hands with whoever connected, who is told by TLS why it comes no further.
///
/// # Errors
/// What does not do in what the other side says or shows, or that it hung up.
pub async fn shake_hands(
    config: Arc<ServerConfig>,
    stream: TcpStream,
) -> Result<tokio_rustls::server::TlsStream<TcpStream>, HandshakeError> {
    match TlsAcceptor::from(config).accept(stream).into_fallible().await {
        Ok(stream) => Ok(stream),
        Err((error, mut stream)) => {
            // What TLS says of it arrives, whatever the other side still sends.
            linger(&mut stream).await;
            Err(HandshakeError(cause_in_words(&error)))
        }
    }
}

/// What a handshake of TLS begins with; no other protocol here does.
const HANDSHAKE: u8 = 22;

async fn speaks_tls(stream: &TcpStream) -> Result<bool, HandshakeError> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(count) => Ok(count == 1 && first[0] == HANDSHAKE),
        Err(error) => Err(HandshakeError(error.to_string())),
    }
}

/// What every connection of a port passes.
pub struct Door {
    /// The setting of the port, as the log names it.
    port: &'static str,
    time: Time,
    tls: Option<Arc<Watched<ServerConfig>>>,
    /// Whether who speaks no TLS is let in as well.
    is_optional: bool,
    /// Failures that were not logged since the last that was.
    failures: Mutex<(u64, Option<Instant>)>,
}

impl Door {
    /// The door of a port; without TLS whoever connects is through.
    #[must_use]
    pub fn new(port: &'static str, time: Time, tls: Option<Arc<Watched<ServerConfig>>>) -> Self {
        Self { port, time, tls, is_optional: false, failures: Mutex::default() }
    }

    /// The same, through which whoever speaks no TLS comes as well.
    #[must_use]
    pub fn optional(self, is_optional: bool) -> Self {
        Self { is_optional, ..self }
    }

    /// The time that its handshakes are bounded by.
    #[must_use]
    pub fn time(&self) -> &Time {
        &self.time
    }

    /// Its certificate, where there is TLS.
    #[must_use]
    pub fn watched(&self) -> Option<Arc<Watched<ServerConfig>>> {
        self.tls.clone()
    }

    /// Whether there is TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Lets a connection in; none where it came no further than the handshake, which is logged, once a second
    /// at most.
    pub async fn pass(&self, stream: TcpStream) -> Option<Stream> {
        let Some(tls) = &self.tls else { return Some(Stream::Plain(stream)) };
        let remote = stream.peer_addr().ok();
        let passing = async {
            if self.is_optional && !speaks_tls(&stream).await? {
                return Ok(Stream::Plain(stream));
            }
            let shaken = shake_hands(tls.get(), stream).await?;
            Ok(Stream::Tls(Box::new(TlsStream::Server(shaken))))
        };
        let passed: Result<_, HandshakeError> =
            match self.time.timeout(HANDSHAKE_TIME, passing).await {
                Ok(passed) => passed,
                Err(_) => Err(HandshakeError("the handshake of TLS took too long".to_owned())),
            };
        let why = match passed {
            Ok(stream) => return Some(stream),
            Err(HandshakeError(why)) => why,
        };
        let mut failures = self.failures.lock();
        failures.0 += 1;
        let now = self.time.now();
        let is_due = failures.1.is_none_or(|at| now - at >= LOG_PAUSE);
        if is_due {
            let count = std::mem::take(&mut failures.0);
            failures.1 = Some(now);
            drop(failures);
            let remote = remote.map(tracing::field::display);
            tracing::warn!(port = self.port, remote, count, why, "handshakes failed; the last so");
        }
        None
    }
}
