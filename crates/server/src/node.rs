//! What all connections of a node share: the coordinator, the settings, the counters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use plimsoll_cluster::{Coordinator, DocumentsOptions, NodeSettings};
use plimsoll_log::embedded;
use plimsoll_storage::partition::StoreOptions;

use crate::{
    auth::Password,
    clients::Clients,
    metrics::Metrics,
    settings::{Durability, Settings},
    usage::Usage,
};

/// A running node, as its front ends see it.
pub struct Shared {
    /// Where row commands go.
    pub coordinator: Arc<Coordinator>,
    /// What it was started with.
    pub settings: Settings,
    /// Where RESP really listens: the settings may have asked for any free port.
    pub resp_port: u16,
    /// The password; CONFIG SET may change it.
    pub password: Password,
    /// The connections that are open.
    pub clients: Clients,
    /// What they asked for.
    pub usage: Usage,
    /// What Prometheus reads.
    pub metrics: Metrics,
    /// When it started.
    pub started: Instant,
    /// When it started, in seconds since 1970.
    pub started_s: u64,
    /// Forty hexadecimal digits that no other run has.
    pub run_id: String,
    draining: AtomicBool,
}

impl Shared {
    /// A node that starts now.
    #[must_use]
    pub fn new(
        coordinator: Arc<Coordinator>,
        settings: Settings,
        resp_port: u16,
        metrics: Metrics,
    ) -> Self {
        Self {
            coordinator,
            resp_port,
            password: Password::new(settings.password.as_deref()),
            clients: Clients::new(settings.max_clients),
            settings,
            usage: Usage::default(),
            metrics,
            started: Instant::now(),
            started_s: unix_time().as_secs(),
            run_id: random_hex(40),
            draining: AtomicBool::new(false),
        }
    }

    /// Whether the node was told to stop: connections end after the batch that they answer.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Tells all connections to end. Requests in flight are still answered.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        for client in self.clients.list() {
            client.kill();
        }
    }
}

/// The wall clock, since 1970.
#[must_use]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Hexadecimal digits from the seeds that the standard library draws for its hash maps: they
/// tell runs apart, and guard nothing.
fn random_hex(digits: usize) -> String {
    use std::hash::{BuildHasher, RandomState};
    let mut text = String::new();
    while text.len() < digits {
        text.push_str(&format!("{:016x}", RandomState::new().hash_one(text.len())));
    }
    text.truncate(digits);
    text
}

/// What a node's rows and log are opened with.
#[must_use]
pub fn settings(settings: &Settings) -> NodeSettings {
    let sync_interval_ms = u64::try_from(settings.sync_interval.as_millis()).unwrap_or(u64::MAX);
    let log = embedded::Options {
        durability: match settings.durability {
            Durability::Request => embedded::Durability::Request,
            Durability::Async => embedded::Durability::Async,
        },
        sync_interval_ms,
        ..embedded::Options::default()
    };
    let store = StoreOptions { block_cache_bytes: settings.cache_bytes, ..StoreOptions::default() };
    NodeSettings {
        data_dir: settings.data.clone(),
        log,
        store,
        database_partitions: settings.resp_shards,
        documents: DocumentsOptions::default(),
    }
}
