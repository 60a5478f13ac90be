//! Reports of an experiment: text for a terminal, in the layout of the studies that the
//! experiments reproduce, and one HTML page that needs nothing beside itself. Both are made from
//! the files that a run leaves, so that they can be made again.

mod copies;
mod courses;
mod html;
mod lap_tables;
mod pictures;
mod queue_tables;
mod rows;
mod svg;
mod table;
mod wording;

use std::fmt::Write;

use crate::result::{Finding, Plots, Results};
use table::Table;
use wording::{disturbed, reached};

pub(crate) use html::page;

/// Scenarios up to which each is told lap by lap.
const IN_FULL_MAX: usize = 12;

/// The whole text report.
pub(crate) fn text(results: &Results, plots: &Plots) -> String {
    let mut text = format!(
        "{}: {} scenarios, {} seed {}\n\n",
        results.experiment,
        results.scenarios.len(),
        results.host,
        results.seed
    );
    for note in &results.notes {
        let _ = writeln!(text, "- {note}");
    }
    text.push_str(&disturbed(results));
    let brief = results.scenarios.len() > IN_FULL_MAX;
    for scenario in &results.scenarios {
        text.push_str(&lap_tables::scenario(results, scenario, brief));
        if scenario.variants.iter().any(|variant| has_frames(&variant.laps)) {
            text.push_str(&queue_tables::scenario(scenario));
        }
    }
    if !plots.findings.is_empty() {
        text.push_str(&findings(&plots.findings));
    }
    text
}

fn has_frames(laps: &[crate::result::Lap]) -> bool {
    laps.iter().flat_map(|lap| &lap.nodes).any(|node| !node.frames.is_empty())
}

fn findings(findings: &[Finding]) -> String {
    let mut table =
        Table::new("What came out", &["quantity", "aim or published", "here", "reached"]);
    for finding in findings {
        table.row([&finding.what, &finding.aim, &finding.measured, reached(finding)]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests;
