//! A stream of records for a follower: begun by a question that is checked as any other, then handed
//! on message by message for as long as the key holds and may follow the tables. A task of its own
//! sees to that also while the follower reads nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use plimsoll_cluster::following::{FollowerPosition, Records, Told};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::codegen::BoxFuture;
use tonic::server::ServerStreamingService;
use tonic::{Request, Response, Status};

use super::connection::Asked;
use super::shares::Share;
use super::{Leader, no_table};
use crate::remote::refusal::status_of;
use crate::remote::stream;
use crate::security::keys::{Key, Keys};

/// How often the key is looked at while a stream runs.
const KEY_INTERVAL: Duration = Duration::from_secs(2);
/// How many streams one key may have at a node: half of all, so that others come in.
pub(super) const STREAMS_OF_KEY_MAX: usize = 16;
/// What of a stream is ready to be sent: the leader has its own few messages behind it.
const READY_MAX: usize = 1;
/// How long a follower has to take the last word of a stream.
const LAST_WORD_TIME: Duration = Duration::from_secs(10);

/// Begins a stream for one key.
pub(super) struct Streaming {
    pub key: Arc<Key>,
    pub keys: Arc<Keys>,
    pub leader: Arc<dyn Leader>,
    pub stopping: watch::Receiver<bool>,
    /// Taken by the stream: its connection is in use until it ends.
    pub asked: Option<Asked>,
    /// Taken by the stream, too.
    pub share: Option<Share>,
}

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl ServerStreamingService<Bytes> for Streaming {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = BoxFuture<Response<Messages>, Status>;

    fn call(&mut self, question: Request<Bytes>) -> Self::Future {
        let (key, keys) = (Arc::clone(&self.key), Arc::clone(&self.keys));
        let (leader, stopping) = (Arc::clone(&self.leader), self.stopping.clone());
        let (asked, share) = (self.asked.take(), self.share.take());
        Box::pin(async move {
            let places = stream::decode_places(question.get_ref());
            let places = places.map_err(|error| Status::invalid_argument(error.to_string()))?;
            let (names, places, refused) = allowed(&*leader, places, &key).await?;
            let records = match places.is_empty() {
                true => None,
                false => Some(leader.records(places).await.map_err(status_of)?),
            };
            let (sender, ready) = mpsc::channel(READY_MAX);
            let watched = Watched { keys, key: key.id.clone(), names, stopping };
            tokio::spawn(async move {
                hand_over(refused, records, watched, sender).await;
                drop((asked, share));
            });
            let messages: Messages = Box::pin(unfold(ready, |mut ready| async move {
                let message = ready.recv().await?;
                Some((message, ready))
            }));
            Ok(Response::new(messages))
        })
    }
}

/// The tables that the key may follow, their places, and the others.
async fn allowed(
    leader: &dyn Leader,
    places: Vec<FollowerPosition>,
    key: &Key,
) -> Result<(Vec<String>, Vec<FollowerPosition>, Vec<Told>), Status> {
    let mut names = leader.names_of(&places).await.map_err(status_of)?;
    names.retain(|_, name| key.may_follow(name));
    let is_allowed = |place: &FollowerPosition| names.contains_key(&place.partition.table);
    let (allowed, others): (Vec<FollowerPosition>, Vec<FollowerPosition>) =
        places.into_iter().partition(is_allowed);
    // Whether it is there is nothing that the key opens.
    let refuse = |FollowerPosition { partition, .. }: FollowerPosition| {
        let error = no_table(&partition.table.to_string());
        Told::Refused { partition, error }
    };
    Ok((names.into_values().collect(), allowed, others.into_iter().map(refuse).collect()))
}

/// What has to hold while a stream runs.
struct Watched {
    keys: Arc<Keys>,
    /// The id of the key.
    key: String,
    names: Vec<String>,
    stopping: watch::Receiver<bool>,
}

impl Watched {
    /// Waits until the stream has to end, and says why.
    async fn over(mut self) -> Status {
        let mut ticks = interval(KEY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Also where nobody is left who could say it.
                _ = self.stopping.wait_for(|stop| *stop) => {
                    return Status::unavailable("the node stops");
                }
                _ = ticks.tick() => {}
            }
            match self.keys.known(&self.key) {
                Err(refusal) => return Status::unauthenticated(refusal.to_string()),
                Ok(key) => {
                    // Asked again, the stream goes on with what it may follow still.
                    if self.names.iter().any(|it| !key.may_follow(it)) {
                        return Status::unavailable("the key opens other tables now");
                    }
                }
            }
        }
    }
}

/// Hands messages over until one side ends it.
async fn hand_over(
    refused: Vec<Told>,
    mut records: Option<Box<dyn Records>>,
    watched: Watched,
    sender: mpsc::Sender<Result<Bytes, Status>>,
) {
    let handing = async {
        let mut refused = refused.into_iter();
        loop {
            let told = match (refused.next(), &mut records) {
                (Some(refused), _) => Ok(refused),
                (None, Some(records)) => records.next().await,
                (None, None) => return Some(Status::unavailable("there is nothing to follow")),
            };
            match told {
                Ok(told) => {
                    if sender.send(Ok(stream::encode(told))).await.is_err() {
                        return None;
                    }
                }
                Err(error) => return Some(status_of(error)),
            }
        }
    };
    let end = tokio::select! {
        biased;
        status = watched.over() => Some(status),
        () = sender.closed() => None,
        end = handing => end,
    };
    // Before the last word is taken, which may be long: the leader has room for another.
    drop(records);
    if let Some(status) = end {
        // A follower that went meanwhile is told nothing, nor is one that reads nothing: its share is
        // for others.
        let _ = timeout(LAST_WORD_TIME, sender.send(Err(status))).await;
    }
}
