//! Questions as they come over a connection: who may ask, how many at once, and how a refusal reads.
//!
//! The key is asked for with every question, before a byte of it is read: one that was taken back
//! opens nothing from then on, on connections that are open too.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use plimsoll_cluster::Peers;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::{self, BoxFuture, http};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};

use super::connection::{Asked, Standing};
use super::shares::{Share, Shares};
use super::streaming::{STREAMS_OF_KEY_MAX, Streaming};
use super::{ANSWERS_MAX, Leader, answer};
use crate::remote::protocol::{
    ANSWER_BYTES_MAX, AUTHORIZATION, METHOD, QUESTION_BYTES_MAX, Question, SCHEME,
};
use crate::remote::refusal::status_of;
use crate::remote::{relay, stream};
use crate::rpc::BytesCodec;
use crate::security::keys::{Credential, Key, Keys, Refusal};

/// The one service of the port.
#[derive(Clone)]
pub(super) struct Service {
    keys: Arc<Keys>,
    leader: Arc<dyn Leader>,
    peers: Arc<dyn Peers>,
    room: Arc<Semaphore>,
    /// Streams of each key.
    streams: Arc<Shares>,
    /// Its questions.
    questions: Arc<Shares>,
    /// Whether the port stops.
    stopping: watch::Receiver<bool>,
}

impl Service {
    pub(super) fn new(
        keys: Arc<Keys>,
        leader: Arc<dyn Leader>,
        peers: Arc<dyn Peers>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let room = Arc::new(Semaphore::new(ANSWERS_MAX));
        let (streams, questions) = (Arc::default(), Arc::default());
        Self { keys, leader, peers, room, streams, questions, stopping }
    }

    /// Lets a question in before a byte of it is read.
    fn admit<B>(&self, request: &http::Request<B>) -> Result<(Key, Admitted), Status> {
        let standing = request.extensions().get::<Standing>();
        let standing = standing.ok_or_else(|| Status::internal("the connection is not known"))?;
        let header = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
        let key = match self.key(header) {
            Ok(key) => key,
            Err(refusal) => {
                let words = refusal.to_string();
                standing.say_refused(&words);
                return Err(Status::unauthenticated(words));
            }
        };
        if !standing.know(&key.id, Instant::now()) {
            let words = "too many connections of this key";
            standing.say_refused(words);
            return Err(Status::resource_exhausted(words));
        }
        let room = match request.uri().path() {
            METHOD => {
                let busy = || Status::resource_exhausted("too many questions of followers at once");
                let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| busy())?;
                // One key has as many under way as it leaves to others: questions may come slowly.
                let left = self.room.available_permits() + 1;
                let share = self.questions.take(&key.id, left).ok_or_else(busy)?;
                Some((room, share))
            }
            // The leader itself says how many streams it serves.
            stream::METHOD => None,
            _ => return Err(Status::unimplemented("there is no such method")),
        };
        Ok((key, Admitted { room, asked: standing.ask() }))
    }

    /// The key that a header opens.
    fn key(&self, header: Option<&[u8]>) -> Result<Key, KeyError> {
        let header = header.ok_or(KeyError::Missing)?;
        let credential = header.strip_prefix(SCHEME.as_bytes()).and_then(Credential::decode);
        let credential = credential.ok_or(KeyError::Damaged)?;
        Ok(self.keys.open(&credential)?)
    }
}

/// Why nobody is let in by a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum KeyError {
    /// There is none.
    #[error("a key is wanted: name the file that holds it as credentials_file")]
    Missing,
    /// It is no key's credential.
    #[error("the key is damaged: it is what `encoded` was when it was made")]
    Damaged,
    /// It opens nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A question under way.
struct Admitted {
    /// None where it begins a stream.
    room: Option<(OwnedSemaphorePermit, Share)>,
    asked: Asked,
}

impl codegen::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (key, admitted) = match self.admit(&request) {
            Ok(admitted) => admitted,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let Admitted { room, asked } = admitted;
        let Some(room) = room else {
            let Some(share) = self.streams.take(&key.id, STREAMS_OF_KEY_MAX) else {
                let busy = Status::resource_exhausted("too many streams of this key: come again");
                return Box::pin(async move { Ok(busy.into_http()) });
            };
            let streaming = Streaming {
                share: Some(share),
                key: Arc::new(key),
                keys: Arc::clone(&self.keys),
                leader: Arc::clone(&self.leader),
                stopping: self.stopping.clone(),
                asked: Some(asked),
            };
            return Box::pin(async move {
                let mut grpc = Grpc::new(BytesCodec::default())
                    .max_decoding_message_size(QUESTION_BYTES_MAX)
                    .max_encoding_message_size(stream::MESSAGE_BYTES_MAX);
                Ok(grpc.server_streaming(streaming, request).await)
            });
        };
        let asking = Asking {
            key: Arc::new(key),
            leader: Arc::clone(&self.leader),
            peers: Arc::clone(&self.peers),
        };
        Box::pin(async move {
            let mut grpc = Grpc::new(BytesCodec::default())
                .max_decoding_message_size(QUESTION_BYTES_MAX)
                .max_encoding_message_size(ANSWER_BYTES_MAX);
            let response = grpc.unary(asking, request).await;
            drop((room, asked));
            Ok(response)
        })
    }
}

/// Answers for one key.
struct Asking {
    key: Arc<Key>,
    leader: Arc<dyn Leader>,
    peers: Arc<dyn Peers>,
}

impl UnaryService<Bytes> for Asking {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, question: Request<Bytes>) -> Self::Future {
        let (key, leader) = (Arc::clone(&self.key), Arc::clone(&self.leader));
        let peers = Arc::clone(&self.peers);
        Box::pin(async move {
            let question = Question::decode(question.get_ref());
            let question = question.map_err(|error| Status::invalid_argument(error.to_string()))?;
            let other = question.node.filter(|node| *node != leader.own_node());
            if let Some(node) = other {
                let Some(address) = leader.peer(&node) else {
                    return Err(Status::not_found(format!("there is no node `{node}` here")));
                };
                let handed = relay::hand_on(&*peers, &address, &key.id, &question.ask).await;
                let answer = handed.map_err(|error| match error {
                    relay::Unanswered::Silent(words) => {
                        // What nodes say to each other is not for other clusters.
                        tracing::warn!(node, %words, "a question of another cluster was not answered");
                        Status::unavailable(format!("the node `{node}` does not answer"))
                    }
                    relay::Unanswered::Refused(error) => status_of(error),
                })?;
                return Ok(Response::new(answer.encode().into()));
            }
            let answer = answer(question.ask, &key, &*leader).await.map_err(status_of)?;
            Ok(Response::new(answer.encode().into()))
        })
    }
}
