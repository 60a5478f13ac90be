//! The log over NATS JetStream: one replicated stream a group, on servers that several nodes
//! share. It works with `nats-server` from 2.9 on.
//!
//! It asks the servers for an ordered, durable append and an ordered read, and checks both: no
//! duplicate detection, conditional append or description of a stream is relied on. What it does
//! not do: it does not send an append again whose outcome is unknown, and it does not repair.
//!
//! What is acknowledged is as durable as the servers make it: with `sync_interval: always` on
//! disk at a majority, by default in the memory of a majority and on disk within two minutes.

mod address;
mod api;
mod appender;
mod connect;
mod consumer;
mod core;
mod leaders;
mod login;
mod options;
mod stats;
mod streams;
mod tail;
mod watch;
mod window;

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub use self::address::{Address, AddressError, Files};
use self::core::{Core, Group};
pub use self::options::Options;
pub use self::stats::GroupStats;
use crate::buffer::BufferReader;
use crate::{
    AppendDone, AppendError, Bounds, GroupId, Incarnation, Log, LogError, Lsn, RECORD_BYTES_MAX,
    Reader, Stats,
};

/// How long one request may take once the log is open.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads of the engine.
const THREADS: usize = 2;

/// A log on JetStream servers. Dropping it leaves what was sent unknown.
pub struct Jetstream {
    core: Arc<Core>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// The consumers of one reader.
struct Consumers(Vec<JoinHandle<()>>);

impl Drop for Consumers {
    fn drop(&mut self) {
        // Those that nobody uses any more are forgotten by the servers themselves.
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Jetstream {
    /// Opens the log of the address' cluster, or makes it where there is none. Blocks.
    ///
    /// # Errors
    /// [`LogError::Failed`] where the servers do not answer in time, refuse the client, or have
    /// limits or streams with settings that records do not fit: the text names the setting.
    /// [`LogError::Damaged`] where a stream of a log that exists is gone.
    pub fn open(address: &Address, options: &Options) -> Result<Self, LogError> {
        if options.groups == 0 || ![1, 3, 5].contains(&options.replicas) {
            return Err(LogError::Failed(
                "a log has at least one group, and 1, 3 or 5 replicas of each".to_owned(),
            ));
        }
        let failed = |error: std::io::Error| LogError::Failed(error.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("log-nats")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (address, options) = (address.clone(), options.clone());
        let opened = wait(&runtime, async move { open(&address, &options).await });
        match opened {
            Ok(core) => Ok(Self { core, runtime: Some(runtime) }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// The figures of every group now.
    #[must_use]
    pub fn group_stats(&self) -> Vec<GroupStats> {
        self.core.groups.iter().map(|group| group.stats()).collect()
    }

    /// The same groups, each with its appends, for a task or a caller.
    fn group(&self, group: GroupId) -> Result<&Arc<Group>, LogError> {
        self.core.group(group)
    }

    fn runtime(&self) -> Result<&Runtime, LogError> {
        self.runtime.as_ref().ok_or_else(|| LogError::Failed("the log is closed".to_owned()))
    }
}

/// Runs a task of the engine and waits for its end, on whatever thread the caller is.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    task: impl Future<Output = Result<T, LogError>> + Send + 'static,
) -> Result<T, LogError> {
    let (tell, told) = sync_channel(1);
    runtime.spawn(async move {
        // Who asked waits, as long as this runs.
        let _ = tell.send(task.await);
    });
    told.recv().unwrap_or_else(|_| Err(LogError::Failed("the log's task ended".to_owned())))
}

async fn open(address: &Address, options: &Options) -> Result<Arc<Core>, LogError> {
    let deadline = Instant::now() + Duration::from_millis(options.open_timeout_ms);
    let client = connect::connect(address, deadline).await?;
    let mut fresh = [0; 8];
    getrandom::fill(&mut fresh)
        .map_err(|error| LogError::Failed(format!("no random number: {error}")))?;
    let opening =
        streams::Opening { client: &client, cluster: &address.cluster, options, deadline };
    let incarnation = opening.run(Incarnation(u64::from_le_bytes(fresh))).await?;
    let core = Arc::new(Core::new(client, &address.cluster, incarnation, options));
    let failed = |error: async_nats::SubscribeError| LogError::Failed(error.to_string());
    let answers = core.client.subscribe(format!("{}.>", core.inbox)).await.map_err(failed)?;
    tokio::spawn(appender::listen(Arc::clone(&core), answers));
    tokio::spawn(appender::tick(Arc::clone(&core)));
    for group in &core.groups {
        tokio::spawn(appender::send(Arc::clone(&core), Arc::clone(group)));
    }
    let moves_leaders = options.moves_leaders && options.replicas > 1;
    tokio::spawn(watch::watch(Arc::clone(&core), moves_leaders));
    Ok(core)
}

impl Drop for Jetstream {
    fn drop(&mut self) {
        self.core.close();
        // The last owner may be a callback on one of the runtime's own threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Log for Jetstream {
    fn incarnation(&self) -> Incarnation {
        self.core.incarnation
    }

    /// Where the append is refused at once, `done` is called before this returns. One with an
    /// unknown outcome may come to stand in the log at any later time.
    fn append(&self, group: GroupId, record: Bytes, done: AppendDone) {
        let Ok(group) = self.group(group) else {
            return done(Err(AppendError::Refused(format!("the log has no group {group}"))));
        };
        let pushed = if record.len() > RECORD_BYTES_MAX {
            let reason = format!("a record of {} bytes is too large", record.len());
            Err((done, Err(AppendError::Refused(reason))))
        } else {
            group.window.lock().push(record, done, Instant::now())
        };
        match pushed {
            Ok(()) => group.wake.notify_one(),
            Err(told) => group.tell(vec![told]),
        }
    }

    /// Returns at once: that a position is no longer held is told by the reader's first call.
    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError> {
        let buffer = self.core.new_buffer();
        let mut tasks = Vec::new();
        for (group, lsn) in from {
            let (core, group) = (Arc::clone(&self.core), Arc::clone(self.group(*group)?));
            let read = consumer::read(core, group, *lsn, Arc::clone(&buffer));
            tasks.push(self.runtime()?.spawn(read));
        }
        Ok(Box::new(BufferReader::new(buffer, Consumers(tasks))))
    }

    /// As a server describes them, and at least what was seen here: a server that was left
    /// behind describes the past.
    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        let (core, group) = (Arc::clone(&self.core), Arc::clone(self.group(group)?));
        wait(self.runtime()?, async move { bounds(&core, &group).await })
    }

    fn held_bytes(&self, group: GroupId) -> Result<Option<u64>, LogError> {
        let (core, group) = (Arc::clone(&self.core), Arc::clone(self.group(group)?));
        let bytes = async move {
            let info = api::stream_info(&core.client, &group.stream, REQUEST_TIMEOUT).await;
            info.map(|info| Some(info.state.bytes)).map_err(|error| failed(&group, &error))
        };
        wait(self.runtime()?, bytes)
    }

    /// Keeps the record at `up_to` itself, for readers to recognise the log by.
    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        let (core, group) = (Arc::clone(&self.core), Arc::clone(self.group(group)?));
        wait(self.runtime()?, async move { trim(&core, &group, up_to).await })
    }

    /// The servers make what they acknowledge as durable as they are set to.
    fn sync(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn health(&self) -> Result<(), LogError> {
        if let Some(fault) = self.core.groups.iter().find_map(|group| group.fault()) {
            return Err(LogError::Failed(fault));
        }
        if self.core.is_connected() {
            Ok(())
        } else {
            Err(LogError::Failed("there is no connection to a log server".to_owned()))
        }
    }

    fn stats(&self) -> Stats {
        stats::summed(self.group_stats())
    }
}

async fn bounds(core: &Core, group: &Group) -> Result<Bounds, LogError> {
    let info = api::stream_info(&core.client, &group.stream, REQUEST_TIMEOUT).await;
    let state = info.map_err(|error| failed(group, &error))?.state;
    let last = Lsn(state.last_seq).max(group.seen());
    // An empty stream says 0, or the position after its last.
    Ok(Bounds { first: Lsn(state.first_seq.max(1)).min(last.next()), last })
}

async fn trim(core: &Core, group: &Group, up_to: Lsn) -> Result<(), LogError> {
    // To purge beyond the end would move the end.
    if up_to > group.seen() && up_to > bounds(core, group).await?.last {
        return Err(LogError::Failed(format!("group {} does not reach {up_to}", group.id)));
    }
    if up_to <= Lsn(1) {
        return Ok(());
    }
    let subject = format!("$JS.API.STREAM.PURGE.{}", group.stream);
    let body = json!({ "seq": up_to.0 });
    let purged = api::request(&core.client, subject, &body, REQUEST_TIMEOUT).await;
    purged.map(|_| ()).map_err(|error| failed(group, &error))
}

fn failed(group: &Group, error: &api::ApiError) -> LogError {
    LogError::Failed(format!("stream `{}`: {error}", group.stream))
}
