//! What came of the rounds of one scenario: a lap of each arm for each round, the arms against one another
//! with intervals over whole rounds, and the study's figures beside them.

use std::collections::BTreeMap;

use serde_json::json;

use super::arms::{NOOP, ON, WITHOUT};
use super::queries::{Round, Sample};
use super::{Plan, ROUND_QUERIES};
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::load::histogram;
use crate::live::method::{self, verdict};
use crate::published::BREAKERS;
use crate::result::{
    Comparison, FaultNote, Finding, Lap, LoadNote, Scenario, Spread, Variant, metric,
};
use crate::sim::derive;
use crate::stats;

/// Contender and baseline.
const PAIRS: [(&str, &str); 3] = [(ON, WITHOUT), (NOOP, WITHOUT), (ON, NOOP)];
const METRICS: [&str; 2] = ["cpu_s_per_op", "service_time_ms.mean"];
const MIB: f64 = 1_048_576.0;
/// What processor time may be more with a breaker.
const COST_PERCENT_MAX: f64 = 1.0;

/// Adds a scenario to what was found.
pub(super) fn tell(context: &Context<'_>, found: &mut Found, plan: &Plan, rounds: &[Round]) {
    let arms: Vec<(&str, Vec<Lap>)> = [ON, NOOP, WITHOUT]
        .into_iter()
        .map(|arm| (arm, rounds.iter().filter_map(|round| lap(arm, round)).collect()))
        .filter(|(_, laps): &(_, Vec<Lap>)| !laps.is_empty())
        .collect();
    let documents = plan.documents(context.options);
    let settings = |arm: &str| {
        let kind = if arm == ON { "memory" } else { NOOP };
        [
            ("indices.breaker.request.type".to_owned(), json!(kind)),
            ("documents".to_owned(), json!(documents)),
            ("layer".to_owned(), json!(arm != WITHOUT)),
        ]
    };
    let variant = |(arm, laps): &(&str, Vec<Lap>)| Variant {
        name: (*arm).to_owned(),
        settings: settings(arm).into(),
        laps: laps.clone(),
        pooled: None,
    };
    found.results.scenarios.push(Scenario {
        name: plan.name.to_owned(),
        fault: FaultNote { kind: "none".to_owned(), fit: BTreeMap::new() },
        load: LoadNote::Clients(plan.threads),
        variants: arms.iter().map(variant).collect(),
    });
    let seed = derive(context.options.seed, found.results.comparisons.len() as u64);
    let compared = compare(plan, &arms, seed);
    found.plots.findings.extend(arms.iter().map(|arm| average(plan, arm)));
    found.plots.findings.extend(compared.iter().map(|it| change(plan, it)));
    found.plots.findings.extend(processes(plan, rounds, seed));
    found.results.comparisons.extend(compared);
}

/// The queries of an arm in a round.
fn of<'a>(arm: &str, round: &'a Round) -> impl Iterator<Item = &'a Sample> {
    let (is_server, is_on) = (round.is_layerless == (arm == WITHOUT), arm == ON);
    let samples = round.samples.iter().flatten();
    samples.filter(move |it| is_server && it.is_on == is_on)
}

fn lap(arm: &str, round: &Round) -> Option<Lap> {
    let samples: Vec<&Sample> = of(arm, round).collect();
    let n = samples.len() as u64;
    if n == 0 {
        return None;
    }
    let (mut wall_us, mut took_us) = (histogram(), histogram());
    for it in &samples {
        wall_us.saturating_record(it.wall_us);
        took_us.saturating_record(plimsoll_control::average::whole(it.took_ms * 1e3).max(1));
    }
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(|it| of(it)).sum::<f64>() / n as f64;
    let mut service_time_ms = stats::quantiles(&took_us);
    // The histogram has three digits; a mean has to show less than that.
    service_time_ms.mean = Some(mean(|it| it.took_ms));
    let rate = n as f64 / round.seconds.max(1e-9);
    let charged = ("request_peak_bytes".to_owned(), mean(|it| it.charged_bytes));
    Some(Lap {
        valid: true,
        n,
        throughput_ops_s: Spread { min: rate, median: rate, mean: rate, max: rate },
        latency_ms: stats::quantiles(&wall_us),
        service_time_ms,
        cpu_s: Some(samples.iter().map(|it| it.cpu_us).sum::<f64>() / 1e6),
        rss_peak_bytes: round.peak_bytes,
        segment_count: Some(2),
        memory: Some([charged].into()),
        ..Lap::default()
    })
}

