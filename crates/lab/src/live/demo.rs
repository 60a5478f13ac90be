//! `plimsoll lab demo`: ninety seconds on one screen. Three nodes, one gets sick; what clients see
//! with every protection off, then on; and one sentence about what the sick node cost. It is a show
//! with one lap a scene: a claim needs an experiment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::cluster::{Cluster, ClusterSpec};
use super::context::{Arm, Context, TIMEOUT, variants};
use super::corpus::{Corpus, Shape};
use super::fault::{Active, FaultKind};
use super::found::Found;
use super::generator::Generator;
use super::load::{Load, Pace, Watch, histogram};
use super::measure::{self, Measured};
use super::node;
use super::processes;
use super::wire::Protocol;
use super::workload::{self, Operation};
use crate::LabError;
use crate::result::{FaultNote, LoadNote, Scenario};

const NODES: usize = 3;
/// Processors of each node and of the generator.
const NODE_SHARE: f64 = 0.4;
const GENERATOR_SHARE: f64 = 0.4;
/// The third node gets sick, and keeps this part of its share.
const SICK: usize = 2;
const KEEPS: f64 = 0.1;
const CLIENTS: usize = 8;
const PLACES: usize = 15_000;
const TERMS: usize = 200;
const INDEX: &str = "places";
const SECOND: Duration = Duration::from_secs(1);
/// How long the figures of a node are waited for in each second.
const FIGURES_WAIT: Duration = Duration::from_millis(900);
/// A scene is so many laps of an experiment long: 16 s, after 3 s that count for nothing.
const SCENE_LAPS: f64 = 16.0 / 7.0;
const WARM_UP_LAPS: u32 = 3;

/// What a second showed, drained every second.
struct Screen {
    recent_us: Mutex<Histogram<u64>>,
    stop: Arc<AtomicBool>,
    is_over: AtomicBool,
    completed: [AtomicU64; NODES],
}

impl Watch for Screen {
    fn answered(&self, latency_us: u64) {
        lock(&self.recent_us).saturating_record(latency_us);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn settings(is_on: bool) -> BTreeMap<String, Value> {
    let (rule, hedging, admission) =
        if is_on { ("ours", "on", "ours") } else { ("round_robin", "off", "fixed") };
    BTreeMap::from([
        ("cluster.routing.use_adaptive_replica_selection".to_owned(), json!(is_on)),
        ("cluster.routing.replica_selection".to_owned(), json!(rule)),
        ("cluster.routing.hedging".to_owned(), json!(hedging)),
        ("thread_pool.search.admission".to_owned(), json!(admission)),
    ])
}

/// The three scenes: scenario, arm, whether the node is sick, whether the protections are on.
const SCENES: [(&str, &str, bool, bool); 3] =
    [("healthy", "off", false, false), ("sick", "off", true, false), ("sick", "ours", true, true)];

/// Plays the demo.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let spec = ClusterSpec {
        data_nodes: NODES,
        data_share: NODE_SHARE,
        coordinator_share: None,
        settings: super::node_settings(),
    };
    context.progress.note("starting three nodes");
    let mut cluster = Cluster::start(&spec, &context.options.binary, &context.options.folder)?;
    let corpus = Corpus::of_seed(Shape::Places, PLACES, context.options.seed);
    context.progress.note(&format!("loading {PLACES} documents, two copies of each"));
    let (table, _) = cluster.load_evenly(INDEX, &corpus, NODES, 1)?;
    cluster.limit()?;
    let about = format!("processor shares by {}", cluster.limits.about());
    context.notes.push(about);
    let generator = Generator::enter(&cluster.limits, &cluster.guardian, GENERATOR_SHARE);
    let _generator =
        generator.map_err(|error| LabError::live("limit the generator".to_owned(), error))?;
    let mut active = None;
    for (scenario, arm, is_sick, is_on) in SCENES {
        cluster.set(&settings(is_on))?;
        if is_sick && active.is_none() {
            let begun = Active::begin(&mut cluster, SICK, FaultKind::Stress { keep: KEEPS })?;
            context.note(format!("{} gets sick: {}", cluster.nodes[SICK].spec.name, begun.about()));
            active = Some(begun);
        }
        let protections = if is_on { "on" } else { "off" };
        context.progress.note(&format!("-- {scenario}, protections {protections}"));
        let measured = scene(context, &mut cluster, (&table, &corpus))?;
        let kind = active.as_ref().map_or("none", |active: &Active| active.kind().name());
        let is_stopped = context.is_stopped();
        keep(found, scenario, arm, settings(is_on), kind, measured);
        if is_stopped {
            return Err(LabError::Stopped);
        }
    }
    if let Some(active) = active {
        active.end(&mut cluster)?;
    }
    if let Some(sentence) = sentence(found, &cluster.nodes[SICK].spec.name) {
        context.conclude(sentence);
    }
    Ok(())
}

