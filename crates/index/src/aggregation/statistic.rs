//! The numbers that statistics of values give, by name: answers show them, and buckets are sorted by them.

use super::partial::Stats;
use super::request::Metric;

/// One number of some statistics; `None` asks for the one number of a metric that has one.
pub(crate) fn stats_number(metric: &Metric, stats: &Stats, property: Option<&str>) -> f64 {
    let n = stats.count as f64;
    let some = |value: f64| if stats.count == 0 { f64::NAN } else { value };
    let wanted = match (metric, property) {
        (Metric::Avg, _) => "avg",
        (Metric::Sum, _) => "sum",
        (Metric::Min, _) => "min",
        (Metric::Max, _) => "max",
        (Metric::ValueCount, _) => "count",
        (_, property) => property.unwrap_or("avg"),
    };
    let population = || some(((stats.squares - stats.sum * stats.sum / n) / n).max(0.0));
    let sampling = || some(((stats.squares - stats.sum * stats.sum / n) / (n - 1.0)).max(0.0));
    let sigma = if let Metric::ExtendedStats { sigma } = metric { *sigma } else { 2.0 };
    let avg = stats.sum / n;
    match wanted {
        "count" => n,
        "sum" => stats.sum,
        "min" => some(stats.min),
        "max" => some(stats.max),
        "avg" => some(avg),
        "sum_of_squares" => some(stats.squares),
        "variance" | "variance_population" => population(),
        "variance_sampling" => {
            if stats.count > 1 {
                sampling()
            } else {
                f64::NAN
            }
        }
        "std_deviation" | "std_deviation_population" => population().sqrt(),
        "std_deviation_sampling" => {
            if stats.count > 1 {
                sampling().sqrt()
            } else {
                f64::NAN
            }
        }
        "std_upper" | "std_deviation_bounds.upper" | "upper" | "upper_population" => {
            avg + population().sqrt() * sigma
        }
        "std_lower" | "std_deviation_bounds.lower" | "lower" | "lower_population" => {
            avg - population().sqrt() * sigma
        }
        "upper_sampling" => {
            avg + stats_number(metric, stats, Some("std_deviation_sampling")) * sigma
        }
        "lower_sampling" => {
            avg - stats_number(metric, stats, Some("std_deviation_sampling")) * sigma
        }
        _ => f64::NAN,
    }
}
