//! What is told of a scenario whose laps are on a store of rows, beside throughput and latency.

use super::table::Table;
use super::wording::{figures, figures_or};
use crate::result::{Lap, Scenario, Variant, over_laps};

/// Title and path of each column.
const COLUMNS: [(&str, &str); 20] = [
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
    ("stops", "rows.stops"),
    ("read from memory", "rows.hits_share"),
    ("CPU (us/op)", "cpu_us_per_op"),
    ("memory (B)", "rss_peak_bytes"),
    ("load (processors)", "rows.load_processors"),
    ("machine (processors)", "rows.machine_processors"),
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
    table.to_string() + &nodes(scenario)
}

/// What each node used of the processors; only where a scenario has several, and not too many arms.
fn nodes(scenario: &Scenario) -> String {
    let count =
        |variant: &Variant| variant.laps.iter().map(|lap| lap.nodes.len()).max().unwrap_or(0);
    if !scenario.variants.iter().any(|variant| count(variant) > 1) {
        return String::new();
    }
    let columns = ["Node", "Variant", "CPU (us/op)", "of a processor", "throttled %"];
    let mut table = Table::new("processors by node, all laps", &columns);
    for variant in scenario.variants.iter().filter(|it| count(it) > 1) {
        let answered: f64 = variant.laps.iter().map(|it| it.n as f64 * (1.0 - it.error_rate)).sum();
        let seconds: f64 = variant.laps.iter().map(seconds).sum();
        for at in 0..count(variant) {
            let laps = || variant.laps.iter().filter_map(|lap| lap.nodes.get(at));
            let cpu_s: f64 = laps().filter_map(|node| node.cpu_s).sum();
            table.row([
                laps().next().map(|node| node.name.clone()).unwrap_or_default(),
                variant.name.clone(),
                figures(cpu_s * 1e6 / answered.max(1.0)),
                format!("{:.3}", cpu_s / seconds.max(1e-9)),
                throttled_percent(variant, at),
            ]);
        }
    }
    table.to_string()
}

/// How long a lap was: as many answers, at their rate.
fn seconds(lap: &Lap) -> f64 {
    lap.n as f64 * (1.0 - lap.error_rate) / lap.throughput_ops_s.mean.max(1e-9)
}

/// Of the periods in which a node wanted to run, those in which its share ran out, %.
pub(super) fn throttled_percent(variant: &Variant, at: usize) -> String {
    let laps = || variant.laps.iter().filter_map(|lap| lap.nodes.get(at));
    let periods: u64 = laps().filter_map(|node| node.periods).sum();
    let throttled: u64 = laps().filter_map(|node| node.nr_throttled).sum();
    match periods {
        0 => "n/a".to_owned(),
        _ => format!("{:.1}", throttled as f64 / periods as f64 * 100.0),
    }
}
