//! Scenario `expiry-storm`: very many keys of a store expire in the same second while others are read and
//! written. A lap before that second and one from it on are a pair; afterwards the store is left alone, and
//! what it still takes of a processor is what expiry costs for nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::mixes::ONE;
use super::peers::{DEFAULTS, Peer};
use super::plan::{self, Ask, Heading, Lengths, Looks};
use super::server::Server;
use super::source::{Expiring, Rows};
use super::store::fill_all;
use crate::LabError;
use crate::live::context::{Context, Stopping, TIMEOUT};
use crate::live::found::Found;
use crate::live::load::Pace;
use crate::live::measure::{Measured, wait_until};
use crate::live::options::{LiveOptions, LiveSize};
use crate::live::processes;
use crate::live::wire::{Connection, Protocol, command};
use crate::result::Finding;
use crate::stats;

pub(super) const NAME: &str = "expiry-storm";

const BEFORE: &str = "before";
const STORM: &str = "storm";
/// Keys that are read and written, and those that expire.
const KEYS: u64 = 20_000;
const EXPIRING: u64 = 200_000;
const VALUE_BYTES: usize = 1_024;
/// What is asked, by the clock: both laps have the same to do.
const RATE_OPS_S: f64 = 1_500.0;
const CLIENTS: usize = 24;
const LENGTHS: Lengths =
    Lengths { warm_up: Duration::from_secs(2), window: Duration::from_secs(10) };
/// How long it may take to write the keys that expire; the first lap then ends just before they do.
const FILL_WITHIN: Duration = Duration::from_secs(40);
/// The time between the laps.
const BETWEEN: Duration = Duration::from_millis(500);
/// How long after the storm the store is left alone before it counts as idle, and how long that is looked at.
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(10);
/// What an idle store may take of a processor, and how much later answers may be in the storm.
const IDLE_MAX: f64 = 0.05;
const P99_MAX: f64 = 1.5;
/// A block takes over a minute.
const LAPS: usize = 5;

fn laps_of(options: &LiveOptions) -> usize {
    options.laps.unwrap_or(if options.size == LiveSize::Quick { 3 } else { LAPS })
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    2 * laps_of(options)
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let peer = Peer::nodes(&options.binary, &options.folder.join(ONE), 1, &DEFAULTS)?;
    let server = peer.server();
    let rows = Rows::new(KEYS, VALUE_BYTES, 0.5, options.seed);
    fill_all(&server.addresses()[0], &rows, KEYS, options.seed)?;
    let watch = Stopping(std::sync::Arc::clone(&options.stop));
    let idle_before = idle(server, &watch);
    let (mut laps, mut idle_after, mut left) = (vec![Vec::new(), Vec::new()], Vec::new(), 0);
    for block in 0..laps_of(options) {
        let Some((before, storm)) = storm(context, server, &rows, block)? else { break };
        laps[0].push(before);
        laps[1].push(storm);
        wait_until(Instant::now() + SETTLE, &watch);
        left = left.max(keys_of(&server.addresses()[0])?.saturating_sub(KEYS));
        idle_after.push(idle(server, &watch));
    }
    if context.is_stopped() {
        return Err(LabError::Stopped);
    }
    context.note(format!(
        "{NAME}: {EXPIRING} keys expire within one second, beside {KEYS} others, of which {RATE_OPS_S:.0} are read or \
         written a second, by the clock; then nothing is asked"
    ));
    let arms = [plan::arm(BEFORE), plan::arm(STORM)];
    let pace = Pace::Open { rate_ops_s: RATE_OPS_S, clients: CLIENTS };
    plan::tell(context, found, Heading { name: NAME, fault: plan::no_fault(), pace }, &arms, &laps);
    let told = findings(found, idle_before, &idle_after, left);
    found.plots.findings.extend(told);
    Ok(())
}

