//! A distribution of times, as results have it. Who measured it knows more.

use serde::{Deserialize, Serialize};

/// A distribution of times. A percentile is there only if at least ten samples lie beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean; none without samples.
    pub mean: Option<f64>,
    /// The least.
    pub min: Option<f64>,
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// 99.99th percentile.
    pub p99_99: Option<f64>,
    /// The greatest.
    pub p100: Option<f64>,
}
