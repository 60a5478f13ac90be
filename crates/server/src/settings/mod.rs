//! Settings: a table of definitions ([`table`]), what was given ([`raw`]), and what it comes to
//! ([`Settings`]). They belong to one process and are fixed while it runs, but for what
//! `CONFIG SET` may change.

pub mod cors;
pub mod raw;
pub mod reference;
pub mod remote;
mod secrets;
pub mod table;
pub mod tls;
mod value;
mod value_error;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use plimsoll_cluster::{LogSettings, WORK_SETTINGS, WorkSettings};
use plimsoll_log::{embedded, jetstream};
use plimsoll_storage::partition::RateLimiter;

use crate::tls::ServerFiles;
pub use cors::{Cors, Origins};
pub use raw::{Raw, SettingsError};
pub use remote::RemotePort;
pub use secrets::take_environment;
pub use table::{PASSWORD_BYTES_MAX, ROLES};
pub use tls::NodeTls;
use value::{address, bytes, bytes_of, duration, parsed, size, text, words};
pub use value_error::ValueError;

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After it was synced to disk.
    Request,
    /// Before; the log is synced at intervals.
    Async,
}

/// What a node runs with: everything parsed and within its range.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `cluster.name`
    pub cluster_name: String,
    /// `node.name`
    pub node_name: String,
    /// `node.roles` has no `data`
    pub is_coordinating_only: bool,
    /// `node.processors`, 0 for as many as there are
    pub processors: usize,
    /// `node.drain_timeout`
    pub drain_timeout: Duration,
    /// `node.insecure`
    pub insecure: bool,
    /// `path.data`
    pub data: PathBuf,
    /// `http.address`
    pub http: SocketAddr,
    /// `http.max_content_length`, in bytes
    pub http_max_content_bytes: usize,
    /// `http.max_clients`
    pub http_max_clients: usize,
    /// `http.compression`
    pub http_compression: bool,
    /// `http.allowed_hosts`, in lower case
    pub http_allowed_hosts: Vec<String>,
    /// `http.cors.…`, where it is enabled
    pub cors: Option<Cors>,
    /// `network.breaker.inflight_requests.limit`, in bytes
    pub http_in_flight_bytes: usize,
    /// `rest.version`
    pub rest_version: String,
    /// `rest.distribution`
    pub rest_distribution: String,
    /// `rest.tagline`
    pub rest_tagline: String,
    /// `resp.address`
    pub resp: SocketAddr,
    /// `rpc.address`, where the port for other nodes is opened
    pub rpc: Option<SocketAddr>,
    /// `http.tls.*`, where it is on
    pub http_tls: Option<ServerFiles>,
    /// `resp.tls.*`, where it is on
    pub resp_tls: Option<ServerFiles>,
    /// `rpc.tls.*`, where it is on
    pub rpc_tls: Option<NodeTls>,
    /// `rpc.secret`, or what `rpc.secret_file` holds
    pub rpc_secret: Option<String>,
    /// `remote_cluster….`, where the port for other clusters is opened
    pub remote: Option<RemotePort>,
    /// `resp.password`, or what `resp.password_file` holds
    pub password: Option<String>,
    /// `security.enabled`
    pub security_enabled: bool,
    /// `security.unheard_max`
    pub security_unheard_max: Duration,
    /// `audit.enabled`
    pub audit_enabled: bool,
    /// `audit.file_size`
    pub audit_bytes: u64,
    /// `resp.max_clients`
    pub max_clients: usize,
    /// `resp.number_of_shards`
    pub resp_shards: u32,
    /// `log.engine` and what belongs to it
    pub log: LogSettings,
    /// `node.attr.zone`
    pub zone: String,
    /// `log.durability`
    pub durability: Durability,
    /// `log.sync_interval`
    pub sync_interval: Duration,
    /// `cache.size`, in bytes; 0 is a share of the memory.
    pub cache_bytes: usize,
    /// `write_buffer.size`, in bytes; 0 is a share of the memory.
    pub write_buffer_bytes: usize,
    /// `compaction.bytes_per_sync`, in bytes; 0 is off.
    pub bytes_per_sync: u64,
    /// `compaction.rate_limiter.…`
    pub rate_limiter: Option<RateLimiter>,
    /// `cluster.routing.…` and `thread_pool.…`
    pub work: WorkSettings,
    /// What of the secrets others on the machine can read, in sentences
    pub exposed_secrets: Vec<String>,
    /// `logger.level`
    pub logger_level: String,
    /// `logger.format` is `json`
    pub logger_json: bool,
}

