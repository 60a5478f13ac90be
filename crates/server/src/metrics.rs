//! What Prometheus reads: where figures are recorded. Only latencies are recorded as they happen; counters that
//! others keep are copied when they are asked for, in `render.rs`.

mod render;

use std::time::Duration;

use metrics::{Histogram, Key, Label, Level, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

/// A class of work with a latency of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Row commands that ran together, all of them reads.
    Read,
    /// Row commands that ran together, a write among them.
    Write,
    /// An EXEC.
    Transaction,
    /// One of the server's own commands.
    Connection,
}

/// The classes by their label.
const CLASSES: [(Class, &str); 4] = [
    (Class::Read, "read"),
    (Class::Write, "write"),
    (Class::Transaction, "transaction"),
    (Class::Connection, "connection"),
];

/// Upper bounds of the histogram, in seconds: from a read out of memory to a stalled disk.
const BOUNDS_SECONDS: [f64; 16] = [
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
    0.1, 0.5, 1.0, 10.0,
];

const RUN_SECONDS: &str = "plimsoll_resp_run_duration_seconds";
const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// The recorder and the handles that are used often.
pub struct Metrics {
    recorder: PrometheusRecorder,
    took: [Histogram; CLASSES.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(RUN_SECONDS.to_owned()), &BOUNDS_SECONDS)
            .expect("the bounds are not empty")
            .build_recorder();
        recorder.describe_histogram(
            RUN_SECONDS.into(),
            Some(Unit::Seconds),
            "Time that commands of one connection which ran together took, without the socket"
                .into(),
        );
        let took = CLASSES.map(|(_, label)| {
            recorder.register_histogram(&key(RUN_SECONDS, Some(("class", label.into()))), &METADATA)
        });
        Self { recorder, took }
    }
}

impl Metrics {
    /// Records how long work of a class took.
    pub fn took(&self, class: Class, took: Duration) {
        let at = CLASSES.iter().position(|(known, _)| *known == class);
        self.took[at.expect("every class stands in the table")].record(took.as_secs_f64());
    }

    /// Sorts recorded latencies into their buckets; to be called every second or so, because
    /// they take memory until then.
    pub fn run_upkeep(&self) {
        self.recorder.handle().run_upkeep();
    }

    fn count(&self, name: &'static str, label: Option<(&'static str, SharedString)>, value: u64) {
        self.recorder.register_counter(&key(name, label), &METADATA).absolute(value);
    }

    fn show(&self, name: &'static str, label: Option<(&'static str, SharedString)>, value: f64) {
        self.recorder.register_gauge(&key(name, label), &METADATA).set(value);
    }
}

fn key(name: &'static str, label: Option<(&'static str, SharedString)>) -> Key {
    let labels = label.map(|(name, value)| Label::new(name, value));
    Key::from_parts(name, labels.into_iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_end_in_their_bucket() {
        let metrics = Metrics::default();
        metrics.took(Class::Write, Duration::from_millis(3));
        metrics.run_upkeep();
        let page = metrics.recorder.handle().render();
        for line in [
            "plimsoll_resp_run_duration_seconds_bucket{class=\"write\",le=\"0.002\"} 0",
            "plimsoll_resp_run_duration_seconds_bucket{class=\"write\",le=\"0.005\"} 1",
            "plimsoll_resp_run_duration_seconds_count{class=\"write\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }
}
