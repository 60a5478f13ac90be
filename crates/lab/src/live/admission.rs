//! `admission-queue`, live: the study of a search queue sized by Little's law, on this machine.
//! Every partition on all five nodes, one of them stressed, one client node, rotation; far more
//! clients than the nodes serve at once. The study's targets, 5 s and 4 s, are taken as what they
//! were of the mean response without adjustment, because this machine's responses are not that long;
//! the queue's first length and its frame are scaled likewise, so that it has adjusted within the
//! warm-up. The amount of an adjustment never was a setting: it is the study's 50.

use std::collections::BTreeMap;

use serde_json::json;

use super::cluster::Cluster;
use super::context::{Arm, Ask, Context, comparisons, variants};
use super::corpus::{Corpus, Shape};
use super::fault::{Active, FaultKind};
use super::fit::Search;
use super::found::Found;
use super::generator::Generator;
use super::load::Pace;
use super::measure::{self, Measured};
use super::options::LiveSize;
use super::study::{self, DATA_NODES, GENERATOR_SHARE, PLACES};
use super::workload::{self, Operation};
use crate::LabError;
use crate::experiments::admission_queue::published;
use crate::published::{QUEUE, QueueStudy};
use crate::result::{FaultNote, Finding, LoadNote, NodeLap, Results, Scenario, over_laps};

const SCENARIO: &str = "stressed";
const INDEX: &str = "places";
/// The stressed node, as in the study: the fifth.
const SICK: usize = 4;
const TERMS: usize = 200;
/// The study's load instances; here each is a fifth of the clients of one process.
const INSTANCES: usize = 5;
/// Enough that a queue of the study's form is longer than an adjustment of it.
const CLIENTS: usize = INSTANCES * 32;
/// The queue's length without adjustment, and where an adjustment begins.
const QUEUE_FIXED: u64 = 1_000;
const QUEUE_FIRST: u64 = 250;
const FRAME: u64 = 50;
/// What rotation keeps with a copy on every node, by the sister study; this one does not say.
const KEPT: f64 = 0.60;
const KEPT_TOLERANCE: f64 = 0.03;
const TRIES_MAX: usize = 8;

/// The study's targets, s, and the arms that have them.
const TARGETS: [(&str, f64); 2] = [("littles_law_5s", 5.0), ("littles_law_4s", 4.0)];
const ARMS: [&str; 6] =
    ["fixed", "littles_law_5s", "littles_law_4s", "ours", "fixed+selection", "ours+selection"];

/// Names of variants that may be asked for.
pub(crate) fn names() -> Vec<&'static str> {
    ARMS.to_vec()
}

fn wanted(size: LiveSize, wanted: &[String]) -> Vec<&'static str> {
    let by_size = if size == LiveSize::Quick { 4 } else { ARMS.len() };
    let is_wanted = |at: usize, name: &str| match wanted.is_empty() {
        true => at < by_size,
        false => at == 0 || wanted.iter().any(|one| one == name),
    };
    ARMS.iter()
        .enumerate()
        .filter(|(at, name)| is_wanted(*at, name))
        .map(|(_, name)| *name)
        .collect()
}

/// Laps that a run makes, about.
pub(crate) fn steps(laps: usize, size: LiveSize, variants: &[String]) -> usize {
    laps * wanted(size, variants).len()
}

/// An arm, whose target is a part of the mean response without adjustment.
fn arm(name: &str, fixed_ms: f64) -> Arm {
    let has_selection = name.ends_with("+selection");
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let admission = match target {
        Some(_) => "littles_law",
        None if name.starts_with("ours") => "ours",
        None => "fixed",
    };
    let rule = if has_selection { "ours" } else { "round_robin" };
    let first = if target.is_some() { QUEUE_FIRST } else { QUEUE_FIXED };
    let target_ms = target.map_or(1_000.0, |(_, seconds)| fixed_ms * multiple(*seconds));
    let target = format!("{}ms", plimsoll_control::average::whole(target_ms.max(1.0)));
    let settings = [
        ("cluster.routing.use_adaptive_replica_selection", json!(has_selection)),
        ("cluster.routing.replica_selection", json!(rule)),
        ("cluster.routing.hedging", json!("off")),
        ("thread_pool.search.admission", json!(admission)),
        ("thread_pool.search.queue_size", json!(first)),
        ("thread_pool.search.min_queue_size", json!(10)),
        ("thread_pool.search.max_queue_size", json!(1_000)),
        ("thread_pool.search.auto_queue_frame_size", json!(FRAME)),
        ("thread_pool.search.target_response_time", json!(target)),
    ];
    let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Arm { name: name.to_owned(), settings }
}

