//! `kv-throughput`, live: a store of rows under YCSB's mixes, and what compaction does to the tail of its
//! writes, by the node's own pacing, by RocksDB's limiters and without any; the study of Apache Pegasus
//! under YCSB. One node here; three for the mixes, beside redis-server.

mod arms;
mod course;
mod disk;
mod limiter;
mod mixes;
mod peers;
mod source;
mod store;

use super::context::Context;
use super::{Found, LiveOptions, LiveSize, resume};
use crate::LabError;

/// The name of the experiment.
pub(crate) const NAME: &str = "kv-throughput";

/// What a scenario does.
type Scenario = fn(&mut Context<'_>, &mut Found) -> Result<(), LabError>;

/// A scenario: its name, the least size of a run that has it, its laps, and what it does.
struct Plan {
    name: &'static str,
    least: LiveSize,
    laps: fn(&LiveOptions) -> usize,
    run: Scenario,
}

const ALL: [Plan; 2] = [
    Plan { name: limiter::NAME, least: LiveSize::Quick, laps: limiter::laps, run: limiter::run },
    Plan { name: mixes::NAME, least: LiveSize::Quick, laps: mixes::laps, run: mixes::run },
];

/// Names of arms that may be asked for.
pub(crate) fn names() -> Vec<&'static str> {
    arms::NAMES.into_iter().chain(mixes::NAMES).collect()
}

/// Names of scenarios that may be asked for.
pub(crate) fn scenarios() -> Vec<&'static str> {
    ALL.iter().map(|plan| plan.name).collect()
}

/// Those of a run.
fn of(options: &LiveOptions) -> Vec<&'static Plan> {
    let is_wanted = |plan: &&Plan| match options.scenarios.is_empty() {
        true => plan.least == LiveSize::Quick || options.size == LiveSize::Full,
        false => options.scenarios.iter().any(|name| name == plan.name),
    };
    ALL.iter().filter(is_wanted).collect()
}

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, _: usize) -> usize {
    of(options).iter().map(|plan| (plan.laps)(options)).sum()
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let whole = resume::begin(context, found)?;
    for plan in of(options) {
        if whole.iter().any(|name| name == plan.name) {
            continue;
        }
        (plan.run)(context, found)?;
        if context.is_stopped() {
            return Err(LabError::Stopped);
        }
        resume::keep(context, plan.name, found)?;
    }
    Ok(())
}
