//! The settings of the cluster that say how nodes keep copies and the log: names, values, defaults.
//! They are kept in the metadata and read there when they are needed, so a change holds from the
//! next look on. Those of the controllers are in `work_settings.rs`.

use std::time::Duration;

use plimsoll_control::Mode;
use plimsoll_stdx::units;

use crate::metadata;
use crate::metadata::MetadataRows;
use crate::settings::error::SettingError;

/// How long a node that left is waited for before its copies are made elsewhere, for tables that
/// do not say (`index.unassigned.node_left.delayed_timeout`). Default 60 s, Elasticsearch's.
const DELAYED_TIMEOUT: &str = "cluster.default_node_left_delayed_timeout";
/// After how long rows that were written are made durable, so that the log need not keep them any
/// longer. Default 60 s.
const FLUSH_INTERVAL: &str = "log.flush_interval";
/// How often the files of indices are read and compared with their checksums. Default 10 minutes.
const CHECK_INTERVAL: &str = "indices.check.interval";
/// How many copies of partitions a node holds at the most. Default 1,000, Elasticsearch's.
const SHARDS_PER_NODE: &str = "cluster.max_shards_per_node";
/// How many bytes of one group's log are held for a node that is away or behind, where another
/// copy stands in for it. Default 4 GiB.
const RETENTION: &str = "log.retention.max_bytes";
/// How many bytes of one group's log are held for tables of other clusters that follow partitions of
/// it. Default 4 GiB.
const FOLLOWERS_RETENTION: &str = "ccr.retention.max_bytes";
/// How large chunks of a first copy from another cluster are; and how many may be asked for beyond the
/// oldest that has not come. Where neither is set, how much is under way follows from the link.
/// Elasticsearch's names; its defaults are 1mb and 5, which are taken where only the other is set.
const CHUNK_SIZE: &str = "ccr.indices.recovery.chunk_size";
const CHUNKS: &str = "ccr.indices.recovery.max_concurrent_file_chunks";
/// How many chunks of one file may be under way, where either of those is set. No limit where it is not
/// set; 1 is the published rule before chunks of one file were asked for side by side.
const CHUNKS_OF_FILE: &str = "ccr.indices.recovery.max_concurrent_chunks_per_file";
/// How many bytes a second a node takes of first copies from other clusters. No limit where it is not set.
const COPY_RATE: &str = "ccr.indices.recovery.max_bytes_per_sec";
/// Whether what is copied and followed across clusters makes way for the work of a node's own clients:
/// `on`, `off`, or `shadow`, which decides and holds nothing back. Default `on`.
const PACING: &str = "ccr.pacing";
/// Whether compactions make way for the work of a node's clients: `load_aware`, `off`, or `shadow`, which
/// decides and holds nothing back. Default `load_aware`.
const COMPACTION_PACING: &str = "compaction.pacing";
/// What is shown of a setting that has no default.
const UNSET: &str = "";

/// Whether the cluster's version is raised once all members know a newer one. Default `auto`; with
/// `hold` the members can still go back to the version before.
const RAISE_VERSION: &str = "cluster.version.raise";
/// What it takes.
const RAISE: [&str; 2] = ["auto", "hold"];

/// The least that [`RETENTION`] and [`FOLLOWERS_RETENTION`] take, bytes.
const RETENTION_MIN_BYTES: u64 = 1 << 20;
/// The longest time that a setting takes.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// The settings, with their defaults.
pub const CLUSTER_SETTINGS: [(&str, &str); 13] = [
    (SHARDS_PER_NODE, "1000"),
    (DELAYED_TIMEOUT, "60s"),
    (CHECK_INTERVAL, "10m"),
    (FLUSH_INTERVAL, "60s"),
    (RETENTION, "4gb"),
    (FOLLOWERS_RETENTION, "4gb"),
    (CHUNK_SIZE, UNSET),
    (CHUNKS, UNSET),
    (CHUNKS_OF_FILE, UNSET),
    (COPY_RATE, UNSET),
    (PACING, "on"),
    (COMPACTION_PACING, "load_aware"),
    (RAISE_VERSION, RAISE[0]),
];

