//! The plan of an experiment: its jobs (`job.rs`), and the carrying out of a plan on at most two threads,
//! whose result does not depend on which of them was faster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::job::Job;
use super::laps;
use crate::result::{Lap, Results, Scenario, Series, Variant};
use crate::sim::{self, derive};
use crate::{LabError, Progress};

/// Threads of a simulation; more would take processors from whatever else the machine does.
const THREADS: usize = 2;

/// A plan and the name it reports under.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) experiment: String,
    pub(crate) jobs: Vec<Job>,
}

impl Plan {
    pub(crate) fn empty(experiment: &str) -> Self {
        Self { experiment: experiment.to_owned(), jobs: Vec::new() }
    }
}

/// What a run left: its laps by window, and its course.
struct Made {
    job: usize,
    lap: u64,
    laps: Vec<Lap>,
    series: Vec<Series>,
}

/// Carries out a plan.
///
/// # Errors
/// Where the caller wants no more.
pub(crate) fn carry_out(
    plan: &Plan,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<(Results, Vec<Series>), LabError> {
    let runs: Vec<(usize, u64)> = plan
        .jobs
        .iter()
        .enumerate()
        .flat_map(|(job, of)| (of.first_lap..of.first_lap + of.laps).map(move |lap| (job, lap)))
        .collect();
    let next = AtomicUsize::new(0);
    let mut made: Vec<Option<Made>> = runs.iter().map(|_| None).collect();
    let stopped = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<(usize, Made)>(THREADS);
        for _ in 0..THREADS {
            let (sender, runs, next) = (sender.clone(), &runs, &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((job, lap)) = runs.get(at).copied() else { break };
                    if sender.send((at, make(&plan.jobs[job], job, lap, seed))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (count, (at, one)) in receiver.iter().enumerate() {
            let job = &plan.jobs[one.job];
            let scenario = job.notes.iter().flatten().next().map_or("", |note| &note.scenario);
            let what = format!("{scenario} {} lap {}", job.variant, one.lap + 1);
            made[at] = Some(one);
            if !progress.step(count + 1, runs.len(), &what) {
                next.store(usize::MAX / 2, Ordering::Relaxed);
                return true;
            }
        }
        false
    });
    if stopped {
        return Err(LabError::Stopped);
    }
    Ok(gather(plan, seed, made.into_iter().flatten()))
}

fn make(job: &Job, number: usize, lap: u64, seed: u64) -> Made {
    // All variants of a scenario meet the same requests in the same lap.
    let outcome = sim::run(&job.spec, derive(seed, lap), false);
    let laps = laps::of_windows(&job.spec, &outcome);
    let first = lap == job.first_lap && lap == 0;
    let series = match first {
        true => laps::series(job, &outcome),
        false => Vec::new(),
    };
    Made { job: number, lap, laps, series }
}

/// Puts the laps where they belong, in the order of the plan.
fn gather(plan: &Plan, seed: u64, made: impl Iterator<Item = Made>) -> (Results, Vec<Series>) {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut series = Vec::new();
    for one in made {
        let job = &plan.jobs[one.job];
        series.extend(one.series);
        for (note, lap) in job.notes.iter().zip(one.laps) {
            let Some(note) = note else { continue };
            let at = scenarios.iter().position(|known| known.name == note.scenario);
            let at = at.unwrap_or_else(|| {
                scenarios.push(Scenario {
                    name: note.scenario.clone(),
                    fault: note.fault.clone(),
                    load: note.load,
                    variants: Vec::new(),
                });
                scenarios.len() - 1
            });
            let variants = &mut scenarios[at].variants;
            match variants.iter_mut().find(|known| known.name == job.variant) {
                Some(variant) => variant.laps.push(lap),
                None => variants.push(Variant {
                    name: job.variant.clone(),
                    settings: job.settings.clone(),
                    laps: vec![lap],
                    pooled: None,
                }),
            }
        }
    }
    let results = Results {
        schema_version: crate::result::SCHEMA_VERSION,
        experiment: plan.experiment.clone(),
        mode: crate::result::Mode::Simulated,
        host: "simulated".to_owned(),
        seed,
        notes: Vec::new(),
        run: None,
        scenarios,
        comparisons: Vec::new(),
    };
    (results, series)
}
