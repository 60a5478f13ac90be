//! What holds background work back, on one disk of 60 MB/s with a log that is waited for: nothing,
//! RocksDB's limiter at the study's ratio to what comes in, the same tuned by itself, and the node's own law.
//! First the most that holds in a closed loop, then three quarters of it by the clock, as the live lab has
//! it. The study's bars stand beside it: their machine had eight disks, and no write waited for any.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Told, scenario, series, variant};
use crate::LabError;
use crate::published::CURVES;
use crate::result::{Finding, LoadNote};
use crate::sim::SECOND_NS;
use crate::sim::levels::{Arm, Asked, Costs, LevelsSpec, Machine, Outcome, Shape};

pub(super) const STEPS: usize = 6;
const MB: f64 = 1e6;
/// What a write takes in: a value of 1 KB, its key, and what a row has beside them.
const ROW_BYTES: f64 = 1_064.0;
/// The study's limit over what came in at a node.
const RATIO: f64 = 19.0;
const CLIENTS: usize = 64;
/// The part of the most that is asked for.
const PART: f64 = 0.75;
const WARM_UP_S: u64 = 10;
const GAP_MS_MAX: f64 = 100.0;
/// A quarter of the pieces that stores hand to a disk: what only the simulator tries.
const SMALL_BYTES: f64 = 262_144.0;

fn spec(arm: Arm, asked: Asked, window_s: u64) -> LevelsSpec {
    LevelsSpec {
        machine: Machine { cpus: 2.0, disks: 1, disk_bytes_s: 60.0 * MB },
        // The live lab's: 600,000 rows of 1 KB in four partitions, and a write buffer of 32 MB.
        shape: Shape {
            memtable_bytes: 16.0 * MB,
            memtables_max: 64,
            budget_bytes: Some(32.0 * MB),
            level_0: (4, 400),
            level_base_bytes: 32.0 * MB,
            level_ratio: 10.0,
            file_bytes: 8.0 * MB,
            rows_bytes: 160.0 * MB,
            flush_threads: 1,
            compaction_threads: 1,
            sync_bytes: 1_048_576.0,
            log_is_synced: true,
        },
        costs: Costs::of_one_copy(super::full_size::READ_US, super::full_size::WRITE_US),
        nodes: 1,
        partitions: 4,
        copies: 1,
        client_machines: 1,
        asked,
        reads: 0.0,
        value_bytes: 1_024.0,
        is_zipfian: false,
        arm,
        warm_up_ns: WARM_UP_S * SECOND_NS,
        window_ns: window_s * SECOND_NS,
    }
}

/// Runs all arms and judges ours.
pub(super) fn compare(told: &mut Told<'_>) -> Result<(), LabError> {
    let window_s = told.lengths.limiter_s;
    let closed = Asked::Closed { threads: CLIENTS };
    let most_s = told.run(&spec(Arm::Off, closed, window_s)).writes_s();
    told.step("limiter: the most")?;
    let rate_s = most_s * PART;
    let bytes_s = plimsoll_control::average::whole(rate_s * ROW_BYTES * RATIO);
    let arms = [
        ("off", Arm::Off, None),
        ("limiter", Arm::Limiter { bytes_s }, None),
        ("auto", Arm::Auto { bytes_s }, None),
        ("ours", Arm::Ours, None),
        ("ours-small-pieces", Arm::Ours, Some(SMALL_BYTES)),
    ];
    let mut scenario = scenario("limiter", LoadNote::RateOpsS(rate_s), BTreeMap::new());
    scenario.fault.kind = "a disk of 60 MB/s".to_owned();
    let mut found = Vec::new();
    for (name, arm, pieces) in arms {
        let mut spec = spec(arm, Asked::Open { rate_s }, window_s);
        spec.shape.sync_bytes = pieces.unwrap_or(spec.shape.sync_bytes);
        let outcome = told.run(&spec);
        let limit = matches!(arm, Arm::Limiter { .. } | Arm::Auto { .. }).then_some(bytes_s);
        let settings = [("limit_bytes_s".to_owned(), json!(limit))].into();
        scenario.variants.push(variant(name, settings, &outcome));
        told.findings.push(bar(name, &outcome));
        told.series.push(series("limiter", name, &outcome));
        found.push((name, outcome));
        told.step(&format!("limiter: {name}"))?;
    }
    told.scenarios.push(scenario);
    let of = |name: &str| found.iter().find(|it| it.0 == name).map(|it| &it.1);
    if let Some((ours, auto)) = of("ours").zip(of("auto")) {
        told.findings.extend(aims(ours, auto, rate_s));
    }
    let p99_9 = |of: &Outcome| of.writes_us.value_at_quantile(0.999) as f64;
    for (name, to) in [("ours", "off"), ("ours-small-pieces", "ours")] {
        let both = of(name).map(p99_9).zip(of(to).map(p99_9));
        told.findings.push(Finding::told(
            format!("limiter: p99.9 of writes, {name} to {to}"),
            both.map(|(it, other)| format!("{:.2}", it / other.max(1.0))),
        ));
    }
    Ok(())
}

