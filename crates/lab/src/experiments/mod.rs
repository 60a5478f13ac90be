//! The experiments: each has a plan (which runs to make) and a verdict (what was aimed at and
//! what came out). Figures of others stand in `published`; what carries a plan out, in `plan.rs`.

pub(crate) mod admission_queue;
mod bench;
mod calibrate;
mod compare;
mod controllers;
mod job;
mod kv_throughput;
mod laps;
mod load_ramp;
mod open_loop;
mod overload_step;
mod plan;
mod pmc;
mod remote_recovery;
pub(crate) mod replica_selection;
mod scale;
mod selection_findings;
mod sick_copies;
mod situation;

use crate::result::{Finding, Plots, Results, Series};
use crate::{LabError, Progress, SimulateOptions};

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// Seconds; for tests. The figures mean little.
    Quick,
    /// The size of the published study, minutes.
    #[default]
    Study,
    /// More seeds, more nodes, longer.
    Full,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) size: Size,
    /// Data nodes, where the caller wants another number than the experiment's own.
    pub(crate) nodes: Option<usize>,
}

impl Setup {
    pub(crate) fn scaled(&self, study: u64, quick: u64) -> u64 {
        if self.size == Size::Quick { quick } else { study }
    }

    /// The same for requests that touch every node: a larger cluster gets fewer of them, so that
    /// the work of a run stays what it is at the study's five.
    pub(crate) fn fanned(&self, study: u64, quick: u64) -> u64 {
        let nodes = self.nodes.unwrap_or(5).max(5) as u64;
        (self.scaled(study, quick) * 5 / nodes).max(200)
    }

    /// How often unknowns that depend on one another are fitted over.
    pub(crate) fn rounds(&self) -> usize {
        if self.size == Size::Quick { 1 } else { 3 }
    }
}

/// One experiment.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) plan: fn(&Setup) -> plan::Plan,
    pub(crate) baseline: &'static str,
    pub(crate) metrics: &'static [&'static str],
    pub(crate) published: fn(&str, &str, &str) -> Vec<(String, f64)>,
    pub(crate) findings: fn(&Results, &[Series]) -> Vec<Finding>,
    /// Where it is not of requests: carries it out and judges it, and there is no plan.
    pub(crate) own: Option<Own>,
}

/// An experiment that is not of requests.
pub(crate) type Own = fn(
    &SimulateOptions,
    &mut dyn Progress,
) -> Result<(Results, Vec<Series>, Vec<Finding>), LabError>;

/// Metrics that are compared where an experiment names no others.
const METRICS: [&str; 5] = [
    "throughput_ops_s.median",
    "latency_ms.mean",
    "latency_ms.p50",
    "latency_ms.p90",
    "latency_ms.p99",
];

/// What the experiments beyond the studies have in common: nothing was published.
const BEYOND: Experiment = Experiment {
    name: "",
    about: "",
    plan: |_| plan::Plan::empty(""),
    baseline: "off",
    metrics: &METRICS,
    published: |_, _, _| Vec::new(),
    findings: |_, _| Vec::new(),
    own: None,
};

