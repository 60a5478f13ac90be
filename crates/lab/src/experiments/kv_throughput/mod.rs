//! `kv-throughput`: the key-value study by a model of a store of levels. Two constants of each version are
//! fitted to one row of reads and one of writes; everything else is predicted, and its error is printed
//! beside it. Then the arms that hold background work back, on one slow disk, and this store on the study's
//! machines. Rows that break Little's law are told and do not count.
//!
//! Not modelled: values of other sizes, multi-get, versions whose reads break Little's law (2.3.0), tails of
//! reads that come from the block cache.

mod full_size;
mod limiter;
mod study;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::published::ROWS;
use crate::result::{
    FaultNote, Finding, Lap, LoadNote, Mode, QUANTILES, Results, RowsCourse, RowsLap,
    SCHEMA_VERSION, Scenario, Series, Spread, Variant,
};
use crate::sim::levels::{LevelsSpec, Outcome, run};
use crate::sim::{SECOND_NS, derive};
use crate::{LabError, Progress, SimulateOptions, Size, stats};

/// What is simulated of a point before it is measured, and while it is, in seconds.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    warm_up_s: u64,
    window_s: u64,
    /// Of the arms on a slow disk.
    limiter_s: u64,
}

impl Lengths {
    fn of(size: Size) -> Self {
        let (warm_up_s, window_s, limiter_s) = match size {
            Size::Quick => (1, 1, 20),
            Size::Study => (1, 3, 300),
            Size::Full => (2, 10, 3_600),
        };
        Self { warm_up_s, window_s, limiter_s }
    }

    fn of_point(&self, spec: LevelsSpec) -> LevelsSpec {
        LevelsSpec {
            warm_up_ns: self.warm_up_s * SECOND_NS,
            window_ns: self.window_s * SECOND_NS,
            ..spec
        }
    }
}

/// Where scenarios and findings are gathered, and how far it is.
struct Told<'a> {
    progress: &'a mut dyn Progress,
    lengths: Lengths,
    seed: u64,
    is_quick: bool,
    done: usize,
    steps: usize,
    scenarios: Vec<Scenario>,
    series: Vec<Series>,
    findings: Vec<Finding>,
}

impl Told<'_> {
    /// One more step is made.
    fn step(&mut self, what: &str) -> Result<(), LabError> {
        self.done += 1;
        let steps = self.steps.max(self.done);
        if self.progress.step(self.done, steps, what) { Ok(()) } else { Err(LabError::Stopped) }
    }

    /// All variants of everything meet the same keys.
    fn run(&self, spec: &LevelsSpec) -> Outcome {
        let found = run(spec, derive(self.seed, 0));
        assert!(found.lost() < 1e-6, "bytes were lost: {}", found.lost());
        found
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
    let is_quick = options.size == Size::Quick;
    let mut told = Told {
        progress,
        lengths: Lengths::of(options.size),
        seed: options.seed,
        is_quick,
        done: 0,
        steps: study::steps(is_quick) + limiter::STEPS + full_size::STEPS,
        scenarios: Vec::new(),
        series: Vec::new(),
        findings: Vec::new(),
    };
    study::predict(&mut told)?;
    limiter::compare(&mut told)?;
    full_size::tell(&mut told)?;
    let breaks = ROWS.breaks().join("; ");
    let notes = vec![
        "A prediction by a model, not a measurement.".to_owned(),
        study::ASSUMED.to_owned(),
        ROWS.note.clone(),
        format!("Rows of the study that break Little's law, and are not counted: {breaks}"),
        format!("Published: {}", ROWS.source),
    ];
    let Told { scenarios, series, findings, .. } = told;
    let results = Results {
        schema_version: SCHEMA_VERSION,
        experiment: options.experiment.clone(),
        mode: Mode::Simulated,
        host: "simulated".to_owned(),
        seed: options.seed,
        notes,
        run: None,
        scenarios,
        comparisons: Vec::new(),
    };
    Ok((results, series, findings))
}

/// The course of a run, for the pictures.
fn series(scenario: &str, variant: &str, found: &Outcome) -> Series {
    let ms = |quantile: &f64| found.writes_us.value_at_quantile(*quantile) as f64 / 1e3;
    Series {
        scenario: scenario.to_owned(),
        variant: variant.to_owned(),
        latency_ms: QUANTILES.iter().map(ms).collect(),
        at_s: (1u32..).zip(&found.course).map(|(at, _)| f64::from(at)).collect(),
        answered_s: found.course.iter().map(|second| second.writes as f64).collect(),
        queued: Vec::new(),
        nodes: Vec::new(),
        counts: [("events".to_owned(), found.events as f64)].into(),
        log_checksum: format!("{:016x}", found.checksum),
    }
}

/// A variant of one lap.
fn variant(name: &str, settings: BTreeMap<String, Value>, found: &Outcome) -> Variant {
    Variant { name: name.to_owned(), settings, laps: vec![lap(found)], pooled: None }
}

fn lap(found: &Outcome) -> Lap {
    let (reads, writes) = (found.reads_us.len(), found.writes_us.len());
    let rate = found.reads_s() + found.writes_s();
    let mut all = found.reads_us.clone();
    // Both have the bounds of every histogram here.
    let _ = all.add(&found.writes_us);
    let asked = reads + writes + found.refused;
    let mut course = RowsCourse::default();
    for (at_s, second) in (1u32..).zip(&found.course) {
        course.at_s.push(f64::from(at_s));
        course.written_bytes.push(second.written_bytes);
        course.p99_ms.push(second.p99_ms);
        course.debt.push(second.debt);
        course.space_bytes.push(second.space_bytes);
    }
    let has_writes = writes > 0;
    Lap {
        valid: true,
        n: asked,
        throughput_ops_s: Spread { min: rate, median: rate, mean: rate, max: rate },
        latency_ms: stats::quantiles(&all),
        refused_rate: found.refused as f64 / asked.max(1) as f64,
        cpu_s: Some(found.cpu_s),
        rows: Some(RowsLap {
            reads_ms: stats::quantiles(&found.reads_us),
            writes_ms: stats::quantiles(&found.writes_us),
            longest_gap_ms: has_writes.then_some(found.longest_gap_ns as f64 / 1e6),
            written_per_byte: found.written_per_byte,
            disk_peak: Some(found.disk_peak),
            space_bytes: Some(plimsoll_control::average::whole(found.space_bytes)),
            debt_left: Some(found.debt_left),
            debt_peak: Some(found.debt_peak),
            stops: Some(found.stops),
            course,
            ..RowsLap::default()
        }),
        ..Lap::default()
    }
}

fn scenario(name: &str, load: LoadNote, fit: BTreeMap<String, f64>) -> Scenario {
    let fault = FaultNote { kind: "none".to_owned(), fit };
    Scenario { name: name.to_owned(), fault, load, variants: Vec::new() }
}

#[cfg(test)]
mod tests;