fn values(laps: &[Lap], path: &str) -> Vec<f64> {
    laps.iter().filter_map(|lap| metric(lap, path)).collect()
}

/// Every pair of arms that is there.
fn compare(plan: &Plan, arms: &[(&str, Vec<Lap>)], seed: u64) -> Vec<Comparison> {
    let laps = |name: &str| arms.iter().find(|it| it.0 == name).map(|it| &it.1);
    let mut found = Vec::new();
    for (contender, baseline) in PAIRS {
        let Some((to, from)) = laps(contender).zip(laps(baseline)) else { continue };
        for path in METRICS {
            let (from, to) = (values(from, path), values(to, path));
            // `took` is in whole ms: of so short searches it says nothing.
            if from.iter().all(|it| *it == 0.0) {
                continue;
            }
            let Some(change) = stats::change(&from, &to, seed) else { continue };
            let comparison = Comparison {
                scenario: plan.name.to_owned(),
                baseline: baseline.to_owned(),
                contender: contender.to_owned(),
                metric: path.to_owned(),
                change_percent: change.percent,
                ci95: change.ci95,
                resolved: change.resolved,
                published_change_percent: None,
                published_as: None,
                verdict: Some(verdict(change.ci95, from.len())),
            };
            let is_published = path == METRICS[1] && baseline == NOOP && !plan.is_old;
            let published = if is_published { BREAKERS.changes(plan.threads) } else { Vec::new() };
            found.extend(comparison.beside(published));
        }
    }
    found
}

/// The arm's averages, and the study's.
fn average(plan: &Plan, (arm, laps): &(&str, Vec<Lap>)) -> Finding {
    let mean = |path: &str| stats::mean(&values(laps, path));
    let charged: Vec<f64> = laps
        .iter()
        .filter_map(|lap| lap.memory.as_ref())
        .map(|it| it["request_peak_bytes"])
        .collect();
    let total = mean("service_time_ms.mean") * (ROUND_QUERIES * laps.len()) as f64;
    let least = values(laps, "service_time_ms.min").into_iter().fold(f64::INFINITY, f64::min);
    let most = values(laps, "service_time_ms.p100").into_iter().fold(0.0, f64::max);
    let said = format!(
        "took {:.1} ms ({least:.0} to {most:.0}, {total:.0} a thread), {:.3} ms of processor, charged {:.3} MiB \
         at most",
        mean("service_time_ms.mean"),
        mean("cpu_s_per_op") * 1e3,
        stats::mean(&charged) / MIB
    );
    let mut aim = if plan.is_old { None } else { BREAKERS.said(arm, plan.threads) };
    if let Some(aim) = aim.as_mut().filter(|_| *arm == ON) {
        *aim += &format!(", charged {:.3} MiB", BREAKERS.charged_mib);
    }
    Finding {
        aim: aim.unwrap_or_else(|| "-".to_owned()),
        ..Finding::told(format!("{}: a query, {arm}", plan.name), Some(said))
    }
}

/// A pair of arms; processor time with the breaker has an aim, at the study's own size.
fn change(plan: &Plan, of: &Comparison) -> Finding {
    let published = of.published_change_percent.zip(of.published_as.as_ref());
    let [low, high] = of.ci95;
    let said = format!("{:+.2} % ({low:+.2} to {high:+.2})", of.change_percent);
    let what = format!("{}: {} of {} to {}", plan.name, of.metric, of.contender, of.baseline);
    if of.contender == ON && of.metric == METRICS[0] && !plan.is_old {
        let aim = format!("upper end at most +{COST_PERCENT_MAX} %");
        return Finding::compare(what, aim, Some(said), Some(high <= COST_PERCENT_MAX));
    }
    let aim = published.map(|(percent, name)| format!("{name}: {percent:+.1} %"));
    Finding { aim: aim.unwrap_or_else(|| "-".to_owned()), ..Finding::told(what, Some(said)) }
}

