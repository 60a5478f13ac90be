//! The pictures of a scenario: how response times are distributed, throughput and queues over
//! time, and which node did how much.

use super::svg::{Line, Scale, bars, lines, seconds};
use super::wording::figures;
use super::{copies, courses};
use crate::result::{QUANTILES, Scenario, Series, Variant};

/// Nodes beyond this many are not drawn one by one.
const NODES_MAX: usize = 12;
/// Percentiles with a label on the axis.
const LABELLED: [f64; 6] = [0.1, 0.5, 0.9, 0.99, 0.999, 0.9999];
/// The least is left out: one request that was wrong would set the scale.
const LEFT_OUT: usize = 1;

/// All pictures of a scenario, as SVG.
pub(crate) fn of(scenario: &Scenario, series: &[&Series]) -> Vec<String> {
    if copies::are_in(scenario) {
        return courses::of_copies(scenario);
    }
    let mut all = Vec::new();
    if !series.is_empty() {
        all.push(distribution(series));
    }
    if series.iter().any(|one| one.at_s.len() > 1) {
        all.push(throughput(series));
    }
    all.extend(courses::of_rows(scenario));
    all.extend(shares(scenario));
    for one in series.iter().filter(|one| one.variant == "ours" || is_baseline(&one.variant)) {
        if one.at_s.len() > 1 && one.queued.iter().flatten().any(|waiting| *waiting > 0) {
            all.push(queues(one));
        }
    }
    all
}

fn is_baseline(variant: &str) -> bool {
    matches!(variant, "off" | "fixed" | "littles_law_5s")
}

/// Evenly spread nines: 90, 99, 99.9 lie at equal distances.
fn place(p: f64) -> f64 {
    -(1.0 - p).max(1e-6).log10()
}

fn distribution(series: &[&Series]) -> String {
    let drawn: Vec<Line> = series
        .iter()
        .filter(|one| !one.latency_ms.is_empty())
        .map(|one| Line {
            name: one.variant.clone(),
            points: QUANTILES
                .iter()
                .map(|p| place(*p))
                .zip(one.latency_ms.iter().copied())
                .skip(LEFT_OUT)
                .collect(),
        })
        .collect();
    let longest = drawn.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let last = QUANTILES.get((longest + LEFT_OUT).saturating_sub(1)).copied().unwrap_or(0.5);
    let ticks: Vec<(f64, String)> = LABELLED
        .iter()
        .filter(|p| **p <= last)
        .map(|p| (place(*p), format!("p{}", figures(p * 100.0))))
        .collect();
    lines("Response time by percentile", &drawn, &ticks, Scale::Log, "ms at each percentile")
}

fn end(series: &[&Series]) -> f64 {
    series.iter().filter_map(|one| one.at_s.last()).copied().fold(0.0, f64::max)
}

fn throughput(series: &[&Series]) -> String {
    let drawn: Vec<Line> = series
        .iter()
        .filter(|one| one.at_s.len() > 1)
        .map(|one| Line {
            name: one.variant.clone(),
            points: one.at_s.iter().copied().zip(one.answered_s.iter().copied()).collect(),
        })
        .collect();
    let (title, unit) = ("Throughput over the first lap", "answers a second");
    lines(title, &drawn, &seconds(end(series)), Scale::Linear, unit)
}

fn shares(scenario: &Scenario) -> Option<String> {
    let names: Vec<&str> = scenario.variants.iter().map(|one| one.name.as_str()).collect();
    let nodes = &scenario.variants.first()?.laps.first()?.nodes;
    if nodes.len() > NODES_MAX {
        return None;
    }
    let done = |variant: &Variant, at: usize| -> f64 {
        let of = |node: usize| -> u64 {
            variant.laps.iter().filter_map(|lap| lap.nodes.get(node)).map(|n| n.completed).sum()
        };
        let all: u64 = (0..nodes.len()).map(of).sum();
        of(at) as f64 / all.max(1) as f64 * 100.0
    };
    let groups: Vec<(String, Vec<f64>)> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            let values = scenario.variants.iter().map(|variant| done(variant, at)).collect();
            (node.name.clone(), values)
        })
        .collect();
    Some(bars("Share of the tasks by node", &names, &groups, "% of all tasks"))
}

fn queues(series: &Series) -> String {
    let drawn: Vec<Line> = series
        .nodes
        .iter()
        .zip(&series.queued)
        .map(|(name, waiting)| Line {
            name: name.clone(),
            points: series
                .at_s
                .iter()
                .copied()
                .zip(waiting.iter().map(|n| f64::from(*n)))
                .collect(),
        })
        .collect();
    let title = format!("Queue of each node, {}", series.variant);
    lines(&title, &drawn, &seconds(end(&[series])), Scale::Linear, "requests waiting")
}
