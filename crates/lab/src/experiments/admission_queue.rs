//! `admission-queue`: the published study of a search queue that sizes itself by Little's law.
//! Five data nodes of 32 processors with every partition on each, one of them stressed, one
//! client node, rotation; a query has a second round that fetches where the query ran.
//!
//! The number of clients follows from the published rates and response times (Little's law).
//! Processor time is set so that tasks on a healthy node take what the study's `es1` shows (it is
//! shown only in a run with adjustment). The stressed node's competitors are fitted to the two
//! runs without adjustment. Rotation starts so that three of five nodes serve a query, as the
//! ratio of tasks waiting to queries under way says.

use std::collections::BTreeMap;

use plimsoll_control::Class;
use plimsoll_control::admission::{AdmissionRule, LittlesLawForm, LittlesLawSettings};
use plimsoll_control::selection::Rule;
use serde_json::{Value, json};

use super::calibrate::{Unknown, fit};
use super::compare::{count, find, value, values};
use super::job::{Job, Note};
use super::plan::Plan;
use super::{Setup, Size};
use crate::published::{QUEUE, QueueStudy};
use crate::result::{FaultNote, Finding, LoadNote, Results, Series};
use crate::sim::{
    Cluster, Fault, FaultKind, Load, MS_NS, NodeSpec, Operation, Policy, RunSpec, SECOND_NS,
    Spread, Stop,
};
use crate::stats;

pub(crate) const SCENARIO: &str = "stressed";
const CPUS: u32 = 32;
const STRESSED: usize = 4;
/// Processor time of a part's query and fetch: together twice the mean task time of `es1`, whose
/// tasks are as many of the one as of the other.
const QUERY_MS: f64 = 325.0;
const FETCH_MS: f64 = 15.0;
/// Requests a second that the study's five load generators aimed at together.
const RATE_MAX: u64 = 100;
const FRAME_TASKS: u32 = 2_000;

/// Variants by name, with their admission and selection.
fn variants() -> Vec<(&'static str, AdmissionRule, Rule)> {
    let law = |target_s: u64, form| AdmissionRule::LittlesLaw {
        settings: LittlesLawSettings {
            target_response_rate_ns: target_s * SECOND_NS,
            ..LittlesLawSettings::default()
        },
        form,
    };
    let fixed = AdmissionRule::Fixed { capacity: 1_000 };
    let rotation = Rule::RoundRobin;
    vec![
        ("fixed", fixed, rotation),
        ("littles_law_5s", law(5, LittlesLawForm::Target), rotation),
        ("littles_law_4s", law(4, LittlesLawForm::Target), rotation),
        ("ours", AdmissionRule::LoadAware, rotation),
        ("littles_law_es7", law(5, LittlesLawForm::TaskTime), rotation),
        ("littles_law_measured", law(5, LittlesLawForm::Measured), rotation),
        ("max_minus_l", law(5, LittlesLawForm::MaxMinus), rotation),
        ("fixed+selection", fixed, Rule::LoadAware),
        ("ours+selection", AdmissionRule::LoadAware, Rule::LoadAware),
    ]
}

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (mut spec, found) = stressed(setup);
    spec.stop = Stop::Requests(setup.fanned(200_000, 6_000));
    let laps = if setup.size == Size::Quick { 1 } else { 3 };
    let Load::Closed { clients, .. } = spec.load else { return Plan::empty("admission-queue") };
    let note = Note {
        scenario: SCENARIO.to_owned(),
        fault: FaultNote { kind: "stress".to_owned(), fit: found },
        load: LoadNote::Clients(clients),
    };
    let job = |(name, admission, selection): (&str, AdmissionRule, Rule)| Job {
        variant: name.to_owned(),
        settings: settings(admission, selection),
        spec: RunSpec { policy: Policy { admission, ..Policy::select(selection) }, ..spec.clone() },
        notes: vec![Some(note.clone())],
        laps,
        first_lap: 0,
    };
    let jobs = variants().into_iter().map(job).collect();
    Plan { experiment: "admission-queue".to_owned(), jobs }
}

