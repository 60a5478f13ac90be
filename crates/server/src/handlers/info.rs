//! INFO: what is true of this node, in Redis' words where tools look for them and under
//! `plimsoll_` where Redis has none. A field that would be made up is not there.

use std::{fmt::Write, sync::atomic::Ordering::Relaxed, time::Duration};

use plimsoll_cluster::Statistics;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::hello::REDIS_VERSION;
use crate::{commands, connection::state::ConnectionState, node, process};

/// Writes a section's lines.
type Section = fn(&mut String, &ConnectionState, &Statistics) -> std::fmt::Result;

/// All sections: name, title, whether INFO without arguments shows it, and its lines.
const SECTIONS: &[(&str, &str, bool, Section)] = &[
    ("server", "Server", true, server),
    ("clients", "Clients", true, clients),
    ("memory", "Memory", true, memory),
    ("persistence", "Persistence", true, persistence),
    ("stats", "Stats", true, stats),
    ("replication", "Replication", true, replication),
    ("cpu", "CPU", true, cpu),
    ("commandstats", "Commandstats", false, commandstats),
    ("errorstats", "Errorstats", true, errorstats),
    ("cluster", "Cluster", true, cluster),
    ("keyspace", "Keyspace", true, keyspace),
];

/// INFO \[section …\]. Unknown sections are empty, as in Redis.
///
/// # Errors
/// None in this version.
pub fn run(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let wanted: Vec<Vec<u8>> = argv.iter().skip(1).map(<[u8]>::to_ascii_lowercase).collect();
    let asks = |name: &[u8]| wanted.iter().any(|wanted| wanted == name);
    let all = asks(b"all") || asks(b"everything");
    let default = wanted.is_empty() || asks(b"default");
    let statistics = state.shared.coordinator.statistics();
    let mut text = String::new();
    for (name, title, is_default, section) in SECTIONS {
        if all || (default && *is_default) || asks(name.as_bytes()) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let written =
                write!(text, "# {title}\r\n").and_then(|()| section(&mut text, state, &statistics));
            written.expect("text in memory takes any words");
        }
    }
    Ok(Reply::Verbatim(text))
}

