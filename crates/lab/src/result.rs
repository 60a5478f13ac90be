//! `result.json`: what an experiment found, in the shape that scripts rely on. The live lab and
//! the simulator write the same; what has no meaning in one of them is null. Beside it
//! `plots.json` holds what only the pictures need. Times are milliseconds, rates are per second,
//! shares and error rates go from 0 to 1, changes are percent.

mod course;
pub(crate) mod quantiles;
mod rows;
mod run;

use std::collections::BTreeMap;

pub use course::{CopyCourse, NodeCourse};
pub use quantiles::Quantiles;
pub use rows::{RowsCourse, RowsLap};
pub use run::RunNote;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the shape; it changes when a name changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// How requests were issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// So many clients, each waiting for its answer.
    Closed,
    /// By the clock, whatever became of earlier ones.
    Open,
    /// In the simulator.
    Simulated,
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// How it was run.
    pub mode: Mode,
    /// The machine, or `simulated`.
    pub host: String,
    /// The number from which all chance was drawn.
    pub seed: u64,
    /// What a reader has to know of how it was measured; empty in a simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How it was asked for, where it can be gone on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunNote>,
    /// The situations, in the order in which they ran.
    pub scenarios: Vec<Scenario>,
    /// Each contender against the baseline of its scenario.
    pub comparisons: Vec<Comparison>,
}

/// One situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What is wrong in it.
    pub fault: FaultNote,
    /// How it is loaded.
    pub load: LoadNote,
    /// The arms.
    pub variants: Vec<Variant>,
}

/// What is wrong in a scenario, and what of it was fitted to published figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultNote {
    /// `none`, `stress`, `hung`, ...
    pub kind: String,
    /// Fitted quantities by name; empty where nothing was fitted.
    pub fit: BTreeMap<String, f64>,
}

/// The load: one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadNote {
    /// A closed loop of so many clients.
    Clients(usize),
    /// An open loop of so many requests a second.
    RateOpsS(f64),
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The settings that make it.
    pub settings: BTreeMap<String, Value>,
    /// Repetitions.
    pub laps: Vec<Lap>,
    /// All valid laps together; none in a simulation, whose laps are long enough by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Pooled>,
}

/// Laps together: their distributions are merged, not averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pooled {
    /// Valid laps; 0 where none was, and what follows is of laps that something disturbed.
    pub laps: u64,
    /// Requests issued in them.
    pub n: u64,
    /// As in a lap.
    pub latency_ms: Quantiles,
    /// As in a lap.
    pub service_time_ms: Quantiles,
    /// Processor time of all nodes for one request.
    pub cpu_s_per_op: Option<f64>,
}

/// One repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lap {
    /// Whether it may be used.
    pub valid: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Requests issued.
    pub n: u64,
    /// Answers a second, counted from the start as Rally counts them, once a second.
    pub throughput_ops_s: Spread,
    /// From the moment a request was due to its answer.
    pub latency_ms: Quantiles,
    /// From the moment it was sent to its answer.
    pub service_time_ms: Quantiles,
    /// Requests that failed, of those issued.
    pub error_rate: f64,
    /// The same by kind, where that is known: a status, or what became of the connection.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Requests refused, whole or in part, of those issued.
    pub refused_rate: f64,
    /// Processor time of all nodes.
    pub cpu_s: Option<f64>,
    /// Peak resident memory of all nodes.
    pub rss_peak_bytes: Option<u64>,
    /// Segments of the index.
    pub segment_count: Option<u64>,
    /// Memory of the index by kind.
    pub memory: Option<BTreeMap<String, f64>>,
    /// How well it could be measured; none in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// What a copy from another cluster took, where the lap is one.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub recovery: Option<RecoveryLap>,
    /// How far a follower was behind its leader, where the lap is one of following.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<Quantiles>,
    /// The same as the follower says: from when it heard of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_told_ms: Option<Quantiles>,
    /// Work of others meanwhile, where the lap is of a copy beside it, or of that work alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<Foreground>,
    /// What went on, second by second, where the lap is one of copying or following.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<CopyCourse>,
    /// What went on in a store of rows, where the lap is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsLap>,
    /// Each node.
    pub nodes: Vec<NodeLap>,
}

/// Requests that have nothing to do with a copy, from when they were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Foreground {
    /// Those of both sides.
    pub latency_ms: Quantiles,
    /// Those of the cluster that is copied from.
    pub leader_ms: Quantiles,
    /// Those of the cluster that is copied to.
    pub follower_ms: Quantiles,
}

