//! Published figures that experiments are compared with. They are data, transcribed with their
//! source into `published/*.json` of this crate, and nothing here corrects them.

mod breakers;
mod curves;
mod file;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

pub(crate) use breakers::BREAKERS;
pub(crate) use curves::CURVES;
use file::parse;

/// The study of replica selection.
#[derive(Debug, Deserialize)]
pub(crate) struct SelectionStudy {
    pub(crate) source: String,
    /// What each generation of runs is called.
    pub(crate) generations: BTreeMap<String, String>,
    /// Seconds of young-generation garbage collection of all nodes, by scenario, in the runs
    /// without selection.
    pub(crate) young_collections_s_without_selection: BTreeMap<String, f64>,
    pub(crate) nodes: Vec<SelectionNodes>,
    pub(crate) runs: Vec<SelectionRun>,
}

/// Completed tasks by node in one run of it, with selection.
#[derive(Debug, Deserialize)]
pub(crate) struct SelectionNodes {
    pub(crate) scenario: String,
    pub(crate) completed: BTreeMap<String, u64>,
}

/// One table of it.
#[derive(Debug, Deserialize)]
pub(crate) struct SelectionRun {
    pub(crate) scenario: String,
    pub(crate) variant: String,
    pub(crate) generation: String,
    pub(crate) rows: Vec<Row>,
}

/// One row's total; the file has the laps as well, where they were given. Error rates are percent.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) metric: String,
    pub(crate) total: f64,
}

impl SelectionStudy {
    /// A total; the runs without selection were made once and count for every generation.
    pub(crate) fn total(
        &self,
        scenario: &str,
        variant: &str,
        generation: &str,
        metric: &str,
    ) -> Option<f64> {
        let run = self.runs.iter().find(|run| {
            run.scenario == scenario
                && run.variant == variant
                && (run.generation == generation || variant == "off")
        })?;
        run.rows.iter().find(|row| row.metric == metric).map(|row| row.total)
    }

    /// Change in percent from the run without selection, by generation.
    pub(crate) fn changes(&self, scenario: &str, metric: &str) -> Vec<(&str, f64)> {
        let change = |(key, name): (&String, &'static str)| {
            let off = self.total(scenario, "off", key, metric)?;
            let on = self.total(scenario, "c3", key, metric)?;
            Some((name, (on / off - 1.0) * 100.0))
        };
        let named = |(key, name)| change((key, name));
        SELECTION
            .generations
            .iter()
            .map(|(key, name)| (key, name.as_str()))
            .filter_map(named)
            .collect()
    }
}

/// The study of the queue that sizes itself.
#[derive(Debug, Deserialize)]
pub(crate) struct QueueStudy {
    pub(crate) source: String,
    pub(crate) note: String,
    pub(crate) runs: Vec<QueueRun>,
    pub(crate) nodes: Vec<QueueNodes>,
    /// By node.
    pub(crate) frames: BTreeMap<String, Vec<PublishedFrame>>,
}

/// Seconds, mean task ms, tasks a second, optimal, capacity.
pub(crate) type PublishedFrame = (f64, f64, f64, u64, u64);

/// One JMeter table: total time, q/s, mean, min and max ms, errors of each instance.
#[derive(Debug, Deserialize)]
pub(crate) struct QueueRun {
    pub(crate) variant: String,
    pub(crate) run: String,
    pub(crate) instances: Vec<(String, f64, u64, u64, u64, u64)>,
}

/// Handled and rejected tasks by node.
#[derive(Debug, Deserialize)]
pub(crate) struct QueueNodes {
    pub(crate) variant: String,
    pub(crate) handled: BTreeMap<String, u64>,
    pub(crate) rejected: BTreeMap<String, u64>,
}

impl QueueStudy {
    /// Mean response time of a run, ms, over its instances.
    pub(crate) fn mean_ms(run: &QueueRun) -> f64 {
        run.instances.iter().map(|i| i.2 as f64).sum::<f64>() / run.instances.len().max(1) as f64
    }

    /// Greatest response time of a run, ms.
    pub(crate) fn max_ms(run: &QueueRun) -> f64 {
        run.instances.iter().map(|i| i.4 as f64).fold(0.0, f64::max)
    }

    /// Requests a second of all instances of a run.
    pub(crate) fn rate(run: &QueueRun) -> f64 {
        run.instances.iter().map(|i| i.1).sum()
    }

