//! `remote-recovery`: how long a follower takes to copy its leader's tables over an ocean. The
//! study's runs at their full size, by a model of three unknowns that is fitted on three of them: what
//! a chunk takes beside the trip, what a shard takes in, what all together are carried at. Then the
//! product's own window, over links that the study did not have, and a day without a link (`outage.rs`).
//!
//! Compression, indexing meanwhile and files of their own size are not modelled.

mod copies;
mod outage;

use std::collections::BTreeMap;

use copies::{Arm, Copied, Path, raw_seconds, run};
use outage::{How, Level, Outage};

use crate::published::{RECOVERY, RecoveryRun};
use crate::result::{
    FaultNote, Finding, Lap, LoadNote, Mode, RecoveryLap, Results, SCHEMA_VERSION, Scenario,
    Series, Variant,
};
use crate::{LabError, Progress, SimulateOptions};

const MIB: f64 = (1u64 << 20) as f64;
/// Megabytes a second of a gigabit a second.
const MB_S_OF_GB_S: f64 = 125.0;
/// What is copied to many nodes.
const LARGE_BYTES: u64 = 100_000_000_000;
/// What a chunk takes beside the trip in ours: a question of gRPC and a read.
const OUR_SERVICE_NS: f64 = 1e6;
/// Bytes of a row, about: a document of `http_logs`.
const ROW_BYTES: f64 = 200.0;
/// Days without a link: what is written meanwhile, bytes a second, and which part of the table that changes
/// where it adds nothing.
const OUTAGES: [(&str, f64, Option<f64>); 3] = [
    ("outage-24h-0.2mbs", 0.2e6, None),
    ("outage-24h-2mbs", 2e6, None),
    ("outage-24h-2mbs-on-5-percent", 2e6, Some(0.05)),
];
/// The runs that the model is fitted on, and those that it is judged by.
const FITTED: [(&str, &str); 3] =
    [("geopoint", "parallel recovery"), ("http_logs", "run 3"), ("http_logs", "run 5")];
const JUDGED: [&str; 2] = ["run 4", "run 7, Java 11"];
const WITHIN: f64 = 0.15;
const SHARE: f64 = 0.95;

/// What the study's runs depend on and the study does not say.
#[derive(Clone, Copy, Debug)]
struct Unknowns {
    service_ms: f64,
    shard_mb_s: f64,
    link_mb_s: f64,
}

impl Unknowns {
    fn path(&self) -> Path {
        Path {
            trip_ns: RECOVERY.trip_ms * 1_000_000,
            service_ns: self.service_ms * 1e6,
            shard_bytes_s: self.shard_mb_s * 1e6,
            link_bytes_s: self.link_mb_s * 1e6,
        }
    }

