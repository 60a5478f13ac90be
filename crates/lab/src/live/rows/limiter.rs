//! Scenarios `limiter`, `limiter-cpu` and `limiter-most`: writes while files are rewritten, with RocksDB's
//! limiters, with its smooth sync alone, with the node's own pacing, and with nothing (`arms.rs`). First the most
//! that holds for a lap in a closed loop, then three quarters of it in an open one, as Luo and Carey measure ("On
//! Performance Stability in LSM-based Storage Systems", VLDB 2019): what waits in a queue is seen there alone.
//! `limiter` is on a disk of so many bytes a second; on the machine's own, in `limiter-cpu`, the processors bind.
//! `limiter-most` is the closed loop of every arm. `limiter-soak` is an hour of `limiter`, of two arms, and runs
//! where it is named alone: the worst of a rate that tunes itself comes late. Every lap begins from the same files
//! (`slow.rs`).
//!
//! What the kernel writes back before `off` syncs a file is not held by control groups of version 1 (`disk.rs`):
//! what is measured of `off` there is too good, if anything.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arms::{self, AUTO, OFF, OURS};
use super::plan::{self, Heading, Lengths};
use super::slow::{CLIENTS, DISK_BYTES_S, Form, Most, Slow};
use crate::LabError;
use crate::live::context::{Arm, Context};
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::measure::Measured;
use crate::live::method;
use crate::live::options::{LiveOptions, LiveSize};
use crate::published::ROWS;
use crate::result::{FaultNote, Finding, Mode, RowsLap};
use crate::stats;

pub(super) const NAME: &str = "limiter";
pub(super) const CPU: &str = "limiter-cpu";
pub(super) const MOST: &str = "limiter-most";
pub(super) const SOAK: &str = "limiter-soak";

/// Rows of the store: enough for three levels of files with its write buffer.
const KEYS: u64 = 600_000;
const VALUE_BYTES: usize = 1_024;
/// The part of the most that is asked for.
const PART: f64 = 0.75;
/// The arms of the soak.
const SOAKED: [&str; 2] = [AUTO, OURS];
/// The lap that finds the most, of the soak.
const OF_MOST: Lengths =
    Lengths { warm_up: Duration::from_secs(10), window: Duration::from_secs(80) };
/// The longest time without an answer that is aimed at.
const GAP_MS_MAX: f64 = 100.0;
/// By how much the most of ours may lie below that of the tuned limiter.
const MOST_MIN: f64 = 0.98;

/// The store of a scenario.
fn form(name: &'static str) -> Form {
    let disk_bytes_s = (name != CPU).then_some(DISK_BYTES_S);
    Form { name, keys: KEYS, value_bytes: VALUE_BYTES, disk_bytes_s }
}

/// How long laps are, and how many: all of a scenario take less than 45 minutes, the soak's aside.
fn lengths(options: &LiveOptions, name: &str) -> (Lengths, usize) {
    let of = |warm_up_s, window_s, laps| {
        let (warm_up, window) = (Duration::from_secs(warm_up_s), Duration::from_secs(window_s));
        (Lengths { warm_up, window }, options.laps.unwrap_or(laps))
    };
    match options.size {
        LiveSize::Quick if name == SOAK => of(10, 590, 1),
        _ if name == SOAK => of(10, 3590, 1),
        LiveSize::Quick => of(5, 25, 3),
        // After each of these the store is waited for until it rests.
        LiveSize::Study | LiveSize::Full if name == MOST => of(10, 60, 3),
        LiveSize::Study | LiveSize::Full => of(10, 80, 5),
    }
}

/// The arms of a run.
pub(super) fn names(options: &LiveOptions) -> Vec<&'static str> {
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

/// Laps of a run of `limiter-soak`.
pub(super) fn laps_of_soak(options: &LiveOptions) -> usize {
    1 + lengths(options, SOAK).1 * SOAKED.len()
}

