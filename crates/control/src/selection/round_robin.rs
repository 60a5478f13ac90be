//! Rotation: each partition's copies in turn, whatever their state. It is what Elasticsearch did
//! before adaptive selection and still does for reads by key, and the baseline of every
//! comparison.

use super::request::Candidate;
use super::rule_state::{RuleState, Scene};
use crate::random::Random;

/// Counters shared by the partitions; two that share one only rotate a little less evenly.
const COUNTERS: usize = 1024;

#[derive(Clone, Debug)]
pub(super) struct RoundRobin {
    next: Vec<usize>,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self { next: vec![0; COUNTERS] }
    }
}

impl RuleState for RoundRobin {
    fn pick(&mut self, scene: &Scene<'_>, _random: &mut Random) -> usize {
        let slot = usize::try_from(scene.ask.partition % COUNTERS as u64).unwrap_or(0);
        let turn = self.next[slot];
        self.next[slot] = turn.wrapping_add(1);
        turn % scene.candidates.len()
    }

    fn cost(&self, _scene: &Scene<'_>, _candidate: Candidate) -> f64 {
        0.0
    }
}