    fn fitted(&self) -> BTreeMap<String, f64> {
        let named = [
            ("service_ms", self.service_ms),
            ("shard_mb_s", self.shard_mb_s),
            ("link_mb_s", self.link_mb_s),
        ];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn each(&mut self) -> [&mut f64; 3] {
        [&mut self.service_ms, &mut self.shard_mb_s, &mut self.link_mb_s]
    }
}

/// Runs the experiment.
///
/// # Errors
/// A caller that wants no more.
pub(super) fn simulate(
    options: &SimulateOptions,
    progress: &mut dyn Progress,
) -> Result<(Results, Vec<Series>, Vec<Finding>), LabError> {
    let unknowns = fit();
    let mut findings = vec![Finding::told(
        "fitted to three runs of the study".to_owned(),
        Some(format!(
            "{:.0} ms a chunk beside the trip, {:.1} MB/s a shard, {:.1} MB/s in all",
            unknowns.service_ms, unknowns.shard_mb_s, unknowns.link_mb_s
        )),
    )];
    let links = links(options);
    let steps = 2 + links.len();
    let go_on = |progress: &mut dyn Progress, step: usize, what: &str| {
        if progress.step(step, steps, what) { Ok(()) } else { Err(LabError::Stopped) }
    };
    go_on(progress, 0, "the study's runs")?;
    let mut scenarios = study(&unknowns, &mut findings);
    for (step, link) in links.iter().enumerate() {
        go_on(progress, step + 1, &link.name)?;
        scenarios.push(beyond(link, &mut findings));
    }
    go_on(progress, steps - 1, "a day without a link")?;
    for (name, written_bytes_s, changes_part) in OUTAGES {
        scenarios.push(without_link(name, written_bytes_s, changes_part, &mut findings));
    }
    for missing in ["deflate", "while indexing", "chunks of one file at a time"] {
        findings.push(Finding::told(missing.to_owned(), Some("not simulated".to_owned())));
    }
    let results = Results {
        schema_version: SCHEMA_VERSION,
        experiment: options.experiment.clone(),
        mode: Mode::Simulated,
        host: "simulated".to_owned(),
        seed: options.seed,
        notes: vec![RECOVERY.note.clone(), format!("Published: {}", RECOVERY.source)],
        run: None,
        scenarios,
        comparisons: Vec::new(),
    };
    Ok((results, Vec::new(), findings))
}

/// The shards of a track; `small-nodes` has those of `http_logs`, one a table.
fn shards(track: &str) -> Vec<u64> {
    let (indices, primaries) = match track {
        "small-nodes" => (&RECOVERY.indices_mib["http_logs"], 1),
        track => (&RECOVERY.indices_mib[track], RECOVERY.primaries),
    };
    let of = |mib: &f64| {
        let bytes = plimsoll_control::average::whole(mib * MIB / primaries as f64);
        std::iter::repeat_n(bytes, primaries)
    };
    indices.iter().flat_map(of).collect()
}

fn nodes(track: &str) -> usize {
    if track == "small-nodes" { 1 } else { 3 }
}

fn modelled(unknowns: &Unknowns, of: &RecoveryRun) -> Copied {
    let arm = Arm::Published { chunk_bytes: of.chunk_kib << 10, chunks: of.chunks };
    run(&unknowns.path(), &shards(&of.track), nodes(&of.track), arm)
}

/// The unknowns with the least sum of squared errors, one after another in ever smaller steps.
fn fit() -> Unknowns {
    let runs: Vec<&RecoveryRun> = RECOVERY
        .runs
        .iter()
        .filter(|run| FITTED.contains(&(run.track.as_str(), run.published_as.as_str())))
        .collect();
    let error = |unknowns: &Unknowns| -> f64 {
        let of = |run: &&RecoveryRun| (modelled(unknowns, run).seconds / run.seconds).ln().powi(2);
        runs.iter().map(of).sum()
    };
    let mut best = Unknowns { service_ms: 100.0, shard_mb_s: 30.0, link_mb_s: 90.0 };
    let mut least = error(&best);
    for step in [1.2, 1.05, 1.01] {
        let mut is_better = true;
        while is_better {
            is_better = false;
            for (at, factor) in (0..3).flat_map(|at| [(at, step), (at, 1.0 / step)]) {
                let mut other = best;
                *other.each()[at] *= factor;
                let found = error(&other);
                if found < least * 0.999 {
                    (best, least, is_better) = (other, found, true);
                }
            }
        }
    }
    best
}

/// The published runs beside what the model says of them.
fn study(unknowns: &Unknowns, findings: &mut Vec<Finding>) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for published in &RECOVERY.runs {
        let copied = modelled(unknowns, published);
        let off = copied.seconds / published.seconds - 1.0;
        let what = format!("{}, {} ({})", published.track, published.name, published.published_as);
        let said = format!("{:.0} s ({:+.0} %)", copied.seconds, off * 100.0);
        findings.push(match JUDGED.contains(&published.published_as.as_str()) {
            true => Finding::compare(
                what,
                format!("{:.0} s within 15 %", published.seconds),
                Some(said),
                Some(off.abs() <= WITHIN),
            ),
            false => Finding {
                aim: format!("{:.0} s", published.seconds),
                ..Finding::told(what, Some(said))
            },
        });
        let scenario = match scenarios.iter_mut().find(|it| it.name == published.track) {
            Some(scenario) => scenario,
            None => {
                scenarios.push(scenario(&published.track, unknowns.fitted()));
                scenarios.last_mut().expect("it was just added")
            }
        };
        if scenario.variants.iter().all(|it| it.name != published.name) {
            let path = unknowns.path();
            scenario.variants.push(variant(
                &published.name,
                &path,
                &shards(&published.track),
                copied,
            ));
        }
    }
    scenarios
}

/// A link that the study did not have.
struct Beyond {
    name: String,
    trip_ms: u64,
    mb_s: f64,
    nodes: usize,
    shards: Vec<u64>,
}

fn links(options: &SimulateOptions) -> Vec<Beyond> {
    let http_logs = |trip_ms: u64, gb_s: u64| Beyond {
        name: format!("http_logs-{gb_s}gbs-{trip_ms}ms"),
        trip_ms,
        mb_s: MB_S_OF_GB_S * gb_s as f64,
        nodes: 3,
        shards: shards("http_logs"),
    };
    let mut links =
        vec![http_logs(20, 1), http_logs(100, 1), http_logs(200, 1), http_logs(100, 10)];
    let nodes = options.nodes.unwrap_or(50);
    links.push(Beyond {
        name: format!("{nodes}-nodes-10gbs-100ms"),
        nodes,
        // Two shards a node.
        shards: vec![LARGE_BYTES / (2 * nodes as u64); 2 * nodes],
        ..http_logs(100, 10)
    });
    links
}

