//! Scenario `limiter`: the tail of writes while files are rewritten, on a disk of so many bytes a second,
//! with RocksDB's limiters, with the node's own pacing and without. First the most that holds for a lap in
//! a closed loop, then three quarters of it in an open one, as Luo and Carey measure ("On Performance
//! Stability in LSM-based Storage Systems", VLDB 2019): what waits in a queue is seen there alone. Every
//! lap begins from the same files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::arms::{self, AUTO, OFF, OURS};
use super::course::{self, Answers};
use super::source::{READS, Rows, WRITES};
use super::store::{Figures, Store};
use crate::LabError;
use crate::live::context::{Arm, Context, TIMEOUT, comparisons, variants};
use crate::live::load::{Load, Pace};
use crate::live::measure::{self, Measured};
use crate::live::wire::Protocol;
use crate::live::{Found, LiveOptions, LiveSize, method};
use crate::result::{FaultNote, Finding, LoadNote, Mode, RowsCourse, RowsLap, Scenario};
use crate::sim::derive;
use crate::stats;

pub(super) const NAME: &str = "limiter";

const VALUE_BYTES: usize = 1_024;
/// Bytes of a key, about.
const KEY_BYTES: usize = 23;
/// Rows of the store: enough for three levels of files with the write buffer below.
const KEYS: u64 = 600_000;
/// Settings of all arms: files as small beside the rows as the study's were, so that a lap of seconds sees
/// all levels rewritten.
const SETTINGS: [&str; 4] =
    ["cache.size=64mb", "write_buffer.size=32mb", "logger.level=warn", "resp.number_of_shards=4"];
/// What the disk takes, bytes a second.
const DISK_BYTES_S: u64 = 60_000_000;
const CLIENTS: usize = 64;
/// The time over which the disk's use is told, s.
const PEAK_S: usize = 5;
/// The part of the most that is asked for.
const PART: f64 = 0.75;
/// The longest time without an answer that is aimed at.
const GAP_MS_MAX: f64 = 100.0;

/// How long laps are.
struct Lengths {
    warm_up: Duration,
    window: Duration,
    laps: usize,
}

fn lengths(options: &LiveOptions) -> Lengths {
    let of = |warm_up_s, window_s, laps| Lengths {
        warm_up: Duration::from_secs(warm_up_s),
        window: Duration::from_secs(window_s),
        laps: options.laps.unwrap_or(laps),
    };
    match options.size {
        LiveSize::Quick => of(5, 25, 3),
        LiveSize::Study | LiveSize::Full => of(10, 120, 5),
    }
}

fn names(options: &LiveOptions) -> Vec<&'static str> {
    let by_size: &[&'static str] = match options.size {
        LiveSize::Quick => &[OFF, AUTO, OURS],
        _ => &arms::NAMES,
    };
    match options.variants.is_empty() {
        true => by_size.to_vec(),
        false => arms::NAMES
            .into_iter()
            .filter(|name| *name == OFF || options.variants.iter().any(|it| it == name))
            .collect(),
    }
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    1 + lengths(options).laps * names(options).len()
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let (seed, lengths) = (options.seed, lengths(options));
    let rows = Rows::new(KEYS, VALUE_BYTES, 0.0, seed);
    context.progress.note(&format!("filling a store with {KEYS} rows of 1 KB"));
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let mut store = Store::start(&options.binary, &options.folder, settings)?;
    if store.disk.is_none() {
        context.note(format!("{NAME}: left out, as control groups cannot hold a disk here"));
        return Ok(());
    }
    store.prepare(&rows, KEYS, seed, &options.stop)?;
    let mut laps = Laps { context, store, rows, lengths, ingest_bytes_s: 0.0 };
    let most_ops_s = laps.most_ops_s()?;
    laps.context.step(&format!("{NAME}: the most, {most_ops_s:.0} writes/s"));
    let rate_ops_s = (most_ops_s * PART).max(1.0);
    laps.ingest_bytes_s = rate_ops_s * (VALUE_BYTES + KEY_BYTES) as f64;
    let arms = arms::arms(&names(options));
    let of_arms = laps.paired(&arms, Pace::Open { rate_ops_s, clients: CLIENTS })?;
    tell(laps.context, found, &arms, &of_arms, (most_ops_s, rate_ops_s));
    Ok(())
}

