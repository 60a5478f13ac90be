//! The body of a request as it arrives: its type checked, gzip undone, its size and that of all
//! bodies together bounded.

use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use plimsoll_cluster::{refused, stopped};
use plimsoll_index::Error;
use plimsoll_memory::Standing;
use plimsoll_memory::breakers::{self, Trip};
use sync_wrapper::SyncWrapper;

use super::media;
use super::tasks::action::Kind;

/// How much of a compressed body is inflated at a time, in compressed bytes: gzip makes at most
/// about a thousand bytes of one.
const INFLATE_BYTES: usize = 4 << 10;
/// What an operator may always send, bytes.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Memory that bodies of all requests may hold together.
#[derive(Debug)]
pub struct InFlight {
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    /// Thousandths.
    overhead: AtomicU32,
    tripped: AtomicU64,
}

impl InFlight {
    /// Room for so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes_max),
            overhead: AtomicU32::new(1000),
            tripped: AtomicU64::new(0),
        }
    }

    /// Sets the most that may be held, and what bytes are multiplied with before they are
    /// compared with it: as long as it is read, a body is there twice.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub fn set(&self, bytes_max: u64, overhead: f64) {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        self.bytes_max.store(bytes_max, Relaxed);
        self.overhead.store((overhead * 1000.0) as u32, Relaxed);
    }

    /// What bytes are multiplied with.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        f64::from(self.overhead.load(Relaxed)) / 1000.0
    }

    /// How often there was no room.
    #[must_use]
    pub fn tripped(&self) -> u64 {
        self.tripped.load(Relaxed)
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The most that may be held.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), Error> {
        let held = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let wanted = held as u64 * u64::from(self.overhead.load(Relaxed)) / 1000;
        if wanted <= self.bytes_max() as u64 {
            return Ok(());
        }
        self.bytes.fetch_sub(bytes, Relaxed);
        self.tripped.fetch_add(1, Relaxed);
        Err(refused(&Trip {
            breaker: "in_flight_requests",
            label: "<http_request>".to_owned(),
            bytes_wanted: wanted,
            bytes_limit: self.bytes_max() as u64,
            bytes_new: bytes as u64,
            largest: breakers::largest_open(),
            is_transient: true,
        }))
    }
}

/// How much of a body that nobody wanted is read all the same, bytes, so that the connection can
/// go on with the next request.
const REST_BYTES_MAX: usize = 64 << 10;
/// How long that may take.
const REST_TIME: Duration = Duration::from_secs(1);

/// The end of a body, whoever reads it; none where there is no body.
#[derive(Clone, Debug)]
pub struct End(Option<Arc<Ending>>);

#[derive(Debug)]
struct Ending {
    body: Mutex<Body>,
    was_reached: AtomicBool,
}

impl Ending {
    fn poll_frame(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.body.lock();
        let frame = std::task::ready!(Pin::new(&mut *body).poll_frame(context));
        if frame.is_none() || body.is_end_stream() {
            self.was_reached.store(true, Relaxed);
        }
        Poll::Ready(frame)
    }
}

impl End {
    /// A body, and what knows whether its end was reached.
    pub fn watch(body: Body) -> (Body, Self) {
        if body.is_end_stream() {
            return (body, Self(None));
        }
        let was_reached = AtomicBool::new(false);
        let ending = Arc::new(Ending { body: Mutex::new(body), was_reached });
        let read = Arc::clone(&ending);
        let frames = futures_util::stream::poll_fn(move |context| read.poll_frame(context));
        (Body::new(StreamBody::new(frames)), Self(Some(ending)))
    }

    /// Reads what is left of the body, where that is little, and says whether its end is reached.
    pub async fn reach(&self) -> bool {
        let Some(ending) = &self.0 else { return true };
        let mut bytes = 0;
        let reading = async {
            while !ending.was_reached.load(Relaxed) && bytes <= REST_BYTES_MAX {
                match poll_fn(|context| ending.poll_frame(context)).await {
                    Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
                    Some(Err(_)) => return,
                    None => {}
                }
            }
        };
        let is_small = ending.body.lock().size_hint().lower() <= REST_BYTES_MAX as u64;
        if is_small {
            let _ = tokio::time::timeout(REST_TIME, reading).await;
        }
        ending.was_reached.load(Relaxed)
    }
}

