//! How bytes get from one node to another: what a front end gives.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

/// The longest question or answer, bytes: a record's most and room for what is around it.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// An answer that is on its way.
pub type Call = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send>>;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The question did not reach the node: it was not carried out.
    #[error("the node cannot be reached: {0}")]
    Unreachable(String),
    /// The question may have been carried out, or may still be.
    #[error("the node did not answer: {0}")]
    Lost(String),
    /// No answer came in time; as [`Self::Lost`].
    #[error("the node did not answer in time")]
    TimedOut,
}

/// The way to other nodes. Connections are kept and made anew by whoever implements it.
pub trait Peers: Send + Sync + 'static {
    /// Asks the node that listens at `address` (`host:port`). Dropping the call tells the node
    /// to stop working on it.
    fn call(&self, address: &str, question: Bytes, timeout: Duration) -> Call;
}

/// A node that is alone.
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(&self, _: &str, _: Bytes, _: Duration) -> Call {
        Box::pin(async { Err(CallError::Unreachable("this node has no peers".to_owned())) })
    }
}