/// A copy from another cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryLap {
    /// From the order to follow until all was there.
    pub recovery_seconds: f64,
    /// How long the same bytes take over the same link in one stream, of that; 0 where none was sent.
    pub share_of_raw: f64,
    /// Bytes that crossed the link; 0 where nobody counted them.
    pub wire_bytes: u64,
    /// Of the time, the part after 95 % of the bytes; none where it was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_seconds: Option<f64>,
    /// From the order until the follower had all of the leader's records too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_seconds: Option<f64>,
    /// By how much the time left that the follower told after ten seconds was off; none where it took
    /// no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_off_percent: Option<f64>,
}

/// What else went on during a lap of the live lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// How much later than it wanted the load generator woke, 99th percentile.
    pub generator_late_ms: f64,
    /// Processor time that the hypervisor took, of all there was, %.
    pub steal_percent: f64,
    /// Processors that programs beside the lab used.
    pub foreign_processors: f64,
}

/// A rate over a lap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle.
    pub median: f64,
    /// All answers over all time.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
}

/// A node over a lap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeLap {
    /// Its name.
    pub name: String,
    /// Tasks that ran to their end.
    pub completed: u64,
    /// Tasks refused.
    pub rejected: u64,
    /// Processor time.
    pub cpu_s: Option<f64>,
    /// Bytes read and written.
    pub io_bytes: Option<u64>,
    /// Bytes sent and received.
    pub net_bytes: Option<u64>,
    /// Periods of its processor share in which it wanted to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Those of them in which its share ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_throttled: Option<u64>,
    /// The table that its queue writes.
    pub frames: Vec<Frame>,
}

/// One row of a queue's table, after a fixed number of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// How long these tasks took together.
    pub seconds: f64,
    /// Mean time of one, waiting included.
    pub avg_task_ms: f64,
    /// Tasks a second.
    pub tasks_s: f64,
    /// The queue's length that the rule wants; none where the rule wants none.
    pub optimal: Option<u64>,
    /// The queue's length allowed from here on; none where it is not a number of requests.
    pub capacity: Option<u64>,
}

/// A contender against a baseline, over whole laps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The scenario.
    pub scenario: String,
    /// The variant compared with.
    pub baseline: String,
    /// The variant compared.
    pub contender: String,
    /// The path of the metric in the lap.
    pub metric: String,
    /// Change of the mean over laps.
    pub change_percent: f64,
    /// 95 % confidence interval of it (bootstrap over whole laps).
    pub ci95: [f64; 2],
    /// Whether the interval leaves out zero.
    pub resolved: bool,
    /// The change that was published, if any.
    pub published_change_percent: Option<f64>,
    /// Which of the published generations that is.
    pub published_as: Option<String>,
    /// In words: `resolved`, `equivalent within 5 %`, `not resolved`; none in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

impl Comparison {
    /// Itself, or where changes were published, one for each generation that did so, by its name.
    pub(crate) fn beside(self, published: Vec<(String, f64)>) -> Vec<Self> {
        if published.is_empty() {
            return vec![self];
        }
        let of = |(name, percent)| Self {
            published_change_percent: Some(percent),
            published_as: Some(name),
            ..self.clone()
        };
        published.into_iter().map(of).collect()
    }
}

/// What the pictures need beyond the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plots {
    /// One for each scenario and variant, from its first lap.
    pub series: Vec<Series>,
    /// What was aimed at and what came out.
    pub findings: Vec<Finding>,
}

/// The course of one lap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The scenario.
    pub scenario: String,
    /// The variant.
    pub variant: String,
    /// Response time in ms at [`QUANTILES`].
    pub latency_ms: Vec<f64>,
    /// Seconds from the start.
    pub at_s: Vec<f64>,
    /// Answers a second since the point before.
    pub answered_s: Vec<f64>,
    /// Requests waiting at each of `nodes`.
    pub queued: Vec<Vec<u32>>,
    /// Names of the nodes of `queued`.
    pub nodes: Vec<String>,
    /// Counts that only a simulation knows: `events`; `partial_rate`, answers of which a part is
    /// missing, and `hedge_rate`, both of requests issued; `writes_held_s`, seconds of writes that
    /// the nodes held back together.
    pub counts: BTreeMap<String, f64>,
    /// Checksum of the run's log: two runs of one seed have the same.
    pub log_checksum: String,
}

/// The quantiles of [`Series::latency_ms`].
pub const QUANTILES: [f64; 14] =
    [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999];

/// One line about an aim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The quantity.
    pub what: String,
    /// What was aimed at, or published.
    pub aim: String,
    /// What came out.
    pub measured: String,
    /// Whether the one meets the other; none where nothing was promised.
    pub reached: Option<bool>,
}