/// The laps of this scenario.
struct Laps<'a, 'b> {
    context: &'a mut Context<'b>,
    store: Store,
    rows: Rows,
    lengths: Lengths,
    /// What comes in, where that is known.
    ingest_bytes_s: f64,
}

impl Laps<'_, '_> {
    /// How many writes a second can be gone on with: what a lap of a closed loop takes, or what the disk
    /// takes of them with all that they have written anew, of which a short lap puts much off: that is
    /// waited for.
    fn most_ops_s(&mut self) -> Result<f64, LabError> {
        let arm = &arms::arms(&[OFF])[0];
        self.begin(arm)?;
        let told = self.store.told();
        let first = told.figures();
        let lap = self.measured(Pace::Closed { clients: CLIENTS }, 0)?;
        self.store.await_rest(&self.context.options.stop);
        let last = told.figures();
        self.store.end();
        let written = last.written_bytes.saturating_sub(first.written_bytes) as f64;
        let each = written / last.writes.saturating_sub(first.writes).max(1) as f64;
        let lasting = DISK_BYTES_S as f64 / each.max(1.0);
        Ok(lap.lap.throughput_ops_s.mean.min(lasting))
    }

    fn paired(&mut self, arms: &[Arm], pace: Pace) -> Result<Vec<Vec<Measured>>, LabError> {
        let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
        for block in 0..self.lengths.laps {
            for at in method::order(arms.len(), block) {
                if self.context.is_stopped() {
                    return Ok(all);
                }
                let lap = self.one(&arms[at], pace, block)?;
                self.context.step(&format!("{NAME} {} lap {}", arms[at].name, block + 1));
                all[at].push(lap);
            }
        }
        Ok(all)
    }

    /// A lap from the prepared files.
    fn one(&mut self, arm: &Arm, pace: Pace, block: usize) -> Result<Measured, LabError> {
        self.begin(arm)?;
        let lap = self.measured(pace, block);
        self.store.end();
        lap
    }

    fn begin(&mut self, arm: &Arm) -> Result<(), LabError> {
        let settings = arms::started_with(&arm.name, self.ingest_bytes_s);
        self.store.begin(&settings, Some(DISK_BYTES_S))?;
        self.store.cluster.set(&arm.settings)
    }

    fn measured(&mut self, pace: Pace, block: usize) -> Result<Measured, LabError> {
        let Lengths { warm_up, window, .. } = self.lengths;
        let options = self.context.options;
        let address = [self.store.resp()];
        let load = Load {
            addresses: &address,
            protocol: Protocol::Resp,
            greeting: b"",
            requests: &self.rows,
            pace,
            warm_up,
            window,
            timeout: TIMEOUT,
            seed: derive(options.seed, block as u64),
        };
        let answers = Answers::new(warm_up, Arc::clone(&options.stop));
        let told = self.store.told();
        let (mut measured, (course, first, last)) = thread::scope(|scope| {
            let watching = scope.spawn(|| course::watch(&answers, window, &|| told.figures()));
            let measured = measure::lap(&mut self.store.cluster, &load, &answers)?;
            Ok::<_, LabError>((measured, watching.join().unwrap_or_default()))
        })?;
        let mut of_rows = rows_lap(&measured, &course, (first, last));
        of_rows.longest_gap_ms = Some(answers.longest_gap().as_secs_f64() * 1e3);
        of_rows.log_bytes = Some(self.store.log_bytes());
        of_rows.course = course;
        measured.lap.rows = Some(of_rows);
        measured.block = block;
        Ok(measured)
    }
}

/// What a lap says of rows.
fn rows_lap(taken: &Measured, course: &RowsCourse, (first, last): (Figures, Figures)) -> RowsLap {
    let of_kind = |kind| taken.by_kind_us.get(&kind).map(stats::quantiles).unwrap_or_default();
    let writes = taken.by_kind_us.get(&WRITES).map_or(0, |it| it.len());
    let taken_bytes = writes * (VALUE_BYTES + KEY_BYTES) as u64;
    let written = last.written_bytes.saturating_sub(first.written_bytes);
    let peak = |of: &[u64]| of.iter().sum::<u64>() as f64 / (of.len() as u64 * DISK_BYTES_S) as f64;
    RowsLap {
        reads_ms: of_kind(READS),
        writes_ms: of_kind(WRITES),
        written_per_byte: (taken_bytes > 0).then(|| written as f64 / taken_bytes as f64),
        disk_peak: course.written_bytes.windows(PEAK_S).map(peak).reduce(f64::max),
        space_bytes: Some(last.rows_bytes),
        debt_left: last.debt,
        debt_peak: course.debt.iter().copied().reduce(f64::max),
        stops: last.stops.zip(first.stops).map(|(last, first)| last.saturating_sub(first)),
        ..RowsLap::default()
    }
}

