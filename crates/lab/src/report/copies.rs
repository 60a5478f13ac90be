//! What is told of a scenario whose laps are copies from another cluster, in place of throughput and
//! latency.

use super::figures_or;
use super::table::Table;
use crate::result::{Scenario, over_laps};

/// Title and path of each column.
pub(super) const COLUMNS: [(&str, &str); 3] = [
    ("until level (s)", "recovery_seconds"),
    ("share of a raw copy", "share_of_raw"),
    ("on the wire (B)", "wire_bytes"),
];

/// Whether a scenario is one of copies.
pub(super) fn are_in(scenario: &Scenario) -> bool {
    scenario.variants.iter().flat_map(|variant| &variant.laps).any(|lap| lap.recovery.is_some())
}

/// Every variant side by side.
pub(super) fn table(scenario: &Scenario) -> Table {
    let mut columns = vec!["Variant"];
    columns.extend(COLUMNS.map(|(title, _)| title));
    let mut table = Table::new("", &columns);
    for variant in &scenario.variants {
        let mut cells = vec![variant.name.clone()];
        cells.extend(COLUMNS.map(|(_, path)| figures_or(over_laps(variant, path))));
        table.row(cells);
    }
    table
}
