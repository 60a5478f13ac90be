//! The arms of `replica-selection`: each a rule, with all other controllers where the study had
//! them.

use serde_json::json;

use crate::live::context::Arm;
use crate::live::options::LiveSize;

/// The arm that is the baseline once more.
pub(crate) const AGAIN: &str = "off (again)";

/// The rule that all this is about.
pub(crate) const OURS: &str = "ours";
/// The first of all arms, without which a scenario says little.
pub(crate) const MAIN: [&str; 3] = ["off", "c3", OURS];
/// The first of all arms, which most runs have.
pub(crate) const USUAL: [&str; 4] = ["off", "c3", OURS, "ours+hedging"];

/// All arms, by name: rule and hedging.
const ARMS: [(&str, &str, &str); 7] = [
    ("off", "round_robin", "off"),
    ("c3", "c3", "off"),
    (OURS, "ours", "off"),
    ("ours+hedging", "ours", "on"),
    ("least_outstanding", "least_outstanding", "off"),
    ("p2c_peak_ewma", "p2c_peak_ewma", "off"),
    ("prequal", "prequal", "off"),
];

fn arm(name: &str, rule: &str, hedging: &str) -> Arm {
    let settings = [
        ("cluster.routing.use_adaptive_replica_selection", json!(rule != "round_robin")),
        ("cluster.routing.replica_selection", json!(rule)),
        ("cluster.routing.hedging", json!(hedging)),
        ("thread_pool.search.admission", json!("fixed")),
        ("thread_pool.search.queue_size", json!(1_000)),
    ];
    let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Arm { name: name.to_owned(), settings }
}

/// The arms of a run: those that were asked for, else what the size wants; the baseline is always
/// the first. Which of them a scenario has is `plan.rs`'s.
pub(crate) fn arms(size: LiveSize, wanted: &[String]) -> Vec<Arm> {
    let by_size = match size {
        LiveSize::Quick => MAIN.len(),
        LiveSize::Study => USUAL.len(),
        LiveSize::Full => ARMS.len(),
    };
    let is_wanted = |at: usize, name: &str| match wanted.is_empty() {
        true => at < by_size,
        false => at == 0 || wanted.iter().any(|one| one == name),
    };
    let all = ARMS.iter().enumerate().filter(|(at, (name, ..))| is_wanted(*at, name));
    all.map(|(_, (name, rule, hedging))| arm(name, rule, hedging)).collect()
}

/// Names of variants that may be asked for.
pub(crate) fn names() -> Vec<&'static str> {
    ARMS.iter().map(|(name, ..)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_those_asked_for_after_the_baseline() {
        let names = |size, wanted: &[&str]| -> Vec<String> {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            arms(size, &wanted).into_iter().map(|arm| arm.name).collect()
        };
        assert_eq!(names(LiveSize::Quick, &[]), ["off", "c3", "ours"]);
        assert_eq!(names(LiveSize::Quick, &["prequal"]), ["off", "prequal"]);
        assert_eq!(names(LiveSize::Full, &[]).len(), ARMS.len());
    }

    #[test]
    fn every_arm_says_where_all_controllers_stand() {
        for arm in arms(LiveSize::Full, &[]) {
            assert_eq!(arm.settings.len(), 5, "{arm:?}");
            assert_eq!(arm.settings["thread_pool.search.queue_size"], 1_000);
            let is_hedging = arm.settings["cluster.routing.hedging"] == "on";
            assert_eq!(is_hedging, arm.name == "ours+hedging");
        }
    }
}