fn scene(
    context: &mut Context<'_>,
    cluster: &mut Cluster,
    (table, corpus): (&str, &Corpus),
) -> Result<Measured, LabError> {
    let host = cluster.coordinator().http();
    let operation = Operation::Complex { terms: TERMS };
    let requests = workload::requests(operation, corpus, table, &host, context.options.seed);
    let addresses = [host];
    let load = Load {
        addresses: &addresses,
        protocol: Protocol::Http,
        greeting: b"",
        requests: &requests,
        pace: Pace::Closed { clients: CLIENTS },
        warm_up: context.options.warm_up * WARM_UP_LAPS,
        window: context.options.window.mul_f64(SCENE_LAPS),
        timeout: TIMEOUT,
        seed: context.options.seed,
    };
    let screen = Screen {
        recent_us: Mutex::new(histogram()),
        stop: Arc::clone(&context.options.stop),
        is_over: AtomicBool::new(false),
        completed: Default::default(),
    };
    let names: Vec<(String, String)> =
        cluster.nodes.iter().map(|node| (node.spec.name.clone(), node.http())).collect();
    thread::scope(|scope| {
        for ((_, address), completed) in names.iter().zip(&screen.completed) {
            let is_over = &screen.is_over;
            scope.spawn(move || follow(address, completed, is_over));
        }
        let lap = scope.spawn(|| measure::lap(cluster, &load, &screen));
        let mut before = [0; NODES];
        let began = Instant::now();
        for second in 1.. {
            thread::sleep((SECOND * second).saturating_sub(began.elapsed()));
            if lap.is_finished() {
                break;
            }
            let line = line(second, &screen, &names, &mut before);
            context.progress.note(&line);
        }
        screen.is_over.store(true, Ordering::Relaxed);
        let panicked = || LabError::live("run the load".to_owned(), "its thread panicked");
        lap.join().unwrap_or_else(|_| Err(panicked()))
    })
}

/// Asks a node for the searches it has completed, once a second.
fn follow(address: &str, completed: &AtomicU64, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let path = "/_nodes/_local/stats/thread_pool";
        if let Ok(told) = node::ask(address, "GET", path, None, FIGURES_WAIT) {
            let node = told["nodes"].as_object().and_then(|nodes| nodes.values().next());
            let count = node.and_then(|node| node["thread_pool"]["search"]["completed"].as_u64());
            completed.store(count.unwrap_or(0), Ordering::Relaxed);
        }
        // Never longer than a second, so that the end of a scene is not waited for.
        thread::sleep(SECOND.saturating_sub(began.elapsed()));
    }
}

fn line(
    second: u32,
    screen: &Screen,
    names: &[(String, String)],
    before: &mut [u64; NODES],
) -> String {
    let drained = std::mem::replace(&mut *lock(&screen.recent_us), histogram());
    let now: Vec<u64> = screen.completed.iter().map(|n| n.load(Ordering::Relaxed)).collect();
    let done: Vec<u64> =
        now.iter().zip(before.iter()).map(|(now, before)| now.saturating_sub(*before)).collect();
    let is_first = before.iter().all(|count| *count == 0);
    before.copy_from_slice(&now);
    let all = done.iter().sum::<u64>().max(1);
    let shares: Vec<String> = names
        .iter()
        .zip(&done)
        .map(|((name, _), done)| format!("{name} {:>3} %", done * 100 / all))
        .collect();
    let ms = |p: f64| drained.value_at_quantile(p) as f64 / 1e3;
    let shares = if is_first { String::new() } else { shares.join("  ") };
    format!(
        "{second:>3} s  {:>5}/s  p50 {:>6.0} ms  p99 {:>6.0} ms   {shares}",
        drained.len(),
        ms(0.5),
        ms(0.99)
    )
}

