//! `remote-recovery`, live: how long a follower takes to copy its leader's table over a long link, by
//! the published rule and by what the nodes choose themselves, beside a raw copy of the same bytes;
//! and how far behind it is while the leader is written to. Two clusters of one node each, here; the
//! link is `wan.rs`.

mod arms;
mod following;
mod lag;
mod laps;
mod pair;
mod raw;
mod verdict;
mod watched;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use arms::names;
use arms::{RemoteArm, Way, arms};
use pair::{Pair, SHARE};

use super::context::{Arm, Context, variants};
use super::corpus::Shape;
use super::measure::Measured;
use super::{Found, LiveOptions, cluster, method, processes};
use crate::LabError;
use crate::result::{FaultNote, LoadNote, Scenario, Series};
use crate::wan::WanSettings;

/// The name of the experiment.
pub(crate) const NAME: &str = "remote-recovery";
const HTTP_LOGS: &str = "http_logs";
const FOLLOWING: &str = "following";
const SCENARIOS: [&str; 2] = [HTTP_LOGS, FOLLOWING];
/// Documents of the leader's table.
const DOCUMENTS: usize = 800_000;
/// A tenth of the study's link, over an ocean; a connection may have under way what an untuned
/// Linux lets it.
const LINK: WanSettings = WanSettings {
    delay: Duration::from_millis(50),
    jitter: Duration::ZERO,
    rate_bytes_s: 12_500_000,
    loss: 0.0,
    window_bytes_max: 6 << 20,
};
/// The first copy counts for nothing and tells how large the table is.
const FIRST_SECONDS_MAX: f64 = 300.0;
/// Laps that may be made again because something disturbed them, of all.
const AGAIN_SHARE: usize = 4;

/// Names of scenarios that may be asked for.
pub(crate) fn scenarios() -> Vec<&'static str> {
    SCENARIOS.to_vec()
}

fn has(options: &LiveOptions, scenario: &str) -> bool {
    options.scenarios.is_empty() || options.scenarios.iter().any(|one| one == scenario)
}

/// Documents that a run copies and a file may stand for.
pub(crate) fn corpora(_: &LiveOptions) -> Vec<(Shape, usize)> {
    vec![(Shape::HttpLogs, DOCUMENTS)]
}

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, laps: usize) -> usize {
    let arms = arms(options.size, &options.variants, LINK.rate_bytes_s).len();
    let copies = if has(options, HTTP_LOGS) { 2 + laps * arms } else { 0 };
    let following = if has(options, FOLLOWING) { following::laps(laps) } else { 0 };
    copies + following
}

