//! Reports: what stands in them, and that names stay text.

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
