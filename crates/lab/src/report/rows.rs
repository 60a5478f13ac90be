//! What is told of a scenario whose laps are on a store of rows, beside throughput and latency.

use super::figures_or;
use super::table::Table;
use crate::result::{Scenario, over_laps};

/// Title and path of each column.
const COLUMNS: [(&str, &str); 15] = [
    ("rate (ops/s)", "throughput_ops_s.mean"),
    ("p50 (ms)", "latency_ms.p50"),
    ("p99 (ms)", "latency_ms.p99"),
    ("p99.9 (ms)", "latency_ms.p99_9"),
    ("p99.99 (ms)", "latency_ms.p99_99"),
    ("reads' p99 (ms)", "rows.reads_ms.p99"),
    ("writes' p99 (ms)", "rows.writes_ms.p99"),
    ("longest gap (ms)", "rows.longest_gap_ms"),
    ("written per byte", "rows.written_per_byte"),
    ("disk at most", "rows.disk_peak"),
    ("debt at most", "rows.debt_peak"),
    ("debt left", "rows.debt_left"),
    ("space (B)", "rows.space_bytes"),
    ("log (B)", "rows.log_bytes"),
    ("CPU (us/op)", "cpu_us_per_op"),
];

/// Every variant side by side; nothing where the laps are on no store of rows.
pub(super) fn scenario(scenario: &Scenario) -> String {
    let mut laps = scenario.variants.iter().flat_map(|variant| &variant.laps);
    if !laps.any(|lap| lap.rows.is_some()) {
        return String::new();
    }
    let is_there = |path: &str| scenario.variants.iter().any(|it| over_laps(it, path).is_some());
    let of: Vec<_> = COLUMNS.into_iter().filter(|(_, path)| is_there(path)).collect();
    let mut columns = vec!["Variant"];
    columns.extend(of.iter().map(|(title, _)| *title));
    let mut table = Table::new("the store", &columns);
    for variant in &scenario.variants {
        let mut cells = vec![variant.name.clone()];
        cells.extend(of.iter().map(|(_, path)| figures_or(over_laps(variant, path))));
        table.row(cells);
    }
    table.to_string()
}
