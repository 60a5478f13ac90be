//! `kv-throughput`, live: stores of rows under YCSB's mixes and curves beside the study of Apache Pegasus, what
//! compaction does to the tail of writes by the node's own pacing and by RocksDB's limiters, and what single
//! faults and storms do. This file knows the scenarios and their order; each has a file of its own.

mod arms;
mod bare;
mod burst;
mod course;
mod curves;
mod disk;
mod expiry;
mod given;
mod hot_key;
mod large;
mod limiter;
mod mixes;
mod multi_get;
mod nodes;
mod partitions;
mod peers;
mod plan;
mod server;
mod sick_disk;
mod slow;
mod source;
mod store;
mod values;

use super::context::Context;
use super::found::Found;
use super::options::{LiveOptions, LiveSize};
use super::resume;
use super::target::Target;
use crate::LabError;

/// The name of the experiment.
pub(crate) const NAME: &str = "kv-throughput";

/// What a scenario does.
type Scenario = fn(&mut Context<'_>, &mut Found) -> Result<(), LabError>;

/// A scenario: its name, the least size of a run that has it, its laps, and what it does. One without a size is
/// there where it is named alone.
struct Plan {
    name: &'static str,
    least: Option<LiveSize>,
    laps: fn(&LiveOptions) -> usize,
    run: Scenario,
}

const ALL: [Plan; 16] = [
    plan(limiter::NAME, Some(LiveSize::Quick), limiter::laps, limiter::run),
    plan(mixes::NAME, Some(LiveSize::Quick), mixes::laps, mixes::run),
    full(limiter::CPU, limiter::laps, limiter::run_cpu),
    full(limiter::MOST, limiter::laps_of_most, limiter::run_most),
    full(values::NAME, values::laps, values::run),
    full(multi_get::NAME, multi_get::laps, multi_get::run),
    full(curves::WRITES, curves::laps_of_writes, curves::run_writes),
    full(curves::READS, curves::laps_of_reads, curves::run_reads),
    full(nodes::NAME, nodes::laps, nodes::run),
    full(partitions::NAME, partitions::laps, partitions::run),
    full(burst::NAME, burst::laps, burst::run),
    full(large::NAME, large::laps, large::run),
    full(hot_key::NAME, hot_key::laps, hot_key::run),
    full(expiry::NAME, expiry::laps, expiry::run),
    full(sick_disk::NAME, sick_disk::laps, sick_disk::run),
    plan(limiter::SOAK, None, limiter::laps_of_soak, limiter::run_soak),
];

/// A scenario that only a full run has, or one that names it.
const fn full(name: &'static str, laps: fn(&LiveOptions) -> usize, run: Scenario) -> Plan {
    plan(name, Some(LiveSize::Full), laps, run)
}

const fn plan(
    name: &'static str,
    least: Option<LiveSize>,
    laps: fn(&LiveOptions) -> usize,
    run: Scenario,
) -> Plan {
    Plan { name, least, laps, run }
}

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
        true => plan
            .least
            .is_some_and(|least| least == LiveSize::Quick || options.size == LiveSize::Full),
        false => options.scenarios.iter().any(|name| name == plan.name),
    };
    ALL.iter().filter(is_wanted).collect()
}

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, _: usize) -> usize {
    of(options).iter().map(|plan| (plan.laps)(options)).sum()
}

/// Runs the mixes on a server that was given.
pub(crate) fn run_at(
    context: &mut Context<'_>,
    target: &Target,
    found: &mut Found,
) -> Result<(), LabError> {
    mixes::run_at(context, target, found)
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