pub(crate) const ALL: [Experiment; 10] = [
    Experiment {
        name: "replica-selection",
        about: "which replica serves a read: the adaptive replica selection study, one node stressed",
        plan: replica_selection::plan,
        baseline: "off",
        metrics: &METRICS,
        published: replica_selection::published,
        findings: selection_findings::findings,
        ..BEYOND
    },
    Experiment {
        name: "admission-queue",
        about: "who waits and who is refused: the study of a queue sized by Little's law",
        plan: admission_queue::plan,
        baseline: "fixed",
        metrics: &[
            "throughput_ops_s.median",
            "latency_ms.mean",
            "latency_ms.p99",
            "latency_ms.p100",
        ],
        published: admission_queue::published,
        findings: admission_queue::findings,
        ..BEYOND
    },
    Experiment {
        name: "remote-recovery",
        about: "copying tables over an ocean: the study of chunks and windows, and a measured one",
        baseline: "1m-5",
        metrics: &["recovery_seconds"],
        own: Some(remote_recovery::simulate),
        ..BEYOND
    },
    Experiment {
        name: "kv-throughput",
        about: "rows under YCSB's mixes, and the tail of writes while files are rewritten on a slow \
                disk: the key-value study",
        metrics: &["throughput_ops_s.mean", "latency_ms.p99", "latency_ms.p99_9"],
        own: Some(kv_throughput::simulate),
        ..BEYOND
    },
    Experiment {
        name: "open-loop",
        about: "requests by the clock at 30, 60 and 90 % of what a stressed cluster can do",
        plan: open_loop::plan,
        findings: open_loop::findings,
        ..BEYOND
    },
    Experiment {
        name: "load-ramp",
        about: "Prequal's ramp from 0.75 to 1.74 of the allotment, with unquiet neighbours",
        plan: load_ramp::plan,
        findings: load_ramp::findings,
        metrics: &["latency_ms.p50", "latency_ms.p99", "latency_ms.p99_9"],
        ..BEYOND
    },
    Experiment {
        name: "sick-copies",
        about: "a hung, failing, slow, new or cold copy: its share, and how soon it is back",
        plan: sick_copies::plan,
        findings: sick_copies::findings,
        ..BEYOND
    },
    Experiment {
        name: "overload-step",
        about: "demand jumps to 1.4 of capacity: goodput, and the wait of what is admitted",
        plan: overload_step::plan,
        baseline: "fixed",
        findings: overload_step::findings,
        ..BEYOND
    },
    Experiment {
        name: "controllers",
        about: "all on/off combinations of selection, admission, breakers and pacing",
        plan: controllers::plan,
        baseline: controllers::NONE,
        metrics: &["throughput_ops_s.mean", "latency_ms.p50", "latency_ms.p99"],
        findings: controllers::findings,
        ..BEYOND
    },
    Experiment {
        name: "scale",
        about: "20 coordinators and 200 nodes, in full 100 and 1,000, one in twenty stressed",
        plan: scale::plan,
        findings: scale::findings,
        ..BEYOND
    },
];

/// Plans, runs and judges.
///
/// # Errors
/// An experiment that does not exist, or a caller that wants no more.
pub(crate) fn simulate(
    options: &SimulateOptions,
    progress: &mut dyn Progress,
) -> Result<(Results, Plots), LabError> {
    let wanted = options.experiment.as_str();
    let Some(experiment) = ALL.iter().find(|one| one.name == wanted) else {
        return Err(LabError::UnknownExperiment {
            name: wanted.to_owned(),
            known: ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", "),
        });
    };
    progress.note("fitting to the published runs without adaptation");
    if let Some(own) = experiment.own {
        let (mut results, series, findings) = own(options, progress)?;
        results.comparisons = compare::all(experiment, &results);
        return Ok((results, Plots { series, findings }));
    }
    let plan = (experiment.plan)(&Setup { size: options.size, nodes: options.nodes });
    let (mut results, series) = plan::carry_out(&plan, options.seed, progress)?;
    results.comparisons = compare::all(experiment, &results);
    let findings = (experiment.findings)(&results, &series);
    Ok((results, Plots { series, findings }))
}

/// A result as small as can be, for the tests of the reports.
#[cfg(test)]
pub(crate) fn tiny() -> Results {
    let plan = overload_step::plan(&Setup { size: Size::Quick, nodes: None });
    let mut first = plan.jobs[0].clone();
    first.notes[1].as_mut().expect("told").scenario = "tiny".to_owned();
    first.spec.stop = crate::sim::Stop::At(crate::sim::SECOND_NS);
    let plan = plan::Plan { experiment: plan.experiment, jobs: vec![first] };
    let (results, _) = plan::carry_out(&plan, 1, &mut Silent).expect("nobody stops it");
    results
}

/// A listener that never stops anything.
#[cfg(test)]
pub(crate) struct Silent;

#[cfg(test)]
impl Progress for Silent {
    fn note(&mut self, _: &str) {}

    fn step(&mut self, _: usize, _: usize, _: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
