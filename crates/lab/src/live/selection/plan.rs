//! Which scenarios a run of `replica-selection` has, with which arms, and how many laps that makes.
//! It decides by what was asked for alone; it knows no cluster and runs nothing.

use super::arms::{AGAIN, MAIN, OURS, USUAL};
use crate::live::context::Arm;
use crate::live::options::{LiveOptions, LiveSize};

pub(crate) const ONE: &str = "one-replica";
pub(crate) const FOUR: &str = "four-replicas";
pub(crate) const ONE_LOADED: &str = "one-replica-loaded";
pub(crate) const FOUR_LOADED: &str = "four-replicas-loaded";
/// Open loops on the stressed cluster, and at the same rates without the stress.
pub(crate) const OPEN: &str = "one-replica-loaded-open";
pub(crate) const ROUND_ROBIN: &str = "round-robin";
/// The five operations of the articles.
pub(crate) const PMC: &str = "pmc";

/// All that may be asked for.
const ALL: [&str; 7] = [ONE, FOUR, ONE_LOADED, OPEN, FOUR_LOADED, ROUND_ROBIN, PMC];
/// Those of a run that is not full.
const MOST: [&str; 3] = [ONE, ONE_LOADED, FOUR_LOADED];

/// Parts of what the stressed cluster can do that open loops ask for, %.
pub(crate) const PERCENTS: [u32; 3] = [30, 60, 90];
/// Scenarios of the articles, and their operations.
pub(crate) const ARTICLE_SCENARIOS: [(&str, &str); 5] = [
    (PMC, "default"),
    ("pmc-term", "term"),
    ("pmc-phrase", "phrase"),
    ("pmc-articles-monthly-agg-uncached", "articles-monthly-agg-uncached"),
    ("pmc-articles-monthly-agg-cached", "articles-monthly-agg-cached"),
];

/// Names of scenarios that may be asked for.
pub(crate) fn scenarios() -> Vec<&'static str> {
    ALL.to_vec()
}

/// What a run has.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    scenarios: Vec<&'static str>,
    /// Arms that were asked for by name take part in everything.
    has_named_arms: bool,
}

impl Plan {
    /// The scenarios that were asked for, else those of the size.
    pub(crate) fn new(options: &LiveOptions) -> Self {
        let is_there = |name: &&str| match (options.scenarios.is_empty(), options.size) {
            (true, LiveSize::Full) => true,
            (true, _) => MOST.contains(name),
            (false, _) => options.scenarios.iter().any(|one| one == name),
        };
        Self {
            scenarios: ALL.into_iter().filter(is_there).collect(),
            has_named_arms: !options.variants.is_empty(),
        }
    }

    /// Whether a scenario runs.
    pub(crate) fn has(&self, scenario: &str) -> bool {
        self.scenarios.contains(&scenario)
    }

    /// Whether a stress is fitted to what the cluster does in this scenario.
    pub(crate) fn has_stress_of(&self, healthy: &str) -> bool {
        match healthy {
            ONE => self.has(ONE_LOADED) || self.has(OPEN),
            FOUR => self.has(FOUR_LOADED),
            _ => false,
        }
    }

    /// The arms of a scenario, of those of the run. All arms everywhere would make a full run longer
    /// by more than an hour.
    pub(crate) fn arms(&self, scenario: &str, of_run: &[Arm]) -> Vec<Arm> {
        let is_by_size = !self.has_named_arms;
        let is_kept = |arm: &&Arm| match scenario {
            OPEN | PMC if is_by_size => MAIN.contains(&arm.name.as_str()),
            FOUR | ROUND_ROBIN if is_by_size => USUAL.contains(&arm.name.as_str()),
            _ => true,
        };
        // The baseline is compared with itself where nothing is wrong with the cluster.
        let again = of_run.first().filter(|_| scenario == ONE);
        let again = again.map(|first| Arm { name: AGAIN.to_owned(), ..first.clone() });
        of_run.iter().filter(is_kept).cloned().chain(again).collect()
    }

