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

use std::fmt::Write;

use crate::result::{Finding, Plots, Results};
use table::Table;

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

/// Laps of the live lab that something disturbed, and by what.
pub(crate) fn disturbed(results: &Results) -> String {
    let mut lines = String::new();
    for scenario in &results.scenarios {
        for variant in &scenario.variants {
            let disturbed = variant.laps.iter().filter(|lap| !lap.valid);
            let reasons: Vec<&str> = disturbed.filter_map(|lap| lap.reason.as_deref()).collect();
            if reasons.is_empty() {
                continue;
            }
            let none = match variant.pooled {
                Some(pooled) if pooled.laps == 0 => {
                    "; none was undisturbed: its figures are of these"
                }
                _ => "",
            };
            let _ = writeln!(
                lines,
                "- {} {}: {} of {} laps do not count ({}){none}",
                scenario.name,
                variant.name,
                reasons.len(),
                variant.laps.len(),
                reasons.join("; ")
            );
        }
    }
    if lines.is_empty() { lines } else { lines + "\n" }
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

/// In words whether an aim was reached.
pub(crate) fn reached(finding: &Finding) -> &'static str {
    match finding.reached {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// A number as the studies print it: six figures.
pub(crate) fn figures(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let whole = value.abs().max(1.0).log10().floor();
    let decimals = plimsoll_control::average::whole((5.0 - whole).max(0.0));
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The same, where there may be no number.
pub(crate) fn figures_or(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), figures)
}

#[cfg(test)]
mod tests;