/// Processor time of the whole process knows no arms: one server against the other.
fn processes(plan: &Plan, rounds: &[Round], seed: u64) -> Option<Finding> {
    let of = |is_layerless: bool| -> Vec<f64> {
        let rounds = rounds.iter().filter(|round| round.is_layerless == is_layerless);
        let each = rounds.map(|round| {
            round.process_cpu_s / round.samples.iter().map(Vec::len).sum::<usize>().max(1) as f64
        });
        each.collect()
    };
    let (from, to) = (of(true), of(false));
    let change = stats::change(&from, &to, seed)?;
    let [low, high] = change.ci95;
    let said = format!("{:+.2} % ({low:+.2} to {high:+.2})", change.percent);
    let blocks = rounds.iter().map(|round| round.block + 1).max().unwrap_or(0);
    let what = format!("{}: processor time of the process with the layer to without", plan.name);
    let said = format!("{said}, {}", method::verdict(change.ci95, blocks));
    Some(Finding::told(what, Some(said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(is_layerless: bool, block: usize) -> Round {
        let sample = |is_on: bool| Sample {
            took_ms: if is_on { 11.0 } else { 10.0 },
            wall_us: 12_000,
            cpu_us: if is_on { 5_050.0 } else { 5_000.0 },
            is_on,
            charged_bytes: if is_on { 3e7 } else { 0.0 },
        };
        let samples =
            if is_layerless { vec![sample(false); 4] } else { vec![sample(true), sample(false)] };
        let (samples, seconds, process_cpu_s) = (vec![samples; 3], 0.1, 0.06);
        Round { is_layerless, block, samples, seconds, process_cpu_s, peak_bytes: Some(1) }
    }

    #[test]
    fn every_query_is_of_one_arm() {
        let (first, second) = (round(false, 0), round(true, 0));
        let count = |arm: &str| of(arm, &first).count() + of(arm, &second).count();
        assert_eq!([ON, NOOP, WITHOUT].map(count), [3, 3, 12]);
        assert!(lap(WITHOUT, &first).is_none() && lap(ON, &second).is_none());
        let on = lap(ON, &first).expect("it is there");
        assert!((on.memory.expect("told")["request_peak_bytes"] - 3e7).abs() < 1.0);
        assert!((on.cpu_s.expect("told") - 3.0 * 5_050e-6).abs() < 1e-9);
    }

    #[test]
    fn arms_are_compared_with_what_was_published_beside() {
        let rounds: Vec<Round> =
            (0..5).flat_map(|block| [round(false, block), round(true, block)]).collect();
        let arms: Vec<(&str, Vec<Lap>)> = [ON, NOOP, WITHOUT]
            .map(|arm| (arm, rounds.iter().filter_map(|round| lap(arm, round)).collect()))
            .into();
        let plan = &super::super::ALL[0];
        let found = compare(plan, &arms, 1);
        let of = |contender: &str, baseline: &str, path: &str| {
            found.iter().find(move |it| {
                it.contender == contender && it.baseline == baseline && it.metric == path
            })
        };
        let cpu = of(ON, WITHOUT, METRICS[0]).expect("it is there");
        assert!((cpu.change_percent - 1.0).abs() < 1e-6, "{cpu:?}");
        let took = of(ON, NOOP, METRICS[1]).expect("it is there");
        assert!(took.published_change_percent.is_some());
        assert!(processes(plan, &rounds, 1).is_some_and(|it| it.measured.starts_with("+100.00 %")));
        assert!(processes(plan, &rounds[..1], 1).is_none());
    }
}
