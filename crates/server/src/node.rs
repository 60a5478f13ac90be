//! What all connections of a node share: the coordinator, the settings, the counters.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use plimsoll_base::{Time, World};
use plimsoll_cluster::{Coordinator, DocumentsOptions, NodeRecord, NodeSettings, Peers};
use plimsoll_memory::machine::machine;
use plimsoll_storage::partition::StoreOptions;
use tokio::sync::watch;

use crate::{
    clients::Clients,
    logins::Logins,
    metrics::Metrics,
    places,
    rest::body::InFlight,
    security::{
        Security,
        audit::{Event, What},
    },
    settings::Settings,
    usage::Usage,
};

/// Rows that are not in files yet may take this part of the memory where nothing else is set, between so
/// many bytes and so many.
const WRITE_BUFFER_PART: u64 = 32;
const WRITE_BUFFER_BYTES_MIN: usize = 128 << 20;
const WRITE_BUFFER_BYTES_MAX: usize = 1 << 30;

/// Blocks of rows that were read may take this part of the memory where nothing else is set, and single rows that:
/// what a hit saves is far more with a row. At least so many bytes.
const CACHE_PART: u64 = 24;
const ROW_CACHE_PART: u64 = 8;
const CACHE_BYTES_MIN: usize = 16 << 20;
/// Where it is set, single rows may take this part of what blocks of rows may, beside it.
const SET_ROW_CACHE_PART: usize = 2;

/// A running node, as its front ends see it.
pub struct Shared {
    /// Where row commands go.
    pub coordinator: Arc<Coordinator>,
    /// What it was started with.
    pub settings: Settings,
    /// Where RESP really listens: the settings may have asked for any free port.
    pub resp_port: u16,
    /// Who may do what.
    pub security: Security,
    /// Tells when users, roles or keys were changed.
    pub users_changed: watch::Sender<u64>,
    /// Who offered a wrong one.
    pub logins: Arc<Logins>,
    /// The connections that are open.
    pub clients: Clients,
    /// What requests may hold that have not come whole, of all clients together.
    pub in_flight: Arc<InFlight>,
    /// What they asked for.
    pub usage: Usage,
    /// What Prometheus reads.
    pub metrics: Metrics,
    /// The machine's time, or the simulation's.
    pub time: Time,
    /// When it started.
    pub started: Instant,
    /// When it started, in seconds since 1970.
    pub started_s: u64,
    /// Forty hexadecimal digits that no other run has.
    pub run_id: String,
    /// CONFIG's `hash-max-listpack-entries` and `-value`, which are only said back.
    pub listed_entries: AtomicU64,
    /// The same, `-value`.
    pub listed_value: AtomicU64,
    draining: AtomicBool,
}

impl Shared {
    /// A node that starts now.
    #[must_use]
    pub fn new(
        coordinator: Arc<Coordinator>,
        settings: Settings,
        security: Security,
        resp_port: u16,
        metrics: Metrics,
        time: &Time,
    ) -> Self {
        Self {
            coordinator,
            resp_port,
            security,
            users_changed: watch::Sender::new(0),
            logins: Arc::new(Logins::new(time)),
            clients: Clients::new(places::of_clients("resp.max_clients", settings.max_clients)),
            in_flight: Arc::new(InFlight::new(settings.http_in_flight_bytes)),
            settings,
            usage: Usage::default(),
            metrics,
            time: time.clone(),
            started: Instant::now(),
            started_s: unix_time().as_secs(),
            run_id: random_hex(40),
            listed_entries: AtomicU64::new(128),
            listed_value: AtomicU64::new(64),
            draining: AtomicBool::new(false),
        }
    }

    /// Notes what happened, for whoever looks into the audit.
    pub fn note(
        &self,
        what: What,
        user: &str,
        origin: SocketAddr,
        request: String,
        detail: String,
    ) {
        let at_ms = unix_ms();
        let event = Event::new(at_ms, what, origin, [user, &request, &detail]);
        self.security.audit.note(event);
    }

    /// Has open connections look whom they are, where users were changed since this was called last.
    pub fn follow_users(&self) {
        let version = self.security.version();
        let is_new = |told: &mut u64| std::mem::replace(told, version) != version;
        if self.users_changed.send_if_modified(is_new) {
            self.clients.list().iter().for_each(|client| client.look_whom());
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

/// The same in milliseconds.
#[must_use]
pub fn unix_ms() -> u64 {
    u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX)
}

/// Fills a slice with random bytes that nobody can guess.
///
/// # Errors
/// Where the system has none.
pub fn draw(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(io::Error::other)
}

/// Hexadecimal digits that tell runs apart, and guard nothing.
fn random_hex(digits: usize) -> String {
    let mut drawn = vec![0; digits.div_ceil(2)];
    if let Err(error) = draw(&mut drawn) {
        tracing::warn!(%error, "this run has no number of its own");
    }
    let mut text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

/// What a node is opened with; `record` says where it listens.
#[must_use]
pub fn settings(settings: &Settings, record: NodeRecord, peers: Arc<dyn Peers>) -> NodeSettings {
    let [block_cache_bytes, row_cache_bytes] = cache_bytes(settings, machine().total_bytes);
    let store = StoreOptions {
        block_cache_bytes,
        row_cache_bytes,
        write_buffer_bytes: write_buffer_bytes(settings.write_buffer_bytes),
        bytes_per_sync: settings.bytes_per_sync,
        rate_limiter: settings.rate_limiter,
        ..StoreOptions::default()
    };
    NodeSettings {
        data_dir: settings.data.clone(),
        log: settings.log.clone(),
        store,
        database_partitions: settings.resp_shards,
        documents: DocumentsOptions::default(),
        work: settings.work.clone(),
        record,
        peers,
        world: World::of_the_machine(),
    }
}

/// What blocks of rows and single rows may take in caches, bytes, as it is set, or else by the memory that the node may
/// take.
#[must_use]
pub fn cache_bytes(settings: &Settings, memory_bytes: u64) -> [usize; 2] {
    match settings.cache_bytes {
        0 => [CACHE_PART, ROW_CACHE_PART].map(|part| {
            usize::try_from(memory_bytes / part).unwrap_or(usize::MAX).max(CACHE_BYTES_MIN)
        }),
        set => [set, set / SET_ROW_CACHE_PART],
    }
}

/// Memory for rows that are not in files yet, as it is set, or else by the memory that there is.
fn write_buffer_bytes(set: usize) -> usize {
    if set > 0 {
        return set;
    }
    let share = machine().total_bytes / WRITE_BUFFER_PART;
    usize::try_from(share)
        .unwrap_or(usize::MAX)
        .clamp(WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES_MAX)
}

/// What a node says of itself to others.
#[must_use]
pub fn record(
    settings: &Settings,
    rpc: Option<SocketAddr>,
    http: SocketAddr,
    resp: SocketAddr,
    remote: Option<String>,
) -> NodeRecord {
    NodeRecord {
        name: settings.node_name.clone(),
        rpc: rpc.map(|address| address.to_string()).unwrap_or_default(),
        http: http.to_string(),
        resp: resp.to_string(),
        remote: remote.unwrap_or_default(),
        zone: settings.zone.clone(),
        is_coordinating_only: settings.is_coordinating_only,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: unix_ms(),
        ..NodeRecord::default()
    }
}
