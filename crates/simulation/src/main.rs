//! Runs seeds, one after the other or several at once, and says which broke a promise.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use plimsoll_simulation::messages;
use plimsoll_simulation::plan::Plan;
use plimsoll_simulation::run::{Outcome, run};
use plimsoll_simulation::shrink::{Cut, shrink};

/// Runs whole clusters in one thread on virtual time, each from one seed, and judges what its clients saw
#[derive(Parser)]
#[command(
    name = "simulate",
    after_help = "Examples:\n  simulate --seeds 200\n  simulate --from 4711 --seeds 1 --verbose\n  \
                  simulate --from 4711 --seeds 1 --shrink"
)]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    from: u64,
    /// How many seeds
    #[arg(long, default_value_t = 200, value_name = "N")]
    seeds: u64,
    /// How many at once [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Begins no more seeds after one that is broken
    #[arg(long)]
    until_broken: bool,
    /// Each seed twice: the same seed has to be the same history
    #[arg(long)]
    twice: bool,
    /// Leaves as much as can be left out of the first seed that is broken, and says how to run what is left
    #[arg(long)]
    shrink: bool,
    /// The faults that are kept, by their places in the seed's plan: 0,3,4, or nothing for none
    #[arg(long, value_name = "PLACES", value_parser = places)]
    faults: Option<Places>,
    /// How many clients of rows there are [default: as the seed says]
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// How many clients of documents there are [default: as the seed says]
    #[arg(long, value_name = "N")]
    searchers: Option<usize>,
    /// For how long they ask, s [default: as the seed says]
    #[arg(long, value_name = "S")]
    duration_s: Option<u64>,
    /// The log does nothing but what it is told to
    #[arg(long)]
    calm_log: bool,
    /// The way between two clusters does nothing but carry what is asked and answered
    #[arg(long)]
    calm_link: bool,
    /// Each seed has a second cluster, whose tables follow [default: as the seed says]
    #[arg(long)]
    follow: bool,
    /// No seed has one, though its faults keep the places that they have with it
    #[arg(long)]
    alone: bool,
    /// Says of each seed what it was made of and what came of it
    #[arg(long)]
    verbose: bool,
    /// Writes what nodes say to the standard error, with the virtual time: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    messages: Option<tracing::Level>,
}

/// Places in a list.
#[derive(Clone)]
struct Places(Vec<usize>);

fn places(text: &str) -> Result<Places, std::num::ParseIntError> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(str::parse).collect::<Result<_, _>>().map(Places)
}

impl Arguments {
    /// What is left out of each seed's plan.
    fn cut(&self) -> Cut {
        Cut {
            faults: self.faults.as_ref().map(|places| places.0.clone()),
            clients: self.clients,
            searchers: self.searchers,
            duration_s: self.duration_s,
            is_log_calm: self.calm_log,
            is_link_calm: self.calm_link,
            is_alone: self.alone,
        }
    }

    /// The plan of a seed, before anything is left out.
    fn plan(&self, seed: u64) -> Plan {
        if self.follow { Plan::of_two(seed) } else { Plan::of(seed) }
    }
}

#[derive(Default)]
struct Totals {
    passed: Duration,
    answered: u64,
    refused: u64,
    unknown: u64,
    faults: u64,
    broken: Vec<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.messages.into_iter().for_each(messages::write);
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let (next, totals) = (AtomicU64::new(arguments.from), Mutex::new(Totals::default()));
    let end = arguments.from.saturating_add(arguments.seeds);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || arguments.until_broken && is_broken(&totals) {
                        return;
                    }
                    one(&arguments, seed, &totals);
                }
            });
        }
    });
    let mut totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    totals.broken.sort_unstable();
    println!(
        "{} seeds, {:.1} virtual hours, {} faults; {} operations answered, {} refused, {} of which nobody knows",
        arguments.seeds,
        totals.passed.as_secs_f64() / 3_600.0,
        totals.faults,
        totals.answered,
        totals.refused,
        totals.unknown
    );
    let cut = arguments.cut();
    let follow = if arguments.follow { " --follow" } else { "" };
    for seed in &totals.broken {
        println!("broken: simulate --from {seed} --seeds 1 --verbose{follow}{cut}");
    }
    if let Some(seed) = totals.broken.first().filter(|_| arguments.shrink) {
        let shrunk = shrink(&arguments.plan(*seed), cut, is_violated);
        println!("shrunk: simulate --from {seed} --seeds 1 --verbose{follow}{shrunk}");
    }
    if totals.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_broken(totals: &Mutex<Totals>) -> bool {
    !totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).broken.is_empty()
}

/// Runs a seed on a thread of its own, as what a thread remembers (hash keys) must not come from another seed.
fn one(arguments: &Arguments, seed: u64, totals: &Mutex<Totals>) {
    let plan = arguments.cut().of(&arguments.plan(seed));
    if arguments.verbose {
        println!("seed {seed}: {plan:?}");
    }
    let runs = std::thread::scope(|scope| {
        let count = if arguments.twice { 2 } else { 1 };
        (0..count).map(|_| scope.spawn(|| outcome(&plan)).join()).collect::<Vec<_>>()
    });
    let mut violations = Vec::new();
    let mut traces = Vec::new();
    for run in runs {
        match run {
            Ok(Ok(outcome)) => {
                let mut totals = totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                totals.passed += outcome.passed;
                totals.answered += outcome.counts.answered;
                totals.refused += outcome.counts.refused;
                totals.unknown += outcome.counts.unknown;
                totals.faults += plan.faults.due.len() as u64;
                drop(totals);
                if arguments.verbose {
                    println!("seed {seed}: {:?}, trace {:016x}", outcome.counts, outcome.trace);
                }
                traces.push(outcome.trace);
                violations.extend(outcome.violations);
            }
            Ok(Err(why)) => violations.push(why),
            Err(_) => violations.push("it panicked".to_owned()),
        }
    }
    if traces.windows(2).any(|pair| pair[0] != pair[1]) {
        violations.push("the same seed is another history".to_owned());
    }
    if violations.is_empty() {
        return;
    }
    println!("seed {seed} is broken:");
    violations.iter().for_each(|violation| println!("  {violation}"));
    if arguments.verbose {
        println!("  {:?}", plan.faults.troubles);
        if plan.follower.is_some() {
            println!("  {:?}, {:?}", plan.faults.follower_troubles, plan.faults.link);
        }
        plan.faults.due.iter().for_each(|due| println!("  {due:?}"));
    }
    totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).broken.push(seed);
}

/// Whether a run of a plan breaks a promise.
fn is_violated(plan: &Plan) -> bool {
    let run = std::thread::scope(|scope| scope.spawn(|| outcome(plan)).join());
    !matches!(run, Ok(Ok(outcome)) if outcome.violations.is_empty())
}

fn outcome(plan: &Plan) -> Result<Outcome, String> {
    run(plan).map_err(|stuck| stuck.to_string())
}