fn server(out: &mut String, state: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    let shared = &state.shared;
    let uptime = shared.started.elapsed().as_secs();
    let executable = std::env::current_exe().unwrap_or_default();
    write!(out, "redis_version:{REDIS_VERSION}\r\n")?;
    write!(out, "plimsoll_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(out, "redis_mode:standalone\r\n")?;
    write!(out, "os:{}\r\n", process::operating_system())?;
    write!(out, "arch_bits:{}\r\n", usize::BITS)?;
    write!(out, "process_id:{}\r\n", std::process::id())?;
    write!(out, "run_id:{}\r\n", shared.run_id)?;
    write!(out, "tcp_port:{}\r\n", shared.resp_port)?;
    write!(out, "server_time_usec:{}\r\n", node::unix_time().as_micros())?;
    write!(out, "uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n", uptime / 86_400)?;
    write!(out, "executable:{}\r\n", executable.display())?;
    write!(out, "plimsoll_node_name:{}\r\n", shared.settings.node_name)
}

fn clients(out: &mut String, state: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    let clients = &state.shared.clients;
    write!(out, "connected_clients:{}\r\n", clients.count())?;
    write!(out, "maxclients:{}\r\n", clients.count_max())?;
    write!(out, "blocked_clients:0\r\n")
}

/// What the process holds is what the kernel says it holds: rows, caches and the log together.
fn memory(out: &mut String, _: &ConnectionState, statistics: &Statistics) -> std::fmt::Result {
    let resident = process::resident_bytes();
    write!(out, "used_memory:{resident}\r\n")?;
    write!(out, "used_memory_human:{}\r\n", human(resident))?;
    write!(out, "used_memory_rss:{resident}\r\n")?;
    write!(out, "used_memory_peak:{}\r\n", process::resident_bytes_peak())?;
    write!(out, "maxmemory:0\r\nmaxmemory_policy:noeviction\r\nmem_allocator:mimalloc\r\n")?;
    write!(out, "plimsoll_block_cache_bytes:{}\r\n", statistics.store.block_cache_bytes)?;
    write!(out, "plimsoll_write_buffer_bytes:{}\r\n", statistics.store.write_buffer_bytes)?;
    write!(out, "plimsoll_row_cache_bytes:{}\r\n", statistics.store.row_cache_bytes)?;
    write!(out, "plimsoll_log_cache_bytes:{}\r\n", statistics.log.cache_bytes)
}

fn persistence(
    out: &mut String,
    state: &ConnectionState,
    statistics: &Statistics,
) -> std::fmt::Result {
    let durability = match state.shared.settings.durability {
        crate::settings::Durability::Request => "request",
        crate::settings::Durability::Async => "async",
    };
    let log = &statistics.log;
    write!(out, "loading:0\r\naof_enabled:1\r\n")?;
    let failed = log.stopped.is_some() || !statistics.faults.is_empty();
    write!(out, "aof_last_write_status:{}\r\n", if failed { "err" } else { "ok" })?;
    write!(out, "plimsoll_log_durability:{durability}\r\n")?;
    write!(out, "plimsoll_log_appends:{}\r\n", log.appends)?;
    write!(out, "plimsoll_log_append_bytes:{}\r\n", log.append_bytes)?;
    write!(out, "plimsoll_log_commits:{}\r\n", log.commits)?;
    write!(out, "plimsoll_log_syncs:{}\r\n", log.syncs)?;
    write!(out, "plimsoll_log_sync_average_us:{}\r\n", log.sync_average.as_micros())?;
    write!(out, "plimsoll_rows_files_bytes:{}\r\n", statistics.files_bytes)?;
    let faults = log.stopped.iter().chain(&statistics.faults);
    for fault in faults {
        write!(out, "plimsoll_fault:{}\r\n", fault.replace(['\r', '\n'], " "))?;
    }
    Ok(())
}

fn stats(out: &mut String, state: &ConnectionState, statistics: &Statistics) -> std::fmt::Result {
    let (usage, clients) = (&state.shared.usage, &state.shared.clients);
    let figures = usage.figures_since_reset();
    write!(out, "total_connections_received:{}\r\n", clients.accepted.load(Relaxed))?;
    write!(out, "total_commands_processed:{}\r\n", figures.total)?;
    write!(out, "instantaneous_ops_per_sec:{}\r\n", usage.per_second())?;
    write!(out, "total_net_input_bytes:{}\r\n", figures.bytes_in)?;
    write!(out, "total_net_output_bytes:{}\r\n", figures.bytes_out)?;
    write!(out, "rejected_connections:{}\r\n", clients.refused.load(Relaxed))?;
    write!(out, "evicted_keys:0\r\n")?;
    write!(out, "plimsoll_row_cache_hits:{}\r\n", statistics.store.row_cache_hits)?;
    write!(out, "plimsoll_row_cache_misses:{}\r\n", statistics.store.row_cache_misses)?;
    write!(out, "total_error_replies:{}\r\n", figures.errors.values().sum::<u64>())
}

fn replication(out: &mut String, _: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    write!(out, "role:master\r\nconnected_slaves:0\r\n")
}

fn cpu(out: &mut String, _: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    let (user, system) = process::cpu_time();
    write!(out, "used_cpu_sys:{:.6}\r\n", system.as_secs_f64())?;
    write!(out, "used_cpu_user:{:.6}\r\n", user.as_secs_f64())
}

fn commandstats(out: &mut String, state: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    let all = state.shared.usage.figures_since_reset().commands;
    for (entry, figures) in commands::all().iter().zip(all) {
        if figures.calls + figures.rejected == 0 {
            continue;
        }
        let micros = figures.took.as_micros();
        let calls = u32::try_from(figures.calls.max(1)).unwrap_or(u32::MAX);
        let each: Duration = figures.took / calls;
        write!(
            out,
            "cmdstat_{}:calls={},usec={micros},usec_per_call={:.2},rejected_calls={},\
             failed_calls={}\r\n",
            entry.spec.name,
            figures.calls,
            each.as_secs_f64() * 1e6,
            figures.rejected,
            figures.failed
        )?;
    }
    Ok(())
}

fn errorstats(out: &mut String, state: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    for (code, count) in state.shared.usage.figures_since_reset().errors {
        write!(out, "errorstat_{code}:count={count}\r\n")?;
    }
    Ok(())
}

fn cluster(out: &mut String, _: &ConnectionState, _: &Statistics) -> std::fmt::Result {
    write!(out, "cluster_enabled:0\r\n")
}

fn keyspace(out: &mut String, _: &ConnectionState, statistics: &Statistics) -> std::fmt::Result {
    for database in statistics.databases.iter().filter(|database| database.keys > 0) {
        let (db, keys, expires) = (database.db, database.keys, database.expires);
        // Redis samples the average; nothing here does, and tools want the field.
        write!(out, "db{db}:keys={keys},expires={expires},avg_ttl=0\r\n")?;
    }
    Ok(())
}

/// Bytes with a unit that leaves few digits.
fn human(bytes: u64) -> String {
    const UNITS: [(u64, char); 3] = [(1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match UNITS.iter().find(|(scale, _)| bytes >= *scale) {
        None => format!("{bytes}B"),
        Some((scale, unit)) => {
            let hundredths = bytes.saturating_mul(100) / scale;
            format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
        }
    }
}
