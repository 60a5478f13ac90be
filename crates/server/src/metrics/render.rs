//! All figures of a node as Prometheus reads them; those that others keep are copied here.

use std::time::Duration;

use plimsoll_cluster::{Coordinator, Statistics};
use plimsoll_memory::account::request_sums;
use plimsoll_memory::breakers::{Which, figures};
use plimsoll_memory::ledger::{Heir, OWNERS};
use plimsoll_memory::watch::best_balance;

use super::Metrics;
use crate::node::Shared;
use crate::{commands, process};

impl Metrics {
    /// All figures, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, shared: &Shared) -> String {
        self.clients(shared);
        self.node(&shared.coordinator.statistics());
        self.memory();
        self.work(&shared.coordinator);
        self.recorder.handle().render()
    }

    fn clients(&self, shared: &Shared) {
        let figures = shared.usage.figures();
        for (entry, command) in commands::all().iter().zip(&figures.commands) {
            if command.calls + command.rejected == 0 {
                continue;
            }
            let label = Some(("command", entry.spec.name.into()));
            let micros = u64::try_from(command.took.as_micros()).unwrap_or(u64::MAX);
            self.count("plimsoll_resp_commands_total", label.clone(), command.calls);
            self.count("plimsoll_resp_command_microseconds_total", label.clone(), micros);
            self.count("plimsoll_resp_commands_rejected_total", label.clone(), command.rejected);
            self.count("plimsoll_resp_commands_failed_total", label, command.failed);
        }
        for (code, count) in figures.errors {
            self.count("plimsoll_resp_errors_total", Some(("code", code.into())), count);
        }
        self.count("plimsoll_resp_received_bytes_total", None, figures.bytes_in);
        self.count("plimsoll_resp_sent_bytes_total", None, figures.bytes_out);
        let clients = &shared.clients;
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.count("plimsoll_resp_accepted_total", None, clients.accepted.load(relaxed));
        self.count("plimsoll_resp_refused_total", None, clients.refused.load(relaxed));
        self.show("plimsoll_resp_connections", None, clients.count() as f64);
    }

    fn node(&self, statistics: &Statistics) {
        for database in &statistics.databases {
            let label = Some(("db", database.db.to_string().into()));
            self.show("plimsoll_keys", label.clone(), database.keys as f64);
            self.show("plimsoll_keys_with_expiry", label, database.expires as f64);
        }
        let log = &statistics.log;
        self.count("plimsoll_log_appends_total", None, log.appends);
        self.count("plimsoll_log_appends_failed_total", None, log.appends_failed);
        self.count("plimsoll_log_append_bytes_total", None, log.append_bytes);
        self.count("plimsoll_log_written_bytes_total", None, log.written_bytes);
        self.count("plimsoll_log_commits_total", None, log.commits);
        self.count("plimsoll_log_syncs_total", None, log.syncs);
        self.show("plimsoll_log_sync_last_seconds", None, log.sync_last.as_secs_f64());
        self.show("plimsoll_log_sync_average_seconds", None, log.sync_average.as_secs_f64());
        self.show("plimsoll_log_append_average_seconds", None, log.append_average.as_secs_f64());
        self.show("plimsoll_log_groups_read", None, statistics.groups_read as f64);
        self.show("plimsoll_log_queue_bytes", None, log.queue_bytes as f64);
        self.show("plimsoll_log_queue_age_seconds", None, log.queue_age.as_secs_f64());
        self.show("plimsoll_log_cache_bytes", None, log.cache_bytes as f64);
        self.show("plimsoll_lead_queue_bytes", None, statistics.queue_bytes as f64);
        self.show("plimsoll_rows_files_bytes", None, statistics.files_bytes as f64);
        let store = &statistics.store;
        self.show("plimsoll_block_cache_bytes", None, store.block_cache_bytes as f64);
        self.show("plimsoll_write_buffer_bytes", None, store.write_buffer_bytes as f64);
        self.show("plimsoll_row_cache_bytes", None, store.row_cache_bytes as f64);
        self.show("plimsoll_recent_documents_bytes", None, store.recent_bytes as f64);
        self.count("plimsoll_row_cache_hits_total", None, store.row_cache_hits);
        self.count("plimsoll_row_cache_misses_total", None, store.row_cache_misses);
        let stopped = Duration::from_nanos(store.stops.time_ns).as_secs_f64();
        self.count("plimsoll_store_stops_total", None, store.stops.count);
        self.show("plimsoll_store_stopped_seconds_total", None, stopped);
        self.show(
            "plimsoll_compactions_held_seconds_total",
            None,
            store.compactions_held.as_secs_f64(),
        );
        self.count("plimsoll_compactions_passed_bytes_total", None, store.compactions_passed_bytes);
        // Where there is no limit, there is no row.
        if let Some(bytes_s) = store.compactions_bytes_s {
            self.show("plimsoll_compactions_bytes_per_second", None, bytes_s as f64);
        }
        self.show("plimsoll_write_debt", None, statistics.write_debt);
        self.count("plimsoll_writes_refused_for_debt_total", None, statistics.writes_refused);
        self.show("plimsoll_partition_faults", None, statistics.faults.len() as f64);
        self.show("process_resident_memory_bytes", None, process::resident_bytes() as f64);
        let (user, system) = process::cpu_time();
        let micros = u64::try_from((user + system).as_micros()).unwrap_or(u64::MAX);
        self.count("plimsoll_process_cpu_microseconds_total", None, micros);
    }

    fn memory(&self) {
        for which in Which::ALL {
            let (figures, label) = (figures(which), Some(("breaker", which.name().into())));
            self.show("plimsoll_breaker_limit_bytes", label.clone(), figures.limit as f64);
            self.show("plimsoll_breaker_used_bytes", label.clone(), figures.used as f64);
            self.count("plimsoll_breaker_tripped_total", label, figures.tripped);
        }
        let owned = |name: &'static str, bytes: i64| {
            let label = Some(("owner", name.into()));
            self.show("plimsoll_memory_owned_bytes", label, bytes as f64);
        };
        OWNERS.iter().for_each(|owner| owned(owner.name(), owner.bytes()));
        let requests = request_sums();
        owned("requests", requests.open);
        Heir::ALL.iter().for_each(|heir| owned(heir.name(), requests.left[*heir as usize]));
        self.show("plimsoll_requests_open", None, requests.open_count as f64);
        let balance = best_balance();
        self.show("plimsoll_memory_live_bytes", None, balance.live as f64);
        self.show("plimsoll_memory_off_bytes", None, balance.off() as f64);
    }

    /// What the controllers of the node did.
    fn work(&self, coordinator: &Coordinator) {
        let pools = [
            ("search", coordinator.documents().search_pool()),
            ("write", coordinator.write_pool()),
        ];
        for (name, pool) in pools {
            let label = Some(("pool", name.into()));
            self.show("plimsoll_pool_active", label.clone(), pool.active as f64);
            self.show("plimsoll_pool_queue", label.clone(), pool.queue as f64);
            self.count("plimsoll_pool_rejected_total", label.clone(), pool.rejected);
            self.count("plimsoll_pool_completed_total", label, pool.completed);
        }
        let search = coordinator.documents().search_pool();
        self.show("plimsoll_search_threads", None, search.threads as f64);
        self.show("plimsoll_search_queue_capacity", None, search.queue_capacity as f64);
        self.show("plimsoll_search_oldest_wait_seconds", None, search.oldest_wait_ns as f64 / 1e9);
        self.count("plimsoll_search_sent_elsewhere_total", None, search.sent_elsewhere);
        self.show("plimsoll_search_held_views", None, coordinator.documents().held_views() as f64);
        let selection = coordinator.selection();
        self.count("plimsoll_selection_hedges_wanted_total", None, selection.hedges.0);
        self.count("plimsoll_selection_hedges_total", None, selection.hedges.1);
        self.count("plimsoll_selection_retries_total", None, selection.retries.0);
        self.count("plimsoll_selection_retries_over_budget_total", None, selection.retries.1);
        for (id, node) in coordinator.selection_of_nodes() {
            let label = Some(("node", id.into()));
            self.show("plimsoll_selection_outstanding", label.clone(), f64::from(node.outstanding));
            self.count("plimsoll_selection_picks_total", label.clone(), node.picks);
            self.count("plimsoll_selection_failures_total", label.clone(), node.failures);
            self.show("plimsoll_selection_response_seconds", label, node.response_ns as f64 / 1e9);
        }
    }
}
