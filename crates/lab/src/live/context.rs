//! What a run of the live lab has at hand: the options, how far it is, whether it is to stop; and
//! the paired laps of one scenario, which all experiments share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::Cluster;
use super::corpus::Corpora;
use super::fault::{Active, FaultKind};
use super::load::{Load, Pace, Requests, Watch};
use super::measure::{self, Measured};
use super::method;
use super::options::{LiveOptions, LiveSize};
use super::wire::Protocol;
use crate::result::{Comparison, Lap, Variant};
use crate::sim::derive;
use crate::{LabError, Progress};

/// How long a client of the lab waits for an answer: longer than the worst that a study saw.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Laps of a scenario that may be made again because something disturbed them, of all its laps.
const AGAIN_SHARE: usize = 4;

/// One arm: settings of the cluster that are switched while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) settings: BTreeMap<String, Value>,
}

/// What a scenario asks, and where.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) addresses: Vec<String>,
    pub(crate) requests: Requests,
    pub(crate) pace: Pace,
    /// What counts for nothing, and what is measured, of each paired lap.
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// The context of a run.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a LiveOptions,
    pub(crate) progress: &'a mut dyn Progress,
    /// Remarks for the report.
    pub(crate) notes: Vec<String>,
    /// Files that stand for generated documents.
    pub(crate) corpora: Corpora,
    steps: usize,
    done: usize,
    began: Option<Instant>,
}

/// Ends a lap when the run is to end.
pub(crate) struct Stopping(pub(crate) Arc<AtomicBool>);

