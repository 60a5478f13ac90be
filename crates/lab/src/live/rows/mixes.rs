//! Scenarios `mixes R:W`: reads and writes of single rows in YCSB's mixes, of three nodes, of one, of
//! redis-server, and of a bare RocksDB, all on this machine: who is not asked idles. What is compared is the
//! processor time of all processes of an arm for an operation; rates are of this machine and say little of
//! another. The study's rows stand beside, as ratios within its table.

use std::collections::BTreeMap;

use super::bare::{Bare, Calls};
use super::given::Given;
use super::peers::{DEFAULTS, Peer};
use super::plan::{self, Ask, Asked};
use super::source::Rows;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::load::Source;
use crate::live::options::{LiveOptions, LiveSize};
use crate::live::processes;
use crate::live::target::Target;
use crate::live::wire::{Protocol, command};
use crate::published::ROWS;
use crate::result::Finding;

pub(super) const NAME: &str = "mixes";

const VALUE_BYTES: usize = 1_024;
/// All are read from memory, as the study's were.
const KEYS: u64 = 20_000;
const CLIENTS: usize = 24;
/// Reads and writes of each mix; a quick run has those of the first part.
const MIXES: [(u32, u32); 7] = [(0, 1), (1, 1), (30, 1), (1, 0), (3, 1), (1, 3), (1, 30)];
const QUICK: usize = 3;
/// The study's version whose table stands beside.
const PUBLISHED: &str = "2.4.0";

/// The arms: a name, and what it is made of.
pub(super) const ONE: &str = "one-node";
pub(super) const THREE: &str = "three-nodes";
/// A server that was given.
const TARGET: &str = "target";
const SESSION: &str = "three-nodes-session";
const EVENTUAL: &str = "three-nodes-eventual";
/// What a node stands on, called by the clients' threads.
const BARE: &str = "rocksdb";
pub(super) const NAMES: [&str; 8] =
    [ONE, THREE, SESSION, EVENTUAL, "redis-always", "redis-everysec", "valkey-always", BARE];

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
        ONE => Peer::nodes(&options.binary, &folder, 1, &DEFAULTS),
        THREE => Peer::nodes(&options.binary, &folder, 3, &DEFAULTS),
        BARE => Ok(Peer::Bare(Bare::open(&folder)?)),
        "redis-everysec" => Peer::other("redis-server", "everysec", &folder),
        "valkey-always" => Peer::other("valkey-server", "always", &folder),
        _ => Peer::other("redis-server", "always", &folder),
    }
}

/// The program that an arm needs and this machine may not have.
fn program(name: &str) -> Option<&'static str> {
    match name {
        ONE | THREE | SESSION | EVENTUAL | BARE => None,
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

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * names(options).len() * mixes(options).len()
}

/// Runs the scenarios.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let seed = options.seed;
    let mut asked = Vec::new();
    let mut peers: BTreeMap<&str, Peer> = BTreeMap::new();
    for name in names(options) {
        if let Some(program) = program(name).filter(|it| !processes::is_program(it)) {
            context.note(format!("{NAME}: {name} is left out, as {program} is not here"));
            continue;
        }
        if !peers.contains_key(servers(name)) {
            context.progress.note(&format!("starting {}", servers(name)));
            let peer = peer(servers(name), options)?;
            peer.fill(&Rows::new(KEYS, VALUE_BYTES, 0.0, seed), KEYS, seed)?;
            peers.insert(servers(name), peer);
        }
        asked.push((name, greeting(name)));
    }
    all(context, found, &peers, &asked)
}

/// Runs the scenarios on a server that was given.
///
/// # Errors
/// It speaks another protocol, has keys, or does not answer.
pub(super) fn run_at(
    context: &mut Context<'_>,
    target: &Target,
    found: &mut Found,
) -> Result<(), LabError> {
    if target.protocol != Protocol::Resp {
        let why = "a store of rows is asked by the protocol of Redis: redis://host:port".to_owned();
        return Err(LabError::Target { url: target.to_string(), why });
    }
    let seed = context.options.seed;
    let given = Given::open(&target.address, KEYS)?;
    fill_all(&target.address, &Rows::new(KEYS, VALUE_BYTES, 0.0, seed), KEYS, seed)?;
    let peers = BTreeMap::from([(TARGET, Peer::Given(given))]);
    all(context, found, &peers, &[(TARGET, Vec::new())])
}

