//! Every experiment in its quick form: it runs, tells what it promised to tell, and says the same
//! twice.

use super::*;
use crate::result::LoadNote;

fn quick(experiment: &str) -> SimulateOptions {
    SimulateOptions {
        experiment: experiment.to_owned(),
        nodes: None,
        size: Size::Quick,
        seed: 7,
        out: None,
    }
}

fn run(experiment: &str) -> (Results, Plots) {
    simulate(&quick(experiment), &mut Silent).expect("it runs")
}

fn change(results: &Results, scenario: &str, contender: &str, metric: &str) -> f64 {
    let found = results
        .comparisons
        .iter()
        .find(|one| one.scenario == scenario && one.contender == contender && one.metric == metric);
    found.map_or(f64::NAN, |one| one.change_percent)
}

#[test]
fn an_unknown_experiment_names_the_known_ones() {
    let error = simulate(&quick("nothing"), &mut Silent).expect_err("there is none");
    assert!(error.to_string().contains("replica-selection"), "{error}");
}

#[test]
fn a_listener_can_stop_a_run() {
    struct Impatient;
    impl Progress for Impatient {
        fn note(&mut self, _: &str) {}

        fn step(&mut self, _: usize, _: usize, _: &str) -> bool {
            false
        }
    }
    let stopped = simulate(&quick("scale"), &mut Impatient);
    assert!(matches!(stopped, Err(LabError::Stopped)));
}

#[test]
fn the_selection_study_comes_out_as_published() {
    let (results, plots) = run("replica-selection");
    let names: Vec<&str> = results.scenarios.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, situation::SCENARIOS);
    let variants: Vec<&str> =
        results.scenarios[0].variants.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(variants[..5], ["off", "c3", "c3_first", "c3_proposed", "ours"]);
    assert!(matches!(results.scenarios[0].load, LoadNote::Clients(100)));
    // Even in the quick form the fit leaves the prediction within sight of what was published.
    let throughput = change(&results, "one-replica-loaded", "c3", "throughput_ops_s.median");
    assert!((60.0..=150.0).contains(&throughput), "{throughput}");
    let p90 = change(&results, "four-replicas-loaded", "c3", "latency_ms.p90");
    assert!((-70.0..=-25.0).contains(&p90), "{p90}");
    assert!(plots.findings.iter().any(|one| one.what.contains("throughput kept by ours")));
    assert!(plots.series.iter().any(|one| one.scenario == "pmc" && one.variant == "off"));
}

#[test]
fn the_queue_study_comes_out_as_published() {
    let (results, plots) = run("admission-queue");
    assert_eq!(results.scenarios.len(), 1);
    let variants: Vec<&str> =
        results.scenarios[0].variants.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(variants[..4], ["fixed", "littles_law_5s", "littles_law_4s", "ours"]);
    let lap = &results.scenarios[0].variants[1].laps[0];
    let stressed = lap.nodes.last().expect("nodes");
    let frame = stressed.frames.first().expect("a frame");
    assert_eq!(frame.capacity, Some(950));
    assert_eq!(
        frame.optimal,
        Some(plimsoll_control::average::whole((frame.tasks_s * 5.0).floor()))
    );
    assert!(plots.findings.iter().any(|one| one.what.starts_with("littles_law_5s")));
}

#[test]
fn experiments_beyond_the_studies_tell_their_findings() {
    for name in ["open-loop", "load-ramp", "sick-copies", "overload-step", "controllers", "scale"] {
        let (results, plots) = run(name);
        assert!(!results.scenarios.is_empty() && !plots.findings.is_empty(), "{name}");
        let laps = results.scenarios.iter().flat_map(|s| &s.variants).flat_map(|v| &v.laps);
        assert!(laps.clone().all(|lap| lap.valid), "{name}");
        assert!(laps.clone().any(|lap| lap.n > 0), "{name}");
    }
}

#[test]
fn with_admission_on_no_controller_makes_another_worse() {
    // Pacing pays back over whole bursts of writes, so the runs are as long as the study's.
    let mut plan = controllers::plan(&Setup { size: Size::Study, nodes: None });
    plan.jobs.retain(|job| job.variant.contains("admission"));
    plan.jobs.iter_mut().for_each(|job| job.laps = 1);
    let (results, _) = plan::carry_out(&plan, 1, &mut Silent).expect("nobody stops it");
    let goodput = |scenario: &str, set: u32| {
        let name = controllers::name_of(set);
        compare::value(&results, scenario, &name, "throughput_ops_s.mean")
    };
    let mut compared = 0;
    for scenario in &results.scenarios {
        for set in 0..16u32 {
            let Some(own) = goodput(&scenario.name, set) else { continue };
            for part in (0..4).map(|at| set & !(1 << at)).filter(|part| *part != set) {
                let Some(without) = goodput(&scenario.name, part) else { continue };
                let name = &scenario.name;
                // Breakers are an insurance: where the other three already keep the memory free
                // they cost up to a twentieth in overload, for runs that had to be given up.
                assert!(own >= 0.94 * without, "{name}: {set:04b} {own}, {part:04b} {without}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 3 * 12);
}

#[test]
fn two_threads_and_the_same_seed_give_the_same_result() {
    let once = run("overload-step");
    assert_eq!(run("overload-step"), once);
    let other = simulate(&SimulateOptions { seed: 8, ..quick("overload-step") }, &mut Silent);
    assert_ne!(other.expect("it runs").0, once.0);
}
