//! This store on the study's machines: what its requests cost a processor, measured on two cores, times the
//! cores that the study had, beside what network, disks and the log would let through. A chain of
//! assumptions, told link by link; nothing here was measured at that size.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Told, scenario, study, variant};
use crate::LabError;
use crate::result::{Finding, LoadNote};
use crate::sim::levels::{Arm, Asked, Costs, LevelsSpec, Machine};

pub(super) const STEPS: usize = 2;
/// Processor time of a GET and of a SET of 1 KB at one node with its defaults, µs, under YCSB with 24
/// threads on two processors (reads 26 to 40, of which the least is nearest to an unshared machine).
pub(super) const READ_US: f64 = 25.0;
pub(super) const WRITE_US: f64 = 67.0;
/// Of a write, what another copy does of it: `log-commit` and `apply` are 8 and 27 % of it (a
/// profile of the same run).
const OTHER_COPY: f64 = 0.35;
/// Compaction beside a sustained write, µs: 150 in all over 3,000,000 records loaded and 5,000,000 updates of
/// them, of which one node's write is 67.
const COMPACTION_US: f64 = 83.0;
const COPIES: f64 = 3.0;
const NODES: f64 = 5.0;
const CORES: f64 = 20.0;
/// 10 GbE, bytes a second, and what a request takes of it with its frame.
const LINK_BYTES_S: f64 = 1.25e9;
const FRAME_BYTES: f64 = 1_200.0;
const DISKS_BYTES_S: f64 = 8.0 * 400e6;
/// Bytes written for each that comes in at a copy: the log, a flush, and compactions.
const AMPLIFICATION: f64 = 10.0;
const ROW_BYTES: f64 = 1_064.0;

/// Of a write to three copies, at all of them, without compaction.
fn write_us() -> f64 {
    WRITE_US * (1.0 + (COPIES - 1.0) * OTHER_COPY)
}

/// Tells the chain and its end.
pub(super) fn tell(told: &mut Told<'_>) -> Result<(), LabError> {
    let cores = NODES * CORES;
    let sustained_us = write_us() + COPIES * COMPACTION_US;
    let reads_s = cores * 1e6 / READ_US;
    let links = NODES * LINK_BYTES_S;
    let chain = [
        ("a read costs its server", format!("{READ_US:.0} us of processor, measured on two")),
        ("a write costs its first copy", format!("{WRITE_US:.0} us, measured on two processors")),
        (
            "a write costs each other copy",
            format!("{:.0} us: log and apply", WRITE_US * OTHER_COPY),
        ),
        (
            "compaction of a write, each copy",
            format!("{COMPACTION_US:.0} us: what a sustained load cost above that"),
        ),
        (
            "the study's machines",
            format!(
                "{NODES:.0} machines of {CORES:.0} cores, as fast as the two that were measured"
            ),
        ),
        ("reads, by processors", format!("{reads_s:.0}/s")),
        ("reads, by the network", format!("{:.0}/s", links / FRAME_BYTES)),
        ("writes, by processors", format!("{:.0}/s without compaction", cores * 1e6 / write_us())),
        ("writes, by processors, sustained", format!("{:.0}/s", cores * 1e6 / sustained_us)),
        ("writes, by the network", format!("{:.0}/s", links / (FRAME_BYTES * COPIES))),
        (
            "writes, by the disks",
            format!("{:.0}/s", NODES * DISKS_BYTES_S / (ROW_BYTES * COPIES * AMPLIFICATION)),
        ),
    ];
    for (what, said) in chain {
        told.findings.push(assumed(what, said));
    }
    let mut scenario = scenario("full-size", LoadNote::Clients(150), BTreeMap::new());
    scenario.fault.kind = "assumed".to_owned();
    for (name, reads, threads, study_s) in
        [("1:0", 1.0, 150, 360_642.0), ("0:1", 0.0, 45, 56_953.0)]
    {
        let spec = told.lengths.of_point(spec(reads, threads));
        let found = told.run(&spec);
        let rate_s = found.reads_s() + found.writes_s();
        let said = format!("{rate_s:.0}/s by the model; Pegasus 2.4.0 had {study_s:.0}/s");
        told.findings.push(assumed(&format!("{name} with the study's {threads} threads"), said));
        let settings = [("threads".to_owned(), json!(threads))].into();
        scenario.variants.push(variant(name, settings, &found));
        told.step(&format!("full size {name}"))?;
    }
    told.scenarios.push(scenario);
    Ok(())
}

fn assumed(what: &str, said: String) -> Finding {
    let aim = "an assumption, not a measurement".to_owned();
    Finding { aim, ..Finding::told(format!("this store at full size: {what}"), Some(said)) }
}

/// The model with this store's costs: every copy's log is waited for, one sync for all that wait.
fn spec(reads: f64, threads: usize) -> LevelsSpec {
    let mut shape = study::shape(100e9 / 64.0);
    shape.log_is_synced = true;
    LevelsSpec {
        machine: Machine { cpus: CORES * 1.3, disks: 8, disk_bytes_s: 400e6 },
        shape,
        costs: Costs { read_us: READ_US, write_us: write_us() },
        nodes: 5,
        partitions: 64,
        copies: 3,
        client_machines: 3,
        asked: Asked::Closed { threads },
        reads,
        value_bytes: 1_024.0,
        is_zipfian: true,
        arm: Arm::Ours,
        warm_up_ns: 0,
        window_ns: 0,
    }
}