/// The largest body of a request of the cluster's own, bytes: no breaker stops those, and no
/// mapping or list of settings comes near it.
const CONTROL_BYTES_MAX: usize = 16 << 20;
/// The same where one document is written, which is at most 8 MiB in the log.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// The largest body of a request of this kind, where `bytes_max` is that of all.
#[must_use]
pub fn bytes_max((name, standing): Kind, bytes_max: usize) -> usize {
    match name {
        "indices:data/write/index" | "indices:data/write/update" => {
            bytes_max.min(DOCUMENT_BYTES_MAX)
        }
        _ if standing == Standing::Control => bytes_max.min(CONTROL_BYTES_MAX),
        _ => bytes_max,
    }
}

/// Whether headers announce a body that is not empty.
#[must_use]
pub fn is_announced(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).map(HeaderValue::as_bytes);
    length.is_some_and(|length| length != b"0") || headers.contains_key(header::TRANSFER_ENCODING)
}

/// Bytes of one body, or of requests of one Redis client, that are held; dropping it gives them
/// back.
#[derive(Debug)]
pub struct Held {
    all: Arc<InFlight>,
    bytes: usize,
}

impl Held {
    /// Nothing yet, of what all hold together.
    #[must_use]
    pub fn new(all: Arc<InFlight>) -> Self {
        Self { all, bytes: 0 }
    }

    /// How many it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds so many bytes in all from now on.
    ///
    /// # Errors
    /// Where there is no room for them: it holds what it did before.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => Ok(()),
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.all.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.all.bytes.fetch_sub(bytes, Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// The body of one request.
#[derive(Debug)]
pub struct RequestBody {
    /// Only ever read by its one owner, who may lend the rest of the request to others.
    body: SyncWrapper<Body>,
    content_type: Option<String>,
    inflate: Option<MultiGzDecoder<Vec<u8>>>,
    /// Compressed bytes that are not inflated yet.
    compressed: Bytes,
    held: Held,
    bytes: usize,
    bytes_max: usize,
    is_over: bool,
}

impl RequestBody {
    /// A body that has not been read.
    ///
    /// # Errors
    /// 413 where its length is said to be over the limit, 415 for an encoding other than gzip,
    /// 406 for a type that is not JSON.
    pub fn new(
        body: Body,
        headers: &HeaderMap,
        bytes_max: usize,
        all: Arc<InFlight>,
    ) -> Result<Self, Error> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let length = text(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length > bytes_max as u64) {
            return Err(too_large(bytes_max));
        }
        let content_type = text(header::CONTENT_TYPE).map(str::to_owned);
        if length.is_some_and(|length| length > 0) {
            media::check_body(content_type.as_deref())?;
        }
        let inflate = match text(header::CONTENT_ENCODING) {
            None | Some("" | "identity") => None,
            Some("gzip" | "x-gzip") => Some(MultiGzDecoder::new(Vec::new())),
            Some(other) => {
                return Err(Error::unsupported(
                    "illegal_argument_exception",
                    format!("Content-Encoding [{other}] is not supported, only [gzip] is"),
                ));
            }
        };
        let held = Held { all, bytes: 0 };
        let compressed = Bytes::new();
        Ok(Self {
            body: SyncWrapper::new(body),
            content_type,
            inflate,
            compressed,
            held,
            bytes: 0,
            bytes_max,
            is_over: false,
        })
    }

    /// The next piece, or none at the end. It counts as held until [`Self::release`].
    ///
    /// # Errors
    /// Where the body is too large, not gzip though it says so, or the connection ends.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(piece) = self.inflated()? {
                // All of it may be here already: a request that is given up ends between two pieces.
                tokio::task::yield_now().await;
                return self.counted(piece).map(Some);
            }
            if self.is_over {
                return Ok(None);
            }
            let Some(frame) = self.body.get_mut().frame().await else {
                self.is_over = true;
                return self.tail();
            };
            let frame = frame.map_err(|error| unread(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            if self.bytes == 0 {
                // A body of unknown length is known not to be empty only here.
                media::check_body(self.content_type.as_deref())?;
            }
            if self.inflate.is_none() {
                return self.counted(data).map(Some);
            }
            self.compressed = data;
        }
    }

    /// Bytes of pieces that the reader does not hold any more.
    pub fn release(&mut self, bytes: usize) {
        self.held.shrink(bytes);
    }

