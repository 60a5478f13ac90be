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
mod threads;
mod wire;

pub use channels::NodeWay;
pub use client::Client;
pub(crate) use codec::BytesCodec;
pub use server::{Answers, Server};
pub(crate) use threads::Threads;