/// Writes the keys that expire, and makes both laps; none where the run is to end.
fn storm(
    context: &mut Context<'_>,
    server: &dyn Server,
    rows: &Rows,
    block: usize,
) -> Result<Option<(Measured, Measured)>, LabError> {
    let options = context.options;
    let length = LENGTHS.warm_up + LENGTHS.window;
    let begin = Instant::now();
    // The second lap's warm-up is over when the keys expire.
    let expire_in = FILL_WITHIN + length + BETWEEN + LENGTHS.warm_up;
    let at_ms = (SystemTime::now() + expire_in).duration_since(UNIX_EPOCH).unwrap_or_default();
    context.progress.note(&format!("{NAME}: writing {EXPIRING} keys that expire"));
    let expiring = Expiring { at_ms: u64::try_from(at_ms.as_millis()).unwrap_or(u64::MAX), block };
    fill_all(&server.addresses()[0], &expiring, EXPIRING, options.seed)?;
    let is_late = begin.elapsed() > FILL_WITHIN;
    let ask = Ask {
        pace: Pace::Open { rate_ops_s: RATE_OPS_S, clients: CLIENTS },
        lengths: LENGTHS,
        looks: Some(Looks { write_bytes: VALUE_BYTES as u64, ..Looks::default() }),
        ..Ask::closed(server, rows, CLIENTS)
    };
    let watch = Stopping(std::sync::Arc::clone(&options.stop));
    wait_until(begin + FILL_WITHIN, &watch);
    let mut pair = Vec::new();
    for (name, at) in [(BEFORE, Duration::ZERO), (STORM, length + BETWEEN)] {
        wait_until(begin + FILL_WITHIN + at, &watch);
        if context.is_stopped() {
            return Ok(None);
        }
        let mut lap = plan::lap(options, &ask, block)?;
        if is_late {
            lap.lap.valid = false;
            lap.lap.reason = Some("the keys that expire were written too late".to_owned());
        }
        context.step(&format!("{NAME} {name} lap {}", block + 1));
        pair.push(lap);
    }
    let storm = pair.pop();
    Ok(pair.pop().zip(storm))
}

/// What its processes take of a processor where nothing is asked.
fn idle(server: &dyn Server, watch: &Stopping) -> f64 {
    let cpu_s = || server.processes().into_iter().filter_map(processes::cpu_s).sum::<f64>();
    let (before, began) = (cpu_s(), Instant::now());
    wait_until(began + IDLE, watch);
    (cpu_s() - before) / began.elapsed().as_secs_f64()
}

/// How many keys there are.
fn keys_of(address: &str) -> Result<u64, LabError> {
    let failed = |error| LabError::live("count the keys".to_owned(), error);
    let mut open = Connection::open(address, Protocol::Resp, TIMEOUT).map_err(failed)?;
    open.ask(&command(&[b"DBSIZE"])).map_err(failed)?;
    let said = String::from_utf8_lossy(&open.body).into_owned();
    said.trim().parse().map_err(|_| LabError::live("count the keys".to_owned(), said))
}

fn findings(found: &Found, idle_before: f64, idle_after: &[f64], left: u64) -> Vec<Finding> {
    let p99 = |arm| plan::figure(found, NAME, arm, "latency_ms.p99");
    let idle_after = stats::mean(idle_after);
    vec![
        plan::aim(
            format!("{NAME}: p99 (ms) in the storm to before"),
            p99(STORM),
            p99(BEFORE),
            (false, P99_MAX),
        ),
        Finding::compare(
            format!("{NAME}: of a processor when idle after it"),
            format!("at most {IDLE_MAX}"),
            Some(format!("{idle_after:.3} ({idle_before:.3} before)")),
            Some(idle_after <= IDLE_MAX),
        ),
        Finding::compare(
            format!("{NAME}: keys that DBSIZE still counts {} s after the lap", SETTLE.as_secs()),
            "none".to_owned(),
            Some(left.to_string()),
            Some(left == 0),
        ),
    ]
}