    /// All of it, in one piece.
    ///
    /// # Errors
    /// As [`Self::piece`].
    pub async fn all(&mut self) -> Result<Bytes, Error> {
        let Some(first) = self.piece().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.piece().await? else { return Ok(first) };
        let mut whole = BytesMut::with_capacity((first.len() + second.len()) * 2);
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(piece) = self.piece().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    fn counted(&mut self, piece: Bytes) -> Result<Bytes, Error> {
        self.bytes += piece.len();
        if self.bytes > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        self.held.grow(piece.len())?;
        if let Some(account) = plimsoll_memory::current() {
            account.ask(piece.len() as u64).map_err(|stop| stopped(&stop))?;
            // What is written stays, and a request of the cluster's own is stopped by nobody. Reads
            // are left to the choice of who holds most.
            let is_large = self.bytes > SMALL_BYTES_MAX || account.standing() == Standing::Write;
            let is_write = is_large && account.standing() != Standing::Read;
            if is_write && breakers::is_parent_full(self.bytes) {
                return Err(refused(&breakers::parent_trip("<http_request>")));
            }
        }
        Ok(piece)
    }

    /// What a bit of the compressed bytes comes to; none where more of them are needed.
    fn inflated(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(decoder) = &mut self.inflate else { return Ok(None) };
        while !self.compressed.is_empty() {
            let bit = self.compressed.split_to(INFLATE_BYTES.min(self.compressed.len()));
            decoder.write_all(&bit).map_err(|error| not_gzip(&error))?;
            if !decoder.get_ref().is_empty() {
                return Ok(Some(std::mem::take(decoder.get_mut()).into()));
            }
        }
        Ok(None)
    }

    /// What the end of a compressed body still brings.
    fn tail(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(decoder) = &mut self.inflate else { return Ok(None) };
        if self.bytes == 0 && decoder.get_ref().is_empty() && decoder.header().is_none() {
            // A request without a body may say gzip all the same.
            return Ok(None);
        }
        decoder.try_finish().map_err(|error| not_gzip(&error))?;
        let rest = std::mem::take(decoder.get_mut());
        if rest.is_empty() { Ok(None) } else { self.counted(rest.into()).map(Some) }
    }
}

fn not_gzip(error: &std::io::Error) -> Error {
    Error::illegal_argument(format!("the body is not valid gzip: {error}"))
}

fn too_large(bytes_max: usize) -> Error {
    Error::too_large(
        "content_too_long_exception",
        format!("entity content is too long for the configured buffer limit [{bytes_max}]"),
    )
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("the rights of whoever sends the request were changed or taken away while it came")]
pub struct Taken;

/// A body that could not be read to its end.
fn unread(error: &axum::Error) -> Error {
    let mut cause = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = cause {
        if error.is::<Taken>() {
            return Error::forbidden("security_exception", error);
        }
        cause = error.source();
    }
    Error::illegal_argument(format!("the body could not be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use flate2::{Compression, write::GzEncoder};

    fn body(bytes: Vec<u8>, is_gzip: bool, bytes_max: usize) -> RequestBody {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        }
        let all = Arc::new(InFlight::new(1 << 20));
        RequestBody::new(Body::from(bytes), &headers, bytes_max, all).unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn bodies_are_read_and_inflated() {
        let text = b"{\"a\": 1}".repeat(1000);
        assert_eq!(body(text.clone(), false, 1 << 20).all().await.unwrap(), text);
        assert_eq!(body(gzip(&text), true, 1 << 20).all().await.unwrap(), text);
        assert_eq!(body(Vec::new(), true, 10).all().await.unwrap(), "");
        let broken = body(gzip(&text)[..30].to_vec(), true, 1 << 20).all().await;
        assert_eq!(broken.unwrap_err().status(), 400);
        assert_eq!(body(text, true, 1 << 20).all().await.unwrap_err().status(), 400);
    }

    #[tokio::test]
    async fn a_body_that_grows_beyond_the_limit_is_refused() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(body(bomb, true, 1 << 20).all().await.unwrap_err().status(), 413);
        assert_eq!(body(vec![b' '; 11], false, 10).all().await.unwrap_err().status(), 413);
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded() {
        let all = Arc::new(InFlight::new(100));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        let one = |size: usize| {
            RequestBody::new(Body::from(vec![b' '; size]), &headers, 1000, Arc::clone(&all))
        };
        let mut first = one(80).unwrap();
        first.all().await.unwrap();
        assert_eq!(one(80).unwrap().all().await.unwrap_err().status(), 429);
        drop(first);
        assert_eq!(all.bytes(), 0);
        assert!(one(80).unwrap().all().await.is_ok());
    }
}
