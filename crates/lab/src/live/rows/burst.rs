//! Scenario `burst`: a store that has had little to do for a while gets more than it can go on with, on a slow
//! disk. What a pacer learned in the lull must not hold the burst. The study's nights are hours; the lull here
//! is as long as the pacer remembers what it saw.

use std::time::Duration;

use super::arms::{self, AUTO, OURS};
use super::limiter::names;
use super::plan::{self, Heading, Lengths};
use super::slow::{CLIENTS, DISK_BYTES_S, Form, Slow};
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::options::{LiveOptions, LiveSize};
use crate::result::Finding;

pub(super) const NAME: &str = "burst";

const FORM: Form =
    Form { name: NAME, keys: 400_000, value_bytes: 1_024, disk_bytes_s: Some(DISK_BYTES_S) };
/// The lull's rate, and the burst's for each write that can be gone on with.
const LULL_OPS_S: f64 = 50.0;
const BURST: f64 = 1.5;
const GAP_MS_MAX: f64 = 100.0;

/// The lull, the burst, and how many laps.
fn lengths(options: &LiveOptions) -> (Lengths, Lengths, usize) {
    let of = |window_s| Lengths { warm_up: Duration::ZERO, window: Duration::from_secs(window_s) };
    let (lull_s, laps) = if options.size == LiveSize::Quick { (15, 2) } else { (60, 5) };
    (of(lull_s), of(20), options.laps.unwrap_or(laps))
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    1 + lengths(options).2 * names(options).len()
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let (lull, burst, count) = lengths(context.options);
    let Some(mut slow) = Slow::start(context, FORM)? else { return Ok(()) };
    let most = slow.most_of_off(context, burst)?;
    slow.ingest_bytes_s = most.lasting_ops_s * slow.write_bytes() as f64;
    let arms = arms::arms(&names(context.options));
    let (quiet, rate_ops_s) =
        (Pace::Open { rate_ops_s: LULL_OPS_S, clients: CLIENTS }, most.lasting_ops_s * BURST);
    let pace = Pace::Open { rate_ops_s, clients: CLIENTS };
    let laps = plan::paired(context, NAME, &arms, count, |at, block| {
        slow.begin(&arms[at])?;
        let lap = slow.goes_on(quiet, lull, block).and_then(|_| slow.goes_on(pace, burst, block));
        slow.end();
        lap
    })?;
    context.note(format!(
        "{NAME}: a disk of {} MB/s; {LULL_OPS_S:.0} writes/s for {} s, then at once {rate_ops_s:.0}/s, {BURST} of what \
         can be gone on with, for {} s, which is what is measured",
        DISK_BYTES_S / 1_000_000,
        lull.window.as_secs(),
        burst.window.as_secs()
    ));
    let fault = plan::held_disk(DISK_BYTES_S);
    plan::tell(context, found, Heading { name: NAME, fault, pace }, &arms, &laps);
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

fn findings(found: &Found) -> Vec<Finding> {
    let of = |arm, path| plan::figure(found, NAME, arm, path);
    let gap = of(OURS, "rows.longest_gap_ms");
    let percent = |path| of(OURS, path).map(|it| format!("{:.2} %", it * 100.0));
    let p99_9 = |arm| of(arm, "latency_ms.p99_9");
    vec![
        Finding::compare(
            format!("{NAME}: longest time without an answered write, ours"),
            format!("below {GAP_MS_MAX} ms"),
            gap.map(|it| format!("{it:.0} ms")),
            gap.map(|it| it < GAP_MS_MAX),
        ),
        plan::beside(format!("{NAME}: p99.9, ours to auto"), p99_9(OURS), p99_9(AUTO), None),
        Finding::told(format!("{NAME}: refused, ours"), percent("refused_rate")),
        Finding::told(format!("{NAME}: debt at most, ours"), percent("rows.debt_peak")),
    ]
}