impl Watch for Stopping {
    fn answered(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<'a> Context<'a> {
    /// A run.
    pub(crate) fn new(options: &'a LiveOptions, progress: &'a mut dyn Progress) -> Self {
        let (notes, corpora) = (Vec::new(), Corpora::default());
        Self { options, progress, notes, corpora, steps: 0, done: 0, began: None }
    }

    /// It will make about so many laps.
    pub(crate) fn expect(&mut self, laps: usize) {
        self.steps = laps;
    }

    /// Whether the run is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    /// Laps of each arm.
    pub(crate) fn laps(&self) -> usize {
        self.options.laps.unwrap_or(match self.options.size {
            LiveSize::Quick => 5,
            LiveSize::Study | LiveSize::Full => method::BLOCKS_MIN,
        })
    }

    /// A remark to whoever watches, and for the report, which has each once.
    pub(crate) fn note(&mut self, text: String) {
        self.progress.note(&text);
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Says in one sentence what came of it: the last note, shown when all is done.
    pub(crate) fn conclude(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// One more lap is made.
    pub(crate) fn step(&mut self, what: &str) {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.done += 1;
        self.steps = self.steps.max(self.done);
        let left = (self.steps - self.done) as f64;
        // The first one has no time of its own yet.
        let each_s = began.elapsed().as_secs_f64() / (self.done as f64 - 1.0).max(1.0);
        let left = if self.done < 2 { String::new() } else { left_in_words(left * each_s) };
        if !self.progress.step(self.done, self.steps, &format!("{what}{left}")) {
            self.options.stop.store(true, Ordering::Relaxed);
        }
    }

    /// One lap outside of the paired ones, for a fit: measured for less long than those of the
    /// scenario, but after a longer beginning, because what was changed has to show.
    pub(crate) fn try_lap(
        &mut self,
        cluster: &mut Cluster,
        ask: &Ask,
    ) -> Result<Measured, LabError> {
        let seed = derive(self.options.seed, 1_000_000 + self.done as u64);
        let (warm_up, window) = (ask.warm_up * 3 / 2, ask.window * 5 / 7);
        let load = self.load(ask, warm_up, window, seed);
        let measured = measure::lap(cluster, &load, &Stopping(Arc::clone(&self.options.stop)))?;
        if self.is_stopped() { Err(LabError::Stopped) } else { Ok(measured) }
    }

    fn load<'b>(&self, ask: &'b Ask, warm_up: Duration, window: Duration, seed: u64) -> Load<'b> {
        Load {
            addresses: &ask.addresses,
            protocol: Protocol::Http,
            greeting: b"",
            requests: &ask.requests,
            pace: ask.pace,
            warm_up,
            window,
            timeout: TIMEOUT,
            seed,
        }
    }

    /// The paired laps of a scenario, by arm. A lap that something disturbed stays in the results
    /// as such and is made again, up to a quarter of all. A fault that is given here begins and
    /// ends with each lap. When the run is to end, what there is.
    pub(crate) fn paired(
        &mut self,
        cluster: &mut Cluster,
        scenario: &str,
        arms: &[Arm],
        ask: &Ask,
        fault: Option<(usize, FaultKind)>,
    ) -> Result<Vec<Vec<Measured>>, LabError> {
        let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
        let laps = self.laps();
        let mut again = (laps * arms.len()).div_ceil(AGAIN_SHARE);
        for block in 0..laps {
            for at in method::order(arms.len(), block) {
                loop {
                    if self.is_stopped() {
                        return Ok(all);
                    }
                    let mut lap = self.one(cluster, &arms[at], ask, block, fault)?;
                    lap.block = block;
                    let is_good = lap.lap.valid || again == 0;
                    let why = lap.lap.reason.clone();
                    all[at].push(lap);
                    if is_good || self.is_stopped() {
                        break;
                    }
                    again -= 1;
                    let why = why.unwrap_or_default();
                    self.progress.note(&format!("{scenario} {}: once more, {why}", arms[at].name));
                }
                self.step(&format!("{scenario} {} lap {}", arms[at].name, block + 1));
            }
        }
        Ok(all)
    }

    fn one(
        &self,
        cluster: &mut Cluster,
        arm: &Arm,
        ask: &Ask,
        block: usize,
        fault: Option<(usize, FaultKind)>,
    ) -> Result<Measured, LabError> {
        cluster.set(&arm.settings)?;
        // All arms of a block meet the same requests.
        let seed = derive(self.options.seed, block as u64);
        let load = self.load(ask, ask.warm_up, ask.window, seed);
        let active = fault.map(|(node, kind)| Active::begin(cluster, node, kind)).transpose()?;
        let measured = measure::lap(cluster, &load, &Stopping(Arc::clone(&self.options.stop)));
        if let Some(active) = active {
            active.end(cluster)?;
        }
        measured
    }
}

fn left_in_words(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!(", {s:.0} s left"),
        s => format!(", {:.0} min left", s / 60.0),
    }
}

/// Arms with their laps as variants of a result.
pub(crate) fn variants(
    arms: &[Arm],
    laps: &[Vec<Measured>],
    segments: Option<u64>,
) -> Vec<Variant> {
    let one = |(arm, laps): (&Arm, &Vec<Measured>)| Variant {
        name: arm.name.clone(),
        settings: arm.settings.clone(),
        laps: laps.iter().map(|m| Lap { segment_count: segments, ..m.lap.clone() }).collect(),
        pooled: Some(method::pooled(laps)),
    };
    arms.iter().zip(laps).filter(|(_, laps)| !laps.is_empty()).map(one).collect()
}

/// Every arm against the first, with what was published beside it: one line for each generation.
pub(crate) fn comparisons(
    scenario: &str,
    arms: &[Arm],
    laps: &[Vec<Measured>],
    seed: u64,
    published: fn(&str, &str, &str) -> Vec<(String, f64)>,
) -> Vec<Comparison> {
    let (Some(base), Some(of_base)) = (arms.first(), laps.first()) else { return Vec::new() };
    let mut found = Vec::new();
    for (arm, of_arm) in arms.iter().zip(laps).skip(1) {
        let seed = derive(seed, found.len() as u64);
        let pairs =
            ((base.name.as_str(), of_base.as_slice()), (arm.name.as_str(), of_arm.as_slice()));
        for comparison in method::compare(scenario, pairs.0, pairs.1, seed) {
            let published = published(scenario, &arm.name, &comparison.metric);
            found.extend(comparison.beside(published));
        }
    }
    found
}
