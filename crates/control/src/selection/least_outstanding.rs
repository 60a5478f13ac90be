//! Fewest own requests unanswered, ties at random. It needs no report, sees no other coordinator
//! and treats a fast failure as a fast answer.

use super::request::Candidate;
use super::rule_state::{RuleState, Scene};
use crate::random::Random;

#[derive(Clone, Debug, Default)]
pub(super) struct LeastOutstanding;

impl RuleState for LeastOutstanding {
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize {
        let out = |at: &usize| scene.book.outstanding(scene.candidates[*at].node);
        let start = random.below(scene.candidates.len());
        let turned = (0..scene.candidates.len()).map(|at| (at + start) % scene.candidates.len());
        turned.min_by_key(out).unwrap_or(0)
    }

    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64 {
        f64::from(scene.book.outstanding(candidate.node))
    }
}
