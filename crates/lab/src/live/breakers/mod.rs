//! `breaker-overhead`: what the memory breakers cost, beside the study of 2014. Three arms: `on` and `noop`,
//! drawn at random for every request by one server (`indices.breaker.request.type: drawn`), and `layerless`,
//! a second server whose binary was built without the allocator's layer, on a copy of the same files; left
//! out where no such binary is given. Each thread's queries come in rounds, and the servers take turns, so
//! that what the machine does besides falls on all arms.
//!
//! Processor time of a query is what the server measures for its request (the threads' clocks where it runs
//! on search threads); `took` is the answer's, in whole ms, so of short searches it says nothing.

mod arms;
mod queries;
mod servers;
mod verdict;

use std::path::PathBuf;

use arms::WITHOUT;
use queries::{Round, ask_all};
use servers::Servers;

use super::context::Context;
use super::found::Found;
use super::options::{LiveOptions, LiveSize};
use super::resume;
use crate::LabError;
use crate::published::BREAKERS;

pub(crate) const NAME: &str = "breaker-overhead";
/// What it asks.
pub(crate) const ABOUT: &str = "what the memory breakers cost a search: the circuit breaker study";
/// Where the binary without the layer is, unless it is told.
const LAYERLESS: &str = "PLIMSOLL_LAYERLESS";

/// Queries of a thread and an arm in one round.
const ROUND_QUERIES: usize = 10;

/// One scenario: so many threads on so many documents.
struct Plan {
    name: &'static str,
    threads: usize,
    /// Of the older form: few documents, and few queries for warming up.
    is_old: bool,
    least: LiveSize,
}

const fn plan(name: &'static str, threads: usize, is_old: bool, least: LiveSize) -> Plan {
    Plan { name, threads, is_old, least }
}

const ALL: [Plan; 8] = [
    plan("threads-1", 1, false, LiveSize::Quick),
    plan("threads-5", 5, false, LiveSize::Study),
    plan("threads-10", 10, false, LiveSize::Quick),
    plan("threads-20", 20, false, LiveSize::Study),
    plan("threads-30", 30, false, LiveSize::Study),
    plan("old-threads-1", 1, true, LiveSize::Study),
    plan("old-threads-5", 5, true, LiveSize::Study),
    plan("old-threads-10", 10, true, LiveSize::Study),
];

impl Plan {
    fn documents(&self, options: &LiveOptions) -> u64 {
        if self.is_old { 20_000 } else { options.documents.unwrap_or(2_000_000) }
    }

    /// Queries of a server that count for nothing.
    fn warm_up(&self) -> usize {
        if self.is_old { 10 } else { 100 }
    }
}

/// Names of scenarios that may be asked for.
pub(crate) fn scenarios() -> Vec<&'static str> {
    ALL.iter().map(|plan| plan.name).collect()
}

fn of(options: &LiveOptions) -> Vec<&'static Plan> {
    let is_wanted = |plan: &&Plan| match options.scenarios.is_empty() {
        true => options.size != LiveSize::Quick || plan.least == LiveSize::Quick,
        false => options.scenarios.iter().any(|name| name == plan.name),
    };
    ALL.iter().filter(is_wanted).collect()
}

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, laps: usize) -> usize {
    of(options).len() * laps
}

fn layerless(options: &LiveOptions) -> Option<PathBuf> {
    let told = options.layerless.clone();
    told.or_else(|| std::env::var_os(LAYERLESS).map(PathBuf::from).filter(|it| it.is_file()))
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let whole = resume::begin(context, found)?;
    let layerless = layerless(options);
    if layerless.is_none() {
        context.note(format!(
            "{WITHOUT}: left out, as no binary without the allocator's layer was given (--{WITHOUT} PATH, or \
             {LAYERLESS}; `make bench-breakers` builds one)"
        ));
    }
    context.note(BREAKERS.note.clone());
    context.note(format!("Published: {}", BREAKERS.source));
    let mut servers: Option<(u64, Servers)> = None;
    for plan in of(options) {
        if whole.iter().any(|name| name == plan.name) {
            continue;
        }
        let documents = plan.documents(options);
        if servers.as_ref().is_none_or(|(loaded, _)| *loaded != documents) {
            // The ones before are stopped first: they are not to run beside.
            drop(servers.take());
            context.progress.note(&format!("indexing {documents} documents"));
            let started = Servers::start(options, layerless.as_deref(), documents)?;
            servers = Some((documents, started));
        }
        if let Some((_, servers)) = &servers {
            scenario(context, found, plan, servers)?;
        }
        resume::keep(context, plan.name, found)?;
    }
    Ok(())
}

/// The rounds of one scenario.
fn scenario(
    context: &mut Context<'_>,
    found: &mut Found,
    plan: &Plan,
    servers: &Servers,
) -> Result<(), LabError> {
    for server in servers.all() {
        let each = plan.warm_up().div_ceil(plan.threads);
        ask_all(&server.address, plan.threads, each)?;
    }
    let mut rounds: Vec<Round> = Vec::new();
    for block in 0..context.laps() {
        for at in super::method::order(servers.all().len(), block) {
            if context.is_stopped() {
                return Err(LabError::Stopped);
            }
            let server = &servers.all()[at];
            // One server answers for two arms, so twice as many are asked: of the other too, because the
            // first ones after a pause are the dearest.
            let cpu_s = server.cpu_s();
            let mut round = ask_all(&server.address, plan.threads, 2 * ROUND_QUERIES)?;
            round.process_cpu_s = server.cpu_s() - cpu_s;
            round.peak_bytes = server.peak_bytes();
            round.is_layerless = server.is_layerless;
            round.block = block;
            rounds.push(round);
        }
        context.step(&format!("{} round {}", plan.name, block + 1));
    }
    verdict::tell(context, found, plan, &rounds);
    Ok(())
}