/// Checks a value of one of [`CLUSTER_SETTINGS`].
///
/// # Errors
/// Where the setting does not take it.
pub fn check_cluster_setting(name: &str, text: &str) -> Result<(), SettingError> {
    match name {
        DELAYED_TIMEOUT => time(text, Duration::ZERO).map(drop),
        FLUSH_INTERVAL | CHECK_INTERVAL => time(text, Duration::from_secs(1)).map(drop),
        RETENTION | FOLLOWERS_RETENTION => bytes(text).map(drop),
        SHARDS_PER_NODE => count(text).map(drop),
        CHUNK_SIZE => chunk_bytes(text).map(drop),
        CHUNKS | CHUNKS_OF_FILE => chunks(text).map(drop),
        COPY_RATE => rate(text).map(drop),
        PACING => mode(text).map(drop),
        COMPACTION_PACING => compaction_mode(text).map(drop),
        RAISE_VERSION if RAISE.contains(&text) => Ok(()),
        RAISE_VERSION => Err(SettingError::none_of(text, RAISE)),
        _ => Err(SettingError::NotOfTheCluster(name.to_owned())),
    }
}

/// See [`DELAYED_TIMEOUT`], ms.
pub(crate) fn delayed_ms(metadata: &impl MetadataRows) -> u64 {
    let read = |text: &str| time(text, Duration::ZERO);
    u64::try_from(value(metadata, DELAYED_TIMEOUT, read).as_millis()).unwrap_or(u64::MAX)
}

/// See [`FLUSH_INTERVAL`].
pub(crate) fn flush_interval(metadata: &impl MetadataRows) -> Duration {
    value(metadata, FLUSH_INTERVAL, |text| time(text, Duration::from_secs(1)))
}

/// See [`CHECK_INTERVAL`].
pub(crate) fn check_interval(metadata: &impl MetadataRows) -> Duration {
    value(metadata, CHECK_INTERVAL, |text| time(text, Duration::from_secs(1)))
}

/// See [`SHARDS_PER_NODE`].
pub(crate) fn shards_per_node_max(metadata: &impl MetadataRows) -> u64 {
    value(metadata, SHARDS_PER_NODE, count)
}

/// See [`RETENTION`].
pub(crate) fn retention_bytes(metadata: &impl MetadataRows) -> u64 {
    value(metadata, RETENTION, bytes)
}

/// See [`FOLLOWERS_RETENTION`].
pub(crate) fn followers_retention_bytes(metadata: &impl MetadataRows) -> u64 {
    value(metadata, FOLLOWERS_RETENTION, bytes)
}

/// See [`CHUNK_SIZE`] and [`CHUNKS`]; `None` where neither is set.
pub(crate) fn published_chunks(metadata: &impl MetadataRows) -> Option<(u64, u64)> {
    let bytes = metadata::setting(metadata, CHUNK_SIZE).and_then(|text| chunk_bytes(&text).ok());
    let count = metadata::setting(metadata, CHUNKS).and_then(|text| chunks(&text).ok());
    (bytes.is_some() || count.is_some()).then(|| (bytes.unwrap_or(1 << 20), count.unwrap_or(5)))
}

/// See [`CHUNKS_OF_FILE`].
pub(crate) fn chunks_of_file(metadata: &impl MetadataRows) -> Option<u64> {
    metadata::setting(metadata, CHUNKS_OF_FILE).and_then(|text| chunks(&text).ok())
}

/// See [`COPY_RATE`], bytes a second.
pub(crate) fn copy_rate(metadata: &impl MetadataRows) -> Option<u64> {
    metadata::setting(metadata, COPY_RATE).and_then(|text| rate(&text).ok())
}

/// See [`PACING`].
pub(crate) fn pacing(metadata: &impl MetadataRows) -> Mode {
    value(metadata, PACING, mode)
}

/// See [`COMPACTION_PACING`].
pub(crate) fn compaction_pacing(metadata: &impl MetadataRows) -> Mode {
    value(metadata, COMPACTION_PACING, compaction_mode)
}

/// See [`RAISE_VERSION`].
pub(crate) fn holds_version(metadata: &impl MetadataRows) -> bool {
    metadata::setting(metadata, RAISE_VERSION).is_some_and(|text| text == RAISE[1])
}