/// The arms of the study and ours over one link, where a shard is no bound.
fn beyond(link: &Beyond, findings: &mut Vec<Finding>) -> Scenario {
    let path = Path {
        trip_ns: link.trip_ms * 1_000_000,
        service_ns: OUR_SERVICE_NS,
        shard_bytes_s: f64::INFINITY,
        link_bytes_s: link.mb_s * 1e6,
    };
    let bytes = link.shards.iter().sum();
    let raw = raw_seconds(&path, bytes);
    let mut scenario = scenario(&link.name, BTreeMap::new());
    let mut best: Option<(f64, &str)> = None;
    for (name, kib, chunks) in [("1m-5", 1024, 5), ("5m-5", 5120, 5), ("1m-10", 1024, 10)] {
        let arm = Arm::Published { chunk_bytes: kib << 10, chunks };
        let copied = run(&path, &link.shards, link.nodes, arm);
        scenario.variants.push(variant(name, &path, &link.shards, copied));
        if best.is_none_or(|(seconds, _)| copied.seconds < seconds) {
            best = Some((copied.seconds, name));
        }
    }
    let ours = run(&path, &link.shards, link.nodes, Arm::Measured);
    scenario.variants.push(variant("ours", &path, &link.shards, ours));
    let share = raw / ours.seconds;
    findings.push(Finding::compare(
        format!("{}: share of a raw copy, ours", link.name),
        format!("at least {SHARE}"),
        Some(format!(
            "{share:.3} ({:.1} s of {raw:.1} s), at most {:.0} MB under way",
            ours.seconds,
            ours.most_bytes as f64 / 1e6
        )),
        Some(share >= SHARE),
    ));
    if let Some((seconds, name)) = best {
        findings.push(Finding::compare(
            format!("{}: ours against the best fixed arm", link.name),
            format!("within 5 % of {name} ({seconds:.1} s)"),
            Some(format!(
                "{:.1} s ({:+.1} %)",
                ours.seconds,
                (ours.seconds / seconds - 1.0) * 100.0
            )),
            Some(ours.seconds <= seconds * 1.05),
        ));
    }
    scenario
}

/// The product and a leader that keeps its history by time, after a day without a link.
fn without_link(
    name: &str,
    written_bytes_s: f64,
    changes_part: Option<f64>,
    findings: &mut Vec<Finding>,
) -> Scenario {
    let shards = shards("http_logs");
    let outage = Outage {
        partitions: shards.len(),
        table_bytes: shards.iter().sum::<u64>() as f64,
        row_bytes: ROW_BYTES,
        written_bytes_s,
        changes_part,
        link_bytes_s: MB_S_OF_GB_S * 1e6,
    };
    let (ours, by_time) = (outage.ours(), outage.by_time());
    let said = |level: &Level| {
        let how = match level.how {
            How::Log => "by the log",
            How::Difference => "by difference",
            How::Files => "all files anew",
        };
        format!(
            "{how}{}, {:.1} GB sent in {:.0} s, {:.0} GB kept",
            if level.by_hand { " once ordered" } else { "" },
            level.sent_bytes / 1e9,
            level.seconds,
            level.kept_bytes / 1e9
        )
    };
    findings.push(Finding {
        aim: format!("history kept by time: {}", said(&by_time)),
        ..Finding::told(format!("{name}: level again, ours"), Some(said(&ours)))
    });
    let mut scenario = scenario(name, [("written_bytes_s".to_owned(), written_bytes_s)].into());
    for (name, level) in [("kept-by-time", by_time), ("ours", ours)] {
        let recovery = RecoveryLap {
            recovery_seconds: level.seconds,
            wire_bytes: plimsoll_control::average::whole(level.sent_bytes),
            ..RecoveryLap::default()
        };
        let lap = Lap { valid: true, recovery: Some(recovery), ..Lap::default() };
        let (name, settings) = (name.to_owned(), BTreeMap::new());
        scenario.variants.push(Variant { name, settings, laps: vec![lap], pooled: None });
    }
    scenario
}

fn scenario(name: &str, fit: BTreeMap<String, f64>) -> Scenario {
    let fault = FaultNote { kind: "wide-area link".to_owned(), fit };
    Scenario { name: name.to_owned(), fault, load: LoadNote::Clients(0), variants: Vec::new() }
}

fn variant(name: &str, path: &Path, shards: &[u64], copied: Copied) -> Variant {
    let bytes = shards.iter().sum();
    let recovery = RecoveryLap {
        recovery_seconds: copied.seconds,
        share_of_raw: raw_seconds(path, bytes) / copied.seconds,
        wire_bytes: bytes,
        ..RecoveryLap::default()
    };
    let lap = Lap { valid: true, n: copied.chunks, recovery: Some(recovery), ..Lap::default() };
    let settings = BTreeMap::new();
    Variant { name: name.to_owned(), settings, laps: vec![lap], pooled: None }
}

#[cfg(test)]
mod tests;
