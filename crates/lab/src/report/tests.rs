//! Reports: what stands in them, and that names stay text.

use super::wording::figures;
use super::*;

#[test]
fn numbers_have_six_figures() {
    let cases = [
        (95.786_64, "95.7866"),
        (1003.29, "1003.29"),
        (0.5, "0.5"),
        (2_000_000.0, "2000000"),
        (0.0, "0"),
        (f64::NAN, "n/a"),
    ];
    for (value, text) in cases {
        assert_eq!(figures(value), text);
    }
}

#[test]
fn a_table_aligns_numbers_to_the_right() {
    let mut table = Table::new("heading", &["Metric", "Lap 1"]);
    table.row(["p50", "1003.29"]);
    table.row(["a longer name", "7"]);
    assert_eq!(
        table.to_string(),
        "heading\nMetric           Lap 1\np50            1003.29\na longer name        7\n\n"
    );
}

#[test]
fn a_name_cannot_become_markup() {
    let mut results = crate::experiments::tiny();
    results.experiment = "<script>alert(1)</script>".to_owned();
    results.scenarios[0].name = "\"><img src=x>".to_owned();
    let page = page(&results, &Plots::default());
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    assert!(page.contains("&lt;script&gt;"));
}

/// The names that scripts rely on, at every level of the file.
#[test]
fn the_result_has_the_shape_that_scripts_rely_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = crate::SimulateOptions {
        experiment: "overload-step".to_owned(),
        nodes: None,
        size: crate::Size::Quick,
        seed: 3,
        out: Some(dir.path().to_owned()),
    };
    let outcome = crate::simulate(&options, &mut crate::experiments::Silent).expect("it runs");
    let text = std::fs::read_to_string(dir.path().join(crate::RESULT_FILE)).expect("a file");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort_unstable();
        names
    };
    let scenario = &json["scenarios"][0];
    let lap = &scenario["variants"][0]["laps"][0];
    for (value, names) in [
        (
            &json,
            &["schema_version", "experiment", "mode", "host", "seed", "scenarios", "comparisons"][..],
        ),
        (scenario, &["name", "fault", "load", "variants"]),
        (&scenario["fault"], &["kind", "fit"]),
        (&scenario["load"], &["rate_ops_s"]),
        (&scenario["variants"][0], &["name", "settings", "laps"]),
        (
            lap,
            &[
                "valid",
                "reason",
                "n",
                "throughput_ops_s",
                "latency_ms",
                "service_time_ms",
                "error_rate",
                "refused_rate",
                "cpu_s",
                "rss_peak_bytes",
                "segment_count",
                "memory",
                "nodes",
            ],
        ),
        (&lap["throughput_ops_s"], &["min", "median", "mean", "max"]),
        (&lap["latency_ms"], &["mean", "min", "p50", "p90", "p99", "p99_9", "p99_99", "p100"]),
        (
            &lap["nodes"][0],
            &["name", "completed", "rejected", "cpu_s", "io_bytes", "net_bytes", "frames"],
        ),
        (
            &json["comparisons"][0],
            &[
                "scenario",
                "baseline",
                "contender",
                "metric",
                "change_percent",
                "ci95",
                "resolved",
                "published_change_percent",
                "published_as",
            ],
        ),
    ] {
        let mut found = keys(value);
        found.sort_unstable();
        assert_eq!(found, sorted(names));
    }
    assert_eq!((&json["mode"], &json["schema_version"]), (&"simulated".into(), &1.into()));

    // The reports can be made again from the files, and are the same.
    let page = std::fs::read_to_string(dir.path().join(crate::PAGE_FILE)).expect("a file");
    std::fs::remove_file(dir.path().join(crate::PAGE_FILE)).expect("it was there");
    assert_eq!(crate::report(dir.path()).expect("files"), outcome.text);
    let again = std::fs::read_to_string(dir.path().join(crate::PAGE_FILE)).expect("a file");
    assert_eq!(again, page);

    std::fs::write(dir.path().join(crate::RESULT_FILE), "{").expect("written");
    let error = crate::report(dir.path()).expect_err("half a file");
    assert!(error.to_string().contains("result.json"), "{error}");
}
