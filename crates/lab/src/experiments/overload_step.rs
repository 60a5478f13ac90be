//! `overload-step`: demand jumps to 1.4 times what the nodes can do (Breakwater's test, Cho and
//! others, OSDI 2020). Before it, a stretch at 0.3 tells the unloaded response times and one at
//! 0.95 the goodput that is possible. Goodput is what is answered before its deadline.

use std::collections::BTreeMap;

use plimsoll_control::admission::AdmissionRule;
use plimsoll_control::selection::Rule;
use serde_json::json;

use super::bench::{Plain, note, ns};
use super::compare::value;
use super::job::Job;
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results, Series};
use crate::sim::Policy;

const WINDOWS: [(&str, f64, f64); 8] = [
    ("warm-up", 0.0, 0.3),
    ("unloaded", 1.0, 0.3),
    ("peak", 4.0, 0.95),
    ("step-0-100ms", 7.0, 1.4),
    ("step-100-300ms", 7.1, 1.4),
    ("step-300-500ms", 7.3, 1.4),
    ("step-500ms-1s", 7.5, 1.4),
    ("settled", 8.0, 1.4),
];
const END_S: f64 = 12.0;

pub(crate) fn plan(setup: &Setup) -> Plan {
    let laps = match setup.size {
        Size::Quick => 1,
        Size::Study => 5,
        Size::Full => 20,
    };
    let plain = Plain {
        nodes: setup.nodes.unwrap_or(3),
        cpus: 16,
        coordinators: 3,
        work_ms: 5.0,
        variation: 1.0,
        deadline_ms: 250,
    };
    let rates: Vec<(f64, f64)> = WINDOWS.iter().map(|(_, from_s, load)| (*from_s, *load)).collect();
    let mut spec = plain.spec(&rates, END_S);
    spec.windows_ns = WINDOWS.iter().map(|(_, from_s, _)| ns(*from_s)).collect();
    spec.sample_ns = ns(0.01);
    let notes: Vec<_> = WINDOWS
        .iter()
        .map(|(name, _, load)| {
            let told = *name != "warm-up";
            told.then(|| note((*name).to_owned(), "overload", load * plain.capacity()))
        })
        .collect();
    let job = |(name, admission, selection): (&str, AdmissionRule, Rule)| Job {
        variant: name.to_owned(),
        settings: BTreeMap::from([("admission".to_owned(), json!(format!("{admission:?}")))]),
        spec: crate::sim::RunSpec {
            policy: Policy { admission, ..Policy::select(selection) },
            ..spec.clone()
        },
        notes: notes.clone(),
        laps,
        first_lap: 0,
    };
    let law = AdmissionRule::named("littles_law").unwrap_or_default();
    let jobs = [
        ("fixed", AdmissionRule::Fixed { capacity: 1_000 }, Rule::RoundRobin),
        ("littles_law", law, Rule::RoundRobin),
        ("ours", AdmissionRule::LoadAware, Rule::RoundRobin),
        ("ours+selection", AdmissionRule::LoadAware, Rule::LoadAware),
    ];
    Plan { experiment: "overload-step".to_owned(), jobs: jobs.into_iter().map(job).collect() }
}

pub(crate) fn findings(results: &Results, _: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for variant in ["fixed", "littles_law", "ours", "ours+selection"] {
        let goodput = |window: &str| value(results, window, variant, "throughput_ops_s.mean");
        let p99 = |window: &str| value(results, window, variant, "latency_ms.p99");
        let promised = variant.starts_with("ours");
        let mut tell = |what: &str, aim: &str, ratio: Option<f64>, good: &dyn Fn(f64) -> bool| {
            found.push(Finding {
                what: format!("{variant}: {what}"),
                aim: aim.to_owned(),
                measured: ratio.map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.3}")),
                reached: promised.then(|| ratio.is_some_and(good)),
            });
        };
        // The step asks for more than there is: the peak possible is the capacity itself, of
        // which the stretch at 0.95 shows what it does.
        let peak = goodput("peak").map(|rate| rate / 0.95);
        let of_peak = |window| goodput(window).zip(peak).map(|(rate, peak)| rate / peak);
        let of_unloaded = |window| p99(window).zip(p99("unloaded")).map(|(ms, free)| ms / free);
        tell(
            "goodput at 1.4 of capacity, of the capacity",
            "at least 0.95",
            of_peak("settled"),
            &|r| r >= 0.95,
        );
        tell(
            "p99 of the admitted over the unloaded p99",
            "at most 2",
            of_unloaded("settled"),
            &|r| r <= 2.0,
        );
        tell(
            "goodput 100 to 300 ms after the step",
            "at least 0.95",
            of_peak("step-100-300ms"),
            &|r| r >= 0.95,
        );
        tell(
            "p99 100 to 300 ms after the step",
            "at most 2",
            of_unloaded("step-100-300ms"),
            &|r| r <= 2.0,
        );
    }
    found
}
