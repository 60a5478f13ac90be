//! The tables of the queue study: the load generator's, one row a lap as it has one a generator,
//! and for a healthy and the stressed node the row that the queue writes after every frame.

use super::table::Table;
use crate::published::{QUEUE, QueueStudy};
use crate::result::{Lap, Scenario, Variant};

/// Rows of a frame table that are shown; all are in the files.
const FRAMES_SHOWN: usize = 24;

pub(crate) fn scenario(scenario: &Scenario) -> String {
    let mut text = published();
    for variant in &scenario.variants {
        text.push_str(&generator(variant).to_string());
    }
    for variant in &scenario.variants {
        let Some(lap) = variant.laps.first() else { continue };
        let sized = lap.nodes.iter().any(|node| node.frames.iter().any(|f| f.optimal.is_some()));
        if sized {
            for at in [0, lap.nodes.len().saturating_sub(1)] {
                text.push_str(&frames(variant, lap, at));
            }
        }
    }
    text
}

const COLUMNS: [&str; 7] = ["Lap", "total time", "q/s", "Avg (ms)", "Min", "Max", "Error"];

fn generator(variant: &Variant) -> Table {
    let mut table = Table::new(&format!("load generator, {}", variant.name), &COLUMNS);
    for (number, lap) in variant.laps.iter().enumerate() {
        let rate = lap.throughput_ops_s.mean;
        let answered = lap.n as f64 * (1.0 - lap.error_rate);
        let whole = |value: Option<f64>| value.map_or("n/a".to_owned(), |ms| format!("{ms:.0}"));
        let errors = plimsoll_control::average::whole(lap.n as f64 * lap.error_rate);
        table.row([
            (number + 1).to_string(),
            clock(answered / rate.max(1e-9)),
            format!("{rate:.2}"),
            lap.latency_ms.mean.map_or("n/a".to_owned(), |ms| format!("{ms:.1}")),
            whole(lap.latency_ms.min),
            whole(lap.latency_ms.p100),
            errors.to_string(),
        ]);
    }
    table
}

/// The published runs, each as the sum and mean of its five generators.
fn published() -> String {
    let mut table = Table::new(&format!("published: {}", QUEUE.source), &COLUMNS);
    for run in &QUEUE.runs {
        table.row([
            format!("{} ({})", run.run, run.variant),
            run.instances.first().map_or(String::new(), |first| first.0.clone()),
            format!("{:.2}", QueueStudy::rate(run)),
            format!("{:.1}", QueueStudy::mean_ms(run)),
            run.instances.iter().map(|i| i.3).min().unwrap_or(0).to_string(),
            format!("{:.0}", QueueStudy::max_ms(run)),
            run.instances.iter().map(|i| i.5).sum::<u64>().to_string(),
        ]);
    }
    let mut nodes =
        Table::new("published tasks by node", &["Node", "Variant", "Handled", "Rejected", "%"]);
    for run in &QUEUE.nodes {
        for (node, handled) in &run.handled {
            let rejected = run.rejected.get(node).copied().unwrap_or(0);
            let percent = rejected as f64 / *handled as f64 * 100.0;
            nodes.row([
                node.clone(),
                run.variant.clone(),
                handled.to_string(),
                rejected.to_string(),
                format!("{percent:.3}"),
            ]);
        }
    }
    format!("{table}{}\n\n{nodes}", QUEUE.note)
}

fn frames(variant: &Variant, lap: &Lap, at: usize) -> String {
    let Some(node) = lap.nodes.get(at) else { return String::new() };
    let columns = [
        "Frame",
        "Seconds",
        "Avg task (ms)",
        "Tasks/s",
        "Optimal",
        "Capacity",
        "Published optimal",
        "capacity",
    ];
    let heading = format!("{} of {}, first lap", node.name, variant.name);
    let mut table = Table::new(&heading, &columns);
    let published = QUEUE.frames.get(&node.name).filter(|_| variant.name == "littles_law_5s");
    let count = |value: Option<u64>| value.map_or("n/a".to_owned(), |n| n.to_string());
    for (number, frame) in node.frames.iter().take(FRAMES_SHOWN).enumerate() {
        let row = published.and_then(|rows| rows.get(number));
        table.row([
            (number + 1).to_string(),
            format!("{:.1}", frame.seconds),
            format!("{:.1}", frame.avg_task_ms),
            format!("{:.2}", frame.tasks_s),
            count(frame.optimal),
            count(frame.capacity),
            count(row.map(|row| row.3)),
            count(row.map(|row| row.4)),
        ]);
    }
    let left = node.frames.len().saturating_sub(FRAMES_SHOWN);
    format!("{table}{left} more in result.json\n\n")
}

/// Seconds as h:mm:ss.
fn clock(seconds: f64) -> String {
    let all = plimsoll_control::average::whole(seconds);
    format!("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60)
}