fn tell(
    context: &mut Context<'_>,
    found: &mut Found,
    arms: &[Arm],
    laps: &[Vec<Measured>],
    (most_ops_s, rate_ops_s): (f64, f64),
) {
    context.note(format!(
        "{NAME}: a disk of {} MB/s; without limits {most_ops_s:.0} writes/s can be gone on with, of which {:.0} % \
         are asked for in an open loop; {KEYS} rows of 1 KB that do not compress",
        DISK_BYTES_S / 1_000_000,
        PART * 100.0
    ));
    let fit = BTreeMap::from([
        ("disk_bytes_s".to_owned(), DISK_BYTES_S as f64),
        ("most_ops_s".to_owned(), most_ops_s),
    ]);
    found.results.mode = Mode::Open;
    found.results.scenarios.push(Scenario {
        name: NAME.to_owned(),
        fault: FaultNote { kind: "disk".to_owned(), fit },
        load: LoadNote::RateOpsS(rate_ops_s),
        variants: variants(arms, laps, None),
    });
    let seed = context.options.seed;
    found.results.comparisons.extend(comparisons(NAME, arms, laps, seed, |_, _, _| Vec::new()));
    found.plots.findings.extend(findings(arms, laps));
    let series = arms.iter().zip(laps);
    found.plots.series.extend(series.filter_map(|(a, l)| measure::series(NAME, &a.name, l)));
}

/// The aims: the tail beside that of the tuned limiter, and what is never to happen.
fn findings(arms: &[Arm], laps: &[Vec<Measured>]) -> Vec<Finding> {
    let of = |name: &str| arms.iter().position(|arm| arm.name == name).map(|at| &laps[at]);
    let p99_9 = |laps: &Vec<Measured>| method::pooled(laps).latency_ms.p99_9;
    let mut found = Vec::new();
    let both = of(OURS).and_then(p99_9).zip(of(AUTO).and_then(p99_9));
    if let Some((ours, auto)) = both {
        found.push(Finding::compare(
            format!("{NAME}: p99.9 of writes, ours to auto"),
            "at most 0.5".to_owned(),
            Some(format!("{:.2} ({ours:.1} ms of {auto:.1})", ours / auto)),
            Some(ours <= auto * 0.5),
        ));
    }
    let rows = |laps: &Vec<Measured>| -> Vec<RowsLap> {
        laps.iter().filter_map(|lap| lap.lap.rows.clone()).collect()
    };
    if let Some(ours) = of(OURS).map(rows).filter(|it| !it.is_empty()) {
        let gap_ms = ours.iter().filter_map(|it| it.longest_gap_ms).fold(0.0, f64::max);
        found.push(Finding::compare(
            format!("{NAME}: longest time without an answered write, ours"),
            format!("below {GAP_MS_MAX} ms"),
            Some(format!("{gap_ms:.0} ms")),
            Some(gap_ms < GAP_MS_MAX),
        ));
        let stops: u64 = ours.iter().filter_map(|it| it.stops).sum();
        found.push(Finding::compare(
            format!("{NAME}: stops of the store, ours"),
            "none".to_owned(),
            Some(stops.to_string()),
            Some(stops == 0),
        ));
    }
    if let Some((ours, auto)) = of(OURS).map(rows).zip(of(AUTO).map(rows)) {
        let space = |of: &[RowsLap]| {
            stats::mean(
                &of.iter().filter_map(|it| it.space_bytes).map(|it| it as f64).collect::<Vec<_>>(),
            )
        };
        let ratio = space(&ours) / space(&auto).max(1.0);
        found.push(Finding::compare(
            format!("{NAME}: space, ours to auto"),
            "at most 1.1".to_owned(),
            Some(format!("{ratio:.2}")),
            Some(ratio <= 1.1),
        ));
    }
    found
}
