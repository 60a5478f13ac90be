//! How a run has a second cluster: drawn with its plan.

use std::time::Duration;

use plimsoll_base::Random;

/// How a run has a second cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many nodes it has.
    pub nodes: usize,
    /// When it is asked to follow, ms since the run began.
    pub begins_ms: u64,
}

impl Shape {
    /// That of a seed.
    pub(crate) fn drawn(random: &Random, duration: Duration) -> Self {
        let mut chance = random.of("follower's shape");
        let third_ms = u64::try_from(duration.as_millis() / 3).unwrap_or(u64::MAX);
        Self { nodes: 3, begins_ms: chance.below(third_ms.max(1)) }
    }
}
