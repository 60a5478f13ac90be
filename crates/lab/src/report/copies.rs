//! What is told of a scenario whose laps are copies from another cluster, in place of throughput and
//! latency.

use super::table::Table;
use super::wording::figures_or;
use crate::result::{Scenario, over_laps};

/// Title and path of each column.
const COLUMNS: [(&str, &str); 10] = [
    ("until copied (s)", "recovery_seconds"),
    ("until level (s)", "level_seconds"),
    ("after 95 % (s)", "tail_seconds"),
    ("share of a raw copy", "share_of_raw"),
    ("on the wire (B)", "wire_bytes"),
    ("lag p99 (ms)", "lag_ms.p99"),
    ("lag p99 as told (ms)", "lag_told_ms.p99"),
    ("leader's own p99 (ms)", "foreground.leader_ms.p99"),
    ("follower's own p99 (ms)", "foreground.follower_ms.p99"),
    ("CPU of the nodes (s)", "cpu_s"),
];

/// The columns that a scenario has figures for.
pub(super) fn columns(scenario: &Scenario) -> Vec<(&'static str, &'static str)> {
    let is_there = |path: &str| scenario.variants.iter().any(|it| over_laps(it, path).is_some());
    COLUMNS.into_iter().filter(|(_, path)| is_there(path)).collect()
}

/// Whether a scenario is one of copies, or of following.
pub(super) fn are_in(scenario: &Scenario) -> bool {
    let laps = scenario.variants.iter().flat_map(|variant| &variant.laps);
    laps.into_iter()
        .any(|lap| lap.recovery.is_some() || lap.lag_ms.is_some() || lap.foreground.is_some())
}

/// Every variant side by side.
pub(super) fn table(scenario: &Scenario) -> Table {
    let of = columns(scenario);
    let mut columns = vec!["Variant"];
    columns.extend(of.iter().map(|(title, _)| *title));
    let mut table = Table::new("", &columns);
    for variant in &scenario.variants {
        let mut cells = vec![variant.name.clone()];
        cells.extend(of.iter().map(|(_, path)| figures_or(over_laps(variant, path))));
        table.row(cells);
    }
    table
}
