//! Scenario `nodes`: writes of 5, 6 and 7 nodes, each with the same small share of a processor, so that they
//! bind and nothing else does: the keeper of the log and the load have what there is, and the report shows
//! what they took of it. One cluster is there at a time; each lap is on one that was just filled.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::plan::{self, Ask, Heading, Lengths};
use super::server::Server;
use super::source::Rows;
use super::store::{REST, await_copies, fill_all};
use crate::LabError;
use crate::live::cluster::{Cluster, ClusterSpec, Rest};
use crate::live::context::{Arm, Context};
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::measure::Measured;
use crate::live::options::LiveOptions;
use crate::live::processes;
use crate::live::shares::Shares;
use crate::published::ROWS;
use crate::result::{Finding, Scenario};

pub(super) const NAME: &str = "nodes";

const COUNTS: [usize; 3] = [5, 6, 7];
/// Of a processor, each node.
const SHARE: f64 = 0.12;
/// As many at each node whatever their number.
const CLIENTS: usize = 210;
const VALUE_BYTES: usize = 1_024;
const KEYS: u64 = 20_000;
/// The study's partitions and copies.
const SETTINGS: [&str; 3] = ["cache.size=64mb", "logger.level=warn", "resp.number_of_shards=64"];
const REPLICAS: u64 = 2;
/// Copies of all partitions.
const COPIES: usize = 64 * 3;
/// Throttled nodes take a while until all clients wait at them.
const LENGTHS: Lengths =
    Lengths { warm_up: Duration::from_secs(4), window: Duration::from_secs(10) };
/// When a cluster that was filled is at rest: what nine processes idle at is no little.
const SETTLED: Rest = Rest { within: Duration::from_secs(30), below: 0.3, ..REST };
/// What 7 nodes are to write at least of what 5 do.
const GROWTH_MIN: f64 = 1.3;

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * COUNTS.len()
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    if Shares::make().is_none() {
        context.note(format!("{NAME}: left out, as shares need control groups"));
        return Ok(());
    }
    let rows = Rows::new(KEYS, VALUE_BYTES, 0.0, options.seed);
    let arms: Vec<Arm> = COUNTS.iter().map(|count| plan::arm(&count.to_string())).collect();
    let count = plan::laps_of(options);
    let one = |at: usize, block| lap(options, &rows, COUNTS[at], block);
    let laps = plan::paired(context, NAME, &arms, count, one)?;
    context.note(format!(
        "{NAME}: {SHARE} of a processor each, 64 partitions in three copies, {CLIENTS} clients in a closed loop at \
         all of them; the keeper of the log (`eslog`) and the load are not held; `esclient` idles"
    ));
    let pace = Pace::Closed { clients: CLIENTS };
    plan::tell(context, found, Heading { name: NAME, fault: plan::no_fault(), pace }, &arms, &laps);
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

/// A lap on a cluster of its own.
fn lap(
    options: &LiveOptions,
    rows: &Rows,
    count: usize,
    block: usize,
) -> Result<Measured, LabError> {
    let spec = ClusterSpec {
        data_nodes: count,
        data_share: SHARE,
        coordinator_share: Some(SHARE),
        settings: SETTINGS.map(str::to_owned).to_vec(),
    };
    let folder = options.folder.join(format!("{NAME}-{count}"));
    let cluster = Cluster::start(&spec, &options.binary, &folder)?;
    let replicas = ("cluster.default_number_of_replicas".to_owned(), json!(REPLICAS));
    cluster.set(&BTreeMap::from([replicas]))?;
    fill_all(&cluster.addresses()[0], rows, KEYS, options.seed)?;
    await_copies(&cluster, COPIES)?;
    cluster.await_rest(&SETTLED, &options.stop);
    cluster.limit()?;
    let ask = Ask { lengths: LENGTHS, ..Ask::closed(&cluster, rows, CLIENTS) };
    plan::lap(options, &ask, block)
}

fn findings(found: &Found) -> Vec<Finding> {
    let rate =
        |count: usize| plan::figure(found, NAME, &count.to_string(), "throughput_ops_s.mean");
    let published = |of, to| ROWS.best_of_nodes(of).zip(ROWS.best_of_nodes(to)).map(|(a, b)| a / b);
    let mut growth = plan::aim(
        format!("{NAME}: writes a second, 7 nodes to 5"),
        rate(7),
        rate(5),
        (true, GROWTH_MIN),
    );
    if let Some(theirs) = published(7, 5) {
        growth.aim = format!("{} ({theirs:.2}, Pegasus)", growth.aim);
    }
    let six = format!("{NAME}: writes a second, 6 nodes to 5");
    let mut told = vec![growth, plan::beside(six, rate(6), rate(5), published(6, 5))];
    let per_cpu_s = |count: usize| plan::per_cpu_s(found, NAME, &count.to_string());
    let what = format!("{NAME}: writes a processor second of all processes, 7 nodes to 5");
    told.push(plan::beside(what, per_cpu_s(7), per_cpu_s(5), None));
    let Some(scenario) = found.results.scenarios.iter().find(|it| it.name == NAME) else {
        return told;
    };
    let processors = processes::processors();
    for count in COUNTS {
        let name = count.to_string();
        let machine = plan::figure(found, NAME, &name, "rows.machine_processors");
        let load = plan::figure(found, NAME, &name, "rows.load_processors");
        let words = machine.zip(load).map(|(machine, load)| {
            let keeper = keeper(scenario, &name);
            format!("{machine:.2} of {processors} ({keeper:.2} the log, {load:.2} the load)")
        });
        told.push(Finding::told(
            format!("{NAME}: processors that the machine used, {count}"),
            words,
        ));
    }
    told
}

/// Processors that the keeper of the log took, over all laps.
fn keeper(scenario: &Scenario, arm: &str) -> f64 {
    let variants = scenario.variants.iter().filter(|it| it.name == arm);
    let laps: Vec<_> = variants.flat_map(|it| &it.laps).collect();
    let used = laps.iter().filter_map(|lap| lap.nodes.last()?.cpu_s).sum::<f64>();
    used / (laps.len().max(1) as f64 * LENGTHS.window.as_secs_f64())
}