/// A run in progress.
struct Run<'a, 'b> {
    context: &'a mut Context<'b>,
    pair: Pair,
    arms: Vec<RemoteArm>,
    found: Found,
    /// The course of the first lap of each arm of [`HTTP_LOGS`].
    courses: Vec<Series>,
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    context.progress.note("starting a leader, a follower and the link between them");
    let pair = Pair::start(&options.binary, &options.folder, LINK, options.seed)?;
    let arms = arms(options.size, &options.variants, LINK.rate_bytes_s);
    let mut run = Run { context, pair, arms, found: std::mem::take(found), courses: Vec::new() };
    let ended = run.all();
    *found = run.found;
    ended
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), LabError> {
        self.settle_arms();
        let seed = self.context.options.seed;
        let corpus = self.context.corpora.of(Shape::HttpLogs, DOCUMENTS, seed);
        self.context.progress.note(&format!("loading {} documents", corpus.count));
        self.pair.load(&corpus)?;
        self.pair.cluster.limit()?;
        self.tell();
        if has(self.context.options, HTTP_LOGS) {
            self.copies()?;
        }
        if has(self.context.options, FOLLOWING) && !self.context.is_stopped() {
            following::run(self)?;
        }
        if self.context.is_stopped() { Err(LabError::Stopped) } else { Ok(()) }
    }

    /// What a reader has to know of how it is measured.
    fn tell(&mut self) {
        let about = self.pair.cluster.limits.about();
        self.context.note(format!(
            "leader and follower have {SHARE} processors each ({about}); the link is not limited"
        ));
        self.context.note(format!(
            "the link carries {} MB/s each way, a trip takes {} ms, a connection begins with 10 \
             segments and has at most {} MiB under way; chunks are {} % of the study's, as the link \
             is of 1 Gb/s",
            LINK.rate_bytes_s as f64 / 1e6,
            (LINK.delay * 2).as_millis(),
            LINK.window_bytes_max >> 20,
            LINK.rate_bytes_s as f64 / 1.25e6,
        ));
        self.context.note(format!(
            "raw copies are of files of the leader's, over TLS 1.3, with a sync at the end; their \
             connections stand before the clock starts; this machine's own sockets: {}",
            processes::sockets()
        ));
        self.context.note(
            "not here: geopoint, pmc, small-nodes, while-indexing, loss and other trips; the arms \
             1m-5-by-file, +deflate and ours-plain"
                .to_owned(),
        );
    }

    /// Arms whose settings the follower does not take are left out, and the report says so.
    fn settle_arms(&mut self) {
        let address = self.pair.follower().http();
        let takes = |key: &str, value: &serde_json::Value| {
            cluster::set(&address, &BTreeMap::from([(key.to_owned(), value.clone())])).is_ok()
        };
        let mut left_out = Vec::new();
        for arm in &mut self.arms {
            let count = arm.settings.len();
            arm.settings.retain(|key, value| takes(key, value));
            if arm.settings.len() < count && arm.way != Way::Ours {
                left_out.push(arm.name);
            }
        }
        self.arms.retain(|arm| !left_out.contains(&arm.name));
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            self.context
                .note(format!("left out, as the nodes do not take their settings: {names}"));
        }
    }

    /// The scenario of copies: two that count for nothing, then all arms in turns.
    fn copies(&mut self) -> Result<(), LabError> {
        let stop = std::sync::Arc::clone(&self.context.options.stop);
        self.pair.forget()?;
        let first = laps::follow(&self.pair, FIRST_SECONDS_MAX, &stop)?;
        let bytes = match first.cut {
            Some(_) if self.context.is_stopped() => return Err(LabError::Stopped),
            Some(why) => return Err(LabError::live("copy the table once".to_owned(), why)),
            None => first.bytes,
        };
        self.context.step(&format!("{HTTP_LOGS} first copy"));
        self.pair.serve_raw(bytes)?;
        let raw = self.arms[0].clone();
        let (warm, _) = laps::lap(&mut self.pair, &raw, bytes, f64::INFINITY, &stop)?;
        let raw_seconds = warm.lap.recovery.map_or(0.0, |it| it.recovery_seconds);
        self.context.note(format!(
            "{HTTP_LOGS}: {:.1} MB of files in {} partitions; the first raw copy took {raw_seconds:.2} s",
            bytes as f64 / 1e6,
            pair::SHARDS
        ));
        self.context.step(&format!("{HTTP_LOGS} raw warm-up"));
        let mut laps = self.turns(bytes, raw_seconds)?;
        if laps.iter().all(Vec::is_empty) {
            return Err(LabError::Stopped);
        }
        verdict::shares(&self.arms, &mut laps);
        let fit = [
            ("link_bytes_s", LINK.rate_bytes_s as f64),
            ("trip_ms", (LINK.delay * 2).as_secs_f64() * 1e3),
            ("table_bytes", bytes as f64),
        ];
        let arms = self.arms.clone();
        self.push(HTTP_LOGS, LoadNote::Clients(0), &fit, &arms, &laps);
        self.found.plots.series.append(&mut self.courses);
        self.tell_cut(&laps);
        Ok(())
    }

    /// The laps of all arms, in turns; what there is when it is stopped.
    fn turns(&mut self, bytes: u64, raw_seconds: f64) -> Result<Vec<Vec<Measured>>, LabError> {
        let stop = std::sync::Arc::clone(&self.context.options.stop);
        let mut all: Vec<Vec<Measured>> = self.arms.iter().map(|_| Vec::new()).collect();
        let laps = self.context.laps();
        let mut again = (laps * self.arms.len()).div_ceil(AGAIN_SHARE);
        for block in 0..laps {
            for at in method::order(self.arms.len(), block) {
                let arm = self.arms[at].clone();
                loop {
                    if self.context.is_stopped() {
                        return Ok(all);
                    }
                    let limit = arm.seconds_max(raw_seconds);
                    let (mut lap, course) = laps::lap(&mut self.pair, &arm, bytes, limit, &stop)?;
                    if block == 0 && lap.lap.recovery.is_some() {
                        self.courses.retain(|one| one.variant != arm.name);
                        self.courses.push(laps::series(HTTP_LOGS, arm.name, &course));
                    }
                    lap.block = block;
                    // One that was stopped before it was done tells nothing.
                    if self.context.is_stopped() && lap.lap.recovery.is_none() {
                        return Ok(all);
                    }
                    let why = lap.lap.reason.clone().unwrap_or_default();
                    let is_good = lap.lap.valid || again == 0;
                    all[at].push(lap);
                    if is_good || self.context.is_stopped() {
                        break;
                    }
                    again -= 1;
                    self.context.progress.note(&format!("{}: once more, {why}", arm.name));
                }
                let last = all[at].last().and_then(|one| one.lap.recovery);
                let took = last.map_or("nothing came".to_owned(), |it| {
                    format!("{:.1} s", it.recovery_seconds)
                });
                let what = format!("{HTTP_LOGS} {} lap {} ({took})", arm.name, block + 1);
                self.context.step(&what);
            }
        }
        Ok(all)
    }

    /// Adds a scenario to what was found.
    fn push(
        &mut self,
        name: &str,
        load: LoadNote,
        fit: &[(&str, f64)],
        of: &[RemoteArm],
        laps: &[Vec<Measured>],
    ) {
        let fit = fit.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let arms: Vec<Arm> = of
            .iter()
            .map(|arm| Arm { name: arm.name.to_owned(), settings: arm.settings.clone() })
            .collect();
        let scenario = Scenario {
            name: name.to_owned(),
            fault: FaultNote { kind: "wide-area link".to_owned(), fit },
            load,
            variants: variants(&arms, laps, None),
        };
        let seed = self.context.options.seed;
        let compared = verdict::comparisons(name, of, laps, seed);
        self.found.plots.findings.extend(verdict::findings(&scenario, &compared));
        self.found.results.scenarios.push(scenario);
        self.found.results.comparisons.extend(compared);
    }

    /// Says which laps were cut: their times are no measurements.
    fn tell_cut(&mut self, laps: &[Vec<Measured>]) {
        for (arm, laps) in self.arms.iter().zip(laps) {
            let reasons = laps.iter().filter_map(|one| one.lap.reason.as_deref());
            let reasons: Vec<&str> = reasons.filter(|why| why.contains("cut after")).collect();
            if let Some(first) = reasons.first() {
                let count = reasons.len();
                self.context.notes.push(format!(
                    "{HTTP_LOGS} {}: {count} of {} laps were cut and their times extrapolated (the \
                     first: {first})",
                    arm.name,
                    laps.len()
                ));
            }
        }
    }
}