/// Laps of a run of `limiter` or `limiter-cpu`.
pub(super) fn laps(options: &LiveOptions) -> usize {
    1 + lengths(options, NAME).1 * names(options).len()
}

/// Laps of a run of `limiter-most`.
pub(super) fn laps_of_most(options: &LiveOptions) -> usize {
    1 + lengths(options, MOST).1 * names(options).len()
}

/// Runs `limiter`.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let names = names(context.options);
    open(context, found, NAME, &names)
}

/// Runs `limiter-cpu`.
pub(super) fn run_cpu(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let names = names(context.options);
    open(context, found, CPU, &names)
}

/// Runs `limiter-soak`.
pub(super) fn run_soak(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    open(context, found, SOAK, &SOAKED)
}

/// Runs `limiter-most`.
pub(super) fn run_most(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let (lengths, count) = lengths(context.options, MOST);
    let Some(mut slow) = Slow::start(context, form(MOST))? else { return Ok(()) };
    let most = slow.most_of_off(context, lengths)?;
    slow.ingest_bytes_s = most.lasting_ops_s * slow.write_bytes() as f64;
    let arms = arms::arms(&names(context.options));
    let mut lasting: Vec<Vec<f64>> = arms.iter().map(|_| Vec::new()).collect();
    let laps = plan::paired(context, MOST, &arms, count, |at, block| {
        let (lap, most) = slow.most(&arms[at], lengths, block)?;
        lasting[at].push(most.lasting_ops_s);
        Ok(lap)
    })?;
    let fault = FaultNote { kind: "disk".to_owned(), fit: fit(&form(MOST), None) };
    let pace = Pace::Closed { clients: CLIENTS };
    plan::tell(context, found, Heading { name: MOST, fault, pace }, &arms, &laps);
    let rate = |name: &str| plan::figure(found, MOST, name, "throughput_ops_s.mean");
    let mut told = vec![plan::aim(
        format!("{MOST}: writes a second in a closed loop, ours to auto"),
        rate(OURS),
        rate(AUTO),
        (true, MOST_MIN),
    )];
    let published = |name: &str| ROWS.limiter.iter().find(|it| it.name == name).map(|it| it.rate_s);
    for (arm, lasting) in arms.iter().zip(&lasting).skip(1) {
        let what = format!("{MOST}: writes a second in a closed loop, {} to off", arm.name);
        let of = published(&arm.name).zip(published(OFF)).map(|(of, off)| of / off);
        told.push(plan::beside(what, rate(&arm.name), rate(OFF), of));
        let what = format!("{MOST}: writes a second that the disk can go on with, {}", arm.name);
        told.push(Finding::told(what, Some(format!("{:.0}", stats::mean(lasting)))));
    }
    found.plots.findings.extend(told);
    Ok(())
}

/// The most, and then three quarters of it by the clock.
fn open(
    context: &mut Context<'_>,
    found: &mut Found,
    name: &'static str,
    arm_names: &[&str],
) -> Result<(), LabError> {
    let ((lengths, count), form) = (lengths(context.options, name), form(name));
    let Some(mut slow) = Slow::start(context, form)? else { return Ok(()) };
    let most = slow.most_of_off(context, if name == SOAK { OF_MOST } else { lengths })?;
    let rate_ops_s = (most.lasting_ops_s * PART).max(1.0);
    slow.ingest_bytes_s = rate_ops_s * slow.write_bytes() as f64;
    let arms = arms::arms(arm_names);
    let pace = Pace::Open { rate_ops_s, clients: CLIENTS };
    let one = |at: usize, block| slow.one(&arms[at], pace, lengths, block);
    let laps = plan::paired(context, name, &arms, count, one)?;
    let disk = match form.disk_bytes_s {
        Some(bytes_s) => format!("a disk of {} MB/s", bytes_s / 1_000_000),
        None => "this machine's disk".to_owned(),
    };
    context.note(format!(
        "{name}: {disk}; without limits {:.0} writes/s can be gone on with ({:.0} in a closed loop of {} s), of \
         which {:.0} % are asked for in an open loop; {KEYS} rows of 1 KB that do not compress. RocksDB's smooth \
         sync (`compaction.bytes_per_sync`, strict) is off in `off` alone, and all that `smooth` has: RocksDB turns \
         it on by itself where it has a limiter",
        most.lasting_ops_s,
        most.closed_ops_s,
        lengths.window.as_secs(),
        PART * 100.0
    ));
    let kind = if form.disk_bytes_s.is_some() { "disk" } else { "none" };
    let fault = FaultNote { kind: kind.to_owned(), fit: fit(&form, Some(most)) };
    found.results.mode = Mode::Open;
    plan::tell(context, found, Heading { name, fault, pace }, &arms, &laps);
    found.plots.findings.extend(findings(name, &arms, &laps));
    Ok(())
}

