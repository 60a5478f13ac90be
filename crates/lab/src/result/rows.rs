//! What a lap on a store of rows found beside rates and times.

use serde::{Deserialize, Serialize};

use super::quantiles::Quantiles;

/// A store of rows over a lap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowsLap {
    /// Of reads alone, from when they were due.
    pub reads_ms: Quantiles,
    /// Of writes alone.
    pub writes_ms: Quantiles,
    /// The longest time without any answer while somebody waited for one; none where nobody looked.
    pub longest_gap_ms: Option<f64>,
    /// Bytes that the processes wrote to the disk for each byte of keys and values that was taken; none
    /// where nothing was written.
    pub written_per_byte: Option<f64>,
    /// Of the bytes that the disk takes, the most that was written within five seconds; none where it is
    /// not held to any.
    pub disk_peak: Option<f64>,
    /// Bytes of the files of rows: the mean of all seconds, because a merge under way has its rows twice.
    pub space_bytes: Option<u64>,
    /// Bytes of the log at the end.
    pub log_bytes: Option<u64>,
    /// How far the store was at the end towards the point where it takes no more, 0 to 1, and at most.
    pub debt_left: Option<f64>,
    /// See [`Self::debt_left`].
    pub debt_peak: Option<f64>,
    /// How often a store took no rows.
    pub stops: Option<u64>,
    /// Of the reads, those whose rows were in memory, 0 to 1; none where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits_share: Option<f64>,
    /// Processors that all of the machine used, the load and others included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_processors: Option<f64>,
    /// Processors that the load took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_processors: Option<f64>,
    /// Second by second.
    pub course: RowsCourse,
}

impl RowsLap {
    /// The number at a path; `quantile` reads one of a distribution.
    pub(super) fn metric(
        &self,
        path: &str,
        quantile: impl Fn(&Quantiles, &str) -> Option<f64>,
    ) -> Option<f64> {
        match path.split_once('.') {
            Some(("reads_ms", name)) => quantile(&self.reads_ms, name),
            Some(("writes_ms", name)) => quantile(&self.writes_ms, name),
            Some(_) => None,
            None => match path {
                "longest_gap_ms" => self.longest_gap_ms,
                "written_per_byte" => self.written_per_byte,
                "disk_peak" => self.disk_peak,
                "space_bytes" => self.space_bytes.map(|bytes| bytes as f64),
                "log_bytes" => self.log_bytes.map(|bytes| bytes as f64),
                "debt_left" => self.debt_left,
                "debt_peak" => self.debt_peak,
                "hits_share" => self.hits_share,
                "machine_processors" => self.machine_processors,
                "load_processors" => self.load_processors,
                "stops" => self.stops.map(|count| count as f64),
                _ => None,
            },
        }
    }
}

/// A lap second by second, in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowsCourse {
    /// Seconds from the start of what is measured.
    pub at_s: Vec<f64>,
    /// Bytes written to the disk in the second before.
    pub written_bytes: Vec<u64>,
    /// 99th percentile of what was answered in it, from when it was due; 0 where nothing was.
    pub p99_ms: Vec<f64>,
    /// The debt.
    pub debt: Vec<f64>,
    /// Bytes of the files of rows.
    #[serde(default)]
    pub space_bytes: Vec<u64>,
}
