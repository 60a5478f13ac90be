//! The live lab: real nodes as processes of this machine, real faults, real load. An experiment
//! starts a cluster, fits its fault, makes laps in turns and leaves the same files as a simulation.
//! What it asks of the machine (control groups, `/proc`, signals) is Linux's.

mod admission;
mod all;
mod blocks;
mod breakers;
mod cluster;
mod context;
mod corpus;
mod demo;
mod fault;
mod fit;
mod found;
mod generator;
mod guardian;
mod limits;
mod load;
mod measure;
mod method;
mod node;
mod options;
mod processes;
mod remote;
mod resume;
mod rows;
mod selection;
mod shares;
mod sick_node;
mod study;
mod target;
mod throttle;
mod wire;
mod workload;

use std::collections::BTreeMap;

pub use options::{LAPS, LiveOptions, LiveSize};

use crate::result::{Scenario, Variant};
use crate::{LabError, Outcome, Progress};
use context::Context;
use corpus::{Corpora, Shape};
pub(crate) use found::Found;

/// An experiment of the live lab.
struct Experiment {
    name: &'static str,
    /// Names of its variants; none may be chosen where there are none.
    variants: fn() -> Vec<&'static str>,
    /// Names of its scenarios; none may be chosen where there are none.
    scenarios: fn() -> Vec<&'static str>,
    /// Laps that it makes, about, with so many of each arm.
    laps: fn(&LiveOptions, usize) -> usize,
    /// Documents that it searches and a file may stand for.
    corpora: fn(&LiveOptions) -> Vec<(Shape, usize)>,
    run: fn(&mut Context<'_>, &mut Found) -> Result<(), LabError>,
}

const ALL: [Experiment; 7] = [
    Experiment {
        name: DEMO,
        variants: Vec::new,
        scenarios: Vec::new,
        laps: |_, _| 3,
        corpora: |_| Vec::new(),
        run: demo::run,
    },
    Experiment {
        name: "replica-selection",
        variants: selection::names,
        scenarios: selection::scenarios,
        laps: selection::steps,
        corpora: selection::corpora,
        run: selection::run,
    },
    Experiment {
        name: "admission-queue",
        variants: admission::names,
        scenarios: Vec::new,
        laps: |options, laps| admission::steps(laps, options.size, &options.variants),
        corpora: |_| Vec::new(),
        run: admission::run,
    },
    Experiment {
        name: "sick-node",
        variants: sick_node::names,
        scenarios: Vec::new,
        laps: |options, laps| {
            sick_node::steps(laps, options.size == LiveSize::Full, &options.variants)
        },
        corpora: |options| sick_node::corpora(options.size == LiveSize::Full),
        run: sick_node::run,
    },
    Experiment {
        name: remote::NAME,
        variants: remote::names,
        scenarios: remote::scenarios,
        laps: remote::steps,
        corpora: remote::corpora,
        run: remote::run,
    },
    Experiment {
        name: rows::NAME,
        variants: rows::names,
        scenarios: rows::scenarios,
        laps: rows::steps,
        corpora: |_| Vec::new(),
        run: rows::run,
    },
    Experiment {
        name: breakers::NAME,
        variants: Vec::new,
        scenarios: breakers::scenarios,
        laps: breakers::steps,
        corpora: |_| Vec::new(),
        run: breakers::run,
    },
];

/// Experiments whose runs can be gone on with.
const RESUMED: [&str; 3] = [remote::NAME, rows::NAME, breakers::NAME];

/// What `sick-node` asks.
pub(crate) const SICK_NODE: &str =
    "hung, slow, failing, cold, flapping: each fault in an open loop; in full also each workload";
/// `breaker-overhead` by its name and what it asks.
pub(crate) const BREAKER_OVERHEAD: (&str, &str) = (breakers::NAME, breakers::ABOUT);
/// The experiment that `plimsoll lab demo` runs.
pub const DEMO: &str = "demo";

/// Names of the experiments that can be run here.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|one| one.name).collect()
}

