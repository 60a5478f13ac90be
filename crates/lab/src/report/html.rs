//! The page: one file with its own style and pictures, for a screen of any width, light or dark,
//! without scripts and without anything fetched.

use std::fmt::Write;

use super::svg::escape;
use super::wording::{disturbed, figures, figures_or, reached};
use super::{copies, pictures};
use crate::result::{Finding, Plots, Results, Scenario, Series, over_laps};

/// Scenarios that are open when the page is; more would bury what follows.
const OPEN: usize = 6;

const STYLE: &str = include_str!("page.css");
const COLUMNS: [(&str, &str); 6] = [
    ("throughput/s", "throughput_ops_s.median"),
    ("mean ms", "latency_ms.mean"),
    ("p50", "latency_ms.p50"),
    ("p90", "latency_ms.p90"),
    ("p99", "latency_ms.p99"),
    ("p99.9", "latency_ms.p99_9"),
];

/// The whole page.
pub(crate) fn page(results: &Results, plots: &Plots) -> String {
    let title = format!("Plimsoll lab: {}", escape(&results.experiment));
    let mut body = format!(
        "<header><h1>{title}</h1><p>scenarios: {}, host: {}, seed: {}</p></header>",
        results.scenarios.len(),
        escape(&results.host),
        results.seed
    );
    body.push_str(&notes(results));
    body.push_str(&findings(plots));
    for (number, scenario) in results.scenarios.iter().enumerate() {
        let series: Vec<&Series> =
            plots.series.iter().filter(|one| one.scenario == scenario.name).collect();
        let open = if number < OPEN { " open" } else { "" };
        let _ = write!(
            body,
            "<details{open}><summary><h2>{}</h2></summary>{}{}{}</details>",
            escape(&scenario.name),
            about(scenario),
            summary(scenario),
            comparisons(results, scenario)
        );
        let cut = body.len() - "</details>".len();
        let drawn = pictures::of(scenario, &series).concat();
        body.insert_str(cut, &format!("<div class=\"pictures\">{drawn}</div>"));
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

/// How it was measured, and which laps do not count.
fn notes(results: &Results) -> String {
    let disturbed = disturbed(results);
    let lines = disturbed.lines().map(|line| line.trim_start_matches("- "));
    let all: String = results
        .notes
        .iter()
        .map(String::as_str)
        .chain(lines.filter(|line| !line.is_empty()))
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    if all.is_empty() { all } else { format!("<ul>{all}</ul>") }
}

fn about(scenario: &Scenario) -> String {
    let fit: Vec<String> = scenario
        .fault
        .fit
        .iter()
        .map(|(name, value)| format!("{} {}", escape(name), figures(*value)))
        .collect();
    let fitted =
        if fit.is_empty() { String::new() } else { format!("; fitted: {}", fit.join(", ")) };
    let load = match scenario.load {
        crate::result::LoadNote::Clients(clients) => format!("{clients} clients"),
        crate::result::LoadNote::RateOpsS(rate) => {
            format!("{} requests a second", figures(rate))
        }
    };
    format!("<p>{load}; fault: {}{fitted}</p>", escape(&scenario.fault.kind))
}

/// The aims first; what was only to be told is there for who opens it.
fn findings(plots: &Plots) -> String {
    let (aims, told): (Vec<&Finding>, Vec<&Finding>) =
        plots.findings.iter().partition(|finding| finding.reached.is_some());
    finding_table("What was aimed at", " open", &aims)
        + &finding_table("More figures, beside the published ones", "", &told)
}

fn finding_table(title: &str, open: &str, findings: &[&Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for finding in findings {
        let class = match finding.reached {
            Some(true) => "good",
            Some(false) => "bad",
            None => "",
        };
        let _ = write!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&finding.what),
            escape(&finding.aim),
            escape(&finding.measured),
            reached(finding)
        );
    }
    format!(
        "<details{open}><summary><h2>{title}</h2></summary><div class=\"wide\"><table>\
         <thead><tr><th>quantity</th><th>aim or published</th><th>here</th><th>reached</th></tr>\
         </thead><tbody>{rows}</tbody></table></div></details>"
    )
}

fn summary(scenario: &Scenario) -> String {
    let is_of_copies = copies::are_in(scenario);
    let of_copies = copies::columns(scenario);
    let columns: &[(&str, &str)] = if is_of_copies { &of_copies } else { &COLUMNS };
    let rates: &[(&str, &str)] = match is_of_copies {
        true => &[],
        false => &[("errors", "error_rate"), ("refused", "refused_rate")],
    };
    let mut rows = String::new();
    for variant in &scenario.variants {
        let _ = write!(rows, "<tr><td>{}</td>", escape(&variant.name));
        for (_, path) in columns {
            let all = over_laps(variant, path);
            let _ = write!(rows, "<td class=\"number\">{}</td>", figures_or(all));
        }
        for (_, path) in rates {
            let share = over_laps(variant, path).unwrap_or(0.0);
            let _ = write!(rows, "<td class=\"number\">{:.2} %</td>", share * 100.0);
        }
        rows.push_str("</tr>");
    }
    let head = |name: &str| format!("<th class=\"number\">{name}</th>");
    let heads: String = columns.iter().chain(rates).map(|(name, _)| head(name)).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr><th>variant</th>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

/// Changes that are resolved, or that were published.
fn comparisons(results: &Results, scenario: &Scenario) -> String {
    let mut rows = String::new();
    for one in results.comparisons.iter().filter(|one| one.scenario == scenario.name) {
        let published = match (&one.published_change_percent, &one.published_as) {
            (Some(percent), Some(name)) => format!("{percent:+.1} % ({})", escape(name)),
            _ => String::new(),
        };
        let class = if one.resolved { "" } else { "faint" };
        let _ = write!(
            rows,
            "<tr class=\"{class}\"><td>{}</td><td>{}</td><td class=\"number\">{:+.1} %</td>\
             <td class=\"number\">{:+.1} to {:+.1}</td><td>{}</td><td>{published}</td></tr>",
            escape(&one.contender),
            escape(&one.metric),
            one.change_percent,
            one.ci95[0],
            one.ci95[1],
            escape(one.verdict.as_deref().unwrap_or(match one.resolved {
                true => "resolved",
                false => "not resolved",
            }))
        );
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>Changes against {}, with their 95 % intervals over laps (faint: not \
         resolved)</summary><div class=\"wide\"><table><thead><tr><th>variant</th><th>metric</th>\
         <th>change</th><th>95 %</th><th>verdict</th><th>published</th></tr></thead><tbody>{rows}</tbody></table>\
         </div></details>",
        results
            .comparisons
            .iter()
            .find(|one| one.scenario == scenario.name)
            .map_or(String::new(), |one| escape(&one.baseline))
    )
}
