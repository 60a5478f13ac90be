//! The port of HTTP: connections on threads of their own, how they begin, and how they end when
//! the node stops. What is answered on them is not its concern.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use plimsoll_memory::{ledger::CONNECTIONS, local::settle_thread};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{Rest, router};

/// How long a silent peer is trusted to be there.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// How long to wait when no connection can be accepted, most likely for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The most headers that a request may have.
const HEADERS_MAX: usize = 100;

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
        threads: usize,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("http")
            .on_thread_start(|| settle_thread(&CONNECTIONS))
            .enable_all()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopping) = watch::channel(false);
        runtime.spawn(accept(listener, Arc::clone(&rest), stopping));
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

async fn accept(listener: TcpListener, rest: Arc<Rest>, mut stopping: watch::Receiver<bool>) {
    let router = router(Arc::clone(&rest));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, remote)) => {
                if rest.connections() >= rest.node.settings.http_max_clients {
                    tracing::warn!(%remote, "connection refused: http.max_clients are open");
                    continue;
                }
                let open = Open::new(Arc::clone(&rest));
                let (router, stopping) = (router.clone(), stopping.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, router, stopping).await {
                        tracing::debug!(%remote, %error, "HTTP connection ended");
                    }
                    drop(open);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection that counts as open while this is there.
struct Open(Arc<Rest>);

impl Open {
    fn new(rest: Arc<Rest>) -> Self {
        rest.connections.fetch_add(1, Relaxed);
        rest.connections_total.fetch_add(1, Relaxed);
        Self(rest)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

async fn serve(
    stream: TcpStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    let mut builder = http1::Builder::new();
    // Without a timer on headers: clients keep idle connections for hours and expect them to be
    // there. What an idle one costs is bounded by `http.max_clients`.
    builder.timer(TokioTimer::new()).header_read_timeout(None);
    builder.keep_alive(true).pipeline_flush(true).half_close(true).max_headers(HEADERS_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}
