//! Fitting a model's unknowns to published runs *without* selection or adjustment. What the model
//! then says about runs with them is a prediction, and is reported beside what was published.

use std::collections::BTreeMap;

use crate::sim::{self, Outcome, RunSpec, Stop};

/// All fits draw from this seed, so that a fit does not depend on the seed of the experiment.
const SEED: u64 = 20_170_830;
/// Halvings of the range of one unknown: it is known within a thousandth of its range then.
const STEPS: usize = 9;

/// One unknown: how it enters a specification, where it may lie, and what is compared.
pub(crate) struct Unknown<'a> {
    pub(crate) name: &'static str,
    pub(crate) range: (f64, f64),
    /// Whether what is measured grows with it.
    pub(crate) rising: bool,
    pub(crate) target: f64,
    pub(crate) set: &'a dyn Fn(&mut RunSpec, f64),
    pub(crate) measure: &'a dyn Fn(&Outcome) -> f64,
}

/// Fits the unknowns one after another, `rounds` times over, because they are not independent.
/// `spec` is left at the fit.
pub(crate) fn fit(
    spec: &mut RunSpec,
    unknowns: &[Unknown<'_>],
    rounds: usize,
    requests: u64,
) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let stop = std::mem::replace(&mut spec.stop, Stop::Requests(requests));
    for _ in 0..rounds {
        for unknown in unknowns {
            let value = bisect(spec, unknown);
            (unknown.set)(spec, value);
            found.insert(unknown.name.to_owned(), (value * 1e3).round() / 1e3);
        }
    }
    spec.stop = stop;
    found
}

fn bisect(spec: &RunSpec, unknown: &Unknown<'_>) -> f64 {
    let (mut low, mut high) = unknown.range;
    for _ in 0..STEPS {
        // In the middle by ratio, because the unknowns are scales.
        let middle = (low * high).sqrt();
        let mut trial = spec.clone();
        (unknown.set)(&mut trial, middle);
        let measured = (unknown.measure)(&sim::run(&trial, SEED, false));
        if (measured > unknown.target) == unknown.rising { high = middle } else { low = middle }
    }
    (low * high).sqrt()
}

/// Answers a second over a whole run.
pub(crate) fn rate(outcome: &Outcome) -> f64 {
    let ended = outcome.sum(|window| window.answered + window.invalid);
    ended as f64 / (outcome.ended_ns.max(1) as f64 / 1e9)
}

/// A percentile of the response time, ms.
pub(crate) fn percentile(outcome: &Outcome, p: f64) -> f64 {
    outcome.latency_us().value_at_quantile(p) as f64 / 1e3
}