/// What is set, or the default.
fn value<T>(
    metadata: &impl MetadataRows,
    name: &str,
    read: impl Fn(&str) -> Result<T, SettingError>,
) -> T {
    let set = metadata::setting(metadata, name).and_then(|text| read(&text).ok());
    let default = || CLUSTER_SETTINGS.iter().find(|(known, _)| *known == name);
    set.or_else(|| read(default()?.1).ok())
        .unwrap_or_else(|| unreachable!("`{name}` has a default that it takes itself"))
}

fn time(text: &str, least: Duration) -> Result<Duration, SettingError> {
    let time = units::duration(text).ok().filter(|time| (least..=TIME_MAX).contains(time));
    let wanted = || format!("a time from {least:?} to 24h such as 500ms or 5m");
    time.ok_or_else(|| SettingError::not(text, wanted()))
}

fn count(text: &str) -> Result<u64, SettingError> {
    let number = text.parse().ok().filter(|number| *number >= 1);
    number.ok_or_else(|| SettingError::not(text, "a whole number of at least 1"))
}

fn chunk_bytes(text: &str) -> Result<u64, SettingError> {
    let bytes = units::bytes(text).ok().filter(|bytes| (1 << 10..=5 << 20).contains(bytes));
    bytes.ok_or_else(|| SettingError::not(text, "a size from 1kb to 5mb such as 64kb or 1mb"))
}

fn chunks(text: &str) -> Result<u64, SettingError> {
    let number = text.parse().ok().filter(|number| (1..=10).contains(number));
    number.ok_or_else(|| SettingError::not(text, "a whole number from 1 to 10"))
}

fn mode(text: &str) -> Result<Mode, SettingError> {
    let names = Mode::NAMED.map(|(name, _)| name);
    Mode::named(text).ok_or_else(|| SettingError::none_of(text, names))
}

/// Who says how fast compactions go; RocksDB's limiters are chosen before the stores are opened.
fn compaction_mode(text: &str) -> Result<Mode, SettingError> {
    match text {
        "load_aware" => Ok(Mode::On),
        "off" => Ok(Mode::Off),
        "shadow" => Ok(Mode::Shadow),
        "limiter" | "auto" => Err(SettingError::OfRocksDb(text.to_owned())),
        _ => Err(SettingError::none_of(text, ["load_aware", "off", "shadow"])),
    }
}

fn rate(text: &str) -> Result<u64, SettingError> {
    let bytes = units::bytes(text).ok().filter(|bytes| *bytes >= 1 << 10);
    bytes.ok_or_else(|| SettingError::not(text, "a size of at least 1kb such as 40mb"))
}

fn bytes(text: &str) -> Result<u64, SettingError> {
    let bytes = units::bytes(text).ok().filter(|bytes| *bytes >= RETENTION_MIN_BYTES);
    bytes.ok_or_else(|| SettingError::not(text, "a size of at least 1mb such as 512mb or 4gb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_its_default_and_no_nonsense() {
        for (name, default) in CLUSTER_SETTINGS {
            assert!(default == UNSET || check_cluster_setting(name, default).is_ok(), "{name}");
            for text in ["", "nonsense", "-1", "5 parsecs", "1.5gb", "99999999999999999999s"] {
                assert!(check_cluster_setting(name, text).is_err(), "{name} {text}");
            }
        }
        assert!(check_cluster_setting("bogus", "1s").is_err());
    }

    #[test]
    fn values_have_units_and_bounds() {
        assert_eq!(bytes("4gb"), Ok(4 << 30));
        assert!(bytes("1048576").is_err(), "of what?");
        assert_eq!(bytes("512MB"), Ok(512 << 20));
        assert!(bytes("1023kb").is_err() && bytes("20000000tb").is_err());
        assert_eq!(time("0", Duration::ZERO), Ok(Duration::ZERO));
        assert_eq!(time("2m", Duration::ZERO), Ok(Duration::from_secs(120)));
        assert!(time("25h", Duration::ZERO).is_err());
        assert!(time("500ms", Duration::from_secs(1)).is_err());
    }
}
