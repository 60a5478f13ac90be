//! Which log a node runs on, opened from its settings. What a log is asked for is `log`'s to say.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_log::embedded::{self, Embedded};
use plimsoll_log::jetstream::{self, Jetstream};
use plimsoll_log::shared::{Holder, Shared};
use plimsoll_log::{Log, LogError};

use crate::replication::clock::{GuardedLog, OwnClock};

/// How long a node waits for the process that shares its log.
const SHARED_TIMEOUT: Duration = Duration::from_secs(30);

/// Which log a node runs on. The number of groups is the node's own to choose.
#[derive(Clone, Debug)]
pub enum LogSettings {
    /// One in the node's own folder.
    Embedded {
        /// How it syncs and how much it holds in memory.
        options: embedded::Options,
        /// Where other processes of this machine may use it; nobody else does where not given.
        share: Option<SocketAddr>,
    },
    /// One on JetStream servers, which the nodes of a cluster share.
    Jetstream {
        /// Where the servers are.
        address: jetstream::Address,
        /// How it is used.
        options: jetstream::Options,
    },
    /// One that another process of this machine holds.
    Shared {
        /// `plimsoll://host:port`.
        address: String,
    },
    /// One that is open, and that others append to as well: a simulation's.
    Open(OpenedLog),
}

/// A log that is open.
#[derive(Clone)]
pub struct OpenedLog(pub Arc<dyn Log>);

impl std::fmt::Debug for OpenedLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OpenedLog({})", self.0.incarnation())
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self::Embedded { options: embedded::Options::default(), share: None }
    }
}

/// A log that is open.
pub(crate) struct OpenLog {
    pub log: Arc<dyn Log>,
    /// Lets others use it, for as long as it is kept.
    pub holder: Option<Holder>,
    /// Nobody else appends to it.
    pub is_alone: bool,
    /// This node's clock.
    pub clock: Arc<OwnClock>,
}

impl OpenLog {
    /// One that nobody else appends to.
    fn alone(log: Arc<dyn Log>, time: Time) -> Self {
        let (log, clock) = GuardedLog::alone(log, time);
        Self { log, holder: None, is_alone: true, clock }
    }

    /// One that other nodes append to.
    fn with_others(log: Arc<dyn Log>, holder: Option<Holder>, time: Time) -> Self {
        let (log, clock) = GuardedLog::around(log, time);
        Self { log, holder, is_alone: false, clock }
    }
}

impl LogSettings {
    /// What kind of log it is, as addresses begin.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Embedded { .. } => "embedded",
            Self::Jetstream { .. } => "nats",
            Self::Shared { .. } => "plimsoll",
            Self::Open(_) => "open",
        }
    }

    /// Opens the log; its own files, where it has any, are in `dir`. Blocks.
    pub(crate) fn open(&self, dir: &Path, time: &Time) -> Result<OpenLog, LogError> {
        let (groups, time) = (crate::LOG_GROUPS, time.clone());
        match self {
            Self::Embedded { options, share } => {
                let options = embedded::Options { groups, ..options.clone() };
                let log: Arc<dyn Log> = Arc::new(Embedded::open(dir, &options)?);
                let Some(at) = share else { return Ok(OpenLog::alone(log, time)) };
                let holder = Holder::start(Arc::clone(&log), groups, *at)?;
                Ok(OpenLog::with_others(log, Some(holder), time))
            }
            Self::Jetstream { address, options } => {
                let options = jetstream::Options { groups, ..options.clone() };
                let log = Arc::new(Jetstream::open(address, &options)?);
                Ok(OpenLog::with_others(log, None, time))
            }
            Self::Shared { address } => {
                let log = Shared::open(address, SHARED_TIMEOUT)?;
                if log.groups() != groups {
                    let (found, address) = (log.groups(), address);
                    return Err(LogError::Failed(format!(
                        "the log at {address} has {found} groups, this version has {groups}"
                    )));
                }
                Ok(OpenLog::with_others(Arc::new(log), None, time))
            }
            Self::Open(OpenedLog(log)) => Ok(OpenLog::with_others(Arc::clone(log), None, time)),
        }
    }
}
