//! The scenarios of `remote-recovery`: which table, over what link, between nodes of how many
//! processors, with which arms and how many laps, and in which runs. Pure.

use std::time::Duration;

use super::arms::{DEFAULT, OURS, PLAIN, RAW, RAW_4, RemoteArm, Way, arms};
use super::index::SHARDS;
use super::pair::SHARE;
use crate::live::corpus::Shape;
use crate::live::options::{LiveOptions, LiveSize};
use crate::wan::WanSettings;

/// The scenario that `--quick` has of copies.
pub(super) const HTTP_LOGS: &str = "http_logs";
/// Nodes of few processors.
pub(super) const SMALL_NODES: &str = "small-nodes";
/// Copies while both sides have other work.
pub(super) const WHILE_INDEXING: &str = "while-indexing";
/// What follows a copy.
pub(super) const FOLLOWING: &str = "following";

/// A tenth of the study's link, over an ocean; a connection may have under way what an untuned
/// Linux lets it.
pub(super) const LINK: WanSettings = WanSettings {
    delay: Duration::from_millis(50),
    jitter: Duration::ZERO,
    rate_bytes_s: 12_500_000,
    loss: 0.0,
    window_bytes_max: 6 << 20,
};

/// The small nodes of the study had a quarter of the others' processors, and a table of one partition.
const SMALL: f64 = SHARE / 4.0;

/// Arms of small nodes, and of all tables and links but the first in a full run.
const OF_SMALL: [&str; 4] = [RAW, DEFAULT, OURS, PLAIN];
const SMALL_SHARDS: usize = 1;
const ELSEWHERE: [&str; 7] = [RAW, RAW_4, DEFAULT, "5m-5", "1m-10", OURS, PLAIN];

/// Laps of a fixed arm in a quick run.
const FIXED_LAPS_QUICK: usize = 2;

/// What a scenario does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copies,
    Indexing,
    Following,
}

/// A scenario.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// Partitions of the table.
    pub(super) shards: usize,
    pub(super) link: WanSettings,
    /// Processors of each node.
    pub(super) share: f64,
    /// Its arms where none are asked for; all of the run's size where there are none here.
    arms: &'static [&'static str],
    /// The least size of a run that has it.
    least: LiveSize,
    /// Laps in a quick run.
    laps_quick: usize,
}

const fn plan(name: &'static str, kind: Kind, least: LiveSize, laps_quick: usize) -> Plan {
    let (shape, shards, link, share) = (Shape::HttpLogs, SHARDS, LINK, SHARE);
    Plan { name, kind, shape, shards, link, share, arms: &[], least, laps_quick }
}

/// One of a full run alone.
const fn elsewhere(name: &'static str, shape: Shape, link: WanSettings) -> Plan {
    let of = plan(name, Kind::Copies, LiveSize::Full, 2);
    Plan { shape, link, arms: &ELSEWHERE, ..of }
}

const fn delayed(ms: u64) -> WanSettings {
    WanSettings { delay: Duration::from_millis(ms), ..LINK }
}

/// All of them. Tables are loaded when they change: those of one shape stand together.
fn all() -> [Plan; 10] {
    use LiveSize::Quick;
    let jitter = WanSettings { jitter: Duration::from_millis(10), ..LINK };
    let loss = WanSettings { loss: 0.000_1, ..LINK };
    [
        plan(HTTP_LOGS, Kind::Copies, Quick, 4),
        elsewhere("http_logs-20ms", Shape::HttpLogs, delayed(10)),
        elsewhere("http_logs-200ms", Shape::HttpLogs, delayed(100)),
        elsewhere("http_logs-jitter", Shape::HttpLogs, jitter),
        elsewhere("http_logs-loss", Shape::HttpLogs, loss),
        // These add documents to the table.
        plan(WHILE_INDEXING, Kind::Indexing, Quick, 2),
        plan(FOLLOWING, Kind::Following, Quick, 2),
        Plan {
            share: SMALL,
            shards: SMALL_SHARDS,
            arms: &OF_SMALL,
            ..plan(SMALL_NODES, Kind::Copies, Quick, 2)
        },
        elsewhere("geopoint", Shape::Geopoint, LINK),
        elsewhere("pmc", Shape::Pmc, LINK),
    ]
}

/// Whether the number of laps is a quick run's.
fn is_brief(options: &LiveOptions) -> bool {
    options.laps.is_none() && options.size == LiveSize::Quick
}

/// Names of scenarios that may be asked for.
pub(super) fn names() -> Vec<&'static str> {
    all().into_iter().map(|plan| plan.name).collect()
}

