//! The tables of the selection study: each lap and the total, then a summary with the change.
//! Rows that have no meaning here are there and say n/a, so that the tables lie side by side.

use super::table::Table;
use super::wording::{figures, figures_or};
use super::{copies, rows};
use crate::published::{BREAKERS, QUEUE, SELECTION};
use crate::result::{Lap, Results, Scenario, Variant, metric, over_laps};
use crate::stats;

/// Rows of a lap's table: title, path, unit.
const ROWS: [(&str, &str, &str); 20] = [
    ("Total Young Gen GC", "", "s"),
    ("Total Old Gen GC", "", "s"),
    ("Segment count", "", ""),
    ("Min Throughput", "throughput_ops_s.min", "ops/s"),
    ("Median Throughput", "throughput_ops_s.median", "ops/s"),
    ("Max Throughput", "throughput_ops_s.max", "ops/s"),
    ("50th percentile latency", "latency_ms.p50", "ms"),
    ("90th percentile latency", "latency_ms.p90", "ms"),
    ("99th percentile latency", "latency_ms.p99", "ms"),
    ("99.9th percentile latency", "latency_ms.p99_9", "ms"),
    ("99.99th percentile latency", "latency_ms.p99_99", "ms"),
    ("100th percentile latency", "latency_ms.p100", "ms"),
    ("50th percentile service time", "service_time_ms.p50", "ms"),
    ("90th percentile service time", "service_time_ms.p90", "ms"),
    ("99th percentile service time", "service_time_ms.p99", "ms"),
    ("100th percentile service time", "service_time_ms.p100", "ms"),
    ("error rate", "error_rate", "%"),
    ("refused rate", "refused_rate", "%"),
    ("CPU time of all nodes for one operation", "cpu_s_per_op", "s"),
    ("Peak memory of all nodes", "rss_peak_bytes", "B"),
];
/// Rows of a summary.
const SUMMARY: [(&str, &str); 4] = [
    ("Median Throughput (ops/s)", "throughput_ops_s.median"),
    ("50th percentile latency (ms)", "latency_ms.p50"),
    ("90th percentile latency (ms)", "latency_ms.p90"),
    ("99th percentile latency (ms)", "latency_ms.p99"),
];
/// Variants whose laps are told one by one; the others are in the summaries and in the files.
const IN_FULL: [&str; 6] = ["off", "c3", "ours", "fixed", "littles_law_5s", "littles_law_4s"];

/// With `brief` only the summary: an experiment of a hundred scenarios is read by what it found.
pub(crate) fn scenario(results: &Results, scenario: &Scenario, brief: bool) -> String {
    let mut text = format!("== {}{}\n\n", scenario.name, fault(scenario));
    if copies::are_in(scenario) {
        text.push_str(&copies::table(scenario).to_string());
        text.push_str(&verdicts(results, scenario));
        return text;
    }
    if brief {
        text.push_str(&summary(scenario).to_string());
        text.push_str(&rows::scenario(scenario));
        return text;
    }
    for variant in &scenario.variants {
        if IN_FULL.contains(&variant.name.as_str()) && variant.laps.len() > 1 {
            text.push_str(&laps(variant).to_string());
        }
    }
    text.push_str(&summary(scenario).to_string());
    text.push_str(&rows::scenario(scenario));
    text.push_str(&nodes(scenario));
    text.push_str(&verdicts(results, scenario));
    text.push_str(&beside(results, scenario));
    text
}

fn fault(scenario: &Scenario) -> String {
    let fit: Vec<String> = scenario
        .fault
        .fit
        .iter()
        .map(|(name, value)| format!("{name} {}", figures(*value)))
        .collect();
    match (scenario.fault.kind.as_str(), fit.is_empty()) {
        ("none" | "", true) => String::new(),
        (kind, true) => format!(" ({kind})"),
        (kind, false) => format!(" ({kind}; fitted: {})", fit.join(", ")),
    }
}

fn laps(variant: &Variant) -> Table {
    let mut columns = vec!["Metric".to_owned()];
    columns.extend((1..=variant.laps.len()).map(|lap| format!("Lap {lap}")));
    columns.extend(["Unit".to_owned(), "TOTAL".to_owned()]);
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("{}, each lap", variant.name), &names);
    for (title, path, unit) in ROWS {
        let scale = if unit == "%" { 100.0 } else { 1.0 };
        let of = |lap: &Lap| metric(lap, path).map(|value| value * scale);
        let values: Vec<f64> = variant.laps.iter().filter(|lap| lap.valid).filter_map(of).collect();
        // A merged distribution, where there is one, knows more than its laps.
        let pooled = variant.pooled.is_some() && path.contains("_ms.p");
        let total = match pooled {
            true => over_laps(variant, path),
            false => total(path, &values),
        };
        let mut cells = vec![title.to_owned()];
        cells.extend(variant.laps.iter().map(|lap| figures_or(of(lap))));
        cells.extend([unit.to_owned(), figures_or(total)]);
        table.row(cells);
    }
    table
}