impl Settings {
    /// Parses what was given and fills in defaults.
    ///
    /// # Errors
    /// Names the key and who gave it, where a value does not fit.
    pub fn resolve(raw: &Raw) -> Result<Self, SettingsError> {
        let log = log(raw)?;
        let rpc = parsed(raw, "rpc.address", address)?;
        let settings = Self {
            cluster_name: text(raw, "cluster.name")?,
            node_name: text(raw, "node.name")?,
            is_coordinating_only: parsed(raw, "node.roles", |text| {
                let is_alone = !has_peers(&log, false);
                is_coordinating_only(text, is_alone)
            })?,
            processors: size(raw, "node.processors")?,
            drain_timeout: parsed(raw, "node.drain_timeout", duration)?,
            insecure: text(raw, "node.insecure")? == "true",
            data: text(raw, "path.data")?.into(),
            http: parsed(raw, "http.address", address)?,
            http_max_content_bytes: bytes(raw, "http.max_content_length")?,
            http_max_clients: size(raw, "http.max_clients")?,
            http_compression: text(raw, "http.compression")? == "true",
            http_allowed_hosts: cors::allowed_hosts(raw)?,
            cors: Cors::resolve(raw)?,
            http_in_flight_bytes: bytes(raw, "network.breaker.inflight_requests.limit")?,
            rest_version: text(raw, "rest.version")?,
            rest_distribution: text(raw, "rest.distribution")?,
            rest_tagline: text(raw, "rest.tagline")?,
            resp: parsed(raw, "resp.address", address)?,
            rpc: has_peers(&log, raw.get("rpc.address").is_some()).then_some(rpc),
            rpc_secret: secret(raw, "rpc.secret", "rpc.secret_file")?,
            http_tls: tls::http(raw)?,
            resp_tls: tls::resp(raw)?,
            rpc_tls: tls::rpc(raw)?,
            remote: RemotePort::resolve(raw)?,
            password: secret(raw, "resp.password", "resp.password_file")?,
            security_enabled: text(raw, "security.enabled")? == "true",
            security_unheard_max: parsed(raw, "security.unheard_max", duration)?,
            audit_enabled: text(raw, "audit.enabled")? == "true",
            audit_bytes: parsed(raw, "audit.file_size", bytes_of)?,
            max_clients: size(raw, "resp.max_clients")?,
            resp_shards: parsed(raw, "resp.number_of_shards", |text| Ok(text.parse::<u32>()?))?,
            durability: match text(raw, "log.durability")?.as_str() {
                "async" => Durability::Async,
                _ => Durability::Request,
            },
            sync_interval: parsed(raw, "log.sync_interval", duration)?,
            log,
            zone: text(raw, "node.attr.zone")?,
            cache_bytes: parsed(raw, "cache.size", |text| share_or(text, 1 << 20, "1mb"))?,
            // Of less a store's memtable is none any more.
            write_buffer_bytes: parsed(raw, "write_buffer.size", |text| {
                share_or(text, 8 << 20, "8mb")
            })?,
            bytes_per_sync: parsed(raw, "compaction.bytes_per_sync", bytes_of)?,
            rate_limiter: rate_limiter(raw)?,
            work: work(raw)?,
            exposed_secrets: secrets::exposed(raw),
            logger_level: text(raw, "logger.level")?,
            logger_json: text(raw, "logger.format")? == "json",
        };
        Ok(settings)
    }

    /// Whether who comes has to say who it is.
    #[must_use]
    pub fn asks_who(&self) -> bool {
        self.password.is_some() || self.security_enabled
    }
}

/// RocksDB's own limiter, where a rate is set.
fn rate_limiter(raw: &Raw) -> Result<Option<RateLimiter>, SettingsError> {
    let bytes_s = parsed(raw, "compaction.rate_limiter.max_bytes_per_sec", limiter_bytes)?;
    let auto_tuned = text(raw, "compaction.rate_limiter.auto_tuned")? == "true";
    Ok((bytes_s > 0).then_some(RateLimiter { bytes_s, auto_tuned }))
}

/// A rate at which a flush ends, or 0: a node that stops waits for those under way.
fn limiter_bytes(text: &str) -> Result<u64, ValueError> {
    let bytes_s = bytes_of(text)?;
    if (1..1 << 20).contains(&bytes_s) {
        return Err(ValueError::BelowLeast("1mb"));
    }
    Ok(bytes_s)
}

/// A size of at least so much, or 0, which stands for a share of the memory.
fn share_or(text: &str, least: u64, least_text: &'static str) -> Result<usize, ValueError> {
    let bytes = bytes_of(text)?;
    if (1..least).contains(&bytes) {
        return Err(ValueError::BelowLeast(least_text));
    }
    Ok(usize::try_from(bytes)?)
}

