//! A stream of records for a follower: begun by a question that is checked as any other, then handed
//! on message by message for as long as the key holds and may follow the tables. A task of its own
//! sees to that also while the follower reads nothing.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use parking_lot::Mutex;
use plimsoll_cluster::following::{Place, Records};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tonic::codegen::BoxFuture;
use tonic::server::ServerStreamingService;
use tonic::{Request, Response, Status};

use super::connection::Asked;
use super::{Leader, no_table};
use crate::node::unix_time;
use crate::remote::keys::{Key, Keys};
use crate::remote::refusal::status_of;
use crate::remote::stream;

/// How often the key is looked at while a stream runs.
const KEY_INTERVAL: Duration = Duration::from_secs(2);
/// How many streams one key may have at a node: half of all, so that others come in.
const STREAMS_OF_KEY_MAX: usize = 16;
/// What of a stream is ready to be sent: the leader has its own few messages behind it.
const READY_MAX: usize = 1;

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

/// How many streams of each key run.
#[derive(Default)]
pub(super) struct Shares(Mutex<HashMap<String, usize>>);

/// One of them.
pub(super) struct Share {
    shares: Arc<Shares>,
    key: String,
}

impl Shares {
    /// Takes one; `None` where a key has as many as it may.
    pub(super) fn take(self: &Arc<Self>, key: &str) -> Option<Share> {
        let mut taken = self.0.lock();
        let count = taken.entry(key.to_owned()).or_insert(0);
        if *count >= STREAMS_OF_KEY_MAX {
            return None;
        }
        *count += 1;
        Some(Share { shares: Arc::clone(self), key: key.to_owned() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.0.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
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
            let names = names(&*leader, &places, &key).await?;
            let records = leader.records(places).await.map_err(status_of)?;
            let (sender, ready) = mpsc::channel(READY_MAX);
            let watched = Watched { keys, key: key.id.clone(), names, stopping };
            tokio::spawn(async move {
                hand_over(records, watched, sender).await;
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

/// The names of the tables that are followed, all of which the key may follow.
async fn names(leader: &dyn Leader, places: &[Place], key: &Key) -> Result<Vec<String>, Status> {
    let names = leader.names_of(places).await.map_err(status_of)?;
    match names.iter().find(|name| !key.may_follow(name)) {
        Some(name) => Err(status_of(no_table(name))),
        None => Ok(names),
    }
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
            let now_ms = u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX);
            match self.keys.known(&self.key, now_ms) {
                Err(refusal) => return Status::unauthenticated(refusal.to_string()),
                Ok(key) => {
                    if let Some(name) = self.names.iter().find(|it| !key.may_follow(it)) {
                        return status_of(no_table(name));
                    }
                }
            }
        }
    }
}

/// Hands messages over until one side ends it.
async fn hand_over(
    mut records: Box<dyn Records>,
    watched: Watched,
    sender: mpsc::Sender<Result<Bytes, Status>>,
) {
    let handing = async {
        loop {
            match records.next().await {
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
        // A follower that went meanwhile is told nothing.
        let _ = sender.send(Err(status)).await;
    }
}