/// One arm beside the study's bar of that name.
fn bar(name: &str, found: &Outcome) -> Finding {
    let ms = |quantile: f64| found.writes_us.value_at_quantile(quantile) as f64 / 1e3;
    let said = format!(
        "p99 {:.1} ms, p99.9 {:.1} ms, longest gap {:.0} ms, space {:.0} MB, debt left {:.2} (at most \
         {:.2}), level 0 at most {} files, {} stops, {:.0}/s",
        ms(0.99),
        ms(0.999),
        found.longest_gap_ns as f64 / 1e6,
        found.space_bytes / MB,
        found.debt_left,
        found.debt_peak,
        found.level_0_max,
        found.stops,
        found.writes_s()
    );
    let published = CURVES.limiter.iter().find(|it| it.name == name);
    let aim = published.map_or_else(
        || "-".to_owned(),
        |it| {
            let (p99_ms, p99_9_ms) = (it.p99_us / 1e3, it.p99_9_us / 1e3);
            format!("study: p99 {p99_ms:.1} ms, p99.9 {p99_9_ms:.1} ms")
        },
    );
    Finding { aim, ..Finding::told(format!("limiter: {name}, simulated"), Some(said)) }
}

fn aims(ours: &Outcome, auto: &Outcome, rate_s: f64) -> Vec<Finding> {
    let p99_9 = |of: &Outcome| of.writes_us.value_at_quantile(0.999) as f64 / 1e3;
    let tail = p99_9(ours) / p99_9(auto).max(1e-3);
    let space = ours.space_bytes / auto.space_bytes.max(1.0);
    let gap_ms = ours.longest_gap_ns as f64 / 1e6;
    let aim = |what: &str, aim: String, said: String, is_met: bool| {
        Finding::compare(format!("limiter: {what}"), aim, Some(said), Some(is_met))
    };
    vec![
        aim(
            "p99.9 of writes, ours to auto",
            "at most 0.5".to_owned(),
            format!("{tail:.2} ({:.1} ms of {:.1})", p99_9(ours), p99_9(auto)),
            tail <= 0.5,
        ),
        aim(
            "rate, ours to what was asked",
            "not below by more than 2 %".to_owned(),
            format!("{:.0}/s of {rate_s:.0}", ours.writes_s()),
            ours.writes_s() >= 0.98 * rate_s,
        ),
        aim("space, ours to auto", "at most 1.1".to_owned(), format!("{space:.2}"), space <= 1.1),
        aim(
            "longest time without an answered write, ours",
            format!("below {GAP_MS_MAX} ms"),
            format!("{gap_ms:.0} ms"),
            gap_ms < GAP_MS_MAX,
        ),
        aim("stops of the store, ours", "none".to_owned(), ours.stops.to_string(), ours.stops == 0),
    ]
}
