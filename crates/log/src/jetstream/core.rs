//! What the tasks of a JetStream log share: the connection, and of each group its appends, its
//! figures and its fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, Subject};
use parking_lot::Mutex;
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

use super::options::Options;
use super::stats::{GroupStats, Interval};
use super::streams;
use super::window::{Limits, Told, Window};
use crate::buffer::Buffer;
use crate::{AppendError, GroupId, Incarnation, LogError, Lsn};

/// Positions whose records are remembered, to be compared.
const KNOWN_MAX: usize = 4096;

/// Shared by the tasks.
pub(super) struct Core {
    pub client: Client,
    pub cluster: String,
    pub incarnation: Incarnation,
    /// Where answers to appends go: `<inbox>.<group>.<number>`.
    pub inbox: String,
    pub groups: Vec<Arc<Group>>,
    pub opened: Instant,
    /// What readers wait at; some of them are gone.
    readers: Mutex<Vec<Weak<Buffer>>>,
    is_closed: AtomicBool,
}

/// One group.
pub(super) struct Group {
    pub id: GroupId,
    pub stream: String,
    pub subject: Subject,
    pub window: Mutex<Window>,
    /// Rung when the window may have something to send.
    pub wake: Notify,
    /// The last position known to be given away.
    seen: AtomicU64,
    /// What the latest positions are known to hold: position and hash.
    known: Mutex<BTreeMap<Lsn, u64>>,
    pub stats: Mutex<GroupStats>,
    /// How long appends took since leaders were looked at last.
    pub interval: Mutex<Interval>,
    /// Why the group is neither written nor read any more.
    fault: Mutex<Option<String>>,
}

impl Core {
    pub fn new(client: Client, cluster: &str, incarnation: Incarnation, options: &Options) -> Self {
        let limits = Limits {
            queue_bytes_max: options.queue_bytes_max,
            sent_bytes_max: options.sent_bytes_max,
            sent_max: options.sent_max.max(1),
            timeout: Duration::from_millis(options.append_timeout_ms.max(1)),
        };
        let group = |id| {
            Arc::new(Group {
                id,
                stream: streams::stream_name(cluster, id),
                subject: streams::subject(cluster, incarnation, id).into(),
                window: Mutex::new(Window::new(limits)),
                wake: Notify::new(),
                seen: AtomicU64::new(0),
                known: Mutex::default(),
                stats: Mutex::new(GroupStats { group: id, ..GroupStats::default() }),
                interval: Mutex::default(),
                fault: Mutex::new(None),
            })
        };
        Self {
            inbox: client.new_inbox(),
            client,
            cluster: cluster.to_owned(),
            incarnation,
            groups: (0..options.groups).map(GroupId).map(group).collect(),
            opened: Instant::now(),
            readers: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    pub fn group(&self, id: GroupId) -> Result<&Arc<Group>, LogError> {
        let unknown = || LogError::Failed(format!("the log has no group {id}"));
        self.groups.get(usize::from(id.0)).ok_or_else(unknown)
    }

    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// A buffer for a new reader.
    pub fn new_buffer(&self) -> Arc<Buffer> {
        let buffer = Arc::<Buffer>::default();
        let mut readers = self.readers.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&buffer));
        buffer
    }

    /// Ends appends, readers and, soon after, the tasks.
    pub fn close(&self) {
        let reason = "the log is closed";
        self.is_closed.store(true, Ordering::Release);
        for group in &self.groups {
            let told = group.window.lock().close(reason);
            group.tell(told);
            group.wake.notify_one();
        }
        for reader in self.readers.lock().iter().filter_map(Weak::upgrade) {
            reader.fail(LogError::Failed(reason.to_owned()));
        }
    }
}

/// Two servers hold different logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log group {group} forked: the servers hold different records at position {lsn}")]
pub(super) struct Forked {
    group: GroupId,
    lsn: Lsn,
}

impl Group {
    /// The last position known to be given away.
    pub fn seen(&self) -> Lsn {
        Lsn(self.seen.load(Ordering::Acquire))
    }

    pub fn saw(&self, lsn: Lsn) {
        self.seen.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Keeps what was acknowledged or read at a position, or says that something else was. What is
    /// too long ago is not compared.
    pub fn recognise(&self, lsn: Lsn, record: &[u8]) -> Result<(), Forked> {
        let hash = xxh3_64(record);
        let mut known = self.known.lock();
        if *known.entry(lsn).or_insert(hash) != hash {
            return Err(Forked { group: self.id, lsn });
        }
        if known.len() > KNOWN_MAX {
            known.pop_first();
        }
        Ok(())
    }

    pub fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Neither writes nor reads the group any more; the first reason stays.
    pub fn stop(&self, reason: &str) {
        let mut fault = self.fault.lock();
        if fault.is_none() {
            tracing::error!(group = %self.id, reason, "a log group stops");
            *fault = Some(reason.to_owned());
        }
        drop(fault);
        let told = self.window.lock().close(reason);
        self.tell(told);
    }

    /// Tells outcomes, and counts those that are none.
    pub fn tell(&self, told: Vec<Told>) {
        for (done, outcome) in told {
            match &outcome {
                Ok(_) => {}
                Err(AppendError::Refused(_)) => self.stats.lock().appends_refused += 1,
                Err(AppendError::Unknown(_)) => self.stats.lock().appends_unknown += 1,
            }
            done(outcome);
        }
    }

    /// The group's figures now.
    pub fn stats(&self) -> GroupStats {
        let (queue_length, queue_bytes, queue_age) = self.window.lock().load(Instant::now());
        GroupStats {
            queue_length,
            queue_bytes,
            queue_age,
            last_seen: self.seen(),
            fault: self.fault(),
            ..self.stats.lock().clone()
        }
    }
}
