//! The course of a lap of copying or following, looked at once a second: in columns of equal length,
//! counted from the lap's beginning.

use serde::{Deserialize, Serialize};

/// What crossed the link, and what both ends did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyCourse {
    /// Seconds from the start.
    pub at_s: Vec<f64>,
    /// Bytes of files that the copy had; empty where no files are copied.
    pub bytes: Vec<u64>,
    /// Bytes that the link had carried, both ways.
    pub wire_bytes: Vec<u64>,
    /// The window as the link sees it: bytes on their way to the copy, queues of the link among them.
    pub under_way_bytes: Vec<u64>,
    /// The two ends: the leader's, then the follower's.
    pub nodes: Vec<NodeCourse>,
}

/// One end of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeCourse {
    /// The node's name.
    pub name: String,
    /// Its processor time.
    pub cpu_s: Vec<f64>,
    /// Bytes that went into the link at its end. What is copied raw is not the node's.
    pub sent_bytes: Vec<u64>,
    /// Bytes that came out of the link at its end.
    pub received_bytes: Vec<u64>,
}