    /// Laps that it makes outside of fits: the paired ones, and the one before each scenario.
    pub(crate) fn steps(&self, laps: usize, of_run: &[Arm]) -> usize {
        let ours = of_run.iter().filter(|arm| arm.name == OURS).count();
        let steps = |scenario: &&str| {
            let once = laps * self.arms(scenario, of_run).len() + 1;
            match *scenario {
                OPEN => PERCENTS.len() * (once + ours * (laps + 1)),
                PMC => ARTICLE_SCENARIOS.len() * once,
                _ => once,
            }
        };
        self.scenarios.iter().map(steps).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::arms::arms;
    use super::*;

    fn options(size: LiveSize, variants: &[&str], scenarios: &[&str]) -> LiveOptions {
        let owned = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let mut options = LiveOptions::new("replica-selection").unwrap();
        options.size = size;
        options.variants = owned(variants);
        options.scenarios = owned(scenarios);
        options
    }

    fn steps(options: &LiveOptions, laps: usize) -> usize {
        Plan::new(options).steps(laps, &arms(options.size, &options.variants))
    }

    fn names(options: &LiveOptions, scenario: &str) -> Vec<String> {
        let arms = Plan::new(options).arms(scenario, &arms(options.size, &options.variants));
        arms.into_iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn a_size_has_its_scenarios() {
        assert_eq!(Plan::new(&options(LiveSize::Quick, &[], &[])).scenarios, MOST);
        assert_eq!(Plan::new(&options(LiveSize::Study, &[], &[])).scenarios, MOST);
        assert_eq!(Plan::new(&options(LiveSize::Full, &[], &[])).scenarios, ALL);
    }

    #[test]
    fn only_what_was_asked_for_runs_whatever_the_size() {
        for size in [LiveSize::Quick, LiveSize::Study, LiveSize::Full] {
            let plan = Plan::new(&options(size, &[], &[PMC, FOUR_LOADED]));
            assert_eq!(plan.scenarios, [FOUR_LOADED, PMC]);
            assert!(plan.has_stress_of(FOUR) && !plan.has_stress_of(ONE));
        }
        let open = Plan::new(&options(LiveSize::Quick, &[], &[OPEN]));
        assert!(open.has_stress_of(ONE) && !open.has(ONE_LOADED) && !open.has_stress_of(FOUR));
    }

    #[test]
    fn in_full_the_long_scenarios_have_fewer_arms() {
        let full = options(LiveSize::Full, &[], &[]);
        for scenario in [FOUR, ROUND_ROBIN] {
            assert_eq!(names(&full, scenario), ["off", "c3", "ours", "ours+hedging"]);
        }
        for scenario in [OPEN, PMC] {
            assert_eq!(names(&full, scenario), ["off", "c3", "ours"]);
        }
        assert_eq!(names(&full, ONE_LOADED).len(), 7);
        assert_eq!(names(&full, ONE).last().map(String::as_str), Some(AGAIN));
        let named = options(LiveSize::Full, &["prequal"], &[]);
        for scenario in [FOUR, ROUND_ROBIN, OPEN, PMC, ONE_LOADED] {
            assert_eq!(names(&named, scenario), ["off", "prequal"], "{scenario}");
        }
    }

    #[test]
    fn steps_are_the_laps_of_all_scenarios() {
        // 4, 3 and 3 arms, and a lap before each of three scenarios.
        assert_eq!(steps(&options(LiveSize::Quick, &[], &[]), 5), 53);
        // 8, 4, 7, 7 and 4 arms; 3 at three rates and ours alone at them; 3 in five operations.
        let full = options(LiveSize::Full, &[], &[]);
        assert_eq!(steps(&full, 10), 10 * (30 + 9 + 3 + 15) + 5 + 6 + 5);
        assert_eq!(steps(&options(LiveSize::Quick, &[], &[OPEN]), 5), 5 * 12 + 6);
        // Without ours there is nothing to set beside the unloaded cluster.
        assert_eq!(steps(&options(LiveSize::Quick, &["c3"], &[OPEN]), 5), 5 * 6 + 3);
    }

    #[test]
    fn a_full_run_leaves_ten_of_its_ninety_minutes_to_fits_and_loading() {
        let full = options(LiveSize::Full, &[], &[]);
        let lap = full.warm_up + full.window;
        let all = lap * u32::try_from(steps(&full, 10)).unwrap();
        assert!(all.as_secs() < 80 * 60, "{all:?}");
    }
}
