//! How numbers and findings are said in words, in both forms of a report.

use std::fmt::Write as _;

use crate::result::{Finding, Results};

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