/// The least of the least, the greatest of the greatest, the mean of all else.
fn total(path: &str, values: &[f64]) -> Option<f64> {
    let end = path.rsplit('.').next().unwrap_or_default();
    match end {
        _ if values.is_empty() => None,
        "min" => values.iter().copied().reduce(f64::min),
        "max" | "p100" => values.iter().copied().reduce(f64::max),
        _ => Some(stats::mean(values)),
    }
}

/// Every variant side by side, with its change against the first.
fn summary(scenario: &Scenario) -> Table {
    let heading = format!("{} summary (change against the first row)", scenario.name);
    let mut columns = vec!["Variant"];
    for (title, _) in SUMMARY {
        columns.extend([title, "Change %"]);
    }
    columns.extend(["error %", "refused %"]);
    let mut table = Table::new(&heading, &columns);
    let Some(baseline) = scenario.variants.first() else { return table };
    for variant in &scenario.variants {
        let mut cells = vec![variant.name.clone()];
        for (_, path) in SUMMARY {
            let value = over_laps(variant, path);
            let base = over_laps(baseline, path).filter(|base| *base != 0.0);
            let change = value.zip(base).map(|(value, base)| (value / base - 1.0) * 100.0);
            cells.push(figures_or(value));
            cells.push(change.map_or_else(|| "n/a".to_owned(), |change| format!("{change:+.1}")));
        }
        for path in ["error_rate", "refused_rate"] {
            cells.push(format!("{:.2}", over_laps(variant, path).unwrap_or(0.0) * 100.0));
        }
        table.row(cells);
    }
    table
}

/// Handled and rejected by node; only where nodes are few.
fn nodes(scenario: &Scenario) -> String {
    let mut laps = scenario.variants.iter().flat_map(|variant| &variant.laps);
    // Of a store of rows another table tells.
    if !laps.all(|lap| lap.nodes.len() <= 12 && lap.rows.is_none()) {
        return String::new();
    }
    let columns = [
        "Node",
        "Variant",
        "Handled",
        "Rejected",
        "% of handled",
        "% of offered",
        "share %",
        "throttled %",
    ];
    let mut table = Table::new("tasks by node, all laps", &columns);
    for variant in &scenario.variants {
        let Some(first) = variant.laps.first() else { continue };
        let all: u64 = variant.laps.iter().flat_map(|lap| &lap.nodes).map(|n| n.completed).sum();
        for (at, node) in first.nodes.iter().enumerate() {
            let of = |part: fn(&crate::result::NodeLap) -> u64| -> u64 {
                variant.laps.iter().filter_map(|lap| lap.nodes.get(at)).map(part).sum()
            };
            let (handled, rejected) = (of(|n| n.completed), of(|n| n.rejected));
            let percent = |of: u64| rejected as f64 / of.max(1) as f64 * 100.0;
            table.row([
                node.name.clone(),
                variant.name.clone(),
                handled.to_string(),
                rejected.to_string(),
                format!("{:.3}", percent(handled)),
                format!("{:.3}", percent(handled + rejected)),
                format!("{:.1}", handled as f64 / all.max(1) as f64 * 100.0),
                rows::throttled_percent(variant, at),
            ]);
        }
    }
    table.to_string()
}

/// What the comparisons of the live lab say, each metric once.
fn verdicts(results: &Results, scenario: &Scenario) -> String {
    let mut told: Vec<(&str, &str)> = Vec::new();
    let columns = ["Metric", "Variant", "Change %", "95 % from", "to", "Verdict"];
    let mut table = Table::new("changes against the first, by whole laps", &columns);
    for one in results.comparisons.iter().filter(|one| one.scenario == scenario.name) {
        let Some(verdict) = &one.verdict else { continue };
        let key = (one.metric.as_str(), one.contender.as_str());
        if told.contains(&key) {
            continue;
        }
        told.push(key);
        table.row([
            one.metric.clone(),
            one.contender.clone(),
            format!("{:+.1}", one.change_percent),
            format!("{:+.1}", one.ci95[0]),
            format!("{:+.1}", one.ci95[1]),
            verdict.clone(),
        ]);
    }
    if told.is_empty() { String::new() } else { table.to_string() }
}

/// Published changes beside ours, each with the generation that it comes from.
fn beside(results: &Results, scenario: &Scenario) -> String {
    let columns = ["Metric", "Variant", "Change %", "95 % from", "to", "Published %", "as"];
    let source = match results.experiment.as_str() {
        "admission-queue" => &QUEUE.source,
        "breaker-overhead" => &BREAKERS.source,
        _ => &SELECTION.source,
    };
    let mut table = Table::new(&format!("beside the published figures ({source})"), &columns);
    let mut any = false;
    for one in results.comparisons.iter().filter(|one| one.scenario == scenario.name) {
        let Some(published) = one.published_change_percent else { continue };
        any = true;
        table.row([
            one.metric.clone(),
            one.contender.clone(),
            format!("{:+.1}", one.change_percent),
            format!("{:+.1}", one.ci95[0]),
            format!("{:+.1}", one.ci95[1]),
            format!("{published:+.1}"),
            one.published_as.clone().unwrap_or_default(),
        ]);
    }
    if any { table.to_string() } else { String::new() }
}