fn settings(admission: AdmissionRule, selection: Rule) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::from([("selection".to_owned(), json!(format!("{selection:?}")))]);
    let mut set =
        |name: &str, value: Value| all.insert(format!("thread_pool.search.{name}"), value);
    match admission {
        AdmissionRule::LoadAware => {}
        AdmissionRule::Fixed { capacity } => {
            set("queue_size", json!(capacity));
        }
        AdmissionRule::LittlesLaw { settings, form } => {
            set("min_queue_size", json!(settings.min_queue_size));
            set("max_queue_size", json!(settings.max_queue_size));
            set("initial_queue_size", json!(settings.initial_queue_size));
            let target_s = settings.target_response_rate_ns / SECOND_NS;
            set("target_response_rate", json!(format!("{target_s}s")));
            set("frame_window", json!(settings.frame_window));
            set("adjustment_amount", json!(settings.adjustment_amount));
            all.insert("form".to_owned(), json!(format!("{form:?}")));
        }
    }
    all
}

/// The study's cluster, fitted.
pub(crate) fn stressed(setup: &Setup) -> (RunSpec, BTreeMap<String, f64>) {
    let nodes = setup.nodes.unwrap_or(5);
    let node = |number: usize| NodeSpec::healthy(format!("es{}", number + 1), CPUS);
    let mut spec = RunSpec {
        cluster: Cluster {
            nodes: (0..nodes).map(node).collect(),
            copies: super::situation::rings(nodes),
            coordinators: 1,
            network_ns: 0.2 * MS_NS as f64,
        },
        operation: Operation {
            class: Class::Search,
            spread: Spread::All,
            work_ns: QUERY_MS * MS_NS as f64,
            variation: 0.3,
            part_variation: 0.5,
            fetch_ns: Some(FETCH_MS * MS_NS as f64),
            invalid_share: 0.0,
            deadline_ns: None,
        },
        load: Load::Closed { clients: clients(), pace_ns: SECOND_NS / RATE_MAX },
        policy: Policy::select(Rule::RoundRobin),
        stop: Stop::Requests(0),
        windows_ns: vec![0],
        sample_ns: 5 * SECOND_NS,
        frame_tasks: FRAME_TASKS,
        resources: None,
    };
    let competitors = Unknown {
        name: "competitors",
        range: (2.0, 400.0),
        rising: true,
        target: without_ms(),
        set: &|spec, competitors| {
            let stressed = STRESSED % spec.cluster.nodes.len();
            let fault = Fault::always(FaultKind::Stress { competitors });
            spec.cluster.nodes[stressed].faults = vec![fault];
        },
        measure: &|outcome| outcome.latency_us().mean() / 1e3,
    };
    let mut found = fit(&mut spec, &[competitors], 1, setup.fanned(16_000, 4_000));
    found.insert("clients".to_owned(), clients() as f64);
    (spec, found)
}

fn clients() -> usize {
    let clients = plimsoll_control::average::whole(QUEUE.clients());
    usize::try_from(clients).unwrap_or(1)
}

/// Mean response time of both published runs without adjustment, ms.
fn without_ms() -> f64 {
    let runs = QUEUE.runs.iter().filter(|run| run.variant == "fixed");
    stats::mean(&runs.map(QueueStudy::mean_ms).collect::<Vec<_>>())
}

/// Published changes against the mean of both runs without adjustment.
pub(crate) fn published(_scenario: &str, variant: &str, metric: &str) -> Vec<(String, f64)> {
    let without: Vec<_> = QUEUE.runs.iter().filter(|run| run.variant == "fixed").collect();
    let measure = match metric {
        "latency_ms.mean" => QueueStudy::mean_ms,
        "throughput_ops_s.median" => QueueStudy::rate,
        "latency_ms.p100" => QueueStudy::max_ms,
        _ => return Vec::new(),
    };
    let base = stats::mean(&without.iter().map(|run| measure(run)).collect::<Vec<_>>());
    let with = QUEUE.runs.iter().filter(|run| run.variant == variant && variant != "fixed");
    with.map(|run| (run.run.clone(), (measure(run) / base - 1.0) * 100.0)).collect()
}