/// All mixes on these stores: the name of each arm, and what its clients say first.
fn all(
    context: &mut Context<'_>,
    found: &mut Found,
    peers: &BTreeMap<&str, Peer>,
    asked: &[(&'static str, Vec<u8>)],
) -> Result<(), LabError> {
    let options = context.options;
    let seed = options.seed;
    context.note(format!(
        "{NAME}: {KEYS} rows of 1 KB, {CLIENTS} clients, zipfian; all arms are synced before an answer but \
         where a name says otherwise, and share this machine's processors; three nodes keep one log, at the \
         first of them"
    ));
    if peers.contains_key(BARE) {
        context.note(format!(
            "{NAME}: {BARE} is one RocksDB within the lab, with the options of a partition and a WAL that is synced; \
             the clients' threads call it, and their time is in its time of the processor"
        ));
    }
    context.note(format!("Published: {}", ROWS.source));
    context.note(ROWS.note.clone());
    let broken = ROWS.breaks().join(", ");
    context.note(format!("rows of the study that break Little's law by over 2 %: {broken}"));
    for (reads, writes) in mixes(options) {
        let share = f64::from(*reads) / f64::from(reads + writes);
        let rows = Rows::new(KEYS, VALUE_BYTES, share, seed);
        let calls = match peers.get(BARE) {
            Some(Peer::Bare(on)) => Some(Calls { on, rows: &rows }),
            _ => None,
        };
        let asked: Vec<Asked<'_>> = asked
            .iter()
            .map(|(name, greeting)| {
                let requests: &dyn Source = match &calls {
                    Some(calls) if *name == BARE => calls,
                    _ => &rows,
                };
                let ask = Ask::closed(peers[servers(name)].server(), requests, CLIENTS);
                ((*name).to_owned(), Ask { greeting: greeting.clone(), ..ask })
            })
            .collect();
        plan::run(context, found, &format!("{NAME} {reads}:{writes}"), &asked)?;
    }
    let told = [beside(found, mixes(options)), of_bare(found, mixes(options))].concat();
    found.plots.findings.extend(told);
    Ok(())
}

/// Operations for a second of processor of each arm beside the study's, both against their own `0:1`.
fn beside(found: &Found, mixes: &[(u32, u32)]) -> Vec<Finding> {
    let per_cpu_s = |mix: (u32, u32), arm: &str| {
        plan::per_cpu_s(found, &format!("{NAME} {}:{}", mix.0, mix.1), arm)
    };
    let rate = |mix: (u32, u32)| {
        let name = format!("{NAME} {}:{}", mix.0, mix.1);
        plan::figure(found, &name, TARGET, "throughput_ops_s.mean")
    };
    let mut told = Vec::new();
    for mix in mixes.iter().copied().filter(|mix| *mix != MIXES[0]) {
        let published = ROWS.ratio(PUBLISHED, mix, MIXES[0]);
        let name = format!("{NAME} {}:{} to 0:1, operations", mix.0, mix.1);
        if rate(mix).is_some() {
            let what = format!("{name} a second, {TARGET}");
            told.push(plan::beside(what, rate(mix), rate(MIXES[0]), published));
            continue;
        }
        for arm in [ONE, THREE] {
            let what = format!("{name} a processor second, {arm}");
            told.push(plan::beside(what, per_cpu_s(mix, arm), per_cpu_s(MIXES[0], arm), published));
        }
    }
    told
}

/// What part of a bare RocksDB's rate a node has; nothing where that was not asked.
fn of_bare(found: &Found, mixes: &[(u32, u32)]) -> Vec<Finding> {
    let of_mix = |mix: &(u32, u32)| {
        let scenario = format!("{NAME} {}:{}", mix.0, mix.1);
        let rate = |arm| plan::figure(found, &scenario, arm, "throughput_ops_s.mean");
        let per_cpu_s = |arm| plan::per_cpu_s(found, &scenario, arm);
        let what = |of: &str| format!("{scenario}: operations a {of}, {ONE} to {BARE}");
        rate(BARE).map(|bare| {
            [
                plan::beside(what("second"), rate(ONE), Some(bare), None),
                plan::beside(what("processor second"), per_cpu_s(ONE), per_cpu_s(BARE), None),
            ]
        })
    };
    mixes.iter().filter_map(of_mix).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_the_first_mixes_of_three_arms() {
        let quick =
            LiveOptions { size: LiveSize::Quick, ..LiveOptions::new("kv-throughput").unwrap() };
        assert_eq!(laps(&quick), 3 * 3 * QUICK);
        assert_eq!(mixes(&quick), [(0, 1), (1, 1), (30, 1)]);
        assert_eq!(laps(&LiveOptions { size: LiveSize::Full, ..quick }), 10 * 8 * 7);
    }
}