/// What was fitted.
fn fit(form: &Form, most: Option<Most>) -> BTreeMap<String, f64> {
    let disk = form.disk_bytes_s.map(|it| ("disk_bytes_s".to_owned(), it as f64));
    let most = most.map(|it| ("most_ops_s".to_owned(), it.lasting_ops_s));
    disk.into_iter().chain(most).collect()
}

/// The aims: the tail beside that of the tuned limiter, and what is never to happen.
fn findings(name: &str, arms: &[Arm], laps: &[Vec<Measured>]) -> Vec<Finding> {
    let of = |name: &str| arms.iter().position(|arm| arm.name == name).map(|at| &laps[at]);
    let p99_9 = |laps: &Vec<Measured>| method::pooled(laps).latency_ms.p99_9;
    // Where the processors bind, both share them.
    let bound = if name == CPU { 0.8 } else { 0.5 };
    let mut found = Vec::new();
    let both = of(OURS).and_then(p99_9).zip(of(AUTO).and_then(p99_9));
    if let Some((ours, auto)) = both {
        found.push(Finding::compare(
            format!("{name}: p99.9 of writes, ours to auto"),
            format!("at most {bound}"),
            Some(format!("{:.2} ({ours:.1} ms of {auto:.1})", ours / auto)),
            Some(ours <= auto * bound),
        ));
    }
    let rows = |laps: &Vec<Measured>| -> Vec<RowsLap> {
        laps.iter().filter_map(|lap| lap.lap.rows.clone()).collect()
    };
    if let Some(ours) = of(OURS).map(rows).filter(|it| !it.is_empty()) {
        let gap_ms = ours.iter().filter_map(|it| it.longest_gap_ms).fold(0.0, f64::max);
        found.push(Finding::compare(
            format!("{name}: longest time without an answered write, ours"),
            format!("below {GAP_MS_MAX} ms"),
            Some(format!("{gap_ms:.0} ms")),
            Some(gap_ms < GAP_MS_MAX),
        ));
        let stops: u64 = ours.iter().filter_map(|it| it.stops).sum();
        found.push(Finding::compare(
            format!("{name}: stops of the store, ours"),
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
            format!("{name}: space, ours to auto"),
            "at most 1.1".to_owned(),
            Some(format!("{ratio:.2}")),
            Some(ratio <= 1.1),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_three_arms_and_a_full_one_all_beside_the_same_base() {
        let quick =
            LiveOptions { size: LiveSize::Quick, ..LiveOptions::new("kv-throughput").unwrap() };
        let full = LiveOptions { size: LiveSize::Full, ..quick.clone() };
        assert_eq!(names(&quick), [OFF, AUTO, OURS]);
        assert_eq!(names(&full), arms::NAMES);
        assert_eq!((laps(&quick), laps(&full)), (1 + 3 * 3, 1 + 5 * 5));
        let one = LiveOptions { variants: vec![arms::SMOOTH.to_owned()], ..quick };
        assert_eq!(names(&one), [OFF, arms::SMOOTH]);
    }
}
