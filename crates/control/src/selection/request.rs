//! What a rule of selection is asked, and why a request failed.

use super::node_id::NodeId;
use crate::load_line::{Class, LoadLine};

/// One copy that could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is.
    pub node: NodeId,
    /// What choosing it costs beyond time, such as traffic between zones, as microseconds of
    /// latency that would be accepted to avoid it. 0 within the zone.
    pub zone_penalty_us: u32,
}

impl Candidate {
    /// A candidate without a penalty.
    #[must_use]
    pub const fn near(node: NodeId) -> Self {
        Self { node, zone_penalty_us: 0 }
    }
}

/// What is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of work.
    pub class: Class,
    /// The partition; rotation goes round each one's copies separately.
    pub partition: u64,
}

/// Why a request got no answer of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The node said that it is too busy.
    Refused,
    /// The node answered with an error of its own (not one that the request deserves).
    Error,
    /// No answer within the deadline.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// The time that the request had been given; it counts as if it had taken at least this long.
    pub deadline_ns: u64,
    /// The load line on the refusal, where there was one.
    pub line: Option<LoadLine>,
}