/// What a target of the study was of the mean response of its runs without adjustment.
fn multiple(target_s: f64) -> f64 {
    let fixed = QUEUE.runs.iter().filter(|run| run.variant == "fixed");
    target_s * 1e3 / crate::stats::mean(&fixed.map(QueueStudy::mean_ms).collect::<Vec<_>>())
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let mut cluster = study::start(context)?;
    let corpus = Corpus::of_seed(Shape::Places, PLACES, context.options.seed);
    context.progress.note(&format!("loading {PLACES} documents, on every node"));
    cluster.load(INDEX, &corpus, DATA_NODES, DATA_NODES - 1)?;
    cluster.limit()?;
    let generator = Generator::enter(&cluster.limits, &cluster.guardian, GENERATOR_SHARE);
    let _generator =
        generator.map_err(|error| LabError::live("limit the generator".to_owned(), error))?;
    context.note(format!("processor shares by {}", cluster.limits.about()));
    context.note(format!(
        "{CLIENTS} clients of one process stand for the study's {INSTANCES} load instances"
    ));
    let host = cluster.coordinator().http();
    let operation = Operation::Complex { terms: TERMS };
    let (warm_up, window) = (context.options.warm_up * 4, context.options.window * 12 / 7);
    let ask = Ask {
        requests: workload::requests(operation, &corpus, INDEX, &host, context.options.seed),
        addresses: vec![host],
        pace: Pace::Closed { clients: CLIENTS },
        warm_up,
        window,
    };
    let (active, fit, fixed_ms) = fitted(context, &mut cluster, &ask, found)?;
    let names = wanted(context.options.size, &context.options.variants);
    let arms: Vec<Arm> = names.iter().map(|name| arm(name, fixed_ms)).collect();
    for arm in &arms {
        if let Some(target) = arm.settings.get("thread_pool.search.target_response_time")
            && TARGETS.iter().any(|(name, _)| *name == arm.name)
        {
            context.note(format!("{}: the target is {target} here", arm.name));
        }
    }
    let kind = active.kind();
    context.note(format!("{SCENARIO}: {}", active.about()));
    let laps = context.paired(&mut cluster, SCENARIO, &arms, &ask, None)?;
    let scenario = Scenario {
        name: SCENARIO.to_owned(),
        fault: FaultNote { kind: kind.name().to_owned(), fit },
        load: LoadNote::Clients(CLIENTS),
        variants: variants(&arms, &laps, super::segments(&ask.addresses[0], INDEX)),
    };
    found.results.scenarios.push(scenario);
    let seed = context.options.seed;
    found.results.comparisons.extend(comparisons(SCENARIO, &arms, &laps, seed, published));
    let series = arms.iter().zip(&laps);
    let series = series.filter_map(|(arm, laps)| measure::series(SCENARIO, &arm.name, laps));
    found.plots.series.extend(series);
    found.plots.findings.extend(findings(&found.results, &laps, &arms));
    active.end(&mut cluster)?;
    if context.is_stopped() { Err(LabError::Stopped) } else { Ok(()) }
}

/// Stresses the node so that rotation keeps what it is to keep; the mean response without
/// adjustment then, ms.
fn fitted(
    context: &mut Context<'_>,
    cluster: &mut Cluster,
    ask: &Ask,
    found: &mut Found,
) -> Result<(Active, BTreeMap<String, f64>, f64), LabError> {
    cluster.set(&arm(ARMS[0], 0.0).settings)?;
    let unloaded = context.try_lap(cluster, ask)?.lap.throughput_ops_s.mean;
    let mut active = Active::begin(cluster, SICK, FaultKind::Stress { keep: KEPT })?;
    let mut search = Search::new((0.01, 0.98), KEPT, KEPT_TOLERANCE);
    let mut fixed_ms = 0.0;
    for _ in 0..TRIES_MAX {
        let keep = search.next(KEPT);
        active.change(cluster, FaultKind::Stress { keep })?;
        let lap = context.try_lap(cluster, ask)?;
        let kept = lap.lap.throughput_ops_s.mean / unloaded.max(1e-9);
        // With so many clients the mean of a short lap is that of its beginning, so that it follows
        // from the rate (Little's law).
        fixed_ms = CLIENTS as f64 / lap.lap.throughput_ops_s.mean.max(1e-9) * 1e3;
        search.note(keep, kept);
        context.progress.note(&format!("fitting: the node keeps {keep:.3}, rotation {kept:.3}"));
        if search.is_found() {
            break;
        }
    }
    let (keep, kept) = search.best().unwrap_or((KEPT, 0.0));
    active.change(cluster, FaultKind::Stress { keep })?;
    found.plots.findings.push(Finding::compare(
        "fit: share of its unloaded throughput that rotation keeps".to_owned(),
        format!("{KEPT:.2} ± {KEPT_TOLERANCE:.2} (the sister study, four replicas)"),
        Some(format!("{kept:.3}")),
        Some(search.is_found()),
    ));
    let fit = [
        ("stressed_node_keeps", keep),
        ("rotation_keeps", kept),
        ("rotation_unloaded_ops_s", unloaded),
        ("mean_response_fixed_ms", fixed_ms),
    ];
    let fit = fit.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Ok((active, fit, fixed_ms))
}

