//! The way between nodes: gRPC over HTTP/2 with one method that takes bytes and gives bytes.
//!
//! What the bytes mean is the cluster's business. Here are the connections ([`Client`],
//! [`Server`]), deadlines and cancellation, the secret that the nodes of a cluster share, and
//! what can be known of a question that has no answer.

mod channels;
mod client;
mod codec;
mod incoming;
mod server;

use std::{io, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::runtime::{Builder, Handle, Runtime};

pub use client::Client;
pub(crate) use codec::BytesCodec;
pub use server::{Answers, Server};

/// The one method.
const METHOD: &str = "/plimsoll.Node/Ask";
/// The header that carries the secret.
const AUTHORIZATION: &str = "authorization";
const SCHEME: &str = "Bearer ";
/// Goes with a refusal that came before anything was done.
const REFUSED: &str = "plimsoll-refused";
/// What one message may have on its way without a word from the receiver: an answer of 4 MiB
/// goes out in one go.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// The same for a connection, which many messages share.
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The longest piece of a message: one of 16 KiB, the least there may be, costs a long message
/// more than the wait costs the short ones behind it.
const FRAME_BYTES_MAX: u32 = 128 << 10;
/// Calls at once on one connection; more wait in the node that asks.
const STREAMS_MAX: u32 = 1024;
/// Threads of each side. They carry bytes and run no searches.
const THREADS: usize = 2;

/// Threads of their own: whoever asks runs on one of many runtimes of a single thread, which is
/// busy with its clients and no place for what all share.
pub(crate) struct Threads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Threads {
    pub(crate) fn start(name: &'static str) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(name)
            .enable_all()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Where work for them is handed over.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for what still runs, up to `timeout`. Blocks.
    pub(crate) fn stop(mut self, timeout: Duration) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(timeout);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Without a wait: this may be on an async thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What the header says for a secret, which may hold anything.
fn authorization(secret: &str) -> String {
    format!("{SCHEME}{}", STANDARD.encode(secret))
}

/// The secret that a header says.
fn secret_of(header: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(header.strip_prefix(SCHEME.as_bytes())?).ok()
}