    /// Clients that the runs without adjustment had under way on average, by Little's law.
    pub(crate) fn clients(&self) -> f64 {
        let fixed: Vec<&QueueRun> = self.runs.iter().filter(|run| run.variant == "fixed").collect();
        let sum: f64 = fixed.iter().map(|run| Self::rate(run) * Self::mean_ms(run) / 1e3).sum();
        sum / fixed.len().max(1) as f64
    }
}

/// The study of recovery from a remote cluster.
#[derive(Debug, Deserialize)]
pub(crate) struct RecoveryStudy {
    pub(crate) source: String,
    pub(crate) note: String,
    pub(crate) trip_ms: u64,
    /// The primaries of each table of a track.
    pub(crate) primaries: usize,
    /// The sizes of a track's tables, MiB.
    pub(crate) indices_mib: BTreeMap<String, Vec<f64>>,
    pub(crate) runs: Vec<RecoveryRun>,
}

/// One run of it: made once.
#[derive(Debug, Deserialize)]
pub(crate) struct RecoveryRun {
    pub(crate) name: String,
    pub(crate) track: String,
    pub(crate) chunk_kib: u64,
    /// Chunks in flight, of each shard.
    pub(crate) chunks: u64,
    pub(crate) seconds: f64,
    /// What the study calls it.
    #[serde(rename = "as")]
    pub(crate) published_as: String,
}

/// The study of a store of rows.
#[derive(Debug, Deserialize)]
pub(crate) struct RowsStudy {
    pub(crate) source: String,
    pub(crate) note: String,
    pub(crate) rows: Vec<RowsRun>,
    /// By the number of threads.
    pub(crate) write_curve: Vec<CurvePoint>,
    pub(crate) read_curve: Vec<CurvePoint>,
    pub(crate) limiter: Vec<LimiterRun>,
    /// Threads and writes a second, by the number of nodes.
    pub(crate) nodes_write: BTreeMap<String, Vec<(u64, f64)>>,
    pub(crate) partitions: Vec<PartitionsRun>,
}

/// A point of a curve: 1 KB, 3 clients, 5 nodes.
#[derive(Debug, Deserialize)]
pub(crate) struct CurvePoint {
    pub(crate) threads: usize,
    pub(crate) rate_s: f64,
    pub(crate) p99_us: f64,
}

/// A bar of the picture of limiters.
#[derive(Debug, Deserialize)]
pub(crate) struct LimiterRun {
    pub(crate) name: String,
    pub(crate) rate_s: f64,
}

/// A table of so many partitions.
#[derive(Debug, Deserialize)]
pub(crate) struct PartitionsRun {
    pub(crate) count: u64,
    pub(crate) writes_s: f64,
    pub(crate) reads_s: f64,
}

/// One row of its tables: a closed loop of so many threads, run once.
#[derive(Debug, Deserialize)]
pub(crate) struct RowsRun {
    pub(crate) version: String,
    pub(crate) value_bytes: u64,
    pub(crate) copies: u64,
    /// Reads to writes.
    pub(crate) mix: String,
    pub(crate) threads: u64,
    #[serde(default)]
    pub(crate) reads_s: f64,
    /// The mean.
    #[serde(default)]
    pub(crate) reads_us: f64,
    #[serde(default)]
    pub(crate) writes_s: f64,
    #[serde(default)]
    pub(crate) writes_us: f64,
    /// Reads that its cache answered, where that is said.
    #[serde(default)]
    pub(crate) hits_percent: Option<u64>,
}

impl RowsRun {
    /// Threads that had something under way, of those that there were: by Little's law 1 in a closed loop.
    pub(crate) fn busy(&self) -> f64 {
        let under_way_us = self.reads_s * self.reads_us + self.writes_s * self.writes_us;
        under_way_us / 1e6 / self.threads as f64
    }
}

impl RowsStudy {
    /// How many operations of 1 KB a second a mix of reads and writes had for each of another.
    pub(crate) fn ratio(&self, version: &str, of: (u32, u32), to: (u32, u32)) -> Option<f64> {
        let rate = |mix| self.rate_s(version, (1_024, 3), mix);
        Some(rate(of)? / rate(to)?)
    }

