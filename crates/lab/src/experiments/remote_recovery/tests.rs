//! The experiment at its quick size: the fit, what it is judged by, and that it says what it lacks.

use super::*;
use crate::experiments::Silent;

fn quick() -> (Results, Vec<Finding>) {
    let options = SimulateOptions {
        experiment: "remote-recovery".to_owned(),
        nodes: None,
        size: crate::Size::Quick,
        seed: 1,
        out: None,
    };
    let (results, _, findings) = simulate(&options, &mut Silent).expect("nobody stops it");
    (results, findings)
}

#[test]
fn the_runs_that_were_not_fitted_come_out_as_published() {
    let (results, findings) = quick();
    let judged: Vec<&Finding> = findings.iter().filter(|it| it.reached.is_some()).collect();
    let of = |name: &str| judged.iter().find(|it| it.what.contains(name));
    for name in JUDGED {
        assert_eq!(of(name).and_then(|it| it.reached), Some(true), "{name}: {:?}", of(name));
    }
    // One stream of one chunk at a time is hopeless over an ocean, and the model says so too.
    let geopoint = results.scenarios.iter().find(|it| it.name == "geopoint").expect("it is there");
    let seconds = |name: &str| {
        let variant = geopoint.variants.iter().find(|it| it.name == name).expect("an arm");
        variant.laps[0].recovery.expect("a copy").recovery_seconds
    };
    assert!(seconds("64k-1") > 20.0 * seconds("1m-5") && seconds("1m-1") > 3.0 * seconds("1m-5"));
    assert!(findings.iter().any(|it| it.what == "deflate" && it.measured == "not simulated"));
}

#[test]
fn ours_fills_links_that_fixed_chunks_do_not() {
    let (results, findings) = quick();
    let of = |scenario: &str, variant: &str| {
        let scenario =
            results.scenarios.iter().find(|it| it.name == scenario).expect("it is there");
        let variant = scenario.variants.iter().find(|it| it.name == variant).expect("an arm");
        variant.laps[0].recovery.expect("a copy").share_of_raw
    };
    for trip_ms in [20, 100, 200] {
        let name = format!("http_logs-1gbs-{trip_ms}ms");
        assert!(of(&name, "ours") >= SHARE, "{name}: {}", of(&name, "ours"));
    }
    assert!(findings.iter().any(|it| it.what.starts_with("50-nodes")));
    let outages = findings.iter().filter(|it| it.what.starts_with("outage-24h"));
    let ways: Vec<&str> = outages.filter_map(|it| it.measured.split(',').next()).collect();
    assert_eq!(ways, ["by the log", "by difference", "by difference"]);
    // A result can be written, read and compared.
    let text = serde_json::to_string(&results).expect("it is JSON");
    let read = serde_json::from_str::<Results>(&text).expect("it is a result");
    let wire = |of: &Results| of.scenarios[0].variants[0].laps[0].recovery.map(|it| it.wire_bytes);
    assert!(wire(&read).is_some() && wire(&read) == wire(&results));
    assert!(text.contains("\"recovery_seconds\""));
}
