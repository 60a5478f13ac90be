//! Scenario `sick-disk`: three nodes with a copy of everything each; the disk of one of them takes little.
//! Clients at that node and clients at the others are told apart. Not of the node that keeps the log: a
//! keeper with a sick disk is another fault, which one log server cannot survive and three do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::disk::SlowDisk;
use super::mixes::THREE;
use super::plan::{self, Ask, Heading, Lengths};
use super::server::Server;
use super::source::Rows;
use super::store::{REST, await_copies, fill_all};
use crate::LabError;
use crate::live::cluster::{Cluster, ClusterSpec};
use crate::live::context::{Context, Stopping};
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::measure::{Measured, wait_until};
use crate::live::method;
use crate::live::options::{LiveOptions, LiveSize};
use crate::result::Finding;

pub(super) const NAME: &str = "sick-disk";

/// Arms: what state the disk is in, and where clients are.
const ARMS: [&str; 4] = ["healthy-there", "healthy-elsewhere", "sick-there", "sick-elsewhere"];
/// What the sick disk takes, bytes a second: a fraction of what comes in.
const DISK_BYTES_S: u64 = 500_000;
/// Of the settings below.
const PARTITIONS: usize = 4;
const VALUE_BYTES: usize = 10_240;
const KEYS: u64 = 5_000;
/// Memory for rows that are in no file is small, so that the disk is needed within a lap.
const SETTINGS: [&str; 4] =
    ["cache.size=64mb", "write_buffer.size=16mb", "logger.level=warn", "resp.number_of_shards=4"];
/// Of each of the two sides: enough for the last thousandth of a short lap.
const RATE_OPS_S: f64 = 450.0;
const CLIENTS: usize = 32;
/// Answers count from two seconds after the disk fell sick.
const WARM_UP: Duration = Duration::from_secs(2);
const P99_9_MAX: f64 = 2.0;

fn lengths(options: &LiveOptions) -> (Lengths, usize) {
    let (window_s, laps) = if options.size == LiveSize::Quick { (25, 2) } else { (60, 5) };
    let lengths = Lengths { warm_up: WARM_UP, window: Duration::from_secs(window_s) };
    (lengths, options.laps.unwrap_or(laps))
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    2 * lengths(options).1
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let folder = options.folder.join(THREE);
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let spec = ClusterSpec { data_nodes: 3, data_share: 0.0, coordinator_share: None, settings };
    let cluster = Cluster::start(&spec, &options.binary, &folder)?;
    let Some(disk) = SlowDisk::make(&folder, &cluster.guardian).map(Arc::new) else {
        context.note(format!("{NAME}: left out, as control groups cannot hold a disk here"));
        return Ok(());
    };
    let failed = |error| LabError::live("hold the disk".to_owned(), error);
    cluster.set(&BTreeMap::from([("cluster.default_number_of_replicas".to_owned(), json!(2))]))?;
    let rows = Rows::new(KEYS, VALUE_BYTES, 0.5, options.seed);
    let addresses = cluster.addresses();
    fill_all(&addresses[0], &rows, KEYS, options.seed)?;
    await_copies(&cluster, PARTITIONS * cluster.nodes.len())?;
    let sick = cluster.nodes.len() - 1;
    disk.hold(cluster.nodes[sick].process()).map_err(failed)?;
    let ((lengths, count), mut laps) = (lengths(options), ARMS.map(|_| Vec::new()));
    let pace = Pace::Open { rate_ops_s: RATE_OPS_S, clients: CLIENTS };
    let there = Ask {
        addresses: vec![addresses[sick].clone()],
        pace,
        lengths,
        ..Ask::closed(&cluster, &rows, CLIENTS)
    };
    let elsewhere = Ask { addresses: addresses[..sick].to_vec(), ..there.clone() };
    let watch = Stopping(Arc::clone(&options.stop));
    for block in 0..count {
        for is_sick in method::order(2, block).into_iter().map(|at| at == 1) {
            cluster.await_rest(&REST, &options.stop);
            if context.is_stopped() {
                return Err(LabError::Stopped);
            }
            disk.limit(is_sick.then_some(DISK_BYTES_S)).map_err(failed)?;
            let both = both(options, &there, &elsewhere, block)?;
            disk.limit(None).map_err(failed)?;
            let at = if is_sick { 2 } else { 0 };
            for (into, lap) in laps[at..].iter_mut().zip(both) {
                into.push(lap);
            }
            let state = if is_sick { "sick" } else { "healthy" };
            context.step(&format!("{NAME} {state} lap {}", block + 1));
            wait_until(Instant::now() + WARM_UP, &watch);
        }
    }
    context.note(format!(
        "{NAME}: three copies, values of {} KB, reads and writes alike, {RATE_OPS_S:.0}/s at the node `es{}`, whose \
         disk then takes {} KB/s of writes, and as many at the other two; the first of those keeps the log",
        VALUE_BYTES / 1_024,
        sick + 1,
        DISK_BYTES_S / 1_000
    ));
    let fault = plan::held_disk(DISK_BYTES_S);
    plan::tell(context, found, Heading { name: NAME, fault, pace }, &ARMS.map(plan::arm), &laps);
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

/// Laps at both sides at once.
fn both(
    options: &LiveOptions,
    there: &Ask<'_>,
    elsewhere: &Ask<'_>,
    block: usize,
) -> Result<[Measured; 2], LabError> {
    thread::scope(|scope| {
        let other = scope.spawn(|| plan::lap(options, elsewhere, block));
        let there = plan::lap(options, there, block)?;
        let other = other.join().unwrap_or(Err(LabError::Stopped))?;
        Ok([there, other])
    })
}

fn findings(found: &Found) -> Vec<Finding> {
    let of = |arm: &str| plan::figure(found, NAME, arm, "latency_ms.p99_9");
    let pairs = [(ARMS[2], ARMS[0]), (ARMS[3], ARMS[1])];
    let mut told: Vec<Finding> = pairs
        .iter()
        .map(|(sick, healthy)| {
            let what = format!("{NAME}: p99.9 (ms), {sick} to {healthy}");
            plan::aim(what, of(sick), of(healthy), (false, P99_9_MAX))
        })
        .collect();
    for (arm, _) in pairs {
        let share = |path| plan::figure(found, NAME, arm, path).unwrap_or(0.0);
        let all = (share("refused_rate") + share("error_rate")) * 100.0;
        let what = format!("{NAME}: refused or failed, {arm}");
        told.push(Finding::told(what, Some(format!("{all:.2} %"))));
    }
    told
}
