//! The cluster that is followed, as a node of the other asks it: what `server/remote` does over TLS, done over a
//! simulated link, with the same limits of time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::time::Instant;
use plimsoll_cluster::following::{
    Asked, CopyCompression, DifferenceAnswer, DifferenceAsk, FollowerPosition, Held, Hold,
    LeaderTable, Leading, Records, Remote, RemoteError, Remotes, Told,
};
use plimsoll_cluster::{Call, CallError, Coordinator, Peers};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::link::{Link, Unanswered};
use crate::network::Services;

/// The name of the cluster in the other's settings.
pub(super) const NAME: &str = "leader";
/// Who asks, as the leader's nodes know it.
const ASKER: &str = "the-key";
/// How long an answer is waited for that is no file.
const ASK_TIME: Duration = Duration::from_secs(15);
/// The same of what differs, for which rows are read.
const DIFFERENCE_TIME: Duration = Duration::from_secs(25);
/// How long a stream may take to begin.
const BEGIN_TIME: Duration = Duration::from_secs(30);
/// What a question has of bytes, and what a message has beside what it carries.
const MESSAGE_BYTES: usize = 200;
/// What a connection holds of messages that are under way.
const MESSAGES_MAX: usize = 16;

/// The only cluster that nodes know; one for each start of a node.
pub struct LeaderCluster(Arc<dyn Remote>);

impl LeaderCluster {
    /// Over a link.
    #[must_use]
    pub fn new(link: Arc<Link>) -> Self {
        Self(Arc::new(Leader { link }))
    }
}

impl Remotes for LeaderCluster {
    fn get(&self, name: &str) -> Option<Arc<dyn Remote>> {
        (name == NAME).then(|| Arc::clone(&self.0))
    }
}

struct Leader {
    link: Arc<Link>,
}

impl Leader {
    /// Asks any node.
    fn ask<T, F>(&self, work: impl FnOnce(Arc<Leading>) -> F + Send + 'static) -> Asked<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RemoteError>> + Send + 'static,
    {
        Box::pin(async move {
            let work = |services: Services| work(services.leading);
            let asked = self.link.ask(None, MESSAGE_BYTES, ASK_TIME, work, |_| MESSAGE_BYTES);
            asked.await.unwrap_or_else(|why| Err(unreachable(&why)))
        })
    }
}

impl Remote for Leader {
    fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable> {
        let name = name.to_owned();
        self.ask(|leading| async move {
            let table = leading.table(&name).await?;
            table.ok_or_else(|| RemoteError::NoTable(format!("there is no table `{name}`")))
        })
    }

    fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable> {
        self.ask(|leading| async move { leading.follow(hold).await })
    }

    fn tables(&self) -> Asked<'_, Vec<(String, String)>> {
        Box::pin(async move {
            let work = |services: Services| async move { tables(&services.coordinator) };
            let asked = self.link.ask(None, MESSAGE_BYTES, ASK_TIME, work, |_| MESSAGE_BYTES);
            asked.await.map_err(|why| unreachable(&why))
        })
    }

