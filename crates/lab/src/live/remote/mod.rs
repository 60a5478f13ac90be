//! `remote-recovery`, live: how long a follower takes to copy its leader's table over a long link, by
//! the published rule and by what the nodes choose themselves, beside a raw copy of the same bytes;
//! with few processors too, and while both sides have other work; and how far behind it is while the
//! leader is written to. Two clusters of one node each, here; the link is `wan.rs`. Or two clusters of
//! the user's ([`given`]).

mod arms;
mod copies;
mod copying;
mod course;
mod following;
mod given;
mod index;
mod indexing;
mod lag;
mod laps;
mod pair;
mod raw;
mod scenarios;
mod verdict;
mod watched;

use std::collections::BTreeMap;

pub(crate) use arms::names;
use arms::{RemoteArm, Way};
pub(crate) use given::names as names_of_given;
use index::SHARDS;
use pair::{Pair, SHARE};
use scenarios::{Kind, LINK, Plan};

use super::context::{Arm, Context, variants};
use super::corpus::Shape;
use super::found::Found;
use super::measure::Measured;
use super::options::LiveOptions;
use super::{cluster, processes, resume};
use crate::LabError;
use crate::result::{FaultNote, LoadNote, Scenario};

/// The name of the experiment.
pub(crate) const NAME: &str = "remote-recovery";

/// Names of scenarios that may be asked for.
pub(crate) fn scenarios() -> Vec<&'static str> {
    scenarios::names()
}

/// Documents that a run copies and a file may stand for.
pub(crate) fn corpora(options: &LiveOptions) -> Vec<(Shape, usize)> {
    if options.target.is_some() {
        return vec![(Shape::HttpLogs, given::documents(options))];
    }
    let mut shapes: Vec<Shape> = Vec::new();
    for plan in scenarios::of(options) {
        if !shapes.contains(&plan.shape) {
            shapes.push(plan.shape);
        }
    }
    shapes.into_iter().map(|shape| (shape, scenarios::documents(shape))).collect()
}

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, laps: usize) -> usize {
    match options.target {
        Some(_) => given::steps(options, laps),
        None => steps_of(&scenarios::of(options), options, laps),
    }
}

fn steps_of(plans: &[Plan], options: &LiveOptions, laps: usize) -> usize {
    let of = |plan: &Plan| {
        let of_each = plan.laps(options, laps);
        match plan.kind {
            Kind::Copies => 2 + plan.laps_of_all(options, laps),
            Kind::Indexing => of_each * indexing::arms_of(options),
            Kind::Following => following::laps(of_each),
        }
    };
    plans.iter().map(of).sum()
}

/// A run in progress.
struct Run<'a, 'b> {
    context: &'a mut Context<'b>,
    pair: Pair,
    /// What the leader's table is made of.
    table: Option<(Shape, usize)>,
    found: Found,
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    if let Some(words) = &options.target {
        return given::run(context, words, found);
    }
    let whole = resume::begin(context, found)?;
    let mut plans = scenarios::of(options);
    plans.retain(|plan| !whole.iter().any(|name| name == plan.name));
    if plans.is_empty() {
        return Ok(());
    }
    context.expect(steps_of(&plans, options, context.laps()));
    context.progress.note("starting a leader, a follower and the link between them");
    let pair = Pair::start(&options.binary, &options.folder, LINK, options.seed)?;
    let mut run = Run { context, pair, table: None, found: std::mem::take(found) };
    let ended = run.all(&plans);
    *found = run.found;
    ended
}

impl Run<'_, '_> {
    fn all(&mut self, plans: &[Plan]) -> Result<(), LabError> {
        self.tell();
        for plan in plans {
            if self.context.is_stopped() {
                break;
            }
            self.load(plan)?;
            self.pair.cluster.limit_to(plan.share)?;
            self.pair.wan.change(plan.link);
            match plan.kind {
                Kind::Copies => self.copies(plan)?,
                Kind::Indexing => indexing::run(self, plan)?,
                Kind::Following => following::run(self, plan)?,
            }
            if !self.context.is_stopped() {
                resume::keep(self.context, plan.name, &mut self.found)?;
            }
        }
        if self.context.is_stopped() { Err(LabError::Stopped) } else { Ok(()) }
    }

    /// Has the leader's table made as a plan wants it, by nodes that are not limited.
    fn load(&mut self, plan: &Plan) -> Result<(), LabError> {
        let (shape, shards) = (plan.shape, plan.shards);
        if self.table == Some((shape, shards)) {
            return Ok(());
        }
        self.pair.forget()?;
        self.pair.cluster.unlimit()?;
        let (count, seed) = (scenarios::documents(shape), self.context.options.seed);
        let corpus = self.context.corpora.of(shape, count, seed);
        self.context.progress.note(&format!("loading {} documents", corpus.count));
        self.pair.load(&corpus, shards)?;
        self.pair.await_rest(&self.context.options.stop);
        self.table = Some((shape, shards));
        Ok(())
    }

    /// What a reader has to know of how it is measured.
    fn tell(&mut self) {
        let about = self.pair.cluster.limits.about();
        self.context.note(format!(
            "leader and follower have {SHARE} processors each, small nodes a quarter of that \
             ({about}); the link is not limited"
        ));
        self.context.note(format!(
            "the link carries {} MB/s each way, a trip takes {} ms where the scenario's name does \
             not say another, a connection begins with 10 segments and has at most {} MiB under \
             way; chunks are {} % of the study's, as the link is of 1 Gb/s; each of the table's {SHARDS} \
             partitions has as many under way as an arm's name says",
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
    }

    /// Arms whose settings the follower does not take are left out, and the report says so.
    fn leave_out_unsupported(&mut self, mut arms: Vec<RemoteArm>) -> Vec<RemoteArm> {
        let address = self.pair.follower().http();
        let takes = |key: &str, value: &serde_json::Value| {
            cluster::set(&address, &BTreeMap::from([(key.to_owned(), value.clone())])).is_ok()
        };
        let mut left_out = Vec::new();
        for arm in &mut arms {
            let count = arm.settings.len();
            arm.settings.retain(|key, value| takes(key, value));
            if arm.settings.len() < count && arm.way != (Way::Ours { plain: false }) {
                left_out.push(arm.name);
            }
        }
        arms.retain(|arm| !left_out.contains(&arm.name));
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            self.context
                .note(format!("left out, as the nodes do not take their settings: {names}"));
        }
        arms
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
        self.found.plots.findings.extend(verdict::findings(&scenario, &compared, seed));
        self.found.results.scenarios.push(scenario);
        self.found.results.comparisons.extend(compared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::options::LiveSize;

    #[test]
    fn a_quick_run_is_over_within_ten_minutes() {
        let quick = LiveOptions { size: LiveSize::Quick, ..LiveOptions::new(NAME).unwrap() };
        // A first copy and a raw one before each table's laps; three raw copies and ours four times and
        // three fixed arms twice; four arms of small nodes, two of work beside a copy and one of following
        // twice.
        let laps = (2 + 4 * 4 + 3 * 2) + (2 + 2 * 4) + 2 * 2 + 2;
        assert_eq!(steps(&quick, 5), laps);
        // A lap takes 13 s on average, with what lies between; a minute is for loading.
        assert!(laps * 13 + 60 < 600);
        let given = LiveOptions { target: Some("http://a,http://b".to_owned()), ..quick };
        assert_eq!(steps(&given, 5), 5);
    }
}