/// What kinds of errors clients of a scenario had, a sentence for each variant that had any.
fn errors(of: &Scenario) -> Vec<String> {
    let one = |variant: &Variant| {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (kind, count) in variant.laps.iter().flat_map(|lap| &lap.errors) {
            *all.entry(kind).or_default() += count;
        }
        let all: Vec<String> = all.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let said = format!("errors in {}, {}: {}", of.name, variant.name, all.join(", "));
        (!all.is_empty()).then_some(said)
    };
    of.variants.iter().filter_map(one).collect()
}

/// Runs an experiment on this machine and writes what [`crate::simulate`] writes; `all` runs the five
/// studies one after the other, each into a folder of its own, and sums them up. When it is
/// stopped, and when something fails after the first scenario, the files tell of what there is.
///
/// # Errors
/// An unknown experiment, variant or scenario, a file of documents that is none, a cluster that does
/// not start, a file that cannot be written.
pub fn run(options: &LiveOptions, progress: &mut dyn Progress) -> Result<Outcome, LabError> {
    if let Some(laps) = options.laps.filter(|laps| !LAPS.contains(laps)) {
        return Err(LabError::Laps { laps });
    }
    if options.experiment == all::NAME {
        return all::run(options, progress);
    }
    let Some(experiment) = ALL.iter().find(|one| one.name == options.experiment) else {
        return Err(LabError::UnknownExperiment {
            name: options.experiment.clone(),
            known: ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", "),
        });
    };
    let is_remote = experiment.name == remote::NAME;
    let can_resume = RESUMED.contains(&experiment.name) && options.target.is_none();
    if options.resume && !can_resume {
        let why = format!("only runs of {} on nodes of their own can be", RESUMED.join(", "));
        return Err(LabError::Resume { dir: options.out.clone(), why });
    }
    let names = match options.target {
        Some(_) if is_remote => remote::names_of_given(),
        _ => (experiment.variants)(),
    };
    if let Some(unknown) = options.variants.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(LabError::UnknownVariant { name: unknown.clone(), known: names.join(", ") });
    }
    // Another server gets one workload, whatever the experiment.
    let names = if options.target.is_some() { Vec::new() } else { (experiment.scenarios)() };
    if let Some(unknown) = options.scenarios.iter().find(|name| !names.contains(&name.as_str())) {
        let known =
            if names.is_empty() { "none to choose from".to_owned() } else { names.join(", ") };
        return Err(LabError::UnknownScenario { name: unknown.clone(), known });
    }
    // Where two are needed, they are the experiment's affair.
    let target = options.target.as_deref().filter(|_| !is_remote);
    let target = target.map(target::Target::parse).transpose()?;
    let mut found = Found::default();
    found.results.experiment.clone_from(&options.experiment);
    found.results.host = processes::host();
    found.results.seed = options.seed;
    let searched = match target {
        Some(_) => Vec::new(),
        None => (experiment.corpora)(options),
    };
    let corpora = Corpora::open(&options.corpora, &searched, progress)?;
    let mut context = Context::new(options, progress);
    for note in corpora.notes() {
        context.note(note);
    }
    context.corpora = corpora;
    context.expect((experiment.laps)(options, context.laps()));
    let ended = match &target {
        Some(target) if experiment.name == rows::NAME => {
            rows::run_at(&mut context, target, &mut found)
        }
        Some(target) => target::run(&mut context, target, &mut found),
        None => (experiment.run)(&mut context, &mut found),
    };
    if found.results.scenarios.is_empty() {
        ended?;
    } else if let Err(why) = ended {
        context.note(format!("the run ended early: {why}"));
    }
    let errors = found.results.scenarios.iter().flat_map(errors);
    found.results.notes = errors.chain(context.notes).collect();
    let Found { results, plots } = found;
    let text = crate::leave(&options.out, &results, &plots)?;
    Ok(Outcome { results, plots, text })
}

/// `--set` of every node of the lab.
pub(crate) fn node_settings() -> Vec<String> {
    ["cache.size=64mb", "logger.level=warn", "log.durability=async"].map(str::to_owned).to_vec()
}

/// Segments of an index, all copies together.
pub(crate) fn segments(address: &str, index: &str) -> Option<u64> {
    let path = format!("/{index}/_stats/segments");
    let stats = node::ask(address, "GET", &path, None, context::TIMEOUT).ok()?;
    stats["_all"]["total"]["segments"]["count"].as_u64()
}
