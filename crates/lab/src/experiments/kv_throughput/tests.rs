//! The experiment at its quick size: what was fitted is met, what was predicted is judged, and the same seed
//! says the same.

use super::*;
use crate::experiments::Silent;

fn quick(seed: u64) -> (Results, Vec<Finding>) {
    let options = SimulateOptions {
        experiment: "kv-throughput".to_owned(),
        nodes: None,
        size: Size::Quick,
        seed,
        out: None,
    };
    let (results, _, findings) = simulate(&options, &mut Silent).expect("nobody stops it");
    (results, findings)
}

#[test]
fn the_rows_of_a_version_follow_from_two_of_them_and_the_same_seed_says_the_same() {
    let (results, findings) = quick(1);
    let rows = results.scenarios.iter().find(|it| it.name == "rows-2.4.0").expect("it is there");
    assert_eq!(rows.variants.len(), 7);
    for variant in &rows.variants {
        let published = variant.settings["published_ops_s"].as_f64().expect("a rate");
        let off = variant.laps[0].throughput_ops_s.mean / published - 1.0;
        assert!(off.abs() <= 0.15, "{}: {off}", variant.name);
    }
    let fitted = findings.iter().filter(|it| it.aim.contains("(fitted)"));
    assert_eq!(fitted.count(), 4, "two rows of each version");
    let judged = findings.iter().filter(|it| it.aim.ends_with("within 15 %"));
    assert!(judged.count() >= 12);
    assert!(findings.iter().any(|it| it.aim == "an assumption, not a measurement"));
    let (again, found) = quick(1);
    assert_eq!((again, found), (results.clone(), findings));
    assert_ne!(quick(2).0.scenarios, results.scenarios);
}

#[test]
fn every_arm_is_told_beside_the_studys_bars() {
    let (results, findings) = quick(3);
    let limiter = results.scenarios.iter().find(|it| it.name == "limiter").expect("it is there");
    let names: Vec<&str> = limiter.variants.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["off", "limiter", "auto", "ours", "ours-small-pieces"]);
    assert_eq!(findings.iter().filter(|it| it.aim.starts_with("study: p99 ")).count(), 3);
    // A result can be written and read, with its course.
    let text = serde_json::to_string(&results).expect("it is JSON");
    let read = serde_json::from_str::<Results>(&text).expect("it is a result");
    let course = read
        .scenarios
        .iter()
        .find(|it| it.name == "limiter")
        .and_then(|it| it.variants[0].laps[0].rows.as_ref().map(|rows| rows.course.at_s.len()));
    assert!(course.is_some_and(|seconds| seconds >= 20));
}
