//! The study of what circuit breakers cost: averages by machine, arm and threads. The runs of its older
//! form are not here: it says itself that there were too few documents to count.

use std::sync::LazyLock;

use serde::Deserialize;

use super::file::parse;

/// The study.
#[derive(Debug, Deserialize)]
pub(crate) struct BreakerStudy {
    pub(crate) source: String,
    pub(crate) note: String,
    /// What a request was charged with at most, MiB.
    pub(crate) charged_mib: f64,
    averages: Vec<BreakerRun>,
}

/// So many threads of one arm on one machine, run once or several times.
#[derive(Debug, Deserialize)]
struct BreakerRun {
    machine: String,
    variant: String,
    threads: usize,
    /// The average `took` of each run, ms.
    took_ms: Vec<f64>,
}

impl BreakerStudy {
    /// The averages of an arm at so many threads, in words; none where there is none.
    pub(crate) fn said(&self, variant: &str, threads: usize) -> Option<String> {
        let is_it = |it: &&BreakerRun| it.variant == variant && it.threads == threads;
        let one = |it: &BreakerRun| {
            let runs: Vec<String> = it.took_ms.iter().map(f64::to_string).collect();
            format!("{} {} ms", it.machine, runs.join(", "))
        };
        let all: Vec<String> = self.averages.iter().filter(is_it).map(one).collect();
        (!all.is_empty()).then(|| format!("2014: {}", all.join("; ")))
    }

    /// By how many percent the average with a breaker was above that without, at so many threads, by
    /// machine.
    pub(crate) fn changes(&self, threads: usize) -> Vec<(String, f64)> {
        let of = |machine: &str, variant: &str| {
            let is_it = |it: &&BreakerRun| {
                it.machine == machine && it.variant == variant && it.threads == threads
            };
            self.averages.iter().find(is_it).map(|it| crate::stats::mean(&it.took_ms))
        };
        ["laptop", "desktop"]
            .into_iter()
            .filter_map(|machine| {
                let change = (of(machine, "on")? / of(machine, "noop")? - 1.0) * 100.0;
                Some((format!("2014 {machine}"), change))
            })
            .collect()
    }
}

pub(crate) static BREAKERS: LazyLock<BreakerStudy> =
    LazyLock::new(|| parse(include_str!("../../published/breaker_overhead.json")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_is_found_by_arm_and_threads() {
        let said = BREAKERS.said("on", 1).expect("it is there");
        assert_eq!(said, "2014: laptop 436, 476 ms; desktop 192, 205, 199, 187 ms");
        assert_eq!(BREAKERS.said("layerless", 1), None);
        let changes = BREAKERS.changes(30);
        assert_eq!(changes.len(), 1, "the laptop ran no thirty");
        assert!((changes[0].1 - (1939.0 / 1972.0 - 1.0) * 100.0).abs() < 1e-9);
    }
}