pub(crate) fn findings(results: &Results, series: &[Series]) -> Vec<Finding> {
    let mean = |variant| value(results, SCENARIO, variant, "latency_ms.mean");
    let Some(fixed) = mean("fixed") else { return Vec::new() };
    let complete = |variant| complete_s(results, series, variant);
    let mut found = Vec::new();
    for (variant, _, _) in variants() {
        found.push(Finding::told(
            format!("{variant}: complete answers a second"),
            complete(variant).map(|rate| format!("{rate:.1}")),
        ));
    }
    for (variant, was) in [("littles_law_5s", -15.1), ("littles_law_4s", -23.2)] {
        let change = mean(variant).map(|ms| (ms / fixed - 1.0) * 100.0);
        found.push(Finding::compare(
            format!("{variant}: mean response against fixed"),
            format!("{was:+.0} % (published; predicted within 15 points)"),
            change.map(|change| format!("{change:+.1} %")),
            change.map(|change| (change - was).abs() <= 15.0),
        ));
    }
    for variant in ["ours", "ours+selection"] {
        let change = mean(variant).map(|ms| (ms / fixed - 1.0) * 100.0);
        found.push(Finding::compare(
            format!("{variant}: mean response against fixed"),
            "-30 %, nothing to set, no fewer complete answers".to_owned(),
            change
                .zip(complete(variant))
                .map(|(change, rate)| format!("{change:+.1} %, {rate:.1}/s")),
            change
                .zip(complete(variant).zip(complete("fixed")))
                .map(|(change, (rate, fixed))| change <= -30.0 && rate >= fixed),
        ));
        let max = |name| greatest(results, name);
        found.push(Finding::compare(
            format!("{variant}: greatest response time"),
            format!("no worse than fixed ({:.0} ms)", max("fixed").unwrap_or(0.0)),
            max(variant).map(|ms| format!("{ms:.0} ms")),
            max(variant).zip(max("fixed")).map(|(ours, fixed)| ours <= fixed),
        ));
        let ratio = healthy_ratio(results, variant);
        found.push(Finding::compare(
            format!("{variant}: busiest healthy node over the healthy mean"),
            "at most 1.10".to_owned(),
            ratio.map(|ratio| format!("{ratio:.3}")),
            ratio.map(|ratio| ratio <= 1.1),
        ));
        let refused = value(results, SCENARIO, variant, "refused_rate");
        let partial = count(series, SCENARIO, variant, "partial_rate");
        found.push(Finding::told(
            format!("{variant}: requests refused, whole or in part"),
            refused.zip(partial).map(|(all, part)| {
                format!("{:.2} %, of which in part {:.2} %", all * 100.0, part * 100.0)
            }),
        ));
    }
    found
}

/// Answers a second of which no part is missing: a low mean response is worth nothing without it.
fn complete_s(results: &Results, series: &[Series], variant: &str) -> Option<f64> {
    let rate = value(results, SCENARIO, variant, "throughput_ops_s.mean")?;
    let refused = value(results, SCENARIO, variant, "refused_rate")?;
    let failed = value(results, SCENARIO, variant, "error_rate")?;
    let partial = count(series, SCENARIO, variant, "partial_rate")?;
    let whole = 1.0 - refused - failed;
    Some(rate * whole / (whole + partial).max(1e-9))
}

fn greatest(results: &Results, variant: &str) -> Option<f64> {
    let all = values(find(results, SCENARIO, variant)?, "latency_ms.p100");
    all.into_iter().reduce(f64::max)
}

/// Tasks of the busiest healthy node over the mean of the healthy ones.
fn healthy_ratio(results: &Results, variant: &str) -> Option<f64> {
    let laps = &find(results, SCENARIO, variant)?.laps;
    let ratio = |lap: &crate::result::Lap| {
        let healthy = lap.nodes.iter().enumerate().filter(|(at, _)| *at != STRESSED);
        let counts: Vec<f64> = healthy.map(|(_, node)| node.completed as f64).collect();
        counts.iter().copied().fold(0.0, f64::max) / stats::mean(&counts).max(1.0)
    };
    laps.iter().map(ratio).reduce(f64::max)
}
