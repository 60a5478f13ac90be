//! Scenario `large-values`: values of 100 KB to 1 MB on a slow disk, where RocksDB's limiter that tunes itself
//! stalls: one value is more than it hands out at once. A few hundred writes a lap say nothing of the last
//! thousandth; what counts is the longest time without an answer.

use std::time::Duration;

use super::arms::{self, AUTO, OFF, OURS};
use super::limiter::names;
use super::plan::{self, Heading, Lengths};
use super::slow::{CLIENTS, Form, Slow};
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::options::{LiveOptions, LiveSize};
use crate::result::Finding;

pub(super) const NAME: &str = "large-values";

/// Faster than that of `limiter`, for as many writes a second as there can be.
const DISK_BYTES_S: u64 = 120_000_000;
const FORM: Form =
    Form { name: NAME, keys: 1_000, value_bytes: 1_000_000, disk_bytes_s: Some(DISK_BYTES_S) };
const VALUE_BYTES_MIN: usize = 100_000;
/// The part of what can be gone on with that is asked for.
const PART: f64 = 0.75;

fn lengths(options: &LiveOptions) -> (Lengths, usize) {
    let (window_s, laps) = if options.size == LiveSize::Quick { (20, 2) } else { (100, 4) };
    let warm_up = Duration::from_secs(4);
    let lengths = Lengths { warm_up, window: Duration::from_secs(window_s) };
    (lengths, options.laps.unwrap_or(laps))
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    1 + lengths(options).1 * names(options).len()
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let (lengths, count) = lengths(context.options);
    let Some(mut slow) = Slow::start_from(context, FORM, VALUE_BYTES_MIN)? else { return Ok(()) };
    let most = slow.most_of_off(context, lengths)?;
    let rate_ops_s = (most.lasting_ops_s * PART).max(0.5);
    slow.ingest_bytes_s = rate_ops_s * slow.write_bytes() as f64;
    let arms = arms::arms(&names(context.options));
    let pace = Pace::Open { rate_ops_s, clients: CLIENTS };
    let one = |at: usize, block| slow.one(&arms[at], pace, lengths, block);
    let laps = plan::paired(context, NAME, &arms, count, one)?;
    context.note(format!(
        "{NAME}: a disk of {} MB/s; {} values of {} to {} KB; {:.1} writes/s can be gone on with, of which {:.0} % are \
         asked for in an open loop",
        DISK_BYTES_S / 1_000_000,
        FORM.keys,
        VALUE_BYTES_MIN / 1_000,
        FORM.value_bytes / 1_000,
        most.lasting_ops_s,
        PART * 100.0
    ));
    let fault = plan::held_disk(DISK_BYTES_S);
    plan::tell(context, found, Heading { name: NAME, fault, pace }, &arms, &laps);
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

fn findings(found: &Found) -> Vec<Finding> {
    let of = |arm, path| plan::figure(found, NAME, arm, path);
    let words = [
        ("longest time without an answered write", "rows.longest_gap_ms"),
        ("p90", "latency_ms.p90"),
        ("the latest answer", "latency_ms.p100"),
    ];
    let told = words.into_iter().flat_map(|(words, path)| {
        [AUTO, OURS].map(|arm| {
            let what = format!("{NAME}: {words}, {arm} to off");
            plan::beside(what, of(arm, path), of(OFF, path), None)
        })
    });
    // A fast refusal is no fast answer: the times above are of those that were taken.
    let refused = [OFF, AUTO, OURS].map(|arm| {
        let share = of(arm, "refused_rate").map(|it| format!("{:.1} %", it * 100.0));
        Finding::told(format!("{NAME}: refused, {arm}"), share)
    });
    told.chain(refused).collect()
}
