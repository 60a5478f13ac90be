//! Scenarios `mixes R:W`: reads and writes of single rows in YCSB's mixes, of three nodes, of one, and of
//! redis-server, all on this machine: who is not asked idles. What is compared is the processor time of all
//! processes of an arm for an operation; rates are of this machine and say little of another. The study's
//! rows stand beside, as ratios within its table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::peers::Peer;
use super::source::{READS, Rows, WRITES};
use super::store::fill_all;
use crate::LabError;
use crate::live::context::{Arm, Context, Stopping, TIMEOUT, comparisons, variants};
use crate::live::load::{self, Load, Pace};
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::wire::{Protocol, command};
use crate::live::{Found, LiveOptions, LiveSize, method, processes};
use crate::published::ROWS;
use crate::result::{FaultNote, Finding, Lap, LoadNote, RowsLap, Scenario, over_laps};
use crate::sim::derive;
use crate::stats;

pub(super) const NAME: &str = "mixes";

const VALUE_BYTES: usize = 1_024;
/// All are read from memory, as the study's were.
const KEYS: u64 = 20_000;
const CLIENTS: usize = 24;
/// Reads and writes of each mix; a quick run has those of the first part.
const MIXES: [(u32, u32); 7] = [(0, 1), (1, 1), (30, 1), (1, 0), (3, 1), (1, 3), (1, 30)];
const QUICK: usize = 3;
const WARM_UP: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(4);
/// Laps of a quick run.
const LAPS_QUICK: usize = 3;
/// The study's version whose table stands beside.
const PUBLISHED: &str = "2.4.0";

/// The arms: a name, and what it is made of.
pub(super) const ONE: &str = "one-node";
pub(super) const THREE: &str = "three-nodes";
const SESSION: &str = "three-nodes-session";
const EVENTUAL: &str = "three-nodes-eventual";
pub(super) const NAMES: [&str; 7] =
    [ONE, THREE, SESSION, EVENTUAL, "redis-always", "redis-everysec", "valkey-always"];

/// What clients of an arm say first: how fresh what they read has to be.
fn greeting(name: &str) -> Vec<u8> {
    match name {
        SESSION => command(&[b"PLIMSOLL.READS", b"SESSION"]),
        EVENTUAL => command(&[b"PLIMSOLL.READS", b"EVENTUAL"]),
        _ => Vec::new(),
    }
}

/// The arm whose servers an arm asks.
fn servers(name: &'static str) -> &'static str {
    if [SESSION, EVENTUAL].contains(&name) { THREE } else { name }
}

fn peer(name: &str, options: &LiveOptions) -> Result<Peer, LabError> {
    let folder = options.folder.join(name);
    match name {
        ONE => Peer::nodes(&options.binary, &folder, 1),
        THREE => Peer::nodes(&options.binary, &folder, 3),
        "redis-everysec" => Peer::other("redis-server", "everysec", &folder),
        "valkey-always" => Peer::other("valkey-server", "always", &folder),
        _ => Peer::other("redis-server", "always", &folder),
    }
}

/// The program that an arm needs and this machine may not have.
fn program(name: &str) -> Option<&'static str> {
    match name {
        ONE | THREE | SESSION | EVENTUAL => None,
        "valkey-always" => Some("valkey-server"),
        _ => Some("redis-server"),
    }
}

fn names(options: &LiveOptions) -> Vec<&'static str> {
    let of_quick = [ONE, THREE, "redis-always"];
    NAMES
        .into_iter()
        .filter(|name| match options.variants.is_empty() {
            true => options.size != LiveSize::Quick || of_quick.contains(name),
            // The first is what others are compared with.
            false => *name == ONE || options.variants.iter().any(|it| it == name),
        })
        .collect()
}

fn mixes(options: &LiveOptions) -> &'static [(u32, u32)] {
    if options.size == LiveSize::Quick { &MIXES[..QUICK] } else { &MIXES }
}

fn laps_of(options: &LiveOptions) -> usize {
    options.laps.unwrap_or(match options.size {
        LiveSize::Quick => LAPS_QUICK,
        LiveSize::Study | LiveSize::Full => method::BLOCKS_MIN,
    })
}

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    laps_of(options) * names(options).len() * mixes(options).len()
}

/// Runs the scenarios.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let seed = options.seed;
    let (mut arms, mut asked) = (Vec::new(), Vec::new());
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    for name in names(options) {
        if let Some(program) = program(name).filter(|it| !processes::is_program(it)) {
            context.note(format!("{NAME}: {name} is left out, as {program} is not here"));
            continue;
        }
        if !peers.contains_key(servers(name)) {
            context.progress.note(&format!("starting {}", servers(name)));
            let peer = peer(servers(name), options)?;
            fill_all(&peer.addresses()[0], &Rows::new(KEYS, VALUE_BYTES, 0.0, seed), KEYS, seed)?;
            peers.insert(servers(name), peer);
        }
        arms.push(Arm { name: name.to_owned(), settings: BTreeMap::new() });
        asked.push((servers(name), greeting(name)));
    }
    context.note(format!(
        "{NAME}: {KEYS} rows of 1 KB, {CLIENTS} clients, zipfian; all arms are synced before an answer but \
         where a name says otherwise, and share this machine's processors; three nodes keep one log, at the \
         first of them"
    ));
    context.note(format!("Published: {}", ROWS.source));
    context.note(ROWS.note.clone());
    let broken = ROWS.breaks().join(", ");
    context.note(format!("rows of the study that break Little's law by over 2 %: {broken}"));
    for (reads, writes) in mixes(options) {
        let share = f64::from(*reads) / f64::from(reads + writes);
        let rows = Rows::new(KEYS, VALUE_BYTES, share, seed);
        let name = format!("{NAME} {reads}:{writes}");
        let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
        for block in 0..laps_of(options) {
            for at in method::order(arms.len(), block) {
                if context.is_stopped() {
                    return Err(LabError::Stopped);
                }
                let (servers, greeting) = &asked[at];
                all[at].push(lap(context, (&peers[servers], greeting), &rows, block)?);
                context.step(&format!("{name} {} lap {}", arms[at].name, block + 1));
            }
        }
        tell(context, found, &name, &arms, &all);
    }
    found.plots.findings.extend(beside(found, mixes(options)));
    Ok(())
}