fn findings(results: &Results, laps: &[Vec<Measured>], arms: &[Arm]) -> Vec<Finding> {
    let scenario = results.scenarios.iter().find(|one| one.name == SCENARIO);
    let variant = |name: &str| {
        scenario.and_then(|one| one.variants.iter().find(|variant| variant.name == name))
    };
    let of = |name: &str, path: &str| over_laps(variant(name)?, path);
    let complete = |name: &str| {
        let rate = of(name, "throughput_ops_s.mean")?;
        let lost = of(name, "error_rate")? + of(name, "refused_rate")?;
        Some(rate * (1.0 - lost.min(1.0)))
    };
    let change = |name: &str| {
        Some((of(name, "latency_ms.mean")? / of("fixed", "latency_ms.mean")? - 1.0) * 100.0)
    };
    let mut found = Vec::new();
    for (arm, laps) in arms.iter().zip(laps).filter(|(arm, _)| arm.name != ARMS[0]) {
        let name = arm.name.as_str();
        let told = change(name).zip(complete(name));
        let told = told.map(|(change, rate)| format!("{change:+.1} %, {rate:.1}/s complete"));
        let what = format!("{name}: mean response against fixed");
        let was = QUEUE.runs.iter().filter(|run| run.variant == name).map(|run| &run.run);
        let was: Vec<&str> = was.map(String::as_str).collect();
        found.push(match name.starts_with("ours") {
            true => Finding::compare(
                what,
                "-30 %, nothing to set, no fewer complete answers".to_owned(),
                told,
                change(name)
                    .zip(complete(name).zip(complete(ARMS[0])))
                    .map(|(change, (rate, fixed))| change <= -30.0 && rate >= fixed),
            ),
            false => Finding {
                aim: format!("published as {}, see the comparisons", was.join(", ")),
                ..Finding::told(what, told)
            },
        });
        let ratio = healthy_ratio(laps);
        found.push(Finding::told(
            format!("{name}: busiest healthy node over the healthy mean"),
            ratio.map(|ratio| format!("{ratio:.3}")),
        ));
        let refused = of(name, "refused_rate").map(|rate| format!("{:.2} %", rate * 100.0));
        found.push(Finding::told(format!("{name}: refused, whole or in part"), refused));
    }
    found
}

/// Tasks of the busiest healthy node over the mean of the healthy ones, in the worst lap.
fn healthy_ratio(laps: &[Measured]) -> Option<f64> {
    let ratio = |measured: &Measured| {
        let data = measured.lap.nodes.iter().take(DATA_NODES).enumerate();
        let healthy: Vec<&NodeLap> =
            data.filter(|(at, _)| *at != SICK).map(|(_, node)| node).collect();
        let counts: Vec<f64> = healthy.iter().map(|node| node.completed as f64).collect();
        counts.iter().copied().fold(0.0, f64::max) / crate::stats::mean(&counts).max(1.0)
    };
    laps.iter().filter(|one| one.lap.valid).map(ratio).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn targets_are_the_studys_parts_of_the_mean_response() {
        // 8,257.8 and 8,663.8 ms without adjustment: 5 s is 0.591 of their mean.
        assert!((multiple(5.0) - 0.591).abs() < 0.001, "{}", multiple(5.0));
        let of = |name: &str| {
            let value = &arm(name, 1_000.0).settings["thread_pool.search.target_response_time"];
            value.as_str().map(str::to_owned)
        };
        assert_eq!(of("littles_law_5s").as_deref(), Some("591ms"));
        assert_eq!(of("littles_law_4s").as_deref(), Some("473ms"));
    }

    #[test]
    fn arms_differ_in_admission_and_selection_alone() {
        let by_name = |name: &str, key: &str| -> Value { arm(name, 500.0).settings[key].clone() };
        assert_eq!(by_name("ours", "cluster.routing.replica_selection"), "round_robin");
        assert_eq!(by_name("ours+selection", "cluster.routing.replica_selection"), "ours");
        assert_eq!(by_name("fixed+selection", "thread_pool.search.admission"), "fixed");
        assert_eq!(by_name("fixed", "thread_pool.search.queue_size"), QUEUE_FIXED);
        assert_eq!(wanted(LiveSize::Quick, &[]).len(), 4);
        assert_eq!(wanted(LiveSize::Study, &["ours".to_owned()]), ["fixed", "ours"]);
    }
}