/// Those of a run, in their order.
pub(super) fn of(options: &LiveOptions) -> Vec<Plan> {
    let is_wanted = |plan: &Plan| match options.scenarios.is_empty() {
        true => plan.least == LiveSize::Quick || options.size == LiveSize::Full,
        false => options.scenarios.iter().any(|name| name == plan.name),
    };
    all().into_iter().filter(is_wanted).collect()
}

/// Documents of a table of a shape: some 100 MB of files.
pub(super) fn documents(shape: Shape) -> usize {
    match shape {
        Shape::Geopoint => 1_000_000,
        Shape::Pmc => 40_000,
        Shape::HttpLogs | Shape::Places => 800_000,
    }
}

impl Plan {
    /// Its arms; the raw copy is the first.
    pub(super) fn arms(&self, options: &LiveOptions) -> Vec<RemoteArm> {
        let wanted: Vec<String> = match options.variants.is_empty() {
            true => self.arms.iter().map(|name| (*name).to_owned()).collect(),
            false => options.variants.clone(),
        };
        arms(options.size, &wanted, self.link.rate_bytes_s)
    }

    /// Laps of each arm, where a run has so many.
    pub(super) fn laps(&self, options: &LiveOptions, laps: usize) -> usize {
        match is_brief(options) {
            true => laps.min(self.laps_quick),
            false => laps,
        }
    }

    /// The same of one arm: in a quick run the fixed ones, which take longest and differ most, have
    /// fewer.
    pub(super) fn laps_of(&self, arm: &RemoteArm, options: &LiveOptions, laps: usize) -> usize {
        let laps = self.laps(options, laps);
        match arm.way {
            Way::Fixed { .. } if is_brief(options) => laps.min(FIXED_LAPS_QUICK),
            _ => laps,
        }
    }

    /// Laps of all arms.
    pub(super) fn laps_of_all(&self, options: &LiveOptions, laps: usize) -> usize {
        self.arms(options).iter().map(|arm| self.laps_of(arm, options, laps)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::arms::AGAIN;
    use super::*;

    fn options(size: LiveSize, scenarios: &[&str]) -> LiveOptions {
        let scenarios = scenarios.iter().map(|name| (*name).to_owned()).collect();
        LiveOptions { size, scenarios, ..LiveOptions::new("remote-recovery").unwrap() }
    }

    #[test]
    fn a_full_run_has_all_and_others_those_of_the_quick_one() {
        let names_of = |size, scenarios: &[&str]| -> Vec<&str> {
            of(&options(size, scenarios)).iter().map(|plan| plan.name).collect()
        };
        let quick = [HTTP_LOGS, WHILE_INDEXING, FOLLOWING, SMALL_NODES];
        assert_eq!(names_of(LiveSize::Quick, &[]), quick);
        assert_eq!(names_of(LiveSize::Study, &[]), quick);
        assert_eq!(names_of(LiveSize::Full, &[]), names());
        assert_eq!(names_of(LiveSize::Quick, &["pmc", FOLLOWING]), [FOLLOWING, "pmc"]);
    }

    #[test]
    fn arms_and_laps_are_the_scenarios_unless_others_are_asked_for() {
        let quick = options(LiveSize::Quick, &[]);
        let plans = of(&quick);
        let names = |plan: &Plan, options: &LiveOptions| -> Vec<&str> {
            plan.arms(options).iter().map(|arm| arm.name).collect()
        };
        let of_quick = [RAW, AGAIN, RAW_4, "1m-1", DEFAULT, "1m-5+deflate", OURS];
        assert_eq!(names(&plans[0], &quick), of_quick);
        let small = plans.iter().find(|plan| plan.name == SMALL_NODES).expect("it is there");
        assert_eq!((names(small, &quick), small.shards), (OF_SMALL.to_vec(), 1));
        let asked = LiveOptions { variants: vec![OURS.to_owned()], laps: Some(9), ..quick.clone() };
        assert_eq!(names(small, &asked), [RAW, OURS]);
        assert_eq!((small.laps(&quick, 5), small.laps(&asked, 9)), (2, 9));
        // Three raw copies and ours four times, three fixed arms twice.
        assert_eq!(plans[0].laps_of_all(&quick, 5), 4 * 4 + 3 * 2);
        let nine = LiveOptions { laps: Some(9), ..quick.clone() };
        assert_eq!(plans[0].laps_of_all(&nine, 9), 7 * 9);
        for plan in all().iter().filter(|plan| plan.least == LiveSize::Full) {
            assert_eq!(names(plan, &quick).len(), ELSEWHERE.len(), "{}", plan.name);
        }
    }
}