fn keep(
    found: &mut Found,
    scenario: &str,
    arm: &str,
    settings: BTreeMap<String, Value>,
    kind: &str,
    measured: Measured,
) {
    let arm = Arm { name: arm.to_owned(), settings };
    let laps = vec![vec![measured]];
    found.plots.series.extend(measure::series(scenario, &arm.name, &laps[0]));
    let made = variants(&[arm], &laps, None);
    let scenarios = &mut found.results.scenarios;
    match scenarios.iter_mut().find(|known| known.name == scenario) {
        Some(known) => known.variants.extend(made),
        None => scenarios.push(Scenario {
            name: scenario.to_owned(),
            fault: FaultNote { kind: kind.to_owned(), fit: BTreeMap::new() },
            load: LoadNote::Clients(CLIENTS),
            variants: made,
        }),
    }
}

/// What the sick node cost, without protections and with them: in p99 where each scene had answers
/// enough for one, else in p90.
fn sentence(found: &Found, sick: &str) -> Option<String> {
    let lap = |scenario: &str, arm: &str| {
        let scenario = found.results.scenarios.iter().find(|one| one.name == scenario)?;
        scenario.variants.iter().find(|one| one.name == arm)?.laps.first()
    };
    let laps = [lap("healthy", "off")?, lap("sick", "off")?, lap("sick", "ours")?];
    let all = |path: &str| -> Option<Vec<f64>> {
        laps.iter().map(|lap| crate::result::metric(lap, path)).collect()
    };
    let (name, ms) = match all("latency_ms.p99") {
        Some(ms) => ("p99", ms),
        None => ("p90", all("latency_ms.p90")?),
    };
    let rate = laps.map(|lap| lap.throughput_ops_s.mean);
    let cpu_s = laps.map(|lap| lap.cpu_s.unwrap_or(0.0) / lap.n.max(1) as f64 * 1e3);
    Some(format!(
        "With protections off, sick {sick} took {name} from {:.0} ms to {:.0} ms and throughput from \
         {:.0} to {:.0} a second; with them on it is {:.0} ms and {:.0} a second ({:.1}, {:.1} and \
         {:.1} CPU seconds per 1,000 requests). One lap each, on {} processors: a show, not a claim.",
        ms[0],
        ms[1],
        rate[0],
        rate[1],
        ms[2],
        rate[2],
        cpu_s[0],
        cpu_s[1],
        cpu_s[2],
        processes::processors()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Lap, Quantiles, Spread};

    #[test]
    fn the_sentence_has_the_figures_of_all_three_scenes() {
        let mut found = Found::default();
        for ((scenario, arm, is_sick, is_on), (p99, rate)) in
            SCENES.iter().zip([(40.0, 200.0), (900.0, 60.0), (70.0, 180.0)])
        {
            let latency_ms = Quantiles { p99: Some(p99), ..Quantiles::default() };
            let throughput_ops_s = Spread { mean: rate, ..Spread::default() };
            let lap = Lap {
                valid: true,
                n: 2_000,
                cpu_s: Some(4.0),
                latency_ms,
                throughput_ops_s,
                ..Lap::default()
            };
            let us = histogram();
            let measured = Measured {
                latency_us: us.clone(),
                service_us: us,
                ..Measured::without_requests(lap, 0)
            };
            let kind = if *is_sick { "stress" } else { "none" };
            keep(&mut found, scenario, arm, settings(*is_on), kind, measured);
        }
        let said = sentence(&found, "es3").unwrap();
        assert!(said.contains("p99 from 40 ms to 900 ms"), "{said}");
        assert!(said.contains("on it is 70 ms and 180 a second (2.0, 2.0 and 2.0"), "{said}");
        assert_eq!(found.results.scenarios.len(), 2);
        // One scene without a p99: p90 of all three, if they have it.
        let lap = &mut found.results.scenarios[1].variants[0].laps[0];
        lap.latency_ms = Quantiles { p90: Some(600.0), ..Quantiles::default() };
        assert_eq!(sentence(&found, "es3"), None);
    }

    #[test]
    fn on_and_off_differ_in_every_setting() {
        let (on, off) = (settings(true), settings(false));
        assert!(on.keys().eq(off.keys()) && on.iter().all(|(key, value)| off[key] != *value));
    }
}