fn lap(
    context: &Context<'_>,
    (peer, greeting): (&Peer, &[u8]),
    rows: &Rows,
    block: usize,
) -> Result<Measured, LabError> {
    let addresses = peer.addresses();
    let load = Load {
        addresses: &addresses,
        protocol: Protocol::Resp,
        greeting,
        requests: rows,
        pace: Pace::Closed { clients: CLIENTS },
        warm_up: WARM_UP,
        window: WINDOW,
        timeout: TIMEOUT,
        seed: derive(context.options.seed, block as u64),
    };
    let watch = Stopping(Arc::clone(&context.options.stop));
    peer.reset_peaks();
    let before = Moment::of_processes(&peer.processes());
    let taken = load::run(&load, &watch)
        .map_err(|error| LabError::live("start the load".to_owned(), error))?;
    let after = Moment::of_processes(&peer.processes());
    let late_ms = taken.late_us.value_at_quantile(0.99) as f64 / 1e3;
    let conditions = measure::conditions(late_ms, &before, &after);
    let reason = match context.is_stopped() {
        true => Some(STOPPED.to_owned()),
        false => measure::disturbance(&conditions),
    };
    let of_kind = |kind| taken.by_kind_us.get(&kind).map(stats::quantiles).unwrap_or_default();
    let of_rows =
        RowsLap { reads_ms: of_kind(READS), writes_ms: of_kind(WRITES), ..RowsLap::default() };
    // The processor time is of the warm-up too.
    let part = WINDOW.as_secs_f64() / (WARM_UP + WINDOW).as_secs_f64();
    let lap = Lap {
        cpu_s: Some((after.cpu_s() - before.cpu_s()).max(0.0) * part),
        rss_peak_bytes: Some(peer.resident_bytes_peak()),
        rows: Some(of_rows),
        ..measure::of_load(&taken, conditions, reason)
    };
    let load::Taken { latency_us, service_us, by_kind_us, .. } = taken;
    Ok(Measured { lap, latency_us, service_us, by_kind_us, block })
}

fn tell(
    context: &Context<'_>,
    found: &mut Found,
    name: &str,
    arms: &[Arm],
    laps: &[Vec<Measured>],
) {
    found.results.scenarios.push(Scenario {
        name: name.to_owned(),
        fault: FaultNote { kind: "none".to_owned(), fit: BTreeMap::new() },
        load: LoadNote::Clients(CLIENTS),
        variants: variants(arms, laps, None),
    });
    let seed = context.options.seed;
    let compared = comparisons(name, arms, laps, seed, |_, _, _| Vec::new());
    found.results.comparisons.extend(compared);
    let series = arms.iter().zip(laps);
    found.plots.series.extend(series.filter_map(|(a, l)| measure::series(name, &a.name, l)));
}

/// Operations for a second of processor of each arm beside the study's, both against their own `0:1`.
fn beside(found: &Found, mixes: &[(u32, u32)]) -> Vec<Finding> {
    let of_mix = |mix: (u32, u32)| {
        let name = format!("{NAME} {}:{}", mix.0, mix.1);
        found.results.scenarios.iter().find(|it| it.name == name)
    };
    let per_cpu_s = |mix, arm: &str| {
        let variant = of_mix(mix)?.variants.iter().find(|it| it.name == arm)?;
        over_laps(variant, "cpu_s_per_op").map(|cpu_s| 1.0 / cpu_s)
    };
    let mut told = Vec::new();
    for mix in mixes.iter().copied().filter(|mix| *mix != MIXES[0]) {
        let Some(published) = ROWS.ratio(PUBLISHED, mix, MIXES[0]) else { continue };
        for arm in [ONE, THREE] {
            let ratio = per_cpu_s(mix, arm).zip(per_cpu_s(MIXES[0], arm)).map(|(a, b)| a / b);
            told.push(Finding {
                aim: format!("{published:.2} (Pegasus {PUBLISHED}, rates)"),
                ..Finding::told(
                    format!(
                        "{NAME} {}:{} to 0:1, operations a processor second, {arm}",
                        mix.0, mix.1
                    ),
                    ratio.map(|ratio| format!("{ratio:.2}")),
                )
            });
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_the_first_mixes_of_three_arms() {
        let quick =
            LiveOptions { size: LiveSize::Quick, ..LiveOptions::new("kv-throughput").unwrap() };
        assert_eq!(laps(&quick), LAPS_QUICK * 3 * QUICK);
        assert_eq!(mixes(&quick), [(0, 1), (1, 1), (30, 1)]);
        assert_eq!(laps(&LiveOptions { size: LiveSize::Full, ..quick }), 10 * 7 * 7);
    }
}