/// The number at `path` (such as `latency_ms.p99`) of a lap; `cpu_s_per_op` is derived.
#[must_use]
pub fn metric(lap: &Lap, path: &str) -> Option<f64> {
    let quantile = |of: &Quantiles, name: &str| match name {
        "mean" => of.mean,
        "min" => of.min,
        "p50" => of.p50,
        "p90" => of.p90,
        "p99" => of.p99,
        "p99_9" => of.p99_9,
        "p99_99" => of.p99_99,
        "p100" => of.p100,
        _ => None,
    };
    let spread = &lap.throughput_ops_s;
    match path.split_once('.') {
        Some(("latency_ms", name)) => quantile(&lap.latency_ms, name),
        Some(("service_time_ms", name)) => quantile(&lap.service_time_ms, name),
        Some(("lag_ms", name)) => lap.lag_ms.as_ref().and_then(|lag| quantile(lag, name)),
        Some(("lag_told_ms", name)) => lap.lag_told_ms.as_ref().and_then(|it| quantile(it, name)),
        Some(("foreground", rest)) => {
            let of = lap.foreground.as_ref()?;
            match rest.split_once('.')? {
                ("latency_ms", name) => quantile(&of.latency_ms, name),
                ("leader_ms", name) => quantile(&of.leader_ms, name),
                ("follower_ms", name) => quantile(&of.follower_ms, name),
                _ => None,
            }
        }
        Some(("rows", path)) => lap.rows.as_ref()?.metric(path, quantile),
        Some(("throughput_ops_s", "min")) => Some(spread.min),
        Some(("throughput_ops_s", "median")) => Some(spread.median),
        Some(("throughput_ops_s", "mean")) => Some(spread.mean),
        Some(("throughput_ops_s", "max")) => Some(spread.max),
        None if path == "error_rate" => Some(lap.error_rate),
        None if path == "refused_rate" => Some(lap.refused_rate),
        None if path == "rss_peak_bytes" => lap.rss_peak_bytes.map(|bytes| bytes as f64),
        None if path == "recovery_seconds" => lap.recovery.map(|it| it.recovery_seconds),
        None if path == "share_of_raw" => {
            lap.recovery.map(|it| it.share_of_raw).filter(|share| *share > 0.0)
        }
        None if path == "wire_bytes" => {
            lap.recovery.map(|it| it.wire_bytes as f64).filter(|bytes| *bytes > 0.0)
        }
        None if path == "tail_seconds" => lap.recovery.and_then(|it| it.tail_seconds),
        None if path == "level_seconds" => lap.recovery.and_then(|it| it.level_seconds),
        None if path == "time_left_off_percent" => {
            lap.recovery.and_then(|it| it.time_left_off_percent)
        }
        None if path == "cpu_s" => lap.cpu_s,
        None if path == "cpu_us_per_op" => metric(lap, "cpu_s_per_op").map(|s| s * 1e6),
        None if path == "cpu_s_per_op" => lap.cpu_s.map(|s| s / lap.n.max(1) as f64),
        _ => None,
    }
}

/// The number at `path` over all valid laps of a variant: of the merged distribution where there
/// is one, else the mean of the laps' own.
#[must_use]
pub fn over_laps(variant: &Variant, path: &str) -> Option<f64> {
    if let Some(pooled) = &variant.pooled {
        let as_lap = Lap {
            latency_ms: pooled.latency_ms,
            service_time_ms: pooled.service_time_ms,
            ..Lap::default()
        };
        match path.split_once('.') {
            Some(("latency_ms" | "service_time_ms", _)) => return metric(&as_lap, path),
            None if path == "cpu_s_per_op" => return pooled.cpu_s_per_op,
            None if path == "cpu_us_per_op" => return pooled.cpu_s_per_op.map(|s| s * 1e6),
            _ => {}
        }
    }
    let has_valid = variant.laps.iter().any(|lap| lap.valid);
    let valid = variant.laps.iter().filter(|lap| lap.valid || !has_valid);
    let values: Vec<f64> = valid.filter_map(|lap| metric(lap, path)).collect();
    (!values.is_empty()).then(|| crate::stats::mean(&values))
}

impl Finding {
    /// A quantity with an aim; what is not known is not reached.
    pub(crate) fn compare(
        what: String,
        aim: String,
        measured: Option<String>,
        reached: Option<bool>,
    ) -> Self {
        let reached = Some(reached.unwrap_or(false));
        Self { what, aim, measured: measured.unwrap_or_else(|| "n/a".to_owned()), reached }
    }

    /// A quantity that nobody promised anything about.
    pub(crate) fn told(what: String, measured: Option<String>) -> Self {
        let measured = measured.unwrap_or_else(|| "n/a".to_owned());
        Self { what, aim: "-".to_owned(), measured, reached: None }
    }
}
