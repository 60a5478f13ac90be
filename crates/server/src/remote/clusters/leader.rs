//! A remote cluster as those who follow its tables ask it ([`plimsoll_cluster::following`]): each
//! question over one of the connections that the keeper holds. Whoever asks waits where there is none
//! and asks again; nothing is tried anew here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_cluster::following::{
    Asked, CopyCompression, DifferenceAnswer, DifferenceAsk, FollowerPosition, Held, Hold,
    LeaderTable, Records, Remote, RemoteError, Remotes, Told,
};
use plimsoll_cluster::{Call, CallError, Peers};
use tonic::Streaming;

use super::reachability::Reachability;
use super::way::Way;
use super::{RemoteCluster, RemoteClusters};
use crate::remote::protocol::{Answer, Ask, Question};
use crate::remote::stream;

/// How long an answer is waited for that is no file.
const ASK_TIME: Duration = Duration::from_secs(15);
/// The same of what differs, for which rows are read.
const DIFFERENCE_TIME: Duration = Duration::from_secs(25);
/// How long a stream may take to begin.
const BEGIN_TIME: Duration = Duration::from_secs(30);

impl Remotes for RemoteClusters {
    fn get(&self, name: &str) -> Option<Arc<dyn Remote>> {
        let found: Arc<dyn Remote> = RemoteClusters::get(self, name)?;
        Some(found)
    }
}

impl Remote for RemoteCluster {
    fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable> {
        Box::pin(async move {
            match self.ask(None, Ask::Table { name: name.to_owned() }, ASK_TIME).await? {
                Answer::Table(table) if table.name == name => Ok(table),
                _ => Err(another()),
            }
        })
    }

    fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable> {
        Box::pin(async move {
            let name = hold.name.clone();
            match self.ask(None, Ask::Follow { hold }, ASK_TIME).await? {
                Answer::Table(table) if table.name == name => Ok(table),
                _ => Err(another()),
            }
        })
    }

    fn tables(&self) -> Asked<'_, Vec<(String, String)>> {
        Box::pin(async move {
            let (tables, _) = self.all_tables().await?;
            Ok(tables.into_iter().map(|it| (it.name, it.uuid)).collect())
        })
    }

    fn hold(&self, hold: Hold) -> Asked<'_, Held> {
        Box::pin(async move {
            match self.ask(None, Ask::Hold { hold }, ASK_TIME).await? {
                Answer::Held(held) => Ok(held),
                _ => Err(another()),
            }
        })
    }

    fn files(&self) -> Arc<dyn Peers> {
        Arc::new(Files { state: Arc::clone(&self.state) })
    }

    fn set_connections(&self, count: u32) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.lanes, count) < count {
            self.wake.notify_one();
        }
    }

    fn compression(&self) -> CopyCompression {
        self.settings.compression()
    }

    fn difference<'a>(&'a self, node: &'a str, ask: DifferenceAsk) -> Asked<'a, DifferenceAnswer> {
        Box::pin(async move {
            match self.ask(Some(node), Ask::Difference { ask }, DIFFERENCE_TIME).await? {
                Answer::Difference(answer) => Ok(answer),
                _ => Err(another()),
            }
        })
    }

    fn records(&self, places: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>> {
        Box::pin(async move {
            // Every node reads every log: any can tell.
            let way = self.state.lock().way(None)?;
            let messages = way.records(&places, BEGIN_TIME).await?;
            let records: Box<dyn Records> = Box::new(RemoteRecords { way, messages });
            Ok(records)
        })
    }
}

fn another() -> RemoteError {
    RemoteError::Refused("another question was answered".to_owned())
}

/// The way to the nodes of a cluster for the questions of recovery.
struct Files {
    state: Arc<Mutex<Reachability>>,
}

impl Peers for Files {
    /// Asks the node of this id.
    fn call(&self, address: &str, question: Bytes, timeout: Duration) -> Call {
        let (state, node) = (Arc::clone(&self.state), address.to_owned());
        Box::pin(async move {
            let way = state.lock().lane(&node);
            let (way, carried) = way.map_err(|error| CallError::Unreachable(error.to_string()))?;
            let began = Instant::now();
            let question = Question { node: Some(node), ask: Ask::Files { question } };
            match way.ask(&question, timeout).await {
                Ok(Answer::Files(answer)) => {
                    if let Some(carried) = carried {
                        carried.done();
                    }
                    Ok(answer)
                }
                Ok(_) => Err(CallError::Lost(another().to_string())),
                Err(RemoteError::Unreachable(_)) if began.elapsed() >= timeout => {
                    Err(CallError::TimedOut)
                }
                Err(error) => Err(CallError::Lost(error.to_string())),
            }
        })
    }
}

/// Records as they come over a connection.
struct RemoteRecords {
    way: Way,
    messages: Streaming<Bytes>,
}

impl Records for RemoteRecords {
    fn next(&mut self) -> Asked<'_, Told> {
        Box::pin(async {
            let ended =
                |words: String| RemoteError::Unreachable(format!("{}: {words}", self.way.address));
            match self.messages.message().await {
                // What is damaged is asked for again, from where the follower stands.
                Ok(Some(message)) => {
                    stream::decode(&message).map_err(|error| ended(error.to_string()))
                }
                Ok(None) => Err(ended("the stream of records ended".to_owned())),
                Err(status) => Err(self.way.refused(&status)),
            }
        })
    }
}