/// Whether the port for other nodes is opened: where a log is shared, and where somebody asked
/// for it. Nodes that are alone start beside each other without a port for each.
fn has_peers(log: &LogSettings, is_given: bool) -> bool {
    is_given || !matches!(log, LogSettings::Embedded { share: None, .. })
}

/// Which log, from all the settings that concern it.
fn log(raw: &Raw) -> Result<LogSettings, SettingsError> {
    let sync_interval = parsed(raw, "log.sync_interval", duration)?;
    let options = embedded::Options {
        durability: match text(raw, "log.durability")?.as_str() {
            "async" => embedded::Durability::Async,
            _ => embedded::Durability::Request,
        },
        sync_interval_ms: u64::try_from(sync_interval.as_millis()).unwrap_or(u64::MAX),
        ..embedded::Options::default()
    };
    let share =
        parsed(
            raw,
            "log.share",
            |text| {
                if text.is_empty() { Ok(None) } else { address(text).map(Some) }
            },
        )?;
    let replicas = text(raw, "log.replicas")?;
    let cluster = text(raw, "cluster.name")?;
    let files = log_files(raw)?;
    parsed(raw, "log.engine", |text| match text.split_once("://") {
        None | Some(("plimsoll", _)) if files != jetstream::Files::default() => {
            Err(ValueError::NoNats)
        }
        None if text == "embedded" => Ok(LogSettings::Embedded { options, share }),
        Some(("plimsoll", _)) => Ok(LogSettings::Shared { address: text.to_owned() }),
        Some(("nats" | "tls", servers)) => {
            let address = jetstream::Address::parse(text)?.with_cluster(&cluster)?;
            let address = address.with_files(files.clone())?;
            let count = servers.split(',').count();
            // One server can keep one copy; with more, a majority survives the loss of one.
            let auto = if count == 1 { 1 } else { 3 };
            let replicas = replicas.parse().unwrap_or(auto);
            let options = jetstream::Options { replicas, ..jetstream::Options::default() };
            Ok(LogSettings::Jetstream { address, options })
        }
        _ => {
            // Before an `@` a secret may stand.
            let is_shown = !text.contains('@');
            Err(ValueError::NoLog(if is_shown { format!("`{text}`") } else { "it".to_owned() }))
        }
    })
}

/// Files by which the log's servers are reached.
fn log_files(raw: &Raw) -> Result<jetstream::Files, SettingsError> {
    let file = |key| text(raw, key).map(|path| (!path.is_empty()).then(|| PathBuf::from(path)));
    Ok(jetstream::Files {
        ca: file("log.tls.certificate_authorities")?,
        certificate: file("log.tls.certificate")?,
        key: file("log.tls.key")?,
        credentials: file("log.credentials_file")?,
        nkey_seed: file("log.nkey_seed_file")?,
        password: file("log.password_file")?,
    })
}

/// Whether a list of roles, in brackets or not, is without `data`.
fn is_coordinating_only(text: &str, is_alone: bool) -> Result<bool, ValueError> {
    let list = text.trim();
    let list = list.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(list);
    let mut is_data = false;
    for role in words(list) {
        if !ROLES.contains(&role) {
            return Err(ValueError::Role(role.to_owned()));
        }
        is_data |= role == "data";
    }
    if !is_data && is_alone {
        return Err(ValueError::DataIsWanted);
    }
    Ok(!is_data)
}

/// What steers the controllers.
fn work(raw: &Raw) -> Result<WorkSettings, SettingsError> {
    let mut work = WorkSettings::default();
    for name in WORK_SETTINGS {
        parsed(raw, name, |text| Ok(work.set(name, text)?))?;
    }
    Ok(work)
}

/// A setting that is never shown, or what the file holds that another setting names.
fn secret(
    raw: &Raw,
    key: &'static str,
    file_key: &'static str,
) -> Result<Option<String>, SettingsError> {
    let from_file = parsed(raw, file_key, |path| {
        if path.is_empty() {
            return Ok(String::new());
        }
        let unread = |error: std::io::Error| ValueError::SecretFile {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let text = std::fs::read_to_string(path).map_err(unread)?;
        let text = text.trim_end_matches(['\r', '\n']);
        let is_empty = text.is_empty();
        if is_empty {
            Err(ValueError::EmptySecretFile(path.to_owned()))
        } else {
            Ok(text.to_owned())
        }
    })?;
    let given = parsed(raw, key, |text| {
        if !text.is_empty() && !from_file.is_empty() {
            return Err(ValueError::TwoSecrets(file_key));
        }
        let secret = if text.is_empty() { &from_file } else { text };
        if secret.len() > PASSWORD_BYTES_MAX {
            return Err(ValueError::SecretTooLong);
        }
        Ok(secret.to_owned())
    })?;
    Ok((!given.is_empty()).then_some(given))
}

#[cfg(test)]
mod tests;
