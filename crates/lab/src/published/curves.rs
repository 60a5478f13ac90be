//! The pictures of the study of a store of rows, as far as the simulator predicts them: version 1.12.3,
//! values of 1 KB, three clients, 64 partitions unless said. Its tables are `ROWS`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::file::parse;

/// The numbers printed under its pictures.
#[derive(Debug, Deserialize)]
pub(crate) struct RowsCurves {
    /// Five nodes, without a limiter.
    pub(crate) write_curve: Vec<PointOfCurve>,
    pub(crate) limiter: Vec<BarOfLimiter>,
    /// By the number of nodes: threads, and operations a second.
    pub(crate) nodes_write: BTreeMap<usize, Vec<(usize, f64)>>,
    pub(crate) nodes_read: BTreeMap<usize, Vec<(usize, f64)>>,
    /// Writes of 120 threads, reads of 150.
    pub(crate) partitions: Vec<BarOfPartitions>,
}

/// One point of a curve.
#[derive(Debug, Deserialize)]
pub(crate) struct PointOfCurve {
    pub(crate) threads: usize,
    pub(crate) rate_s: f64,
}

/// The tails of writes with one kind of limiter.
#[derive(Debug, Deserialize)]
pub(crate) struct BarOfLimiter {
    pub(crate) name: String,
    pub(crate) p99_us: f64,
    pub(crate) p99_9_us: f64,
}

/// The rates of a table of so many partitions.
#[derive(Debug, Deserialize)]
pub(crate) struct BarOfPartitions {
    pub(crate) count: usize,
    pub(crate) writes_s: f64,
    pub(crate) reads_s: f64,
}

pub(crate) static CURVES: LazyLock<RowsCurves> =
    LazyLock::new(|| parse(include_str!("../../published/kv_throughput.json")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_stands_in_several_pictures_is_the_same_in_all() {
        let of = |curve: &[(usize, f64)], threads| {
            curve.iter().find(|(count, _)| *count == threads).map(|(_, rate_s)| *rate_s)
        };
        let first = &CURVES.partitions[0];
        assert_eq!(of(&CURVES.nodes_write[&5], 120), Some(first.writes_s));
        assert_eq!(of(&CURVES.nodes_read[&5], 150), Some(first.reads_s));
        assert_eq!((CURVES.nodes_read.len(), CURVES.nodes_write.len()), (3, 3));
    }
}
