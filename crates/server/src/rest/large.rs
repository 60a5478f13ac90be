//! Threads for requests whose body is large: reading, inflating and parsing it takes long, and the
//! threads of connections answer everybody else meanwhile. What a request means is not known here.

use std::io;

use axum::http::{HeaderMap, HeaderValue, header};
use plimsoll_memory::{ledger::CONNECTIONS, local::charge_thread};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinSet};

/// A larger body takes long, bytes: some milliseconds.
const BODY_BYTES: u64 = 256 << 10;
/// The same for one that is compressed: gzip makes up to a thousand bytes of one.
const COMPRESSED_BYTES: u64 = 4 << 10;

/// The threads.
#[derive(Debug)]
pub struct LargeRequests {
    /// None once it is being dropped.
    runtime: Option<Runtime>,
}

impl LargeRequests {
    /// As many threads as there are processors.
    ///
    /// # Errors
    /// Where the system has no room for them.
    pub fn start() -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("http-large")
            .on_thread_start(|| charge_thread(&CONNECTIONS))
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Does work there that ends where nobody waits for it any more.
    ///
    /// # Errors
    /// Where the work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        let Some(runtime) = &self.runtime else { unreachable!("it is not being dropped") };
        let mut task = JoinSet::new();
        task.spawn_on(work, runtime.handle());
        let Some(ended) = task.join_next().await else { unreachable!("there is one task") };
        ended
    }
}

impl Drop for LargeRequests {
    fn drop(&mut self) {
        // Whoever drops it last may be a task, which may not wait for threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether what follows these headers may take long to read.
#[must_use]
pub fn is_announced(headers: &HeaderMap) -> bool {
    let Some(length) = headers.get(header::CONTENT_LENGTH) else {
        return headers.contains_key(header::TRANSFER_ENCODING);
    };
    let length = length.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let is_compressed = encoding.is_some_and(|encoding| !matches!(encoding, b"" | b"identity"));
    length.is_none_or(|length| length > if is_compressed { COMPRESSED_BYTES } else { BODY_BYTES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_may_take_long_are_known_by_their_headers() {
        let is_large = |named: &[(header::HeaderName, &'static str)]| {
            let named = named.iter().cloned();
            is_announced(&named.map(|(name, it)| (name, HeaderValue::from_static(it))).collect())
        };
        let length = |it| (header::CONTENT_LENGTH, it);
        let gzip = (header::CONTENT_ENCODING, "gzip");
        assert!(!is_large(&[]) && !is_large(&[length("262144")]));
        assert!(is_large(&[length("262145")]) && is_large(&[length("many")]));
        assert!(!is_large(&[length("4096"), gzip.clone()]) && is_large(&[length("4097"), gzip]));
        assert!(!is_large(&[length("4097"), (header::CONTENT_ENCODING, "identity")]));
        assert!(is_large(&[(header::TRANSFER_ENCODING, "chunked")]));
    }

    #[tokio::test]
    async fn work_ends_with_who_waits_for_it() {
        let large = LargeRequests::start().unwrap();
        assert_eq!(large.run(async { 1 }).await.unwrap(), 1);
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let (held, is_over) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! { _ = large.run(work) => {}, _ = is_begun => {} }
        // What the work held goes with it; otherwise this would wait for ever.
        assert!(is_over.await.is_err());
    }
}