    /// Operations a second of a version with values of so many bytes in so many copies.
    pub(crate) fn rate_s(
        &self,
        version: &str,
        (value_bytes, copies): (u64, u64),
        (reads, writes): (u32, u32),
    ) -> Option<f64> {
        let mix = format!("{reads}:{writes}");
        let is_it = |it: &&RowsRun| {
            let is_size = it.value_bytes == value_bytes && it.copies == copies;
            it.version == version && it.mix == mix && is_size
        };
        self.rows.iter().find(is_it).map(|it| it.reads_s + it.writes_s)
    }

    /// The best rate of writes that so many nodes had.
    pub(crate) fn best_of_nodes(&self, count: usize) -> Option<f64> {
        let curve = self.nodes_write.get(&count.to_string())?;
        curve.iter().map(|(_, rate)| *rate).reduce(f64::max)
    }

    /// Rows that break Little's law by more than 2 %, in words.
    pub(crate) fn breaks(&self) -> Vec<String> {
        let words = |it: &RowsRun| {
            format!(
                "{} {} B x {} {} ({:.0} of {} threads busy)",
                it.version,
                it.value_bytes,
                it.copies,
                it.mix,
                it.busy() * it.threads as f64,
                it.threads
            )
        };
        self.rows.iter().filter(|it| (it.busy() - 1.0).abs() > 0.02).map(words).collect()
    }
}

pub(crate) static ROWS: LazyLock<RowsStudy> =
    LazyLock::new(|| parse(include_str!("../../published/kv_throughput.json")));
pub(crate) static RECOVERY: LazyLock<RecoveryStudy> =
    LazyLock::new(|| parse(include_str!("../../published/remote_recovery.json")));
pub(crate) static SELECTION: LazyLock<SelectionStudy> =
    LazyLock::new(|| parse(include_str!("../../published/replica_selection.json")));
pub(crate) static QUEUE: LazyLock<QueueStudy> =
    LazyLock::new(|| parse(include_str!("../../published/admission_queue.json")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_the_studys_own_summaries() {
        let of = |scenario, metric| {
            let changes = SELECTION.changes(scenario, metric);
            changes
                .iter()
                .map(|(name, change)| (*name, (change * 10.0).round() / 10.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("one-replica-loaded", "throughput_ops_s.median"),
            [("b back to 3", 113.4), ("first run, b = 4", 115.8), ("after review", 120.7)]
        );
        assert_eq!(of("four-replicas-loaded", "latency_ms.p99"), [("first run, b = 4", -16.9)]);
        assert_eq!(of("pmc-term", "latency_ms.p99"), [("first run, b = 4", -45.7)]);
        assert_eq!(SELECTION.runs.iter().filter(|run| !run.rows.is_empty()).count(), 26);
    }

    #[test]
    fn most_rows_of_the_store_obey_littles_law() {
        assert_eq!((ROWS.rows.len(), ROWS.breaks().len()), (47, 11));
        assert!(ROWS.breaks()[0].starts_with("2.3.0 1024 B x 3 1:0 (194 of 150"));
        let ratio = ROWS.ratio("2.4.0", (1, 0), (0, 1)).unwrap();
        assert!((ratio - 360_642.0 / 56_953.0).abs() < 1e-9);
        let growth = ROWS.best_of_nodes(7).unwrap() / ROWS.best_of_nodes(5).unwrap();
        assert!((1.38..1.4).contains(&growth) && ROWS.best_of_nodes(8).is_none());
        assert_eq!((ROWS.write_curve.len(), ROWS.read_curve.len()), (5, 6));
        assert_eq!(ROWS.rate_s("1.11.1", (20_480, 2), (0, 1)), Some(8_439.0));
    }

    #[test]
    fn the_queue_studys_second_average_comes_from_its_rows() {
        let run = |name: &str| QUEUE.runs.iter().find(|run| run.run == name);
        let mean = |name: &str| run(name).map(QueueStudy::mean_ms);
        assert_eq!(mean("None #1"), Some(8257.8));
        assert_eq!(mean("None #2"), Some(8663.8));
        assert_eq!(mean("Auto #2"), Some(6494.6));
        assert_eq!((QUEUE.frames["es1"].len(), QUEUE.frames["es5"].len()), (200, 139));
        assert!((389.0..392.0).contains(&QUEUE.clients()), "{}", QUEUE.clients());
    }
}