    fn hold(&self, hold: Hold) -> Asked<'_, Held> {
        self.ask(|leading| async move { leading.hold(hold).await })
    }

    fn files(&self) -> Arc<dyn Peers> {
        Arc::new(Files { link: Arc::clone(&self.link) })
    }

    fn set_connections(&self, _: u32) {}

    fn compression(&self) -> CopyCompression {
        CopyCompression::default()
    }

    fn difference<'a>(&'a self, node: &'a str, ask: DifferenceAsk) -> Asked<'a, DifferenceAnswer> {
        Box::pin(async move {
            let work = |services: Services| async move {
                services.leading.difference(ASKER, ask, &|_| true).await
            };
            let bytes = |answer: &Result<DifferenceAnswer, RemoteError>| {
                MESSAGE_BYTES + answer.as_ref().map_or(0, |it| it.encode().len())
            };
            let asked = self.link.ask(Some(node), MESSAGE_BYTES, DIFFERENCE_TIME, work, bytes);
            asked.await.unwrap_or_else(|why| Err(unreachable(&why)))
        })
    }

    fn records(&self, places: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>> {
        Box::pin(async move {
            let (sender, messages) = channel(MESSAGES_MAX);
            let link = Arc::clone(&self.link);
            let work = |services: Services| async move {
                let stream = services.leading.records(places).await?;
                Ok((services.tasks, stream))
            };
            let asked = self.link.ask(None, MESSAGE_BYTES, BEGIN_TIME, work, |_| MESSAGE_BYTES);
            let begun = asked.await.unwrap_or_else(|why| Err(unreachable(&why)));
            let (tasks, stream) = begun?;
            tasks.spawn("another cluster's stream", send(link, stream, sender));
            let link = Arc::clone(&self.link);
            let records: Box<dyn Records> = Box::new(LinkRecords { link, messages, next: None });
            Ok(records)
        })
    }
}

fn unreachable(why: &Unanswered) -> RemoteError {
    RemoteError::Unreachable(match why {
        Unanswered::Unreachable(why) => (*why).to_owned(),
        Unanswered::Gone => "the node is gone".to_owned(),
        Unanswered::TimedOut => "no answer came in time".to_owned(),
    })
}

/// The tables that there are: names and uuids.
fn tables(coordinator: &Coordinator) -> Vec<(String, String)> {
    let partitions = coordinator.copies_of_all().into_iter();
    let mut tables: Vec<_> = partitions.map(|it| (it.table, it.table_uuid)).collect();
    tables.dedup();
    tables
}

/// The way to the nodes for the questions of recovery.
struct Files {
    link: Arc<Link>,
}

impl Peers for Files {
    fn call(&self, address: &str, question: Bytes, timeout: Duration) -> Call {
        let (link, node) = (Arc::clone(&self.link), address.to_owned());
        Box::pin(async move {
            let asked = question.len();
            let work = |services: Services| async move {
                services.leading.files(ASKER, question, &|_| true).await
            };
            let answer = link.ask(Some(&node), asked, timeout, work, Bytes::len).await;
            answer.map_err(|why| match why {
                Unanswered::Unreachable(why) => CallError::Unreachable(why.to_owned()),
                Unanswered::Gone => CallError::Lost("the node is gone".to_owned()),
                Unanswered::TimedOut => CallError::TimedOut,
            })
        })
    }
}

/// A message of a stream, and when it is there.
struct Message {
    at: Instant,
    told: Result<Told, RemoteError>,
}

/// Sends what a node reads, in its process, until the follower or the connection goes.
async fn send(link: Arc<Link>, mut stream: impl Records, sender: Sender<Message>) {
    let mut last = Instant::default();
    loop {
        let told = tokio::select! {
            biased;
            () = sender.closed() => return,
            told = stream.next() => told,
        };
        if link.ends() {
            return;
        }
        let bytes = match &told {
            Ok(Told::Carried { item, .. }) => item.bytes_max(),
            _ => MESSAGE_BYTES,
        };
        last = link.arrives(last, bytes);
        let is_over = told.is_err();
        if sender.send(Message { at: last, told }).await.is_err() || is_over {
            return;
        }
    }
}

/// Records as they come over the link.
struct LinkRecords {
    link: Arc<Link>,
    messages: Receiver<Message>,
    /// The next, which is under way.
    next: Option<Message>,
}

impl Records for LinkRecords {
    fn next(&mut self) -> Asked<'_, Told> {
        Box::pin(async {
            let ended = || RemoteError::Unreachable("the stream of records ended".to_owned());
            if self.next.is_none() {
                self.next = self.messages.recv().await;
            }
            let at = self.next.as_ref().map(|message| message.at).ok_or_else(ended)?;
            self.link.time().sleep_until(at).await;
            if !self.link.comes_through().await {
                return Err(ended());
            }
            self.next.take().map_or_else(|| Err(ended()), |message| message.told)
        })
    }
}
